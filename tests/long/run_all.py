#!/usr/bin/env python3
"""The long runs of ./test.sh --all: 20 kills of a longer run and 100 of a short one (kills.py has more), every system call that can
fail (tests/fault), BERT-mini and BERT-base at five budgets each under hard limits, ten minutes of random configurations, 500 odd
tables and 300 odd networks, and ten minutes of configurations and networks in Python (seed: the day, printed).

usage: run_all.py PATH_TO_SNUG
"""
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
os.environ["SNUG"] = str(pathlib.Path(sys.argv[1]).resolve())
os.environ.setdefault("SNUG_KILLS", "20")

import unittest  # noqa: E402

import common  # noqa: E402
import resume_test  # noqa: E402


class Budgets(common.Case):
    """Planned arena = measured arena, peak resident set within the budget, at five budgets under a hard limit."""

    def five_budgets(self, **model):
        # Rows as long as the model reads, so that activations count.
        common.write_jsonl(self.train_file, common.make_rows(200, longest=160))
        base = self.base(eval_steps=2, save_steps=2, max_steps=3, validation_file=self.valid_file, **model)
        whole = self.plan(**dict(base, memory="256GiB"))
        low, high = whole["smallest_budget_bytes"], whole["keep_all_peak_bytes"]
        hashes = {}
        for i in range(5):
            budget = (low + (high - low) * i // 4 + common.PAGE - 1) // common.PAGE * common.PAGE
            out = self.folder / f"b{i}"
            run = dict(base, memory=budget, output_dir=out)
            with common.MemoryLimit(self, budget) as limit:
                done = common.run("train", *common.options(**run), prefix=limit.prefix, timeout=3000)
                self.assertEqual(done.returncode, 0, done.stderr)
                plan, summary = common.json.loads((out / "plan.json").read_text()), self.summary(out)
                done = common.run("train", *common.options(**dict(run, resume=True)), prefix=limit.prefix, timeout=3000)
                self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(summary["measured_arena_bytes"], plan["arena_bytes"])
            self.assertLessEqual(summary["measured_peak_rss_bytes"], budget)
            self.assertLessEqual(summary["planned_peak_bytes"] - summary["measured_peak_rss_bytes"], 16 << 20)
            print(f"  budget {budget >> 20} MiB: micro-batch {plan['micro_batch']}, {plan['strategy']}, arena planned = measured = "
                  f"{plan['arena_bytes']}, process planned {plan['planned_peak_bytes'] >> 20} MiB, "
                  f"measured {summary['measured_peak_rss_bytes'] >> 20} MiB", flush=True)
            hashes.setdefault(plan["micro_batch"], set()).add(summary["weights_sha256"])
        for micro_batch, found in hashes.items():
            self.assertEqual(len(found), 1, f"micro-batch {micro_batch}")

    def test_bert_mini(self):
        self.five_budgets(model="bert-mini", train_batch_size=64, max_seq_length=128)

    def test_bert_base(self):
        self.five_budgets(model="bert-base", train_batch_size=16, max_seq_length=128)


class Commands(unittest.TestCase):
    """Programs of their own, so that they can be run alone and for longer."""

    def command(self, script, *words):
        self.assertEqual(subprocess.run([sys.executable, script, common.SNUG, *map(str, words)]).returncode, 0)

    def test_random_kills(self):
        self.command(HERE / "kills.py", "--kills", 100)

    def test_every_fault(self):
        self.command(HERE.parent / "fault/run_faults.py", pathlib.Path(common.SNUG).parent / "tests/fault/libsnug_fault.so")


if __name__ == "__main__":
    suite = unittest.TestSuite()
    suite.addTest(resume_test.Resume("test_kill_9_at_random_moments_and_resume_gives_the_uninterrupted_weights"))
    suite.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(Commands))
    suite.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(Budgets))
    is_good = unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful()
    seed = int(time.time()) // 86400
    random_configs = [sys.executable, HERE.parent / "random/random_configs.py", "--seed", str(seed), "--seconds", "600"]
    odd_tables = [sys.executable, HERE.parent / "random/odd_tables.py", "--seed", str(seed), "--count", "500"]
    odd_networks = [pathlib.Path(common.SNUG).parent / "tests/random/odd_networks", "--seed", str(seed), "--count", "300"]
    for command in (random_configs, odd_tables, odd_networks):
        is_good = subprocess.run(command).returncode == 0 and is_good
    python = dict(os.environ, SNUG_LIBRARY=str(pathlib.Path(common.SNUG).parent / "libsnug_c.so"), PYTHONPATH=str(HERE.parents[1] / "python"))
    in_python = [sys.executable, HERE.parent / "random/random_configs.py", "--seed", str(seed), "--seconds", "300"]
    is_good = subprocess.run(in_python, env=dict(python, SNUG=str(HERE.parent / "python/program.py"))).returncode == 0 and is_good
    beside = ["/usr/bin/python3", HERE.parent / "random/random_in_python.py", "--seed", str(seed), "--configs", "40", "--networks", "300", "--seconds", "300"]
    is_good = subprocess.run(beside, env=python).returncode == 0 and is_good
    sys.exit(not is_good)
