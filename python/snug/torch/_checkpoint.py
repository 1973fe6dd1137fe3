# SPDX-License-Identifier: Apache-2.0
"""Checkpointing by layer in eager mode: how many layers, found from what layers are measured to keep.

Layers are equal children in a row (transformers' GradientCheckpointingLayer, the innermost; or the children of the largest ModuleList or
Sequential of one class). The first ones are checkpointed: what the last ones keep is gone when the first ones are made again.
"""
from __future__ import annotations

import copy
import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint as run_again

from .._errors import DoesNotFit, Error
from ._measure import measure
from ._memory import bytes_of, shown, shown_apart
from ._planning import call
from ._prices import wait
from ._resident import storages, update_bytes

_ORIGINAL = "_snug_forward"


@dataclass
class LayerPlan:
    """How many of the layers are checkpointed. Bytes are of the whole step on the device."""

    layers: int
    checkpointed: int
    memory: int
    planned_bytes: int
    #: Of the step that was run to check the plan.
    measured_bytes: int
    #: What one layer keeps for its backward part, and what of it is its input, which stays in any case.
    layer_bytes: int
    input_bytes: int
    #: Predicted time beside that of keeping all, less 1.
    overhead: float
    names: list[str] = field(repr=False, default_factory=list)

    def __str__(self) -> str:
        return (f"{self.checkpointed} of {self.layers} layers checkpointed: {shown(self.planned_bytes)} planned, {shown(self.measured_bytes)} measured, of {shown(self.memory)}; "
                f"{100 * self.overhead:.1f} % more time than none")


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


def set_checkpointed(module: torch.nn.Module, is_checkpointed: bool) -> None:
    """Its forward part runs again in the backward part, in training only, or no longer does."""
    original = module.__dict__.pop(_ORIGINAL, None)
    if original is not None:
        del module.forward
    if not is_checkpointed:
        return
    forward = module.forward

    @functools.wraps(forward)
    def wrapped(*args: Any, **words: Any) -> Any:
        if not torch.is_grad_enabled() or not module.training:
            return forward(*args, **words)
        return run_again(_with_caches_as_before(forward, args, words), *args, use_reentrant=False, **words)

    module.__dict__[_ORIGINAL] = forward
    module.forward = wrapped  # type: ignore[method-assign]


def _is_cache(value: Any) -> bool:
    """Of keys and values (transformers'): layers write to what they are given."""
    return any("Cache" in kind.__name__ for kind in type(value).__mro__)


def _apart(value: Any) -> Any:
    """A cache that can be written to without the one that was given; with the same tensors."""
    if type(value) in (list, tuple):
        return type(value)(map(_apart, value))
    if type(value) is dict:
        return {key: _apart(each) for key, each in value.items()}
    if not _is_cache(value):
        return value
    other = copy.copy(value)
    vars(other).update({key: _apart(each) for key, each in vars(value).items()})
    return other


