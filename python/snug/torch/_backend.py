# SPDX-License-Identifier: Apache-2.0
"""The backend of torch.compile: graphs come in, are planned within the bytes that are left for them, and run in the planned order."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule
from torch.multiprocessing.reductions import StorageWeakRef

from .. import solve
from .._errors import DoesNotFit, Error
from ._dropout import OWN_OPS, take_apart
from ._joint import Joint, Price, list_writes_in_forward
from ._memory import bytes_of, shown
from ._prices import Prices
from ._program import Program, Watch
from ._report import RegionPlan
from ._resident import count_resident, parameters_of
from ._split import split

MOST_SHAPES = 8


class Backend:
    """What torch.compile is given. `plans` has the plan of every graph and shape that was met, in order."""

    def __init__(self, memory: int | str, *, optimizer: torch.optim.Optimizer | None, resident_bytes: int | None, grads: str, count: str,
                 effort: str) -> None:
        self.memory = bytes_of("memory", memory)
        if optimizer is None and resident_bytes is None:
            raise Error("bad_config", "optimizer", "is not given, and its states are part of the step",
                        "give optimizer=, or resident_bytes=0 where there is none")
        if grads not in ("accumulate", "none"):
            raise Error("bad_config", "grads", f"is {grads!r}", 'one of "accumulate", "none"')
        if count not in ("workspace", "storages"):
            raise Error("bad_config", "count", f"is {count!r}", 'one of "workspace", "storages"')
        self.optimizer = optimizer
        self.resident_bytes = 0 if resident_bytes is None else bytes_of("resident_bytes", resident_bytes)
        self.grads = grads
        self.count = count
        self.effort = effort
        self.plans: list[RegionPlan] = []
        self.parts: list[_Compiled] = []
        self._prices: dict[str, Prices] = {}

    def __call__(self, module: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        return _Region(self, module)

    def prices(self, device: torch.device) -> Prices:
        return self._prices.setdefault(str(device), Prices(device))

    def waiting_bytes(self, apart_from: _Compiled | None = None) -> int:
        """What forward parts have handed to backward parts that have not run."""
        return sum(part.saved_bytes() for part in self.parts if part is not apart_from)


class _Region:
    """One graph of Dynamo's. It is compiled at its first call for every shape, since then all that is in memory is known."""

    def __init__(self, backend: Backend, module: GraphModule) -> None:
        self.backend = backend
        self.module = module
        self.compiled: dict[Any, _Compiled] = {}

    def __call__(self, *args: Any) -> Any:
        key = (torch.is_grad_enabled(), *(_shape_of(each) for each in args))
        compiled = self.compiled.get(key)
        if compiled is None:
            if len(self.compiled) == MOST_SHAPES:
                raise Error("unsupported", "shapes", f"are new for the {MOST_SHAPES + 1}th time: there is a plan for each", "pad batches to a few shapes")
            compiled = self.compiled[key] = _Compiled(self.backend, self.module, args)
        return compiled(args)


