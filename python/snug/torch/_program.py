# SPDX-License-Identifier: Apache-2.0
"""A graph as straight Python: every op in its order, every name forgotten behind its last use."""
from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.multiprocessing.reductions import StorageWeakRef

from .._errors import Error
from ._prices import Prices


def _last_uses(module: GraphModule) -> dict[Node, list[Node]]:
    """By node: what nobody reads behind it. A tuple is forgotten as soon as its parts are taken out."""
    seen: set[Node] = set()
    dead: dict[Node, list[Node]] = {}
    for node in reversed(module.graph.nodes):
        if node.op == "output":
            seen.update(node.all_input_nodes)
            continue
        dead[node] = [each for each in dict.fromkeys((*node.all_input_nodes, node)) if each not in seen]
        seen.update((*node.all_input_nodes, node))
    return dead


class Program:
    """Runs a graph. Called with a list of the inputs, which it empties, as AOTAutograd's boxed convention wants."""

    _boxed_call = True

    def __init__(self, module: GraphModule) -> None:
        self.module = module
        self.inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
        self._constants: list[Any] = []
        self._run = self._compile()

    def __call__(self, args: list[Any]) -> Any:
        return self._run(args)

    def _name(self, node: Node) -> str:
        return "v_" + node.name

    def _constant(self, value: Any) -> str:
        self._constants.append(value)
        return f"c{len(self._constants) - 1}"

    def _text(self, arg: Any) -> str:
        if isinstance(arg, Node):
            return self._name(arg)
        if isinstance(arg, (list, tuple)):
            inside = "".join(self._text(each) + ", " for each in arg)
            return f"[{inside}]" if isinstance(arg, list) else f"({inside})"
        if isinstance(arg, dict):
            return "{" + "".join(f"{key!r}: {self._text(each)}, " for key, each in arg.items()) + "}"
        if arg is None or isinstance(arg, (bool, int, str)):
            return repr(arg)
        return self._constant(arg)

    def _statement(self, node: Node) -> str:
        if node.op == "get_attr":
            return f"{self._name(node)} = {self._constant(operator.attrgetter(node.target)(self.module))}"
        words = [self._text(arg) for arg in node.args] + [f"{key}={self._text(arg)}" for key, arg in node.kwargs.items()]
        return f"{self._name(node)} = {self._constant(node.target)}({', '.join(words)})"

    def _compile(self) -> Callable[[list[Any]], Any]:
        dead = _last_uses(self.module)
        lines = []
        if self.inputs:
            lines.append("".join(self._name(node) + ", " for node in self.inputs) + "= args")
        lines.append("args.clear()")
        lines += [f"{self._name(node)} = None" for node in self.inputs if node in dead[node]]
        for node in self.module.graph.nodes:
            if node.op == "output":
                lines.append("return " + self._text(node.args[0]))
            elif node.op != "placeholder":
                lines.append(self._statement(node))
                if dead[node]:
                    lines.append(" = ".join(self._name(each) for each in dead[node]) + " = None")
        heads = "".join(f"c{i}=c{i}, " for i in range(len(self._constants)))
        source = f"def run(args, {heads}):\n" + "".join(f"    {line}\n" for line in lines)
        names = {f"c{i}": value for i, value in enumerate(self._constants)}
        exec(compile(source, "<snug plan>", "exec"), names)
        return names["run"]

    def watched(self, args: list[Any], watch: Watch, counted: set[str]) -> Any:
        """As a call, with every storage that an op makes told to `watch` and compared with what was planned. `counted`: names of
        inputs that are counted with what ops make; the others are counted elsewhere."""
        dead = _last_uses(self.module)
        values: dict[Node, Any] = dict(zip(self.inputs, args, strict=True))
        args.clear()
        for node in self.inputs:
            (watch.add if node.name in counted else watch.leave_out)(values[node])
            if node in dead[node]:
                del values[node]
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                continue
            if node.op == "output":
                return torch.fx.node.map_arg(node.args[0], lambda arg: values[arg])
            if node.op == "get_attr":
                values[node] = operator.attrgetter(node.target)(self.module)
                watch.leave_out(values[node])
            else:
                operands, words = torch.fx.node.map_arg((node.args, node.kwargs), lambda arg: values[arg])
                values[node] = watch.run(node, functools.partial(node.target, *operands, **words))
                del operands, words
            for each in dead[node]:
                del values[each]
        raise AssertionError("a graph without an output")


