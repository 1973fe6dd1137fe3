# SPDX-License-Identifier: Apache-2.0
"""A schedule as two graphs: the forward and the backward part, a node for each run, in the planned order."""
from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from .._errors import Error
from ._joint import NO_BACKWARD_PART, Joint


class _Part:
    """One part that is being written: what each node of the joint graph is in it, by the run made last."""

    def __init__(self, joint: Joint) -> None:
        self.joint = joint
        self.graph = Graph()
        self.now: dict[Node, Node] = {}

    def take(self, node: Node) -> None:
        new = self.graph.placeholder(node.name)
        new.meta = node.meta
        self.now[node] = new

    def run(self, node: Node) -> None:
        self._constants(node)
        self._copy(node)
        for each in node.users:
            if each.target is operator.getitem:
                self._copy(each)

    def _copy(self, node: Node) -> None:
        self.now[node] = self.graph.node_copy(node, lambda arg: self.now[arg])

    def _constants(self, node: Node) -> None:
        for each in node.all_input_nodes:
            if each.op == "get_attr" and each not in self.now:
                self._copy(each)

    def output(self, outputs: Sequence[Any], descriptions: Sequence[object]) -> None:
        for each in outputs:
            if isinstance(each, Node) and each.op == "get_attr" and each not in self.now:
                self._copy(each)
        result = self.graph.output(tuple(self.now[each] if isinstance(each, Node) else each for each in outputs))
        result.meta["desc"] = list(descriptions)


def _read_ahead(joint: Joint, steps: Sequence[str]) -> list[Node]:
    """What the backward part reads before it has made it, in the order of first use: primals, and what crosses."""
    made: set[Node] = set(joint.tangents)
    needed: dict[Node, None] = {}

    def read(node: Node) -> None:
        if node not in made and node.op != "get_attr":
            needed.setdefault(node)

    for step in steps:
        node = joint.nodes[step]
        for each in node.all_input_nodes:
            read(each)
        made.add(node)
        made.update(each for each in node.users if each.target is operator.getitem)
    for each in joint.gradients:
        if each is not None:
            read(each)
    return list(needed)


def _saved(joint: Joint, nodes: Sequence[Node], crossing: Sequence[str]) -> list[Node]:
    allowed = set(crossing)
    for node in nodes:
        if node.op == "placeholder":
            continue
        (name,) = joint.names[node]
        if name not in allowed and joint.base_of(name) not in {*allowed, *joint.resident}:
            raise Error("internal", node.name, "is read in the backward part, but does not cross")
    return list(nodes)


def _with_views_of_inputs(joint: Joint, steps: Sequence[str]) -> list[str]:
    """Steps of the backward part that has inputs in place of views of them."""
    found: dict[str, None] = {}

    def view(node: Node) -> None:
        is_view = isinstance(node.target, torch._ops.OpOverload) and node.target.is_view
        if is_view and node.name in joint.nodes and node.name not in found and {joint.base_of(name) for name in joint.names[node]} <= set(joint.resident):
            for each in node.all_input_nodes:
                view(each)
            found[node.name] = None

    for each in _read_ahead(joint, steps):
        view(each)
    return [*found, *steps]


def split(module: GraphModule, joint: Joint, schedule: Sequence[str], boundary_step: int, crossing: Sequence[str], *, views_again: bool = False) -> tuple[GraphModule, GraphModule, list[Node]]:
    """The two graphs that AOTAutograd expects of a partitioner, and what the first hands to the second.

    Inputs of the second are what is saved (tensors with a version check, then those without), then the tangents. `views_again`: views of the graph's inputs are
    made in both parts.
    """
    def is_run(step: str) -> bool:
        return step != NO_BACKWARD_PART and joint.nodes[step].op != "placeholder"

    steps = list(filter(is_run, schedule))
    first = sum(map(is_run, schedule[:boundary_step]))
    if views_again:
        steps[first:] = _with_views_of_inputs(joint, steps[first:])
    saved = _saved(joint, _read_ahead(joint, steps[first:]), crossing)
    saved.sort(key=lambda node: bool(node.meta.get("saved_tensor_with_no_vc_check", False)))
    described = next(node for node in module.graph.nodes if node.op == "output").meta.get("desc")
    count = len(joint.forward_outputs)
    descriptions = torch.utils._pytree.tree_leaves(described) if described is not None else [None] * (count + len(joint.gradients))

    forward = _Part(joint)
    for node in module.graph.nodes:
        if node.op == "placeholder" and node not in joint.tangents:
            forward.take(node)
    for step in steps[:first]:
        forward.run(joint.nodes[step])
    forward.output([*joint.forward_outputs, *saved], [*descriptions[:count], *_saved_descriptions(saved)])

    backward = _Part(joint)
    for node in (*saved, *joint.tangents):
        backward.take(node)
    for step in steps[first:]:
        backward.run(joint.nodes[step])
    backward.output(joint.gradients, descriptions[count:])
    for node in backward.graph.nodes:
        if node.op in ("call_function", "get_attr"):
            node.meta = {**node.meta, "autograd_backward": True}
    return GraphModule(module, forward.graph), GraphModule(module, backward.graph), saved


def _saved_descriptions(saved: Sequence[Node]) -> list[object]:
    try:
        from torch._functorch._aot_autograd import descriptors
    except ImportError:  # older than descriptors
        return [None] * len(saved)
    plain = descriptors.SavedForBackwardsAOTOutput
    unchecked = getattr(descriptors, "SavedForBackwardsNoVcCheckAOTOutput", plain)
    return [(unchecked if node.meta.get("saved_tensor_with_no_vc_check", False) else plain)(i) for i, node in enumerate(saved)]
