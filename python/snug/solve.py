# SPDX-License-Identifier: Apache-2.0
"""The planner alone (docs/solve.md): for researchers, and for other frameworks."""
from __future__ import annotations

import contextlib
import csv
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ._config import text_of
from ._errors import DoesNotFit
from ._library import call

Problem = Mapping[str, Any] | str | os.PathLike[str]


@contextlib.contextmanager
def _files(**values: Any) -> Iterator[list[str]]:
    with tempfile.TemporaryDirectory(prefix="snug-solve-") as folder:
        paths = []
        for name, value in values.items():
            if isinstance(value, (str, os.PathLike)):
                paths.append(os.fspath(value))
                continue
            paths.append(os.path.join(folder, f"{name}.json"))
            with open(paths[-1], "w", encoding="utf-8") as file:
                json.dump(value, file)
        yield paths


def _options(**values: Any) -> dict[str, str]:
    return {"." + name: text_of(name, value) for name, value in values.items() if value is not None}


def remat(problem: Problem, *, memory: int | float | str, order: str = "free", effort: str = "default", time_limit: float | None = None) -> dict[str, Any]:
    """The cheapest schedule found within `memory`: bytes, "1.5GiB", or a fraction of the peak of keeping all (0.6).

    `problem`: a file, or its contents. Raises DoesNotFit where nothing fits, with `report`, that of the smallest peak found.
    """
    with _files(problem=problem) as (path,):
        answer = call("solve_remat", _options(problem=path, budget=memory, order=order, effort=effort, time_limit=time_limit))
    report = answer["json"]
    if not report["fits"]:
        error = DoesNotFit("out_of_budget", "memory", answer["refusal"])
        error.report = report  # type: ignore[attr-defined]
        raise error
    return report


def curve(problem: Problem, *, order: str = "free", effort: str = "default", time_limit: float | None = None) -> dict[str, Any]:
    """The whole trade-off of bytes and cost, in one search."""
    with _files(problem=problem) as (path,):
        return call("solve_curve", _options(problem=path, order=order, effort=effort, time_limit=time_limit))


def check(problem: Problem, schedule: Mapping[str, Any] | Sequence[str] | str | os.PathLike[str]) -> dict[str, Any]:
    """Replays a schedule (a file, a report of remat, or ids of ops in order): what is wrong with it, its peak and its cost."""
    if isinstance(schedule, Sequence) and not isinstance(schedule, str):
        schedule = {"schedule": list(schedule)}
    with _files(problem=problem, schedule=schedule) as (path, of_schedule):
        return call("solve_check", _options(problem=path, schedule=of_schedule))


def placement(lower: Iterable[int], upper: Iterable[int], size: Iterable[int], *, capacity: int | str | None = None, max_nodes: int | None = None) -> dict[str, Any]:
    """Offsets for ranges that live from `lower` to `upper` (not included) with so many bytes, none over another that lives
    with it; the lowest height found, or any within `capacity`. The result has `offsets` in the order given.

    Raises DoesNotFit where the capacity does not do.
    """
    with tempfile.TemporaryDirectory(prefix="snug-solve-") as folder:
        path = os.path.join(folder, "ranges.csv")
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["id", "lower", "upper", "size"])
            writer.writerows((i, int(a), int(b), int(c)) for i, (a, b, c) in enumerate(zip(lower, upper, size, strict=True)))
        answer = call("solve_placement", _options(csv=path, capacity=capacity, max_nodes=max_nodes))
    return {**answer["json"], "offsets": answer["offsets"]}
