# SPDX-License-Identifier: Apache-2.0
"""The plan of one graph: what of the memory it may have, what the planner made of it, and what was measured."""
from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from .. import solve
from .._errors import DoesNotFit, Error
from ._joint import NO_BACKWARD_PART, Joint
from ._memory import shown, shown_apart
from ._ranks import with_prices_of_first_rank
from ._resident import Resident, count_resident, hooks_of

# Predicted time above that of keeping all: from where on the smallest peak's is said, and what running the forward part once more costs.
DEAR = 1.0
FORWARD_AGAIN = 1 / 3


@dataclass(frozen=True)
class Allowance:
    """What graphs of the same step leave for this one."""

    #: What graphs before this one hold for their backward parts while it runs.
    waiting_bytes: int = 0
    #: The most that it may hand to its own backward part, its results among it; None where only the budget limits it.
    crossing_bytes: int | None = None
    #: Of inputs that other graphs have, which lie there through the whole step: batches, buffers, parameters with their gradients.
    inputs_of_others: int = 0
    #: Of parameters that graphs behind this one read as well: their gradients wait, added up, for this one's, and the largest is added up beside both.
    waiting_gradients: int = 0

    @property
    def taken_bytes(self) -> int:
        """By others, while it runs."""
        return self.waiting_bytes + self.inputs_of_others


