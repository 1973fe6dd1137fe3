"""Heads, weights of rows and classes, long texts and added tokens (docs/heads.md) through the program."""
import json
import math
import pathlib
import shutil

import common
from common import Case, read_safetensors, sha256, write_jsonl

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
MODEL = GOLDEN / "distilbert_folder"
WORDS = "cat dog horse bread cheese apple hammer nail saw the a is on".split()
LONG = " ".join(WORDS)  # 13 tokens
TEXTS = ["cat dog", LONG, "bread"]


def scores(line):
    return list(json.loads(line)["scores"].values())


class Heads(Case):
    rows = 40

    def refused(self, verb, *words, **values):
        done = common.run(verb, *common.options(**values))
        self.assertEqual(done.returncode, 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def texts(self, name, texts):
        write_jsonl(self.folder / name, [dict(text=text, label="animal") for text in texts])
        return self.folder / name

    def predict(self, texts, **more):
        done = self.ok("predict", model=MODEL, test_file=self.texts("predicted.jsonl", texts), memory="1GiB", threads=2, **more)
        return [scores(line) for line in done.stdout.splitlines()], done.stderr

    def folder_run(self, name, **more):
        """Trains the golden folder at a learning rate of 0 and returns best/."""
        rows = self.texts("rows.jsonl", TEXTS)
        out = self.folder / name
        values = dict(model=MODEL, train_file=rows, validation_file=rows, max_steps=1, train_batch_size=2, learning_rate=0, max_seq_length=16,
                      memory="1GiB", threads=2, output_dir=out)
        done = self.ok("train", **dict(values, **more))
        return out / "best", done.stderr

    def added_tokens(self):
        """The golden folder with two more tokens than its table has rows."""
        wider = self.folder / "wider"
        shutil.copytree(MODEL, wider)
        tokenizer = json.loads((wider / "tokenizer.json").read_text())
        tokenizer["added_tokens"] += [dict(tokenizer["added_tokens"][0], id=48 + i, content=f"[NEW{i}]") for i in range(2)]
        (wider / "tokenizer.json").write_text(json.dumps(tokenizer))
        return wider

    def test_a_head_of_its_own_is_read_back_without_keys(self):
        out = self.train("pooled", pooling="attention", pooling_layers=2, multi_sample_dropout=3)
        config = json.loads((out / "best/config.json").read_text())
        self.assertEqual(config["snug_head"], dict(pooling="attention", pooling_layers=2, multi_sample_dropout=3))
        self.assertEqual(config["architectures"], ["BertModel"])
        found = self.ok("eval", model=out / "best", test_file=self.valid_file, memory="1GiB", threads=2)
        self.assertEqual(json.loads(found.stdout)["rows"], 40)
        again = self.base(model=out / "best", output_dir=self.folder / "other")
        self.refused("train", "[pooling] the trained head of", "pooling attention of 2 layers, not pooling mean", "fresh_head",
                     **dict(again, pooling="mean"))
        self.refused("plan", "[pooling] 'lstm' does not take it", **self.base(model="lstm", pooling="mean"))
        folder, said = self.folder_run("fresh", pooling="mean")
        for words in ("snug_head in config.json", "fresh weights for snug_head.classifier.weight", "not used of", "pre_classifier.weight"):
            self.assertIn(words, said)
        self.assertIn("snug_head.classifier.weight", read_safetensors(folder / "model.safetensors"))

    def test_windows_of_a_text_are_one_row_of_results(self):
        # Windows of six tokens of which two are shared begin at words 0, 4 and 8.
        pieces = [" ".join(WORDS[begin:begin + 6]) for begin in (0, 4, 8)]
        keys = dict(max_seq_length=8, overlong="window", stride=2)
        found, said = self.predict(TEXTS, **keys)
        self.assertIn("1 of 3 rows of", said)
        self.assertIn("are 3 windows (overlong: window, stride 2)", said)
        self.assertEqual(len(found), 3)
        alone, _ = self.predict([TEXTS[0], *pieces, TEXTS[2]], max_seq_length=8)
        means = [math.exp(sum(math.log(p) for p in of_label) / 3) for of_label in zip(*alone[1:4])]
        wanted = [alone[0], [each / sum(means) for each in means], alone[4]]
        for mine, theirs in zip(found, wanted):
            for a, b in zip(mine, theirs):
                self.assertAlmostEqual(a, b, places=6)
        done = self.ok("eval", model=MODEL, test_file=self.texts("rows.jsonl", TEXTS), memory="1GiB", threads=2, **keys)
        self.assertEqual(json.loads(done.stdout)["rows"], 3)
        folder, said = self.folder_run("windows", **keys)
        self.assertIn("(3 rows)", said)
        self.check_the_folder_s_windows(folder, keys)

    def check_the_folder_s_windows(self, folder, keys):
        """What is not given is as in training."""
        rows = self.texts("rows.jsonl", TEXTS)

        def predictions(**more):
            done = self.ok("predict", model=folder, test_file=rows, memory="1GiB", threads=2, **more)
            return done.stdout, done.stderr
        found, said = predictions()
        self.assertIn("longer texts are read as in training (overlong: window, stride: 2)", said)
        self.assertEqual(found, predictions(**keys)[0])
        cut, said = predictions(overlong="head_tail")
        self.assertIn("was trained with overlong: window, stride: 2", said)
        self.assertNotEqual(found, cut)
        self.refused("predict", "windows of pairs are not defined", model=folder, test_file=rows, text_pair_column="text", memory="1GiB")

    def test_long_texts_are_counted_and_kept_as_asked(self):
        ends, said = self.predict(TEXTS, max_seq_length=8, overlong="head_tail")
        self.assertIn("lose their middle", said)
        alone, _ = self.predict([" ".join(WORDS[:3] + WORDS[-3:])], max_seq_length=8)
        self.assertEqual(ends[1], alone[0])
        _, said = self.predict(TEXTS, max_seq_length=8)
        self.assertIn("1 of 3 rows of", said)
        self.assertIn("are cut at their end", said)
        rows = self.texts("rows.jsonl", TEXTS)
        long = dict(model=MODEL, test_file=rows, max_seq_length=8, memory="1GiB", threads=2)
        self.refused("eval", "rows.jsonl:2", "more than max_seq_length 8", "overlong is error", **long, overlong="error")
        self.refused("predict", "drop would leave rows without a prediction", **long, overlong="drop")
        done = self.ok("eval", **long, overlong="drop")
        self.assertEqual(json.loads(done.stdout)["rows"], 2)
        self.assertIn("are left out (overlong: drop)", done.stderr)
        self.refused("eval", "[stride] there are no windows", **long, stride=2)
        self.refused("eval", "[stride] 6 tokens are all that a window", **long, overlong="window", stride=6)
        self.refused("plan", "both sides", model=MODEL, train_file=rows, max_seq_length=8, overlong="window")

    def test_layers_begin_fresh_and_tokens_are_added(self):
        before = read_safetensors(MODEL / "model.safetensors")
        folder, said = self.folder_run("fresh_layer", reinit_layers=1)
        self.assertIn("fresh weights by reinit_layers: distilbert.transformer.layer.1.attention.q_lin.weight", said)
        after = read_safetensors(folder / "model.safetensors")
        changed = {name for name in before if before[name] != after[name]}
        self.assertTrue(changed)
        self.assertTrue(all(".layer.1." in name for name in changed), changed)
        self.refused("plan", "[reinit_layers] 3 layers are more than the model has (2)", model=MODEL, reinit_layers=3, max_seq_length=16)
        self.refused("plan", "has no trained layers", model="bert-tiny", reinit_layers=1)

        rows = dict(model=self.added_tokens(), train_file=self.texts("new.jsonl", ["cat [NEW1] dog", "a saw"]), max_seq_length=16)
        self.refused("plan", "it has 50 tokens, the model's embedding 48", "resize_embeddings", **rows)
        folder, said = self.folder_run("resized", **rows, resize_embeddings=True)
        self.assertIn("the word embeddings have 50 rows in place of 48", said)
        name = "distilbert.embeddings.word_embeddings.weight"
        old, new = before[name], read_safetensors(folder / "model.safetensors")[name]
        self.assertEqual(new[:48 * 16], old)
        for row in (48, 49):
            for column in range(16):
                self.assertAlmostEqual(new[row * 16 + column], sum(old[column::16]) / 48, places=6)
        self.ok("eval", model=folder, test_file=rows["train_file"], memory="1GiB", threads=2)

    def test_words_of_windows_are_predicted_once(self):
        rows = [dict(text=(WORDS * 2)[i:i + 4 + 3 * i], label=["B-A" if word in WORDS[:3] else "O" for word in (WORDS * 2)[i:i + 4 + 3 * i]])
                for i in range(6)]
        write_jsonl(self.folder / "words.jsonl", rows)
        keys = dict(max_seq_length=8, overlong="window", stride=2, memory="1GiB", threads=2)
        out = self.folder / "words"
        self.ok("train", model=MODEL, fresh_head=True, task="token_classification", train_file=self.folder / "words.jsonl",
                validation_file=self.folder / "words.jsonl", train_batch_size=4, max_steps=2, pooling_layers=2, class_weights="balanced",
                output_dir=out, **keys)
        found = self.ok("predict", model=out / "best", test_file=self.folder / "words.jsonl", **keys).stdout.splitlines()
        self.assertEqual([len(json.loads(line)["labels"]) for line in found], [len(row["text"]) for row in rows])
        self.assertNotIn("null", "".join(found))
        done = self.ok("eval", model=out / "best", test_file=self.folder / "words.jsonl", **keys)
        self.assertEqual(json.loads(done.stdout)["rows"], 6)

    def test_transformers_reads_the_layers_and_a_resized_table(self):
        try:
            import torch
            import transformers
        except ImportError as missing:
            common.not_run(self, f"Python has no {missing.name}")
        out = self.train("pooled", pooling="mean", pooling_layers=2)
        texts = self.texts("texts.jsonl", TEXTS)
        found = self.ok("predict", model=out / "best", test_file=texts, memory="1GiB", threads=2).stdout.splitlines()
        tokenizer = transformers.AutoTokenizer.from_pretrained(out / "best")
        model = transformers.AutoModel.from_pretrained(out / "best").eval()
        head = {name: torch.tensor(values) for name, values in read_safetensors(out / "best/model.safetensors").items()
                if name.startswith("snug_head.")}
        weight = head["snug_head.classifier.weight"].reshape(3, -1)
        for text, line in zip(TEXTS, found):
            with torch.no_grad():
                states = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True).hidden_states
            wanted = torch.softmax(torch.cat(states[-2:], -1).mean(1) @ weight.T + head["snug_head.classifier.bias"], -1)[0]
            for a, b in zip(scores(line), wanted.tolist()):
                self.assertAlmostEqual(a, b, places=5)
        wider = self.added_tokens()
        rows = self.texts("new.jsonl", ["cat [NEW1] dog", "a saw"])
        folder, _ = self.folder_run("resized", model=wider, train_file=rows, resize_embeddings=True)
        model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
        encoded = transformers.AutoTokenizer.from_pretrained(folder)("cat [NEW1] dog", return_tensors="pt")
        self.assertIn(49, encoded["input_ids"][0].tolist())
        with torch.no_grad():
            wanted = torch.softmax(model(**encoded).logits, -1)[0].tolist()
        found = self.ok("predict", model=folder, test_file=rows, memory="1GiB", threads=2).stdout.splitlines()[0]
        for a, b in zip(scores(found), wanted):
            self.assertAlmostEqual(a, b, places=5)

    def test_weights_of_classes_and_rows(self):
        rows = [json.loads(line) for line in self.train_file.read_text().splitlines()]
        labels = sorted({row["label"] for row in rows})
        counts = {label: sum(row["label"] == label for row in rows) for label in labels}
        weighted = self.folder / "weighted.jsonl"
        write_jsonl(weighted, [dict(row, importance=2) for row in rows])
        listed = ",".join(f"{label}={len(rows) / len(labels) / counts[label]!r}" for label in labels)
        runs = [self.train("balanced", class_weights="balanced", focal_gamma=2),
                self.train("listed", class_weights=listed, focal_gamma=2, train_file=weighted, weight_column="importance")]
        self.assertEqual(*(sha256(out / "last/model.safetensors") for out in runs))
        plain = self.train("plain")
        self.assertNotEqual(sha256(plain / "last/model.safetensors"), sha256(runs[0] / "last/model.safetensors"))
        write_jsonl(weighted, [dict(row, importance=-1) for row in rows])
        self.refused("train", "weighted.jsonl:1", "'-1' of the column 'importance' is no number of at least 0",
                     **self.base(train_file=weighted, weight_column="importance", output_dir=self.folder / "refused"))
        write_jsonl(weighted, [dict(row, importance=1e39) for row in rows])
        self.refused("train", "weighted.jsonl:1", "the weight 1e+39 of the column 'importance' does not fit 32 bits",
                     **self.base(train_file=weighted, weight_column="importance", output_dir=self.folder / "refused"))
        self.refused("train", "there is no column 'weight'",
                     **self.base(weight_column="weight", output_dir=self.folder / "refused"))
        self.refused("plan", "[label_smoothing_factor] it is not defined beside class_weights",
                     **self.base(class_weights="balanced", label_smoothing_factor=0.1))
        for verb in ("plan", "train"):
            self.refused(verb, "there is no label 'no'", "the labels are " + ", ".join(labels), **self.base(class_weights=",".join(["no=1"] * len(labels)), output_dir=self.folder / "no"))
            self.refused(verb, f"1 weights for {len(labels)} labels", "LABEL=NUMBER", **self.base(class_weights="2", output_dir=self.folder / "no"))


if __name__ == "__main__":
    common.main()
