"""Rows of Hugging Face's datasets and of PyArrow's tables: read where they lie, else written by their columns in bounded memory."""
import pathlib
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
                    self.assertEqual(given["train_file"], files)
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
                self.assertEqual(set(pyarrow.ipc.open_stream(given["train_file"]).schema.names), set(names))
        self.assertFalse(pathlib.Path(given["train_file"]).exists())
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
