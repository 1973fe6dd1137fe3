# SPDX-License-Identifier: Apache-2.0
"""What X is: texts, pairs of texts, images, or numbers; and the first three as rows for the verbs."""
from __future__ import annotations

import os
import pathlib
import struct
import zlib
from collections.abc import Iterator, Sequence, Set
from typing import Any

import numpy as np

_OF_TEXTS = "OUT"  # kinds of arrays that may have some
_DECODE = "[each.decode() for each in X]"
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg")


class Texts:
    """One text a row, or two."""

    kind = "texts"
    model = "bert-tiny"

    def __init__(self, columns: list[Any]) -> None:
        self.columns = columns
        for column in columns:
            for row, value in enumerate(column):
                if not isinstance(value, str):
                    raise ValueError(f"row {row} of X has a {type(value).__name__} where a text belongs")
        if len(columns) == 2:
            self.kind = "pairs of texts"

    def __len__(self) -> int:
        return len(self.columns[0])

    def file(self, _folder: str, labels: Any = None, weights: Any = None) -> tuple[Any, dict[str, Any]]:
        """Rows for train_file or test_file, and the keys that say their columns."""
        keys = {"text_column": "text"}
        if len(self.columns) == 2:
            keys["text_pair_column"] = "pair"
        if weights is not None:
            keys["weight_column"] = "weight"
        return self._rows(labels, weights), keys

    def _rows(self, labels: Any, weights: Any) -> Iterator[dict[str, Any]]:
        for row in range(len(self)):
            values: dict[str, Any] = {name: str(column[row]) for name, column in zip(("text", "pair"), self.columns)}
            if labels is not None:
                values["label"] = labels[row]
            if weights is not None:
                values["weight"] = float(weights[row])
            yield values


def _png(image: Any) -> bytes:
    """Of (height, width, 3) bytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width = image.shape[:2]
    rows = np.zeros((height, 1 + 3 * width), dtype=np.uint8)  # a byte in front of each row says that it is not filtered
    rows[:, 1:] = image.reshape(height, 3 * width)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows.tobytes(), 1)) + chunk(b"IEND", b"")


class Images:
    """Arrays of bytes, or files."""

    kind = "images"
    model = "resnet-20"

    def __init__(self, images: Any) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def file(self, folder: str, labels: Any = None, weights: Any = None) -> tuple[Any, dict[str, Any]]:
        """A folder for each class. The order of the names is that of the rows."""
        if weights is not None:
            raise ValueError("images take no sample_weight")
        for label in dict.fromkeys(labels or ()):
            _refuse_folder(label)
        for row, image in enumerate(self.images):
            place = pathlib.Path(folder, "images", *([] if labels is None else [labels[row]]))
            place.mkdir(parents=True, exist_ok=True)
            if isinstance(image, (str, os.PathLike)):
                source = pathlib.Path(image).absolute()
                if not source.is_file():
                    raise ValueError(f"row {row} of X: there is no file {source}")
                place.joinpath(f"{row:09}{source.suffix}").symlink_to(source)
            else:
                place.joinpath(f"{row:09}.png").write_bytes(_png(image))
        return os.path.join(folder, "images"), {}


def _refuse_folder(label: str) -> None:
    """Of images a class is a folder, and hidden ones are passed over."""
    try:
        is_one = not label.startswith(".") and len(label.encode()) < 256
    except UnicodeEncodeError:
        is_one = False
    if not is_one:
        raise ValueError(f"{label!r} is no name of a class of images: give one of UTF-8 that does not begin with a dot, of at most 255 bytes")


def _image(array: Any) -> Any:
    """(height, width, 3)."""
    if array.dtype != np.uint8:
        raise ValueError(f"images are arrays of uint8, not of {array.dtype}")
    if array.size == 0:
        raise ValueError(f"an image of {array.shape} has no pixels")
    if array.ndim == 2:
        return np.repeat(array[..., None], 3, axis=2)
    if array.ndim != 3 or array.shape[2] != 3:
        turned = ": give X.transpose(0, 2, 3, 1)" if array.ndim == 3 and array.shape[0] == 3 else ""  # as PyTorch has them
        raise ValueError(f"an image is (height, width) or (height, width, 3), not {array.shape}{turned}")
    return array


def _is_image_file(value: Any) -> bool:
    return isinstance(value, os.PathLike) or (isinstance(value, str) and value.lower().endswith(IMAGE_SUFFIXES))


def _of_one_column(values: Any) -> Texts | Images:
    if all(map(_is_image_file, values)):
        return Images(list(values))
    return Texts([values])


def _is_text(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike))


def rows_of(X: Any) -> Texts | Images | None:
    """None where X is to be numbers, which scikit-learn's own check reads. Raises ValueError."""
    if isinstance(X, (str, bytes)) or type(X) is dict or X is None:  # some sparse arrays are dicts, and scikit-learn names them
        raise ValueError(f"X is a {type(X).__name__}; it is an array or a list of texts, pairs of texts, images or numbers")
    if np.ma.is_masked(X):
        raise ValueError("X has masked values, which nothing here knows: fill them, X.filled(...)")
    if isinstance(X, (Iterator, Set)):
        raise ValueError(f"X is a {type(X).__name__}, whose rows have no order or are there once: give list(X)")
    if hasattr(X, "columns") and hasattr(X, "to_numpy"):  # a frame
        frame, X = X, X.to_numpy()
        if X.dtype.kind in _OF_TEXTS:
            _refuse_texts_beside_numbers(frame)
    elif not isinstance(X, np.ndarray):
        X = _column(X)
    if isinstance(X, np.ndarray):
        return _of_array(X)
    if not isinstance(X, (list, tuple)) or len(X) == 0:
        return None
    if any(isinstance(row, bytes) for row in X):
        raise ValueError(f"X has bytes where texts belong: decode them, {_DECODE}")
    if any(map(_is_text, X)):
        return _of_one_column(X)
    if all(isinstance(row, (list, tuple)) and any(map(_is_text, row)) for row in X):
        return _of_columns([list(row) for row in X])
    if all(isinstance(row, np.ndarray) and row.ndim in (2, 3) for row in X):
        return Images([_image(row) for row in X])  # of any sizes
    return None


