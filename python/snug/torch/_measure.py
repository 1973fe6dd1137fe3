# SPDX-License-Identifier: Apache-2.0
"""The true peak of what runs."""
from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ._prices import wait
from ._profiler import peak_of, say_gone, watched_allocations
from ._resident import storages


class Measured:
    """`peak_bytes` on the device, `start_bytes` of it when it began. CUDA: bytes requested of the allocator. CPU: storages of
    the tensors that Python had at the start, and what was allocated since."""

    peak_bytes = 0
    start_bytes = 0


class growth:  # noqa: N801: a context manager
    """`with growth(device) as grown: ...`, then `grown.peak_bytes` above what was there when it began. On the CPU, of that only
    `leaving`'s storages are seen to go."""

    def __init__(self, device: torch.device, leaving: Iterable[torch.Tensor] = ()) -> None:
        self.device = device
        self._leaving = leaving

    def __enter__(self) -> Measured:
        self._result = Measured()
        wait(self.device)
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
            self._start = torch.cuda.memory_stats(self.device)["requested_bytes.all.current"]
        else:
            self._watch = watched_allocations()
            self._events = self._watch.__enter__()
            # The profiler does not see them go: each says so itself.
            owners = {each._cdata: each for each in (getattr(each, "_local_tensor", each).untyped_storage() for each in self._leaving)}
            self._ends = [weakref.finalize(owner, say_gone, owner.nbytes()) for owner in owners.values()]
        self._leaving = ()
        return self._result

    def __exit__(self, *error: Any) -> None:
        wait(self.device)
        if self.device.type == "cuda":
            self._result.peak_bytes = torch.cuda.memory_stats(self.device)["requested_bytes.all.peak"] - self._start
            return
        for each in self._ends:
            each.detach()
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
            there: list[torch.Tensor] = []
            self._result.start_bytes = torch.cuda.memory_stats(self.device)["requested_bytes.all.current"]
        else:
            gc.collect()
            there = [each for each in _tensors() if storages([each], self.device)]
            self._result.start_bytes = sum(storages(there, self.device).values())
        self._growth = growth(self.device, there)
        self._grown = self._growth.__enter__()
        return self._result

    def __exit__(self, *error: Any) -> None:
        self._growth.__exit__(*error)
        self._result.peak_bytes = self._result.start_bytes + self._grown.peak_bytes


def _tensors() -> list[torch.Tensor]:
    """All that Python has, but for tensors without memory, and their gradients, which nobody may have looked at yet."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of objects that are looked at
        found = [each for each in gc.get_objects() if isinstance(each, torch.Tensor) and not isinstance(each, FakeTensor)]
        return found + [each.grad for each in found if each.is_leaf and each.requires_grad and each.grad is not None]
