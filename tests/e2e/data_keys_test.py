"""Keys that say which tokens of a row stay, which rows an epoch has and what numbers mean: overlong: tail, sampler, ids of tags, f1_of."""
import json
import pathlib
import random

import common
from common import TOPICS, Case, make_rows, options, run, sha256, write_jsonl

MODEL = pathlib.Path(__file__).resolve().parents[1] / "golden/distilbert_folder"
WORDS = "cat dog horse bread cheese apple hammer nail saw the a is on".split()
TAGS = ["O", "B-PER", "I-PER"]


class DataKeys(Case):
    rows = 80

    def base(self, **more):
        return super().base(**dict(dict(model="mlp", hidden_sizes="16", max_steps=6), **more))

    def refused(self, text, **values):
        done = run("train", *options(**self.base(output_dir=self.folder / "no", **values)))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(text, done.stderr)

    def test_the_last_tokens_stay_and_the_folder_says_so(self):
        def predicted(texts, folder=MODEL, **more):
            write_jsonl(self.folder / "texts.jsonl", [dict(text=text) for text in texts])
            done = self.ok("predict", model=folder, test_file=self.folder / "texts.jsonl", memory="1GiB", threads=2, **more)
            return [json.loads(line)["scores"] for line in done.stdout.splitlines()], done.stderr
        long = " ".join(WORDS)
        tail, said = predicted([long], max_seq_length=8, overlong="tail")
        self.assertIn("are cut at their beginning (overlong: tail)", said)
        self.assertEqual(tail, predicted([" ".join(WORDS[-6:])], max_seq_length=8)[0])
        self.assertNotEqual(tail, predicted([long], max_seq_length=8)[0])
        write_jsonl(self.train_file, [dict(text=long, label=label) for label in ("animal", "food")])
        out = self.folder / "out"
        self.ok("train", **self.base(model=MODEL, hidden_sizes=None, vocab_size=None, validation_file=None, validation_split=0, train_batch_size=2,
                                     max_steps=1, learning_rate=0, max_seq_length=8, overlong="tail", output_dir=out, fresh_head=True))
        self.assertEqual(json.loads((out / "last/tokenizer_config.json").read_text())["truncation_side"], "left")
        found, said = predicted([long], folder=out / "last")
        self.assertIn("longer texts are read as in training (overlong: tail)", said)
        self.assertEqual(found, predicted([" ".join(WORDS[-6:])], folder=out / "last")[0])
        done = run("plan", *options(**self.base(truncation_side="left")))
        self.assertIn("give overlong: tail for left", done.stderr)

    def test_a_balanced_sampler_finds_the_rare_class_and_resumes_to_the_same_bits(self):
        generator = random.Random(5)
        rows = make_rows(600, seed=4)
        rows = [row for row in rows if row["label"] != "tool" or generator.random() < 0.04]
        write_jsonl(self.train_file, rows)
        base = self.base(max_steps=60, train_batch_size=16, learning_rate=0.02, save_steps=20)

        def recall(out):
            classes = json.loads(self.ok("eval", model=out / "last", test_file=self.valid_file, memory="1GiB", threads=2).stdout)["classes"]
            return next(each["recall"] for each in classes if each["label"] == "tool")
        plain, balanced = (self.train(name, **dict(base, sampler=name)) for name in ("random", "balanced"))
        self.assertGreater(recall(balanced), recall(plain))
        out = self.folder / "killed"
        self.kill_after_a_checkpoint(**dict(base, sampler="balanced", output_dir=out))
        self.ok("train", **dict(base, sampler="balanced", output_dir=out, resume=True))
        self.assertEqual(sha256(out / "last/model.safetensors"), sha256(balanced / "last/model.safetensors"))
        self.refused("sampler", sampler="balanced", task="multi_label")

    def tagged(self, name, label_of, ignored=()):
        generator = random.Random(8)
        rows = []
        for _ in range(80):
            tags = [generator.choice([0, 0, 1]) for _ in range(generator.randint(2, 8))]
            tags = [2 if tags[i] == 0 and i > 0 and tags[i - 1] == 1 and i % 2 else tag for i, tag in enumerate(tags)]
            words = [generator.choice(sorted(TOPICS)) + str(tag) for tag in tags]
            rows.append({"text": words, "ner_tags": [-100 if i in ignored else label_of(tag) for i, tag in enumerate(tags)]})
        write_jsonl(self.folder / name, rows)
        return self.folder / name

    def test_ids_of_tags_are_the_labels_that_they_stand_for(self):
        def trained(name, file, **more):
            values = dict(train_file=file, validation_file=None, validation_split=0.2, label_column="ner_tags", task="token_classification",
                          model="bert-tiny", hidden_sizes=None, **more)
            return self.train(name, **values)
        order = dict(label_order=",".join(TAGS))
        names = trained("names", self.tagged("names.jsonl", lambda tag: TAGS[tag]), **order)
        ids = trained("ids", self.tagged("ids.jsonl", lambda tag: tag), **order)
        self.assertEqual(sha256(names / "last/model.safetensors"), sha256(ids / "last/model.safetensors"))
        self.assertEqual(json.loads((ids / "last/config.json").read_text())["id2label"], {"0": "O", "1": "B-PER", "2": "I-PER"})
        numbers = trained("numbers", self.folder / "ids.jsonl")
        self.assertEqual(json.loads((numbers / "last/config.json").read_text())["id2label"], {"0": "0", "1": "1", "2": "2"})

        def evaluated(file):
            return json.loads(self.ok("eval", model=ids / "last", test_file=file, label_column="ner_tags", memory="1GiB", threads=2).stdout)
        self.assertEqual(evaluated(self.folder / "names.jsonl"), evaluated(self.folder / "ids.jsonl"))
        partly = self.tagged("partly.jsonl", lambda tag: tag, ignored=(0,))
        self.assertNotEqual(evaluated(partly)["loss"], evaluated(self.folder / "ids.jsonl")["loss"])
        trained("partly", partly, **order)
        bad = self.folder / "bad.jsonl"
        write_jsonl(bad, [{"text": ["a"], "ner_tags": [-1]}, {"text": ["b"], "ner_tags": [0]}])
        tokens = dict(label_column="ner_tags", task="token_classification", model="bert-tiny", hidden_sizes=None, validation_file=None)
        self.refused("bad.jsonl:1] the label -1 of a word is no id", train_file=bad, **tokens)
        self.refused("label_order] it has 2 names, for the ids 0 to 1, and the data have the id 2", train_file=self.folder / "ids.jsonl", **tokens, label_order="O,B-PER")
        self.refused("label_order]", train_file=self.folder / "ids.jsonl", **tokens, label_order="1 star,2 stars,3 stars")

    def test_the_f1_of_one_label_is_a_metric_and_chooses_best(self):
        out = self.train("out", f1_of="food", metric_for_best_model="f1_of", eval_steps=2)
        lines = [json.loads(line) for line in (out / "evaluations.jsonl").read_text().splitlines()]
        self.assertTrue(all("eval_f1_of" in line for line in lines))
        state = json.loads((out / "last/trainer_state.json").read_text())
        self.assertEqual(state["best_metric"], max(line["eval_f1_of"] for line in lines))
        base = dict(model=out / "best", test_file=self.valid_file, memory="1GiB", threads=2)
        metrics = json.loads(self.ok("eval", f1_of="food", **base).stdout)
        self.assertEqual(metrics["f1_of"], next(each["f1"] for each in metrics["classes"] if each["label"] == "food"))
        self.assertNotIn("f1_of", json.loads(self.ok("eval", **base).stdout))
        self.refused("f1_of] there is no label 'foot'; the labels are animal, food, tool", f1_of="foot")
        self.refused("f1_of is the F1 of one label", metric_for_best_model="f1_of")
        self.refused("f1 is the mean over all labels", metric_for_best_model="f1", f1_of="food")


if __name__ == "__main__":
    common.main()
