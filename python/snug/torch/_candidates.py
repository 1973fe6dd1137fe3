# SPDX-License-Identifier: Apache-2.0
"""Partitions of one joint graph that Inductor may compile: each is lowered (`_lowered.py`), so that its plan has the peaks of
Inductor's buffers; the planner, which counts tensors of the graph, is asked again with what the two differ in.
"""
from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule, Node

from .._errors import DoesNotFit
from ._joint import Joint
from ._lowered import Part, Reader, guarded, lowered
from ._region import Allowance, RegionPlan, beside, plan_region
from ._resident import storages
from ._split import split

if TYPE_CHECKING:
    from ._backend import Backend

ROUNDS = 3
CLOSE = 0.95  # of the budget: no further round; twice as far from it where a partition has missed it
Parts = tuple[GraphModule, GraphModule]


class Candidates:
    """Those of one joint graph. `module` is its graph, which is left as it is."""

    def __init__(self, backend: Backend, module: GraphModule, joint: Joint, args: Sequence[Any], device: torch.device, allowance: Allowance) -> None:
        self.backend, self.module, self.joint, self.device, self.allowance = backend, module, joint, device, allowance
        self._plan = functools.partial(plan_region, backend, joint, args, device, allowance, counted=beside(backend, joint, args, device))
        self._whole = self._plan(within=2**62)  # refuses what holds no update
        self.plans: list[RegionPlan] = []  # of those that were lowered
        self._tried: set[str] = set()
        self._base = self._whole.resident.total + allowance.waiting_bytes

    def may_fit(self, parts: Parts) -> bool:
        """Whether what a partition of PyTorch's hands on, and who calls gets, leaves anything: Inductor makes each of that, whatever it fuses."""
        returned, given = (storages(torch.utils._pytree.tree_leaves([node.meta.get("val") for node in nodes]))
                           for nodes in (parts[0].graph.output_node().all_input_nodes, parts[0].graph.find_nodes(op="placeholder")))
        made = sum(count for key, count in returned.items() if key not in given)
        return self._base + made <= self.backend.memory

    def surely_fits(self) -> bool:
        """Whether all that the graph makes could be kept, by the planner's count: PyTorch's partition is within the budget then, very likely."""
        return self._whole.peak_bytes <= CLOSE * self.backend.memory and self.allowance.crossing_bytes is None

    def unread(self) -> RegionPlan:
        """That of PyTorch's partition, with the planner's peaks: of a schedule that is empty."""
        return replace(self._whole, report={**self._whole.report, "schedule": [], "overhead": 0.0})

    def pytorchs(self, read: Sequence[Part]) -> RegionPlan:
        return self._planned(self.unread().report, read)

    def lower_pytorchs(self, parts: Parts) -> RegionPlan:
        return self.pytorchs(self._lower(parts))

    def reader(self) -> Reader:
        return Reader(len(self.joint.forward_outputs), self._scratch_of)

    def exceeds(self, part: Part) -> bool:
        """Whether a part takes more than the budget, whatever the other one does."""
        return self._base + part.peak > self.backend.memory

    def planners(self, within: int) -> tuple[int, RegionPlan, Parts] | None:
        """What the planner makes of `within` bytes, or its smallest: the bytes by its own count, the plan, the partition. None where it has been here before."""
        try:
            plan = self._plan(within=within)
        except DoesNotFit:
            plan = self._plan(is_smallest=True)
        return self._lowered(plan)

    def that_hands_least(self) -> Iterator[tuple[RegionPlan, Parts]]:
        """Where other graphs of the step are not known yet: what hands least to the backward part, then the smallest."""
        for words in ({"hands_least": True}, {"is_smallest": True}):
            found = self._lowered(self._plan(**words))
            if found is not None:
                yield found[1:]

    def _lower(self, parts: Parts) -> list[Part]:
        reader = self.reader()
        lowered(*parts, reader, len(self.joint.forward_outputs))
        return reader.parts

    def _lowered(self, plan: RegionPlan) -> tuple[int, RegionPlan, Parts] | None:
        report = plan.report
        if str(report["schedule"]) in self._tried:
            return None
        self._tried.add(str(report["schedule"]))
        forward, backward, _ = split(self.module, self.joint, report["schedule"], report["boundary_step"], report["crossing"], views_again=True)
        with guarded():
            result = self._lower((forward, backward))
        return max(plan.peak_bytes, report["peak_bytes"]), self._planned(report, result), (forward, backward)

    def fits(self, plan: RegionPlan) -> bool:
        return self._room(plan) >= 0

    def _room(self, plan: RegionPlan) -> int:
        """Bytes that are left, or, below 0, that are missing."""
        room, limit = self.backend.memory - plan.peak_bytes, self.allowance.crossing_bytes
        return room if limit is None else min(room, limit - plan.report["handed_bytes"])

    def search(self) -> Iterator[tuple[RegionPlan, Parts]]:
        """Partitions of the planner's, nearer and nearer to the budget; its smallest where none of them is within it."""
        has_fitted = False
        for plan, parts in self._rounds():
            has_fitted |= self.fits(plan)
            yield plan, parts
        found = None if has_fitted else self.planners(1)
        if found is not None:
            yield found[1:]

    def _rounds(self) -> Iterator[tuple[RegionPlan, Parts]]:
        memory = self.backend.memory
        close = int((1 - CLOSE) * memory)
        below, above = 0, 2**62  # budgets of the planner whose partition fitted, and did not
        within = memory
        for _ in range(ROUNDS):
            found = self.planners(within)
            if found is None:
                return
            counted, plan, parts = found
            yield plan, parts
            room = self._room(plan)
            if 0 <= room <= (close if above == 2**62 else 2 * close):
                return
            if room >= 0:
                below = max(below, counted)
            else:
                above = min(above, counted)
            within = counted + room
            if room < 0:
                within -= close  # what differs once differs again, and a round costs seconds
            if not below < within < above:
                within = (below + min(above, memory)) // 2 if below else 1

    def lower_price_list(self, points: int) -> None:
        """Partitions from below keeping all by the planner's count to its smallest, at equal distances."""
        if points == 0:
            return
        top = self._whole.peak_bytes
        least = self._plan(is_smallest=True).peak_bytes
        for i in range(1, points + 1):
            self.planners(top - i * (top - least) // points)

    def _scratch_of(self, node: Node, operands: Mapping[Node, torch.Tensor]) -> int:
        return self.backend.prices(self.device).of(node, operands).scratch

    def _planned(self, report: dict[str, Any], parts: Sequence[Part]) -> RegionPlan:
        whole, results = self._whole, len(self.joint.forward_outputs)
        bases = self._base, self._base + whole.tangent_bytes
        handed = dict(each for each in parts[0].outputs if each is not None)
        saved = dict(each for each in parts[0].outputs[results:] if each is not None)
        report = {**report, "forward_peak_bytes": bases[0] + parts[0].peak, "backward_peak_bytes": bases[1] + parts[1].peak, "crossing": sorted(map(str, saved)),
                  "crossing_bytes": sum(saved.values()), "handed_bytes": sum(handed.values())}
        levels = tuple([start + each for each in part.levels] for start, part in zip(bases, parts))
        self.plans.append(replace(whole, report=report, mode="inductor", rounds=len(self.plans) + 1, levels=levels))
        return self.plans[-1]
