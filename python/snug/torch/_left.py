# SPDX-License-Identifier: Apache-2.0
"""What steps that only measure leave as it was, whatever ends them: gradients, buffers, random numbers, hooks of parameters."""
from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

import torch

from ._resident import storages


@contextmanager
def left_as_it_was(modules: Iterable[torch.nn.Module], tensors: Iterable[torch.Tensor], device: torch.device) -> Iterator[int]:
    """Bytes on the device of the copies that it takes, which no step of training has.

    `tensors`: what gradients may be added to beside the modules' parameters. Hooks of parameters do not run meanwhile: they may
    step an optimizer.
    """
    modules = list(modules)
    parameters = [each for module in modules for each in module.parameters()]
    leaves = list({id(each): each for each in (*parameters, *tensors) if each.requires_grad and each.is_leaf}.values())
    with ExitStack() as stack:
        stack.enter_context(random_numbers_as_they_were(device))
        copies = [*stack.enter_context(_buffers(modules)), *stack.enter_context(_gradients(leaves))]
        stack.enter_context(_without_hooks(leaves))
        yield sum(storages(copies, device).values())


@contextmanager
def random_numbers_as_they_were(device: torch.device) -> Iterator[None]:
    """PyTorch's, on the device as well, and Python's and NumPy's own, which masks and dropped layers are drawn of."""
    state = random.getstate()
    numpy = sys.modules.get("numpy")
    of_numpy = numpy.random.get_state() if numpy is not None else None
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            yield
    finally:
        random.setstate(state)
        if numpy is not None:
            numpy.random.set_state(of_numpy)


@contextmanager
def _gradients(leaves: list[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """Those of parameters are there meanwhile, as in a step that adds to them. What lies there is set aside."""
    before = [(each, each.grad) for each in leaves]
    # DDP may have them in its buckets, where the step's own come to lie.
    values = [(grad, grad.clone()) for _, grad in before if grad is not None and _is_part(grad)]
    try:
        for each, grad in before:
            each.grad = torch.zeros_like(each) if grad is not None or isinstance(each, torch.nn.Parameter) else None
        yield [*(value for _, value in values), *(grad for _, grad in before if grad is not None and not _is_part(grad))]
    finally:
        for each, grad in before:
            each.grad = grad
        for grad, value in values:
            grad.copy_(value)


def _is_part(tensor: torch.Tensor) -> bool:
    tensor = getattr(tensor, "_local_tensor", tensor)
    return tensor.layout == torch.strided and tensor.untyped_storage().nbytes() > tensor.nbytes


@contextmanager
def _buffers(modules: list[torch.nn.Module]) -> Iterator[list[torch.Tensor]]:
    """Which tensors they are, and the numbers in them."""
    inner = [each for module in modules for each in module.modules()]
    places = [(each, dict(each._buffers), set(each._non_persistent_buffers_set)) for each in inner]
    there = {id(each): each for _, buffers, _ in places for each in buffers.values() if each is not None}
    values = [(buffer, buffer.detach().clone()) for buffer in there.values()]
    try:
        yield [value for _, value in values]
    finally:
        for module, buffers, passing in places:
            for name in set(module._buffers) - set(buffers):
                del module._buffers[name]
            for name, buffer in buffers.items():
                if name not in module._buffers or module._buffers[name] is not buffer:
                    module._buffers[name] = buffer
            module._non_persistent_buffers_set = passing
        with torch.no_grad():
            for buffer, value in values:
                if not is_equal(buffer, value):
                    buffer.copy_(value)


def is_equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Of kinds that PyTorch does not compare (sparse ones, say), taken for granted: hardly an op writes them in place."""
    try:
        return torch.equal(one, other)
    except NotImplementedError:
        return True


@contextmanager
def _without_hooks(leaves: list[torch.Tensor]) -> Iterator[None]:
    """autograd reads them of these dicts when it runs."""
    both = [(each._backward_hooks, each._post_accumulate_grad_hooks) for each in leaves]
    found = [hooks for pair in both for hooks in pair if hooks]
    before = [list(hooks.items()) for hooks in found]
    try:
        for hooks in found:
            hooks.clear()
        yield
    finally:
        for hooks, items in zip(found, before):
            hooks.update(items)
