# SPDX-License-Identifier: Apache-2.0
"""What a step has in memory beside what its graphs make: parameters, buffers, inputs, gradients, optimizer states."""
from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from .._errors import Error
from ._shadow import Kept, fakes, numbers, reached, set_counters, shadow_of, unwrapped

#: A late step, whose number can be divided by all up to 16, and by 20, 25, 50, 100, 200, 500 and 1000.
LATE = 18_018_000
#: A step that asks tensors for more numbers is in a loop that our answers do not end.
MOST_ANSWERS = 100_000


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


def states_of(optimizer: Any, device: torch.device) -> dict[int, int]:
    """Bytes by storage of what it has by now, wherever it keeps it, beside parameters and gradients."""
    parameters = parameters_of(optimizer)
    elsewhere = storages([*parameters, *(each.grad for each in parameters)], device)
    return {key: count for key, count in storages(reached(unwrapped(optimizer)), device).items() if key not in elsewhere}


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
        self.asked: set[torch.dtype] = set()
        self.answer(None, True)

    def answer(self, number: int | None, truth: bool) -> None:
        """What tensors say from now on that are asked for their numbers, where None is a half, or one. These decide what an optimizer does, and no number decides how much each takes."""
        self._number, self._truth, self._answers = number, truth, 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.ops.aten._local_scalar_dense.default:
            return self._answer_of(args[0].dtype)
        is_in_place = _is_in_place(function) and bool(args)
        result = args[0] if is_in_place else function(*args, **(kwargs or {}))
        within = self._prices.of_call(function, args, kwargs or {}, result).scratch if self._prices is not None and _takes_more(function, args) else 0
        for each in () if is_in_place else torch.utils._pytree.tree_leaves(result):
            if isinstance(each, torch.Tensor) and each.device.type == self.device.type:
                self._add(each.untyped_storage())
        if self.device.type == "cpu":
            within = max(within, _bytes_of_numbers(args))
        self.peak = max(self.peak, self.now + within)
        return result if function._schema.returns else None

    def _answer_of(self, kind: torch.dtype) -> Any:
        self._answers += 1
        self.asked.add(kind)
        if self._answers > MOST_ANSWERS:
            raise RuntimeError("it asks for numbers without end")
        if kind == torch.bool:
            return self._truth
        if kind.is_floating_point:
            return 0.5 if self._number is None else float(self._number)
        return 1 if self._number is None else self._number

    def _add(self, storage: Any) -> None:
        if storage._cdata in self._known:
            return
        self._known[storage._cdata] = storage.nbytes()
        self.now += storage.nbytes()
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._drop, storage._cdata)

    def _drop(self, key: int) -> None:
        self.now -= self._known.pop(key, 0)


@functools.cache
def _is_in_place(function: Any) -> bool:
    """Whether an op only writes numbers into its first operand. It need not run, since there are none, and most of a step is such ops."""
    schema = function._schema
    is_returned = not schema.returns or (len(schema.returns) == 1 and schema.returns[0].alias_info is not None)
    return schema.name.endswith("_") and not schema.name.endswith("__") and torch.Tag.inplace_view not in function.tags and is_returned and schema.arguments[0].is_write


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


def update_bytes(optimizer: torch.optim.Optimizer, device: torch.device, prices: Any = None, inputs: Iterable[Any] = ()) -> Update:
    """Found by running the optimizer's own steps on tensors without memory, the first and later ones: states that do not exist yet are counted, wherever it keeps them. `prices`: where they are given, what
    products of matrices take within is counted too. `inputs`: tensors that are counted elsewhere.

    Raises Error for an optimizer whose step does not run on them: give `resident_bytes` instead. The optimizer is as before in any case.
    """
    optimizer = unwrapped(optimizer)
    kept = Kept(optimizer)
    try:
        found = _update_of_shadow(optimizer, device, prices, inputs)
    except Exception as error:
        raise _not_counted(optimizer, f"{type(error).__name__}: {error}") from error
    finally:
        is_harmed = kept.is_harmed()
        if is_harmed:
            kept.restore()
    if is_harmed:
        raise _not_counted(optimizer, "the step of a copy changes it: it keeps tensors where copy.deepcopy does not reach, in closures, say")
    return found


def _not_counted(optimizer: Any, why: str) -> Error:
    return Error("unsupported", "optimizer", f"the states of {type(optimizer).__name__} cannot be counted before it has run ({why})",
                 "give resident_bytes=, the bytes of its states and of what else lies on the device")


def _update_of_shadow(optimizer: Any, device: torch.device, prices: Any, inputs: Iterable[Any]) -> Update:
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode, torch.no_grad():
        shadow, twins = shadow_of(optimizer, mode)
        parameters = parameters_of(shadow)
        elsewhere = storages([*parameters, *(each.grad for each in parameters), *(twins[key] for key in storages(inputs) if key in twins)], device)

        def states_now() -> int:
            return sum(count for key, count in storages(fakes(reached(shadow)), device).items() if key not in elsewhere)

        there = states = states_now()
        counter = _Counter(device, storages(fakes(reached(shadow)), device) | elsewhere, prices)
        for _ in _trial_steps(shadow, counter):
            states = max(states, states_now())
        return Update(states, counter.peak - min(states - there, counter.peak))


def _trial_steps(shadow: Any, counter: _Counter) -> Iterator[None]:
    """The first step; the second, which has what the first has made; and, where an optimizer counts, or asks a tensor for its number, a late one, at which it does whatever it does every so many steps. That is run
    twice, where it counts, or asks whether something is so: what hangs on it goes both ways, and a counter may be looked at before it grows or behind that.

    Raises what the first raises. Others may fail, since their numbers are none that the optimizer would have.
    """
    step = type(shadow).step
    step = getattr(step, "__wrapped__", step)

    def run() -> None:
        with contextlib.suppress(Exception), counter:
            step(shadow)

    with counter:
        step(shadow)
    yield
    before = numbers(shadow)
    run()
    yield
    counts = set_counters(before, LATE - 1)
    if not counts and not counter.asked:
        return
    counter.answer(LATE, True)
    run()
    yield
    if counts or torch.bool in counter.asked:
        counter.answer(LATE, False)
        run()
        yield


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
    stale = sum(storages(frozen_gradients([*inputs, *parameters_of(optimizer)]), device).values())
    there = stale + sum(count for key, count in new.items() if grads == "accumulate" or key not in mine)
    is_hooked = any(map(any, map(hooks_of, trained)))
    update = update_bytes(optimizer, device, prices, inputs) if optimizer is not None else Update()
    return Resident(sum(parameters.values()), sum(others.values()), there, update.states,
                    library_bytes(device), resident_bytes, bucket_bytes(), update.scratch, stale + sum(new.values()), results, there + tangents if is_hooked else 0)


def frozen_gradients(tensors: Iterable[Any]) -> list[torch.Tensor]:
    """What is there of parameters that were trained before, until somebody lets go of it."""
    leaves = [each for each in tensors if isinstance(each, torch.Tensor) and each.is_leaf and not each.requires_grad]
    return [each.grad for each in leaves if each.grad is not None]


def hooks_of(tensor: torch.Tensor) -> tuple[bool, bool]:
    """Whether it has hooks of `register_hook`, and of `register_post_accumulate_grad_hook`."""
    return bool(tensor._backward_hooks), bool(tensor._post_accumulate_grad_hooks)  # type: ignore[attr-defined]
