# SPDX-License-Identifier: Apache-2.0
"""The true peak of what runs."""
from __future__ import annotations

import gc
import warnings
import weakref
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ._prices import peak_of, wait, watched_allocations
from ._resident import storages

_GONE = "snug.torch: bytes are gone "  # the name of an event, with their number


class Measured:
    """`peak_bytes` on the device, `start_bytes` of it when it began. CUDA: bytes requested of the allocator. CPU: storages of
    the tensors that Python had at the start, and what was allocated since."""

    peak_bytes = 0
    start_bytes = 0


class growth:  # noqa: N801: a context manager
    """`with growth(device) as grown: ...`, then `grown.peak_bytes` above what was there when it began. On the CPU, of what goes
    meanwhile only that is seen to go which was made under another one."""

    def __init__(self, device: torch.device, *read: Any) -> None:
        self.device = device
        self._read = read  # as watched_allocations takes it

    def __enter__(self) -> Measured:
        self._result = Measured()
        wait(self.device)
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
            self._start = torch.cuda.memory_stats(self.device)["requested_bytes.all.current"]
        else:
            self._watch = watched_allocations(*self._read)
            self._events = self._watch.__enter__()
        return self._result

    def __exit__(self, *error: Any) -> None:
        wait(self.device)
        if self.device.type == "cuda":
            self._result.peak_bytes = torch.cuda.memory_stats(self.device)["requested_bytes.all.peak"] - self._start
            return
        self._watch.__exit__(*error)
        self._result.peak_bytes = peak_of(self._events)


class measure:  # noqa: N801: a context manager
    """`with snug.torch.measure() as measured: step()`, then `measured.peak_bytes`."""

    def __init__(self, device: str | torch.device | None = None) -> None:
        self.device = torch.device(device) if device is not None else torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def __enter__(self) -> Measured:
        self._result = Measured()
        wait(self.device)
        if self.device.type == "cuda":
            self._result.start_bytes = torch.cuda.memory_stats(self.device)["requested_bytes.all.current"]
        else:
            gc.collect()
            tensors = _tensors()
            there = storages(tensors, self.device)
            self._result.start_bytes = sum(there.values())
            # The profiler does not see them go: each says so itself.
            owners = {each._cdata: each for each in (getattr(each, "_local_tensor", each).untyped_storage() for each in tensors if storages([each], self.device))}
            self._ends = [weakref.finalize(owner, _say_gone, there[key]) for key, owner in owners.items()]
        self._growth = growth(self.device, _events_with_ends)
        self._grown = self._growth.__enter__()
        return self._result

    _ends: list[Any] = []  # of the storages that were there when it began

    def __exit__(self, *error: Any) -> None:
        for each in self._ends:
            each.detach()
        self._growth.__exit__(*error)
        self._result.peak_bytes = self._result.start_bytes + self._grown.peak_bytes


def _tensors() -> list[torch.Tensor]:
    """All that Python has, but for tensors without memory."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of objects that are looked at
        return [each for each in gc.get_objects() if isinstance(each, torch.Tensor) and not isinstance(each, FakeTensor)]


def _say_gone(count: int) -> None:
    with torch._C._profiler._RecordFunctionFast(f"{_GONE}{count}"):
        pass


def _events_with_ends(results: Any) -> list[int]:
    """What is allocated, and freed again, and what says that it is gone. What is freed and was not seen to be allocated is one of these, or was not counted when it began."""
    nodes, found = list(results.experimental_event_tree()), []
    for node in nodes:
        nodes += node.children
        if node.name.startswith(_GONE):
            found.append((node.start_time_ns, 0, -int(node.name.removeprefix(_GONE))))
        elif node.tag == torch._C._profiler._EventType.Allocation and node.typed[1].device.type == "cpu":
            found.append((node.start_time_ns, node.typed[1].ptr, node.typed[1].alloc_size))
    events, there = [], set()
    for _, place, count in sorted(found):
        if count > 0:
            there.add(place)
        elif place in there:
            there.remove(place)
        elif place:
            continue
        events.append(count)
    return events
