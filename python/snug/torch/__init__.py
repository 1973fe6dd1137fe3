# SPDX-License-Identifier: Apache-2.0
"""PyTorch models in the bytes you have (docs/torch.md).

    import snug.torch
    model = torch.compile(model, backend=snug.torch.backend(memory="6GiB", optimizer=optimizer))
"""
from __future__ import annotations

from typing import Any

import torch as _torch

from .._errors import Error as _Error

OLDEST, NEWEST = (2, 11), (2, 15)
if not OLDEST <= tuple(map(int, _torch.__version__.split(".")[:2])) <= NEWEST:
    raise _Error("unsupported", "torch", f"is {_torch.__version__}, and AOTAutograd's graphs were read for 2.11 to 2.15 alone", "pip install torch==2.15.0")

from ._backend import Backend  # noqa: E402
from ._checkpoint import LayerPlan, checkpoint  # noqa: E402
from ._measure import Measured, measure  # noqa: E402
from ._planning import Plan  # noqa: E402
from ._planning import plan as _plan  # noqa: E402
from ._region import RegionPlan  # noqa: E402


def backend(memory: int | str, *graph: Any, optimizer: Any = None, resident_bytes: int | str | None = None, grads: str = "accumulate", count: str = "workspace",
            graphs: str = "one", differentiate: str = "all", effort: str = "default", mode: str = "exact",
            numerics: str = "default") -> Backend:
    """A backend for torch.compile that keeps the whole step within `memory` bytes on the device (a number, or "6GiB").

    `optimizer`: its parameters and states are counted, before they exist. `resident_bytes`: what else lies on the device; 0
    with no optimizer says that there is none. `grads`: "accumulate" (`.grad` may be there when a step begins), or "none"
    (it is not, which is checked). `count`: "workspace" counts what ops allocate within, as probed; "storages" does not.
    `graphs`: "several" divides the memory among the graphs of a step (graph breaks, blocks compiled apart): the first step
    runs with plans that keep least, and then all are known. `differentiate`: "loss" has gradients for results of one number alone,
    so that logits beside a loss need no tangent of their size. `effort`: of the planner, "fast", "default" or "best".
    `mode`: "exact" runs PyTorch's kernels op by op; "inductor" has Inductor compile both parts, and plans with its buffers.
    `numerics`: "strict" has kernels of Inductor's round 16-bit numbers as the ops one by one do, wherever what they lie in is saved or not.

    The backend's `plans` has a RegionPlan for each graph and shape. Raises snug.DoesNotFit at the first call of the model
    where no plan fits, snug.Error where the graph has something that is not understood.
    """
    if graph:  # torch.compile calls what it is given with a graph and its inputs
        raise _Error("bad_config", "backend", "is given to torch.compile without its memory", "backend=snug.torch.backend(memory=..., optimizer=optimizer)")
    return Backend(memory, optimizer=optimizer, resident_bytes=resident_bytes, grads=grads, count=count, graphs=graphs, differentiate=differentiate, effort=effort,
                   mode=mode, numerics=numerics)


def plan(model: Any, batch: Any, *, memory: int | str | None = None, loss: Any = None, optimizer: Any = None, resident_bytes: int | str | None = None,
         grads: str = "accumulate", count: str = "workspace", differentiate: str = "all", effort: str = "default", mode: str = "exact",
         numerics: str = "default") -> Plan:
    """What the step of a model costs at every budget, before anything runs: `print(plan)` is the price list.

    `batch`: a dict, a tuple or one argument of the model. `loss(result)`: where the model returns no loss. Other arguments are
    those of `backend`. With `memory` also the plan within it; raises snug.DoesNotFit where there is none, with the proof,
    `smallest_bytes`, and `ways` (snug.Way: micro-batches, autocast, frozen embeddings, 8-bit states), each planned.
    In mode "inductor" every line of the price list is a partition that Inductor lowered, up to the program that calls the kernels.
    """
    return _plan(model, batch, memory=memory, loss=loss, optimizer=optimizer, resident_bytes=resident_bytes, grads=grads, count=count, graphs="one", differentiate=differentiate,
                   effort=effort, mode=mode, numerics=numerics)


__all__ = ["Backend", "LayerPlan", "Measured", "Plan", "RegionPlan", "backend", "checkpoint", "measure", "plan"]


def __getattr__(name: str) -> Any:
    if name == "BudgetCallback":  # transformers is imported where it is asked for
        from ._trainer import BudgetCallback

        return BudgetCallback
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