@dataclass
class RegionPlan:
    """The plan of one graph for one set of shapes. All bytes are of the whole step on the device."""

    memory: int
    resident: Resident
    allowance: Allowance
    tangent_bytes: int
    #: What snug.solve.remat returned (docs/solve.md), and for which problem.
    report: dict[str, Any] = field(repr=False)
    problem: dict[str, Any] = field(repr=False)
    #: Of inputs that other graphs of the step made, and that are kept for the backward part: the most of any call.
    kept_input_bytes: int = 0
    #: Of inputs that are results of graphs before it, which are resident here, and handed on there: the least of any call.
    result_input_bytes: int | None = None
    #: Of inputs that graphs behind this one read, which were not known when it was planned; they lie there beside it.
    later_bytes: int = 0
    #: Of `Allowance.waiting_gradients`, what was not known then either.
    more_gradients: int = 0
    #: At the first run: the storages that ops made, with what is resident.
    measured_forward_bytes: int | None = None
    measured_backward_bytes: int | None = None
    #: "exact", or "inductor": peaks are those of Inductor's buffers then, and measured peaks those of the allocator.
    mode: str = "exact"
    #: Partitions that were lowered, PyTorch's own first where it may fit; 0 in mode "exact".
    rounds: int = 0
    #: Mode "inductor": bytes line by line of the programs that call the kernels, forward and backward part.
    levels: tuple[list[int], ...] = field(default=(), repr=False)
    #: A frozen part of a step has none.
    has_backward_part: bool = True

    @property
    def peak_bytes(self) -> int:
        return max(self.forward_peak_bytes, self.backward_peak_bytes, self.update_peak_bytes)

    @property
    def forward_peak_bytes(self) -> int:
        return self.report["forward_peak_bytes"] + self.later_bytes

    @property
    def backward_peak_bytes(self) -> int:
        return self.report["backward_peak_bytes"] + self.later_bytes + self.more_gradients

    @functools.cached_property
    def _retained(self) -> int:
        return peak_with_retained(self.problem, self.report)

    @property
    def retained_peak_bytes(self) -> int:
        """Of a backward part behind which all that crosses stays, as retain_graph=True wants."""
        return self._retained + self.later_bytes + self.more_gradients

    @property
    def update_peak_bytes(self) -> int:
        return self.resident.update_peak + self.inputs_of_others

    @property
    def inputs_of_others(self) -> int:
        return self.allowance.inputs_of_others + self.later_bytes

    @property
    def known_allowance(self) -> Allowance:
        """What would have been left for others, had all been known that is now."""
        return replace(self.allowance, inputs_of_others=self.inputs_of_others, waiting_gradients=self.allowance.waiting_gradients + self.more_gradients)

    @property
    def overhead(self) -> float:
        """Predicted time beside that of keeping all, or, in mode "inductor", of PyTorch's own partition, less 1."""
        return self.report["overhead"]

    @property
    def milliseconds(self) -> float:
        """Predicted, of forward and backward part."""
        return self.report["cost"]

    @property
    def is_measured(self) -> bool:
        return (self.measured_backward_bytes if self.has_backward_part else self.measured_forward_bytes) is not None

    @property
    def runs_again(self) -> int:
        """Ops that run more than once, views aside, by how often they do."""
        free = {op["id"] for op in self.problem["ops"] if op["cost"] == 0}
        steps = [step for step in self.report["schedule"] if step not in free]
        return len(steps) - len(set(steps))

    @property
    def has_learned(self) -> bool:
        return bool(self.later_bytes or self.more_gradients)

    @property
    def learned(self) -> Allowance | None:
        """What a plan in place of this one has to leave for others; None where this one has room for them."""
        return self.known_allowance if self.has_learned and self.peak_bytes > self.memory else None

    def learn(self, later_bytes: int, waiting_gradients: int) -> None:
        """Of what graphs behind this one read."""
        self.more_gradients = max(self.more_gradients, waiting_gradients - self.allowance.waiting_gradients)
        self.later_bytes += later_bytes
        if self.measured_forward_bytes is not None:
            self.measured_forward_bytes += later_bytes

    def forget(self) -> None:
        """What was learned of graphs behind this one, which did not run back after all."""
        if self.measured_forward_bytes is not None:
            self.measured_forward_bytes -= self.later_bytes
        self.more_gradients = self.later_bytes = 0

    def measure_forward(self, made: int, *, is_outdated: bool = False) -> None:
        self.measured_forward_bytes = made + self.resident.total + self.known_allowance.taken_bytes
        self._compare("forward", self.measured_forward_bytes, self.forward_peak_bytes, is_outdated)

    def measure_backward(self, made: int, *, is_outdated: bool = False) -> None:
        known = self.known_allowance
        self.measured_backward_bytes = made + self.resident.total + known.taken_bytes + known.waiting_gradients + self.tangent_bytes
        self._compare("backward", self.measured_backward_bytes, self.backward_peak_bytes, is_outdated)

    def _compare(self, part: str, measured: int, planned: int, is_outdated: bool) -> None:
        if self.mode == "inductor":
            if measured > self.memory:
                raise refusal(measured, f"{shown(self.memory)} does not hold the {part} part: {measured} bytes measured, {planned} planned of Inductor's buffers",
                               f'resident_bytes={self.resident.other + measured - planned}, so that the plan leaves room, or mode="exact"')
        elif is_outdated:
            if measured > self.memory:
                warnings.warn(f"snug.torch: this step took {shown(measured)} of {shown(self.memory)}: ops that do not run on made-up operands took what was not known before. "
                              "At the next step the graph is planned anew", stacklevel=2)
        elif measured > planned:
            raise Error("internal", f"{part} part", f"had {measured} bytes in memory, {planned} were planned", "report the model: the plan did not know one of its ops")

    def __str__(self) -> str:
        resident = self.resident
        rows = [
            ("memory", shown(self.memory), ""),
            ("planned peak", shown(self.peak_bytes), f"forward {shown(self.forward_peak_bytes)}, backward {shown(self.backward_peak_bytes)}, update {shown(self.update_peak_bytes)}"),
            ("resident", shown(resident.total), f"parameters {shown(resident.parameters)}, gradients {shown(resident.gradients)}, states {shown(resident.states)}, "
             f"buffers and inputs {shown(resident.buffers_and_inputs)}" + (f", libraries {shown(resident.libraries)}" if resident.libraries else "") + (f", other {shown(resident.other)}" if resident.other else "")
             + (f", buckets {shown(resident.buckets)}" if resident.buckets else "") + (f"; beside it inputs of other graphs {shown(self.inputs_of_others)}" if self.inputs_of_others else "")),
            ("kept", shown(self.report["crossing_bytes"]), f"{len(self.report['crossing'])} tensors from forward to backward"),
            ("run again", str(self.runs_again), f"{100 * self.overhead:.1f} % more time than keeping all: {self.milliseconds:.1f} ms predicted"),
        ]
        if self.mode == "inductor":
            rows.append(("Inductor", "", f"compiles {'a partition of the planner' if self.report['schedule'] else 'PyTorch'}'s, of {self.rounds} lowered"))
        if self.measured_forward_bytes is not None:
            backward = "not run yet" if self.measured_backward_bytes is None else shown(self.measured_backward_bytes)
            backward = f"backward {backward}" if self.has_backward_part else NO_BACKWARD_PART
            rows.append(("measured", "", f"forward {shown(self.measured_forward_bytes)}, {backward} ({'allocator' if self.mode == 'inductor' else 'storages'})"))
        return "\n".join(f"{name:<13}{value:>12}  {more}".rstrip() for name, value, more in rows)