def _shape_of(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return (tuple(value.shape), value.stride(), value.dtype, value.device, value.requires_grad)
    return value


def device_of(args: Sequence[Any]) -> torch.device:
    devices = {each.device for each in args if isinstance(each, torch.Tensor) and each.dim()} or {each.device for each in args if isinstance(each, torch.Tensor)}
    if len(devices) > 1:
        raise Error("unsupported", "devices", f"are several: {', '.join(sorted(map(str, devices)))}", "put model and batch on one device")
    device = next(iter(devices), torch.device("cpu"))
    if device.type not in ("cpu", "cuda"):
        raise Error("unsupported", "device", f"is {device}", "one of cpu, cuda")
    return device


class _Compiled:
    """A graph for one set of shapes: its plan, and the two programs."""

    def __init__(self, backend: Backend, module: GraphModule, args: Sequence[Any]) -> None:
        self.backend = backend
        self.args: Sequence[Any] | None = args  # while it is compiled
        self.plan: RegionPlan | None = None
        self.forward: Program | None = None
        self.backward: Program | None = None
        self.counted: set[str] = set()  # inputs of the backward part that ops of the forward part made
        self.watch: Watch | None = None
        self.saved: list[tuple[StorageWeakRef, int]] = []
        compiler = aot_autograd(fw_compiler=self._compile_forward, bw_compiler=self._compile_backward, inference_compiler=self._compile_inference,
                                partition_fn=self._partition, keep_inference_input_mutations=True)
        self.run = compiler(module, list(args))
        self.args = None
        backend.parts.append(self)

    def __call__(self, args: Sequence[Any]) -> Any:
        if self.plan is not None:
            self._check_grads(args)
        return self.run(*args)

    def saved_bytes(self) -> int:
        self.saved = [each for each in self.saved if not each[0].expired()]
        return sum(count for _, count in self.saved)

    # --- while it is compiled

    def _partition(self, module: GraphModule, joint_inputs: Any, *, num_fwd_outputs: int, **more: Any) -> tuple[GraphModule, GraphModule]:
        assert self.args is not None
        module.graph.eliminate_dead_code()
        take_apart(module.graph)
        list_writes_in_forward(module.graph)
        module.recompile()
        device = device_of(self.args)
        prices = self.backend.prices(device)
        joint = Joint(module.graph, num_fwd_outputs, self._price_of(prices), holds_tangents=True, own_ops=OWN_OPS)
        prices.save()
        if not joint.of_tangents - set(joint.tangents):
            from torch._functorch.partitioners import default_partition

            return default_partition(module, joint_inputs, num_fwd_outputs=num_fwd_outputs, **more)
        self.plan = plan_region(self.backend, joint, self.args, device)
        schedule = self.plan.report
        forward, backward, saved = split(module, joint, schedule["schedule"], schedule["boundary_step"], schedule["crossing"])
        self.counted = {node.name for node in saved if joint.base_of(joint.names[node][0]) not in joint.resident}
        self.saved_places = [num_fwd_outputs + i for i, node in enumerate(saved) if node.name in self.counted]
        self.backend.plans.append(self.plan)
        return forward, backward

    def _price_of(self, prices: Prices) -> Callable[[Any], Price]:
        if self.backend.count == "workspace":
            return prices.of
        return lambda node: prices.of(node)._replace(scratch=0)

    def _compile_forward(self, module: GraphModule, _: Any) -> Any:
        self.forward = Program(module)
        return _boxed(self._run_forward if self.plan is not None else self.forward)

    def _compile_backward(self, module: GraphModule, _: Any) -> Any:
        self.backward = Program(module)
        return _boxed(self._run_backward if self.plan is not None else self.backward)

    def _compile_inference(self, module: GraphModule, _: Any) -> Any:
        return _boxed(Program(module))

    # --- while it runs

    def _check_grads(self, args: Sequence[Any]) -> None:
        if self.backend.grads != "none" or not torch.is_grad_enabled():
            return
        for each in (*args, *parameters_of(self.backend.optimizer)):
            if isinstance(each, torch.Tensor) and each.is_leaf and each.requires_grad and each.grad is not None:
                raise Error("out_of_budget", "grads", 'is "none", but a parameter has a gradient when the forward part begins',
                            'call optimizer.zero_grad(set_to_none=True) before, or plan with grads="accumulate"')

    def _run_forward(self, args: list[Any]) -> Any:
        assert self.plan is not None and self.forward is not None
        waiting = self.backend.waiting_bytes()
        if self.plan.forward_peak_bytes - self.plan.waiting_bytes + waiting > self.backend.memory:
            raise Error("out_of_budget", "memory", f"does not hold this forward part ({shown(self.plan.forward_peak_bytes)}) beside the {shown(waiting)} that an earlier "
                        "one keeps for a backward part that has not run", "call backward first, or let go of the earlier result")
        if self.watch is None:
            self.watch = Watch()
            results = self.forward.watched(args, self.watch, set())
            self.plan.measure_forward(self.watch.peak)
        else:
            results = self.forward(args)
        self.saved = []
        for place in self.saved_places:
            storage = results[place].untyped_storage()
            self.saved.append((StorageWeakRef(storage), storage.nbytes()))
        return results

    def _run_backward(self, args: list[Any]) -> Any:
        assert self.plan is not None and self.backward is not None and self.watch is not None
        if self.plan.measured_backward_bytes is not None:
            return self.backward(args)
        self.watch.peak = 0
        results = self.backward.watched(args, self.watch, self.counted)
        self.plan.measure_backward(self.watch.peak)
        return results


def _boxed(run: Callable[[list[Any]], Any]) -> Any:
    def call(args: list[Any]) -> Any:
        return run(args)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def plan_region(backend: Backend, joint: Joint, args: Sequence[Any], device: torch.device) -> RegionPlan:
    """Raises DoesNotFit, with the proof, where no schedule is within the bytes that are left."""
    resident = count_resident(args, backend.optimizer, backend.resident_bytes, backend.grads, device)
    waiting = backend.waiting_bytes()
    tangents = sum(each.meta["val"].untyped_storage().nbytes() for each in joint.tangents)
    base = resident.total + waiting
    update = resident.total + resident.update_scratch + (sum(resident.trained.values()) if backend.grads == "none" else 0)
    if update > backend.memory:
        raise DoesNotFit("out_of_budget", "memory", f"{shown(backend.memory)} does not hold the update: parameters, gradients, states and what "
                         f"{type(backend.optimizer).__name__}.step takes are {shown(update)}", "an optimizer with smaller states, or foreach=False")
    problem = joint.problem(forward_base_bytes=base, backward_base_bytes=base + tangents, between_bytes=base + tangents)
    try:
        report = solve.remat(problem, memory=backend.memory, effort=backend.effort)
    except DoesNotFit as error:
        report = getattr(error, "report", {})
        raise DoesNotFit("out_of_budget", "memory", f"{shown(backend.memory)}, of which {shown(base)} are resident: {error.message}",
                         f"memory={report.get('peak_bytes', 0)} fits") from error
    return RegionPlan(memory=backend.memory, resident=resident, waiting_bytes=waiting, tangent_bytes=tangents, update_peak_bytes=update, report=report, problem=problem,
                      count=backend.count)
