"""Low-rank adapters: what is trained and written, resuming, evaluating, beginning with a folder, and what is refused."""
import json
import math
import shutil
import struct

from common import Case, main, options, read_safetensors, read_safetensors_header, run, sha256

LORA = {"match": ["bert.encoder.*"], "r": 4, "alpha": 8, "dropout": 0.1}


class Lora(Case):
    def setUp(self):
        super().setUp()
        self.base_folder = self.train("base", max_steps=20) / "best"

    def adapted(self, name, **more):
        keys = dict(model=self.base_folder, vocab_size=None, lora=json.dumps(LORA), max_steps=4, save_steps=2, weight_decay=0.1)
        return self.train(name, **dict(keys, **more))

    def scores(self, **keys):
        done = self.ok("predict", test_file=self.valid_file, threads=2, memory="1GiB", **keys)
        return [json.loads(line)["scores"] for line in done.stdout.splitlines()]

    def refused(self, text, verb="train", **keys):
        values = dict(self.base(model=self.base_folder, vocab_size=None, output_dir=self.folder / "refused"), **keys)
        done = run(verb, *options(**{key: value for key, value in values.items() if value is not None}))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(text, done.stderr)

    def test_adapters_and_the_head_are_written_and_nothing_else(self):
        before = sha256(self.base_folder / "model.safetensors")
        out = self.adapted("run")
        self.assertEqual(sha256(self.base_folder / "model.safetensors"), before)
        for folder in (out / "best", out / "last"):
            self.assertFalse((folder / "model.safetensors").exists())
            self.assertFalse((folder / "config.json").exists())  # beside it transformers looks for whole weights
            self.assertEqual(list(json.loads((folder / "snug_config.json").read_text())["id2label"].values()), ["animal", "food", "tool"])
            names = read_safetensors_header(folder / "adapter_model.safetensors")
            self.assertEqual(names["base_model.model.bert.encoder.layer.1.attention.self.query.lora_A.weight"], ("F32", [4, 128]))
            self.assertEqual(names["base_model.model.bert.encoder.layer.0.intermediate.dense.lora_B.weight"], ("F32", [512, 4]))
            self.assertEqual(len(names), 2 * 6 * 2 + 2)
            config = json.loads((folder / "adapter_config.json").read_text())
            self.assertEqual((config["peft_type"], config["r"], config["lora_alpha"], config["lora_dropout"]), ("LORA", 4, 8, 0.1))
            self.assertEqual(config["base_model_name_or_path"], str(self.base_folder))
            self.assertEqual(config["modules_to_save"], ["classifier"])
            self.assertEqual(len(config["target_modules"]), 12)
        states = read_safetensors_header(out / "last/optimizer.safetensors")
        self.assertTrue(all("lora_" in name or "classifier" in name for name in states))
        b = read_safetensors(out / "last/adapter_model.safetensors")["base_model.model.bert.encoder.layer.0.output.dense.lora_B.weight"]
        self.assertGreater(max(map(abs, b)), 0)
        summary = self.summary(out)
        self.assertEqual(summary["measured_arena_bytes"], summary["planned_arena_bytes"])

    def test_a_folder_of_an_older_version_is_read(self):
        out = self.adapted("run")
        older = shutil.copytree(out / "last", self.folder / "older", ignore=shutil.ignore_patterns("*.complete", "*state*", "optimizer*"))
        (older / "snug_config.json").rename(older / "config.json")
        self.assertEqual(self.scores(model=older), self.scores(model=out / "last"))

    def test_a_head_of_several_maps_is_named_as_peft_finds_it(self):
        for model in ("roberta-tiny", "electra-tiny"):
            base = self.train(f"{model}-base", model=model, max_steps=1) / "last"
            family = model.split("-")[0]
            out = self.adapted(f"{model}-run", model=base, lora=json.dumps(dict(LORA, match=[f"{family}.encoder.*"])), max_steps=1)
            config = json.loads((out / "last/adapter_config.json").read_text())
            self.assertEqual(config["modules_to_save"], ["classifier"])
            names = read_safetensors_header(out / "last/adapter_model.safetensors")
            for layer in ("dense", "out_proj"):
                self.assertIn(f"base_model.model.classifier.{layer}.weight", names)
            self.assertEqual(len(self.scores(model=out / "last")), 40)

    def test_bits_are_equal_under_every_budget_and_after_a_kill(self):
        keys = dict(model=self.base_folder, vocab_size=None, lora=json.dumps(LORA), max_steps=8, save_steps=1, micro_batch_size=4)
        whole = self.train("whole", **keys)
        smallest = self.plan(**self.base(**keys))["smallest_budget_bytes"]
        tight = self.train("tight", **dict(keys, memory=smallest))
        cut = self.base(**dict(keys, output_dir=self.folder / "cut"))
        self.kill_after_a_checkpoint(**cut)
        self.ok("train", **dict(cut, resume=True))
        for file in ("adapter_model.safetensors", "optimizer.safetensors"):
            wanted = sha256(whole / "last" / file)
            self.assertEqual(sha256(tight / "last" / file), wanted)
            self.assertEqual(sha256(cut["output_dir"] / "last" / file), wanted)
        self.assert_resident_within(self.summary(tight), smallest)

    def test_a_folder_of_adapters_is_evaluated_in_every_way_of_naming_it(self):
        out = self.adapted("run", max_steps=12, save_steps=0, learning_rate=0.01)
        wanted = self.scores(model=out / "last")
        self.assertNotEqual(wanted, self.scores(model=self.base_folder))
        self.assertEqual(wanted, self.scores(model=self.base_folder, lora_adapter=out / "last"))
        done = self.ok("eval", model=self.base_folder, output_dir=out, test_file=self.valid_file, lora=json.dumps(LORA), threads=2)
        found = json.loads(done.stdout)
        self.assertAlmostEqual(found["loss"], self.summary(out)["final_metrics"]["loss"], delta=1)

    def test_training_begins_with_a_folder_of_adapters(self):
        first = self.adapted("first")
        more = dict(model=self.base_folder, vocab_size=None, lora_adapter=first / "last", save_steps=1)
        still = self.train("still", **dict(more, max_steps=1, learning_rate=0))
        self.assertEqual(read_safetensors(still / "last/adapter_model.safetensors"),
                         read_safetensors(first / "last/adapter_model.safetensors"))
        whole = self.train("whole", **dict(more, max_steps=4))
        keys = dict(self.base(**dict(more, max_steps=4)), output_dir=self.folder / "cut")
        self.kill_after_a_checkpoint(**keys)
        self.ok("train", **dict(keys, resume=True))
        self.assertEqual(sha256(whole / "last/adapter_model.safetensors"), sha256(keys["output_dir"] / "last/adapter_model.safetensors"))
        config = json.loads((whole / "last/adapter_config.json").read_text())
        self.assertEqual((config["r"], config["lora_alpha"], config["lora_dropout"]), (4, 8, 0.1))

    def test_a_merged_model_predicts_what_base_and_adapters_do(self):
        out = self.adapted("run", max_steps=12, learning_rate=0.01)
        merged = self.folder / "merged"
        self.ok("merge", model=self.base_folder, adapter=out / "last", output=merged)
        self.assertEqual(read_safetensors_header(merged / "model.safetensors"), read_safetensors_header(self.base_folder / "model.safetensors"))
        for ours, theirs in zip(self.scores(model=merged), self.scores(model=out / "last"), strict=True):
            for label, score in ours.items():
                self.assertAlmostEqual(score, theirs[label], delta=1e-5)
        untouched = "bert.embeddings.word_embeddings.weight"
        self.assertEqual(read_safetensors(merged / "model.safetensors")[untouched],
                         read_safetensors(self.base_folder / "model.safetensors")[untouched])
        other = self.train("other", max_steps=1, seed=9) / "best"
        for keys, text in ((dict(model=other, output=self.folder / "no"), "were trained on other weights"),
                           (dict(output=self.base_folder), "is what is merged"), (dict(adapter=other, output=self.folder / "no"), "is no folder with")):
            done = run("merge", *options(**dict(dict(model=self.base_folder, adapter=out / "last"), **keys)))
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(text, done.stderr)
        self.assertFalse((self.folder / "no").exists())

    def test_a_fresh_pooler_is_trained_and_kept(self):
        bare = self.folder / "bare"
        shutil.copytree(self.base_folder, bare)
        (bare / ".snug.complete").unlink()
        self.drop(bare / "model.safetensors", "bert.pooler.")
        out = self.adapted("run", model=bare)
        names = read_safetensors_header(out / "last/adapter_model.safetensors")
        self.assertIn("base_model.model.bert.pooler.dense.weight", names)
        self.assertIn("bert.pooler.dense", json.loads((out / "last/adapter_config.json").read_text())["modules_to_save"])
        self.scores(model=out / "last")

    def drop(self, path, prefix):
        """Rewrites the file without these tensors."""
        shapes, tensors = read_safetensors_header(path), read_safetensors(path)
        self.write(path, {name: (shapes[name][1], values) for name, values in tensors.items() if not name.startswith(prefix)})

    @staticmethod
    def write(path, tensors, metadata=None):
        header, offset, data = {"__metadata__": metadata or {}}, 0, b""
        for name, (shape, values) in tensors.items():
            raw = struct.pack(f"<{math.prod(shape)}f", *values)
            header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + len(raw)]}
            offset, data = offset + len(raw), data + raw
        text = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + data)

    def test_adapters_that_do_not_belong_are_refused_by_name(self):
        out = self.adapted("run")
        adapters = out / "last/adapter_model.safetensors"
        other = self.train("other", max_steps=2, seed=9) / "best"
        self.refused("were trained on other weights", model=other, lora_adapter=out / "last")
        smaller = self.train("smaller", model="bert-mini", max_steps=1) / "best"
        self.refused("do not belong to the folder's config.json", model=smaller, lora_adapter=out / "last")
        changed = self.folder / "changed"
        shutil.copytree(out / "last", changed)
        (changed / ".snug.complete").unlink()
        keys = dict(lora_adapter=changed)
        config = json.loads((changed / "adapter_config.json").read_text())
        for change, text in (({"r": 8}, "has the rank 4, adapter_config.json says r = 8"), ({"use_dora": True}, '"use_dora" true asks for'),
                             ({"bias": "some"}, '"bias" must be none, all or lora_only'), ({"rank_pattern": {"query": 2}}, "adapter_config.json says r = 2"),
                             ({"rank_pattern": {"(": 2}}, '"rank_pattern" holds a wrong name'), ({"alpha_pattern": {"query": 0}}, "must be above 0"),
                             ({"init_lora_weights": "pissa"}, "weights less the first adapters"),
                             ({"init_lora_weights": "olora"}, "weights less the first adapters"),
                             ({"init_lora_weights": "pissa_niter_4"}, "weights less the first adapters"),
                             ({"loftq_config": {"loftq_bits": 4}}, "weights less the first adapters"),
                             ({"kasa_config": {"beta": 1e-4}}, '"kasa_config" {"beta":0.0001} asks for what this version does not know'),
                             ({"target_modules": 5}, '"target_modules" must be'), ({"modules_to_save": "zzz"}, '"modules_to_save" must be'),
                             ({"modules_to_save": ["zzz"]}, "\"modules_to_save\" names 'zzz', which is no part of the model"),
                             ({"peft_type": "IA3"}, "\"peft_type\" is 'IA3'")):
            (changed / "adapter_config.json").write_text(json.dumps(dict(config, **change)))
            self.refused(text, **keys)
        (changed / "adapter_config.json").write_text(json.dumps(dict(config, kasa_config=None, new_switch=False, new_list=[], target_modules=None,
                                                                               modules_to_save=["classifier", "score"])))
        self.ok("plan", **self.base(model=self.base_folder, lora_adapter=changed))
        shapes, tensors = read_safetensors_header(adapters), read_safetensors(adapters)
        name = "base_model.model.bert.encoder.layer.0.output.dense.lora_B.weight"
        rest = {key: (shapes[key][1], tensors[key]) for key in tensors if key != name}
        self.write(changed / "adapter_model.safetensors", rest)
        self.refused(f"'{name}' is missing", **keys)
        self.write(changed / "adapter_model.safetensors", dict(rest, **{name: ([2, 4], [0.0] * 8)}))
        self.refused(f"'{name}' is [2,4], not [128,4]: they were made for another base", **keys)
        spare = {key: (shapes[key][1], tensors[key]) for key in tensors}
        self.write(changed / "adapter_model.safetensors", dict(spare, **{"base_model.model.zz": ([1], [0.0])}))
        self.refused("'base_model.model.zz' belongs to no weight", **keys)
        table = "base_model.model.bert.embeddings.word_embeddings.lora_embedding_A"
        self.write(changed / "adapter_model.safetensors", dict(spare, **{table: ([1], [0.0])}))
        self.refused(f"'{table}' adapts a table of embeddings", **keys)
        config["base_model_name_or_path"] = str(self.folder / "gone")
        self.write(changed / "adapter_model.safetensors", spare)
        (changed / "adapter_config.json").write_text(json.dumps(config))
        done = run("predict", *options(model=changed, test_file=self.valid_file))
        self.assertEqual(done.returncode, 1)
        self.assertIn("is no folder with weights", done.stderr)

    def test_what_cannot_be_is_refused_by_name(self):
        for lora, text in (({"match": "zz*"}, "the pattern 'zz*' matches no weight"), ({"match": "classifier.*"}, "belongs to the head"),
                           ({"match": "*word_embeddings*"}, "is no linear map: it is read by"), ({"match": "*LayerNorm*"}, "matches vectors only"),
                           ({"r": 4}, "match"), ({"match": "*", "rank": 4}, "has no key 'rank'"), ({"match": "*", "r": 0}, "\"r\""),
                           ({"match": "*", "dropout": 1}, "dropout"), ({"match": "*", "alpha": -1}, "alpha")):
            self.refused(text, lora=json.dumps(lora))
        self.refused("has no trained weights", model="bert-tiny", lora=json.dumps(LORA))
        self.refused("say their rank, alpha and maps themselves", lora=json.dumps(LORA), lora_adapter=self.base_folder)
        self.refused("is no folder with adapter_config.json", lora_adapter=self.base_folder)
        self.refused("has batch norm", "plan", model="resnet-8", train_file=None, validation_file=None, vocab_size=None, max_seq_length=None,
                     output_dir=None, lora=json.dumps({"match": "fc.weight"}))

    def test_plans_and_proofs_know_adapters(self):
        keys = dict(self.base(lora=json.dumps(LORA)))
        plan, full = self.plan(**keys), self.plan(**self.base())
        self.assertLess(plan["trainable_parameters"], 0.05 * plan["parameters"])
        self.assertGreater(plan["parameters"], full["parameters"])
        self.assertTrue(all("lora_" in state["name"] or "classifier" in state["name"] for state in plan["states"]))
        self.ok("verify", **keys)
        self.assertIn("lora_A", self.ok("inspect", model="bert-tiny", lora=json.dumps(LORA), weights=True).stdout)


if __name__ == "__main__":
    main()
