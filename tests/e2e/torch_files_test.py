"""Model folders whose weights lie in pytorch_model.bin: the same runs as from safetensors, from one file and from shards."""
import json
import pathlib
import shutil
import zipfile

import common
from common import Case, sha256
from tensor_files import cast, read_raw, write_raw, write_torch

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
MODEL = GOLDEN / "distilbert_folder"
TEXTS = MODEL / "texts.jsonl"
MACHINE = dict(memory="1GiB", threads=2)


class TorchFiles(Case):
    def copy_of_model(self, name, weights=True):
        path = self.folder / name
        shutil.copytree(MODEL, path)
        if not weights:
            (path / "model.safetensors").unlink()
        return path

    def single(self, name, tensors):
        path = self.copy_of_model(name, weights=False)
        write_torch(path / "pytorch_model.bin", tensors)
        return path

    def sharded(self, name, tensors):
        path = self.copy_of_model(name, weights=False)
        names = list(tensors)
        shards = {"pytorch_model-00001-of-00002.bin": names[:7], "pytorch_model-00002-of-00002.bin": names[7:]}
        for shard, own in shards.items():
            write_torch(path / shard, {key: tensors[key] for key in own})
        index = {"metadata": {}, "weight_map": {key: shard for shard, own in shards.items() for key in own}}
        (path / "pytorch_model.bin.index.json").write_text(json.dumps(index))
        return path

    def predictions(self, model):
        return self.ok("predict", model=model, test_file=TEXTS, **MACHINE).stdout

    def test_they_are_run_as_safetensors_are(self):
        tensors = read_raw(MODEL / "model.safetensors")
        single, sharded = self.single("single", tensors), self.sharded("sharded", tensors)
        wanted = self.predictions(MODEL)
        base = self.base(vocab_size=None, max_seq_length=16, max_steps=2)
        digests = set()
        for model in (MODEL, single, sharded):
            self.assertEqual(self.predictions(model), wanted)
            out = self.folder / f"run-{model.name}"
            plan = {key: value for key, value in dict(base, model=model).items() if key != "output_dir"}
            low = self.plan(**plan)["smallest_budget_bytes"]
            self.ok("train", **dict(base, model=model, memory=low, output_dir=out))
            self.assert_resident_within(self.summary(out), low)
            digests.add(sha256(out / "last/model.safetensors"))
            self.assertIn("parameters", self.ok("inspect", model=model, max_seq_length=16).stdout)
            self.assertIn("accuracy", self.ok("eval", model=model, test_file=self.valid_file, **MACHINE).stdout)
        self.assertEqual(len(digests), 1)

    def test_every_type_is_read_as_from_safetensors(self):
        tensors = read_raw(MODEL / "model.safetensors")
        for dtype in ("F16", "BF16", "F64"):
            values = cast(tensors, dtype)
            theirs = self.copy_of_model("safetensors-" + dtype, weights=False)
            write_raw(theirs / "model.safetensors", values)
            self.assertEqual(self.predictions(self.single("torch-" + dtype, values)), self.predictions(theirs))

    def test_of_two_forms_safetensors_is_read_and_said(self):
        both = self.copy_of_model("both")
        (both / "pytorch_model.bin").write_bytes(b"not read")
        done = self.ok("train", **self.base(model=both, vocab_size=None, max_seq_length=16, max_steps=1, output_dir=self.folder / "run"))
        self.assertIn("weights are read from model.safetensors of", done.stderr)
        self.assertIn("not from pytorch_model.bin", done.stderr)

    def test_older_forms_and_foreign_objects_are_refused(self):
        folder = self.copy_of_model("refused", weights=False)
        shutil.copy(GOLDEN / "torch_files/legacy.bin", folder / "pytorch_model.bin")
        done = common.run("inspect", "--model", str(folder))
        self.assertEqual(done.returncode, 1)
        self.assertIn("torch.save(torch.load(f, map_location='cpu', weights_only=True), f)", done.stderr)
        with zipfile.ZipFile(folder / "pytorch_model.bin", "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("a/data.pkl", b"\x80\x02cos\nsystem\nX\x04\0\0\0echo\x85R.")
        done = common.run("inspect", "--model", str(folder))
        self.assertEqual(done.returncode, 1)
        self.assertIn('data.pkl, byte 2: the pickle names "os.system"', done.stderr)

    def test_old_names_are_those_of_today(self):
        tensors = read_raw(MODEL / "model.safetensors")
        old = {}
        for name, value in tensors.items():
            name = name.removeprefix("distilbert.")
            old[name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")] = value
        self.assertIn("embeddings.LayerNorm.gamma", old)
        self.assertEqual(self.predictions(self.single("old", old)), self.predictions(MODEL))

    def test_what_does_not_belong_is_refused_by_name(self):
        tensors = read_raw(MODEL / "model.safetensors")
        name = next(key for key, (_, shape, _) in tensors.items() if len(shape) == 2)
        dtype, shape, data = tensors[name]
        missing = {key: value for key, value in tensors.items() if key != name}
        changed = dict(tensors, **{name: (dtype, [len(data) // 4], data)})
        foreign = dict(tensors, **{"distilbert.extra.weight": (dtype, shape, data)})
        for label, changed_tensors, words in (("missing", missing, "1 missing: " + name), ("changed", changed, "of another shape"),
                                              ("foreign", foreign, "that the model does not have: distilbert.extra.weight")):
            done = common.run("inspect", "--max_seq_length", "16", "--model", str(self.single(label, changed_tensors)))
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    common.main()
