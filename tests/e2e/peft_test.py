"""Adapters against the PEFT package: its folders are read, its logits and gradients found again, and it reads ours. Listed as
not run where torch, transformers or peft is missing. PEFT_MODEL=base takes BERT-base's sizes."""
import json
import os
import shutil

from common import Case, main, not_run, read_safetensors, write_jsonl

try:
    import peft
    import torch
    import transformers
except ImportError as missing:
    peft, reason = None, f"Python has no {missing.name}"

SIZES = {"tiny": dict(hidden_size=64, num_hidden_layers=3, num_attention_heads=2, intermediate_size=96, max_position_embeddings=40),
         "base": dict(hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072, max_position_embeddings=512)}
TARGETS = ["query", "value", "intermediate.dense"]
RICH = [dict(rank_pattern={"layer.0.attention.self.query": 2, "dense": 3}, alpha_pattern={r".*layer\.1\..*": 9}, use_rslora=True),
        dict(target_modules="all-linear", modules_to_save=["pooler"], bias="lora_only"),
        dict(target_modules=r".*\.attention\.self\.(query|key)", bias="all")]
RATE = 1000.0  # of one step of SGD: a weight's change is its gradient, and its own rounding is small beside that


class Peft(Case):
    rows = 16

    def setUp(self):
        super().setUp()
        if peft is None:
            not_run(self, reason)
        torch.manual_seed(5)
        out = self.train("tokens", max_steps=1, num_labels=3)
        self.tokenizer = transformers.BertTokenizerFast.from_pretrained(out / "best")
        config = transformers.BertConfig(vocab_size=len(self.tokenizer), num_labels=3, hidden_dropout_prob=0.0,
                                         attention_probs_dropout_prob=0.0, id2label=dict(enumerate(["animal", "food", "tool"])),
                                         label2id={"animal": 0, "food": 1, "tool": 2}, **SIZES[os.environ.get("PEFT_MODEL", "tiny")])
        self.base_folder = self.folder / "model"
        transformers.BertForSequenceClassification(config).save_pretrained(self.base_folder)
        self.tokenizer.save_pretrained(self.base_folder)
        self.data = [json.loads(line) for line in self.train_file.read_text().splitlines()]

    def model(self):
        return transformers.BertForSequenceClassification.from_pretrained(self.base_folder, attn_implementation="eager")

    def batch(self):
        encoded = self.tokenizer([row["text"] for row in self.data], padding=True, truncation=True, max_length=32, return_tensors="pt")
        return encoded, torch.tensor([["animal", "food", "tool"].index(row["label"]) for row in self.data])

    def logits(self, model):
        with torch.no_grad():
            return model.eval()(**self.batch()[0]).logits

    def adapters(self, base=None, **more):
        """A folder of PEFT's whose B is not zero, and whose trained biases are not the base's."""
        config = dict(r=4, lora_alpha=6, lora_dropout=0.0, target_modules=TARGETS, task_type="SEQ_CLS")
        model = peft.get_peft_model(base or self.model(), peft.LoraConfig(**dict(config, **more)))
        with torch.no_grad():
            for name, value in model.named_parameters():
                if "lora_B" in name or (value.requires_grad and name.endswith(".bias")):
                    value.normal_(0, 0.1)
        folder = self.folder / "peft"
        model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        return model, folder

    @staticmethod
    def coded(weight):
        """What int8 stores of a weight, as docs/lora.md says it."""
        blocks = torch.nn.functional.pad(weight, (0, -weight.shape[1] % 256)).unflatten(1, (-1, 256))
        most = blocks.abs().amax(-1, keepdim=True).clamp(min=1e-30)
        return ((blocks / most * 127).round() * (most / 127)).flatten(1)[:, :weight.shape[1]]

    def coded_model(self):
        model = self.model()
        with torch.no_grad():
            for name, weight in model.named_parameters():
                is_table = "position" in name or "classifier" in name
                if weight.dim() == 2 and weight.numel() >= 4096 and not is_table:
                    weight.copy_(self.coded(weight))
        return model

    def test_heads_of_several_maps_are_loaded_by_peft(self):
        of = transformers
        sizes = dict(vocab_size=len(self.tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48,
                     max_position_embeddings=40, pad_token_id=0, id2label=dict(enumerate(["animal", "food", "tool"])),
                     label2id={"animal": 0, "food": 1, "tool": 2})
        for kind, config, prefix in ((of.RobertaForSequenceClassification, of.RobertaConfig(type_vocab_size=1, **sizes), "roberta"),
                                     (of.ElectraForSequenceClassification, of.ElectraConfig(embedding_size=16, **sizes), "electra"),
                                     (of.ModernBertForSequenceClassification, of.ModernBertConfig(
                                         bos_token_id=2, cls_token_id=2, eos_token_id=3, sep_token_id=3, **sizes), "model")):
            base = self.folder / f"{prefix}-base"
            kind(config).save_pretrained(base)
            self.tokenizer.save_pretrained(base)
            out = self.train(prefix, model=base, vocab_size=None, max_steps=2, learning_rate=1e-2,
                             lora=json.dumps({"match": [f"{prefix}.*layer*"], "r": 4, "alpha": 8}))
            model = peft.PeftModel.from_pretrained(kind.from_pretrained(base), out / "last").eval()
            self.assert_scores(out / "last", self.logits(model))

    def test_pipelines_load_what_is_written(self):
        out = self.train("adapters", model=self.base_folder, vocab_size=None, max_steps=2, lora=json.dumps({"match": "*.query.weight", "r": 4}))
        pipeline = transformers.pipeline("text-classification", model=str(out / "last"), top_k=None)
        texts = [row["text"] for row in self.data]
        scores = [{each["label"]: each["score"] for each in row} for row in pipeline(texts, truncation=True, max_length=32)]
        done = self.ok("predict", model=out / "last", test_file=self.train_file, threads=2, memory="4GiB", max_seq_length=32)
        for found, line in zip(scores, done.stdout.splitlines(), strict=True):
            for label, score in json.loads(line)["scores"].items():
                self.assertAlmostEqual(found[label], score, places=5)

    def assert_scores(self, folder, logits, **more):
        done = self.ok("predict", model=folder, test_file=self.train_file, threads=2, memory="4GiB", max_seq_length=32, **more)
        found = torch.tensor([list(json.loads(line)["scores"].values()) for line in done.stdout.splitlines()])
        self.assertLess((found - logits.softmax(-1)).abs().max().item(), 1e-5)

    def test_their_adapters_have_their_logits_and_gradients_here(self):
        self.assert_theirs(*self.adapters())

    def test_patterns_scales_biases_and_saved_modules_are_theirs(self):
        for more in RICH:
            with self.subTest(more):
                self.assert_theirs(*self.adapters(**more))
                shutil.rmtree(self.folder / "peft")
                shutil.rmtree(self.folder / "step")

    def assert_theirs(self, model, folder):
        self.assert_scores(self.base_folder, self.logits(model), lora_adapter=folder)
        self.assert_scores(folder, self.logits(model))
        out = self.train("step", model=self.base_folder, vocab_size=None, lora_adapter=folder, train_batch_size=self.rows, max_steps=1, optim="sgd",
                         learning_rate=RATE, lr_scheduler_type="constant", max_grad_norm=0, validation_file=None, validation_split=0, memory="8GiB")
        before = read_safetensors(folder / "adapter_model.safetensors")
        after = read_safetensors(out / "last/adapter_model.safetensors")
        copies = {name for name in before if ".original_module." in name or ".modules_to_save." in name}
        self.assertEqual(before.keys() - copies, after.keys())
        inputs, labels = self.batch()
        model.train()
        torch.nn.functional.cross_entropy(model(**inputs).logits, labels).backward()
        for name, value in model.named_parameters():
            if not value.requires_grad:
                continue
            key = name.replace("modules_to_save.default.", "").replace(".default", "")
            found = (torch.tensor(before[key].tolist(), dtype=torch.float64) - torch.tensor(after[key].tolist(), dtype=torch.float64)) / RATE
            wanted = value.grad.flatten().double()
            error = (found - wanted).norm().item() / max(wanted.norm().item(), 1e-4)  # of keys' biases it is 0
            self.assertLess(error, 1e-5, name)

    def test_our_adapters_have_our_logits_there(self):
        self.assert_ours({"match": ["*.query.weight", "bert.pooler.dense.weight"], "r": 3, "alpha": 5, "dropout": 0.1})

    def test_our_patterns_scales_biases_and_saved_modules_are_read_there(self):
        for more in RICH:
            with self.subTest(more):
                self.assert_ours(dict({"target_modules": TARGETS, "r": 4, "lora_alpha": 6}, **more))
                shutil.rmtree(self.folder / "ours")
                shutil.rmtree(self.folder / "merged")

    def test_added_tokens_beside_adapters(self):
        """Their folder with a larger table is read here, and ours there."""
        known = len(self.tokenizer)
        self.tokenizer.add_tokens(["hammerhead", "drillbit"])
        for row in self.data[::3]:
            row["text"] += " hammerhead drillbit"
        write_jsonl(self.train_file, self.data)
        more = self.folder / "tokens-and-two"
        self.tokenizer.save_pretrained(more)
        for saved in (None, ["word_embeddings"]):
            with self.subTest(saved):
                theirs = self.model()
                theirs.resize_token_embeddings(known + 2)
                model, folder = self.adapters(theirs, modules_to_save=saved)
                self.assert_scores(folder, self.logits(model))
                shutil.rmtree(folder)
                lora = {"target_modules": TARGETS, "r": 4, **({"modules_to_save": saved} if saved else {})}
                out = self.train("ours", model=self.base_folder, tokenizer=more, resize_embeddings=True, vocab_size=None, max_steps=5,
                                 learning_rate=0.01, memory="8GiB", max_seq_length=32, lora=json.dumps(lora))
                base = self.model()
                base.resize_token_embeddings(known + 2)
                logits = self.logits(peft.PeftModel.from_pretrained(base, out / "last"))
                self.assert_scores(out / "last", logits)
                self.ok("train", **self.base(output_dir=out, model=self.base_folder, tokenizer=more, resize_embeddings=True, vocab_size=None,
                                             max_steps=6, learning_rate=0.01, memory="8GiB", max_seq_length=32, lora=json.dumps(lora),
                                             resume=True))
                shutil.rmtree(out)

    def assert_ours(self, lora):
        out = self.train("ours", model=self.base_folder, vocab_size=None, max_steps=5, learning_rate=0.01, memory="8GiB", max_seq_length=32,
                         lora=json.dumps(lora))
        model = peft.PeftModel.from_pretrained(self.model(), out / "last")
        logits = self.logits(model)
        self.assertGreater((logits - self.logits(self.model())).abs().max().item(), 1e-3)
        self.assert_scores(out / "last", logits)
        merged = self.folder / "merged"
        self.ok("merge", model=self.base_folder, adapter=out / "last", output=merged)
        theirs = transformers.BertForSequenceClassification.from_pretrained(merged, attn_implementation="eager")
        self.assertLess((self.logits(theirs) - logits).abs().max().item(), 1e-5)
        self.assertEqual(theirs.config.id2label, {0: "animal", 1: "food", 2: "tool"})

    def test_adapters_on_a_base_in_8_bits_have_the_same_logits_there(self):
        out = self.train("coded", model=self.base_folder, vocab_size=None, max_steps=5, learning_rate=0.01, memory="8GiB", max_seq_length=32,
                         frozen_dtype="int8", lora=json.dumps({"match": "*.query.weight", "r": 3, "alpha": 5}))
        logits = self.logits(peft.PeftModel.from_pretrained(self.coded_model(), out / "last"))
        self.assert_scores(out / "last", logits, frozen_dtype="int8")


if __name__ == "__main__":
    main()
