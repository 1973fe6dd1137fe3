"""Files as other programs and other people wrote them; and hints, followed word for word, that lead where they say."""
import json
import re
import shutil
import struct
import subprocess

import common
from common import Case, options, run, write_jsonl


def rename(path, name_of, **header_fields):
    """Rewrites the names in a file of safetensors."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = {name if name == "__metadata__" else name_of(name): info for name, info in json.loads(data[8:8 + length]).items()}
    header.update(header_fields)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length:])


class ForeignFiles(Case):
    rows = 60
    mlp = dict(model="mlp", hidden_sizes="8", max_steps=2, max_seq_length=16)

    def trained(self):
        """A folder of weights that no marker holds to what Snug wrote."""
        folder = self.folder / "published"
        shutil.copytree(self.train("run", **self.mlp) / "best", folder, ignore=shutil.ignore_patterns(".snug*"))
        return folder

    def evaluated(self, folder):
        return self.ok("eval", model=folder, test_file=self.valid_file, memory="1GiB", threads=2)

    def refused(self, verb, *texts, **values):
        done = run(verb, *options(**values))
        self.assertEqual(done.returncode, 1, done.stdout)
        for text in texts:
            self.assertIn(text, done.stderr)
        return done.stderr

    def test_names_behind_a_wrapper_are_the_names(self):
        folder = self.trained()
        wanted = self.evaluated(folder).stdout
        weights = folder / "model.safetensors"
        for prefix in ("module.", "_orig_mod.module."):
            plain = weights.read_bytes()
            rename(weights, lambda name: prefix + name)
            done = self.evaluated(folder)
            self.assertEqual(done.stdout, wanted)
            self.assertIn(f"read without '{prefix}'", done.stderr)
            self.ok("export", model=folder, output=self.folder / prefix)
            self.assertEqual(self.evaluated(self.folder / prefix).stdout, wanted)
            weights.write_bytes(plain)
        rename(weights, lambda name: "net." + name)
        self.refused("eval", "every name in the file begins with 'net.'", model=folder, test_file=self.valid_file, memory="1GiB", threads=2)

    def test_metadata_may_be_null(self):
        folder = self.trained()
        wanted = self.evaluated(folder).stdout
        rename(folder / "model.safetensors", str, __metadata__=None)
        self.assertEqual(self.evaluated(folder).stdout, wanted)

    def test_two_classes_of_one_name(self):
        folder = self.trained()
        config = json.loads((folder / "config.json").read_text())
        self.assertEqual(list(config["id2label"].values()), ["animal", "food", "tool"])
        config.update(id2label={"0": "crane", "1": "food", "2": "crane"}, label2id={"crane": 2, "food": 1})
        (folder / "config.json").write_text(json.dumps(config))
        self.refused("eval", "the known labels are crane, food, crane",
                     model=folder, test_file=self.valid_file, memory="1GiB", threads=2)
        rows = [json.loads(line) for line in self.valid_file.read_text().splitlines()]
        ids = {"animal": 0, "food": 1, "tool": 2}
        write_jsonl(self.valid_file, [dict(row, label=ids[row["label"]]) for row in rows])
        classes = json.loads(self.evaluated(folder).stdout)["classes"]
        self.assertEqual([each["label"] for each in classes], ["crane (0)", "food", "crane (2)"])
        scores = json.loads(self.ok("predict", model=folder, test_file=self.valid_file, memory="1GiB", threads=2).stdout.splitlines()[0])["scores"]
        self.assertEqual(list(scores), ["crane (0)", "food", "crane (2)"])
        write_jsonl(self.valid_file, [dict(row, label="crane") for row in rows])
        self.refused("eval", "'crane' is the name of several classes of the model: 0, 2", "give ids from 0 to 2 as labels",
                     model=folder, test_file=self.valid_file, memory="1GiB", threads=2)

    def test_a_fresh_head_does_without_the_names_of_the_old(self):
        config = dict(model_type="bert", vocab_size=100, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
        folder = self.folder / "named"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(dict(config, id2label={"0": None, "1": "a", "7": ""}, label2id={"a": 3})))
        plan = dict(model=folder / "config.json", train_batch_size=4, max_seq_length=16, memory="200MiB", threads=2)
        self.refused("plan", "id2label", **plan)
        self.ok("plan", **plan, fresh_head=True)
        (folder / "config.json").write_text(json.dumps(config))
        self.refused("plan", "[fresh_head]", **plan, fresh_head=True)

    def test_a_repeated_token_of_a_vocabulary_shifts_no_id(self):
        vocabulary = self.folder / "vocab.txt"
        vocabulary.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nfoo\nbar\n\nfoo\nbaz\n")
        done = subprocess.run([common.SNUG, "tokenize", "--model", vocabulary], input="foo bar baz\n", capture_output=True, text=True)
        self.assertEqual(json.loads(done.stdout), [2, 8, 6, 9, 3], done.stderr)

    def test_the_command_that_converts_a_file_of_windows_does(self):
        table = self.folder / "rows.csv"
        table.write_bytes(b"text,label\n" + b"it\x92s caf\xe9,pos\nplain,neg\n" * 25)
        values = self.base(**self.mlp, train_file=table, validation_file=None, output_dir=self.folder / "out")
        command = re.search(r"iconv[^),]*", self.refused("train", "invalid UTF-8", **values))[0]
        converted = self.folder / "new.csv"
        with converted.open("wb") as out:
            subprocess.run([*command.split(), table], stdout=out, check=True)
        self.assertIn("it\u2019s caf\u00e9", converted.read_text())
        self.ok("train", **dict(values, train_file=converted))

    def test_tables_cut_at_semicolons_and_lines_that_end_with_returns(self):
        table = self.folder / "rows.csv"
        rows = [json.loads(line) for line in self.train_file.read_text().splitlines()]
        values = self.base(**self.mlp, train_file=table, validation_file=None)
        bits = []
        for name, delimiter, end in (("plain", ",", "\n"), ("semicolon", ";", "\r"), ("bar", "|", "\r\n")):
            table.write_bytes(end.join([f"text{delimiter}label", *(f"{row['text']}{delimiter}{row['label']}" for row in rows)]).encode())
            self.ok("train", **values, output_dir=self.folder / name)
            bits.append(common.sha256(self.folder / name / "last/model.safetensors"))
        self.assertEqual(len(set(bits)), 1, bits)
        self.refused("train", "the columns are: text|label", **values, output_dir=self.folder / "comma", delimiter="comma")
        self.ok("train", **values, output_dir=self.folder / "given", delimiter="|")

    def test_rows_whose_labels_are_kept_back(self):
        write_jsonl(self.valid_file, [{"text": "a cat", "label": -1}] * 3)
        folder = self.train("run", **dict(self.mlp, validation_file=None)) / "last"
        values = dict(model=folder, test_file=self.valid_file, memory="1GiB", threads=2)
        self.refused("eval", "every label is -1, which stands for none", "snug predict needs none", **values)
        self.assertEqual(len(self.ok("predict", **values).stdout.splitlines()), 3)


if __name__ == "__main__":
    common.main()
