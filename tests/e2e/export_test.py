"""snug convert and snug export: the same names, types and bits in another form, and a folder as transformers reads it."""
import json
import pathlib
import shutil

import common
from common import Case, read_safetensors_header, sha256
from tensor_files import cast, read_raw, write_raw, write_torch

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
MODEL = GOLDEN / "distilbert_folder"
NAMES = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}


def config_of(folder):
    return json.loads((folder / "config.json").read_text())


class Export(Case):
    def refused(self, *words, verb="export", **values):
        done = common.run(verb, *common.options(**values))
        self.assertEqual(done.returncode, 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def copy_of_model(self, name):
        folder = self.folder / name
        shutil.copytree(MODEL, folder)
        return folder

    def convert(self, file):
        output = self.folder / "converted.safetensors"
        done = common.run("convert", str(file), "--output", str(output))
        self.assertEqual(done.returncode, 0, done.stderr)
        return read_raw(output), done.stderr

    def test_a_converted_file_has_the_same_names_types_and_bits(self):
        wanted = read_raw(GOLDEN / "torch_files/read.safetensors")
        for protocol in (2, 3, 4, 5):
            found, said = self.convert(GOLDEN / f"torch_files/protocol{protocol}.bin")
            self.assertEqual(found, wanted)
            self.assertIn("weight (as tied)", said)
        tensors = cast(read_raw(MODEL / "model.safetensors"), "BF16")
        write_torch(self.folder / "pytorch_model.bin", tensors)
        for path in (self.folder / "pytorch_model.bin", self.folder):
            found, said = self.convert(path)
            self.assertEqual(found, tensors)
            self.assertEqual(said, "")
        self.assertFalse((self.folder / "converted.safetensors.tmp").exists())

    def test_what_cannot_be_converted_leaves_nothing(self):
        for file, words in ((GOLDEN / "torch_files/legacy.bin", "before PyTorch 1.6"), (self.folder / "none.bin", "none.bin"),
                            (MODEL / "config.json", "weight_map")):
            done = common.run("convert", str(file), "--output", str(self.folder / "out"))
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.stderr)
        self.assertFalse((self.folder / "out").exists())
        done = common.run("convert", str(MODEL / "model.safetensors"), "--output", str(MODEL / "model.safetensors"))
        self.assertIn("cannot be written over", done.stderr)

    def test_an_exported_folder_is_the_same_model(self):
        out = self.folder / "exported"
        self.ok("export", model=MODEL, output=out)
        self.assertEqual(read_raw(out / "model.safetensors"), read_raw(MODEL / "model.safetensors"))
        self.assertEqual(config_of(out), dict(config_of(MODEL), dtype="float32"))
        for name in ("tokenizer.json", "tokenizer_config.json"):
            self.assertEqual(sha256(out / name), sha256(MODEL / name))
        common.run("export", "--model", str(MODEL), "--output", str(out))  # again, over itself
        machine = dict(test_file=MODEL / "texts.jsonl", memory="1GiB", threads=2)
        self.assertEqual(self.ok("predict", model=out, **machine).stdout, self.ok("predict", model=MODEL, **machine).stdout)

    def test_weights_are_rounded_to_the_type_that_is_asked_for(self):
        theirs = self.copy_of_model("theirs")
        halves = cast(read_raw(MODEL / "model.safetensors"), "F16")
        write_raw(theirs / "model.safetensors", halves)
        (theirs / "config.json").write_text(json.dumps(dict(config_of(MODEL), torch_dtype="float16", dtype=None)))
        out = self.folder / "wide"
        self.ok("export", model=theirs, output=out, dtype="float32")
        self.assertEqual(config_of(out)["torch_dtype"], "float32")
        wide = read_raw(out / "model.safetensors")
        self.assertEqual(cast(wide, "F16"), halves)
        for stored, name in NAMES.items():
            again = self.folder / name
            self.ok("export", model=out, output=again, dtype=name)
            self.assertEqual({dtype for dtype, _ in read_safetensors_header(again / "model.safetensors").values()}, {stored})
            self.assertEqual(config_of(again)["torch_dtype"], name)
        self.assertEqual(read_raw(self.folder / "float16/model.safetensors"), halves)
        self.ok("export", model=theirs, output=self.folder / "same")
        self.assertEqual(read_raw(self.folder / "same/model.safetensors"), halves)
        self.assertEqual(config_of(self.folder / "same")["torch_dtype"], "float16")

    def test_other_heads_stay_and_old_names_become_those_of_today(self):
        base = self.train("bert", model="bert-tiny", hidden_sizes=None, max_steps=1) / "best"
        wanted = read_raw(base / "model.safetensors")
        old = {}
        for name, value in wanted.items():
            name = name.removeprefix("bert.")
            old[name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")] = value
        extra = {"cls.predictions.bias": ("F32", [2], bytes(8))}
        folder = self.folder / "old"
        shutil.copytree(base, folder)
        (folder / "model.safetensors").unlink()
        (folder / ".snug.complete").unlink()
        buffers = {"embeddings.position_ids": ("F32", [1], bytes(4)), "embeddings.token_type_ids": ("I64", [1, 1], bytes(8))}
        write_torch(folder / "pytorch_model.bin", dict(old, **extra, **buffers))
        self.ok("export", model=folder, output=self.folder / "new")
        self.assertEqual(read_raw(self.folder / "new/model.safetensors"), dict(wanted, **extra))
        said = self.ok("predict", model=folder, test_file=self.valid_file, memory="1GiB", threads=2).stderr
        self.assertIn("not used of", said)
        self.assertIn("cls.predictions.bias", said)
        shown = json.loads(common.run("inspect", "--json", "--model", folder).stdout)["model"]
        self.assertEqual((shown["fresh_weights"], shown["unused_tensors"]), ([], list(extra)))
        (folder / "pytorch_model.bin").rename(folder / "model.fp16.safetensors")
        self.refused("rename it to model.safetensors", model=folder, output=self.folder / "none")

    def test_adapters_in_the_old_form_are_converted_by_the_line_that_is_said(self):
        out = self.train("lora", model=MODEL, vocab_size=None, max_seq_length=16, max_steps=2, learning_rate=0.1,
                         lora=json.dumps({"match": "*.q_lin.weight", "r": 2}))
        adapters = self.folder / "adapters"
        shutil.copytree(out / "last", adapters)
        machine = dict(test_file=MODEL / "texts.jsonl", memory="1GiB", threads=2)
        wanted = self.ok("predict", model=adapters, **machine).stdout
        write_torch(adapters / "adapter_model.bin", read_raw(adapters / "adapter_model.safetensors"))
        (adapters / "adapter_model.safetensors").unlink()
        (adapters / ".snug.complete").unlink()
        done = common.run("predict", *common.options(model=adapters, **machine))
        line = next(line for line in done.stderr.splitlines() if "snug convert" in line)
        done = common.run(*line.split("snug ")[1].split())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.ok("predict", model=adapters, **machine).stdout, wanted)

    def test_what_is_no_model_is_refused(self):
        self.refused("'float64' is no type of weights", model=MODEL, output=self.folder / "x", dtype="float64")
        self.refused("is what is exported", model=MODEL, output=MODEL)
        self.refused("is no folder with weights", model="bert-tiny", output=self.folder / "x")
        adapters = self.folder / "adapters"
        adapters.mkdir()
        (adapters / "adapter_config.json").write_text("{}")
        self.refused("snug merge --model BASE --adapter", model=adapters, output=self.folder / "x")
        large = self.copy_of_model("large")
        tensors = read_raw(MODEL / "model.safetensors")
        name, (dtype, shape, data) = next(iter(tensors.items()))
        write_raw(large / "model.safetensors", dict(tensors, **{name: (dtype, shape, b"\0\0\x80\x4f" + data[4:])}))  # 2^32
        done = common.run("export", "--model", str(large), "--output", str(self.folder / "x"), "--dtype", "float16")
        self.assertEqual(done.returncode, 3)
        self.assertIn(f"[{name}] 4294967296", done.stderr)
        self.assertFalse((self.folder / "x").exists())


if __name__ == "__main__":
    common.main()
