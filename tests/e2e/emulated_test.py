"""A program for another processor, run by an emulator: a training run as on this machine's own, planned to the byte and equal to its own
run up to rounding. Speeds are this machine's: under an emulator measuring takes many minutes and says nothing. The resident set is the
emulator's, too, so nothing is said of it."""
import json
import os
import pathlib
import subprocess

import common
from common import Case, options, read_safetensors, relative_l2, run, sha256

NATIVE = os.environ.get("SNUG_NATIVE", "")  # the program for this machine


class Emulated(Case):
    @classmethod
    def setUpClass(cls):
        if not os.access(NATIVE, os.X_OK):
            raise AssertionError(f"{NATIVE} is not built: cmake --preset ci, and build it first")
        cls.set = cls.set_of([common.SNUG])
        cls.give_speeds(cls.set_of([NATIVE]))

    @staticmethod
    def set_of(program):
        return subprocess.run([*program, "--version"], capture_output=True, text=True, check=True).stdout.split("(")[1].rstrip(")\n")

    @classmethod
    def give_speeds(cls, own):
        subprocess.run([NATIVE, "plan", *"--model mlp --hidden_sizes 4 --vocab_size 10 --max_seq_length 4 --train_batch_size 1 --threads 2".split()],
                       capture_output=True, check=True)
        folder = pathlib.Path(os.environ["XDG_CACHE_HOME"], "snug")
        measured = (folder / f"machine-2-{own}.json").read_text()
        assert f", {own}, oneDNN" in measured
        (folder / f"machine-2-{cls.set}.json").write_text(measured.replace(f", {own}, oneDNN", f", {cls.set}, oneDNN"))

    def native(self, name, **more):
        out = self.folder / name
        subprocess.run([NATIVE, "train", *options(**self.base(output_dir=out, **more))], capture_output=True, check=True)
        return out

    def test_the_instruction_set_has_its_name_and_no_limit_of_another_architecture(self):
        self.assertEqual(self.set, "neon")
        self.assertEqual(self.set_of(["env", "SNUG_MAX_ISA=neon", common.SNUG]), "neon")
        for limit in ("avx2", "avx512", "avx512_bf16", "amx", "baseline", "NEON"):
            done = run("--version", env={"SNUG_MAX_ISA": limit})
            self.assertEqual((done.returncode, done.stdout), (1, ""), limit)
            self.assertEqual(done.stderr, f"error: [SNUG_MAX_ISA] '{limit}' in the environment is no limit that there is\n"
                             "hint: give neon, or unset SNUG_MAX_ISA\n")

    def test_training_learns_within_its_plan_and_equals_this_machines_own_up_to_rounding(self):
        keys = dict(max_steps=20, train_batch_size=32, micro_batch_size=16, eval_steps=10, lr_scheduler_type="constant")
        done = self.ok("train", **self.base(output_dir=self.folder / "none", recompute="none", **keys))
        self.assertNotIn("measuring", done.stderr)
        none = self.folder / "none"
        summary, plan = self.summary(none), json.loads((none / "plan.json").read_text())
        self.assertEqual(summary["measured_arena_bytes"], plan["arena_bytes"])
        self.assertEqual((summary["instruction_set"], plan["instruction_set"]), (self.set, self.set))
        losses = [line["loss"] for line in map(json.loads, (none / "metrics.jsonl").read_text().splitlines()) if "loss" in line]
        self.assertEqual(len(losses), 20)
        self.assertLess(sum(losses[-5:]), 0.8 * sum(losses[:5]))
        weights = none / "last/model.safetensors"

        every = self.train("all", recompute="all", **keys)
        self.assertLess(self.summary(every)["measured_arena_bytes"], summary["measured_arena_bytes"])
        self.assertEqual(sha256(every / "last/model.safetensors"), sha256(weights))

        part = self.train("part", recompute="none", **dict(keys, max_steps=7))
        self.ok("train", **self.base(output_dir=part, recompute="none", resume=True, **keys))
        self.assertEqual(sha256(part / "last/model.safetensors"), sha256(weights))

        own = self.native("native", recompute="none", **keys)
        self.assertLess(relative_l2(*(read_safetensors(path) for path in (weights, own / "last/model.safetensors"))), 1e-4)


if __name__ == "__main__":
    common.main()
