# SPDX-License-Identifier: Apache-2.0
"""Rows in memory as files: lists of dicts, pandas and polars frames as JSON lines, one row at a time; PyArrow's tables and Hugging
Face's datasets as Arrow's (_arrow.py)."""
from __future__ import annotations

import contextlib
import json
import math
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from . import _arrow
from ._columns import columns_to_write, refuse_twice
from ._config import FILE_KEYS
from ._errors import DoesNotFit, Error

_FOLDER_PREFIX = "snug-rows-"
_EARLIER_FILE = re.compile(rf"""[^\s'"]*/{_FOLDER_PREFIX}[^/]+/(?:{"|".join(FILE_KEYS)})\.(?:jsonl|arrow)""")


def _is_file(value: Any) -> bool:
    if isinstance(value, (str, os.PathLike)):
        return True
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(each, (str, os.PathLike)) for each in value)


def _refuse_commas(key: str, value: Any) -> None:
    if isinstance(value, (list, tuple)) and len(value) > 1 and _is_file(value):
        for file in map(os.fspath, value):
            if "," in file:
                raise Error("bad_data", key, f"'{file}' has a comma, which stands between files", "give it alone, or call it something else")


def _rows_of(key: str, value: Any, keys: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    if hasattr(value, "iter_rows") and hasattr(value, "columns"):  # polars
        yield from value.select(columns_to_write(value.columns, keys)).iter_rows(named=True)
    elif hasattr(value, "iloc") and hasattr(value, "columns"):  # pandas
        names = [str(name) for name in value.columns]
        refuse_twice(key, columns_to_write(names, keys))
        for row in value.itertuples(index=False, name=None):
            yield dict(zip(names, row))
    elif isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping)):  # lists, generators, streamed datasets
        yield from value
    else:
        hint = "give a file, a list of dicts, a frame, a table or a dataset"
        if isinstance(value, Mapping) and value:  # of Hugging Face's splits, or of columns
            hint = f"give one of its datasets, such as rows[{next(iter(value))!r}]; of columns a frame, such as pandas.DataFrame(rows)"
        if hasattr(value, "collect_schema"):  # of polars, lazy
            raise Error("bad_data", key, f"a {type(value).__name__} has no rows before it is collected", "give rows.collect()")
        if hasattr(value, "to_pylist"):
            raise Error("bad_data", key, f"a {type(value).__name__} is part of a table", "give pyarrow.Table.from_batches([rows])")
        raise Error("bad_data", key, f"a {type(value).__name__} has no rows", hint)


def _hint_for_row(row: Any) -> str:
    if hasattr(row, "to_pylist"):
        return "of a reader of PyArrow give its table: rows.read_all()"
    if hasattr(row, "_asdict"):
        return "give [row._asdict() for row in rows]"
    if hasattr(row, "keys"):  # of a database
        return "give [dict(row) for row in rows]"
    return 'give each row as a dict: {"text": ..., "label": ...}'


def _plain(key: str, row: int, name: str, value: Any) -> Any:
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        if math.isinf(value):
            raise Error("bad_data", f"{key}:{row + 1}", f"the column '{name}' is {value}", "give a number that is finite, or none")
        return None if math.isnan(value) else value  # how frames say that nothing is there
    if isinstance(value, (list, tuple)):
        return [_plain(key, row, name, each) for each in value]
    if isinstance(value, Mapping):
        return {str(each): _plain(key, row, name, inner) for each, inner in value.items()}
    if hasattr(value, "tolist") and type(plain := value.tolist()) is not type(value):  # numpy, but for its longdouble
        return _plain(key, row, name, plain)
    if type(value).__name__ in ("NAType", "NaTType"):  # pandas
        return None
    raise Error("bad_data", f"{key}:{row + 1}", f"the column '{name}' has a {type(value).__name__}, which is neither text nor number",
                "turn it into text or numbers, or leave the column out")


def _write(key: str, value: Any, file: Any, keys: Mapping[str, Any] | None) -> None:
    count = 0
    for row in _rows_of(key, value, keys):
        if not isinstance(row, Mapping):
            raise Error("bad_data", f"{key}:{count + 1}", f"a row is a {type(row).__name__}, not a dict of columns", _hint_for_row(row))
        try:
            plain = {str(name): _plain(key, count, str(name), row[name]) for name in columns_to_write(row, keys)}
        except RecursionError:
            raise Error("bad_data", f"{key}:{count + 1}", "a column holds itself") from None
        try:
            file.write(json.dumps(plain, ensure_ascii=False, allow_nan=False) + "\n")
        except UnicodeEncodeError:
            raise Error("bad_data", f"{key}:{count + 1}", "a text has half of a surrogate pair", "give text that UTF-8 can hold") from None
        count += 1
    if count == 0:
        raise Error("bad_data", key, "has no rows")


def _write_columns(key: str, value: Any, path: str, keys: Mapping[str, Any] | None) -> None:
    if _arrow.write(key, value, path, keys) == 0:
        raise Error("bad_data", key, "has no rows")


class Files:
    """Rows in memory as files, for the time of a call: the keys with files in their place, and what people are told of them."""

    def __init__(self, keys: dict[str, Any], written: Mapping[str, str]) -> None:
        self.keys = keys
        self._written = written

    def named(self, text: str) -> str:
        """A file that only this call knows is called by its key; one of an earlier call, which a checkpoint remembers, is gone."""
        for key, path in self._written.items():
            text = text.replace(path, key)
        return _EARLIER_FILE.sub("earlier rows in memory", text)

    def told(self, value: Any) -> Any:
        """The same in what a callback is given."""
        if isinstance(value, str):
            return self.named(value)
        if isinstance(value, Mapping):
            return {name: self.named(each) if isinstance(each, str) else each for name, each in value.items()}
        return value

    def name_in(self, error: Error) -> None:
        error.args = tuple(self.told(each) for each in error.args)
        error.where, error.message, error.hint = self.named(error.where), self.named(error.message), self.named(error.hint)
        if isinstance(error, DoesNotFit):
            error.proof = self.named(error.proof)


@contextlib.contextmanager
def with_files(keys: Mapping[str, Any], *, keys_are_all: bool = True) -> Iterator[Files]:
    """The files are gone afterwards. `keys_are_all`: there is no file of more keys."""
    given = dict(keys)
    known = keys if keys_are_all else None
    held = [key for key in FILE_KEYS if given.get(key) is not None and not _is_file(given[key])]
    for key in FILE_KEYS:
        _refuse_commas(key, given.get(key))
    for key in held:
        if (lying := _arrow.files_of(given[key])) is not None:
            given[key] = lying
    written = [key for key in held if given[key] is keys[key]]
    with contextlib.ExitStack() as kept:
        paths: dict[str, str] = {}
        folder = kept.enter_context(tempfile.TemporaryDirectory(prefix=_FOLDER_PREFIX)) if written else ""
        for key in written:
            is_arrow = _arrow.is_columns(given[key])
            paths[key] = os.path.join(folder, f"{key}.arrow" if is_arrow else f"{key}.jsonl")
            if is_arrow:
                _write_columns(key, given[key], paths[key], known)
            else:
                with open(paths[key], "w", encoding="utf-8") as file:
                    _write(key, given[key], file, known)
            given[key] = paths[key]
        files = Files(given, paths)
        try:
            yield files
        except Error as error:
            files.name_in(error)
            raise
