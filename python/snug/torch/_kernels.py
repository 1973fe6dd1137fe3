# SPDX-License-Identifier: Apache-2.0
"""How long a program of Inductor's takes, before its kernels are there: those of libraries by their prices, its own by the bytes that they move
and the arithmetic of their loops. Whatever is made again within a kernel is in neither of the graph's ops."""
from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from torch import fx
from torch._inductor import scheduler
from torch._inductor.graph import GraphLowering

#: What an operation on one number costs in a loop on a CPU, in bytes that are moved meanwhile: with AVX-512, these functions one by one, and of the others about what partitions
#: of small GPT-2 and Llama-like models take longer. Bytes by themselves favour those that make most again, by some 5 %.
_OPERATION = 2.0
_FUNCTIONS = {"tanh": 34.0, "pow": 58.0, "log": 10.0, "erf": 8.0}
_MOVES = ("load", "store", "get_index", "index_expr", "constant")  # in a loop's body, and no arithmetic


def milliseconds(graph: GraphLowering, cost_of: Callable[[Any], float], bytes_per_ms: float, device_type: str) -> float:
    """`cost_of`: what a kernel of a library takes. With the graph's handler set. A GPU does its arithmetic while it waits for memory."""
    total = 0.0
    for node in graph.scheduler.nodes:
        if isinstance(node, scheduler.ExternKernelSchedulerNode):
            total += cost_of(node.node)
        elif not isinstance(node, scheduler.NopKernelSchedulerNode):
            arithmetic = sum(map(_arithmetic, _loops(node))) if device_type == "cpu" else 0.0
            total += (node.get_read_write_buffers_sizes() + arithmetic) / bytes_per_ms
    return total


def _loops(node: Any) -> Iterator[Any]:
    return (each for each in node.get_nodes() if isinstance(each, scheduler.SchedulerNode) and each._body is not None)


def _arithmetic(loop: Any) -> float:
    """What is written several times in a loop is computed once."""
    numbers = math.prod(int(size) for sizes in loop.get_ranges() for size in sizes)
    values: dict[Any, int] = {}
    of: dict[Any, int] = {}
    total = 0.0
    for node in loop._body.root_block.graph.nodes:
        key = str((node.op, node.target, fx.node.map_arg((node.args, node.kwargs), of.get)))
        if key not in values and node.op == "call_method" and node.target not in _MOVES:
            total += _FUNCTIONS.get(node.target, _OPERATION)
        of[node] = values.setdefault(key, len(values))
    return numbers * total