def with_bases(problem: dict[str, Any], base: int, tangents: int, allowance: Allowance, memory: int) -> dict[str, Any]:
    """The problem beside what is resident and what other graphs have in memory."""
    base += allowance.taken_bytes
    between = base + tangents
    if allowance.crossing_bytes is not None:
        between = max(between, memory - allowance.crossing_bytes)
    return {**problem, "boundary": {**problem["boundary"], "forward_base_bytes": base, "backward_base_bytes": base + tangents + allowance.waiting_gradients, "between_bytes": between}}


def beside(backend: Any, joint: Joint, args: Sequence[Any], device: torch.device) -> tuple[Resident, int]:
    """What a graph has in memory beside what its ops make: what is resident, and the bytes of its tangents."""
    # Where a step has several graphs, most results are what the next one reads, and gone behind its backward part.
    results = joint.result_bytes() if backend.graphs == "one" else 0
    tangents = sum(each.meta["val"].untyped_storage().nbytes() for each in joint.tangents)
    prices = backend.prices(device)
    constants = [operator.attrgetter(node.target)(joint.graph.owning_module) for node in joint.graph.nodes if node.op == "get_attr"]
    resident = count_resident([*args, *constants], backend.optimizer, backend.resident_bytes, backend.grads, device, results, tangents, prices)
    prices.save()
    return resident, tangents


def warn_of_what_is_not_seen(backend: Any, joint: Joint, args: Sequence[Any]) -> None:
    """Hooks of parameters, and a loss elsewhere, where no result is one number. Of a step of several graphs, another one may have the loss."""
    hooks = [hooks_of(each) for each in args if isinstance(each, torch.Tensor) and each.is_leaf and each.requires_grad]
    if any(of_gradient for of_gradient, _ in hooks):
        warnings.warn("snug.torch: parameters have hooks (register_hook), and what they make is not in the plan: leave room for it with resident_bytes=", stacklevel=2)
    if backend.optimizer is None and any(behind for _, behind in hooks):
        warnings.warn("snug.torch: parameters have hooks (register_post_accumulate_grad_hook), and where they step, the states and what a step takes are not in the plan: give optimizer=, "
                      "one of all parameters, which is only counted, or leave room with resident_bytes=", stacklevel=2)
    if backend.graphs == "one" and all(each.meta["val"].numel() != 1 for each in joint.tangents):
        warnings.warn("snug.torch: no result of this graph is one number, so the loss is computed elsewhere: what it keeps and takes (logarithms of shares, gradients of logits) "
                      "is not in the plan. Compile model and loss as one function (loss= of snug.torch.plan), or leave room for it with resident_bytes=", stacklevel=2)


def plan_region(backend: Any, joint: Joint, args: Sequence[Any], device: torch.device, allowance: Allowance, *, is_smallest: bool = False, hands_least: bool = False,
                within: int | None = None, counted: tuple[Resident, int] | None = None) -> RegionPlan:
    """With `is_smallest` that of the smallest peak that is found; with `hands_least` that within the memory which hands least to the backward part, or the
    smallest. `within`: what the planner may take where it is not `backend.memory`. `counted`: what `beside` found,
    where it is known, and then who calls judges the update: what is beside it may be another's plan.

    Raises DoesNotFit, with the proof, where no schedule is within the bytes that are left, or the update is not.
    """
    memory = backend.memory
    resident, tangents = counted or beside(backend, joint, args, device)
    problem = with_bases(with_prices_of_first_rank(joint.problem()), resident.total, tangents, allowance, memory)
    update_peak = resident.update_peak + allowance.inputs_of_others
    if counted is None and update_peak > memory:
        peak = max(update_peak, smallest_report(problem, backend.effort)["peak_bytes"])
        message, hint = update_is_too_large(backend.optimizer, memory, update_peak)
        raise refusal(peak, message, what_fits(backend, peak) + hint)
    try:
        if hands_least:
            report = _report_that_hands_least(problem, memory, backend.effort)
        elif is_smallest:
            report = smallest_report(problem, backend.effort)
        else:
            report = solve.remat(problem, memory=within or memory, effort=backend.effort)
    except DoesNotFit as error:
        peak = max(update_peak, error.report["peak_bytes"])
        raise refusal(peak, f"{shown(memory)}, of which {shown(resident.total + allowance.taken_bytes)} are resident: {error.message}",
                      what_fits(backend, peak, allowance.waiting_bytes, _price(backend, problem, error.report, peak))) from error
    return RegionPlan(memory, resident, allowance, tangents, report, problem, has_backward_part=joint.has_backward_part)


