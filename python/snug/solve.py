# SPDX-License-Identifier: Apache-2.0
"""The planner alone (docs/solve.md): for researchers, and for other frameworks."""
from __future__ import annotations

import array
import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ._config import text_of
from ._errors import Error
from ._library import call, place

Problem = Mapping[str, Any] | str | os.PathLike[str]
Schedule = Mapping[str, Any] | Sequence[str] | str | os.PathLike[str]


def _json(name: str, value: Any) -> str:
    if not isinstance(value, Mapping):
        raise Error("bad_data", name, f"a {type(value).__name__} is no {name}", "give a file or a dict (docs/solve.md)")
    try:
        return json.dumps(value, allow_nan=False, default=lambda each: each.tolist())  # numbers of numpy, too
    except (AttributeError, TypeError, ValueError, RecursionError) as error:
        raise Error("bad_data", name, f"is no JSON: {error}") from None


@contextlib.contextmanager
def _files(**values: Any) -> Iterator[list[str]]:
    with tempfile.TemporaryDirectory(prefix="snug-solve-") as folder:
        paths, own = [], {}
        for name, value in values.items():
            if isinstance(value, (str, os.PathLike)):
                paths.append(os.fspath(value))
                continue
            paths.append(os.path.join(folder, f"{name}.json"))
            own[paths[-1]] = name
            with open(paths[-1], "w", encoding="utf-8") as file:
                file.write(_json(name, value))
        try:
            yield paths
        except Error as error:
            for path, name in own.items():  # who gave a dict knows of no file
                error.args = (str(error).replace(path, name),)
                error.where, error.message = error.where.replace(path, name), error.message.replace(path, name)
            raise


def _options(**values: Any) -> dict[str, str]:
    return {"." + name: text_of(name, value) for name, value in values.items() if value is not None}


def remat(problem: Problem, *, memory: int | float | str, order: str = "free", effort: str = "default", time_limit: float | None = None) -> dict[str, Any]:
    """The cheapest schedule found within `memory`: bytes, "1.5GiB", or a fraction of the peak of keeping all (0.6).

    `problem`: a file, or its contents. Raises DoesNotFit where nothing fits, with `report`, that of the smallest peak found.
    """
    with _files(problem=problem) as (path,):
        return call("solve_remat", _options(problem=path, budget=memory, order=order, effort=effort, time_limit=time_limit))


def curve(problem: Problem, *, order: str = "free", effort: str = "default", time_limit: float | None = None) -> dict[str, Any]:
    """The whole trade-off of bytes and cost, in one search."""
    with _files(problem=problem) as (path,):
        return call("solve_curve", _options(problem=path, order=order, effort=effort, time_limit=time_limit))


def check(problem: Problem, schedule: Schedule) -> dict[str, Any]:
    """Replays a schedule (a file, a report of remat, or ids of ops in order): what is wrong with it, its peak, its cost, and
    the bytes in memory at every step."""
    if hasattr(schedule, "tolist"):  # an array of numpy
        schedule = schedule.tolist()
    if isinstance(schedule, Sequence) and not isinstance(schedule, (str, bytes)):
        schedule = {"schedule": list(schedule)}
    with _files(problem=problem, schedule=schedule) as (path, of_schedule):
        return call("solve_check", _options(problem=path, schedule=of_schedule))


def _contents(given: Any) -> Any:
    """Of a file, or as it is."""
    if not isinstance(given, (str, os.PathLike)):
        return given
    with open(given, encoding="utf-8") as file:
        return json.load(file)


def _ids(schedule: Schedule) -> list[str]:
    contents = _contents(schedule)
    return list(contents["schedule"] if isinstance(contents, Mapping) else contents)


