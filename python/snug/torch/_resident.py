# SPDX-License-Identifier: Apache-2.0
"""What a step has in memory beside what its graphs make: parameters, buffers, inputs, gradients, optimizer states."""
from __future__ import annotations

import copy
import functools
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from .._errors import Error


def storages(tensors: Iterable[Any], device: torch.device | None = None) -> dict[int, int]:
    """Bytes by storage, of what lies on the device, where one is given. Of a tensor that is sharded (FSDP2), this rank's part."""
    found = {}
    for each in tensors:
        each = getattr(each, "_local_tensor", each)
        if isinstance(each, torch.Tensor) and each.layout == torch.strided and (device is None or each.device.type == device.type) and not _is_wrapped(each):
            storage = each.untyped_storage()
            found[storage._cdata] = storage.nbytes()
    return found


def _is_wrapped(tensor: torch.Tensor) -> bool:
    """By torch.func, which has no storage; it may outlive the call that made it."""
    return torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def parameters_of(optimizer: torch.optim.Optimizer | None) -> list[torch.Tensor]:
    return [] if optimizer is None else [each for group in optimizer.param_groups for each in group["params"]]


def state_tensors(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [each for state in optimizer.state.values() for each in torch.utils._pytree.tree_leaves(state) if isinstance(each, torch.Tensor)]


@dataclass
class Update:
    """Bytes of an optimizer on the device: its states, and what its step takes at its peak beside them."""

    states: int = 0
    scratch: int = 0


class _Counter(TorchDispatchMode):
    """Bytes of the storages that ops make, while they are there, and, with `prices`, of what some take within."""

    def __init__(self, device: torch.device, known: dict[int, int], prices: Any) -> None:
        super().__init__()
        self.device = device
        self._prices = prices
        self.peak = self.now = 0
        self._known = dict(known)
        self._seen: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.ops.aten._local_scalar_dense.default:
            return 0.5 if args[0].dtype.is_floating_point else 1  # a norm, say: no number decides how much an optimizer takes
        result = function(*args, **(kwargs or {}))
        within = self._prices.of_call(function, args, kwargs or {}, result).scratch if self._prices is not None and _takes_more(function, args) else 0
        for each in torch.utils._pytree.tree_leaves(result):
            if isinstance(each, torch.Tensor) and each.device.type == self.device.type:
                self._add(each.untyped_storage())
        if self.device.type == "cpu":
            within = max(within, _bytes_of_numbers(args))
        self.peak = max(self.peak, self.now + within)
        return result

    def _add(self, storage: Any) -> None:
        if storage._cdata in self._known:
            return
        self._known[storage._cdata] = storage.nbytes()
        self.now += storage.nbytes()
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._drop, storage._cdata)

    def _drop(self, key: int) -> None:
        self.now -= self._known.pop(key, 0)


def _takes_more(function: Any, args: Sequence[Any]) -> bool:
    """Products and factors of matrices take room of their own; where types differ, operands are copied."""
    name = function._schema.name.removeprefix("aten::")
    types = {each.dtype for each in args if isinstance(each, torch.Tensor) and each.dim()}
    return name.startswith(("mm", "addmm", "bmm", "baddbmm", "linalg_", "_linalg_")) or (torch.Tag.pointwise in function.tags and len(types) > 1)


def _bytes_of_numbers(args: Sequence[Any]) -> int:
    """Of what an op on the CPU makes of a number of Python's: a tensor of 8 bytes, and one of the type of the tensor that it goes with."""
    if not any(isinstance(each, (int, float)) for each in args):
        return 0
    return 8 + max((each.element_size() for each in torch.utils._pytree.tree_leaves(args) if isinstance(each, torch.Tensor)), default=0)


