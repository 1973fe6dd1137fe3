# SPDX-License-Identifier: Apache-2.0
"""A graph for one set of shapes under Inductor: it compiles both parts, and the partition is ours.

PyTorch's own partition is taken where its peak is within the budget. Elsewhere one of the planner's is that is
(`_candidates.py`). Where all of the graph could be kept, what PyTorch's takes is read while Inductor compiles it, before its
kernels are: it is compiled once, and nothing is lowered beside that.
"""
from __future__ import annotations

import contextlib
import hashlib
import json
import operator
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch._inductor import config as inductor_config
from torch._inductor.compile_fx import compile_fx, compile_fx_inner
from torch._inductor.custom_graph_pass import CustomPartitionerFn
from torch.fx import GraphModule, Node
from torch.utils.checkpoint import CheckpointPolicy

from .. import version
from .._errors import DoesNotFit, Error
from ._candidates import Candidates, Parts
from ._compiled import Compiled, Held, boxed, device_of, held, nothing_donated, num_outputs, there
from ._gradients import leave_larger_storages
from ._joint import NO_BACKWARD_PART, Joint, Price, draws, list_forward_part, no_backward_part, written
from ._lowered import Part, Reader, generate, guarded, seen_by
from ._marks import make_again, storages_of
from ._measure import growth
from ._memory import shown
from ._numbers import copied
from ._prices import Prices
from ._region import RegionPlan, refusal, warn_of_what_is_not_seen, what_fits

if TYPE_CHECKING:
    from ._backend import Backend

#: Of the time of an op that Inductor puts into a kernel with others: its way through memory is what mostly goes.
FUSED = 0.125
_FUSED_BESIDE_POINTWISE = ("aten::clone", "aten::full", "aten::_to_copy", "aten::constant_pad_nd", "aten::cat")
_DRAWN_BY_SEED = (torch.ops.aten.rand, torch.ops.aten.randn, torch.ops.aten.randint)


class Partitioner(CustomPartitionerFn):
    """What Inductor asks for the two parts, and what its caches of compiled code know of them."""

    def __init__(self, partition: Callable[..., Parts]) -> None:
        self.partition = partition
        self.key = ""

    def __call__(self, gm: GraphModule, joint_inputs: Sequence[object], **words: Any) -> Parts:
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


class _Misses(BaseException):
    """What is compiled is not within the budget after all. No Exception, which Inductor would take for a failure of its own."""


def fused_joint(module: GraphModule, num_forward_outputs: int, prices: Prices) -> Joint:
    """The problem of Inductor's joint graph: what it fuses costs little, and takes nothing beside its result."""
    def price(node: Any) -> Price:
        found = prices.of(node)
        return Price(FUSED * found.cost) if _is_fused(node) else found._replace(storages=None)

    module.graph.eliminate_dead_code()
    list_forward_part(module.graph, num_forward_outputs)
    make_again(module.graph, num_forward_outputs, draws)
    module.recompile()
    joint = Joint(module.graph, num_forward_outputs, price, holds_tangents=True)
    prices.save()
    return joint


def _is_fused(node: Node) -> bool:
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    return torch.Tag.pointwise in node.target.tags or node.target.namespace == "prims" or node.target._schema.name in _FUSED_BESIDE_POINTWISE


def _keep_what_is_read_of_written(module: GraphModule) -> None:
    """PyTorch's partitioner would make it again in the backward part, of inputs that the forward part has written since: wrong gradients, without a word."""
    changed: set[int] = set()
    for node in module.graph.nodes:
        changed.update(key for each in written(node) if each.op == "placeholder" for key in storages_of(each))
    for node in module.graph.nodes if changed else ():
        if node.op != "call_function" or written(node) or not any(changed.intersection(storages_of(each)) for each in node.all_input_nodes):
            continue
        if not changed.intersection(storages_of(node)):  # else a view of them
            for each in [user for user in node.users if user.target is operator.getitem] or [node]:
                each.meta["recompute"] = CheckpointPolicy.MUST_SAVE


