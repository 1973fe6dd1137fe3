"""Mixed precision: equal bits under every budget and after a kill, less memory, losses beside float32's, evaluation, refusals."""
import json

from common import Case, main, options, run, sha256

MINI = dict(model="bert-mini", train_batch_size=8, learning_rate=1e-3)


class Precision(Case):
    def refused(self, verb, text, **keys):
        done = run(verb, *options(**keys))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(text, done.stderr)

    def losses(self, out):
        return [json.loads(line)["loss"] for line in (out / "metrics.jsonl").read_text().splitlines()]

    def check_bits(self, name, **keys):
        keys = dict(keys, max_steps=4, save_steps=1)
        whole = self.train(f"whole-{name}", **keys)
        smallest = self.plan(**self.base(**keys))["smallest_budget_bytes"]
        tight = self.train(f"tight-{name}", **dict(keys, memory=smallest))
        cut = self.base(**dict(keys, output_dir=self.folder / f"cut-{name}"))
        self.kill_after_a_checkpoint(**cut)
        self.ok("train", **dict(cut, resume=True))
        for file in ("model.safetensors", "optimizer.safetensors"):
            wanted = sha256(whole / "last" / file)
            self.assertEqual(sha256(tight / "last" / file), wanted, name)
            self.assertEqual(sha256(cut["output_dir"] / "last" / file), wanted, name)
        for out in (whole, tight):
            summary = self.summary(out)
            self.assertEqual(summary["measured_arena_bytes"], summary["planned_arena_bytes"])
        self.assert_resident_within(self.summary(tight), smallest)

    def test_bits_are_equal_under_every_budget_and_after_a_kill(self):
        self.check_bits("bf16", **MINI, micro_batch_size=8, bf16=True)
        self.check_bits("bf16-split", **MINI, micro_batch_size=4, bf16=True)
        self.check_bits("fp16", **MINI, micro_batch_size=8, fp16=True)
        self.check_bits("fp16-split", **MINI, micro_batch_size=4, fp16=True)

    def test_weights_in_fewer_bits_keep_their_bits(self):
        self.check_bits("weights-16", **MINI, micro_batch_size=8, weight_dtype="bfloat16", optim_bits=8)
        self.check_bits("weights-24", **MINI, micro_batch_size=4, weight_dtype="bf16x8", bf16=True)
        for model in ("distilbert-tiny", "lstm", "mlp"):
            out = self.train(f"{model}-weights", model=model, max_steps=2, weight_dtype="bfloat16")
            self.assertTrue(all(loss < 10 for loss in self.losses(out)), model)

    def test_every_lever_of_a_small_recipe_at_once_keeps_its_bits(self):
        recipe = dict(MINI, freeze="embeddings,first:2", optim_bits=8, micro_batch_size=2, max_grad_norm=1)
        for switch in ("bf16", "fp16"):
            keys = dict(recipe, **{switch: True})
            self.check_bits(f"recipe-{switch}", **keys)
            wanted = sha256(self.folder / f"whole-recipe-{switch}/last/model.safetensors")
            for recompute in ("none", "all"):
                out = self.train(f"{recompute}-{switch}", **keys, max_steps=4, recompute=recompute)
                self.assertEqual(sha256(out / "last/model.safetensors"), wanted, recompute)
                again = json.loads((out / "plan.json").read_text())["ops_run_again"]
                self.assertEqual(again > 0, recompute == "all")

    def test_every_family_trains(self):
        for model in ("distilbert-tiny", "lstm", "mlp"):
            for switch in ("bf16", "fp16"):
                out = self.train(f"{model}-{switch}", model=model, max_steps=2, **{switch: True})
                self.assertTrue(all(loss < 10 for loss in self.losses(out)), model)

    def test_activations_take_about_half(self):
        keys = dict(model="bert-mini", train_batch_size=32, micro_batch_size=32, recompute="none", max_seq_length=128)
        plain = self.plan(**self.base(**keys))["arena_bytes"]
        for switch in ("bf16", "fp16"):
            half = self.plan(**self.base(**keys, **{switch: True}))["arena_bytes"]
            self.assertLess(half, 0.65 * plain, switch)

    def test_losses_stay_beside_those_of_float32(self):
        keys = dict(MINI, max_steps=20, logging_steps=1)
        plain = self.losses(self.train("f32", **keys))
        for switch, bound in (("bf16", 0.05), ("fp16", 0.02)):
            found = self.losses(self.train(switch, **keys, **{switch: True}))
            self.assertEqual(len(found), 20)
            self.assertNotEqual(found, plain)
            for step, (loss, other) in enumerate(zip(found, plain)):
                self.assertLessEqual(abs(loss - other), bound * max(1, other), f"{switch}, update {step + 1}")

    def test_evaluation_and_prediction_in_16_bits(self):
        best = self.train("run", **MINI, max_steps=20) / "best"
        keys = dict(model=best, validation_file=self.valid_file)
        plain = json.loads(self.ok("eval", **keys).stdout)
        for switch in ("bf16", "bf16_full_eval", "fp16_full_eval"):
            half = json.loads(self.ok("eval", **keys, **{switch: True}).stdout)
            self.assertNotEqual(half["loss"], plain["loss"], switch)
            self.assertAlmostEqual(half["loss"], plain["loss"], delta=0.03, msg=switch)
        trained = self.train("full", **MINI, max_steps=2, bf16_full_eval=True)
        self.assertEqual(sha256(trained / "last/model.safetensors"),
                         sha256(self.train("plain", **MINI, max_steps=2) / "last/model.safetensors"))

    def test_evaluation_in_other_types_than_training_is_in_the_budget(self):
        base = self.train("base", **MINI, max_steps=1) / "last"
        keys = dict(model=base, vocab_size=None, max_seq_length=8, train_batch_size=2, max_steps=1, eval_steps=1,
                    lora=json.dumps({"match": "*.dense.weight", "r": 1}), fp16_full_eval=True)
        smallest = self.plan(**self.base(**keys))["smallest_budget_bytes"]
        summary = self.summary(self.train("tight", **keys, memory=smallest))
        self.assertEqual(summary["measured_arena_bytes"], summary["planned_arena_bytes"])

    def test_overrides_by_scope(self):
        keys = dict(model="bert-mini", train_batch_size=64, micro_batch_size=64, recompute="none", max_seq_length=128)  # activations, not scratch
        arena = lambda **more: self.plan(**self.base(**keys, **more))["arena_bytes"]
        half, plain = arena(bf16=True), arena()
        rules = json.dumps([{"match": "bert.encoder.layer.0*", "dtype": "float32"}])
        some = arena(bf16=True, precision_overrides=rules)
        self.assertTrue(half < some < plain, (half, some, plain))
        only = json.dumps([{"match": "bert.encoder.layer.0*", "dtype": "bfloat16"}])
        self.assertTrue(half < arena(precision_overrides=only) < plain)

    def test_evaluation_in_another_type_has_casts_of_its_own(self):
        """Micro-batches have what is made of weights once an update: casts, or panels of few rows. Evaluation may not take it for its casts."""
        for i, more in enumerate((dict(), dict(bf16=True))):
            out = self.train(f"casts{i}", **dict(MINI, fp16_full_eval=True, micro_batch_size=2, max_steps=20, **more))
            best = json.loads(self.ok("eval", model=out / "last", validation_file=self.valid_file, fp16_full_eval=True, memory="1GiB", threads=2).stdout)
            self.assertAlmostEqual(self.summary(out)["final_metrics"]["loss"], best["loss"], delta=2e-3, msg=str(more))

    def test_evaluation_in_another_type_than_training_and_its_overrides(self):
        out = self.train("apart", **dict(MINI, bf16=True, fp16_full_eval=True, micro_batch_size=2, max_steps=2))
        summary = self.summary(out)
        self.assertEqual(summary["planned_arena_bytes"], summary["measured_arena_bytes"])
        layer = '[{"match":"*.layer.1.*","dtype":"float32"}]'

        def loss(**keys):
            done = self.ok("eval", model=out / "best", test_file=self.valid_file, memory="1GiB", threads=2, **keys)
            return json.loads(done.stdout)["loss"]
        self.assertEqual(loss(bf16_full_eval=True, precision_overrides=layer), loss(bf16=True, precision_overrides=layer))
        self.assertNotEqual(loss(bf16_full_eval=True, precision_overrides=layer), loss(bf16_full_eval=True))
        self.refused("eval", "matches nothing that could be f32", model=out / "best", test_file=self.valid_file, memory="1GiB",
                     bf16_full_eval=True, precision_overrides=layer.replace("layer.1", "layer.77"))

    def test_the_plan_says_what_is_not_in_32_bits(self):
        self.assertEqual(self.plan(**self.base(**MINI))["precision"], "")
        said = self.ok("plan", **self.base(**MINI, bf16=True, weight_dtype="bf16x8")).stdout
        self.assertIn("  precision   bf16, trained weights bf16x8\n", said)
        found = self.plan(**self.base(**MINI, fp16_full_eval=True, freeze="embeddings", frozen_dtype="int8"))
        self.assertEqual(found["precision"], "evaluation fp16, frozen weights int8")
        apart = self.plan(**self.base(**MINI, bf16=True, fp16_full_eval=True))
        self.assertEqual(apart["precision"], "bf16, evaluation fp16")
        self.assertEqual(self.plan(**self.base(**MINI, bf16=True, bf16_full_eval=True))["precision"], "bf16")

    def test_what_cannot_be_is_refused(self):
        self.refused("plan", "both are asked for", **self.base(**MINI, bf16=True, fp16=True))
        nothing = json.dumps([{"match": "no.such.scope", "dtype": "float32"}])
        self.refused("plan", "matches nothing that could be f32", **self.base(**MINI, bf16=True, precision_overrides=nothing))
        mixed = json.dumps([{"match": "*.layer.0*", "dtype": "float16"}])
        self.refused("plan", "one type of 16 bits", **self.base(**MINI, bf16=True, precision_overrides=mixed))
        typo = json.dumps([{"match": "*", "dtype": "half"}])
        self.refused("plan", "float32, bfloat16 or float16", **self.base(**MINI, precision_overrides=typo))

    def test_a_run_keeps_its_precision(self):
        out = self.train("kept", **MINI, max_steps=1, bf16=True)
        self.refused("train", "bf16", **self.base(**MINI, output_dir=out, max_steps=2, resume=True))


if __name__ == "__main__":
    main()
