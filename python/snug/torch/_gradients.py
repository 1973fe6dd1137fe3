# SPDX-License-Identifier: Apache-2.0
"""Gradients in storages of their own."""
from __future__ import annotations

from collections import defaultdict

import torch
from torch.fx import Graph, Node

from ._joint import size_of
from ._resident import storages


def leave_larger_storages(graph: Graph, num_forward_outputs: int, *, for_inductor: bool = False) -> None:
    """A gradient that is a part of a larger tensor (of a parameter that was concatenated with what has none) is copied: autograd takes what it is
    given as .grad, and with it all that lies in its storage, for as long as the gradient is there. Parts that fill their storage stay as they are.

    `for_inductor`: by a product with 1, since Inductor takes copies out of a graph.
    """
    target, more = (torch.ops.aten.mul.Tensor, (1,)) if for_inductor else (torch.ops.aten.clone.default, ())
    output = graph.output_node()
    results = list(output.args[0])  # type: ignore[arg-type]
    in_storages: dict[tuple[int, int], list[Node]] = defaultdict(list)  # and its bytes
    for node in dict.fromkeys(each for each in results[num_forward_outputs:] if isinstance(each, Node)):
        for storage in storages([node.meta.get("val")]).items():
            in_storages[storage].append(node)
    copies: dict[Node, Node] = {}
    for (_, count), nodes in in_storages.items():
        values = [node.meta["val"] for node in nodes]
        if sum(map(size_of, values)) >= count:
            continue
        for node, value in zip(nodes, values):
            with graph.inserting_before(output):
                copy = copies[node] = graph.call_function(target, (node, *more))
            copy.meta = {key: each for key, each in node.meta.items() if key not in ("val", "tensor_meta")} | {"val": target(value, *more)}
    results[num_forward_outputs:] = [copies.get(each, each) for each in results[num_forward_outputs:]]
    output.args = (tuple(results) if isinstance(output.args[0], tuple) else results, *output.args[1:])