def _draw_in_order(nodes: Iterable[Node]) -> bool:
    """Whether some op draws random numbers as it does one by one, beside others that draw. Inductor's own kernels have a seed each, and all of these are drawn at once."""
    that_draw = [node.target for node in nodes if node.op == "call_function" and draws(node)]
    return len(that_draw) > 1 and (inductor_config.fallback_random or any(each.overloadpacket not in _DRAWN_BY_SEED and each.namespace != "prims" for each in that_draw))


class Fused(Compiled):
    """`plan.report["schedule"]` is empty where the partition is PyTorch's."""

    def _compile(self, module: GraphModule, args: Sequence[Any]) -> Callable[..., Any]:
        _check_settings()
        self.lowered, self.made = [], []
        self.partitioner = Partitioner(self._partition)
        patches: dict[str, Any] = {"custom_partitioner_fn": self.partitioner}
        if self.backend.numerics == "strict":
            patches["emulate_precision_casts"] = True
            if hasattr(inductor_config, "numerics"):  # not in PyTorch 2.11
                patches["numerics"] = "strict"
        try:
            try:
                return self._compiled(module, args, patches)
            except _Misses:
                self.plan, self.reader, self.may_read = None, None, False
                return self._compiled(module, args, patches)
        except _NoneFits as none:
            smallest = none.smallest
        finally:
            self.candidates = None  # which has the arguments
        self._is_exact = True
        try:
            run = super()._compile(module, args)
        except DoesNotFit as error:
            least = min(smallest, error.smallest_bytes or smallest)
            raise refusal(least, f"{error.message}; by Inductor's buffers the smallest is {smallest} bytes", what_fits(self.backend, least)) from error
        warnings.warn(f"snug.torch: no partition for Inductor was found within {shown(self.backend.memory)} (the smallest takes {smallest} bytes): "
                      'this graph runs op by op, as with mode="exact"', stacklevel=2)
        return run

    def _compiled(self, module: GraphModule, args: Sequence[Any], patches: dict[str, Any]) -> Callable[..., Any]:
        own = copied(module)  # Inductor takes it
        # What is in AOTAutograd's cache would run without a plan; compiled kernels lie in Inductor's. What is read while it is compiled is
        # known before it runs.
        words = dict(enable_autograd_cache=False, force_non_lazy_backward_lowering=self.may_read)
        with torch._functorch.config.patch(words), nothing_donated(), self.numbers.traced(args) as given:  # Inductor caches nothing without an environment of shapes
            return compile_fx(own, given, inner_compile=self._inner, config_patches=patches, ignore_shape_env=True)

    _is_exact = False
    may_read = True  # a partition of PyTorch's while it is compiled
    reader: Reader | None = None  # while one is
    candidates: Candidates | None = None  # while it is compiled
    keeps_order = False  # Inductor orders ops by what they let go of, and draws would change places
    prices = 0  # partitions that are lowered for a price list
    lowered: list[RegionPlan]  # of the partitions that were lowered, PyTorch's own first where it may fit
    made: list[Held]  # what crosses and the forward part made

    def _partition(self, module: GraphModule, joint_inputs: Any, *, num_fwd_outputs: int, **more: Any) -> Parts:
        if self._is_exact:
            return super()._partition(module, joint_inputs, num_fwd_outputs=num_fwd_outputs, **more)
        from torch._functorch.partitioners import min_cut_rematerialization_partition

        assert self._args is not None
        backend = self.backend
        self.device = device_of(self._args)
        prices = backend.prices(self.device)
        self.num_results = num_fwd_outputs
        leave_larger_storages(module.graph, num_fwd_outputs, for_inductor=True)
        own = copied(module)
        joint = fused_joint(own, num_fwd_outputs, prices)
        _keep_what_is_read_of_written(module)
        parts = min_cut_rematerialization_partition(module, joint_inputs, num_fwd_outputs=num_fwd_outputs, **more)
        warn_of_what_is_not_seen(backend, joint, self._args)
        self.candidates = candidates = Candidates(backend, own, joint, self._args, self.device, self.allowance())
        self.lowered = candidates.plans
        self.keeps_order = _draw_in_order(own.graph.nodes)
        with self._in_order():
            best = self._best(candidates, parts)
            candidates.lower_price_list(self.prices)
        prices.save()
        if best is None:
            raise _NoneFits(min(each.peak_bytes for each in candidates.plans))
        self.plan = plan = best[0]
        self._note_saved_inputs(joint, {node.name for node in best[1][1].graph.find_nodes(op="placeholder")})
        costs = [(op["id"], op["cost"]) for op in plan.problem["ops"]]
        words = [version(), torch.__version__, backend.memory, backend.grads, backend.differentiate, backend.effort, costs, plan.report["schedule"]]
        self.partitioner.key = hashlib.sha256(json.dumps(words).encode()).hexdigest()
        return best[1]

    def _best(self, candidates: Candidates, parts: Parts) -> tuple[RegionPlan, Parts] | None:
        """`parts`: PyTorch's own."""
        if self.backend.is_learning and self.share is None:
            found = next((each for each in candidates.that_hands_least() if candidates.fits(each[0])), None)
            if found is not None:
                return found
        if self.may_read and candidates.surely_fits():
            self.reader = candidates.reader()
            return candidates.unread(), parts
        own = candidates.lower_pytorchs(parts), parts
        return own if candidates.fits(own[0]) else candidates.search()

    def _inner(self, module: GraphModule, inputs: Sequence[Any], **words: Any) -> Any:
        if self.plan is None:
            if self.is_of_step:
                self._plan_without_backward(module, inputs)
            code = compile_fx_inner(module, inputs, **words)
            if not self.is_of_step:
                return code
            self.forward = code  # type: ignore[assignment]
            return boxed(self._run_forward)
        with self._in_order():
            if self.reader is not None:
                code = self._compile_and_read(module, inputs, self.reader, **words)
            else:
                with guarded() if self.plan.report["schedule"] else contextlib.nullcontext():
                    code = compile_fx_inner(module, inputs, **words)
        if words.get("is_backward"):
            self.backward = code  # type: ignore[assignment]
            return boxed(self._run_backward)
        self.forward = code  # type: ignore[assignment]
        return boxed(self._run_forward)

    def _plan_without_backward(self, module: GraphModule, inputs: Sequence[Any]) -> None:
        """Of a graph that other graphs of the step read: it is as Inductor makes it, or runs op by op."""
        assert self._args is not None
        self.device = device_of(self._args)
        prices = self.backend.prices(self.device)
        own = copied(module)
        self.num_results = num_outputs(own)
        joint = fused_joint(own, self.num_results, prices)
        candidates = Candidates(self.backend, own, joint, self._args, self.device, self.allowance())
        self.lowered = candidates.plans
        reader = candidates.reader()
        given = copied(module)
        reader.read(generate(given, inputs, False), given)
        plan = candidates.pytorchs([*reader.parts, Part([0], 0)])
        prices.save()
        if not candidates.fits(plan):
            raise _NoneFits(plan.peak_bytes)
        self.plan = replace(plan, problem=_as_one_op(reader.parts[0]))

    def _in_order(self) -> contextlib.AbstractContextManager[None]:
        return inductor_config.patch(reorder_for_peak_memory=False) if self.keeps_order else contextlib.nullcontext()  # type: ignore[no-any-return]

    def _compile_and_read(self, module: GraphModule, inputs: Sequence[Any], reader: Reader, **words: Any) -> Any:
        given = copied(module)  # Inductor changes it
        is_backward = words.get("is_backward", False)

        def read(graph: Any) -> None:
            if len(reader.parts) > is_backward:
                return
            assert self.candidates is not None
            if self.candidates.exceeds(reader.read(graph, given)):
                raise _Misses
            if is_backward:
                self._take_read(reader)

        with seen_by(read):
            code = compile_fx_inner(module, inputs, **words)
        if len(reader.parts) == is_backward:  # it lay in Inductor's cache
            read(generate(given, inputs, is_backward))
        return code

    def _take_read(self, reader: Reader) -> None:
        assert self.plan is not None and self.candidates is not None
        plan = self.candidates.pytorchs(reader.parts)
        if not self.candidates.fits(plan):
            raise _Misses
        self.backend.prices(self.device).save()
        self.plan, self.reader = plan, None

    # --- while it runs

    def _run_forward(self, args: list[Any]) -> Any:
        if self._is_exact:
            return super()._run_forward(args)
        assert self.plan is not None and self.forward is not None
        self._check_room(args)
        handed_on = self._kept_inputs(args)
        self._note_inputs(args)
        resident = {each.untyped_storage()._cdata for each in args if isinstance(each, torch.Tensor)}
        if not self.plan.is_measured and _can_measure():
            with growth(self.device) as grown:
                results = self.forward(args)
            self.plan.measure_forward(grown.peak_bytes)
        else:
            results = self.forward(args)
        made, crossed = ([each for each in part if isinstance(each, torch.Tensor) and each.untyped_storage()._cdata not in resident]
                         for part in (results[: self.num_results], results[self.num_results:]))
        crossing = {each.untyped_storage()._cdata: each for each in crossed}
        self.made += [held(each) for each in crossing.values()]
        self._note_forward(handed_on + [held(each) for each in crossing.values()], made)
        return results

    def _run_backward(self, args: list[Any]) -> Any:
        if self._is_exact:
            return super()._run_backward(args)
        assert self.plan is not None and self.backward is not None
        del self.pending[-1:]  # none where it runs again, with retain_graph=True
        self.backend.make_sure()
        if self._is_retained(args) or self.plan.measured_backward_bytes is not None or not _can_measure():
            return self.backward(args)
        results = {storage.cdata: count for storage, count in self.results if not storage.expired()}
        waiting = there(self.made)
        mine = {each.untyped_storage()._cdata: each for each in args if isinstance(each, torch.Tensor) and each.untyped_storage()._cdata in waiting}
        before = sum({**results, **{key: waiting[key] for key in mine}}.values())
        with growth(self.device, mine.values()) as grown:
            mine.clear()
            gradients = self.backward(args)
        self.plan.measure_backward(before + grown.peak_bytes)
        return gradients


