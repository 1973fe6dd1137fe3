# SPDX-License-Identifier: Apache-2.0
"""Rows into a session and outputs out of it: arrays where they are, or a source that writes rows where they are asked for."""
from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from . import _callbacks
from ._arrays import array_at, copy_of, described, elements_of, shape_of
from ._config import json_of
from ._errors import Error
from ._native import Data, Fill, Handle, Sink

Lengths = int | Mapping[str, int]


class RowSlot(NamedTuple):
    """A place to fill: `values` (rows, *row_shape), numpy's array in the session's own memory."""

    input: str
    values: Any
    first_row: int
    length: str | None
    """The name of the length that is the first axis of a row; None where it is none."""
    padding: int
    """What shorter rows are filled up with."""


class RowSource:
    """The rows of one batch, wherever they come from. Derive from it: `fill` is called for every input of every micro-batch, in
    the thread that called the session."""

    @property
    def rows(self) -> int:
        raise NotImplementedError("a row source says how many rows it has: rows")

    @property
    def length(self) -> Lengths | None:
        """The lengths of the longest row; None where rows have none."""
        return None

    @property
    def columns(self) -> Sequence[str] | None:
        """Every input that it has values for; None: all that it is asked for."""
        return None

    @property
    def total_weights(self) -> Mapping[str, float]:
        """What all rows weigh together in a mean that is weighed by an input; those that are not here are read ahead."""
        return {}

    def fill(self, slot: RowSlot) -> None:
        """Writes all of slot.values. May be called more than once for the same rows."""
        raise NotImplementedError("a row source writes where it is asked to: fill")

    def fill_all(self, slots: Sequence[RowSlot]) -> None:
        """The inputs of a micro-batch, all of the same rows."""
        for slot in slots:
            self.fill(slot)


def data_of(rows: Any, length: Lengths | None, options: dict[str, str], handle: Handle) -> tuple[Data, Any]:
    """As C takes them, and what has to live as long; adds to the options."""
    data = Data()
    if isinstance(rows, Mapping):
        found = {name: elements_of(name, value) for name, value in rows.items()}
        first = next(iter(found.values()), None)
        if first is None or not first.shape or first.shape[0] == 0:
            raise Error("bad_data", "rows", "there are none", "give {input: array}, whose first axis is that of the rows")
        data.rows = first.shape[0]
        data.arrays, kept = described(found)
        data.array_count = len(found)
    elif isinstance(rows, RowSource):
        if length is not None:
            raise Error("bad_data", "length", "a row source says how long its rows are", "give it the property length")
        kept = _take_source(rows, data, options, handle)
        length = rows.length
    else:
        raise TypeError(f"rows are {{input: array}} or a snug.RowSource, not a {type(rows).__name__}")
    if length is not None:
        options[".length"] = json_of("length", length)
    return data, kept


def _first_row(is_found: Any) -> int:
    """The first in which an element is."""
    return int(is_found.reshape(len(is_found), -1).any(axis=1).argmax())


def not_finite_in(rows: Any) -> str:
    """The first input of arrays with an element that is not finite, and its row; empty where there is none."""
    if not isinstance(rows, Mapping):
        return ""
    import numpy

    for name, value in rows.items():
        values = numpy.asarray(elements_of(name, value).view)
        bad = ~numpy.isfinite(values)
        if bad.any():
            row = _first_row(bad)
            return f"'{name}' has {values[row][bad[row]].flat[0]} in row {row} (from 0)"
    return ""


def _take_source(rows: RowSource, data: Data, options: dict[str, str], handle: Handle) -> Any:
    data.rows = _count_of(rows.rows)
    named = dict.fromkeys(rows.columns or ())
    data.arrays, kept = described({name: _NO_ELEMENTS for name in named})
    data.array_count = len(named)
    data.fill = Fill(lambda _context, slots, count: _filled(rows, slots, count, handle))
    weights = dict(rows.total_weights)
    if weights:
        options[".total_weights"] = json_of("total_weights", weights)
    return kept


def _count_of(rows: Any) -> int:
    try:
        count = operator.index(rows)
    except TypeError:
        raise TypeError(f"rows of a row source is a whole number, not a {type(rows).__name__}") from None
    if not 0 < count < 1 << 63:
        raise Error("bad_data", "rows", f"a row source has {count} rows", "give it a number from 1 to 2^63 - 1")
    return count


def sink_of(sink: Callable[[int, dict[str, Any]], Any] | None) -> Any:
    """Without one Python is heard of all the same, so that Ctrl-C ends a long evaluation."""
    if sink is None:
        return Sink(_heard)
    return Sink(lambda _context, first_row, arrays, count: _sunk(sink, first_row, arrays, count))


# What stands in a slot before it is written, so that what was there before is never trained on: a NaN of no calculation, and a
# number near the end of i32. Truth values have none such, and are False.
_UNWRITTEN = 0x7FE5A5A5


def _mark_unwritten(slot: RowSlot) -> None:
    if slot.values.dtype.kind == "b":
        slot.values.fill(False)
    else:
        slot.values.view("i4").fill(_UNWRITTEN)


def _require_written(slot: RowSlot) -> None:
    if slot.values.dtype.kind == "b":
        return
    unwritten = slot.values.view("i4") == _UNWRITTEN
    if unwritten.any():
        row = slot.first_row + _first_row(unwritten)
        raise Error("bad_data", slot.input, f"row {row} (from 0) was not written, or not all of it", "write all of slot.values in fill: slot.values[...] = rows")


class _NoElements(NamedTuple):
    dtype: str = "f32"
    shape: tuple[int, ...] = ()
    address: int = 0


_NO_ELEMENTS: Any = _NoElements()


def _heard(*_given: Any) -> int:
    try:
        _callbacks.raise_held()
        return 0
    except BaseException as error:  # noqa: BLE001: nothing may leave through C
        return _callbacks.failed(error)


def _sunk(sink: Callable[[int, dict[str, Any]], Any], first_row: int, arrays: Any, count: int) -> int:
    try:
        with _callbacks.interruptible:
            sink(first_row, {arrays[i].name.decode(): copy_of(arrays[i]) for i in range(count)})
        return 0
    except BaseException as error:  # noqa: BLE001: nothing may leave through C
        return _callbacks.failed(error)


def _filled(rows: RowSource, slots: Any, count: int, handle: Handle) -> int:
    try:
        given = [
            RowSlot(slot.array.name.decode(), array_at(slot.array.data, slot.array.dtype.decode(), shape_of(slot.array), handle, is_written=True),
                    slot.first_row, None if slot.length is None else slot.length.decode(), slot.padding)
            for slot in (slots[i] for i in range(count))]
        for slot in given:
            _mark_unwritten(slot)
        with _callbacks.interruptible:
            rows.fill_all(given)
        for slot in given:
            _require_written(slot)
        return 0
    except BaseException as error:  # noqa: BLE001: nothing may leave through C
        return _callbacks.failed(error)