def _column(X: Any) -> Any:
    """A list in place of a column of a frame, a table or a dataset."""
    for name in ("to_list", "to_pylist"):
        if hasattr(X, name):
            return getattr(X, name)()
    return list(X) if isinstance(X, Sequence) and not isinstance(X, (list, tuple)) else X


def _refuse_texts_beside_numbers(X: Any) -> None:
    """Of a frame, whose columns have names."""
    columns = list(X.columns)
    texts = [name for name in columns if columns.count(name) == 1 and any(map(_is_text, X[name].to_list()))]
    others = [name for name in columns if name not in texts]
    if texts and others:
        raise ValueError(f"X has texts ({_some(texts)}) beside other columns ({_some(others)}): make numbers of the texts (OneHotEncoder in a "
                         "ColumnTransformer), or give one or two columns of texts alone")


def _some(names: list[Any]) -> str:
    return ", ".join([*map(repr, names[:3]), *(["..."] if len(names) > 3 else [])])


def _of_array(X: Any) -> Texts | Images | None:
    if X.ndim in (3, 4) and X.dtype == np.uint8 and len(X):
        return Images([_image(row) for row in X])
    if X.ndim == 4:
        raise ValueError(f"X has the shape {X.shape} of images, of {X.dtype}: give uint8, such as (255 * X).astype(\"uint8\")")
    if X.dtype.kind == "S" or (X.dtype.kind == "O" and any(isinstance(value, bytes) for value in X.flat)):
        raise ValueError(f"X has bytes where texts belong: decode them, {_DECODE}")
    if X.dtype.kind not in _OF_TEXTS or X.ndim not in (1, 2) or not any(map(_is_text, X.flat)):
        return None
    return _of_one_column(X) if X.ndim == 1 else _of_columns(X.tolist())


def _of_columns(rows: list[list[Any]]) -> Texts | Images:
    widths = {len(row) for row in rows}
    if widths == {1}:
        return _of_one_column([row[0] for row in rows])
    if widths != {2}:
        raise ValueError(f"X has rows of {sorted(widths)} texts; one is a text, two are a pair")
    return Texts([[row[0] for row in rows], [row[1] for row in rows]])
