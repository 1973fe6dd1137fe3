# SPDX-License-Identifier: Apache-2.0
"""Rows in memory as a file of JSON lines, one row at a time: lists of dicts, pandas and polars frames, PyArrow tables,
Hugging Face's datasets."""
from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ._errors import Error

FILE_KEYS = ("train_file", "validation_file", "test_file")
_BATCH = 1000


def _is_file(value: Any) -> bool:
    if isinstance(value, (str, os.PathLike)):
        return True
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(each, (str, os.PathLike)) for each in value)


def _rows_of(key: str, value: Any) -> Iterator[Mapping[str, Any]]:
    if hasattr(value, "iter_rows") and hasattr(value, "columns"):  # polars
        yield from value.iter_rows(named=True)
    elif hasattr(value, "iloc") and hasattr(value, "columns"):  # pandas
        names = [str(name) for name in value.columns]
        for row in value.itertuples(index=False, name=None):
            yield dict(zip(names, row))
    elif hasattr(value, "to_batches"):  # PyArrow
        for batch in value.to_batches(max_chunksize=_BATCH):
            yield from batch.to_pylist()
    elif isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping)):  # datasets, lists, generators
        yield from value
    else:
        raise Error("bad_data", key, f"a {type(value).__name__} has no rows", "give a file, a list of dicts, a frame, a table or a dataset")


def _plain(key: str, row: int, name: str, value: Any) -> Any:
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else value  # how frames say that nothing is there
    if isinstance(value, (list, tuple)):
        return [_plain(key, row, name, each) for each in value]
    if isinstance(value, Mapping):
        return {str(each): _plain(key, row, name, inner) for each, inner in value.items()}
    if hasattr(value, "tolist"):  # numpy
        return _plain(key, row, name, value.tolist())
    if type(value).__name__ in ("NAType", "NaTType"):  # pandas
        return None
    raise Error("bad_data", f"{key}:{row + 1}", f"the column '{name}' has a {type(value).__name__}, which is neither text nor number")


def _write(key: str, value: Any, file: Any) -> None:
    count = 0
    for row in _rows_of(key, value):
        if not isinstance(row, Mapping):
            raise Error("bad_data", f"{key}:{count + 1}", f"a row is a {type(row).__name__}, not a dict of columns")
        try:
            plain = {str(name): _plain(key, count, str(name), each) for name, each in row.items()}
        except RecursionError:
            raise Error("bad_data", f"{key}:{count + 1}", "a column holds itself") from None
        file.write(json.dumps(plain, ensure_ascii=False, allow_nan=False) + "\n")
        count += 1
    if count == 0:
        raise Error("bad_data", key, "has no rows")


@contextlib.contextmanager
def with_files(keys: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The keys with files in the place of rows, which are gone afterwards."""
    given = dict(keys)
    held = [key for key in FILE_KEYS if given.get(key) is not None and not _is_file(given[key])]
    if not held:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="snug-rows-") as folder:
        for key in held:
            path = os.path.join(folder, f"{key}.jsonl")
            with open(path, "w", encoding="utf-8") as file:
                _write(key, given[key], file)
            given[key] = path
        yield given
