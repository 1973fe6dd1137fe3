"""Refusals as data: the proof, the smallest budget, and ways to fit of which each is applied."""
import json
import pathlib
import pickle
import subprocess
import sys
import tempfile
import textwrap
import unittest
import warnings

import common
import snug

PROBLEM = {"storages": [{"id": name, "bytes": 100} for name in "abcd"],
           "ops": [{"id": "f", "cost": 1, "inputs": [], "outputs": ["a"]}, {"id": "g", "cost": 1, "inputs": ["a"], "outputs": ["b"]},
                   {"id": "h", "cost": 1, "inputs": ["b"], "outputs": ["c"]}, {"id": "k", "cost": 1, "inputs": ["c", "a"], "outputs": ["d"]}]}


class Refusals(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)
        warnings.simplefilter("ignore", snug.Warned)
        self.file = self.folder / "train.jsonl"
        common.write_jsonl(self.file, common.make_rows(80))

    def refused(self, call, *args, **keys):
        with self.assertRaises(snug.DoesNotFit) as caught:
            call(*args, **keys)
        error = caught.exception
        self.assertEqual(error.code, "out_of_budget")
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((again.ways, again.proof, again.smallest_bytes, str(again)), (error.ways, error.proof, error.smallest_bytes, str(error)))
        return error

    def check_facts(self, error, budget, words="--memory "):
        """What is data is what the text says."""
        self.assertGreater(error.smallest_bytes, budget)
        self.assertEqual(error.ways[0].keys, {"memory": str(error.smallest_bytes)})
        self.assertIn(f"{words}{error.smallest_bytes}", error.ways[0].text)
        for way in error.ways:
            self.assertIn(way.text, str(error))
            self.assertEqual(way.changes_result, "(other results)" in way.text)
            self.assertGreater(way.step_seconds, 0)
        for line in error.proof.splitlines():
            self.assertIn(line.strip(), str(error))

    def test_every_way_fits_when_it_is_applied(self):
        runs = (
            (dict(model="bert-mini", train_batch_size=16, max_seq_length=256), 0.7),
            (dict(model="bert-tiny", train_batch_size=32, max_seq_length=128, num_labels=3), 0.8),
            (dict(model="bert-mini", train_batch_size=32, micro_batch_size=32, recompute="none", max_seq_length=256), 0.5),
            (dict(model="resnet-14", train_batch_size=64), 0.9),
            (dict(model="lstm", train_batch_size=32, max_seq_length=64, vocab_size=3000), 0.8),
        )
        kinds = set()
        for keys, share in runs:
            keys = dict(keys, threads=2)
            free = snug.plan(keys, memory="64GiB")
            beside = free.process_bytes
            config = dict(keys, memory=beside + int(share * (free.smallest_budget_bytes - beside)))
            error = self.refused(snug.plan, config)
            self.check_facts(error, config["memory"])
            self.assertGreater(len(error.ways), 1, str(error))
            self.assertTrue(error.proof.startswith("process "), error.proof)
            for way in error.ways:
                plan = snug.plan(config | way.keys)
                self.assertLessEqual(plan.planned_peak_bytes, plan.budget_bytes, way)
                self.assertGreaterEqual(plan.budget_bytes, way.least_bytes, way)
                kinds |= way.keys.keys()
        self.assertLessEqual({"memory", "micro_batch_size", "recompute", "max_seq_length", "optim", "freeze", "lora"}, kinds)

    def test_verbs_that_run_say_the_same_and_then_run(self):
        config = dict(model="bert-tiny", vocab_size=300, max_seq_length=64, train_batch_size=32, max_steps=2, threads=2, seed=1, train_file=self.file,
                      output_dir=self.folder / "out")
        plan = snug.plan(config, memory="1GiB")
        # What reading needs counts, too.
        budget = plan.process_bytes + (plan.smallest_budget_bytes - plan.process_bytes) * 9 // 10
        error = self.refused(snug.train, config, memory=budget)
        self.check_facts(error, budget)
        summary = snug.train(config | error.ways[0].keys)
        self.assertLessEqual(summary["planned_peak_bytes"], int(error.ways[0].keys["memory"]))
        trained = dict(model=self.folder / "out/last", test_file=self.file, threads=2, max_seq_length=64)
        for verb in (snug.evaluate, snug.predict):
            error = self.refused(verb, trained, memory="20MiB")
            self.check_facts(error, 20 << 20)
            self.assertTrue(verb(trained | error.ways[0].keys))
        # A resumed run keeps its split.
        again = dict(config, resume=True, max_steps=4)
        error = self.refused(snug.train, again, memory="60MiB")
        self.assertIn("checkpoint's micro-batch", str(error))
        self.assertGreater(error.smallest_bytes, 60 << 20)
        self.assertEqual(snug.train(again | error.ways[0].keys)["steps"], 4)

    def test_the_smallest_budget_holds_the_process(self):
        """In a process of its own, whose peak it is. Rows, a vocabulary and kernels lie in it, too."""
        script = textwrap.dedent(f"""
            import json, warnings, snug
            warnings.simplefilter("ignore")
            config = dict(model="bert-tiny", vocab_size=300, max_seq_length=64, train_batch_size=32, max_steps=3, threads=2, train_file={str(self.file)!r},
                          output_dir={str(self.folder / "tight")!r}, memory="40MiB")
            try:
                snug.train(config)
            except snug.DoesNotFit as error:
                summary = snug.train(config | error.ways[0].keys)
                print(json.dumps([error.smallest_bytes, summary["planned_peak_bytes"], summary["measured_peak_rss_bytes"]]))
        """)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr)
        budget, planned, measured = json.loads(done.stdout)
        self.assertLessEqual(measured, planned)
        self.assertLessEqual(planned, budget)

    def test_a_file_and_keys_that_win(self):
        file = self.folder / "run.yaml"
        file.write_text("model: bert-tiny\ntrain_batch_size: 8\nmemory: 30MiB\nthreads: 2\n")
        for way in self.refused(snug.plan, file).ways:
            self.assertGreater(snug.plan(file, **way.keys).parameters, 0)

    def test_a_network_of_your_own_in_the_names_of_a_session(self):
        @snug.network
        def wide(b):
            x = b.input("x", [256])
            for i in range(6):
                x = snug.ops.gelu(snug.layers.linear(f"layer.{i}", x, 256))
            b.minimize(snug.layers.mean_squared_error(snug.layers.linear("out", x, 1), b.input("y", [1])))

        kinds = set()
        for options, share in ((dict(batch_rows=256, max_grad_norm=1.0), 0.8), (dict(batch_rows=4096, micro_batch_size=4096, recompute="keep-all"), 0.7), (dict(batch_rows=32), 0.6)):
            options = dict(options, threads=1)
            least = snug.plan_network(wide, memory="1GiB", **options).smallest_budget_bytes
            options["memory"] = int(share * least)
            error = self.refused(snug.Session, wide, **options)
            self.assertEqual(error.smallest_bytes, least)
            self.check_facts(error, options["memory"], "memory = ")
            for way in error.ways:
                with snug.Session(wide, **(options | way.keys)) as session:
                    self.assertLessEqual(session.plan.planned_peak_bytes, session.plan.budget_bytes, way)
                kinds |= way.keys.keys()
        self.assertLessEqual({"memory", "micro_batch_size", "recompute", "optim"}, kinds)

    def test_the_planner_alone(self):
        error = self.refused(snug.solve.remat, PROBLEM, memory=150)
        self.assertEqual((error.smallest_bytes, error.bound_bytes), (300, 300))
        self.assertEqual(error.report["proof"], "op")
        self.assertIn("needs 300 bytes at once", error.proof)
        (way,) = error.ways
        self.assertEqual(snug.solve.remat(PROBLEM, **way.keys)["peak_bytes"], 300)
        ranges = dict(lower=[0, 0], upper=[1, 1], size=[10, 20])
        error = self.refused(snug.solve.placement, ranges, capacity=29)
        self.assertEqual((error.smallest_bytes, error.bound_bytes, error.ways), (None, 30, ()))
        # The load is 10, and no placement has it.
        ranges = dict(lower=[0, 0, 1, 2, 2], upper=[2, 1, 3, 4, 3], size=[4, 6, 2, 6, 2])
        report = snug.solve.placement(ranges)
        if report["height"] > report["load"]:
            error = self.refused(snug.solve.placement, ranges, capacity=report["load"])
            self.assertEqual(error.smallest_bytes, report["height"])
            self.assertEqual(snug.solve.placement(ranges, **error.ways[0].keys)["height"], report["height"])

    def test_a_refusal_that_knows_no_way_says_why(self):
        rows = [{"text": "x " * (7 << 20), "label": "a"}] * 2
        error = self.refused(snug.train, model="bert-tiny", train_file=rows, output_dir=self.folder / "wide", memory="90MiB", threads=2)
        self.assertEqual((error.smallest_bytes, error.ways), (None, ()))
        self.assertEqual(error.proof, error.message)


if __name__ == "__main__":
    unittest.main()
