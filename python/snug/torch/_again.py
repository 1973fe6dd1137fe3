# SPDX-License-Identifier: Apache-2.0
"""A module whose forward part runs again in the backward part, as it ran first: with its caches and buffers as they were.

What stands for its forward part lies in the module itself, as `forward`: hooks, class and names stay, and FSDP2 may come before or behind.
"""
from __future__ import annotations

import copy
import functools
import operator
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint as run_again


class Again:
    """Stands for a module's forward part: in training it runs again in the backward part.

    The module is the one that it lies in, of a copy the copy; held weakly, so that a module goes with the last one who has it.
    In a file it is the plain forward part, for a reader without this library.
    """

    def __init__(self, module: torch.nn.Module, replaced: Callable[..., Any] | None, written: tuple[str, ...]) -> None:
        self._module = weakref.ref(module)
        #: The `forward` that lay in the module itself; None where its class's did.
        self.replaced = replaced
        #: Names of the buffers that the forward part writes.
        self.written = written
        self.has_run_again = False

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The plain forward part; who asks for a signature looks here."""
        return self._plain(self._module())

    def __call__(self, *args: Any, **words: Any) -> Any:
        module = self._module()
        forward = self._plain(module)
        if not torch.is_grad_enabled() or not module.training:  # type: ignore[union-attr]
            return forward(*args, **words)
        forward = _with_caches_as_before(forward, args, words)
        if not torch.compiler.is_compiling():  # what is compiled writes buffers once
            forward = self._with_buffers_as_before(forward, module)  # type: ignore[arg-type]
        return run_again(forward, *args, use_reentrant=False, **words)

    def _plain(self, module: Any) -> Callable[..., Any]:
        return functools.partial(type(module).forward, module) if self.replaced is None else self.replaced

    def _with_buffers_as_before(self, forward: Callable[..., Any], module: torch.nn.Module) -> Callable[..., Any]:
        """Again on copies of the buffers as they were at first, so that it computes the same, and writes no statistics twice."""
        before: list[torch.Tensor] | None = None

        def run(*args: Any, **words: Any) -> Any:
            nonlocal before
            if before is None:
                before = [_copied(module.get_buffer(name)) for name in self.written]
                return forward(*args, **words)
            self.has_run_again = True
            with _buffers_in_place(module, self.written, [_copied(each) for each in before]):
                return forward(*args, **words)

        return run

    def __deepcopy__(self, memo: dict[int, Any]) -> Again:
        module: Any = self._module()
        return Again(memo.get(id(module), module), copy.deepcopy(self.replaced, memo), self.written)

    def __reduce__(self) -> Any:
        return (getattr, (self._module(), "forward")) if self.replaced is None else (operator.getitem, ([self.replaced], 0))


def _copied(buffer: torch.Tensor) -> torch.Tensor:
    return buffer.detach().clone().requires_grad_(buffer.requires_grad)


@contextmanager
def _buffers_in_place(module: torch.nn.Module, names: tuple[str, ...], buffers: list[torch.Tensor]) -> Iterator[None]:
    places = [(module.get_submodule(name.rpartition(".")[0])._buffers, name.rpartition(".")[2]) for name in names]
    before: list[torch.Tensor | None] = [those[name] for those, name in places]
    try:
        for (those, name), buffer in zip(places, buffers):
            those[name] = buffer
        yield
    finally:
        for (those, name), there in zip(places, before):
            those[name] = there


def forward_in(module: torch.nn.Module) -> Callable[..., Any] | None:
    """The `forward` that lies in the module itself; None where only its class has one."""
    return module.__dict__.get("forward")


def put_forward(module: torch.nn.Module, forward: Callable[..., Any] | None) -> None:
    if forward is not None:
        module.forward = forward
    elif "forward" in module.__dict__:
        del module.forward


def set_checkpointed(module: torch.nn.Module, is_checkpointed: bool, written: tuple[str, ...] = ()) -> None:
    """Its forward part runs again in the backward part, in training only, or no longer does.

    `written`: names of the buffers that it writes.
    """
    forward = forward_in(module)
    if isinstance(forward, Again):
        forward = forward.replaced
    put_forward(module, Again(module, forward, written) if is_checkpointed else forward)


@contextmanager
def in_front(modules: list[torch.nn.Module], make: Callable[[int, Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """`make` gets the place of a module in the list and its forward part, and returns what runs instead."""
    before: list[Callable[..., Any] | None] = []
    try:
        for i, module in enumerate(modules):
            before.append(forward_in(module))
            module.forward = make(i, module.forward)
        yield
    finally:
        for module, forward in reversed(list(zip(modules, before))):  # a module may be there twice
            put_forward(module, forward)


def is_cache(value: Any) -> bool:
    """Of keys and values (transformers'): layers write to what they are given."""
    return any("Cache" in kind.__name__ for kind in type(value).__mro__)


def apart(value: Any) -> Any:
    """A cache that can be written to without the one that was given; with the same tensors."""
    if type(value) in (list, tuple):
        return type(value)(map(apart, value))
    if type(value) is dict:
        return {key: apart(each) for key, each in value.items()}
    if not is_cache(value):
        return value
    other = copy.copy(value)
    vars(other).update({key: apart(each) for key, each in vars(value).items()})
    return other


def in_cache(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from in_cache(each)
    elif isinstance(value, dict) or is_cache(value):
        yield from in_cache(list((value if isinstance(value, dict) else vars(value)).values()))


def _with_caches_as_before(forward: Callable[..., Any], args: tuple[Any, ...], words: dict[str, Any]) -> Callable[..., Any]:
    """What runs once and again: again with the caches as they were at first."""
    places = {i: apart(each) for i, each in enumerate(args) if is_cache(each)}
    names = {name: apart(each) for name, each in words.items() if is_cache(each)}
    if not places and not names:
        return forward
    has_run = False

    def run(*args: Any, **words: Any) -> Any:
        nonlocal has_run
        if has_run:
            args = tuple(apart(places[i]) if i in places else each for i, each in enumerate(args))
            words = {name: apart(names[name]) if name in names else each for name, each in words.items()}
        has_run = True
        return forward(*args, **words)

    return run
