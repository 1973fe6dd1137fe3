"""Row programs: the same bits as every op by itself, planned is measured, no budget gets less with them, saved plans and resuming in either form."""
import json
import os

from common import PAGE, Case, main, options, run, sha256

FAMILIES = {"bert": dict(model="bert-tiny"), "16 bits": dict(model="bert-mini", bf16=True), "fp16": dict(model="distilbert-tiny", fp16=True),
            "gated": dict(model="modernbert-tiny"), "relative": dict(model="deberta-v3-tiny"), "pieces": dict(model="electra-tiny", micro_batch_size=8),
            "lstm": dict(model="lstm", hidden_size=32), "mlp": dict(model="mlp", hidden_sizes=64)}
# One micro-batch size: chosen by itself it follows the machine's speeds, and bits may follow it.
KEYS = dict(train_batch_size=16, micro_batch_size=16, max_steps=3)
FORMS = ("off", "fusible", "full")
LAYER = "*.layer.1.*"
LEVELS = {"off": dict(fusion="off"), "one layer": dict(fusion="off", fusion_overrides=json.dumps([{"match": LAYER, "level": "fusible"}])),
          "all but one layer": dict(fusion_overrides=json.dumps([{"match": LAYER, "level": "off"}])), "fusible": dict(fusion="fusible"), "full": {}}


