"""Bad input of every kind gets one clear error: what, where, fix. And the files that the verbs write."""
import json
import shutil

import common
from common import Case, options, run


class BadInput(Case):
    def refused(self, *texts, code=1, verb="train", **values):
        done = run(verb, *options(**dict(self.base(output_dir=self.folder / "out"), **values)))
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stderr.count("error:"), 1, done.stderr)
        for text in texts:
            self.assertIn(text, done.stderr)

    def bad(self, *lines):
        path = self.folder / "bad.jsonl"
        path.write_bytes(b"".join(line if isinstance(line, bytes) else line.encode() for line in lines))
        return path

    def test_missing_file(self):
        self.refused("nowhere.jsonl", train_file="nowhere.jsonl")

    def test_a_validation_file_is_looked_at_before_a_vocabulary_is_learned(self):
        for file, word in (("nowhere.jsonl", "nowhere.jsonl"), (self.csv_without_labels(), "label")):
            done = run("train", *options(**self.base(output_dir=self.folder / "out", validation_file=file)))
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(word, done.stderr)
            self.assertNotIn("learning a vocabulary", done.stderr)

    def csv_without_labels(self):
        path = self.folder / "texts.csv"
        path.write_text("text\nhello\n")
        return path

    def test_wrong_column(self):
        self.refused("sentence", "text_column", text_column="sentence")

    def test_broken_json(self):
        self.refused("bad.jsonl:2", train_file=self.bad('{"text": "a", "label": "x"}\n', '{"text": "b", \n'))

    def test_invalid_utf8(self):
        self.refused("bad.jsonl:1", "UTF-8", train_file=self.bad(b'{"text": "\xff\xfe", "label": "x"}\n'))

    def test_label_unseen_in_training(self):
        path = self.folder / "valid2.jsonl"
        path.write_text('{"text": "a", "label": "never"}\n')
        self.refused("valid2.jsonl:1", "never", validation_file=path)

    def test_zero_rows(self):
        self.refused("empty.jsonl", train_file=self._empty())

    def _empty(self):
        path = self.folder / "empty.jsonl"
        path.write_text("")
        return path

    def test_unknown_key_and_its_neighbour(self):
        done = run("plan", "--model", "bert-tiny", "--learning_rat", "1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("learning_rate", done.stderr)
        config = self.folder / "run.yaml"
        config.write_text("model: bert-tiny\nbatchsize: 3\n")
        done = run("plan", "-c", config)
        self.assertEqual(done.returncode, 1)
        self.assertIn("batchsize", done.stderr)

    def test_a_folder_that_is_no_model(self):
        out = self.folder / "runs"
        out.mkdir()
        self.refused("model", f"the folder '{out}' has no config.json", model=out)
        (self.folder / "bert-tiny").mkdir()
        done = run("plan", "--model", "bert-tiny", prefix=("env", "-C", self.folder))
        self.assertEqual(done.returncode, 1)
        self.assertIn("a folder goes before the preset of its name", done.stderr)

    def test_sequence_longer_than_the_position_table(self):
        self.refused("max_seq_length", "512", max_seq_length=600)

    def test_config_json_with_a_wrong_type_or_other_mathematics(self):
        out = self.train("run")
        for key, value in (("hidden_size", "abc"), ("hidden_act", "swish9"), ("position_embedding_type", "relative_key")):
            folder = self.folder / f"model-{key}"
            shutil.copytree(out / "last", folder)
            config = json.loads((folder / "config.json").read_text())
            config[key] = value
            (folder / "config.json").write_text(json.dumps(config))
            self.refused("config.json", key, model=folder)

    def test_truncated_and_hostile_safetensors(self):
        out = self.train("run")
        weights = (out / "last/model.safetensors").read_bytes()
        for name, data in (("short", weights[:-100]), ("header", b"\xff" * 16 + weights[16:]), ("empty", b"")):
            folder = self.folder / f"weights-{name}"
            shutil.copytree(out / "last", folder)
            (folder / "model.safetensors").write_bytes(data)
            self.refused("model.safetensors", model=folder)

    def test_freeze_pattern_that_matches_nothing(self):
        self.refused("freeze", "no.such.*", freeze="no.such.*")

    def test_options_without_effect(self):
        self.refused("hidden_sizes", hidden_sizes="8,8")
        self.refused("adam_beta1", optim="sgd", adam_beta1=0.8)
        self.refused("momentum", "adamw has no use for it", momentum=0.9)

    def test_bad_rows_can_be_skipped_and_are_counted(self):
        good = "".join(json.dumps(row) + "\n" for row in common.make_rows(50))
        path = self.bad(good, "{broken\n")
        self.ok("train", **self.base(output_dir=self.folder / "skip", train_file=path, bad_rows="skip", max_steps=2))
        text = json.loads(self.ok("inspect", json=True, **self.base(train_file=path, bad_rows="skip")).stdout)
        self.assertEqual(text["data"][0]["bad"], 1)
        self.assertEqual(text["data"][0]["kept"], 50)

    def test_the_last_of_an_option_given_twice_wins_and_the_command_line_beats_the_file(self):
        config = self.folder / "run.yaml"
        config.write_text("model: bert-tiny\ntrain_batch_size: 4\nmemory: 2GiB\n")
        done = run("plan", "-c", config, "--json", "--train_batch_size", "6", "--train_batch_size", "10")
        self.assertEqual(json.loads(done.stdout)["train_batch_size"], 10)


class Files(Case):
    def test_verbs_read_the_same_configuration_and_write_their_files(self):
        out = self.train("run", max_steps=60, train_batch_size=16, learning_rate=2e-3)
        line = json.loads((out / "metrics.jsonl").read_text().splitlines()[0])
        for key in ("step", "loss", "learning_rate", "grad_norm", "tokens_per_second", "arena_peak_bytes", "rss_bytes"):
            self.assertIn(key, line)
        summary = self.summary(out)
        self.assertEqual(summary["weights_sha256"], common.sha256(out / "last/model.safetensors"))
        for folder in ("best", "last"):
            for name in ("config.json", "model.safetensors", "vocab.txt"):
                self.assertTrue((out / folder / name).exists(), name)
        metrics = json.loads(self.ok("eval", **self.base(output_dir=out, model=out / "last")).stdout)
        self.assertAlmostEqual(metrics["accuracy"], summary["final_metrics"]["accuracy"], places=6)
        self.assertAlmostEqual(metrics["loss"], summary["final_metrics"]["loss"], places=5)
        lines = self.ok("predict", **self.base(output_dir=out, model=out / "last")).stdout.splitlines()
        rows = [json.loads(row) for row in self.valid_file.read_text().splitlines()]
        self.assertEqual(len(lines), len(rows))
        hits = sum(json.loads(line)["label"] == row["label"] for line, row in zip(lines, rows))
        self.assertAlmostEqual(hits / len(rows), metrics["accuracy"], places=6)
        for text in lines:
            self.assertAlmostEqual(sum(json.loads(text)["scores"].values()), 1, places=5)

    def test_verify_proves_the_contract(self):
        report = json.loads(self.ok("verify", json=True, **self.base(train_batch_size=16)).stdout)
        self.assertTrue(report["is_equal"])
        self.assertGreaterEqual(len(report["checks"]), 4)

    def test_mlp_trains_and_fine_tuning_starts_from_a_folder(self):
        mlp = self.train("mlp", model="mlp", hidden_sizes="32,16", max_steps=200, learning_rate=1e-2, train_batch_size=16)
        self.assertGreater(self.summary(mlp)["final_metrics"]["accuracy"], 0.8)
        first = self.train("first", max_steps=5)
        second = self.train("second", model=first / "last", max_steps=2)
        self.assertTrue((second / "last/model.safetensors").exists())

    def test_text_pairs_tsv_and_csv(self):
        tsv = self.folder / "pairs.tsv"
        tsv.write_text("a\tb\ty\n" + "".join(f"{r['text']}\t{r['text']}\t{r['label']}\n" for r in common.make_rows(60)))
        csv = self.folder / "pairs.csv"
        csv.write_text('a,b,y\n' + "".join(f'"{r["text"]}","{r["text"]}",{r["label"]}\n' for r in common.make_rows(30)))
        self.train("pairs", train_file=tsv, validation_file=csv, text_column="a", text_pair_column="b", label_column="y",
                   max_steps=3)


if __name__ == "__main__":
    common.main()
