# SPDX-License-Identifier: Apache-2.0
"""A graph for one set of shapes under Inductor: it compiles both parts, and the partition is ours.

PyTorch's own partition is taken where its peak is within the budget. Elsewhere the planner's is, and since what it counts are
tensors of the graph, and what Inductor allocates are buffers behind fusion, each partition is lowered (`_lowered.py`) and the
planner is asked again with what the two differ in, three times at most.
"""
from __future__ import annotations

import copy
import hashlib
import json
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._inductor import config as inductor_config
from torch._inductor.compile_fx import compile_fx, compile_fx_inner
from torch._inductor.custom_graph_pass import CustomPartitionerFn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from .. import version
from .._errors import DoesNotFit, Error
from ._compiled import Compiled, boxed, device_of, held
from ._joint import Joint, Price, list_writes_in_forward
from ._lowered import Part, lowered
from ._measure import growth
from ._memory import shown
from ._prices import Prices
from ._region import Allowance, RegionPlan, plan_region, refusal
from ._split import split

ROUNDS = 3
CLOSE = 0.97  # of the budget: no further round
#: Of the time of an op that Inductor puts into a kernel with others: its way through memory is what mostly goes.
FUSED = 0.125
#: No fusion of Inductor's that lengthens lives beyond the peak: without it, what is made again is made with what is needed early.
_GUARD = {"fusion_memory_timeline_peak_memory_increase_gb": 0.0}
_FUSED_BESIDE_POINTWISE = ("aten::clone", "aten::full", "aten::_to_copy", "aten::constant_pad_nd", "aten::cat")


class Partitioner(CustomPartitionerFn):
    """What Inductor asks for the two parts, and what its caches of compiled code know of them."""

    def __init__(self, partition: Callable[..., tuple[GraphModule, GraphModule]]) -> None:
        self.partition = partition
        self.key = ""

    def __call__(self, gm: GraphModule, joint_inputs: Sequence[object], **words: Any) -> tuple[GraphModule, GraphModule]:
        return self.partition(gm, joint_inputs, **words)

    def uuid(self) -> Any:
        return self.key

    def __reduce__(self) -> Any:
        return str, (self.key,)


class _NoneFits(Exception):
    """No partition that was lowered is within the budget."""

    def __init__(self, smallest: int) -> None:
        super().__init__()
        self.smallest = smallest


def fused_joint(module: GraphModule, num_forward_outputs: int, prices: Prices) -> Joint:
    """The problem of Inductor's joint graph: what it fuses costs little, and takes nothing beside its result."""
    def price(node: Any) -> Price:
        found = prices.of(node)
        return Price(FUSED * found.cost) if _is_fused(node) else found._replace(storages=None)

    module.graph.eliminate_dead_code()
    list_writes_in_forward(module.graph)
    module.recompile()
    joint = Joint(module.graph, num_forward_outputs, price, holds_tangents=True)
    prices.save()
    return joint


def _is_fused(node: Node) -> bool:
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    return torch.Tag.pointwise in node.target.tags or node.target.namespace == "prims" or node.target._schema.name in _FUSED_BESIDE_POINTWISE