def _price(backend: Any, problem: dict[str, Any], smallest: dict[str, Any], peak: int) -> str:
    """Where the smallest peak costs much more than keeping all: how much, and the bytes from which on it does not. Not in mode "inductor", which counts other bytes."""
    if smallest["overhead"] < DEAR or backend.mode == "inductor" or backend.is_learning:
        return ""
    times = f", and takes {1 + smallest['overhead']:.1f} times as long as keeping all"
    points = solve.curve(problem, effort=backend.effort)["points"]
    least = next((int(point["peak_bytes"]) for point in points if point["overhead"] <= FORWARD_AGAIN), 0)
    if least <= peak:
        return times
    return f"{times}; memory={least} takes {1 + solve.remat(problem, memory=least, effort=backend.effort)['overhead']:.2f} times as long"


def what_fits(backend: Any, peak: int, waiting: int = 0, price: str = "") -> str:
    """`waiting`: bytes that graphs before this one keep. `price`: of that peak."""
    if backend.is_learning:
        if any(part.share is not None for part in backend.parts):
            return f"at least memory={peak}; or begin this step again: the others have the shares of steps without this graph, or with smaller shapes of it, and now the memory is divided anew"
        return f"at least memory={peak}, which this graph takes by itself: what the step's other graphs keep beside it is known once all have run"
    if backend.has_breaks or waiting:
        beside = f", beside {shown(waiting)} that graphs before it keep" if waiting else ""
        return f'memory={peak} fits this graph{beside}{price}; graphs="several" divides the memory among all graphs of the step'
    return f"memory={peak} fits{price}"


def update_is_too_large(optimizer: torch.optim.Optimizer | None, memory: int, update_peak: int) -> tuple[str, str]:
    """What is said, and what stands behind the bytes that fit."""
    has_step = optimizer is not None
    parts = f"parameters, gradients, states, results and what {type(optimizer).__name__}.step takes" if has_step else "parameters, gradients, results and what else is resident"
    given, needed = shown_apart(memory, update_peak)
    return f"{given} does not hold the update: {parts} are {needed}", ", or an optimizer with smaller states, or foreach=False" if has_step else ""


def refusal(smallest: int, message: str, hint: str) -> DoesNotFit:
    error = DoesNotFit("out_of_budget", "memory", message, hint)
    error.smallest_bytes = smallest
    return error


def peak_with_retained(problem: dict[str, Any], report: dict[str, Any]) -> int:
    """Of the backward part of a schedule, where all that crosses is kept to its end."""
    if "retained_peak_bytes" in report:  # of Inductor's buffers
        return int(report["retained_peak_bytes"])
    makers = {storage: op["id"] for op in problem["ops"] for storage in op["outputs"]}
    ops = set(report["schedule"][report["boundary_step"]:])
    again = {storage for storage in report["crossing"] if makers.get(storage) in ops}  # let go, and made again beside what stays
    keep = [*dict.fromkeys([*problem.get("keep", []), *(each for each in report["crossing"] if each not in again)])]
    replayed = solve.check({**problem, "keep": keep}, {"schedule": report["schedule"], "boundary_step": report["boundary_step"]})
    sizes = {each["id"]: each.get("bytes", 0) for each in problem["storages"]}
    return int(replayed["backward_peak_bytes"] + sum(sizes[each] for each in again))


def retained_fits(plan: RegionPlan) -> int:
    """Bytes that hold a backward part with retain_graph=True: from that of keeping all on, nothing is kept in place of what lets go."""
    if plan.mode == "inductor":
        return int(plan.report["retained_fits_bytes"])
    return peak_with_retained(plan.problem, solve.remat(plan.problem, memory=2**62, effort="fast"))


def least_handed(problem: dict[str, Any], effort: str) -> int:
    """Bytes of what crosses and of results, as few as are found: a smallest peak where nothing else counts."""
    between = 2 * sum(each.get("bytes", 0) for each in problem["storages"])
    boundary = {**problem["boundary"], "forward_base_bytes": 0, "backward_base_bytes": 0, "between_bytes": between}
    return int(smallest_report({**problem, "boundary": boundary}, effort)["peak_bytes"] - between)


def _report_that_hands_least(problem: dict[str, Any], memory: int, effort: str) -> dict[str, Any]:
    boundary = problem["boundary"]
    between = max(boundary["between_bytes"], memory - least_handed(problem, effort))
    try:
        return solve.remat({**problem, "boundary": {**boundary, "between_bytes": between}}, memory=memory, effort=effort)
    except DoesNotFit:
        report = smallest_report(problem, effort)
        return report if report["peak_bytes"] <= memory else solve.remat(problem, memory=memory, effort=effort)  # with the proof


def smallest_report(problem: dict[str, Any], effort: str) -> dict[str, Any]:
    try:
        return solve.remat(problem, memory=1, effort=effort)
    except DoesNotFit as error:
        return error.report
