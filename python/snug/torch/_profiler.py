# SPDX-License-Identifier: Apache-2.0
"""What is allocated on the CPU while something runs: by PyTorch's profiler, of which there is one."""
from __future__ import annotations

import contextlib
import itertools
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .._errors import Error

SECONDS_FOR_PROFILER = 60
_GONE = "snug.torch: bytes are gone "  # the name of an event, with their number
_profiler = threading.RLock()  # PyTorch's: with two threads in it, some versions end the process


@contextlib.contextmanager
def watched_allocations() -> Iterator[list[int]]:
    """What is allocated (above 0) and freed (below) on the CPU, in order, once it is over. Of what was there when it began only that is
    seen to go for which `say_gone` is called. PyTorch has one profiler, and another that runs ends with this one. Threads take turns.

    Raises Error where another one has ended it, and where another thread does not let go of it.
    """
    if not _profiler.acquire(timeout=SECONDS_FOR_PROFILER):
        raise Error("bad_config", "measure", f"has waited {SECONDS_FOR_PROFILER} s for PyTorch's profiler, of which there is one: another thread measures", "measure behind the first step, in which ops are measured, and one thing at a time")
    if torch.autograd._profiler_enabled():
        warnings.warn("snug.torch: ops are measured with PyTorch's profiler, and the one that runs ends here: begin it behind the first step", stacklevel=2)
    level = os.environ.get("KINETO_LOG_LEVEL")
    os.environ["KINETO_LOG_LEVEL"] = "99"  # a machine without a GPU is told about it otherwise
    events: list[int] = []
    try:
        profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True)
        profile.__enter__()
        try:
            yield events
            if not torch.autograd._profiler_enabled():
                raise Error("bad_config", "measure", "has lost PyTorch's profiler, of which there is one, to another measurement within it", "measure behind the first step, in which ops are measured, and one thing at a time")
        finally:
            if torch.autograd._profiler_enabled():  # PyTorch 2.11 cannot end it a second time
                profile.__exit__(None, None, None)
    finally:
        os.environ.pop("KINETO_LOG_LEVEL")
        if level is not None:
            os.environ["KINETO_LOG_LEVEL"] = level
        _profiler.release()
    events += _events(profile.profiler.kineto_results)


def say_gone(count: int) -> None:
    """That so many bytes are, which were there when watching began."""
    with torch._C._profiler._RecordFunctionFast(f"{_GONE}{count}"):
        pass


def allocated_on_cpu(run: Callable[[], Any]) -> tuple[int, int, Any]:
    """The largest sum of what a call allocates on the CPU, what of it is there when it returns, and what it returns."""
    with watched_allocations() as events:
        result = run()
    return peak_of(events), sum(events), result


def peak_of(events: list[int]) -> int:
    return max(itertools.accumulate(events, initial=0))


def _events(results: Any) -> list[int]:
    """The profiler also sees go, by chance, what was made while it ran another time, or lies where that lay: a collection of garbage is no saving of what runs."""
    nodes, found = list(results.experimental_event_tree()), []
    for node in nodes:
        nodes += node.children
        if node.name.startswith(_GONE):
            found.append((node.start_time_ns, 0, -int(node.name.removeprefix(_GONE))))
        elif node.tag == torch._C._profiler._EventType.Allocation and node.typed[1].device.type == "cpu":
            found.append((node.start_time_ns, node.typed[1].ptr, node.typed[1].alloc_size))
    events, there = [], set()
    for _, place, count in sorted(found, key=lambda each: each[0]):
        if count > 0:
            there.add(place)
        elif place in there:
            there.remove(place)
        elif place:
            continue
        events.append(count)
    return events
