# SPDX-License-Identifier: Apache-2.0
"""Checkpointing by layer in eager mode: how many layers, found from what layers are measured to keep.

The first ones are checkpointed: what the last ones keep is gone when the first ones are made again.
"""
from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.checkpoint import CheckpointError

from .._errors import DoesNotFit, Error
from ._again import Again, apart, forward_in, in_cache, in_front, is_cache, put_forward, set_checkpointed
from ._layers import Calls, layers_of, none_dropped, some
from ._left import is_equal, left_as_it_was
from ._measure import measure
from ._memory import bytes_of, shown, shown_apart
from ._planning import call
from ._prices import Prices, wait
from ._region import refusal, update_is_too_large
from ._resident import Update, hooks_of, parameters_of, states_of, storages, update_bytes


@dataclass
class LayerPlan:
    """How many of the layers are checkpointed. Bytes are of the whole step on the device."""

    layers: int
    checkpointed: int
    memory: int
    planned_bytes: int
    #: Of the step that was run to check the plan, or of the optimizer's step behind it, as counted, where that is more.
    measured_bytes: int
    #: What one layer keeps for its backward part, and what of it is its input, which stays in any case.
    layer_bytes: int
    input_bytes: int
    #: Predicted time beside that of keeping all, less 1.
    overhead: float
    names: list[str] = field(repr=False, default_factory=list)
    #: Layers that are not among the choice: what they are given is written in place, so they cannot run again.
    left_out: list[str] = field(repr=False, default_factory=list)

    def __str__(self) -> str:
        return (f"{self.checkpointed} of {self.layers} layers checkpointed: {shown(self.planned_bytes)} planned, {shown(self.measured_bytes)} measured, of {shown(self.memory)}; "
                f"{100 * self.overhead:.1f} % more time than none" + (f"; {_kept_anyway(self.left_out)}" if self.left_out else ""))


def _kept_anyway(names: list[str]) -> str:
    return f"{len(names)} cannot run again ({some(names)}): what they are given is written in place"


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

    @property
    def more(self) -> int:
        """Than if it is made again."""
        return max(0, sum(self.found.values()) - self.inputs - self.cached)

    def pack(self, tensor: torch.Tensor) -> None:
        """The graph keeps nothing: no backward part follows, and a result that keeps itself would never go."""
        self.held.append(tensor.detach())
        for key, count in storages([tensor], self.device).items():
            if key not in self.own:
                self.found[key] = count


def _tensors(*values: Any) -> list[torch.Tensor]:
    return [each for each in torch.utils._pytree.tree_leaves(values) if isinstance(each, torch.Tensor)]


@dataclass
class _Writes:
    """What a layer's forward part, or what follows it, writes."""

    buffers: tuple[str, ...] = ()
    #: To what the layer was given.
    is_inputs: bool = False


def _written(step: _Step, modules: list[torch.nn.Module]) -> list[_Writes]:
    """Found by running the forward part without gradients."""
    found = [_Writes() for _ in modules]
    given: list[list[tuple[torch.Tensor, int]]] = [[] for _ in modules]

    def looking(i: int, forward: Callable[..., Any]) -> Callable[..., Any]:
        def looked(*args: Any, **words: Any) -> Any:
            given[i] += [(each, each._version) for each in _tensors(args, words) if not each.is_inference()]
            before = [(name, each, each.clone()) for name, each in modules[i].named_buffers(remove_duplicate=False)]
            result = forward(*args, **words)
            now = dict(modules[i].named_buffers(remove_duplicate=False))
            changed = {name for name, each, value in before if name in now and not (now[name] is each and is_equal(each, value))}
            found[i].buffers = tuple(sorted(changed.union(found[i].buffers)))
            return result

        return looked

    with torch.no_grad(), in_front(modules, looking):
        call(step.inner, step.batch)
    for each, tensors in zip(found, given):
        each.is_inputs = any(tensor._version != version for tensor, version in tensors)
    return found


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

    with in_front(modules, asking):
        yield found


