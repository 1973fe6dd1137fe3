# SPDX-License-Identifier: Apache-2.0
"""Marks of the user's: the policies of torch.utils.checkpoint, which AOTAutograd hands on as meta["recompute"].

MUST_SAVE: runs once. MUST_RECOMPUTE: what the op makes is not in memory between the parts. Where the backward part reads it, a copy of
the op makes it there, and the op itself runs in the forward part. What reads it and is not marked runs there, too: run again, it
would need it on the other side. PREFER_SAVE and PREFER_RECOMPUTE are left to the planner.
"""
from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Graph, Node

from .._errors import Error
from ._resident import storages


def must_be_saved(node: Node) -> bool:
    return _mark(node) == "MUST_SAVE"


def make_again(graph: Graph, num_forward_outputs: int, draws: Any) -> None:
    """Lists copies of what is marked MUST_RECOMPUTE in front of the first op of the backward part that reads them.

    `draws(node)`: whether it draws random numbers. Raises Error where such an op is marked.
    """
    marked = _marked(graph, num_forward_outputs)
    if not marked:
        return
    for node in marked:
        if draws(node):
            raise Error("unsupported", f"{node.name} ({node.meta.get('original_aten') or node.target})", "is marked MUST_RECOMPUTE and draws random numbers, which would be others",
                        "let the policy return PREFER_RECOMPUTE for it: numbers that were drawn are kept")
    copies: dict[Node, Node] = {}
    hidden = {each for node in marked for each in storages_of(node)}
    behind = _of_backward_part(graph)
    for node in list(graph.nodes):
        if node in behind and node.op == "call_function":
            for each in node.all_input_nodes:
                if each in marked:
                    node.replace_input_with(each, _copy(graph, each, marked, copies, node))
            if storages_of(node) & hidden:
                node.meta["val"] = value_of(node)  # a view, now of a copy
    for node in marked:
        for each in (node, *node.users):
            if each not in behind and each.op == "call_function" and not _tag(each):
                each.meta = {**each.meta, "partitioner_tag": "must_be_in_forward"}
    graph.eliminate_dead_code()


def _mark(node: Node) -> str:
    return getattr(node.meta.get("recompute"), "name", "")


def _tag(node: Node) -> str:
    return str(node.meta.get("partitioner_tag", ""))


def storages_of(node: Node) -> set[int]:
    """That what the node makes lies in."""
    return set(storages(torch.utils._pytree.tree_leaves(node.meta.get("val"))))


def _of_backward_part(graph: Graph) -> set[Node]:
    found: set[Node] = set()
    for node in graph.nodes:
        is_tangent = node.op == "placeholder" and node.name.startswith("tangents")
        if is_tangent or "backward" in _tag(node) or any(each in found for each in node.all_input_nodes):
            found.add(node)
    return found


def _marked(graph: Graph, num_forward_outputs: int) -> dict[Node, None]:
    """In the order of the graph, with the views of what is marked. Results of the forward part are in memory whatever is marked."""
    output = next(node for node in graph.nodes if node.op == "output")
    results = set(torch.utils._pytree.tree_leaves(output.args[0])[:num_forward_outputs])
    results = {each for each in results if isinstance(each, Node)}
    found: dict[Node, None] = {}
    behind = _of_backward_part(graph)
    for node in graph.nodes:
        if node.op != "call_function" or node in behind or node in results:
            continue
        is_part = any(each in found for each in node.all_input_nodes) and (node.target is operator.getitem or storages_of(node) & {key for each in node.all_input_nodes for key in storages_of(each)})
        if is_part or (_mark(node) == "MUST_RECOMPUTE" and not _starts_another(node)):
            found[node] = None
    return found


def _starts_another(node: Node) -> bool:
    """What one checkpointed part hands to the next is kept by that one."""
    part = node.meta.get("ac_graph_id")
    return part is not None and any(_mark(user).endswith("_RECOMPUTE") and user.meta.get("ac_graph_id", part) > part for user in node.users)


def _copy(graph: Graph, node: Node, marked: dict[Node, None], copies: dict[Node, Node], reader: Node) -> Node:
    if node not in copies:
        for each in node.all_input_nodes:
            if each in marked:
                _copy(graph, each, marked, copies, reader)
        with graph.inserting_before(reader):
            made = graph.node_copy(node, lambda each: copies.get(each, each))
        made.meta = {**{key: value for key, value in node.meta.items() if key not in ("val", "tensor_meta")}, "val": value_of(made), "partitioner_tag": "must_be_in_backward"}
        copies[node] = made
    return copies[node]


def value_of(node: Node) -> Any:
    """What the node makes, without memory, in storages of its own."""
    args, words = torch.fx.map_arg((node.args, node.kwargs), lambda each: each.meta["val"])
    mode = torch._guards.detect_fake_mode(torch.utils._pytree.tree_leaves((args, words)))
    with mode, torch.no_grad():
        return node.target(*args, **words)  # type: ignore[operator, misc]