class Watch:
    """The bytes of all storages that ops have made and that are still there, by who looks at them last. Ops that do not run on made-up
    operands are measured; `counts_scratch`: with what they take within."""

    def __init__(self, prices: Prices, counts_scratch: bool) -> None:
        self.peak = 0
        self.is_plan_outdated = False  # by what was learned of such ops
        self._otherwise = ""  # the first op whose result lies otherwise than PyTorch said when it was traced
        self._prices = prices
        self._counts_scratch = counts_scratch
        self._live: dict[int, tuple[StorageWeakRef, int]] = {}
        self._elsewhere: dict[int, StorageWeakRef] = {}

    def add(self, value: Any) -> None:
        if not isinstance(value, torch.Tensor):
            return
        storage = value.untyped_storage()
        key = storage._cdata
        if key in self._elsewhere and not self._elsewhere[key].expired():
            return
        self._live[key] = (StorageWeakRef(storage), storage.nbytes())

    def add_held(self, storage: StorageWeakRef, count: int) -> None:
        """What somebody else holds, perhaps."""
        self._live[storage.cdata] = (storage, count)

    def leave_out(self, value: Any) -> None:
        """Of what is counted elsewhere: parameters, inputs, tangents."""
        if isinstance(value, torch.Tensor):
            storage = value.untyped_storage()
            self._elsewhere[storage._cdata] = StorageWeakRef(storage)
            self._live.pop(storage._cdata, None)

    def run(self, node: Node, run: Callable[[], Any]) -> Any:
        """What an op makes, told while its operands are still held."""
        scratch = 0
        if "unmeasured" in node.meta:
            value, scratch = self._measured(node, run)
        else:
            value = self._run_planned(node, run)
        for each in value if isinstance(value, (tuple, list)) else [value]:
            self.add(each)
        self._live = {key: entry for key, entry in self._live.items() if not entry[0].expired()}
        self.peak = max(self.peak, scratch + sum(count for _, count in self._live.values()))
        return value

    def _run_planned(self, node: Node, run: Callable[[], Any]) -> Any:
        try:
            value = run()
        except RuntimeError as error:
            if not self._otherwise or isinstance(error, torch.OutOfMemoryError):
                raise
            raise Error("unsupported", "graph", f"cannot run {node.name} ({node.target}): {self._otherwise} has made a result that lies otherwise than PyTorch said when it was traced",
                        'mode="inductor", which lays results out itself, or .contiguous() behind that op') from error
        if node.target is not operator.getitem:
            compare(node, value)
            if not self._otherwise and _strides(value) != _strides(node.meta.get("val")):
                self._otherwise = f"{node.name} ({node.target})"
        return value

    def _measured(self, node: Node, run: Callable[[], Any]) -> tuple[Any, int]:
        """Of an op that does not run on made-up operands, with what it takes within where that is counted."""
        key, planned = node.meta["unmeasured"]
        value, price = self._prices.measured_now(run)
        price = self._prices.learn(key, price)
        scratch = price.scratch if self._counts_scratch else 0
        self.is_plan_outdated |= scratch > planned.scratch or difference(node, value) is not None
        return value, scratch


def compare(node: Node, value: Any) -> None:
    """What an op has made beside what the plan holds it for.

    Raises Error where a storage has other bytes.
    """
    found = difference(node, value)
    if found is not None:
        raise Error("internal", f"{node.name} ({node.target})", found)


def _strides(value: Any) -> list[tuple[int, ...]]:
    """Of results that have more than one number."""
    return [each.stride() for each in torch.utils._pytree.tree_leaves(value) if isinstance(each, torch.Tensor) and each.numel() > 1]


def difference(node: Node, value: Any) -> str | None:
    planned = [each for each in torch.utils._pytree.tree_leaves(node.meta.get("val")) if isinstance(each, torch.Tensor)]
    made = [each for each in torch.utils._pytree.tree_leaves(value) if isinstance(each, torch.Tensor)]
    expected = node.meta.get("storage_bytes") or [each.untyped_storage().nbytes() for each in planned]
    for number, (count, tensor) in enumerate(zip(expected, made)):
        if tensor.untyped_storage().nbytes() != count or tensor.dtype != planned[number].dtype:
            return f"made a storage of {tensor.untyped_storage().nbytes()} bytes, {tensor.dtype}; the plan has {count}, {planned[number].dtype}"
    return None
