"""Rows of Hugging Face's datasets and of PyArrow's tables: read where they lie, else written by their columns in bounded memory."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
import warnings

import common
import snug
from snug import _arrow, _rows

try:
    import datasets
    import pyarrow
except ImportError:
    datasets = None

TINY = dict(model="bert-tiny", vocab_size=300, max_seq_length=16, train_batch_size=8, max_steps=4, memory="1GiB", threads=1, seed=5)


class Datasets(unittest.TestCase):
    def setUp(self):
        if datasets is None:
            common.not_run(self, "datasets and pyarrow are not installed")
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)
        warnings.simplefilter("ignore", snug.Warned)
        datasets.disable_progress_bars()
        self.rows = [dict(row, id=i, weight=1 + i % 3) for i, row in enumerate(common.make_rows(80))]
        self.count = 0

    def weights(self, rows, **keys):
        self.count += 1
        return snug.train(TINY, train_file=rows, output_dir=self.folder / f"run{self.count}", **keys)["weights_sha256"]

    def on_disk(self, rows, name, **options):
        datasets.Dataset.from_list(rows).save_to_disk(self.folder / name, **options)
        return datasets.load_from_disk(self.folder / name)

    def test_what_lies_on_the_disk_is_read_there(self):
        wanted = self.weights(self.rows)
        whole = self.on_disk(self.rows, "whole")
        shards = self.on_disk(self.rows, "shards", num_shards=3)
        mapped = whole.map(lambda row: {"length": len(row["text"])})
        joined = datasets.concatenate_datasets([self.on_disk(self.rows[:30], "a"), self.on_disk(self.rows[30:], "b")])
        cast = whole.cast_column("id", datasets.Value("int32"))
        for name, rows, count in (("whole", whole, 1), ("shards", shards, 3), ("mapped", mapped, 1), ("joined", joined, 2), ("cast", cast, 1)):
            with self.subTest(name):
                files = _arrow.files_of(rows)
                self.assertEqual(len(files), count)
                with _rows.with_files({"train_file": rows}) as given:
                    self.assertEqual(given.keys["train_file"], files)
                self.assertEqual(self.weights(rows), wanted)

    def test_what_does_not_is_written_as_it_is(self):
        whole = self.on_disk(self.rows, "whole")
        shuffled = whole.shuffle(seed=3)
        table = pyarrow.Table.from_pylist(self.rows)
        for name, rows, like in (
                ("memory", datasets.Dataset.from_list(self.rows), self.rows), ("shuffled", shuffled, list(shuffled)), ("filtered", whole.filter(lambda row: row["id"] % 2), self.rows[1::2]),
                ("selected", whole.select(range(40)), self.rows[:40]), ("renamed", whole.rename_columns({"text": "label", "label": "text"}), [dict(row, text=row["label"], label=row["text"]) for row in self.rows]),
                ("without", whole.remove_columns("id"), self.rows), ("numpy", whole.with_format("numpy"), self.rows), ("columns", whole.with_format(columns=["label", "text"]), self.rows),
                ("transformed", whole.with_transform(lambda rows: dict(rows, text=[each + " !" for each in rows["text"]])), [dict(row, text=row["text"] + " !") for row in self.rows]),
                ("streamed", whole.to_iterable_dataset(), self.rows), ("table", table, self.rows), ("chunks", pyarrow.concat_tables([table.slice(60), table.slice(0, 60)]), self.rows[60:] + self.rows[:60]),
                ("slice", table.slice(7, 50), self.rows[7:57]), ("dictionary", table.set_column(1, table.column_names[1], table.column(1).dictionary_encode()), self.rows),
                ("views", table.set_column(table.column_names.index("text"), "text", table["text"].cast(pyarrow.string_view())), self.rows)):
            with self.subTest(name):
                self.assertTrue(_arrow.files_of(rows) is None or name == "numpy")
                self.assertEqual(self.weights(rows), self.weights(like))

    def test_only_what_the_run_reads_is_written(self):
        rows = pyarrow.Table.from_pylist([dict(row, image=bytes(100)) for row in self.rows])
        for keys, names in (({}, ["text", "label"]), (dict(weight_column="weight"), ["text", "label", "weight"]), (dict(text_column="label", label_column="id"), ["label", "id"])):
            with _rows.with_files({"train_file": rows, **keys}) as given:
                self.assertEqual(set(pyarrow.ipc.open_stream(given.keys["train_file"]).schema.names), set(names))
        self.assertFalse(pathlib.Path(given.keys["train_file"]).exists())
        file = self.folder / "run.yaml"
        file.write_text("".join(f"{name}: {value}\n" for name, value in {**TINY, "label_column": "id", "task": "regression"}.items()))
        wanted = self.weights(self.rows, label_column="id", task="regression")
        self.assertEqual(snug.train(file, train_file=rows, output_dir=self.folder / "yaml")["weights_sha256"], wanted)

    def test_kinds_of_labels(self):
        names = ["animal", "food", "tool"]
        features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=names)})
        numbered = [dict(text=row["text"], label=names.index(row["label"])) for row in self.rows]
        self.assertEqual(self.weights(datasets.Dataset.from_list(numbered, features=features)), self.weights(numbered))
        for task, label in (("regression", lambda i: i / 7), ("regression", lambda i: [i / 7, -1.0]), ("multi_label", lambda i: ["a", "b"][: i % 3])):
            rows = [dict(text=row["text"], label=label(i)) for i, row in enumerate(self.rows)]
            self.assertEqual(self.weights(datasets.Dataset.from_list(rows), task=task), self.weights(rows, task=task))
        words = [dict(text=row["text"].split(), label=["x"] * len(row["text"].split())) for row in self.rows]
        self.assertEqual(self.weights(datasets.Dataset.from_list(words), task="token_classification"), self.weights(words, task="token_classification"))

    def classes(self, names, label=lambda row: row):
        """The rows with their labels as numbers of these classes."""
        given = ["animal", "food", "tool"]
        features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=names)})
        return datasets.Dataset.from_list([dict(text=row["text"], label=label(given.index(row["label"]))) for row in self.rows], features=features)

    def test_classes_keep_their_names_and_numbers(self):
        names = ["zebra", "ant, small", "cow"]  # in no order
        rows = self.classes(names)
        rows.save_to_disk(self.folder / "disk")
        for name, given in (("memory", rows), ("disk", datasets.load_from_disk(self.folder / "disk")), ("table", rows.data.table)):
            with self.subTest(name):
                snug.train(TINY, train_file=given, output_dir=self.folder / name)
                config = json.loads((self.folder / name / "best/config.json").read_text())
                self.assertEqual(list(config["id2label"].values()), names)
        run = dict(model=self.folder / "memory/best", memory="1GiB", threads=1)
        self.assertIn(snug.predict(run, test_file=rows.remove_columns("label"))[0]["label"], names)
        wanted = snug.evaluate(run, test_file=rows)
        # The same labels under other numbers, and as texts.
        other = self.classes(["cow", "zebra", "ant, small"], lambda i: (i + 1) % 3)
        self.assertEqual(snug.evaluate(run, test_file=other), wanted)
        self.assertEqual(snug.evaluate(run, test_file=[dict(row, label=names[row["label"]]) for row in rows]), wanted)
        with self.assertRaises(snug.Error) as caught:
            snug.evaluate(run, test_file=self.classes(["left", "right", "up"]))
        self.assertIn("left, right, up", str(caught.exception))
        # A file says what its numbers mean, and may be told to mean something else.
        whole = self.classes(["0", "1", "2"])
        whole.save_to_disk(self.folder / "numbers")
        named = datasets.load_from_disk(self.folder / "numbers").cast(rows.features)
        self.assertEqual(snug.evaluate(run, test_file=named), wanted)

    def test_a_model_whose_classes_have_no_names_takes_numbers(self):
        rows = self.classes(["zebra", "ant", "cow"])
        snug.train(TINY, train_file=rows, output_dir=self.folder / "named")
        shutil.copytree(self.folder / "named/best", self.folder / "nameless")
        (self.folder / "nameless/.snug.complete").unlink()
        file = self.folder / "nameless/config.json"
        config = json.loads(file.read_text())
        config.update(id2label={str(i): f"LABEL_{i}" for i in range(3)}, label2id={f"LABEL_{i}": i for i in range(3)})
        file.write_text(json.dumps(config))
        ours, theirs = (snug.evaluate(model=self.folder / name, test_file=rows, memory="1GiB", threads=1) for name in ("named/best", "nameless"))
        self.assertEqual((ours["loss"], ours["accuracy"]), (theirs["loss"], theirs["accuracy"]))
        tuned = snug.train(TINY, model=self.folder / "nameless", vocab_size=None, train_file=rows, output_dir=self.folder / "tuned", validation_split=0.2)
        self.assertEqual([each["label"] for each in tuned["final_metrics"]["classes"]], ["LABEL_0", "LABEL_1", "LABEL_2"])

    def test_lists_of_classes_are_labels_of_words(self):
        features = datasets.Features({"tokens": datasets.List(datasets.Value("string")), "ner_tags": datasets.List(datasets.ClassLabel(names=["O", "B-PER", "I-PER"]))})
        rows = datasets.Dataset.from_list([dict(tokens=["a", "Jo", "Poe"][: 1 + i % 3], ner_tags=[0, 1, 2][: 1 + i % 3]) for i in range(40)], features=features)
        summary = snug.train(TINY, text_column="tokens", label_column="ner_tags", train_file=rows, output_dir=self.folder / "ner", validation_split=0.2)
        self.assertEqual(summary["final_metrics"]["span_scheme"], "IOB2")
        self.assertEqual([each["label"] for each in summary["final_metrics"]["classes"]], ["PER"])

    def test_errors_name_the_key_and_the_row(self):
        table = pyarrow.table({"text": ["a", None], "label": ["x", "y"]})
        for rows, place, part in ((table, "train_file.arrow:2", "null, not a string"), (datasets.Dataset.from_dict({"text": ["a", None], "label": ["x", "y"]}), "train_file.arrow:2", "null, not a string"),
                                  (table.drop(["label"]), "train_file.arrow", "no column 'label'; the columns are: text"), (table.slice(0, 0), "train_file", "has no rows"),
                                  (pyarrow.table({"text": [1, 2], "label": ["x", "y"]}), "train_file.arrow", "of the type int64, not of text"),
                                  ([{"text": "a", "label": "x"}, {"label": "y"}], "train_file.jsonl:2", "no column 'text'"),
                                  (datasets.DatasetDict(train=datasets.Dataset.from_list(self.rows)), "train_file", "such as rows['train']")):
            with self.assertRaises(snug.Error) as caught:
                self.weights(rows)
            place = place.replace(".arrow", "").replace(".jsonl", "")
            self.assertEqual(caught.exception.where, place)
            self.assertIn(part, str(caught.exception))
            self.assertNotIn("snug-rows", str(caught.exception))

    def test_memory_does_not_grow_with_the_rows(self):
        # In one batch, 512 MB of what the run does not read beside 64 MB of texts. In processes of their own: what writes it keeps its
        # memory for a while, which later tests would count, and what reads it has a peak.
        script = textwrap.dedent(f"""
            import pyarrow
            schema = pyarrow.schema([("image", pyarrow.binary()), ("text", pyarrow.string()), ("label", pyarrow.string())])
            with pyarrow.ipc.new_stream({str(self.folder / "large.arrow")!r}, schema) as writer:
                writer.write_batch(pyarrow.record_batch([[bytes(1 << 20)] * 512, ["x " * (1 << 16)] * 512, ["a", "b"] * 256], schema))
        """)
        subprocess.run([sys.executable, "-c", script], check=True, timeout=600)
        for name, rows in (("there", "large"), ("written", "large.shuffle(seed=1, keep_in_memory=True)")):
            script = textwrap.dedent(f"""
                import resource, warnings, datasets, pyarrow, snug
                warnings.simplefilter("ignore")
                snug.plan(model="bert-tiny", memory="1GiB", threads=1)
                large = datasets.Dataset.from_file({str(self.folder / "large.arrow")!r})
                before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                summary = snug.train({dict(TINY, max_steps=1, vocab_size=30522)!r}, train_file={rows}, output_dir={str(self.folder / name)!r}, tokenizer={str(self.vocabulary())!r})
                assert summary["measured_peak_rss_bytes"] <= summary["planned_peak_bytes"], summary
                print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
            """)
            done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertLess(int(done.stdout), 160 << 10, name)  # KiB

    def vocabulary(self):
        file = self.folder / "vocab.txt"
        file.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "x", "a", "b"]) + "\n")
        return file


if __name__ == "__main__":
    unittest.main()
