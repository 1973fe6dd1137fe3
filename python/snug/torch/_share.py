# SPDX-License-Identifier: Apache-2.0
"""How graphs of one step divide its memory: breaks, and blocks that are compiled apart."""
from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .. import solve
from .._errors import DoesNotFit
from ._memory import shown
from ._region import Allowance, RegionPlan, least_handed, refusal, smallest_report, with_bases

HALVINGS = 5
UNKNOWN = 2**62


def divide(memory: int, effort: str, order: Sequence[tuple[Hashable, RegionPlan]], others: Mapping[Hashable, int],
           gradients: Mapping[Hashable, int], before: Mapping[Hashable, Allowance]) -> dict[Hashable, Allowance]:
    """`order`: the graphs of a step in the order of their forward parts, a graph that runs twice twice; the backward parts run
    the other way round. `others`: see Allowance.inputs_of_others; `gradients`: Allowance.waiting_gradients. What a graph may keep lies between as little as is found and all, for every graph by the same
    share, the largest with which all fit. `before`: what graphs have that are of other steps, too (other shapes of the rest): they keep no more than that, and
    leave no less to others.

    Raises DoesNotFit where even the smallest do not.
    """
    plans = dict(order)
    ranges = {key: _range_of(plan, effort, others[key], gradients[key], before.get(key, Allowance())) for key, plan in plans.items()}
    best = _allowances(memory, effort, order, ranges, 1.0)
    if best is not None:
        return best
    best = _allowances(memory, effort, order, ranges, 0.0)
    if best is None:
        kept = sum(ranges[key].few for key, _ in order)
        message = f"{shown(memory)} does not hold the {len(order)} graphs of a step: the smallest plans found hand {shown(kept)} to backward parts"
        smallest = max(_smallest(memory, effort, plan, allowance) for _, plan, allowance in _beside(order, ranges, 0.0))
        if memory < smallest < UNKNOWN and _allowances(smallest, effort, order, ranges, 0.0) is not None:
            raise refusal(smallest, message, f"memory={smallest} fits")
        raise DoesNotFit("out_of_budget", "memory", message, "more memory, a smaller batch, or fewer graphs")
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        found = _allowances(memory, effort, order, ranges, middle)
        if found is None:
            high = middle
        else:
            best, low = found, middle
    return best


@dataclass
class _Range:
    """What a graph hands to its own backward part: as little as is found, and keeping all; and its results beside it, without those that it keeps in any case."""

    few: int
    all: int
    results: int
    inputs: int
    result_inputs: int
    #: What is left for others at least; nothing of it says what this graph may keep.
    left: Allowance

    def crossing(self, share: float) -> int:
        return int(self.few + share * (self.all - self.few))


def _range_of(plan: RegionPlan, effort: str, inputs_of_others: int, waiting_gradients: int, before: Allowance) -> _Range:
    problem = with_bases(plan.problem, 0, 0, Allowance(), 0)
    returned = problem["boundary"]["forward_outputs"]
    left = Allowance(before.waiting_bytes, None, max(before.inputs_of_others, inputs_of_others), max(before.waiting_gradients, waiting_gradients))
    inputs = plan.kept_input_bytes, plan.result_input_bytes or 0, left
    if not plan.has_backward_part:  # its results lie beside the others as a batch does
        return _Range(0, 0, _bytes(problem, returned), *inputs)
    kept = smallest_report(problem, effort)["crossing"]
    few, handed = _bytes(problem, kept), _bytes(problem, [*kept, *returned])
    least = least_handed(problem, effort)  # with the results
    if least < handed:
        few = handed = least
    results = handed - few
    all_of_it = _bytes(problem, solve.remat(problem, memory=2**62, effort="fast")["crossing"])
    if before.crossing_bytes is not None:
        all_of_it = min(all_of_it, before.crossing_bytes - results)
    return _Range(few, max(few, all_of_it), results, *inputs)


def _bytes(problem: dict[str, Any], names: Sequence[str]) -> int:
    storages = {each["id"]: each for each in problem["storages"]}
    bases = {storages[name].get("view_of", name) for name in names}
    return sum(storages[name]["bytes"] for name in bases if name in storages)


def _beside(order: Sequence[tuple[Hashable, RegionPlan]], ranges: dict[Hashable, _Range], share: float) -> Iterator[tuple[Hashable, RegionPlan, Allowance]]:
    """Each graph, and what it may take beside the others."""
    waiting: dict[Hashable, int] = {}
    before = 0
    for key, _ in order:
        waiting[key] = before  # a graph that runs twice has one plan, for its last run
        before += ranges[key].crossing(share) + ranges[key].inputs
    for key, plan in dict(order).items():
        its = ranges[key]
        yield key, plan, replace(its.left, waiting_bytes=max(its.left.waiting_bytes, waiting[key] - its.result_inputs), crossing_bytes=its.crossing(share) + its.results)


def _smallest(memory: int, effort: str, plan: RegionPlan, allowance: Allowance) -> int:
    """Bytes that the graph takes beside the others, at least; 0 where the memory holds it."""
    try:
        solve.remat(with_bases(plan.problem, plan.resident.total, plan.tangent_bytes, allowance, memory), memory=memory, effort=effort)
    except DoesNotFit as error:
        return error.smallest_bytes or UNKNOWN
    return 0


def _allowances(memory: int, effort: str, order: Sequence[tuple[Hashable, RegionPlan]], ranges: dict[Hashable, _Range], share: float) -> dict[Hashable, Allowance] | None:
    """None where a graph does not fit beside the others."""
    result = {}
    for key, plan, allowance in _beside(order, ranges, share):
        if _smallest(memory, effort, plan, allowance) > 0:
            return None
        result[key] = allowance
    return result