class Fused(Compiled):
    """`plan.report["schedule"]` is empty where the partition is PyTorch's."""

    def _compile(self, module: GraphModule, args: Sequence[Any]) -> Callable[..., Any]:
        _check_settings()
        self.partitioner = Partitioner(self._partition)
        patches = {"custom_partitioner_fn": self.partitioner}
        if inductor_config.fallback_random:
            patches["reorder_for_peak_memory"] = False  # draws would change places
        own = GraphModule(module, copy.deepcopy(module.graph))  # Inductor takes it
        mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())  # Inductor caches nothing without an environment of shapes
        shadows = [mode.from_tensor(each, static_shapes=True) if isinstance(each, torch.Tensor) else each for each in args]
        try:
            # What is in AOTAutograd's cache would run without a plan; compiled kernels lie in Inductor's.
            with torch._functorch.config.patch(donated_buffer=False, enable_autograd_cache=False), torch._guards.tracing(torch._guards.TracingContext(mode)):
                return compile_fx(own, shadows, inner_compile=self._inner, config_patches=patches, ignore_shape_env=True)
        except _NoneFits as none:
            smallest = none.smallest
        self._is_exact = True
        try:
            run = super()._compile(module, args)
        except DoesNotFit as error:
            least = min(smallest, error.smallest_bytes or smallest)
            raise refusal(least, f"{error.message}; by Inductor's buffers the smallest is {smallest} bytes", f"memory={least} fits") from error
        warnings.warn(f"snug.torch: no partition for Inductor was found within {shown(self.backend.memory)} (the smallest takes {smallest} bytes): "
                      'this graph runs op by op, as with mode="exact"', stacklevel=2)
        return run

    _is_exact = False
    watched: set[int] = set()  # storages that cross, of a forward part that was measured: the profiler sees them go

    def _partition(self, module: GraphModule, joint_inputs: Any, *, num_fwd_outputs: int, **more: Any) -> tuple[GraphModule, GraphModule]:
        if self._is_exact:
            return super()._partition(module, joint_inputs, num_fwd_outputs=num_fwd_outputs, **more)
        from torch._functorch.partitioners import min_cut_rematerialization_partition

        assert self._args is not None
        backend = self.backend
        self.device = device_of(self._args)
        prices = backend.prices(self.device)
        self.num_results = num_fwd_outputs
        own = GraphModule(module, copy.deepcopy(module.graph))
        joint = fused_joint(own, num_fwd_outputs, prices)
        parts = min_cut_rematerialization_partition(module, joint_inputs, num_fwd_outputs=num_fwd_outputs, **more)
        if not joint.of_tangents - set(joint.tangents):
            return parts

        def scratch_of(node: Node) -> int:
            return prices.of(node).scratch

        allowance = Allowance(waiting_bytes=backend.waiting_bytes(self._args))
        whole = plan_region(backend, joint, self._args, self.device, allowance, within=2**62)  # refuses what holds no update
        result = lowered(*parts, num_fwd_outputs, scratch_of)
        saved = [each for each in result[0].outputs[num_fwd_outputs:] if each is not None]
        schedule = {"schedule": [], "overhead": 0.0, "crossing": sorted({str(key) for key, _ in saved}), "crossing_bytes": sum(dict(saved).values())}
        own_plan = self._planned(whole, result, 1, {**whole.report, **schedule})
        if own_plan.peak_bytes <= backend.memory:
            return self._take(own_plan, parts)
        best: tuple[RegionPlan, tuple[GraphModule, GraphModule]] | None = None
        smallest = own_plan.peak_bytes
        for plan, parts in self._rounds(own, joint, allowance, scratch_of):
            smallest = min(smallest, plan.peak_bytes)
            if plan.peak_bytes <= backend.memory and (best is None or plan.overhead < best[0].overhead):
                best = plan, parts
        prices.save()
        if best is None:
            raise _NoneFits(smallest)
        return self._take(*best)

    def _rounds(self, module: GraphModule, joint: Joint, allowance: Allowance, scratch_of: Callable[[Node], int]) -> Any:
        """Partitions of the planner's, each with its plan, whose peaks are those of what was lowered."""
        assert self._args is not None
        memory = self.backend.memory
        tried: set[str] = set()
        below, above = 0, 2**62  # budgets of the planner whose partition fitted, and did not
        within = memory
        for number in range(ROUNDS):
            try:
                plan = plan_region(self.backend, joint, self._args, self.device, allowance, within=within)
            except DoesNotFit:
                plan = plan_region(self.backend, joint, self._args, self.device, allowance, is_smallest=True)
            report = plan.report
            if str(report["schedule"]) in tried:
                return
            tried.add(str(report["schedule"]))
            forward, backward, _ = split(module, joint, report["schedule"], report["boundary_step"], report["crossing"])
            with inductor_config.patch(_GUARD):
                result = lowered(forward, backward, len(joint.forward_outputs), scratch_of)
            counted = plan.peak_bytes
            plan = self._planned(plan, result, 2 + number, report)
            yield plan, (forward, backward)
            if CLOSE * memory <= plan.peak_bytes <= memory:
                return
            if plan.peak_bytes <= memory:
                below = max(below, counted)
            else:
                above = min(above, counted)
            within = counted + memory - plan.peak_bytes
            if number == ROUNDS - 2 and not below:
                within -= int((1 - CLOSE) * memory)  # the last round had better fit
            if not below < within < above:
                within = (below + min(above, memory)) // 2 if below else 1

    def _planned(self, plan: RegionPlan, parts: tuple[Part, Part], rounds: int, report: dict[str, Any]) -> RegionPlan:
        base = plan.resident.total + plan.allowance.waiting_bytes
        peaks = {"forward_peak_bytes": base + parts[0].peak, "backward_peak_bytes": base + plan.tangent_bytes + parts[1].peak}
        return RegionPlan(plan.memory, plan.resident, plan.allowance, plan.tangent_bytes, {**report, **peaks}, plan.problem, mode="inductor", rounds=rounds)

    def _take(self, plan: RegionPlan, parts: tuple[GraphModule, GraphModule]) -> tuple[GraphModule, GraphModule]:
        self.plan = plan
        backend = self.backend
        costs = [(op["id"], op["cost"]) for op in plan.problem["ops"]]
        words = [version(), torch.__version__, backend.memory, backend.grads, backend.differentiate, backend.effort, costs, plan.report["schedule"]]
        self.partitioner.key = hashlib.sha256(json.dumps(words).encode()).hexdigest()
        return parts

    def _inner(self, module: GraphModule, inputs: Sequence[Any], **words: Any) -> Any:
        if self.plan is None:
            return compile_fx_inner(module, inputs, **words)
        with inductor_config.patch(_GUARD if self.plan.report["schedule"] else {}):
            code = compile_fx_inner(module, inputs, **words)
        if words.get("is_backward"):
            self.backward = code  # type: ignore[assignment]
            return boxed(self._run_backward)
        self.forward = code  # type: ignore[assignment]
        return boxed(self._run_forward)

    # --- while it runs

    def _run_forward(self, args: list[Any]) -> Any:
        if self._is_exact:
            return super()._run_forward(args)
        assert self.plan is not None and self.forward is not None
        self._check_room(args)
        resident = {each.untyped_storage()._cdata for each in args if isinstance(each, torch.Tensor)}
        is_watched = self.plan.measured_backward_bytes is None and _can_measure()
        if is_watched:
            with growth(self.device) as grown:
                results = self.forward(args)
            self.plan.measure_forward(grown.peak_bytes)
        else:
            results = self.forward(args)
        made = [each for each in results if isinstance(each, torch.Tensor) and each.untyped_storage()._cdata not in resident]
        crossing = {each.untyped_storage()._cdata: each for each in results[self.num_results:] if any(each is other for other in made)}
        self.saved += [held(each) for each in crossing.values()]
        self.watched = set(crossing) if is_watched else set()
        self.results = [held(each) for each in results[: self.num_results] if isinstance(each, torch.Tensor) and each.untyped_storage()._cdata not in resident]
        return results

    def _run_backward(self, args: list[Any]) -> Any:
        if self._is_exact:
            return super()._run_backward(args)
        assert self.plan is not None and self.backward is not None
        results = {storage.cdata: count for storage, count in self.results if not storage.expired()}
        waiting = self.waiting()
        mine = {each.untyped_storage()._cdata: each for each in args if isinstance(each, torch.Tensor) and each.untyped_storage()._cdata in waiting}
        crossed = [held(each) for key, each in mine.items() if key not in results]
        before = sum({**results, **{key: waiting[key] for key in mine}}.values())
        if self.plan.measured_backward_bytes is None and self.watched.issuperset(mine) and _can_measure():
            mine.clear()
            with growth(self.device) as grown:
                gradients = self.backward(args)
            if not self._check_retained(crossed, gradients):
                self.plan.measure_backward(before + grown.peak_bytes)
            return gradients
        mine.clear()
        gradients = self.backward(args)
        self._check_retained(crossed, gradients)
        return gradients


def _can_measure() -> bool:
    """On the CPU by PyTorch's profiler, of which there is one: a run within another measurement is left to that."""
    return not torch.autograd._profiler_enabled()


def _check_settings() -> None:
    if inductor_config.triton.cudagraphs:
        raise Error("unsupported", "mode", 'is "inductor" with CUDA graphs, which keep what their kernels ever allocated', "leave triton.cudagraphs off")
    if inductor_config.cpp_wrapper:
        raise Error("unsupported", "mode", 'is "inductor" with cpp_wrapper, whose program is not read', "leave cpp_wrapper off")