@contextmanager
def _watched(modules: list[torch.nn.Module], device: torch.device, needed: list[list[bool]]) -> Iterator[list[_Kept]]:
    """What each layer keeps and takes, one layer at a time: nothing of it is kept while the model runs without gradients. `needed`: see `_asked`."""
    found = [_Kept(device) for _ in modules]

    def look(module: torch.nn.Module, forward: Callable[..., Any], kept: _Kept, needed: list[bool], args: Any, words: Any) -> None:
        kept.own = storages(module.parameters(), device)  # within the call, in which FSDP2 has them whole
        kept.inputs = sum(storages([each for each in _tensors(args, words) if each.is_floating_point()], device).values())
        caches = [each for each in (*args, *words.values()) if is_cache(each)]
        flags = iter(needed)
        args, words = torch.utils._pytree.tree_map_only(torch.Tensor, lambda leaf: leaf.detach().requires_grad_(next(flags, leaf.is_floating_point())), (args, words))
        wait(device)
        start = time.perf_counter()
        with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(kept.pack, lambda nothing: nothing):
            result = forward(*args, **words)
        wait(device)
        kept.seconds = time.perf_counter() - start
        kept.cached = sum(count for key, count in storages(list(in_cache(caches)), device).items() if key in kept.found)
        del result, caches
        kept.held.clear()

    def watching(i: int, forward: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **words: Any) -> Any:
            plain = forward.__wrapped__ if isinstance(forward, Again) else forward
            look(modules[i], plain, found[i], needed[i], [apart(each) for each in args], {name: apart(each) for name, each in words.items()})
            return forward(*args, **words)

        return watched

    with in_front(modules, watching):
        yield found


@dataclass
class _Peak:
    """Bytes of a step, and of what is there when the optimizer steps behind it, its own step among it."""

    step: int
    update: int

    @property
    def bytes(self) -> int:
        return max(self.step, self.update)


class _Step:
    """The forward part, the loss and the backward part of a model on a batch; what lies beside it."""

    def __init__(self, model: torch.nn.Module, batch: Any, loss: Callable[[Any], Any] | None, optimizer: torch.optim.Optimizer | None,
                 beside: int) -> None:
        self.model, self.batch, self.loss = model, batch, loss
        self.inner: torch.nn.Module = model.module if isinstance(model, torch.nn.parallel.DistributedDataParallel) else model
        self.device = next((each.device for each in model.parameters()), torch.device("cpu"))
        self.modules = [each for each in (self.inner, loss) if isinstance(each, torch.nn.Module)]
        self.tensors = [*parameters_of(optimizer), *_tensors(batch)]
        of_modules = [each for module in self.modules for each in (*module.parameters(), *module.buffers())]
        self._inputs = storages([*self.tensors, *of_modules], self.device)
        update = _update(optimizer, self.device, of_modules)
        self._beside = beside + _states_to_come(optimizer, update, self.device) + _buckets(model)
        self._scratch = update.scratch
        # Hooks do not run while a step is measured. What steps in one does so while the backward part has its tensors.
        self._scratch_within = update.scratch if any(hooks_of(each)[1] for each in of_modules) else 0

    def forward(self) -> tuple[Any, torch.Tensor]:
        """The result, and the loss."""
        result = call(self.model, self.batch)
        if self.loss is not None:
            value = self.loss(result)
        else:
            value = result[0] if isinstance(result, tuple) else result if isinstance(result, torch.Tensor) else getattr(result, "loss", None)
        if not isinstance(value, torch.Tensor) or value.numel() != 1:
            raise Error("bad_config", "loss", f"is no number: the model returns a {type(result).__name__}", "give loss=, a function of the result")
        return result, value

    def measured(self, copies: int) -> _Peak:
        """`copies`: bytes on the device that no step of training has."""
        with measure(self.device) as measured:
            result, value = self.forward()
            value.backward()
            results = storages([*in_cache(result), *_tensors(result, value)], self.device)
        beside = self._beside - copies
        there = measured.start_bytes + sum(count for key, count in results.items() if key not in self._inputs)
        return _Peak(measured.peak_bytes + beside + self._scratch_within, there + beside + self._scratch)


