# SPDX-License-Identifier: Apache-2.0
"""Pictures with matplotlib, which is not needed for anything else. Every function returns the axes it drew on."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_MIB = 1 << 20


def axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("snug's pictures need matplotlib: pip install matplotlib", name="matplotlib") from error
    return pyplot.subplots()[1]


def close(ax: Any) -> None:
    """What was drawn is let go."""
    from matplotlib import pyplot

    pyplot.close(ax.figure)


def prices(plan: Mapping[str, Any], ax: Any = None) -> Any:
    ax = axes(ax)
    rows = sorted(plan["prices"], key=lambda row: row["budget_bytes"])
    ax.step([row["budget_bytes"] / _MIB for row in rows], [row["step_seconds"] for row in rows], where="post", marker="o")
    ax.axvline(plan["budget_bytes"] / _MIB, linestyle="--", label="budget")
    ax.set(xlabel="budget (MiB)", ylabel="update (s)", title=plan["model"])
    ax.legend()
    return ax


def memory(problem: Mapping[str, Any], schedule: Sequence[str], report: Mapping[str, Any], ax: Any = None) -> Any:
    if not report["valid"]:
        raise ValueError("the schedule is not valid: " + report["violations"][0])
    ax = axes(ax)
    costs = {op["id"]: op["cost"] for op in problem["ops"]}
    ends = [0.0]
    for name in schedule:
        ends.append(ends[-1] + costs[name])
    ax.stairs(report["step_bytes"], ends, fill=True, alpha=0.4)
    ax.axhline(report["peak_bytes"], linestyle="--", label=f"peak {report['peak_bytes']} bytes")
    ax.set(xlabel="cost", ylabel="bytes in memory")
    ax.legend()
    return ax


def curve(found: Mapping[str, Any], ax: Any = None) -> Any:
    ax = axes(ax)
    points = found["points"]
    peaks = [point["peak_bytes"] for point in points]
    bounds = [point["lower_bound_cost"] / point["base_cost"] - 1 if point["base_cost"] > 0 else 0 for point in points]
    ax.step(peaks, [point["overhead"] for point in points], where="post", marker="o", label="found")
    ax.step(peaks, bounds, where="post", linestyle="--", label="bound")
    ax.set(xlabel="budget (bytes)", ylabel="cost above one run of every op (share)")
    ax.legend()
    return ax


def placement(columns: Sequence[Sequence[int]], offsets: Any, ax: Any = None) -> Any:
    """`columns`: lower, upper and size."""
    ax = axes(ax)
    from matplotlib.collections import PolyCollection

    boxes = [
        [(lower, offset), (upper, offset), (upper, offset + size), (lower, offset + size)]
        for lower, upper, size, offset in zip(*columns, offsets, strict=True)
    ]
    ax.add_collection(PolyCollection(boxes, edgecolors="black", linewidths=0.3, alpha=0.6))
    ax.autoscale_view()
    ax.set(xlabel="time", ylabel="offset")
    return ax
