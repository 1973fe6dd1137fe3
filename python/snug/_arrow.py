# SPDX-License-Identifier: Apache-2.0
"""Columns in memory as Arrow's files, of which the library reads those that it needs: PyArrow's tables, Hugging Face's datasets.
A dataset that is what lies on the disk is read there. Everything else is written, batch by batch, the wanted columns only."""
from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ._columns import columns_to_write, refuse_twice

# What is held at a time of what is written.
_BATCH_ROWS = 1000
_BATCH_BYTES = 16 << 20
_SAID = b"huggingface"


def is_columns(value: Any) -> bool:
    return _is_dataset(value) or _is_table(value)


def _is_table(value: Any) -> bool:
    return hasattr(value, "to_batches") and hasattr(value, "schema") and hasattr(value, "column_names")


def _is_dataset(value: Any) -> bool:
    """Of Hugging Face, with its rows at hand and as they lie in its table: a transform of the user's makes others."""
    if not (hasattr(value, "cache_files") and hasattr(value, "format") and hasattr(value, "select_columns") and _is_table(getattr(value, "data", None))):
        return False
    return value.format["type"] != "custom"


def files_of(value: Any) -> list[str] | None:
    """The files that hold these rows as they are, in this order, and nothing else; None where there are none."""
    if not _is_dataset(value) or getattr(value, "_indices", value) is not None or set(value.format["columns"]) != set(value.column_names):
        return None
    files = []
    for pieces in getattr(value.data, "blocks", [[value.data]]):  # below one another; within these beside one another
        # What was done to a piece since it was opened; what is said of it beside its columns is nothing to us.
        changes = {change[0] for change in getattr(pieces[0], "replays", ())}
        file = getattr(pieces[0], "path", None)
        if len(pieces) > 1 or file is None or changes - {"replace_schema_metadata"}:
            return None
        files.append(os.fspath(file))
    is_plain = all(os.path.isfile(file) and file.endswith(".arrow") for file in files) and len(set(files)) == len(files)
    if not files or not is_plain or (len(files) > 1 and any(set(file) & set(",*?[") or file != file.strip() for file in files)):
        return None
    # What the file says of its columns (which classes their numbers are) may have changed since.
    return files if all(_features_in(file, value) == value.features for file in files) else None


def _features_in(file: str, like: Any) -> Any:
    import pyarrow

    with pyarrow.memory_map(file) as source:
        return type(like.features).from_arrow_schema(pyarrow.ipc.open_stream(source).schema)


def _said(value: Any) -> dict[bytes, bytes] | None:
    """What Hugging Face says of the columns."""
    schema = value.features.arrow_schema if _is_dataset(value) else value.schema
    said = (schema.metadata or {}).get(_SAID)
    return None if said is None else {_SAID: said}


def write(key: str, value: Any, path: str, keys: Mapping[str, Any] | None) -> int:
    """Writes the columns that a run of these keys reads, and says how many rows there are."""
    import pyarrow

    names = value.column_names if not _is_dataset(value) else value.format["columns"]
    kept = list(columns_to_write(names, keys))
    refuse_twice(key, kept)
    said = _said(value)
    count = 0
    writer = None
    with open(path, "wb") as file:
        for batch in _batches(value, kept):
            plain = pyarrow.table([_plain(column) for column in batch.columns], names=list(batch.column_names), metadata=said)
            if writer is None:
                writer = pyarrow.ipc.new_stream(file, plain.schema)
            writer.write_table(plain)
            count += plain.num_rows
        if writer is not None:
            writer.close()
    return count


def _batches(value: Any, kept: list[str]) -> Iterator[Any]:
    if not _is_dataset(value):
        table = value.select(kept)
        rows = _rows_at_once(table.nbytes, table.num_rows)
        yield from _tables(table, rows)
        return
    chosen = value.select_columns(kept).with_format("arrow")
    yield from chosen.iter(batch_size=_rows_at_once(chosen.data.nbytes, chosen.data.num_rows))


def _rows_at_once(total_bytes: int, rows: int) -> int:
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES * rows // max(1, total_bytes)))


def _tables(table: Any, rows: int) -> Iterable[Any]:
    return (table.slice(first, rows) for first in range(0, table.num_rows, rows))


def _plain(column: Any) -> Any:
    """As the library reads it: values in place of their numbers in a dictionary, one kind of text, numbers of 32 bits or more."""
    import pyarrow
    from pyarrow import types

    kind = column.type
    if isinstance(kind, pyarrow.BaseExtensionType):
        return _plain(pyarrow.chunked_array([chunk.storage for chunk in column.chunks], kind.storage_type))
    if types.is_dictionary(kind):
        return _plain(column.cast(kind.value_type))
    if types.is_string_view(kind):
        return column.cast(pyarrow.large_string())
    if types.is_float16(kind):
        return column.cast(pyarrow.float32())
    return column
