# SPDX-License-Identifier: Apache-2.0
"""Dropout as two ops: the draw, which runs once, and its use, which may run again. Their bits are those of native_dropout."""
from __future__ import annotations

import operator

import torch
from torch.fx import Graph, Node


def dropout_mask(input: torch.Tensor, rate: float) -> torch.Tensor:
    return torch.ops.aten.native_dropout.default(input, rate, True)[1]


def apply_dropout(input: torch.Tensor, mask: torch.Tensor, scale: float) -> torch.Tensor:
    product = input.mul(mask)
    return torch.ops.aten.mul_.Scalar(product, scale) if product.is_cpu else product.mul_(scale)  # native_dropout on the CPU rounds the scale to 16 bits, too


#: With whether they draw.
OWN_OPS = {dropout_mask: True, apply_dropout: False}


def take_apart(graph: Graph) -> None:
    """native_dropout keeps its product as long as its mask: taken apart, only the mask (a byte an element) has to stay."""
    for node in list(graph.nodes):
        if node.target is not torch.ops.aten.native_dropout.default:
            continue
        source, rate, training = (*node.args, *node.kwargs.values())
        if not training or not 0 < rate < 1 or any(user.target is not operator.getitem for user in node.users):
            continue
        product, mask = node.meta["val"]
        meta = {key: value for key, value in node.meta.items() if key not in ("val", "tensor_meta")}
        with graph.inserting_before(node):
            drawn = graph.call_function(dropout_mask, (source, rate))
            used = graph.call_function(apply_dropout, (source, drawn, 1.0 / (1.0 - rate)))
        drawn.meta, used.meta = {**meta, "val": mask}, {**meta, "val": product}
        for user in list(node.users):
            _replace(user, used if user.args[1] == 0 else drawn)
        graph.erase_node(node)


def _replace(node: Node, by: Node) -> None:
    node.replace_all_uses_with(by)
    node.graph.erase_node(node)
