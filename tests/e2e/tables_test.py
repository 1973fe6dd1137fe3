"""Tables that grow with labels, names, files or the text are in the budget: every run here has the smallest budget as a hard limit."""
import json
import random
import re
import shutil
import struct
import subprocess

import common
from common import SNUG, Case, MemoryLimit, make_rows, options, run, write_jsonl

MIB = 1 << 20


class Tables(Case):
    def smallest(self, verb, **values):
        """The smallest budget that a refusal names."""
        refused = run(verb, *options(**dict(values, memory="1MiB")))
        self.assertEqual(refused.returncode, 2, refused.stderr)
        return int(re.search(r"smallest budget that works is .*\((\d+) bytes\)", refused.stderr)[1])

    def limited(self, verb, **values):
        """Runs under its smallest budget as a hard limit; nothing is kept of what it prints."""
        budget = self.smallest(verb, **values)
        with MemoryLimit(self, budget) as limit:
            done = subprocess.run([*limit.prefix, SNUG, verb, *map(str, options(**dict(values, memory=budget)))],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 0, f"{verb} at {budget >> 20} MiB: {done.stderr[-500:]}")
        return budget

    def mlp(self, **more):
        return self.base(model="mlp", hidden_sizes="4", max_steps=1, **more)

    def test_many_long_labels(self):
        labels = [f"{i:05d}" + "x" * 245 for i in range(16384)]
        write_jsonl(self.train_file, [{"text": "a " * (1 + i % 20), "label": label} for i, label in enumerate(labels)])
        # The first row is the longest, so all others wait for it.
        write_jsonl(self.valid_file, [{"text": "a " * (24 - i), "label": labels[i]} for i in range(24)])
        out = self.folder / "labels"
        self.limited("train", **self.mlp(output_dir=out, train_batch_size=64))
        for verb in ("eval", "predict"):
            self.limited(verb, **self.base(model=None, output_dir=out))
        # Rows of every label, so that a report names each.
        tokenizer = out / "last"
        self.limited("train", **self.base(model="bert-tiny", max_steps=1, max_seq_length=32, threads=1, validation_file=self.train_file,
                     train_batch_size=8, output_dir=self.folder / "all", tokenizer=tokenizer, vocab_size=None))

    def test_a_vocabulary_of_long_tokens(self):
        vocabulary = self.folder / "vocab.txt"
        tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [f"{i:05d}" + "y" * 900 for i in range(20000)]
        vocabulary.write_text("\n".join(tokens) + "\n")
        self.limited("train", **self.mlp(output_dir=self.folder / "tokens", tokenizer=vocabulary, vocab_size=None))

    def test_a_large_header_of_weights(self):
        out = self.train("run", **self.mlp())
        folder = self.folder / "foreign"
        shutil.copytree(out / "last", folder, ignore=shutil.ignore_patterns("*complete*", "*state*", "optimizer*"))
        weights = (folder / "model.safetensors").read_bytes()
        length = struct.unpack("<Q", weights[:8])[0]
        header = json.loads(weights[8:8 + length])
        header["__metadata__"] = {f"key {i} " + "k" * 50: "v" * 50 for i in range(40000)}
        text = json.dumps(header).encode()
        (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + weights[8 + length:])
        self.limited("train", **self.base(model=folder, max_steps=1, vocab_size=None, output_dir=self.folder / "on"))

    def test_a_long_configuration(self):
        file = self.folder / "run.yaml"
        file.write_text("label_column: label\ntext_column: \"" + "t" * 60000 + "\"\n")
        write_jsonl(self.train_file, [{"t" * 60000: row["text"], "label": row["label"]} for row in make_rows(20)])
        self.limited("train", **self.mlp(config=file, output_dir=self.folder / "long", validation_file=None))

    def test_a_row_too_long_for_the_budget_is_refused_and_never_skipped(self):
        rows = make_rows(40)
        rows.append({"text": "word " * 3000000, "label": rows[0]["label"]})
        for suffix, write in ((".jsonl", write_jsonl), (".csv", self.write_csv)):
            file = self.folder / ("long" + suffix)
            write(file, rows)
            values = self.mlp(train_file=file, validation_file=None, bad_rows="skip")
            with MemoryLimit(self, 64 * MIB) as limit:
                refused = run("train", *options(**dict(values, memory=64 * MIB, output_dir=self.folder / "no")), prefix=limit.prefix)
            self.assertEqual(refused.returncode, 2, refused.stderr)
            self.assertIn("a row is longer than", refused.stderr)
            with MemoryLimit(self, 160 * MIB) as limit:
                done = run("train", *options(**dict(values, memory=160 * MIB, output_dir=self.folder / suffix[1:])), prefix=limit.prefix)
            self.assertEqual(done.returncode, 0, done.stderr)

    def write_csv(self, path, rows):
        path.write_text("text,label\n" + "".join(f'"{row["text"]}",{row["label"]}\n' for row in rows))

    def test_learning_a_vocabulary_has_a_floor_of_64_MiB_whatever_the_text(self):
        generator = random.Random(5)
        letters = "abcdefghijklmnopqrstuvwxyz"
        words = ["".join(generator.choices(letters, k=generator.randint(4, 14))) for _ in range(60000)]
        rows = [{"text": " ".join(words[i:i + 20] * 2), "label": str(i // 20 % 2)} for i in range(0, len(words), 20)]
        write_jsonl(self.train_file, rows)
        budget = self.limited("train", **self.base(max_steps=2, vocab_size=2000, validation_file=None, output_dir=self.folder / "learned"))
        self.assertLessEqual(budget, 64 * MIB)

    def test_products_in_16_bits_of_many_lengths_are_planned(self):
        # Where bf16 runs on tiles, each number of rows has code of its own.
        generator = random.Random(5)
        write_jsonl(self.train_file, [{"text": " ".join(f"w{generator.randint(0, 299)}" for _ in range(generator.randint(1, 300))),
                                       "label": "ab"[i % 2]} for i in range(400)])
        for model, precision in (("bert-tiny", "bf16"), ("bert-tiny", "fp16"), ("deberta-v3-tiny", "bf16")):
            out = self.train(f"{model}-{precision}", model=model, max_steps=8, max_seq_length=300, train_batch_size=37, vocab_size=400,
                             threads=1, memory="400MiB", validation_file=None, **{precision: True})
            summary = self.summary(out)
            slack = summary["planned_peak_bytes"] - summary["measured_peak_rss_bytes"]
            if not common.IS_SANITIZED:
                self.assertTrue(0 <= slack <= 24 * MIB, f"{model} in {precision}: {slack / MIB:.1f} MiB")

    def test_what_is_planned_is_near_what_is_taken(self):
        vocabulary = self.train("first", max_steps=1) / "last"  # given, so that learning does not decide
        for model in ("bert-tiny", "bert-mini"):
            out = self.train(model, model=model, memory="2GiB", max_seq_length=64, eval_steps=3, save_steps=3, tokenizer=vocabulary,
                             vocab_size=None)
            summary = self.summary(out)
            slack = summary["planned_peak_bytes"] - summary["measured_peak_rss_bytes"]
            if not common.IS_SANITIZED:
                self.assertTrue(0 <= slack <= 16 * MIB, f"{model}: {slack / MIB:.1f} MiB")


if __name__ == "__main__":
    common.main()
