# SPDX-License-Identifier: Apache-2.0
"""`x[mask] = y` whose y has a gradient: autograd takes the rows of the mask out of that of x, and their number lies in no shape.

In its place stands a function with the same numbers: where y is as many rows, they are looked up with that number; where it is one
for all rows, taking them out and adding them up is one op, with a result of y's shape, planned as if the mask were true everywhere.
"""
from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node


@torch.library.custom_op("snug::rows_summed", mutates_args=())
def rows_summed(x: torch.Tensor, indices: Sequence[torch.Tensor], shape: Sequence[int]) -> torch.Tensor:
    return x[tuple(indices)].sum_to_size(shape)


@rows_summed.register_fake
def _(x: torch.Tensor, indices: Sequence[torch.Tensor], shape: Sequence[int]) -> torch.Tensor:
    return x.new_empty(shape)


class _Rows(torch.autograd.Function):
    """x, with y's gradient: the rows that were put there. It writes nothing: what a function of autograd's writes to an input of the graph, AOTAutograd takes for hidden from autograd."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, y: torch.Tensor, *indices: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        context.mark_dirty(x)
        context.save_for_backward(*indices)
        context.shape = y.shape
        return x

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> Any:  # type: ignore[override]
        indices, shape = context.saved_tensors, context.shape
        if len(indices) == 1 and len(shape) == 1 + gradient.dim() - indices[0].dim():
            places = torch.nonzero_static(indices[0], size=shape[0])
            of_y = gradient[places.unbind(1)].sum_to_size(shape)
        else:
            of_y = rows_summed(gradient, indices, shape)
        return gradient, of_y, *(None for _ in indices)


def _put(x: torch.Tensor, key: Any, y: torch.Tensor, accumulate: bool = False) -> torch.Tensor:
    indices = tuple(key) if isinstance(key, (tuple, list)) else (key,)
    while y.dim() and y.shape[0] == 1:
        y = y[0]
    x.index_put_(indices, y.detach(), accumulate)
    return _Rows.apply(x, y, *indices)  # type: ignore[no-untyped-call]


def put_in_place(module: GraphModule) -> None:
    """In a graph of Dynamo's, and in the graphs within it, which are changed."""
    for part in module.modules():
        if not isinstance(part, GraphModule):
            continue
        for node in part.graph.nodes:
            if (node.target is operator.setitem or (node.op == "call_method" and node.target == "index_put_")) and _has_rows(*node.args[1:3]):
                node.op, node.target = "call_function", _put
        part.recompile()


def _has_rows(key: Any, y: Any) -> bool:
    keys = [each.meta.get("example_value") if isinstance(each, Node) else each for each in (key if isinstance(key, (tuple, list)) else (key,))]
    value = y.meta.get("example_value") if isinstance(y, Node) else None
    return isinstance(value, torch.Tensor) and value.requires_grad and all(isinstance(each, torch.Tensor) for each in keys) and any(each.dtype == torch.bool for each in keys)
