"""An upper limit on the processor's instructions: who may set it, what says which set ran, and a resume under another one."""
import json
import os
import pathlib
import unittest.mock

import common
from common import Case, options, run, sha256
from state_test import write_marker

VARIABLES = ("SNUG_MAX_ISA", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")
SETS = ("baseline", "avx2", "avx512", "avx512_bf16", "amx")
# Below every limit of Snug's, so on every machine: oneDNN's own variable, which holds all down.
LOWEST = {"ONEDNN_MAX_CPU_ISA": "SSE41"}


class Instruction_set(Case):
    rows = 40

    def setUp(self):
        super().setUp()
        kept = {name: value for name, value in os.environ.items() if name not in VARIABLES}
        patch = unittest.mock.patch.dict(os.environ, kept, clear=True)
        patch.start()
        self.addCleanup(patch.stop)
        if self.set_of() == "neon":
            common.not_run(self, "ARM has one instruction set")

    def base(self, **more):
        return super().base(**dict(dict(model="mlp", hidden_sizes=16, max_seq_length=8, lr_scheduler_type="constant"), **more))

    def set_of(self, **env):
        """What `snug --version` says in this environment."""
        done = run("--version", env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split("(")[1].rstrip(")\n")

    def test_an_unknown_limit_ends_every_verb(self):
        verbs = [line.split()[0] for line in run("--help").stdout.splitlines() if line.startswith("  ") and line[2] != " "]
        self.assertGreaterEqual(set(verbs), {"plan", "train", "eval", "solve", "tokenize", "export"})
        for words in [["--version"], *([verb] for verb in verbs), ["train", *options(**self.base(output_dir=self.folder / "out"))]]:
            for limit in ("avx9", "AVX2", "baseline", "sse41"):
                done = run(*words, env={"SNUG_MAX_ISA": limit})
                self.assertEqual(done.returncode, 1, words)
                self.assertIn(f"error: [SNUG_MAX_ISA] '{limit}' in the environment is no limit that there is\n"
                              "hint: give one of avx2, avx512, avx512_bf16, amx, or unset SNUG_MAX_ISA\n", done.stderr)
                self.assertEqual(done.stdout, "", words)
        self.assertFalse((self.folder / "out").exists())
        self.assertEqual(run("--help", env={"SNUG_MAX_ISA": "avx9"}).returncode, 0)

    def test_the_lowest_limit_wins_and_one_above_the_processor_holds_nothing_down(self):
        own = self.set_of()
        self.assertIn(own, SETS)
        self.assertEqual(self.set_of(SNUG_MAX_ISA=""), own)
        for limit in SETS[1:]:
            lower = min(limit, own, key=SETS.index)
            self.assertEqual(self.set_of(SNUG_MAX_ISA=limit), lower)
            self.assertEqual(self.set_of(SNUG_MAX_ISA=limit, ONEDNN_MAX_CPU_ISA="AVX512_CORE_AMX"), lower)
            self.assertEqual(self.set_of(SNUG_MAX_ISA=limit, DNNL_MAX_CPU_ISA="AVX2"), min(lower, "avx2", key=SETS.index))
            self.assertEqual(self.set_of(SNUG_MAX_ISA=limit, **LOWEST), "baseline")
        self.assertEqual(self.set_of(**LOWEST), "baseline")

    def lowest(self, own):
        """Environment in which the lowest set runs, with the speeds of this machine's own: measuring it takes minutes."""
        self.plan(**self.base())
        measured = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", f"snug/machine-2-{own}.json").read_text()
        self.assertIn(f", {own}, oneDNN", measured)
        cache = self.folder / "cache"
        (cache / "snug").mkdir(parents=True)
        (cache / "snug/machine-2-baseline.json").write_text(measured.replace(f", {own}, oneDNN", ", baseline, oneDNN"))
        return dict(LOWEST, XDG_CACHE_HOME=str(cache))

    def test_what_a_run_writes_has_the_set_that_ran_and_speeds_are_kept_for_each(self):
        own = self.set_of()
        for name, env in ((own, {"SNUG_MAX_ISA": "amx"}), ("baseline", self.lowest(own))):
            out = self.folder / name
            done = self.ok("train", env=env, **self.base(output_dir=out))
            self.assertNotIn("measuring", done.stderr)
            self.assertIn(f"predicted ({name})", self.ok("plan", env=env, **self.base()).stdout)
            self.assertIn(f", {name}", self.ok("explain", env=env, **self.base()).stdout)
            self.assertEqual(self.plan(env=env, **self.base())["instruction_set"], name)
            for file in ("plan.json", "summary.json", "last/snug_state.json"):
                self.assertEqual(json.loads((out / file).read_text())["instruction_set"], name, file)

    def test_a_resume_under_another_set_says_that_bits_may_differ(self):
        own = self.set_of()
        lowest = self.lowest(own)
        if own == "baseline":
            common.not_run(self, "this processor has no set above the lowest")
        whole = self.train("whole", max_steps=6)
        out = self.train("run", max_steps=3)

        def resumed(max_steps, env=None):
            done = self.ok("train", env=env, **self.base(output_dir=out, resume=True, max_steps=max_steps))
            return " ".join(done.stderr.split())

        def set_in_state():
            return json.loads((out / "last/snug_state.json").read_text())["instruction_set"]

        self.assertNotIn("instruction set", resumed(4))
        self.assertNotIn("instruction set", resumed(4, lowest))  # it is finished: nothing is computed
        self.assertEqual(set_in_state(), own)
        self.assertIn(f"instruction set: {own} so far, baseline from here on: the last bits of the result may differ", resumed(5, lowest))
        self.assertEqual(set_in_state(), "baseline")
        self.assertEqual(self.summary(out)["instruction_set"], "baseline")
        self.assertIn(f"instruction set: baseline so far, {own} from here on", resumed(6))
        self.assertEqual(set_in_state(), own)
        parts = [common.read_safetensors(folder / "last/model.safetensors") for folder in (out, whole)]
        self.assertLess(common.relative_l2(*parts), 1e-4)

    def test_a_checkpoint_that_names_no_set_goes_on_in_silence_and_one_that_is_unknown_is_refused(self):
        out = self.train("run", max_steps=2)
        wanted = self.train("wanted", max_steps=4)
        path = out / "last/snug_state.json"
        state = json.loads(path.read_text())
        path.write_text(json.dumps(dict(state, instruction_set="avx9")))
        write_marker(out / "last")
        refused = run("train", *options(**self.base(output_dir=out, resume=True, max_steps=4)))
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertIn("'avx9', which is no instruction set", refused.stderr)
        del state["instruction_set"]
        path.write_text(json.dumps(state))
        write_marker(out / "last")
        done = self.ok("train", **self.base(output_dir=out, resume=True, max_steps=4))
        self.assertNotIn("instruction set", done.stderr)
        self.assertEqual(sha256(out / "last/model.safetensors"), sha256(wanted / "last/model.safetensors"))
        self.assertEqual(json.loads(path.read_text())["instruction_set"], self.set_of())


if __name__ == "__main__":
    common.main()
