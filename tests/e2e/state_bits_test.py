"""Optimizer states in 8 bits: what a plan says of them, equal bits under every budget and after a kill, files, refusals."""
import json

import common
from common import Case, main, options, read_safetensors_header, run, sha256

MINI = dict(model="bert-mini", train_batch_size=8, micro_batch_size=4, optim_bits=8, learning_rate=1e-3)


class StateBits(Case):
    def states(self, **more):
        return {(state["role"], state["name"]): state for state in self.plan(**self.base(**more))["states"]}

    def test_a_plan_lists_every_state_with_its_codec_and_bytes(self):
        plain = self.states(**dict(MINI, optim_bits=32))
        coded = self.states(**MINI)
        self.assertEqual(plain.keys(), coded.keys())
        self.assertEqual({state["codec"] for state in plain.values()}, {"float32"})
        for key, state in coded.items():
            elements = plain[key]["bytes"] // 4
            is_coded = elements >= 4096 and "embeddings" not in state["name"]
            self.assertEqual(state["codec"], "default" if is_coded else "float32", key)
            self.assertLessEqual(state["bytes"], (0.27 if is_coded else 1) * plain[key]["bytes"], key)
        self.assertIn("in 8 bits (default)", self.ok("plan", **self.base(**MINI)).stdout)

    def test_a_deep_model_keeps_its_process_within_the_plan(self):
        """A state in 8 bits is two tensors with kernels of their own; a hundred layers have 1,400 of them."""
        config = self.folder / "deep.json"
        config.write_text(json.dumps(dict(model_type="bert", vocab_size=400, hidden_size=128, num_hidden_layers=100,
                                          num_attention_heads=2, intermediate_size=512, max_position_embeddings=128)))
        common.write_jsonl(self.train_file, common.make_rows(40, longest=160))
        for recompute in ("none", "all"):
            out = self.train(recompute, model=config, max_seq_length=128, max_steps=1, memory="4GiB", optim_bits=8,
                             two_pass_clip=True, max_grad_norm=1, micro_batch_size=8, recompute=recompute)
            self.assert_resident_within(self.summary(out), self.summary(out)["planned_peak_bytes"])

    def test_rules_by_pattern_win(self):
        rules = [{"match": "bert.embeddings.*", "bits": 8}, {"match": "*.layer.0.*", "bits": 32}]
        found = self.states(**MINI, optim_codec="bnb", optim_bits_overrides=json.dumps(rules))
        for (_, name), state in found.items():
            if "embeddings" in name:
                self.assertEqual(state["codec"], "bnb", name)
            if ".layer.0." in name:
                self.assertEqual(state["codec"], "float32", name)

    def test_bits_are_equal_under_every_budget_and_after_a_kill(self):
        for codec in ("default", "bnb"):
            keys = dict(MINI, optim_codec=codec, max_steps=4, save_steps=1)
            whole = self.train(f"whole-{codec}", **keys)
            smallest = self.plan(**self.base(**keys))["smallest_budget_bytes"]
            tight = self.train(f"tight-{codec}", **dict(keys, memory=smallest))
            cut = self.base(**dict(keys, output_dir=self.folder / f"cut-{codec}"))
            self.kill_after_a_checkpoint(**cut)
            self.ok("train", **dict(cut, resume=True))
            for file in ("model.safetensors", "optimizer.safetensors"):
                wanted = sha256(whole / "last" / file)
                self.assertEqual(sha256(tight / "last" / file), wanted, codec)
                self.assertEqual(sha256(cut["output_dir"] / "last" / file), wanted, codec)
            summary = self.summary(whole)
            self.assertEqual(summary["measured_arena_bytes"], summary["planned_arena_bytes"])
            self.assert_resident_within(self.summary(tight), smallest)

    def test_a_checkpoint_holds_codes_and_scales(self):
        out = self.train("files", **dict(MINI, max_steps=1))
        tensors = read_safetensors_header(out / "last/optimizer.safetensors")
        name = "bert.encoder.layer.0.output.dense.weight"
        self.assertEqual(tensors[f"m.{name}.codes"], ("U8", [256, 1024]))
        self.assertEqual(tensors[f"v.{name}.scales"], ("F32", [1024]))
        self.assertNotIn(f"m.{name}", tensors)
        self.assertEqual(tensors["m.classifier.bias"][0], "F32")

    def test_a_run_keeps_its_bits(self):
        out = self.train("kept", **dict(MINI, max_steps=1))
        for change in (dict(optim_bits=32), dict(optim_codec="bnb"), dict(optim_bits_overrides='[{"match": "*", "bits": 32}]')):
            done = run("train", *options(**self.base(**dict(MINI, output_dir=out, max_steps=2, resume=True, **{}) | change)))
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(next(iter(change)), done.stderr)

    def test_every_optimizer_with_states_of_a_weights_size_verifies_in_8_bits(self):
        for name in ("adamw", "adam", "rmsprop", "adagrad", "lamb", "lars", "lion", "sgd"):
            with self.subTest(name):
                keys = dict(model="mlp", hidden_sizes="128", optim=name, optim_bits_overrides='[{"match": "*.weight", "bits": 8}]')
                if name == "sgd":
                    keys["momentum"] = 0.9
                self.ok("verify", **self.base(**keys))

    def test_what_is_in_fewer_bits_or_in_two_passes_verifies(self):
        for keys in (dict(optim_bits=8, optim_codec="bnb"), dict(optim_bits=8, weight_dtype="bfloat16"),
                     dict(optim="sgd", weight_dtype="bf16x8"), dict(two_pass_clip="true"),
                     dict(optim="sgd", freeze="embeddings", frozen_dtype="int8")):
            report = json.loads(self.ok("verify", **self.base(**keys, json=True)).stdout)
            self.assertTrue(report["is_equal"], report)

    def test_what_would_change_nothing_is_refused(self):
        for keys, text in ((dict(optim="sgd"), "sgd has no states of a weight's size"), (dict(optim="adafactor"), "adafactor has no states"),
                           (dict(optim_bits_overrides='[{"match": "zz", "bits": 8}]'), "matches no weight"),
                           (dict(optim_bits=32, optim_codec="bnb"), "no state is in 8 bits"),
                           (dict(optim_bits=32, optim_bits_overrides='[{"match": "*", "bits": 32}]'), "every state is in 32 bits anyway"),
                           (dict(optim_bits_overrides='[{"match": "*", "bits": 32}]'), "no state would be in 8 bits"),
                           (dict(freeze="*bert*"), "no state would be in 8 bits"),
                           (dict(freeze="*pooler*", optim_bits_overrides='[{"match": "*pooler*", "bits": 8}]'), "is frozen"),
                           (dict(optim_bits=16), "optim_bits"), (dict(optim_codec="int8"), "optim_codec"),
                           (dict(optim_bits_overrides='[{"match": "*", "bits": 4}]'), "must be 32 or 8")):
            done = run("plan", *options(**self.base(**dict(dict(optim_bits=8), **keys))))
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(text, done.stderr)

    def test_what_refines_a_lever_may_stand_beside_it(self):
        for lever in ("adam8bit", "optim"):
            plan = json.loads(self.ok("plan", **self.base(allow="adam8bit," + lever if lever == "optim" else lever, optim_codec="bnb", json=True)).stdout)
            is_taken = plan["levers_taken"].get("optim_bits") == "8"
            self.assertEqual("bnb" in {state["codec"] for state in plan["states"]}, is_taken)

    def test_a_refusal_names_them(self):
        done = run("plan", *options(**self.base(model="bert-base", memory="1300MiB", micro_batch_size=8, two_pass_clip="false")))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--optim_bits 8", done.stderr)


if __name__ == "__main__":
    main()
