# SPDX-License-Identifier: Apache-2.0
"""The backend of torch.compile: graphs come in, are planned within the bytes that are left for them, and run in the planned order."""
from __future__ import annotations

import functools
import gc
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from .._errors import DoesNotFit, Error
from ._calls import Call, graph_runs
from ._compiled import Compiled, there, waiting_gradients
from ._memory import bytes_of, shown
from ._numbers import Constant, Numbers, numbers_of
from ._prices import Prices
from ._region import Allowance, RegionPlan
from ._resident import parameters_of
from ._shadow import unwrapped
from ._share import divide

MOST_SHAPES = 8


def one_of(name: str, value: str, words: Sequence[str]) -> str:
    if value not in words:
        raise Error("bad_config", name, f"is {value!r}", "one of " + ", ".join(f'"{each}"' for each in words))
    return value


class Backend:
    """What torch.compile is given. `plans` has the plan of every graph and shape that is in use, in the order of their first calls."""

    def __init__(self, memory: int | str, *, optimizer: torch.optim.Optimizer | None, resident_bytes: int | str | None, grads: str, count: str,
                 graphs: str, differentiate: str, effort: str, mode: str = "exact", numerics: str = "default") -> None:
        self.memory = bytes_of("memory", memory)
        if optimizer is None and resident_bytes is None:
            raise Error("bad_config", "optimizer", "is not given, and its states are part of the step",
                        "give optimizer=, or resident_bytes=0 where there is none")
        if optimizer is not None and not hasattr(optimizer, "param_groups"):
            raise Error("bad_config", "optimizer", f"is a {type(optimizer).__name__}, which has no param_groups", "one optimizer, such as those of torch.optim, of all of the model's parameters")
        self.optimizer = unwrapped(optimizer)
        self.resident_bytes = 0 if resident_bytes is None else bytes_of("resident_bytes", resident_bytes)
        self.grads = one_of("grads", grads, ("accumulate", "none"))
        self.count = one_of("count", count, ("workspace", "storages"))
        self.graphs = one_of("graphs", graphs, ("one", "several"))
        self.differentiate = one_of("differentiate", differentiate, ("all", "loss"))
        self.effort = one_of("effort", effort, ("fast", "default", "best"))
        self.mode = one_of("mode", mode, ("exact", "inductor"))
        if self.mode == "inductor" and self.count != "workspace":
            raise Error("unsupported", "mode", f'is "inductor" with count="{self.count}"', 'count="workspace", or mode="exact"')
        self.numerics = one_of("numerics", numerics, ("default", "strict"))
        if (self.mode, self.numerics) == ("exact", "strict"):
            raise Error("bad_config", "numerics", 'is "strict" with mode="exact", which rounds as PyTorch\'s own ops do in any case', "leave numerics out")
        self.parts: list[Compiled] = []
        self.is_learning = False  # whether a graph has run that has no share of the memory yet
        self.has_breaks = False  # a graph of the step ended where Dynamo broke off: another one follows
        self.order: list[Compiled] = []  # of the forward parts of this step
        self._prices: dict[str, Prices] = {}
        self.backend_ctx_ctor = Call  # Dynamo reads it of the object's own attributes

    def __getstate__(self) -> dict[str, Any]:
        """Of a copy, or in a file: nothing is compiled yet."""
        return {**self.__dict__, "parts": [], "is_learning": False, "has_breaks": False, "order": [], "_prices": {}}

    def with_states(self, states: int) -> Backend:
        """The same, with an optimizer whose states take so many bytes."""
        return Backend(self.memory, optimizer=None, resident_bytes=self.resident_bytes + states, grads=self.grads, count=self.count, graphs=self.graphs,
                       differentiate=self.differentiate, effort=self.effort, mode=self.mode, numerics=self.numerics)

    @property
    def plans(self) -> list[RegionPlan]:
        return [part.plan for part in self.parts if part.plan is not None]

    def __call__(self, module: GraphModule, example_inputs: Sequence[Any], **words: Any) -> Callable[..., Any]:
        if words:
            name = next(iter(words))
            raise Error("unsupported", name, f"is {words[name]!r} of torch.compile, which is for its own backends", 'snug.torch.backend(mode="inductor"), and torch._inductor.config for its options')
        return _Region(self, module)

    def prices(self, device: torch.device) -> Prices:
        key = str(device)
        if key not in self._prices:
            self._prices[key] = Prices(device)
        return self._prices[key]

    def waiting_bytes(self, args: Sequence[Any] = ()) -> int:
        return sum(self.waiting(args).values())

    def waiting(self, args: Sequence[Any] = ()) -> dict[int, int]:
        """By storage: what forward parts have handed to backward parts, as far as it is still there, without what lies in `args`."""
        return _without([part.waiting() for part in self.parts], args)

    def handed(self, args: Sequence[Any] = ()) -> dict[int, int]:
        """The same, and what graphs of this step have handed to whoever called them."""
        return _without([found for part in self.parts for found in (part.waiting(), part.handed())], args)

    def held_results(self, args: Sequence[Any], asks: Compiled) -> dict[int, int]:
        """By storage: results of earlier calls that whoever called has, without what lies in `args`. Those of graphs without a backward part are inputs of others."""
        return _without([part.held_results() for part in self.parts if part.trains or part is asks], args)

    def inputs_of_others(self, args: Sequence[Any]) -> int:
        """Bytes of what graphs of this step that have run read, and whoever calls them has, without what lies in `args`. What frozen parts read is there in any case."""
        parts = self.order if self.graphs == "several" else [part for part in self.parts if not part.trains or part.waiting() or part.held_results()]
        found = _without([there(leaves) for part in parts for leaves in part.lies_there()], [*args, *parameters_of(self.optimizer)])
        handed = self.handed()
        return sum(count for key, count in found.items() if key not in handed)

    def _inputs_beside(self) -> dict[Compiled, int]:
        """The same of each graph of a step that has run, whose batch may be gone by now."""
        read = {part: [{storage.cdata: count for storage, count in leaves} for leaves in part.lies_there()] for part in self.order}
        known = _without([each for calls in read.values() for each in calls], parameters_of(self.optimizer))
        return {part: sum(count for key, count in known.items() if key not in calls[0]) for part, calls in read.items()}

    def _waiting_gradients(self) -> dict[Compiled, int]:
        """Of each graph of a step: see Allowance.waiting_gradients."""
        behind: set[int] = set()
        found: dict[Compiled, int] = {}
        for part in reversed(self.order):  # one that runs several times has most behind its first run
            found[part] = waiting_gradients({key: count for key, count in part.trained.items() if key in behind})
            behind |= part.trained.keys()
        return found

    def _inputs_of(self, newest: Compiled) -> dict[int, int]:
        """By storage: what no graph before it read, and no optimizer has."""
        known = [there(leaves) for part in self.parts if part is not newest for leaves in part.leaves]
        found = _without([there(leaves) for leaves in newest.leaves], parameters_of(self.optimizer))
        return {key: count for key, count in found.items() if not any(key in each for each in known)}

    def tell_earlier(self, newest: Compiled, trained: Iterable[int], is_new: bool) -> None:
        """Graphs of this step whose plans were made before the newest one was known: what it reads is there beside their backward parts, and gradients of what both
        read wait for them. `trained`: storages of parameters that this call of it reads; blocks that are alike are one graph, each with its own."""
        later = self._inputs_of(newest) if is_new else {}
        for part in self.parts:
            if part.plan is None or not part.is_open():
                continue
            had_room = part.plan.learned is None
            mine = there(part.results)
            part.learn(0 if part is newest else sum(count for key, count in later.items() if key not in mine), trained)
            if had_room and part.plan.learned is not None:
                warnings.warn(f"snug.torch: a plan did not know what of this step follows its graph (inputs, {shown(part.plan.later_bytes)}; gradients that wait, {shown(part.plan.more_gradients)}), "
                              f'so this step may take {shown(part.plan.peak_bytes)} of {shown(self.memory)}; at the next step the graph is planned anew. graphs="several" knows all graphs of a step',
                              stacklevel=2)

    def make_sure(self) -> None:
        """While a backward part runs: what was learned of graphs whose own is still to come holds."""
        if self.graphs == "one":
            for part in self.parts:
                if part.plan is not None:
                    part.make_sure()

    def result_bytes(self, args: Sequence[Any]) -> int:
        """Of what lies in `args`: bytes that graphs of this step have made, and count with what they hand on."""
        return sum(self.handed().values()) - sum(self.handed(args).values())

    def begin(self) -> None:
        """Before a graph runs: at the first of a step, all graphs of the step before are known."""
        if any(part.is_pending() for part in self.parts):
            return  # what keeps nothing for its backward part is of this step, too
        if not any(part.trains for part in self.order):
            return  # frozen graphs have run, if any, and those that train are to come
        if self.is_learning and self.order and self.waiting_bytes():
            gc.collect()  # Dynamo leaves cycles behind that hold what a frame had when it was compiled
        if self.waiting_bytes():
            return
        if self.is_learning and any(part.is_outdated for part in self.order):
            for part in self.order:
                part.leaves = []  # of a step that is learned from once more
        elif self.is_learning and self.order:
            shares = self._divided()
            self.is_learning = False
            for part in self.order:
                part.share = shares.get(part)
        self.order = []

    def _divided(self) -> dict[Any, Allowance]:
        """Of the memory, to the graphs of a step. Those that are of others as well (with other shapes of the rest) go on being so where that is possible."""
        order = [(part, part.plan) for part in self.order if part.plan is not None]
        divided = functools.partial(divide, self.memory, self.effort, order, self._inputs_beside(), self._waiting_gradients())
        before = {part: part.share for part, _ in order if part.share is not None}
        try:
            return divided(before)
        except DoesNotFit:
            if not before:
                raise
        self._forget_shares()
        return divided({})

    def _forget_shares(self) -> None:
        for part in self.parts:
            part.share = None

    def learn_again(self) -> None:
        """Where a graph, or shapes of one, that came later does not fit beside the others' shares: from the next step on, as from a first one."""
        if self.graphs == "several":
            self._forget_shares()
            self.order = []

    def note(self, part: Compiled) -> None:
        """A forward part has run. Features may be computed for a whole data set before anything trains."""
        if part.trains or part not in self.order or any(each.trains for each in self.order):
            self.order.append(part)


