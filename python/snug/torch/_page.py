# SPDX-License-Identifier: Apache-2.0
"""A plan as one page with pictures, drawn by matplotlib into the page: no script, no font, no network."""
from __future__ import annotations

import html
import io
from typing import TYPE_CHECKING, Any

from .. import _plot, solve
from .._errors import Error

if TYPE_CHECKING:
    from ._planning import Plan
    from ._region import RegionPlan

_MIB = 1 << 20
_STYLE = "body{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em}svg{width:100%;height:auto}pre{font-size:13px;overflow-x:auto}"


def page(plan: Plan) -> str:
    parts = [f"<pre>{html.escape(str(plan))}</pre>"]
    if plan.region is not None:
        draw, text = (_buffers, "Bytes on the device line by line of Inductor's programs") if plan.region.levels else (_memory, "Bytes on the device while each op runs, by predicted time")
        parts += ["<h2>Memory over the step</h2>", f"<p>{text}: the forward part, then the backward part.</p>", _picture(draw, plan.region)]
    parts += ["<h2>Price list</h2>", "<p>Predicted time of forward and backward part for every budget.</p>", _picture(_prices, plan)]
    return f'<!doctype html><html lang=en><meta charset=utf-8><title>Plan</title><style>{_STYLE}</style><h1>Plan on {html.escape(plan.device)}</h1>{"".join(parts)}</html>\n'


def _picture(draw: Any, of: Any) -> str:
    axes = _plot.axes(None)
    try:
        draw(of, axes)
        axes.figure.set_size_inches(10, 3.2)
        text = io.StringIO()
        axes.figure.savefig(text, format="svg", bbox_inches="tight", metadata={"Date": None})
    finally:
        _plot.close(axes)
    picture = text.getvalue()
    return picture[picture.index("<svg"):]


def _memory(region: RegionPlan, axes: Any) -> None:
    schedule = region.report["schedule"]
    report = solve.check(region.problem, schedule)
    _plot.memory(region.problem, schedule, report, axes)
    axes.set(xlabel="ms", ylabel="bytes on the device")


def _buffers(region: RegionPlan, axes: Any) -> None:
    levels = [each for part in region.levels for each in part]
    axes.stairs(levels, range(len(levels) + 1), fill=True, alpha=0.4)
    axes.axhline(max(levels), linestyle="--", label=f"peak {max(levels)} bytes")
    axes.set(xlabel="lines that allocate, let go or call", ylabel="bytes on the device")
    axes.legend()


def _prices(plan: Plan, axes: Any) -> None:
    axes.step([row["peak_bytes"] / _MIB for row in plan.price_list], [row["milliseconds"] for row in plan.price_list], where="post", marker="o")
    if plan.region is not None:
        axes.axvline(plan.region.memory / _MIB, linestyle="--", label="memory")
        axes.legend()
    axes.set(xlabel="peak (MiB)", ylabel="ms")


def save(plan: Plan, file: str) -> None:
    text = page(plan)
    try:
        with open(file, "w", encoding="utf-8") as out:
            out.write(text)
    except OSError as error:
        raise Error("io", file, f"cannot be written: {error.strerror}", "give a path in a folder that is there") from error
