"""Wrong uses of the verbs, of rows, of the planner and of scikit-learn's estimators: each is one clear exception, none a crash, and
right ones work on. (Of networks and sessions: misuse_test.py.)"""
import array
import collections
import contextlib
import datetime
import decimal
import pathlib
import sqlite3
import tempfile
import unittest
import warnings

import common
import snug

try:
    import numpy as np
except ImportError:
    np = None
try:
    import pyarrow
except ImportError:
    pyarrow = None
try:
    import pandas
except ImportError:
    pandas = None
try:
    import sklearn
except ImportError:
    sklearn = None

INF, NAN = float("inf"), float("nan")
TINY = dict(model="bert-tiny", vocab_size=300, max_seq_length=16, train_batch_size=8, max_steps=1, memory="1GiB", threads=1)
# Values that no key takes, and what no call takes for one of its own.
STRANGE = (object(), b"bytes", bytearray(b"x"), 1j, {1, 2}, frozenset(), range(3), lambda: 1, type, NotImplemented, ..., decimal.Decimal("1.5"),
           datetime.date(2020, 1, 1), memoryview(b"x"), iter([]), "a\0b", "\ud800", [object()], [[object()]], {"a": object()}, {1: 2}, [b"x"], (1j,),
           "", [], {}, NAN, INF, -INF, 10 ** 400, -1, 2 ** 63, "no", True)


class Strange:
    """Lies about what it is."""

    columns = ("a",)

    def __len__(self):
        raise ValueError("Strange: len")

    def __iter__(self):
        raise ValueError("Strange: iter")

    def __array__(self, *_args, **_keys):
        raise ValueError("Strange: array")


