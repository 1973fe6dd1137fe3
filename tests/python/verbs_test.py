"""The verbs in Python beside the program: the same files, bits and words; rows from memory; what stops a run."""
import copy
import datetime
import hashlib
import html
import importlib
import json
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest
import warnings

import common
import snug

TINY = dict(model="bert-tiny", vocab_size=300, max_seq_length=16, train_batch_size=8, max_steps=6, logging_steps=1, memory="1GiB", seed=7, threads=2,
            hidden_dropout_prob=0.1, validation_split=0.2)


def digests(folder):
    """Every file of best/ and last/ that says nothing of the process."""
    found = {}
    for path in sorted(pathlib.Path(folder).glob("*/*")):
        if path.suffix in (".safetensors", ".txt") or path.name in ("config.json", "tokenizer.json", "vocab.txt"):
            found[str(path.relative_to(folder))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


class Frame:
    """As pandas shows a frame."""

    class Columns(list):
        pass

    iloc = None

    def __init__(self, rows):
        self.columns = Frame.Columns(rows[0])
        self.rows = rows

    def itertuples(self, index, name):
        assert index is False and name is None
        return (tuple(row[column] for column in self.columns) for row in self.rows)


class Verbs(unittest.TestCase):
    def setUp(self):
        self.kept = tempfile.TemporaryDirectory()
        self.addCleanup(self.kept.cleanup)
        self.folder = pathlib.Path(self.kept.name)
        self.rows = common.make_rows(80)
        self.file = self.folder / "train.jsonl"
        common.write_jsonl(self.file, self.rows)
        warnings.simplefilter("ignore", snug.Warned)

    def program(self, verb, **keys):
        return common.run(verb, *common.options(**keys), "--json")

    @unittest.skipIf(common.IS_SANITIZED, "a sanitizer's own memory is in the process, and grows from call to call")
    def test_a_plan_is_the_programs_beside_what_the_process_has(self):
        keys = dict(model="bert-tiny", vocab_size=300, max_seq_length=32, train_batch_size=16, num_labels=3, threads=2)
        theirs = json.loads(self.program("plan", **keys, memory="1GiB").stdout)
        ours = snug.plan(keys, memory="1GiB")
        for field in ("arena_bytes", "resident_bytes", "micro_batch", "strategy", "parameters", "step_seconds", "keep_all_arena_bytes"):
            self.assertEqual(getattr(ours, field), theirs[field], field)
        self.assertEqual(set(ours.to_dict()), set(theirs))
        self.assertGreater(ours.process_bytes, theirs["process_bytes"])
        self.assertEqual(ours.planned_peak_bytes - ours.process_bytes, theirs["planned_peak_bytes"] - theirs["process_bytes"])
        self.assertIn("planned peak", str(ours))
        self.assertIn("<html", ours.to_html())
        shown = ours._repr_html_()  # a page within the notebook's
        self.assertTrue(shown.startswith("<iframe srcdoc="))
        self.assertEqual(html.unescape(shown.split('"')[1]), ours.to_html())
        self.assertEqual([row["budget_bytes"] for row in ours.price_list], [row["budget_bytes"] for row in ours.prices])
        file = self.folder / "plan.json"
        ours.save(file)
        self.assertEqual(snug.plan(keys, memory="1GiB", replay=file).arena_bytes, ours.arena_bytes)
        with self.assertRaises(AttributeError):
            ours.no_such_field
        there = pickle.loads(pickle.dumps(ours))
        self.assertEqual((there.to_dict(), str(there), there.to_html()), (ours.to_dict(), str(ours), ours.to_html()))
        there.save(self.folder / "there.json")
        self.assertEqual((self.folder / "there.json").read_bytes(), file.read_bytes())
        self.assertIs(copy.deepcopy(there), there)
        of_rows = dict(TINY, train_file=iter(self.rows))
        self.assertIn("<html", snug.plan(of_rows).to_html())

    def test_training_gives_the_programs_files_to_the_bit(self):
        done = self.program("train", **TINY, train_file=self.file, output_dir=self.folder / "theirs")
        self.assertEqual(done.returncode, 0, done.stderr)
        updates, evaluations, plans, checkpoints = [], [], [], []

        def on_checkpoint(step, folder):
            checkpoints.append((step, folder, (pathlib.Path(folder) / "model.safetensors").exists()))

        summary = snug.train(TINY, train_file=self.file, output_dir=self.folder / "ours", on_update=updates.append, on_plan=plans.append, on_checkpoint=on_checkpoint, save_steps=4,
                             on_evaluation=lambda step, metrics: evaluations.append((step, metrics["rows"])))
        self.assertEqual(summary["weights_sha256"], json.loads(done.stdout)["weights_sha256"])
        self.assertEqual(summary["measured_arena_bytes"], summary["planned_arena_bytes"])
        ours, theirs = digests(self.folder / "ours"), digests(self.folder / "theirs")
        self.assertEqual(ours, theirs)
        self.assertGreater(len(ours), 4)
        self.assertEqual([each["step"] for each in updates], [1, 2, 3, 4, 5, 6])
        self.assertEqual(len(plans), 1)
        self.assertEqual(checkpoints, [(step, str(self.folder / "ours/last"), True) for step in (4, 6)])
        self.assertEqual(evaluations[-1], (6, summary["final_metrics"]["rows"]))
        # What the model says.
        predict = dict(model=self.folder / "ours/last", test_file=self.file, memory="1GiB", threads=2)
        lines = common.run("predict", *common.options(**predict)).stdout.splitlines()
        self.assertEqual(snug.predict(predict), [json.loads(line) for line in lines])
        streamed = []
        self.assertEqual(snug.predict(predict, sink=streamed.append), [])
        self.assertEqual(len(streamed), len(self.rows))
        theirs = json.loads(self.program("eval", **predict).stdout)
        self.assertEqual(snug.evaluate(predict), theirs)
        tokens = common.run("tokenize", *common.options(model=self.folder / "ours/last", test_file=self.file))
        self.assertEqual(snug.tokenize(model=self.folder / "ours/last", test_file=self.file), [json.loads(line) for line in tokens.stdout.splitlines()])

    def test_rows_may_be_in_memory(self):
        wanted = snug.train(TINY, train_file=self.file, output_dir=self.folder / "file")["weights_sha256"]
        odd = [dict(row, day=datetime.date(2020, 1, 1), image=b"bytes", more=object(), itself=self.rows) for row in self.rows]
        for name, rows in (("list", self.rows), ("generator", (row for row in self.rows)), ("frame", Frame(self.rows)), ("odd", odd), ("odd frame", Frame(odd))):
            summary = snug.train(TINY, train_file=rows, output_dir=self.folder / name)
            self.assertEqual(summary["weights_sha256"], wanted, name)
        for rows, part in ((3, "has no rows"), ([], "has no rows"), ([1], "not a dict of columns"), ([{"text": object(), "label": "x"}], "neither text nor number")):
            with self.assertRaises(snug.Error) as caught:
                snug.train(TINY, train_file=rows, output_dir=self.folder / "bad")
            self.assertIn(part, str(caught.exception))

    def test_rows_in_memory_are_called_by_their_key(self):
        said = []
        keys = dict(TINY, max_steps=3, train_file=self.rows, output_dir=self.folder / "named")
        snug.train(keys, on_message=said.append)
        snug.train(keys, resume=True, on_message=said.append)
        self.assertIn("the task is classification: what the labels of train_file look like", said)
        with self.assertRaises(snug.Error) as caught:
            snug.train(keys, train_file=self.rows[1:], resume=True, on_message=said.append)
        self.assertIn("[train_file] the rows or their tokens are not those that the run began with, of earlier rows in memory", str(caught.exception))
        self.assertEqual([text for text in said if "snug-rows" in text], [])

    def test_rows_of_other_packages(self):
        wanted = snug.train(TINY, train_file=self.file, output_dir=self.folder / "file")["weights_sha256"]
        columns = {name: [row[name] for row in self.rows] for name in self.rows[0]}
        missing = []
        for package, make in (("pandas", lambda of: of.DataFrame(columns)), ("polars", lambda of: of.DataFrame(columns)), ("pyarrow", lambda of: of.table(columns)),
                              ("datasets", lambda of: of.Dataset.from_dict(columns)), ("datasets", lambda of: of.Dataset.from_dict(columns).to_iterable_dataset())):
            try:
                rows = make(importlib.import_module(package))
            except ImportError:
                missing.append(package)
                continue
            self.assertEqual(snug.train(TINY, train_file=rows, output_dir=self.folder / f"{type(rows).__name__}-{package}")["weights_sha256"], wanted, package)
        if missing:
            common.not_run(self, f"{', '.join(sorted(set(missing)))} not installed")

    def test_errors_have_the_programs_words(self):
        wrong = (
            ("plan", dict(model="bert-tny")),
            ("plan", dict(model="bert-tiny", memry="1GiB")),
            ("plan", dict(model="bert-tiny", learning_rate="fast")),
            ("plan", dict(model="bert-tiny", train_batch_size=0)),
            ("plan", dict(model="bert-tiny", memory="much")),
            ("train", dict(model="bert-tiny", train_file=self.folder / "none.jsonl", output_dir=self.folder / "out", memory="1GiB")),
            ("train", dict(model="bert-tiny", memory="1GiB")),
        )
        for verb, keys in wrong:
            theirs = common.run(verb, *common.options(**keys))
            with self.assertRaises(snug.Error) as caught:
                getattr(snug, verb)(keys)
            words = " ".join(theirs.stderr.split())
            self.assertIn("error: " + " ".join(str(caught.exception).split()), words)
            again = pickle.loads(pickle.dumps(caught.exception))
            self.assertEqual((str(again), again.code, again.where), (str(caught.exception), caught.exception.code, caught.exception.where))

    def test_configurations_that_are_none_are_refused(self):
        for config, keys in ((3, {}), ([("model", "mlp")], {}), ({"model": object()}, {}), ({".file": "x"}, {}), ({1: 2}, {}), ({"model": "a\0b"}, {}), ({"model": {1j}}, {})):
            with self.assertRaises(snug.Error, msg=repr(config)) as caught:
                snug.plan(config, **keys)
            self.assertEqual(caught.exception.code, "bad_config")

    def test_a_file_with_keys_that_win(self):
        file = self.folder / "run.yaml"
        file.write_text("model: mlp\nhidden_sizes: [24, 12]\nvocab_size: 50\nmax_seq_length: 8\nmemory: 1GiB\nnum_labels: 2\n")
        wide = snug.plan(file)
        narrow = snug.plan(str(file), hidden_sizes=[6, 4])
        self.assertGreater(wide.parameters, narrow.parameters)

    def test_a_callback_that_raises_ends_the_run_with_a_checkpoint(self):
        whole = snug.train(TINY, train_file=self.file, output_dir=self.folder / "whole")["weights_sha256"]

        class Enough(Exception):
            pass

        def stop(update):
            if update["step"] == 2:
                raise Enough("of it")

        def interrupt(update):
            if update["step"] == 3:
                os.kill(os.getpid(), signal.SIGINT)

        out = self.folder / "stopped"
        with self.assertRaises(Enough):
            snug.train(TINY, train_file=self.file, output_dir=out, on_update=stop)
        with self.assertRaises(KeyboardInterrupt):
            snug.train(TINY, train_file=self.file, output_dir=out, resume=True, on_update=interrupt)
        self.assertEqual(snug.train(TINY, train_file=self.file, output_dir=out, resume=True)["weights_sha256"], whole)

    def test_ctrl_c_while_it_trains_is_raised(self):
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        keys = dict(model="bert-tiny", vocab_size=300, max_seq_length=64, train_batch_size=8, max_steps=10000, memory="1GiB", threads=1, output_dir=self.folder / "stopped")
        with self.assertRaises(KeyboardInterrupt):
            snug.train(keys, train_file=common.make_rows(80), on_plan=lambda _plan: timer.start())
        self.assertGreater(snug.inspect(model=self.folder / "stopped/last")["model"]["parameters"], 0)

    def test_an_OpenMP_that_the_process_has_changes_nothing(self):
        keys = dict(TINY, train_file=str(self.file))
        wanted = snug.train(keys, output_dir=self.folder / "alone")["weights_sha256"]
        script = textwrap.dedent(f"""
            import ctypes, json, os
            gomp = ctypes.CDLL("libgomp.so.1", mode=os.RTLD_GLOBAL)  # as PyTorch has its own
            gomp.omp_set_num_threads(1)
            import snug, warnings
            warnings.simplefilter("ignore")
            summary = snug.train({keys!r}, output_dir={str(self.folder / "beside")!r})
            print(json.dumps([summary["weights_sha256"], gomp.omp_get_max_threads(), len(os.listdir("/proc/self/task"))]))
        """)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr)
        weights, threads, tasks = json.loads(done.stdout)
        self.assertEqual(weights, wanted)
        self.assertEqual(threads, 1)  # what was asked of theirs is not asked of ours, and the other way round
        self.assertLessEqual(tasks, 2)

    def test_every_key_and_the_version(self):
        names = [key["name"] for key in snug.keys()]
        self.assertIn("learning_rate", names)
        self.assertEqual(names, [key["name"] for key in json.loads(common.run("help", "--json").stdout)["options"]])
        self.assertIn(snug.version()["version"], common.run("--version").stdout)
        self.assertEqual(snug.__version__, snug.version()["version"])


if __name__ == "__main__":
    unittest.main()