def checkpoint(model: torch.nn.Module, batch: Any, *, memory: int | str, optimizer: torch.optim.Optimizer | None = None, loss: Callable[[Any], Any] | None = None,
               layers: list[torch.nn.Module] | None = None, resident_bytes: int | str = 0) -> LayerPlan:
    """Checkpoints as few of the model's layers as `memory` asks for, and checks it with a step on `batch` that leaves parameters,
    gradients, buffers and random numbers as they were; so does an error, which leaves layers as they were, too. In a process group,
    all ranks take the choice of rank 0, and more layers where that does not fit on another one.

    `optimizer`: its states are counted, and what its step takes. `resident_bytes`: what else lies on the device. Raises DoesNotFit
    where all layers checkpointed take more, or the optimizer's step does.
    """
    budget = bytes_of("memory", memory)
    if not model.training:
        raise Error("bad_config", "model", "is not in training mode", "call model.train() before")
    step = _Step(model, batch, loss, optimizer, bytes_of("resident_bytes", resident_bytes))
    found = layers_of(step.inner) if layers is None else {str(i): each for i, each in enumerate(layers)}
    before = [(each, forward_in(each)) for each in found.values()]
    try:
        calls = Calls(found)
        with left_as_it_was(step.modules, step.tensors, step.device) as copies, none_dropped(step.inner), calls.counted():
            return _Choice(step, found, calls, budget, optimizer, copies).plan()
    except BaseException:
        for each, forward in before:
            put_forward(each, forward)
        raise