def _in_cache(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _in_cache(each)
    elif isinstance(value, dict) or _is_cache(value):
        yield from _in_cache(list((value if isinstance(value, dict) else vars(value)).values()))


def _with_caches_as_before(forward: Callable[..., Any], args: tuple[Any, ...], words: dict[str, Any]) -> Callable[..., Any]:
    """What runs once and again: again with the caches as they were at first."""
    places = {i: _apart(each) for i, each in enumerate(args) if _is_cache(each)}
    names = {name: _apart(each) for name, each in words.items() if _is_cache(each)}
    if not places and not names:
        return forward
    has_run = False

    def run(*args: Any, **words: Any) -> Any:
        nonlocal has_run
        if has_run:
            args = tuple(_apart(places[i]) if i in places else each for i, each in enumerate(args))
            words = {name: _apart(names[name]) if name in names else each for name, each in words.items()}
        has_run = True
        return forward(*args, **words)

    return run


class _Kept:
    """Bytes that a layer keeps for its backward part: storages, without parameters."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.own: dict[int, int] = {}
        self.found: dict[int, int] = {}
        self.held: list[torch.Tensor] = []  # so that no storage takes the place of another
        self.inputs = 0
        self.cached = 0  # of what is found: in a cache that the layer was given, which stays whether it is kept or made again
        self.seconds = 0.0

    def pack(self, tensor: torch.Tensor) -> None:
        """The graph keeps nothing: no backward part follows, and a result that keeps itself would never go."""
        self.held.append(tensor.detach())
        for key, count in storages([tensor], self.device).items():
            if key not in self.own:
                self.found[key] = count


@contextmanager
def _in_front(modules: list[torch.nn.Module], make: Callable[[int, Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    before = [module.forward for module in modules]
    for i, (module, forward) in enumerate(zip(modules, before)):
        module.forward = make(i, forward)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for module, forward in zip(modules, before):
            module.forward = forward  # type: ignore[method-assign]


def _tensors(*values: Any) -> list[torch.Tensor]:
    return [each for each in torch.utils._pytree.tree_leaves(values) if isinstance(each, torch.Tensor)]


@contextmanager
def _asked(modules: list[torch.nn.Module]) -> Iterator[list[list[bool]]]:
    """Which of the tensors that each layer is given need a gradient: not what follows from positions and masks."""
    found: list[list[bool]] = [[] for _ in modules]

    def asking(i: int, forward: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*args: Any, **words: Any) -> Any:
            if not found[i]:
                found[i] = [each.requires_grad for each in _tensors(args, words)]
            return forward(*args, **words)

        return asked

    with _in_front(modules, asking):
        yield found


@contextmanager
def _watched(modules: list[torch.nn.Module], device: torch.device, needed: list[list[bool]]) -> Iterator[list[_Kept]]:
    """What each layer keeps and takes, one layer at a time: nothing of it is kept while the model runs without gradients. `needed`: see `_asked`."""
    found = [_Kept(device) for _ in modules]

    def look(module: torch.nn.Module, kept: _Kept, needed: list[bool], args: Any, words: Any) -> None:
        kept.own = storages(module.parameters(), device)  # within the call, in which FSDP2 has them whole
        kept.inputs = sum(storages([each for each in _tensors(args, words) if each.is_floating_point()], device).values())
        caches = [each for each in (*args, *words.values()) if _is_cache(each)]
        flags = iter(needed)
        args, words = torch.utils._pytree.tree_map_only(torch.Tensor, lambda leaf: leaf.detach().requires_grad_(next(flags, leaf.is_floating_point())), (args, words))
        wait(device)
        start = time.perf_counter()
        with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(kept.pack, lambda nothing: nothing):
            result = module.__dict__[_ORIGINAL](*args, **words)
        wait(device)
        kept.seconds = time.perf_counter() - start
        kept.cached = sum(count for key, count in storages(list(_in_cache(caches)), device).items() if key in kept.found)
        del result, caches
        kept.held.clear()

    def watching(i: int, forward: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **words: Any) -> Any:
            look(modules[i], found[i], needed[i], [_apart(each) for each in args], {name: _apart(each) for name, each in words.items()})
            return forward(*args, **words)

        return watched

    with _in_front(modules, watching):
        yield found


def _step(model: Callable[..., Any], batch: Any, loss: Callable[[Any], Any] | None) -> None:
    result = call(model, batch)
    if loss is not None:
        value = loss(result)
    else:
        value = result if isinstance(result, torch.Tensor) else getattr(result, "loss", None) if not isinstance(result, tuple) else result[0]
    if not isinstance(value, torch.Tensor) or value.numel() != 1:
        raise Error("bad_config", "loss", f"is no number: the model returns a {type(result).__name__}", "give loss=, a function of the result")
    value.backward()


@contextmanager
def _left_as_it_was(model: torch.nn.Module, device: torch.device) -> Iterator[None]:
    """Gradients, buffers and random numbers. Gradients are there meanwhile, as in a step that adds to them."""
    grads = [(each, each.grad) for each in model.parameters() if each.requires_grad]
    buffers = [(each, each.detach().clone()) for each in model.buffers()]
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        for each, _ in grads:
            each.grad = torch.zeros_like(each)
        try:
            yield
        finally:
            for each, grad in grads:
                each.grad = grad
            for buffer, value in buffers:
                buffer.copy_(value)


def checkpoint(model: torch.nn.Module, batch: Any, *, memory: int | str, optimizer: torch.optim.Optimizer | None = None, loss: Callable[[Any], Any] | None = None,
               layers: list[torch.nn.Module] | None = None, resident_bytes: int | str = 0) -> LayerPlan:
    """Checkpoints as few of the model's layers as `memory` asks for, and checks it with a step on `batch` that leaves gradients,
    buffers and random numbers as they were. In a process group, all ranks take the choice of rank 0, and more layers where that
    does not fit on another one.

    `optimizer`: its states are counted. `resident_bytes`: what else lies on the device. Raises DoesNotFit where all layers
    checkpointed take more.
    """
    budget = bytes_of("memory", memory)
    if not model.training:
        raise Error("bad_config", "model", "is not in training mode", "call model.train() before")
    inner = model.module if isinstance(model, torch.nn.parallel.DistributedDataParallel) else model
    found = layers_of(inner) if layers is None else {str(i): each for i, each in enumerate(layers)}
    modules = list(found.values())
    device = next((each.device for each in model.parameters()), torch.device("cpu"))
    beside = bytes_of("resident_bytes", resident_bytes) + _states_to_come(optimizer, device) + _buckets(model)

    for each in modules:
        set_checkpointed(each, True)
    with _left_as_it_was(inner, device):
        with _asked(modules) as needed_gradients:
            smallest = _measured(model, batch, loss, device) + beside
        with torch.no_grad(), _watched(modules, device, needed_gradients) as kept:
            call(inner, batch)
        more = [max(0, sum(each.found.values()) - each.inputs - each.cached) for each in kept]
        peaks = [_planned(smallest, more, count) for count in range(len(modules) + 1)]
        count = next((i for i, peak in enumerate(peaks) if peak <= budget), len(modules))
        count = _of_all_ranks(count)[0]
        fits: tuple[int, int] | None = None  # the fewest that do, and what was measured
        while True:
            for i, each in enumerate(modules):
                set_checkpointed(each, i < count)
            measured = _measured(model, batch, loss, device) + beside
            # A step is one of all ranks: where one of them needs another, all go on.
            ranks = _of_all_ranks((measured, budget, max(more), _fewer(peaks, count, measured, budget)))
            worst = max(range(len(ranks)), key=lambda rank: ranks[rank][0] - ranks[rank][1])
            needed, limit, layer, _ = ranks[worst]
            if needed <= limit:
                fits = count, measured
                count = max(rank[3] for rank in ranks)
                if count == fits[0]:
                    break
            elif fits is not None or count == len(modules):
                break
            else:
                count = min(len(modules), count + max(1, -(-(needed - limit) // max(1, layer))))
        if fits is not None:
            count, measured = fits
            for i, each in enumerate(modules):
                set_checkpointed(each, i < count)
    if fits is None:
        for each in modules:
            set_checkpointed(each, False)
        of_rank = f" on rank {worst}" if len(ranks) > 1 else ""
        given, taken = shown_apart(limit, needed)
        error = DoesNotFit("out_of_budget", "memory", f"{given} is less than the {taken} measured{of_rank} with all {len(modules)} layers checkpointed",
                           f"memory={needed} fits; " + ("use_cache=False in the batch spares the keys and values that layers write to a cache; " if any(each.cached for each in kept) else "")
                           + "torch.compile with snug.torch.backend plans op by op, and needs less")
        error.smallest_bytes = needed
        raise error
    seconds = sum(each.seconds for each in kept)
    return LayerPlan(len(modules), count, budget, peaks[count], measured, max(sum(each.found.values()) for each in kept), max(each.inputs for each in kept),
                     sum(each.seconds for each in kept[:count]) / (3 * seconds) if seconds else 0.0, list(found)[:count])


def _planned(smallest: int, more: list[int], count: int) -> int:
    """With so many of the first layers checkpointed. One layer at a time is made again whatever the choice, the last one first:
    where it is kept instead, nothing is added."""
    return smallest + sum(more[count:]) - (more[-1] if count < len(more) else 0)


def _fewer(peaks: list[int], count: int, measured: int, budget: int) -> int:
    """The fewest that fit if each takes as much less than planned as so many do: where layers differ, the smallest peak is not at the last one."""
    return next((i for i in range(count) if peaks[i] - peaks[count] + measured <= budget), count)


def _of_all_ranks(value: Any) -> list[Any]:
    if not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return [value]
    found = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(found, value)
    return found


def _measured(model: Callable[..., Any], batch: Any, loss: Callable[[Any], Any] | None, device: torch.device) -> int:
    with measure(device) as measured:
        _step(model, batch, loss)
    return measured.peak_bytes


def _states_to_come(optimizer: torch.optim.Optimizer | None, device: torch.device) -> int:
    if optimizer is None or optimizer.state:
        return 0
    return update_bytes(optimizer, device).states


def _buckets(model: torch.nn.Module) -> int:
    """Gradients lie twice in memory under DDP, unless they are views of its buckets."""
    if not isinstance(model, torch.nn.parallel.DistributedDataParallel) or model.gradient_as_bucket_view:
        return 0
    return 0 if _has_buckets(model) else sum(each.nbytes for each in model.parameters() if each.requires_grad)


def _has_buckets(model: torch.nn.Module) -> bool:
    """They are made when DDP is, and counted among what is measured on a GPU; on the CPU they are no tensors of Python's."""
    return next(model.parameters()).device.type == "cuda"