class WrongUses(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)
        self.count = 0
        warnings.simplefilter("ignore")

    def wrong(self, call, *args, **keys):
        """One exception of a kind that says whose fault it is, with a text."""
        what = f"{getattr(call, '__qualname__', call)} {str(args)[:200]} {str(keys)[:300]}"
        self.count += 1
        try:
            found = call(*args, **keys)
        except (snug.Error, TypeError, ValueError, ImportError, FileNotFoundError, NotImplementedError) as error:
            self.assertGreater(len(str(error)), 5, what)
            self.assertNotEqual(getattr(error, "code", ""), "internal", f"{what}: {error}")
            return error
        except Exception as error:
            self.fail(f"{what}: {type(error).__name__}: {error}")
        self.fail(f"{what}: no error, but {str(found)[:200]}")

    def of_columns(self, rows, part, **keys):
        error = self.wrong(snug.train, TINY, train_file=rows, output_dir=self.folder / f"out{self.count}", **keys)
        self.assertIn(part, str(error))

    def tearDown(self):
        # Right uses work on.
        self.assertGreater(snug.plan(TINY).parameters, 0)
        self.assertEqual(snug.solve.placement(dict(lower=[0], upper=[1], size=[8]))["height"], 8)
        WrongUses.total = getattr(WrongUses, "total", 0) + self.count

    @classmethod
    def tearDownClass(cls):
        assert cls.total >= 200 or np is None or sklearn is None or pandas is None, f"only {cls.total} wrong uses"

    def test_configurations(self):
        for config in (3, 1.5, True, [("model", "mlp")], ("a",), object(), b"run.yaml", {1: 2}, {None: 1}, {"": 1}, {".file": "x"}, {"mo\0del": "x"},
                       {"\ud800": 1}, {("a", "b"): 1}, self.folder, self.folder / "none.yaml", "", "none.yaml", set(), lambda: 1):
            self.wrong(snug.plan, config, memory="1GiB")
        for verb in (snug.plan, snug.train, snug.evaluate, snug.predict, snug.tokenize, snug.levers, snug.explain, snug.verify):
            self.wrong(verb)
            self.wrong(verb, {})
            self.wrong(verb, dict(TINY, no_such_key=1))
            self.wrong(verb, dict(TINY), 3)
        error = self.wrong(snug.plan, dict(TINY, memry="1GiB"))
        self.assertIn("memory", error.hint)
        yaml = self.folder / "bad.yaml"
        for text in ("model: [", "- a\n- b\n", "model: bert-tiny\nmodel: mlp\n", "\0", "model: {a: b}\n"):
            yaml.write_text(text)
            self.wrong(snug.plan, yaml, memory="1GiB")

    def test_values_of_keys(self):
        fine = {("learning_rate", "9223372036854775808"), ("memory", "9223372036854775808"), ("memory", "-1"), ("bf16", "'no'"), ("bf16", "True")}
        for key in ("learning_rate", "train_batch_size", "memory", "bf16", "optim"):
            for value in STRANGE:
                if (key, repr(value)) not in fine:
                    self.wrong(snug.plan, {**TINY, key: value})
        for key, value in (("model", "bert-tny"), ("model", 3), ("model", self.folder), ("hidden_sizes", [8, "x"]), ("param_groups", [{"match": 1}]),
                           ("lora", {"rank": 1}), ("lora", "no json"), ("allow", ["nothing"]), ("max_grad_norm", -0.5), ("seed", -3), ("dropout", 0.1)):
            self.wrong(snug.plan, {**TINY, key: value})

    def test_a_comma_stands_between_elements(self):
        for key, value in (("freeze", ["*.bias,*.weight"]), ("freeze", ("*.bias", "a,b")), ("label_order", ["a,b", "c"]), ("allow", ["bf16,optim"])):
            self.assertIn("holds a comma", str(self.wrong(snug.plan, {**TINY, key: value})))
        self.assertGreater(snug.plan(TINY, freeze="*.bias,*.LayerNorm.weight").parameters, 0)  # as the command line has it
        rows = self.folder / "a,b.jsonl"
        rows.write_text('{"text": "a b", "label": "x"}\n{"text": "c", "label": "y"}\n')
        self.assertIn("data", snug.inspect(TINY, train_file=[rows]))

    def test_options_of_verbs(self):
        self.wrong(snug.plan, TINY, replay=self.folder / "none.json")
        self.wrong(snug.plan, TINY, replay=3)
        self.wrong(snug.plan(TINY).save, self.folder / "no" / "such" / "plan.json")
        self.wrong(snug.plan(TINY).save, None)
        self.wrong(snug.train, dict(TINY, train_file="x.jsonl", output_dir="/proc/no"))
        self.wrong(snug.predict, model=self.folder, test_file="x.jsonl", memory="1GiB")
        self.wrong(snug.merge, self.folder, self.folder, self.folder / "out")
        self.wrong(snug.merge, None, None, None)
        self.wrong(snug.convert, self.folder / "none.bin", self.folder / "out.safetensors")
        self.wrong(snug.convert, 3, b"x")
        self.wrong(snug.export, self.folder, self.folder / "out")
        self.wrong(snug.export, "none", "out", dtype="int4")
        self.wrong(snug.export, "none", "out", dtype=object())

    def test_rows(self):
        right = {"text": "a", "label": "x"}
        for rows, part in ((3, "has no rows"), (1.5, "has no rows"), (object(), "has no rows"), (b"rows", "has no rows"), ({"text": ["a"]}, "has no rows"), ([], "has no rows"),
                           (iter([]), "has no rows"), ([1], "not a dict"), ([None], "not a dict"), ([right, "x"], "not a dict"), ([[1, 2]], "not a dict"), ([()], "not a dict"),
                           ([{"text": object(), "label": "x"}], "'text'"), ([{"text": b"x", "label": "x"}], "bytes"), ([{"text": {1, 2}, "label": "x"}], "set"),
                           ([{"text": 1j, "label": "x"}], "complex"), *(([{"text": "a", "label": each}], f"a {type(each).__name__}") for each in (() if np is None else (np.longdouble(1),))), ([{"text": [b"x"], "label": "x"}], "bytes"), ([{"text": datetime.date(2020, 1, 1), "label": "x"}], "date"),
                           ([{"text": "a", "label": INF}], "[train_file:1] the column 'label' is inf"), ([right, {"text": "a\ud800", "label": "x"}], "[train_file:2] a text has half"), ([{"label": "x"}], "text"), ([{"txt": "a", "label": "x"}], "text"),
                           ([{"text": "a"}], ""), ([right, {"text": "a"}], ""), ([{"text": None, "label": "x"}], ""), ([{"text": NAN, "label": NAN}], ""),
                           ([{"text": ["a"], "label": "x"}], ""), ([{"text": {"a": 1}, "label": "x"}], "text"), ([{"text": "a", "label": {"a": 1}}], "label"),
                           ([{"text": "a", "label": [["x"]]}], "label"), ([{}], ""), ([{1: "a", 2: "x"}], "text"), ([{"text": 3, "label": "x"}], ""), (Strange(), ""), (["a"] * 3, "a")):
            self.of_columns(rows, part)

        def raising():
            yield right
            raise ValueError("from the caller's generator")

        self.of_columns(raising(), "caller's generator")
        self.of_columns(lambda: [right], "has no rows")
        self.of_columns(["a.jsonl", pathlib.Path("b,c.jsonl")], "'b,c.jsonl' has a comma")
        recursive = {"text": "a", "label": "x"}
        recursive["text"] = recursive
        self.of_columns([recursive], "")
        for key, value in (("text_column", "no"), ("label_column", "no"), ("text_pair_column", "no"), ("weight_column", "no"), ("weight_column", "text")):
            self.of_columns([right] * 9, "no" if value == "no" else "", **{key: value})
        self.of_columns([dict(right, w=-1.0)] * 9, "", weight_column="w")
        self.wrong(snug.train, TINY, train_file=[right], validation_file=3, output_dir=self.folder / "x")
        self.wrong(snug.train, TINY, train_file=[self.folder / "a.jsonl", right], output_dir=self.folder / "x")

    def test_rows_of_other_kinds_are_shown_the_way(self):
        pair = collections.namedtuple("pair", "text label")
        database = sqlite3.connect(":memory:")
        self.addCleanup(database.close)
        database.row_factory = sqlite3.Row
        of_database = database.execute("select 'a b' as text, 'x' as label").fetchall()
        cases = [([("a", "x")], "give each row as a dict"), ([pair("a", "x")], "row._asdict()"), (of_database, "dict(row)")]
        if pyarrow is not None:
            table = pyarrow.table({"text": ["a b"], "label": ["x"]})
            cases += [(table.to_batches()[0], "pyarrow.Table.from_batches"), (table.to_reader(), "rows.read_all()")]
        with contextlib.suppress(ImportError):
            import polars

            cases.append((polars.DataFrame({"text": ["a b"], "label": ["x"]}).lazy(), "rows.collect()"))
        for rows, fix in cases:
            with self.subTest(fix), self.assertRaises(snug.Error) as caught:
                snug.train(TINY, train_file=rows, output_dir=self.folder / "out")
            self.assertIn(fix, caught.exception.hint)
        for rows in ([pair("a", "x")._asdict()], map(dict, of_database)):
            snug.plan(TINY, train_file=rows, validation_split=0)

    def test_frames(self):
        if pandas is None:
            common.not_run(self, "pandas is not installed")
        frame = pandas.DataFrame({"text": ["a b", "b"], "label": ["x", "y"]})
        self.of_columns(pandas.DataFrame(), "has no rows")
        self.of_columns(frame[["text"]], "label")
        self.of_columns(frame[["label"]], "text")
        self.of_columns(frame.assign(text=NAN), "")
        self.of_columns(frame.assign(text=pandas.NA), "")
        self.of_columns(frame.assign(label=None), "")
        self.of_columns(frame.assign(text=[b"a", b"b"]), "bytes")
        self.of_columns(frame.assign(text=[object(), "a"]), "'text'")
        self.of_columns(frame.assign(text=pandas.to_datetime(["2020-01-01", "2020-01-02"])), "Timestamp")
        self.of_columns(frame.assign(label=[1 + 2j, 1]), "complex")
        self.of_columns(frame["text"], "not a dict")
        self.of_columns(frame[["text", "text", "label"]], "two columns are called 'text'")
        self.of_columns(frame.assign(**{"0": "a"}).rename(columns={"0": 0, "label": "0"}), "two columns are called '0'", label_column="0")
        snug.inspect(TINY, train_file=frame.assign(a=1, b=2).set_axis(["text", "label", "c", "c"], axis=1))
        self.wrong(snug.solve.placement, frame)

    def test_tables(self):
        if pyarrow is None:
            common.not_run(self, "pyarrow is not installed")
        texts = pyarrow.array(["a b", "b"])
        self.of_columns(pyarrow.table([texts, texts, texts], names=["text", "text", "label"]), "two columns are called 'text'")
        snug.inspect(TINY, train_file=pyarrow.table([texts] * 4, names=["text", "label", "c", "c"]))

    def test_the_planner(self):
        problem = {"storages": [{"id": "a", "bytes": 8}], "ops": [{"id": "f", "cost": 1, "inputs": [], "outputs": ["a"]}]}
        for given in (None, 3, [], [1], "none.json", self.folder, b"x", {}, {"ops": []}, {"storages": object()}, {"storages": [], "ops": [{1, 2}]}, {"a": NAN}, dict(problem, more=1),
                      dict(problem, ops=[dict(problem["ops"][0], cost=-1)]), dict(problem, ops=[dict(problem["ops"][0], cost=INF)]), dict(problem, ops=problem["ops"] * 2),
                      dict(problem, storages=problem["storages"] * 2), dict(problem, storages=[{"id": "a", "bytes": -8}]), dict(problem, storages=[{"id": "a", "bytes": 2 ** 63}]),
                      dict(problem, ops=[dict(problem["ops"][0], inputs=["no"])]), dict(problem, ops="ops"), lambda: problem):
            self.wrong(snug.solve.remat, given, memory=100)
        for memory in (None, "much", -1, 0, NAN, INF, object(), b"1", [], 4):
            self.wrong(snug.solve.remat, problem, memory=memory)
        for keys in (dict(order="any"), dict(effort="none"), dict(time_limit=-1), dict(time_limit="x"), dict(effort=3), dict(order=object())):
            self.wrong(snug.solve.remat, problem, memory=100, **keys)
            self.wrong(snug.solve.curve, problem, **keys)
        for schedule in (None, 3, "none.json", b"x", {}, {"schedule": 3}, [1], [object()], object(), {"schedule": ["f"], "boundary_step": "x"}):
            self.wrong(snug.solve.check, problem, schedule)
        self.assertIn("no op", snug.solve.check(problem, ["g"])["violations"][0])
        ranges = dict(lower=[0, 1], upper=[2, 3], size=[4, 5])
        for wrong in (None, 3, [], "none.csv", b"x", {}, object(), dict(ranges, lower=[0]), dict(ranges, lower=[0, 3]), dict(ranges, size=[-1, 1]), dict(ranges, size=[1.5, 2]),
                      dict(ranges, size=["a", "b"]), dict(ranges, size=None), dict(ranges, size=3), dict(ranges, size="ab"), dict(ranges, size=b"ab"), dict(ranges, size=[None, 1]),
                      dict(ranges, size=[2 ** 62, 2 ** 62]), dict(ranges, size=[2 ** 64, 1]), dict(ranges, size=[NAN, 1]), dict(ranges, size=[[1], [2]]), dict(ranges, size={"a": 1}),
                      dict(ranges, size=array.array("d", [1, 2])), dict(ranges, size=iter([object()])), dict(ranges, size=Strange())):
            self.wrong(snug.solve.placement, wrong)
        for keys in (dict(capacity="much"), dict(capacity=-1), dict(capacity=8), dict(capacity=object()), dict(max_nodes=-1), dict(max_nodes="x"), dict(max_nodes=1.5)):
            self.wrong(snug.solve.placement, ranges, **keys)
        if np is not None:
            for dtype in ("float64", "bool", "complex64", "object", "U3", "S3", "M8[s]", "V4"):
                self.wrong(snug.solve.placement, dict(ranges, size=np.zeros(2, dtype)))
            self.wrong(snug.solve.placement, dict(ranges, size=np.zeros((2, 2), int)))
            self.wrong(snug.solve.placement, dict(ranges, size=np.int64(3)))
            self.wrong(snug.solve.placement, dict(ranges, size=np.full(2, 2 ** 63, np.uint64)))
            self.assertIn("masked", str(self.wrong(snug.solve.placement, dict(ranges, size=np.ma.masked_array([4, 5], [False, True])))))

    def test_estimators(self):
        if sklearn is None:
            common.not_run(self, "scikit-learn is not installed")
        from snug.sklearn import SnugClassifier, SnugRegressor

        keys = dict(memory="1GiB", threads=1, max_steps=1, train_batch_size=4)
        texts, numbers = ["a b", "c", "d e", "f"], np.arange(8.0).reshape(4, 2)
        y = [0, 1, 0, 1]
        strange_x = [None, 3, "text", b"text", object(), [], [1, 2], ["a", None, "b", "c"], ["a", 1, "b", "c"], [NAN, "a", "b", "c"], [b"a", b"b", b"c", b"d"], {"a": [1]},
                     [["a", "b", "c"]] * 4, [["a"], ["a", "b"], ["a"], ["a"]], np.array(texts)[:3], np.array([["a", None]] * 4, dtype=object), numbers[0], numbers * NAN, numbers * INF,
                     numbers[:3], numbers[:, :0], numbers[:0], numbers * 1e300, numbers * 1j, numbers.reshape(2, 2, 2), np.zeros((4, 8, 8), np.float32),
                     np.zeros((4, 8, 8, 2), np.uint8), np.zeros((4, 8, 8, 3, 1), np.uint8), [np.zeros((8, 8, 3))] * 4, ["none.png"] * 4, [pathlib.Path("none.png")] * 4,
                     [[1, 2], [3], [4, 5], [6, 7]], np.array([object()] * 4), np.zeros(4, "M8[s]"), lambda: texts, iter(texts), set(texts), Strange()]
        for model in (SnugClassifier(**keys), SnugRegressor(**keys)):
            for X in strange_x:
                self.wrong(model.fit, X, y)
            for X in (texts, numbers):
                for labels in (None, 3, [], y[:3], [[0, 1], [1]], [0, 1, NAN, 1], [0, 1, INF, 1], [object()] * 4, "abcd"):
                    self.wrong(model.fit, X, labels)
                for weights in ([1], "x", [1, 1, 1, -1], [1, 1, 1, NAN], [0, 0, 0, 0], [[1]] * 4):
                    self.wrong(model.fit, X, y, sample_weight=weights)
        model = SnugClassifier(**keys)
        self.wrong(model.fit, texts, ["", "a", "", "a"])
        self.wrong(model.fit, texts, ["a/b", "a", "a/b", "a"])
        self.wrong(model.fit, texts, [0.5, 1.5, 2.5, 0.25])
        self.wrong(model.predict, texts)
        self.wrong(model.predict_proba, numbers)
        self.wrong(model.partial_fit, texts, y, classes=[5, 6])
        self.wrong(model.partial_fit, texts, ["a", "b", "a", "b"], classes=["a", "b", "c,d"])
        model.fit(numbers, y)
        for X in [each for each in strange_x if each is not strange_x[19]] + [texts, numbers[:, :1]]:  # but the fewer rows
            self.wrong(model.predict, X)
        self.wrong(model.partial_fit, texts, y)
        self.wrong(model.partial_fit, numbers, [7, 7, 7, 7])
        for name, value in (("no_such_key", 1), ("train_file", "x"), ("classes_", 1)):
            self.wrong(model.set_params, **{name: value})
        for name, value in (("hidden_sizes", "x"), ("hidden_sizes", [-1]), ("hidden_sizes", None), ("train_batch_size", 0), ("train_batch_size", "x"), ("learning_rate", NAN), ("memory", "1KiB"),
                            ("seed", -1), ("num_train_epochs", -1), ("num_train_epochs", "x"), ("hidden_dropout_prob", 2), ("optim", "none"), ("model", "bert-tiny"), ("output_dir", "x"),
                            ("fresh_head", True), ("max_steps", "x"), ("train_batch_size", 1.5)):
            if (name, value) != ("hidden_sizes", None):
                self.wrong(SnugClassifier(**{**keys, name: value}).fit, numbers, y)


if __name__ == "__main__":
    unittest.main()