class Fusion(Case):
    def assert_same(self, one, *others):
        for file in ("model.safetensors", "optimizer.safetensors"):
            for other in others:
                self.assertEqual(sha256(one / "last" / file), sha256(other / "last" / file), file)
        for out in (one, *others):
            summary = self.summary(out)
            self.assertEqual(summary["measured_arena_bytes"], summary["planned_arena_bytes"])

    def test_every_family_has_the_bits_of_every_op_by_itself(self):
        fused = 0
        for name, keys in FAMILIES.items():
            with self.subTest(name):
                outs = {form: self.train(f"{name}-{form}", **dict(KEYS, **keys, fusion=form)) for form in FORMS}
                self.assert_same(*outs.values())
                plans = {form: json.loads((out / "plan.json").read_text()) for form, out in outs.items()}
                self.assertEqual(plans["off"]["row_program_ops"], 0)
                self.assertLessEqual(plans["fusible"]["row_program_ops"], plans["full"]["row_program_ops"])
                fused += plans["fusible"]["row_program_ops"]
        self.assertGreater(fused, 60)

    def test_no_budget_gets_less(self):
        for keys in (dict(model="bert-mini", micro_batch_size=None), dict(model="bert-mini", bf16=True, micro_batch_size=None), dict(model="modernbert-tiny", micro_batch_size=8)):
            plans = {form: self.plan(**self.base(**dict(KEYS, **keys, fusion=form))) for form in FORMS}
            smallest = [plans[form]["smallest_budget_bytes"] for form in FORMS]
            self.assertEqual(smallest, sorted(smallest, reverse=True))
            for price in plans["off"]["prices"]:
                budget = price["budget_bytes"]
                within = {form: self.plan(**self.base(**dict(KEYS, **keys, memory=budget, fusion=form)))["step_seconds"] for form in FORMS}
                self.assertLessEqual(within["fusible"], within["off"] * (1 + 1e-9), f"{keys} at {budget}")
                self.assertLessEqual(within["full"], within["fusible"] * (1 + 1e-9), f"{keys} at {budget}")

    def test_tight_budgets_have_the_same_bits(self):
        keys = dict(KEYS, model="bert-mini")
        whole = self.train("whole", **keys, fusion="off")
        prices = self.plan(**self.base(**keys))["prices"]
        for price in prices[:: max(1, len(prices) // 4)]:
            budget = price["budget_bytes"]
            out = self.train(f"at-{budget}", **dict(keys, memory=budget))
            self.assertEqual(sha256(out / "last/model.safetensors"), sha256(whole / "last/model.safetensors"), budget)
            self.assert_resident_within(self.summary(out), budget)

    def test_a_saved_plan_keeps_its_programs(self):
        file = self.folder / "plan.json"
        keys = dict(KEYS, model="bert-tiny")
        one = self.train("one", **keys, fusion="off")
        self.ok("plan", **self.base(**keys), **{"save-plan": file})
        steps = [step for program in json.loads(file.read_text())["programs"] for step in program["plan"]["steps"]]
        self.assertTrue(any(step.get("is_in_row_program") for step in steps))
        self.assert_same(one, self.train("two", **keys, plan=file))
        done = run("plan", *options(**self.base(**keys, plan=file, fusion="off")))
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("row program", done.stderr)

    def test_a_run_goes_on_in_the_other_form(self):
        keys = dict(model="bert-tiny", train_batch_size=8, max_steps=4, save_steps=1)
        whole = self.train("whole", **keys)
        cut = self.base(**dict(keys, output_dir=self.folder / "cut"))
        self.kill_after_a_checkpoint(**cut)
        self.ok("train", **dict(cut, resume=True, fusion="off"))
        self.assertEqual(sha256(cut["output_dir"] / "last/model.safetensors"), sha256(whole / "last/model.safetensors"))

    def test_parts_of_a_network_have_levels_of_their_own(self):
        keys = dict(KEYS, model="bert-mini")
        plans = {name: self.plan(**self.base(**keys, **rules)) for name, rules in LEVELS.items()}
        fused = {name: plan["row_program_ops"] for name, plan in plans.items()}
        self.assertTrue(0 == fused["off"] < fused["one layer"] < fused["all but one layer"] < fused["full"], fused)
        self.assertTrue(0 < fused["fusible"] < fused["full"], fused)
        # Rules are a part of the process's memory themselves.
        smallest = {name: plan["smallest_budget_bytes"] - plan["process_bytes"] for name, plan in plans.items()}
        for bytes_beside in smallest.values():
            self.assertLessEqual(smallest["full"], bytes_beside + PAGE)
            self.assertLessEqual(bytes_beside, smallest["off"] + PAGE)
        whole = self.train("whole", **keys, fusion="off")
        for name in ("one layer", "all but one layer", "fusible"):
            self.assert_same(whole, self.train(name, **keys, **LEVELS[name]))
            tight = self.train(f"{name}, tight", **keys, **LEVELS[name], memory=plans[name]["smallest_budget_bytes"])
            self.assertEqual(sha256(tight / "last/model.safetensors"), sha256(whole / "last/model.safetensors"))

    def test_levels_of_parts_in_a_file_and_of_a_run_that_goes_on(self):
        file = self.folder / "run.yaml"
        rules = "fusion_overrides:\n  - {match: '*.gelu', level: off}\n  - {match: '*dropout*', level: fusible}\n"
        file.write_text(f"model: bert-tiny\ntrain_batch_size: 8\nmax_steps: 4\nsave_steps: 1\n{rules}")
        whole = self.train("whole", model="bert-tiny", train_batch_size=8, max_steps=4)
        cut = self.base(output_dir=self.folder / "cut", config=file)
        for key in ("model", "train_batch_size", "max_steps"):
            cut.pop(key, None)
        self.kill_after_a_checkpoint(**cut)
        other = json.dumps([{"match": "*.layer.0.*", "level": "off"}])
        done = self.ok("train", **dict(cut, resume=True, fusion_overrides=other))
        self.assertIn("fusion_overrides", done.stdout + done.stderr)
        self.assertEqual(sha256(cut["output_dir"] / "last/model.safetensors"), sha256(whole / "last/model.safetensors"))
        self.ok("eval", model=cut["output_dir"] / "last", test_file=cut["train_file"], fusion_overrides='[{"match": "*_grad", "level": "off"}]')

    def test_levels_that_name_nothing_are_refused(self):
        base = self.base(**KEYS, model="bert-tiny")
        for rules, texts in (('[{"match": "*.gelus", "level": "off"}]', ("fusion_overrides", "'*.gelus' matches no op", "did you mean '*.gelu'?")),
                             ('[{"match": "*.layer.0.*", "level": "fast"}]', ("full, fusible or off",)),
                             ('[{"match": "*", "levels": "off"}]', ("has no key 'levels'",)),
                             ('[{"match": "*", "level": "full"}]', ("every op is at the level full anyway",))):
            done = run("plan", *options(**base, fusion_overrides=rules))
            self.assertEqual(done.returncode, 1, done.stdout)
            for text in texts:
                self.assertIn(text, " ".join(done.stderr.split()))

    def test_the_flags_of_another_compiler_are_answered(self):
        words = options(**self.base(model="bert-tiny", train_batch_size=8))
        done = run("plan", *words, env=dict(os.environ, TF_XLA_FLAGS="--tf_xla_auto_jit=fusible"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("TF_XLA_FLAGS in the environment is without effect", done.stdout + done.stderr)
        self.assertIn("fusion: full", done.stdout + done.stderr)

    def test_dead_bytes_are_not_read(self):
        self.ok("verify", **self.base(model="bert-tiny", train_batch_size=8, max_steps=2))


if __name__ == "__main__":
    main()