def _without(parts: Sequence[dict[int, int]], args: Sequence[Any]) -> dict[int, int]:
    found = {key: count for part in parts for key, count in part.items()}
    for each in args:
        if isinstance(each, torch.Tensor):
            found.pop(each.untyped_storage()._cdata, None)
    return found


def without_gradients(module: GraphModule) -> GraphModule:
    """The graph, changed: gradients for results of one number alone. AOTAutograd wants a tangent for every other, zeros of its size,
    whether somebody has one or not.

    Raises Error where there is no such number.
    """
    graph = module.graph
    output = next(node for node in graph.nodes if node.op == "output")

    def detached(node: Node) -> Node:
        value = node.meta.get("example_value")
        if not isinstance(value, torch.Tensor) or value.numel() == 1:
            return node
        with graph.inserting_before(output):
            return graph.call_method("detach", (node,))

    results = [node for node in torch.utils._pytree.tree_leaves(output.args) if isinstance(node, Node)]
    if not any(isinstance(node.meta.get("example_value"), torch.Tensor) and node.meta["example_value"].numel() == 1 for node in results):
        raise Error("bad_config", "differentiate", 'is "loss", but the graph has no result of one number', 'plan with differentiate="all"')
    output.args = torch.fx.node.map_arg(output.args, detached)
    module.recompile()
    return module


