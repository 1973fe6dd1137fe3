# SPDX-License-Identifier: Apache-2.0
"""Partitions of one joint graph that Inductor may compile. Each is lowered (`_lowered.py`), so that its plan has the peaks of Inductor's buffers, and the
time of its kernels: PyTorch's own, and a ladder of the planner's, which counts tensors of the graph and not buffers.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule

from .._errors import DoesNotFit
from ._joint import Joint
from ._lowered import Part, Reader, guarded, lowered
from ._region import Allowance, RegionPlan, beside, plan_region
from ._split import split

if TYPE_CHECKING:
    from ._backend import Backend

#: Of the ladder, from keeping all by the planner's count to its smallest. Bisection lowers three of them.
RUNGS = 8
CLOSE = 0.95  # of the budget
Parts = tuple[GraphModule, GraphModule]


class Candidates:
    """Those of one joint graph. `module` is its graph, which is left as it is."""

    def __init__(self, backend: Backend, module: GraphModule, joint: Joint, args: Sequence[Any], device: torch.device, allowance: Allowance) -> None:
        self.backend, self.module, self.joint, self.device, self.allowance = backend, module, joint, device, allowance
        self._plan = functools.partial(plan_region, backend, joint, args, device, allowance, counted=beside(backend, joint, args, device))
        self._whole = self._plan(within=2**62)
        self.plans: list[RegionPlan] = []  # of those that were lowered
        self._rungs: dict[str, tuple[RegionPlan, Parts]] = {}  # by schedule: neighbours may be one
        self._own_ms: float | None = None  # of PyTorch's partition
        self._own_retained: int | None = None
        self._base = self._whole.resident.total + allowance.taken_bytes
        self._backward_base = self._base + self._whole.tangent_bytes + allowance.waiting_gradients

    def surely_fits(self) -> bool:
        """Whether all that the graph makes could be kept, by the planner's count: PyTorch's partition is within the budget then, very likely."""
        return self._whole.peak_bytes <= CLOSE * self.backend.memory and self.allowance.crossing_bytes is None

    def unread(self) -> RegionPlan:
        """That of PyTorch's partition, with the planner's peaks: of a schedule that is empty."""
        return replace(self._whole, report={**self._whole.report, "schedule": [], "overhead": 0.0})

    def pytorchs(self, read: Sequence[Part]) -> RegionPlan:
        self._own_ms = sum(part.milliseconds for part in read)
        self._own_retained = self._backward_base + read[1].retained_peak
        return self._planned(self.unread().report, read)

    def lower_pytorchs(self, parts: Parts) -> RegionPlan:
        return self.pytorchs(self._lower(parts))

    def reader(self) -> Reader:
        return Reader(len(self.joint.forward_outputs), self.backend.prices(self.device))

    def exceeds(self, part: Part) -> bool:
        """Whether a part takes more than the budget, whatever the other one does."""
        return self._base + part.peak > self.backend.memory

    def rung(self, number: int) -> tuple[RegionPlan, Parts]:
        """Which partition that is depends on no budget. Rungs lie closer to each other further down, where a byte less costs more."""
        least = self._least.peak_bytes
        try:
            plan = self._plan(within=least + int((1 - number / RUNGS) ** 2 * (self._whole.peak_bytes - least)))
        except DoesNotFit:
            plan = self._least
        return self._lowered(plan)

    @functools.cached_property
    def _least(self) -> RegionPlan:
        return self._plan(is_smallest=True)

    def that_hands_least(self) -> Iterator[tuple[RegionPlan, Parts]]:
        """Where other graphs of the step are not known yet: what hands least to the backward part, then the smallest."""
        for words in ({"hands_least": True}, {"is_smallest": True}):
            yield self._lowered(self._plan(**words))

    def _lower(self, parts: Parts) -> list[Part]:
        reader = self.reader()
        lowered(*parts, reader, len(self.joint.forward_outputs))
        return reader.parts

    def _lowered(self, plan: RegionPlan) -> tuple[RegionPlan, Parts]:
        report = plan.report
        key = str(report["schedule"])
        if key not in self._rungs:
            forward, backward, _ = split(self.module, self.joint, report["schedule"], report["boundary_step"], report["crossing"], views_again=True)
            with guarded():
                read = self._lower((forward, backward))
            self._rungs[key] = self._planned(report, read), (forward, backward)
        return self._rungs[key]

    def fits(self, plan: RegionPlan) -> bool:
        limit = self.allowance.crossing_bytes
        return plan.peak_bytes <= self.backend.memory and (limit is None or plan.report["handed_bytes"] <= limit)

    def search(self) -> tuple[RegionPlan, Parts] | None:
        """A rung within the budget, the highest by bisection, or the lowest one; PyTorch's partition is lowered by then.

        More bytes never lead to a lower rung, since bisection goes the same way up to where the fewer bytes send it further down. And a higher rung never costs more:
        the cost of each is kept between those of the rungs that bisection comes from, which are the same for all budgets. By itself, an estimate may be off by a percent or two.
        """
        above, below = 0, RUNGS
        at_least, at_most = 0.0, math.inf
        best: tuple[RegionPlan, Parts] | None = None
        while below - above > 1:
            middle = (above + below) // 2
            plan, parts = self.rung(middle)
            cost = min(max(plan.milliseconds, at_least), at_most)
            if self.fits(plan):
                below, at_most, best = middle, cost, (self._costing(plan, cost), parts)
            else:
                above, at_least = middle, cost
        if best is not None:
            return best
        plan, parts = self.rung(RUNGS)
        return (self._costing(plan, max(plan.milliseconds, at_least)), parts) if self.fits(plan) else None

    def lower_price_list(self, points: int) -> None:
        for i in range(1, points + 1):
            self.rung(i * RUNGS // points)

    def _costing(self, plan: RegionPlan, cost: float) -> RegionPlan:
        """No partition counts as faster than PyTorch's, which is taken where it fits."""
        assert self._own_ms
        cost = max(cost, self._own_ms)
        return replace(plan, report={**plan.report, "cost": cost, "overhead": cost / self._own_ms - 1})

    def _planned(self, report: dict[str, Any], parts: Sequence[Part]) -> RegionPlan:
        whole, results = self._whole, len(self.joint.forward_outputs)
        bases = self._base, self._backward_base
        retained = bases[1] + parts[1].retained_peak
        handed = dict(each for each in parts[0].outputs if each is not None)
        saved = dict(each for each in parts[0].outputs[results:] if each is not None)
        report = {**report, "forward_peak_bytes": bases[0] + parts[0].peak, "backward_peak_bytes": bases[1] + parts[1].peak, "crossing": sorted(map(str, saved)),
                  "crossing_bytes": sum(saved.values()), "handed_bytes": sum(handed.values()),
                  "retained_peak_bytes": retained, "retained_fits_bytes": self._own_retained or retained}
        levels = tuple([start + each for each in part.levels] for start, part in zip(bases, parts))
        plan = replace(whole, report=report, mode="inductor", rounds=len(self.plans) + 1, levels=levels)
        if self._own_ms:  # else the planner's word is all there is: PyTorch's is not lowered where other graphs of the step are not known yet
            plan = self._costing(plan, sum(part.milliseconds for part in parts))
        self.plans.append(plan)
        return self.plans[-1]