def _as_one_op(part: Part) -> dict[str, Any]:
    """The problem of a graph that has one partition, which others of its step run beside."""
    results = {str(key): count for key, count in filter(None, part.outputs)}
    storages = [{"id": name, "bytes": count} for name, count in {**results, NO_BACKWARD_PART: 0, "graph": 0}.items()]
    op = {"id": "graph", "phase": "forward", "cost": part.milliseconds, "inputs": [], "outputs": ["graph", *results], "scratch_bytes": part.peak - sum(results.values()), "recompute": False}
    return {"storages": storages, "resident": [], "keep": list(results), "boundary": {"forward_outputs": list(results)}, "ops": [op, no_backward_part()]}


class _IsPlanned(Exception):
    """What would be compiled now is only planned."""


class Planned(Fused):
    """Up to its plan; no code is made. `lowered` has `prices` more partitions than the plan needs."""

    may_read = False

    def __init__(self, backend: Backend, module: GraphModule, args: Sequence[Any], prices: int) -> None:
        self.prices = prices
        try:
            super().__init__(backend, module, args)
        except _IsPlanned:
            self._args = None

    def _inner(self, module: GraphModule, inputs: Sequence[Any], **words: Any) -> Any:
        raise _IsPlanned


def _can_measure() -> bool:
    """On the CPU by PyTorch's profiler, of which there is one: a run within another measurement is left to that."""
    return not torch.autograd._profiler_enabled()


def _check_settings() -> None:
    if inductor_config.triton.cudagraphs:
        raise Error("unsupported", "mode", 'is "inductor" with CUDA graphs, which keep what their kernels ever allocated', "leave triton.cudagraphs off")
    if inductor_config.cpp_wrapper:
        raise Error("unsupported", "mode", 'is "inductor" with cpp_wrapper, whose program is not read', "leave cpp_wrapper off")