class _Region:
    """One graph of Dynamo's. It is compiled at its first call for every shape, since then all that is in memory is known."""

    def __init__(self, backend: Backend, module: GraphModule) -> None:
        self.backend = backend
        self.module = module
        # By shapes: several where numbers are constants of the graph. In the order of their first calls.
        self.compiled: dict[Any, list[Compiled]] = {}
        self.numbers = numbers_of(module)
        self.constants: set[int] = set()  # places of those of them that are

    def __call__(self, *args: Any) -> Any:
        with graph_runs():
            return self._run(args)

    def _run(self, args: Sequence[Any]) -> Any:
        if self.backend.graphs == "several" and torch.is_grad_enabled():
            self.backend.begin()
        key = (torch.is_grad_enabled(), *(_shape_of(each) for each in args))
        known = self.compiled.get(key, [])
        compiled = next((each for each in known if each.numbers.hold(args)), None)
        if compiled is None:
            self._make_room_for_another(bool(known), args)
            if not any(self.compiled.values()) and self.backend.differentiate == "loss":
                self.module = without_gradients(self.module)
            try:
                compiled = self._compile(args)
            except DoesNotFit:
                self.backend.learn_again()
                raise
            self.compiled.setdefault(key, []).append(compiled)
        else:
            share = compiled.share_of_call(args)
            if share != compiled.planned_share or (compiled.is_outdated and not compiled.is_pending()):
                anew = self._planned_anew(compiled, share, args)
                known[known.index(compiled)] = compiled = anew
        return compiled(args)

    def _make_room_for_another(self, is_known: bool, args: Sequence[Any]) -> None:
        """Each that trains has a plan, so there are few. Of those that only evaluate the oldest is let go, and compiled again where its shapes come back.

        Raises Error where another would train.
        """
        every = [(key, each) for key, known in self.compiled.items() for each in known]
        if torch.is_grad_enabled() and any(isinstance(each, torch.Tensor) and each.requires_grad for each in args):
            if sum(each.trains for _, each in every) < MOST_SHAPES:
                return
            name, hint = ("numbers", "a tensor in place of a float that changes") if is_known else ("shapes", "pad batches to a few shapes")
            raise Error("unsupported", name, f"are new for the {MOST_SHAPES + 1}th time, and there is a plan for each", hint)
        evaluating = [(key, each) for key, each in every if not each.trains]
        if len(evaluating) == MOST_SHAPES:
            key, oldest = evaluating[0]
            self.compiled[key].remove(oldest)
            if not self.compiled[key]:
                del self.compiled[key]
            self.backend.parts.remove(oldest)

    def _compile(self, args: Sequence[Any], share: Allowance | None = None) -> Compiled:
        while True:
            numbers = Numbers(self.numbers, {i: args[i].item() for i in self.constants})
            try:
                return _kind(self.backend.mode)(self.backend, numbers.put_into(self.module, args), args, share, numbers)
            except Constant as error:
                self.constants |= error.places or set(numbers.free)

    def _planned_anew(self, compiled: Compiled, share: Allowance | None, args: Sequence[Any]) -> Compiled:
        assert compiled.plan is not None
        beside = None if share is None or share == compiled.share or share.waiting_bytes == compiled.plan.allowance.waiting_bytes else share.waiting_bytes
        try:
            found = self._compile(args, share)
        except DoesNotFit:
            if beside is not None:
                return compiled  # which says that these results are in the way
            raise
        self.backend.parts.remove(compiled)
        if beside is not None:
            warnings.warn(f"snug.torch: results of an earlier call, {shown(beside)}, are there while the next one runs: it was planned anew to leave "
                          "room for them. Who lets go of them before (del) saves that", stacklevel=3)
        return found


def _kind(mode: str) -> type[Compiled]:
    if mode == "exact":
        return Compiled
    from ._fused import Fused  # some 30 MB that who does not use it does without

    return Fused


def _shape_of(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return (tuple(value.shape), value.stride(), value.dtype, value.device, value.requires_grad)
    return value
