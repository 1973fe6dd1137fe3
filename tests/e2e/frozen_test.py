"""Frozen weights in 16 or 8 bits: fewer bytes, the same bits under every budget, and nothing lost in the files."""
import json
import shutil

from common import Case, main, options, read_safetensors, read_safetensors_header, run, sha256

FROZEN = dict(freeze="embeddings,first:1")
LORA = json.dumps({"match": "*.query.weight", "r": 4})


class Frozen(Case):
    def setUp(self):
        super().setUp()
        self.base_folder = self.train("base", max_steps=4) / "best"

    def keys(self, dtype, **more):
        return dict(dict(model=self.base_folder, vocab_size=None, frozen_dtype=dtype, micro_batch_size=4, max_steps=6, save_steps=1, **FROZEN), **more)

    def resident(self, dtype, **more):
        """Without what a processor's products have packed once an update."""
        plan = self.plan(**self.base(**self.keys(dtype, **more)))
        return plan["resident_bytes"] - plan["components"].get("made of weights once an update", 0)

    def test_a_plan_counts_fewer_bytes(self):
        plain, halves, codes = (self.resident(dtype) for dtype in ("float32", "bfloat16", "int8"))
        shapes = read_safetensors_header(self.base_folder / "model.safetensors")
        embeddings, layer = shapes["bert.embeddings.word_embeddings.weight"][1][0] * 128, 4 * 128 * 128 + 2 * 128 * 512
        positions = shapes["bert.embeddings.position_embeddings.weight"][1][0] * 128  # a slice reads them, from a cast
        self.assertLess(abs(plain - halves - 2 * (embeddings + positions + layer)), 4096 * 4)
        self.assertLess(abs(plain - codes - 3 * (embeddings + layer)), 4096 * 6)

    def test_what_does_not_move_is_saved_as_it_was(self):
        before = read_safetensors(self.base_folder / "model.safetensors")
        for dtype in ("bfloat16", "int8"):
            out = self.train(f"run-{dtype}", **self.keys(dtype, weight_decay=0.1))
            for folder in (out / "last", out / "best"):
                after = read_safetensors(folder / "model.safetensors")
                self.assertEqual(before.keys(), after.keys())
                for name, values in before.items():
                    is_frozen = "embeddings" in name or ".layer.0." in name
                    self.assertEqual(values == after[name], is_frozen, f"{dtype} {name}")
            summary = self.summary(out)
            self.assertEqual(summary["measured_arena_bytes"], summary["planned_arena_bytes"])

    def test_bits_are_equal_under_every_budget_and_after_a_kill(self):
        for dtype in ("bfloat16", "int8"):
            whole = self.train(f"whole-{dtype}", **self.keys(dtype))
            smallest = self.plan(**self.base(**self.keys(dtype)))["smallest_budget_bytes"]
            tight = self.train(f"tight-{dtype}", **self.keys(dtype, memory=smallest))
            cut = self.base(**self.keys(dtype, output_dir=self.folder / f"cut-{dtype}"))
            self.kill_after_a_checkpoint(**cut)
            self.ok("train", **dict(cut, resume=True))
            for file in ("model.safetensors", "optimizer.safetensors"):
                wanted = sha256(whole / "last" / file)
                self.assertEqual(sha256(tight / "last" / file), wanted, dtype)
                self.assertEqual(sha256(cut["output_dir"] / "last" / file), wanted, dtype)
            self.assert_resident_within(self.summary(tight), smallest)
            self.ok("verify", **self.base(**self.keys(dtype, save_steps=None, max_steps=2)))

    def test_a_folder_that_changed_is_noticed(self):
        moved = self.folder / "moved"
        shutil.copytree(self.base_folder, moved)
        keys = self.base(**self.keys("int8", model=moved, output_dir=self.folder / "run"))
        self.ok("train", **keys)
        shutil.rmtree(moved)
        shutil.copytree(self.train("other", max_steps=1, seed=8) / "best", moved)
        done = run("train", *options(**dict(keys, resume=True, max_steps=8)))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("changed since the run began", done.stderr)

    def test_adapters_on_a_coded_base(self):
        plain = self.resident("float32", freeze=None, lora=LORA)
        for dtype in ("bfloat16", "int8"):
            self.assertLess(self.resident(dtype, freeze=None, lora=LORA), 0.75 * plain)
            out = self.train(f"lora-{dtype}", **self.keys(dtype, freeze=None, lora=LORA))
            self.assertTrue((out / "last/adapter_model.safetensors").exists())
            self.ok("eval", model=out / "last", test_file=self.valid_file, frozen_dtype=dtype, threads=2)
            self.ok("eval", model=out / "last", test_file=self.valid_file, threads=2)

    def test_frozen_adapters_stay_in_f32_and_are_saved(self):
        for dtype in ("int8", "bfloat16"):
            keys = self.keys(dtype, freeze="first:1", lora=json.dumps({"match": "*.query.weight", "r": 32}), max_steps=2)
            out = self.train(f"frozen-{dtype}", **keys)
            self.assertTrue((out / "last/adapter_model.safetensors").exists())

    def test_what_would_be_lost_or_change_nothing_is_refused(self):
        for keys, text in ((dict(freeze=None), "no weight is frozen"), (dict(model="bert-tiny", vocab_size=400), "is frozen and in no folder"),
                           (dict(frozen_dtype="int4"), "frozen_dtype")):
            done = run("train", *options(**self.base(**dict(self.keys("int8"), output_dir=self.folder / "refused", **{}) | keys)))
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(text, done.stderr)


if __name__ == "__main__":
    main()
