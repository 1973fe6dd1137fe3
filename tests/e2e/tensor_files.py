"""Files of tensors as bytes, by the standard library only."""
import array
import json
import pathlib
import struct
import zipfile

STORAGES = {"F32": ("FloatStorage", 4), "F16": ("HalfStorage", 2), "BF16": ("BFloat16Storage", 2), "F64": ("DoubleStorage", 8),
            "I64": ("LongStorage", 8)}


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
