"""Warnings: one line each, with numbers, and the same as values in summary.json."""
import json

import common
from common import Case, options, run, write_jsonl


class Warnings(Case):
    def small(self, **more):
        return self.base(**dict(dict(model="mlp", hidden_sizes=8, max_steps=1, threads=1, max_seq_length=64, validation_file=None, validation_split=0), **more))

    def warned(self, name, **more):
        """Trains; returns the warnings by code. Each is one line of standard error."""
        out = self.folder / name
        said = self.ok("train", **self.small(**more), output_dir=out).stderr.splitlines()
        found = self.summary(out)["warnings"]
        self.assertEqual([line for line in said if line.startswith("warning:")], ["warning: " + each["text"] for each in found])
        self.assertFalse([line for line in said if "warning" in line and not line.startswith("warning:")])
        for each in found:
            self.assertEqual(set(each), {"code", "text", "count", "share"})
        self.assertEqual(len({each["code"] for each in found}), len(found))
        return {each["code"]: each for each in found}

    def table(self, name, lines):
        path = self.folder / name
        path.write_text("".join(line + "\n" for line in lines))
        return path

    def test_a_run_without_oddities_warns_of_nothing(self):
        self.assertEqual(self.warned("plain"), {})

    def test_unknown_tokens(self):
        vocabulary = self.table("vocab.txt", ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "foo", "bar"])
        rows = [{"text": "foo bar foo", "label": "a"}] * 9 + [{"text": "foo άλφα bar", "label": "b"}]
        write_jsonl(self.train_file, rows)
        keys = dict(tokenizer=vocabulary, vocab_size=None, train_file=self.train_file)
        self.assertEqual(self.warned("few", **keys), {})  # 1 of 30
        write_jsonl(self.train_file, rows[:8] + [rows[9]] * 2)
        found = self.warned("more", **keys)["unknown_tokens"]
        self.assertEqual((found["count"], found["share"]), (2, 2 / 30))
        self.assertIn("2 of the 30 tokens", found["text"])
        self.assertIn("(6.7 %) are unknown", found["text"])

    def test_labels_that_are_held_out_alone(self):
        rows = [{"text": "abc"[i % 2] + " x", "label": "C" if i in (100, 300) else "AB"[i % 2]} for i in range(400)]
        write_jsonl(self.train_file, rows)
        keys = dict(train_file=self.train_file, validation_split=0.5, seed=11, train_batch_size=16)
        found = self.warned("rare", **keys)["untrained_labels"]
        self.assertEqual(found["count"], 2)
        self.assertIn("no row to train on has the label 'C' (2 held out)", found["text"])
        self.assertEqual(self.warned("kept", **keys, stratify=True), {})
        metrics = self.summary(self.folder / "kept")["final_metrics"]
        self.assertEqual(metrics["rows"], 200)
        self.assertEqual([entry["rows"] for entry in metrics["classes"]], [99, 100, 1])
        # The held-out rows are the same wherever they are asked for, and after a resume.
        again = json.loads(self.ok("eval", **self.small(**keys, hidden_sizes=None, vocab_size=None, stratify=True, output_dir=self.folder / "kept")).stdout)
        self.assertAlmostEqual(again["loss"], metrics["loss"], places=6)
        self.ok("train", **self.small(**dict(keys, max_steps=2), stratify=True), output_dir=self.folder / "kept", resume=True)
        done = run("train", *options(**self.small(**dict(keys, output_dir=self.folder / "no")), task="regression", stratify=True))
        self.assertIn("[stratify] the task regression has no use for it", done.stderr)

    def test_labels_that_are_alike_and_labels_that_say_none(self):
        rows = ["good x,pos", "bad x,neg"] * 10 + ["good x,pos ", "good x,Pos", "odd x,caf\u00e9", "odd x,cafe\u0301", "odd x,2", "odd x,2.0", "odd x,-1", "odd x,NA"]
        found = self.warned("alike", train_file=self.table("a.csv", ["text,label", *rows]))
        self.assertEqual(sorted(found), ["missing_labels", "similar_labels"])
        self.assertEqual((found["similar_labels"]["count"], found["similar_labels"]["share"]), (4, 4 / 28))
        for text in ("'pos' (10), 'Pos' (1), 'pos ' (1)", "'2' (1), '2.0' (1)", "caf\u00e9"):
            self.assertIn(text, found["similar_labels"]["text"])
        self.assertEqual(found["missing_labels"]["count"], 2)
        quoted = self.table("q.tsv", ["text\tlabel", *["good x\tpos", "bad x\tneg"] * 6, 'good x\t"pos"', "odd x\t-0", "odd x\t0", "odd x\t9007199254740993", "odd x\t9007199254740992"])
        text = self.warned("quoted", train_file=quoted)["similar_labels"]["text"]
        self.assertIn("""'-0' (1), '0' (1), 'pos' (6), '"pos"' (1)""", text)
        self.assertIn("2 of 28 labels of", found["missing_labels"]["text"])
        self.assertIn("are '-1', 'NA'", found["missing_labels"]["text"])

    def test_texts_without_a_glyph(self):
        rows = [{"text": "good x", "label": "a"}, {"text": "bad x", "label": "b"}] * 4 + [{"text": "\u200b\u00a0", "label": "a"}] * 2
        write_jsonl(self.train_file, rows)
        found = self.warned("invisible", train_file=self.train_file)
        self.assertEqual((found["invisible_rows"]["count"], found["invisible_rows"]["share"]), (2, 0.2))

    def test_quotes_of_csv_in_a_file_of_tabs(self):
        plain = ["plain\tneg", 'a "word" in quotes\tneg', '"all of it"\tpos']
        self.assertEqual(self.warned("plain", train_file=self.table("p.tsv", ["text\tlabel", *plain, *plain])), {})
        doubled = self.table("d.tsv", ["text\tlabel", *plain, '"He said ""hi"" now"\tpos'])
        self.assertEqual(self.warned("doubled", train_file=doubled)["quoted_fields"]["count"], 2)
        most = self.table("m.tsv", ["text\tlabel", 'a\t"pos"', 'b\t"neg"', "c\tother"])
        self.assertEqual(self.warned("most", train_file=most)["quoted_fields"]["count"], 2)

    def test_weights_that_freeze_keeps_random_and_adapters_that_it_keeps_idle(self):
        found = self.warned("random", freeze="classifier.*")["frozen_fresh_weights"]
        self.assertEqual(found["count"], 2)
        self.assertIn("classifier.weight", found["text"])
        base = self.train("base", max_steps=1) / "last"
        keys = dict(model=base, hidden_sizes=None, vocab_size=None, lora='{"match": "*.query.weight", "r": 2}')
        self.assertEqual(self.warned("adapters", **keys), {})
        found = self.warned("idle", **keys, freeze="*lora_B*")
        self.assertEqual([(code, each["count"], each["share"]) for code, each in found.items()], [("idle_adapters", 2, 1)])

    def test_a_vocabulary_with_capitals_that_texts_never_have(self):
        tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "The", "Cat", "##S", "sat", "cat", "the"]
        write_jsonl(self.train_file, [{"text": "The Cat sat", "label": "ab"[i % 2]} for i in range(20)])
        keys = dict(tokenizer=self.table("vocab.txt", tokens), vocab_size=None, train_file=self.train_file)
        found = self.warned("cased", **keys)["cased_vocabulary"]
        self.assertEqual((found["count"], found["share"]), (3, 3 / 11))
        for text in ("3 of the 11 tokens", "do_lower_case: false in tokenizer_config.json", "'The', 'Cat', '##S'"):
            self.assertIn(text, found["text"])
        (self.folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
        self.assertEqual(self.warned("kept", **dict(keys, tokenizer=self.folder)), {})

    def test_byte_level_pairs_that_wait_for_the_space_before_a_word(self):
        alphabet = [chr(c) for c in range(33, 127)] + ["\u0120"]
        words = ["\u0120" + word for word in "abcdefghij"]
        vocabulary = {token: i for i, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", "<mask>", *alphabet, *words])}
        folder = self.folder / "bpe"
        folder.mkdir()
        (folder / "vocab.json").write_text(json.dumps(vocabulary))
        (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"\u0120 {word}\n" for word in "abcdefghij"))
        write_jsonl(self.train_file, [{"text": ["a", "b", "a"], "label": ["O", "B-X", "O"]} for _ in range(20)])
        keys = dict(model="bert-tiny", hidden_sizes=None, tokenizer=folder, vocab_size=None, train_file=self.train_file)
        found = self.warned("without", **keys)["words_without_space"]
        self.assertEqual((found["count"], found["share"]), (10, 10 / len(vocabulary)))
        self.assertIn("add_prefix_space: true of the tokenizer", found["text"])
        (folder / "tokenizer_config.json").write_text('{"add_prefix_space": true}')
        self.assertEqual(self.warned("with", **keys), {})
        write_jsonl(self.train_file, [{"text": "a b a", "label": "ab"[i % 2]} for i in range(20)])
        (folder / "tokenizer_config.json").unlink()
        self.assertEqual(self.warned("texts", **keys), {})

    def test_spans_of_neither_scheme(self):
        rows = [{"text": ["a", "b"], "label": ["B-X", "I-X"]}, {"text": ["b", "a"], "label": ["O", "I-X"]}] * 10
        write_jsonl(self.train_file, rows)
        keys = dict(model="bert-tiny", hidden_sizes=None, train_file=self.train_file, validation_file=self.train_file, eval_steps=1, max_steps=2)
        found = self.warned("neither", **keys)["span_scheme"]
        self.assertEqual((found["count"], found["share"]), (10, 0.5))
        self.assertIn("10 of 20 spans begin with I-", found["text"])
        said = self.ok("eval", model=self.folder / "neither/last", test_file=self.train_file, memory="1GiB", threads=1).stderr
        self.assertIn("warning: the labels are neither IOB1 nor IOB2", said)
        self.assertEqual(self.warned("given", **keys, span_scheme="IOB1"), {})

    def test_warnings_from_before_the_data_are_there_too(self):
        found = self.warned("warmup", warmup_steps=5, max_steps=2)
        self.assertEqual((found["long_warmup"]["count"], found["long_warmup"]["share"]), (5, 2.5))


if __name__ == "__main__":
    common.main()
