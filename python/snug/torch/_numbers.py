# SPDX-License-Identifier: Apache-2.0
"""Python's floats that are others at each call: Dynamo hands them over as tensors of one number, of which its graph takes `.item()`.

Where ops have a form for tensors, AOTAutograd puts it in their place, and one plan serves all numbers for which the graph is the
same. What an op wants as a number is a constant of the graph, which is planned for each.
"""
from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch._dynamo.exc import TensorifyScalarRestartAnalysis
from torch._dynamo.source import ConstantSource
from torch._dynamo.symbolic_convert import TensorifyState
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv


class Constant(Exception):
    """Of the numbers at these places of the arguments: an op wants them as they are."""

    def __init__(self, places: set[int]) -> None:
        super().__init__()
        self.places = places


def copied(module: GraphModule) -> GraphModule:
    """A graph of its own, whose constants are those of the module, with what Dynamo notes beside it: which inputs are parameters, and stay where they are. Inductor orders ops by what they let go of."""
    own = GraphModule(module, copy.deepcopy(module.graph))
    own.meta = module.meta
    if hasattr(module, "_param_name_to_source"):
        own._param_name_to_source = module._param_name_to_source
    for node, given in zip(own.graph.find_nodes(op="placeholder"), module.graph.find_nodes(op="placeholder"), strict=True):
        if hasattr(given, "_dynamo_source"):
            node._dynamo_source = given._dynamo_source
    return own


def _is_item(node: Node) -> bool:
    return node.op == "call_method" and node.target == "item"


def numbers_of(module: GraphModule) -> list[int]:
    """The places of such inputs."""
    def is_number(node: Node) -> bool:
        value = node.meta.get("example_value")
        is_one = isinstance(value, torch.Tensor) and value.dim() == 0 and value.dtype == torch.float64 and value.device.type == "cpu"
        return is_one and any(_is_item(user) for user in node.users)

    return [i for i, node in enumerate(module.graph.find_nodes(op="placeholder")) if is_number(node)]


class Numbers:
    """What a compiled graph takes for granted of its numbers: those that are constants of it, and what its trace found of the others."""

    def __init__(self, places: Sequence[int] = (), constants: Mapping[int, float] = {}) -> None:
        self.constants = dict(constants)
        self.free = [i for i in places if i not in constants]
        self._symbols: dict[int, Any] = {}
        self._conditions: list[Any] = []

    def hold(self, args: Sequence[Any]) -> bool:
        """Whether a call with these arguments may run what was compiled."""
        if any(args[i].item() != value for i, value in self.constants.items()):
            return False
        values = {symbol: args[i].item() for i, symbol in self._symbols.items()} if self._conditions else {}
        return all(each.subs(values) == sympy.true for each in self._conditions)

    def put_into(self, module: GraphModule, args: Sequence[Any]) -> GraphModule:
        """The graph with its constants: these, and sizes that Dynamo hands over, which are those of the shapes."""
        sizes = {i: each for i, each in enumerate(args) if isinstance(each, int)}
        if not self.constants and not sizes:
            return module
        own = copied(module)
        inputs = own.graph.find_nodes(op="placeholder")
        for i, value in sizes.items():
            inputs[i].replace_all_uses_with(value)
        for i, value in self.constants.items():
            for user in [each for each in inputs[i].users if _is_item(each)]:
                user.replace_all_uses_with(value)
                own.graph.erase_node(user)
        own.recompile()
        return own

    @contextlib.contextmanager
    def traced(self, args: Sequence[Any]) -> Iterator[list[Any]]:
        """The arguments without memory; what `.item()` of a number gives has no value.

        Raises Constant where a number needs one.
        """
        shapes = ShapeEnv(allow_scalar_outputs=False, allow_dynamic_output_shape_ops=False)
        mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=shapes)
        given = [mode.from_tensor(each, static_shapes=True) if isinstance(each, torch.Tensor) else each for each in args]
        for i in self.free:
            value, source = args[i].item(), ConstantSource(f"number_{i}")
            symbol = self._symbols[i] = shapes.create_symbol(value, source=source, dynamic_dim=DimDynamic.DYNAMIC, constraint_dim=None, positive=None, do_not_specialize_zero_one=True)
            given[i].item_memo = shapes.create_symfloatnode(symbol, hint=value, source=source)
        of_dynamo = set(TensorifyState.force_specializations)
        TensorifyState.clear()
        try:
            with torch._guards.tracing(torch._guards.TracingContext(mode)):
                yield given
        except TensorifyScalarRestartAnalysis as error:
            raise Constant({i for i, symbol in self._symbols.items() if TensorifyState.should_specialize(str(symbol))}) from error
        finally:
            TensorifyState.force_specializations.clear()
            TensorifyState.force_specializations.update(of_dynamo)
        self._conditions = [guard.expr for guard in shapes.guards]
