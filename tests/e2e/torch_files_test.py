"""Model folders whose weights lie in pytorch_model.bin: the same runs as from safetensors, from one file and from shards."""
import array
import json
import pathlib
import shutil
import struct
import zipfile

import common
from common import Case, sha256

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
MODEL = GOLDEN / "distilbert_folder"
TEXTS = MODEL / "texts.jsonl"
MACHINE = dict(memory="1GiB", threads=2)
STORAGES = {"F32": ("FloatStorage", 4), "F16": ("HalfStorage", 2), "BF16": ("BFloat16Storage", 2), "F64": ("DoubleStorage", 8)}


def read_raw(path):
    """Name -> type, shape and bytes."""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    return {name: (info["dtype"], info["shape"], data[8 + length + info["data_offsets"][0]:8 + length + info["data_offsets"][1]])
            for name, info in header.items() if name != "__metadata__"}


def write_raw(path, tensors):
    header, body = {}, b""
    for name, (dtype, shape, data) in tensors.items():
        header[name] = dict(dtype=dtype, shape=shape, data_offsets=[len(body), len(body) + len(data)])
        body += data
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + body)


def cast(tensors, dtype):
    """Tensors of F32 as others; what is cut off is lost."""
    def bytes_of(data):
        values = array.array("f", data)
        if dtype == "BF16":
            return b"".join(struct.pack("<f", value)[2:] for value in values)
        return struct.pack(f"<{len(values)}{'e' if dtype == 'F16' else 'd'}", *values)
    return {name: (dtype, shape, bytes_of(data)) for name, (_, shape, data) in tensors.items()}


def write_torch(path, tensors):
    """As torch.save does, by hand: a pickle of protocol 2 and an entry for each storage."""
    def text(value):
        return b"X" + struct.pack("<I", len(value.encode())) + value.encode()

    def numbers(values):
        return b"(" + b"".join(b"J" + struct.pack("<i", value) for value in values) + b"t"

    pickle = b"\x80\x02}("
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for key, (name, (dtype, shape, data)) in enumerate(tensors.items()):
            storage, size = STORAGES[dtype]
            strides = [1] * len(shape)
            for i in reversed(range(len(shape) - 1)):
                strides[i] = strides[i + 1] * shape[i + 1]
            pickle += text(name) + b"ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + f"ctorch\n{storage}\n".encode()
            pickle += text(str(key)) + text("cpu") + b"J" + struct.pack("<i", len(data) // size) + b"tQK\0" + numbers(shape) + numbers(strides)
            pickle += b"\x89ccollections\nOrderedDict\n)RtR"
            archive.writestr(f"weights/data/{key}", data)
        archive.writestr("weights/data.pkl", pickle + b"u.")


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
