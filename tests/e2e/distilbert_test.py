"""A DistilBERT that transformers wrote: its predictions, training, and the folder that is written."""
import json
import pathlib
import shutil

import common
from common import Case, make_rows, read_safetensors_header, write_jsonl

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden/distilbert_folder"
TEXTS = GOLDEN / "texts.jsonl"
MACHINE = dict(memory="1GiB", threads=2)


class Distilbert(Case):
    def scores(self, model, **more):
        done = self.ok("predict", model=model, test_file=TEXTS, **dict(MACHINE, **more))
        return [json.loads(line)["scores"] for line in done.stdout.splitlines()]

    def copy(self, name, **changes):
        path = self.folder / name
        shutil.copytree(GOLDEN, path)
        config = json.loads((path / "config.json").read_text())
        (path / "config.json").write_text(json.dumps(dict(config, **changes)))
        return path

    def test_predictions_are_those_of_transformers(self):
        wanted = json.loads((GOLDEN / "probabilities.json").read_text())["probabilities"]
        for found, row in zip(self.scores(GOLDEN), wanted, strict=True):
            for (label, score), expected in zip(found.items(), row, strict=True):
                self.assertAlmostEqual(score, expected, delta=1e-5, msg=label)

    def test_it_trains_into_a_folder_that_transformers_reads(self):
        out = self.folder / "run"
        base = self.base(model=GOLDEN, vocab_size=None, max_seq_length=16, max_steps=4, save_steps=2, output_dir=out)
        low = self.plan(**{key: value for key, value in base.items() if key != "output_dir"})["smallest_budget_bytes"]
        self.ok("train", **dict(base, memory=low))
        self.assert_resident_within(self.summary(out), low)
        theirs, config = read_safetensors_header(GOLDEN / "model.safetensors"), json.loads((GOLDEN / "config.json").read_text())
        for folder in (out / "best", out / "last"):
            self.assertEqual(read_safetensors_header(folder / "model.safetensors"), theirs)
            written = json.loads((folder / "config.json").read_text())
            for key in ("architectures", "model_type", "dim", "n_layers", "n_heads", "hidden_dim", "activation", "dropout",
                        "attention_dropout", "seq_classif_dropout", "sinusoidal_pos_embds", "max_position_embeddings",
                        "initializer_range", "pad_token_id", "vocab_size", "id2label", "label2id"):
                self.assertEqual(written[key], config[key], key)
            tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
            self.assertEqual(tokenizer["model_input_names"], ["input_ids", "attention_mask"])
        self.assertNotEqual(self.scores(out / "best"), self.scores(GOLDEN))
        self.assertIn("accuracy", self.ok("eval", model=out / "best", test_file=self.valid_file, **MACHINE).stdout)
        # The same updates over a stop.
        steady = dict(base, lr_scheduler_type="constant", micro_batch_size=8)
        for name, steps in (("whole", (4,)), ("stopped", (2, 4))):
            for number, step in enumerate(steps):
                self.ok("train", **dict(steady, output_dir=self.folder / name, max_steps=step, resume=str(number > 0).lower()))
        digests = {common.sha256(self.folder / name / "last/model.safetensors") for name in ("whole", "stopped")}
        self.assertEqual(len(digests), 1)

    def test_a_fresh_head_is_both_layers(self):
        write_jsonl(self.train_file, [dict(row, label="x" + row["label"]) for row in make_rows(60)])
        base = self.base(model=GOLDEN, vocab_size=None, validation_file=None, max_seq_length=16, max_steps=1, train_batch_size=4)
        done = common.run("train", *common.options(**dict(base, output_dir=self.folder / "refused")))
        self.assertEqual(done.returncode, 1)
        self.assertIn("fresh_head", done.stderr)
        done = self.ok("train", **dict(base, output_dir=self.folder / "fresh", fresh_head=True))
        for name in ("pre_classifier", "classifier"):
            self.assertIn(name, done.stderr)

    def test_what_is_not_understood_is_refused(self):
        for changes, word in ((dict(sinusoidal_pos_embds=True), "sinusoidal_pos_embds"), (dict(activation="silu"), "activation"),
                              (dict(hidden_size=16), "hidden_size"), (dict(n_layers=3), "missing"), (dict(dim=24), "another shape")):
            done = common.run("inspect", "--model", str(self.copy(word, **changes)))
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn(word, done.stderr)


if __name__ == "__main__":
    common.main()