def update_bytes(optimizer: torch.optim.Optimizer, device: torch.device, prices: Any = None) -> Update:
    """Found by running the optimizer's own first step on tensors without memory: states that do not exist yet are counted. `prices`: where they are given, what products of
    matrices take within is counted too.

    Raises Error for an optimizer whose step does not run on them: give `resident_bytes` instead.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True):
        def fake(tensor: torch.Tensor) -> torch.Tensor:
            made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
            if isinstance(tensor, torch.nn.Parameter):
                made = torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
            return made

        try:
            shadow = copy.copy(optimizer)
            twins: dict[int, torch.Tensor] = {}
            groups = []
            for group in optimizer.param_groups:
                params = [twins.setdefault(id(each), fake(each)) for each in group["params"]]
                words = {key: fake(value) if isinstance(value, torch.Tensor) else copy.copy(value) for key, value in group.items() if key != "params"}  # lr may be a tensor
                groups.append({**words, "params": params})
            shadow.__dict__ = dict(optimizer.__dict__)
            shadow.param_groups = groups
            shadow.state = type(optimizer.state)(optimizer.state.default_factory)  # type: ignore[attr-defined]
            for each, state in optimizer.state.items():
                shadow.state[twins[id(each)]] = torch.utils._pytree.tree_map_only(torch.Tensor, fake, state)
            for each in twins.values():
                if each.requires_grad:
                    each.grad = torch.empty_like(each)
            there = sum(storages(state_tensors(shadow), device).values())
            known = storages([*twins.values(), *(each.grad for each in twins.values()), *state_tensors(shadow)], device)
            counter = _Counter(device, known, prices)
            step = type(optimizer).step
            step = getattr(step, "__wrapped__", step)
            with counter, torch.no_grad():
                step(shadow)
        except Exception as error:
            raise Error("unsupported", "optimizer", f"the states of {type(optimizer).__name__} cannot be counted before it has run ({type(error).__name__}: {error})",
                        "give resident_bytes=, the bytes of its states and of what else lies on the device") from error
        states = sum(storages(state_tensors(shadow), device).values())
        return Update(states, counter.peak - min(states - there, counter.peak))


@functools.cache
def library_bytes(device: torch.device) -> int:
    """CUDA: the workspaces of cuBLAS, one for the thread that runs forward parts and one for autograd's."""
    if device.type != "cuda":
        return 0
    with _disable_current_modes(), torch.no_grad():
        def now() -> int:
            torch.cuda.synchronize(device)
            return torch.cuda.memory_stats(device)["requested_bytes.all.current"]

        operands = [torch.ones(64, 64, dtype=kind, device=device) for kind in (torch.float32, torch.bfloat16)]
        torch._C._cuda_clearCublasWorkspaces()
        start = now()
        for each in operands:
            torch.mm(each, each)
            torch.addmm(each[0], each, each)
        return 2 * (now() - start)


def bucket_bytes() -> int:
    """Of the DistributedDataParallel whose forward part runs: gradients lie in its buckets once more, unless they are views of them."""
    if not torch.distributed.is_available():
        return 0
    wrapped = torch.nn.parallel.DistributedDataParallel._get_active_ddp_module()
    if wrapped is None or wrapped.gradient_as_bucket_view:
        return 0
    return sum(each.nbytes for each in wrapped.parameters() if each.requires_grad)


@dataclass
class Resident:
    """Bytes on the device that are there through the whole step, by what they are."""

    parameters: int = 0
    buffers_and_inputs: int = 0
    gradients: int = 0
    states: int = 0
    #: What libraries keep for themselves in PyTorch's allocator.
    libraries: int = 0
    other: int = 0
    #: Of DistributedDataParallel.
    buckets: int = 0
    update_scratch: int = 0
    #: Of one gradient for every parameter that is trained.
    new_gradients: int = 0
    #: Of what the model returned, which who called it has when the optimizer steps.
    results: int = 0
    #: Where parameters have hooks, which may step: of `.grad` beside the engine's gradients, and of tangents.
    hooked: int = 0

    @property
    def update_peak(self) -> int:
        """At the optimizer's step: all that is resident, gradients among it, the model's results, and what the step takes."""
        return self.total + self.new_gradients - self.gradients + self.results + self.update_scratch + self.hooked

    @property
    def total(self) -> int:
        return self.parameters + self.buffers_and_inputs + self.gradients + self.states + self.libraries + self.other + self.buckets


def count_resident(inputs: Iterable[Any], optimizer: torch.optim.Optimizer | None, resident_bytes: int, grads: str, device: torch.device, results: int, tangents: int, prices: Any) -> Resident:
    """`inputs`: of the graph, parameters and buffers among them. `results`: bytes of the model's results that are there at the optimizer's step, `tangents`: of their gradients. `grads`: "accumulate" counts `.grad` of every parameter that
    is trained beside what the backward part makes; "none" those alone that backward parts of other graphs may have made."""
    inputs = list(inputs)
    trained = [each for each in (*inputs, *parameters_of(optimizer)) if isinstance(each, torch.Tensor) and each.requires_grad and each.is_leaf]
    parameters = storages([*trained, *(each for each in inputs if isinstance(each, torch.nn.Parameter)), *parameters_of(optimizer)], device)
    others = {key: count for key, count in storages(inputs, device).items() if key not in parameters}
    new = {id(each): each.numel() * each.element_size() for each in trained if each.device.type == device.type}
    mine = {id(each) for each in inputs}
    there = sum(count for key, count in new.items() if grads == "accumulate" or key not in mine)
    is_hooked = any(map(any, map(hooks_of, trained)))
    update = update_bytes(optimizer, device, prices) if optimizer is not None else Update()
    return Resident(sum(parameters.values()), sum(others.values()), there, update.states,
                    library_bytes(device), resident_bytes, bucket_bytes(), update.scratch, sum(new.values()), results, there + tangents if is_hooked else 0)


def hooks_of(tensor: torch.Tensor) -> tuple[bool, bool]:
    """Whether it has hooks of `register_hook`, and of `register_post_accumulate_grad_hook`."""
    return bool(tensor._backward_hooks), bool(tensor._post_accumulate_grad_hooks)  # type: ignore[attr-defined]
