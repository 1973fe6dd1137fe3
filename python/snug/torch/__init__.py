# SPDX-License-Identifier: Apache-2.0
"""PyTorch models in the bytes you have (docs/torch.md).

    import snug.torch
    model = torch.compile(model, backend=snug.torch.backend(memory="6GiB", optimizer=optimizer))
"""
from __future__ import annotations

from typing import Any

from ._backend import Backend
from ._report import RegionPlan


def backend(memory: int | str, *, optimizer: Any = None, resident_bytes: int | str | None = None, grads: str = "accumulate", count: str = "workspace",
            effort: str = "default") -> Backend:
    """A backend for torch.compile that keeps the whole step within `memory` bytes on the device (a number, or "6GiB").

    `optimizer`: its parameters and states are counted, before they exist. `resident_bytes`: what else lies on the device; 0
    with no optimizer says that there is none. `grads`: "accumulate" (`.grad` may be there when a step begins), or "none"
    (it is not, which is checked). `count`: "workspace" counts what ops allocate within, as probed; "storages" does not.
    `effort`: of the planner, "fast", "default" or "best".

    The backend's `plans` has a RegionPlan for each graph and shape. Raises snug.DoesNotFit at the first call of the model
    where no plan fits, snug.Error where the graph has something that is not understood.
    """
    return Backend(memory, optimizer=optimizer, resident_bytes=resident_bytes, grads=grads, count=count, effort=effort)


__all__ = ["Backend", "RegionPlan", "backend"]
