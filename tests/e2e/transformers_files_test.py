"""Folders of transformers in every form and type that it has written, against its own probabilities; and what snug export writes,
loaded there. Listed as not run where torch or transformers is missing."""
import json
import shutil
import subprocess

from common import SNUG, Case, CIFAR_NAMES, main, not_run, options, run, write_cifar

try:
    import torch
    import transformers
except ImportError as missing:
    torch, reason = None, f"Python has no {missing.name}"

LABELS = ["animal", "food", "tool"]
DTYPES = ("float32", "float16", "bfloat16")


class Transformers(Case):
    rows = 16

    def setUp(self):
        super().setUp()
        if torch is None:
            not_run(self, reason)
        torch.manual_seed(8)

    def tokenizer(self):
        return transformers.BertTokenizerFast.from_pretrained(self.train("tokens", max_steps=1, num_labels=3) / "best")

    def text_models(self, size):
        labels = dict(id2label=dict(enumerate(LABELS)), label2id={name: i for i, name in enumerate(LABELS)})
        yield transformers.BertForSequenceClassification(transformers.BertConfig(
            vocab_size=size, hidden_size=48, num_hidden_layers=2, num_attention_heads=3, intermediate_size=96,
            max_position_embeddings=40, **labels))
        yield transformers.DistilBertForSequenceClassification(transformers.DistilBertConfig(
            vocab_size=size, dim=32, n_layers=2, n_heads=2, hidden_dim=64, max_position_embeddings=40, **labels))
        bert_like = dict(vocab_size=size, num_hidden_layers=2, intermediate_size=48, max_position_embeddings=40, **labels)
        yield transformers.RobertaForSequenceClassification(transformers.RobertaConfig(
            hidden_size=32, num_attention_heads=2, type_vocab_size=1, pad_token_id=0, **bert_like))
        yield transformers.XLMRobertaForSequenceClassification(transformers.XLMRobertaConfig(
            hidden_size=33, num_attention_heads=3, type_vocab_size=1, pad_token_id=0, **bert_like))
        yield transformers.ElectraForSequenceClassification(transformers.ElectraConfig(
            embedding_size=20, hidden_size=36, num_attention_heads=4, **bert_like))
        yield transformers.AlbertForSequenceClassification(transformers.AlbertConfig(
            embedding_size=20, hidden_size=36, num_attention_heads=4, num_hidden_groups=1, **bert_like))
        yield transformers.DebertaV2ForSequenceClassification(transformers.DebertaV2Config(
            vocab_size=size, hidden_size=33, num_hidden_layers=2, num_attention_heads=3, intermediate_size=48,
            max_position_embeddings=40, type_vocab_size=0, relative_attention=True, position_buckets=8, norm_rel_ebd="layer_norm",
            share_att_key=True, pos_att_type=["p2c", "c2p"], position_biased_input=False, conv_kernel_size=3, conv_act="gelu",
            pad_token_id=0, **labels))
        yield transformers.ModernBertForSequenceClassification(transformers.ModernBertConfig(
            vocab_size=size, hidden_size=36, intermediate_size=40, num_hidden_layers=4, num_attention_heads=3,
            max_position_embeddings=40, local_attention=6, pad_token_id=0, bos_token_id=2, cls_token_id=2, eos_token_id=3,
            sep_token_id=3, **labels))

    def forms(self, model, tokenizer):
        """A folder for every form and type; the weights of a type are the same in all its forms."""
        for dtype in DTYPES:
            model = model.to(getattr(torch, dtype))
            whole = self.folder / f"safetensors-{dtype}"
            model.save_pretrained(whole)
            shards = self.folder / f"shards-{dtype}"
            model.save_pretrained(shards, max_shard_size="20KB")
            self.assertTrue((shards / "model.safetensors.index.json").exists())
            state = model.state_dict()
            for name, protocol in (("torch", 2), ("torch5", 5)):
                folder = self.folder / f"{name}-{dtype}"
                model.config.save_pretrained(folder)
                torch.save(state, folder / "pytorch_model.bin", pickle_protocol=protocol)
            pieces = self.folder / f"pieces-{dtype}"
            model.config.save_pretrained(pieces)
            names = list(state)
            index = {"metadata": {}, "weight_map": {}}
            for number, own in enumerate((names[::2], names[1::2]), 1):
                shard = f"pytorch_model-0000{number}-of-00002.bin"
                torch.save({name: state[name] for name in own}, pieces / shard)
                index["weight_map"].update(dict.fromkeys(own, shard))
            (pieces / "pytorch_model.bin.index.json").write_text(json.dumps(index))
            for name in ("safetensors", "shards", "torch", "torch5", "pieces"):
                tokenizer.save_pretrained(self.folder / f"{name}-{dtype}")
                yield dtype, self.folder / f"{name}-{dtype}"

    def probabilities(self, folder, tokenizer, dtype):
        """transformers', and that it loads without a key too many or too few."""
        model, loading = transformers.AutoModelForSequenceClassification.from_pretrained(folder, dtype=dtype, output_loading_info=True)
        for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"):
            self.assertFalse(loading[problem], (folder, problem))
        if dtype == "auto":
            self.assertEqual(str(model.dtype), "torch." + json.loads((folder / "config.json").read_text()).get("dtype"))
        texts = [json.loads(line)["text"] for line in self.train_file.read_text().splitlines()]
        inputs = tokenizer(texts, padding=True, truncation=True, max_length=32, return_tensors="pt")
        with torch.no_grad():
            return model.float().eval()(**inputs).logits.softmax(-1)

    def test_learned_tokenizers_are_those_of_transformers(self):
        texts = ["dogs and  Cats: tea, 12 cups", " [MASK] \u4e2d\u6587 \U0001f600 e\u0301", "caf\u00e9\tx", "\uff3bCLS\uff3d"]
        for kind in ("wordpiece", "bpe", "unigram"):
            folder = self.train(kind, max_steps=1, num_labels=3, tokenizer_kind=kind, vocab_size=400) / "last"
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
            done = subprocess.run([SNUG, "tokenize", "--model", folder], input="".join(text + "\n" for text in texts), capture_output=True,
                                  text=True, check=True)
            self.assertEqual([json.loads(line) for line in done.stdout.splitlines()], tokenizer(texts)["input_ids"], kind)
            self.assertEqual(tokenizer("a", "b")["token_type_ids"][-1], 1)
            self.assertEqual([tokenizer.pad_token_id, tokenizer.unk_token_id, tokenizer.mask_token_id], [0, 1, 4])
        again = self.base(model=folder, tokenizer_kind="bpe", vocab_size=None, output_dir=self.folder / "again")
        refused = run("train", *options(**again))
        self.assertEqual(refused.returncode, 1)
        self.assertIn("tokenizer_kind", refused.stderr)

    def test_text_models_of_every_form_and_type(self):
        tokenizer = self.tokenizer()
        for model in self.text_models(len(tokenizer)):
            for parameter in model.parameters():
                torch.nn.init.normal_(parameter, std=0.3)
            for dtype, folder in self.forms(model, tokenizer):
                wanted = self.probabilities(folder if "torch" not in folder.name and "pieces" not in folder.name
                                            else self.folder / f"safetensors-{dtype}", tokenizer, torch.float32)
                done = self.ok("predict", model=folder, test_file=self.train_file, threads=2, memory="1GiB", max_seq_length=32)
                found = torch.tensor([[json.loads(line)["scores"][name] for name in LABELS] for line in done.stdout.splitlines()])
                self.assertLess((found - wanted).abs().max().item(), 1e-5, folder)
                exported = self.folder / "exported"
                self.ok("export", model=folder, output=exported)
                self.assertTrue(torch.equal(self.probabilities(exported, tokenizer, "auto"), wanted), folder)
                self.ok("export", model=folder, output=exported, dtype="bfloat16")
                model_16 = transformers.AutoModelForSequenceClassification.from_pretrained(exported, dtype="auto")
                theirs = transformers.AutoModelForSequenceClassification.from_pretrained(
                    self.folder / f"safetensors-{dtype}", dtype=torch.bfloat16)
                for name, value in model_16.state_dict().items():
                    self.assertTrue(torch.equal(value, theirs.state_dict()[name]), name)
                pipe = transformers.pipeline("text-classification", model=str(exported), tokenizer=str(exported))
                self.assertIn(pipe("cat dog")[0]["label"], LABELS)
            for folder in self.folder.glob("*-*"):
                shutil.rmtree(folder)

    def updated(self, model, tokenizer, rows, count):
        """The weights after updates of all rows as the Trainer makes them: clipped, no decay of biases and norms."""
        by_label = {name: i for i, name in enumerate(LABELS)}
        inputs = tokenizer([row["text"] for row in rows], padding=True, truncation=True, max_length=32, return_tensors="pt")
        labels = torch.tensor([by_label[row["label"]] for row in rows])
        decayed = set(transformers.Trainer.get_decay_parameter_names(None, model))
        groups = [dict(params=[value for name, value in model.named_parameters() if (name in decayed) == is_decayed],
                       weight_decay=0.01 if is_decayed else 0.0) for is_decayed in (True, False)]
        optimizer = torch.optim.AdamW(groups, lr=1e-3, eps=1e-6)
        for _ in range(count):
            model(**inputs, labels=labels).loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        return model.state_dict()

    def test_three_updates_are_those_of_torch(self):
        tokenizer = self.tokenizer()
        rows = [json.loads(line) for line in self.train_file.read_text().splitlines()]
        for model in self.text_models(len(tokenizer)):
            rates = {name: 0.0 for name in model.config.to_dict() if "dropout" in name}
            kind = type(model)
            model = kind(kind.config_class(**{**model.config.to_dict(), **rates}))
            for name, parameter in model.named_parameters():
                if parameter.dim() > 1:
                    torch.nn.init.normal_(parameter, std=0.1)
            folder = self.folder / kind.__name__
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            before = {name: value.clone() for name, value in model.state_dict().items()}
            wanted = self.updated(model.train(), tokenizer, rows, 3)
            out = self.train(f"{kind.__name__}-trained", model=folder, vocab_size=None, train_batch_size=self.rows, max_steps=3,
                             learning_rate=1e-3, lr_scheduler_type="constant", adam_epsilon=1e-6, weight_decay=0.01, max_grad_norm=1.0)
            found = kind.from_pretrained(out / "last").state_dict()
            self.assertEqual(found.keys(), wanted.keys())
            moved = 0.0
            for name, value in found.items():
                self.assertLess((value - wanted[name]).abs().max().item(), 1e-5, (kind.__name__, name))
                moved = max(moved, (value - before[name]).abs().max().item())
            self.assertGreater(moved, 1e-3, kind.__name__)

    def test_every_head_is_exported_as_it_is(self):
        of = transformers
        bert = dict(vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48)
        distil = dict(vocab_size=60, dim=32, n_layers=2, n_heads=2, hidden_dim=48)
        image = dict(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=10)
        cases = [(kind, of.BertConfig(**bert)) for kind in (
            of.BertModel, of.BertForMaskedLM, of.BertForPreTraining, of.BertForMultipleChoice, of.BertForQuestionAnswering,
            of.BertForTokenClassification, of.BertForNextSentencePrediction)]
        cases += [(of.BertForSequenceClassification, of.BertConfig(num_labels=1, **bert))]
        cases += [(kind, of.DistilBertConfig(**distil)) for kind in (
            of.DistilBertModel, of.DistilBertForMaskedLM, of.DistilBertForMultipleChoice, of.DistilBertForQuestionAnswering,
            of.DistilBertForTokenClassification)]
        cases += [(kind, of.ResNetConfig(**image)) for kind in (of.ResNetModel, of.ResNetForImageClassification)]
        for number, (kind, config) in enumerate(cases):
            model = kind(config)
            whole, other = self.folder / f"whole-{number}", self.folder / f"other-{number}"
            model.save_pretrained(whole)
            model.config.save_pretrained(other)
            shutil.copy(whole / "config.json", other)
            torch.save(model.state_dict(), other / "pytorch_model.bin")
            for folder in (whole, other):
                out = self.folder / f"{folder.name}-exported"
                self.ok("export", model=folder, output=out)
                theirs, loading = kind.from_pretrained(out, output_loading_info=True)
                for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"):
                    self.assertFalse(loading[problem], (kind, problem))
                for name, value in model.state_dict().items():
                    self.assertTrue(torch.equal(value, theirs.state_dict()[name]), (kind, name))

    def test_an_image_model(self):
        test = write_cifar(self.folder / "cifar", data_batch_1=20)
        data = write_cifar(self.folder / "train", data_batch_1=40)
        base = transformers.ResNetForImageClassification(transformers.ResNetConfig(
            embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=10,
            id2label=dict(enumerate(CIFAR_NAMES)), label2id={name: i for i, name in enumerate(CIFAR_NAMES)}))
        whole, other = self.folder / "whole", self.folder / "other"
        base.save_pretrained(whole)
        for folder in (whole, other):
            base.config.save_pretrained(folder)
            (folder / "preprocessor_config.json").write_text(json.dumps(dict(
                image_processor_type="ConvNextImageProcessor", do_resize=True, size={"shortest_edge": 32}, crop_pct=1.0,
                do_normalize=True, image_mean=[0.5] * 3, image_std=[0.25] * 3, do_rescale=True, rescale_factor=1 / 255)))
        torch.save(base.state_dict(), other / "pytorch_model.bin")
        values = [self.ok("predict", model=folder, test_file=test, threads=2, memory="1GiB", image_size=32).stdout for folder in (whole, other)]
        self.assertEqual(values[0], values[1])
        out = self.folder / "run"
        self.ok("train", model=other, train_file=data, validation_file=test, train_batch_size=20, max_steps=1, threads=2, image_size=32,
                memory="1GiB", output_dir=out)
        self.ok("export", model=out / "last", output=self.folder / "exported")
        model, loading = transformers.AutoModelForImageClassification.from_pretrained(self.folder / "exported", output_loading_info=True)
        for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"):
            self.assertFalse(loading[problem], problem)
        ours = self.ok("predict", model=self.folder / "exported", test_file=test, threads=2, memory="1GiB", image_size=32).stdout
        self.assertEqual(ours, self.ok("predict", model=out / "last", test_file=test, threads=2, memory="1GiB", image_size=32).stdout)
        self.assertEqual(len(model.config.id2label), 10)

    def test_trainer_state_loads(self):
        out = self.train("run", max_steps=4, logging_steps=1, eval_steps=2, save_steps=2, save_total_limit=2)
        for folder, steps in ((out / "last", 4), (out / "checkpoint-2", 2)):
            state = transformers.TrainerState.load_from_json(str(folder / "trainer_state.json"))
            own = json.loads((folder / "snug_state.json").read_text())
            self.assertEqual((state.global_step, state.max_steps, state.logging_steps, state.eval_steps, state.save_steps), (steps, 4, 1, 2, 2))
            self.assertEqual((state.best_metric, state.best_global_step), (own["best_metric"], own["best_step"]))
            self.assertEqual(state.best_model_checkpoint, str(out / "best"))
            self.assertEqual([entry["step"] for entry in state.log_history], [1, 2, 2, 3, 4, 4][:steps + steps // 2])
            self.assertIn("eval_accuracy", state.log_history[2])
            self.assertEqual(state.epoch, state.log_history[-1]["epoch"])


if __name__ == "__main__":
    main()
