# SPDX-License-Identifier: Apache-2.0
"""The layers of a model that may run again: which modules they are, and that all of them run in the steps that are looked at."""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from .._errors import Error


def layers_of(model: torch.nn.Module) -> dict[str, torch.nn.Module]:
    """By name, in order.

    Raises Error where there are no two of one class in a row.
    """
    marked = {name: module for name, module in model.named_modules() if _is_marked(module)}
    # Stages have layers within them: what a stage keeps is what these do.
    marked = {name: module for name, module in marked.items() if sum(map(_is_marked, module.modules())) == 1}
    if len(marked) > 1:
        return marked
    best: dict[str, torch.nn.Module] = {}
    for name, module in model.named_modules():
        if not isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)) or len({type(child) for child in module}) != 1:
            continue
        children = {f"{name}.{i}" if name else str(i): child for i, child in enumerate(module)}
        if len(children) > 1 and _parameters(children) > _parameters(best):
            best = children
    if not best:
        raise Error("unsupported", "model", "has no two layers of one class in a row", "give layers=, a list of modules")
    return best


def _is_marked(module: torch.nn.Module) -> bool:
    return any(kind.__name__ == "GradientCheckpointingLayer" for kind in type(module).__mro__)


def _parameters(modules: dict[str, torch.nn.Module]) -> int:
    return sum(each.numel() for module in modules.values() for each in module.parameters())


def some(names: list[str]) -> str:
    return f"{', '.join(names[:3])}{', ...' if len(names) > 3 else ''}"


@contextmanager
def none_dropped(model: torch.nn.Module) -> Iterator[None]:
    """LayerDrop (Fan et al., 2020) is off meanwhile: a step in which all layers run takes the most.

    transformers has its probability in the model or in the configuration, under a name that ends with `layerdrop`.
    """
    holders = {id(each): each for module in model.modules() for each in (module, getattr(module, "config", None))}
    names = [(each.__dict__, name) for each in holders.values() for name, value in getattr(each, "__dict__", {}).items()
             if name.endswith("layerdrop") and isinstance(value, (int, float))]
    before = [those[name] for those, name in names]
    try:
        for those, name in names:
            those[name] = 0.0
        yield
    finally:
        for (those, name), value in zip(names, before):
            those[name] = value


class Calls:
    """How often each layer runs in a step. Where the next step may have others, what one takes says nothing of it."""

    def __init__(self, layers: dict[str, torch.nn.Module]) -> None:
        self._layers = layers
        self._now: Counter[str] = Counter()
        self._first: Counter[str] | None = None

    @contextmanager
    def counted(self) -> Iterator[None]:
        def counting(name: str) -> Any:
            def count(*_: Any) -> None:
                self._now[name] += 1
            return count

        with ExitStack() as stack:
            for name, layer in self._layers.items():
                stack.callback(layer.register_forward_pre_hook(counting(name)).remove)
            yield

    def end_step(self) -> list[str]:
        """Names of the layers that ran more often or less than in the first step."""
        now, self._now = self._now, Counter()
        self._first = now if self._first is None else self._first
        return [name for name in self._layers if now[name] != self._first[name]]
