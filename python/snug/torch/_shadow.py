# SPDX-License-Identifier: Apache-2.0
"""A copy of an optimizer whose tensors have no memory: it can step before there is a gradient, and the optimizer is as it was. copy.deepcopy makes it, but for tensors, optimizers, and what cannot be copied."""
from __future__ import annotations

import copy
import gc
import sys
from collections import OrderedDict, deque
from collections.abc import Iterable
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

ATOMS = (str, bytes, int, float, complex, type(None), type, ModuleType)
CONTAINERS = (dict, list, tuple, set, frozenset, deque)
#: They are for steps that are taken, so a copy has none.
HOOKS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")


def unwrapped(optimizer: Any) -> Any:
    """The optimizer within accelerate's, which has no tensors of its own, and does not step between micro-batches."""
    accelerate = sys.modules.get("accelerate.optimizer")
    return optimizer.optimizer if accelerate is not None and isinstance(optimizer, accelerate.AcceleratedOptimizer) else optimizer


def reached(root: Any, *, closures: bool = False) -> list[Any]:
    """What an object reaches in attributes and containers, itself among it, each once. Not what tensors reach, nor, without `closures`, functions."""
    found: dict[int, Any] = {}
    waiting = [root]
    while waiting:
        each = waiting.pop()
        if isinstance(each, ATOMS) or id(each) in found:
            continue
        found[id(each)] = each
        if isinstance(each, torch.Tensor):
            continue
        if isinstance(each, FunctionType):
            waiting += each.__closure__ or () if closures else ()  # its globals are a whole module
            continue
        waiting += gc.get_referents(each)
        if hasattr(each, "__dict__"):
            waiting.append(vars(each))
    return list(found.values())


def fakes(things: Iterable[Any]) -> list[torch.Tensor]:
    return [each for each in things if isinstance(each, FakeTensor)]


def shadow_of(optimizer: Any, mode: FakeTensorMode) -> tuple[Any, dict[int, torch.Tensor]]:
    """The copy, and its tensors by the storages of those that they stand for. What shares a storage does so in the copy. Parameters that are trained have gradients in it."""
    memo: dict[int, Any] = {}
    twins: dict[int, torch.Tensor] = {}
    optimizers = []
    for each in reached(optimizer):
        if isinstance(each, torch.Tensor):
            real = getattr(each, "_local_tensor", each)
            memo[id(each)] = twins[real.untyped_storage()._cdata] = _twin(each, real, mode)
        elif each is optimizer or isinstance(each, torch.optim.Optimizer):
            memo[id(each)] = object.__new__(type(each))
            optimizers.append(each)
        elif not _is_copied(each):
            memo[id(each)] = each
    for each in optimizers:  # whose own way of being copied leaves attributes out. A `step` among these is a scheduler's, which steps with the real one
        words = {key: OrderedDict() if key in HOOKS else value for key, value in vars(each).items() if key != "step"}
        vars(memo[id(each)]).update(copy.deepcopy(words, memo))
    return memo[id(optimizer)], twins


def _twin(tensor: torch.Tensor, real: torch.Tensor, mode: FakeTensorMode) -> torch.Tensor:
    """`real`: where its numbers lie, which is a part of a tensor that is sharded."""
    twin = mode.from_tensor(real, static_shapes=True)
    if real is not tensor and isinstance(tensor, torch.nn.Parameter):
        twin = torch.nn.Parameter(twin, requires_grad=tensor.requires_grad)
    if twin.is_leaf and twin.requires_grad and (twin.grad is None or twin.grad.layout != torch.strided):
        twin.grad = torch.empty_like(twin)
    return twin


def _is_copied(each: Any) -> bool:
    """Not locks, streams, process groups and the like, which a copy has in common with what it is made of."""
    return isinstance(each, CONTAINERS) or hasattr(each, "__dict__") or hasattr(each, "__deepcopy__") or hasattr(type(each), "__slots__")


class Kept:
    """The lists and dicts that an optimizer reaches, attributes among them, as they are when this is made."""

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        there = reached(optimizer, closures=True)
        self._fakes = fakes(there)  # of a graph that it reaches, say
        self._contents = [(each, list(each) if isinstance(each, list) else dict(each)) for each in there if isinstance(each, (list, dict))]

    def is_harmed(self) -> bool:
        """Whether a step of the copy has left tensors without memory in it."""
        known = set(map(id, self._fakes))
        return any(id(each) not in known for each in fakes(reached(self._optimizer, closures=True)))

    def restore(self) -> None:
        for each, contents in self._contents:
            each.clear()
            each.extend(contents) if isinstance(each, list) else each.update(contents)  # in place: others have them too


def numbers(root: Any) -> list[tuple[dict[Any, Any], dict[Any, int]]]:
    """The whole numbers in dicts and attributes that it reaches."""
    return [(each, {key: value for key, value in each.items() if type(value) is int}) for each in reached(root) if isinstance(each, dict)]


def set_counters(before: Iterable[tuple[dict[Any, Any], dict[Any, int]]], value: int) -> int:
    """Sets those of the numbers that have grown by one since, and says how many they are."""
    grown = [(words, key) for words, counts in before for key, count in counts.items() if type(words.get(key)) is int and words[key] == count + 1]
    for words, key in grown:
        words[key] = value
    return len(grown)