class _Choice:
    """Of the layers that are checkpointed."""

    def __init__(self, step: _Step, found: dict[str, torch.nn.Module], calls: Calls, budget: int, optimizer: torch.optim.Optimizer | None,
                 copies: int) -> None:
        self.step, self.calls, self.budget, self.optimizer, self.copies = step, calls, budget, optimizer, copies
        self.all_names = list(found)
        modules = list(found.values())
        for each in modules:
            set_checkpointed(each, False)
        writes = _written(step, modules)
        self._end_step()
        left_out = {i for rank in _of_all_ranks([i for i, each in enumerate(writes) if each.is_inputs]) for i in rank}
        self.left_out = [name for i, name in enumerate(found) if i in left_out]
        self.names = [name for i, name in enumerate(found) if i not in left_out]
        self.modules = [found[name] for name in self.names]
        self._written = [each.buffers for i, each in enumerate(writes) if i not in left_out]
        self._forwards: list[Any] = []
        self._kept: list[_Kept] = []

    def plan(self) -> LayerPlan:
        self._set(len(self.modules))
        with _asked(self.modules) as needed_gradients:
            smallest = self._measured()
        self._refuse_update(smallest)
        self._kept = self._watch(needed_gradients)
        more = [each.more for each in self._kept]
        self._warn_of_draws(more, [each.more for each in self._watch(needed_gradients)])
        peaks = [_planned(smallest.step, more, count) for count in range(len(self.modules) + 1)]
        count, measured = self._fewest(peaks, max(more, default=0))
        seconds = sum(each.seconds for each in self._kept)
        overhead = sum(each.seconds for each in self._kept[:count]) / (3 * seconds) if seconds else 0.0
        layer = max((sum(each.found.values()) for each in self._kept), default=0)
        inputs = max((each.inputs for each in self._kept), default=0)
        return LayerPlan(len(self.all_names), count, self.budget, max(peaks[count], measured.update), measured.bytes, layer, inputs, overhead,
                         self.names[:count], self.left_out)

    def _fewest(self, peaks: list[int], layer: int) -> tuple[int, _Peak]:
        """The fewest layers that fit, with what was measured. `layer`: what the largest keeps."""
        count = next((i for i, peak in enumerate(peaks) if peak <= self.budget), len(self.modules))
        count = _of_all_ranks(count)[0]
        fits: tuple[int, _Peak] | None = None
        while True:
            self._set(count)
            measured = self._measured()
            # A step is one of all ranks: where one of them needs another, all go on.
            ranks = _of_all_ranks((measured.bytes, self.budget, layer, _fewer(peaks, count, measured.step, self.budget)))
            worst = max(range(len(ranks)), key=lambda rank: ranks[rank][0] - ranks[rank][1])
            needed, limit, of_layer, _ = ranks[worst]
            if needed <= limit:
                fits = count, measured
                count = max(rank[3] for rank in ranks)
                if count == fits[0]:
                    return fits
            elif fits is not None:
                self._set(fits[0])
                return fits
            elif count == len(self.modules):
                raise self._refusal(needed, limit, f" on rank {worst}" if len(ranks) > 1 else "")
            else:
                count = min(len(self.modules), count + max(1, -(-(needed - limit) // max(1, of_layer))))

    def _set(self, count: int) -> None:
        for i, each in enumerate(self.modules):
            set_checkpointed(each, i < count, self._written[i])
        self._forwards = [forward_in(each) for each in self.modules]

    def _end_step(self) -> None:
        """Raises Error where layers ran, on any rank, that did not run in the first step, or the other way around."""
        ranks = _of_all_ranks(self.calls.end_step())
        others = [name for name in self.all_names if any(name in rank for rank in ranks)]
        if others:
            raise Error("unsupported", "layers", f"do not run alike in each step ({some(others)}): which of them do may be drawn",
                        "have all of them run while this is planned (LayerDrop at 0, say); steps in which fewer run take no more")

    def _watch(self, needed_gradients: list[list[bool]]) -> list[_Kept]:
        with torch.no_grad(), _watched(self.modules, self.step.device, needed_gradients) as found:
            call(self.step.inner, self.step.batch)
        self._end_step()
        return found

    def _warn_of_draws(self, once: list[int], again: list[int]) -> None:
        others = [name for name, one, other in zip(self.names, once, again) if abs(one - other) > 0.01 * max(one, other)]
        if others:
            warnings.warn(f"snug.torch: layers keep more in one step than in another ({some(others)}), as they draw: a step may take more than the one that was measured", stacklevel=4)

    def _measured(self) -> _Peak:
        try:
            found = self.step.measured(self.copies)
        except CheckpointError as error:
            # They run again from the last one to the first.
            again = (name for name, each in zip(self.names, self._forwards) if isinstance(each, Again) and each.has_run_again)
            name = next(again, "one")
            raise Error("unsupported", "layers", f"{name} does not compute the same when it runs again: {str(error).splitlines()[0]}",
                        "give layers=, a list of modules without it, or have it do the same each time") from error
        self._end_step()
        return found

    def _refuse_update(self, smallest: _Peak) -> None:
        """Where the optimizer's step is what does not fit, whatever is checkpointed."""
        ranks = _of_all_ranks((smallest.update, self.budget, smallest.step))
        worst = max(range(len(ranks)), key=lambda rank: ranks[rank][0] - ranks[rank][1])
        update, limit, step = ranks[worst]
        if update > limit and update >= step:
            message, hint = update_is_too_large(self.optimizer, limit, update)
            raise refusal(update, message + (f", on rank {worst}" if len(ranks) > 1 else ""), f"memory={update} fits{hint}")

    def _refusal(self, needed: int, limit: int, of_rank: str) -> DoesNotFit:
        given, taken = shown_apart(limit, needed)
        layers = f"all {len(self.all_names)}" if not self.left_out else f"{len(self.modules)} of {len(self.all_names)}"
        ways = ["use_cache=False in the batch spares the keys and values that layers write to a cache"] if any(each.cached for each in self._kept) else []
        ways += [f"{_kept_anyway(self.left_out)} (inplace=True, say)"] if self.left_out else []
        ways += ["torch.compile with snug.torch.backend plans op by op, and needs less"]
        return refusal(needed, f"{given} is less than the {taken} measured{of_rank} with {layers} layers checkpointed", "; ".join([f"memory={needed} fits", *ways]))


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


def _update(optimizer: torch.optim.Optimizer | None, device: torch.device, inputs: list[torch.Tensor]) -> Update:
    if optimizer is None:
        return Update()
    prices = Prices(device)
    found = update_bytes(optimizer, device, prices, inputs)
    prices.save()
    return found


def _states_to_come(optimizer: torch.optim.Optimizer | None, update: Update, device: torch.device) -> int:
    return max(0, update.states - sum(states_of(optimizer, device).values())) if optimizer is not None else 0


def _buckets(model: torch.nn.Module) -> int:
    """Gradients lie twice in memory under DDP, unless they are views of its buckets."""
    if not isinstance(model, torch.nn.parallel.DistributedDataParallel) or model.gradient_as_bucket_view:
        return 0
    return 0 if _has_buckets(model) else sum(each.nbytes for each in model.parameters() if each.requires_grad)


def _has_buckets(model: torch.nn.Module) -> bool:
    """They are made when DDP is, and counted among what is measured on a GPU; on the CPU they are no tensors of Python's."""
    return next(model.parameters()).device.type == "cuda"