class _Numbers:
    """A column of whole numbers as int64, one after the other. Without a copy where it is that already."""

    def __init__(self, name: str, value: Any) -> None:
        if hasattr(value, "to_numpy"):  # a column of a frame
            value = value.to_numpy()
        self._kind: Any = array.array
        if hasattr(value, "__array__"):
            self._take_numpy(name, value)
        else:
            self._take_plain(name, value)

    def _take_numpy(self, name: str, value: Any) -> None:
        import numpy

        if numpy.ma.is_masked(value):
            raise Error("bad_data", name, "some of its numbers are masked, which nothing here knows", "give only the ranges that there are")
        given = numpy.asarray(value)
        if given.ndim != 1 or given.dtype.kind not in "iu":
            raise Error("bad_data", name, f"is an array of {given.ndim} dimensions of {given.dtype}", "give whole numbers, one a range")
        if given.dtype == numpy.uint64 and given.size and given.max() > numpy.iinfo(numpy.int64).max:
            raise Error("bad_data", name, "a number does not fit a signed 64-bit number")
        self._kind = numpy
        self.held = numpy.ascontiguousarray(given, dtype=numpy.int64)
        self.address: int = self.held.ctypes.data
        self.count = len(self.held)

    def _take_plain(self, name: str, value: Any) -> None:
        if isinstance(value, (str, bytes, bytearray, Mapping)):
            raise Error("bad_data", name, f"a {type(value).__name__} has no whole numbers", "give a list or an array of them")
        self._kind = type(value) if isinstance(value, array.array) else list
        try:
            self.held = value if isinstance(value, array.array) and value.typecode == "q" else array.array("q", value)
        except (TypeError, ValueError, OverflowError) as error:
            raise Error("bad_data", name, f"are no whole numbers of 64 bits: {error}", "give a list or an array of them") from None
        self.address, self.count = self.held.buffer_info()

    def room(self) -> tuple[Any, int]:
        """As many numbers of the same kind, and where they lie."""
        if self._kind is array.array or self._kind is list:
            numbers = array.array("q", bytes(8 * self.count))
            return numbers, numbers.buffer_info()[0]
        empty = self._kind.zeros(self.count, dtype=self._kind.int64)
        return empty, empty.ctypes.data

    def as_given(self, numbers: Any) -> Any:
        return numbers.tolist() if self._kind is list else numbers


def _column(ranges: Any, name: str) -> Any:
    try:
        return ranges[name]
    except Exception:  # whatever a frame says of a column that it does not have
        raise Error("bad_data", "ranges", f"have no column '{name}'", "give a dict with lower, upper and size") from None


def placement(ranges: Mapping[str, Any] | str | os.PathLike[str], *, capacity: int | str | None = None, max_nodes: int | None = None) -> dict[str, Any]:
    """Offsets for ranges that live from `lower` to `upper` (not included) with `size` bytes, none over another that lives
    with it; the lowest height found, or any within `capacity`.

    `ranges`: a CSV file, or a dict (a frame) with the columns `lower`, `upper` and `size`: arrays of numpy, array.array,
    lists. The result has `load`, `height`, `gap`, `seconds` and `offsets`, int64 in the order given and of the kind of
    `lower`. Raises DoesNotFit where the capacity does not do.
    """
    options = _options(capacity=capacity, max_nodes=max_nodes)
    if isinstance(ranges, (str, os.PathLike)):
        answer = call("solve_placement", {**options, **_options(csv=ranges)})
        return {**answer["json"], "offsets": answer["offsets"]}
    lower, upper, size = (_Numbers(name, _column(ranges, name)) for name in ("lower", "upper", "size"))
    if not lower.count == upper.count == size.count:
        raise Error("bad_data", "ranges", f"lower, upper and size have {lower.count}, {upper.count} and {size.count} numbers")
    offsets, address = lower.room()
    report: dict[str, Any] = place(lower.address, upper.address, size.address, address, lower.count, options)
    return {**report, "offsets": lower.as_given(offsets)}


def plot_memory(problem: Problem, schedule: Schedule, ax: Any = None) -> Any:
    """Bytes in memory over the cost of a schedule, on these or new axes of matplotlib, which are returned."""
    from . import _plot

    report = check(problem, schedule)  # which refuses what is no problem, and no schedule
    return _plot.memory(_contents(problem), _ids(schedule), report, ax)


def plot_curve(found: Mapping[str, Any], ax: Any = None) -> Any:
    """What `curve` found: overhead by bytes, with the bound."""
    from . import _plot

    if not isinstance(found, Mapping) or "points" not in found:
        raise Error("bad_data", "found", "has no points", "give what snug.solve.curve returns")
    return _plot.curve(found, ax)


def plot_placement(ranges: Mapping[str, Any], offsets: Any, ax: Any = None) -> Any:
    """The map of a placement: each range as a rectangle of its time and its bytes."""
    from . import _plot

    columns = [list(_column(ranges, name)) for name in ("lower", "upper", "size")]
    if not hasattr(offsets, "__len__") or isinstance(offsets, (str, bytes, Mapping)) or {len(each) for each in columns} != {len(offsets)}:
        raise Error("bad_data", "offsets", f"are not one for each of {len(columns[0])} ranges", 'give the "offsets" of what snug.solve.placement returns')
    return _plot.placement(columns, offsets, ax)
