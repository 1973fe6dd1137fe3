# SPDX-License-Identifier: Apache-2.0
"""From the joint forward and backward graph of AOTAutograd to a problem of snug.solve.remat (docs/frameworks.md says what is what).

What is counted are storages, not nodes. What is not understood is refused by name.
"""
from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.fx import Graph, Node

from .._errors import Error
from ._marks import must_be_saved, value_of


class Price(NamedTuple):
    """What an op costs."""

    cost: float  # in any unit
    #: Bytes that the op takes beside its operands and results.
    scratch: int = 0
    #: Of the storage of each result as the op really makes it; None where that is not known.
    storages: tuple[int, ...] | None = None
    #: Their types, such as "float32".
    types: tuple[str, ...] = ()


NUMBER_HINT = ("leave out .item(): what is another number at each call had better be a tensor; where a library takes one (torch.arange of a tensor), "
               'torch.compiler.disable around its function, and graphs="several"')
#: An op of a graph that has no backward part, where one begins: a problem has both.
NO_BACKWARD_PART = "no backward part"
HOST_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool)


def no_backward_part() -> dict[str, Any]:
    return {"id": NO_BACKWARD_PART, "phase": "backward", "cost": 0, "inputs": [], "outputs": [NO_BACKWARD_PART], "recompute": False}


def refuse(node: Node, why: str, hint: str = "") -> Error:
    place = "".join(f", {each}" for each in place_in(str(node.meta.get("stack_trace", ""))))
    return Error("unsupported", f"{node.name} ({node.target}{place})", why, hint)


def place_in(said: str) -> list[str]:
    """The innermost line of the user's that a text of PyTorch's names, if any."""
    return re.findall(r'^ *(File "[^"]*", line \d+)', said, re.MULTILINE)[-1:]


def tensors(node: Node) -> list[torch.Tensor | None]:
    """The tensors that a node makes, None where one of several is not made."""
    if is_assertion(node):
        return []
    if "val" not in node.meta:
        if node.op == "call_function":
            raise refuse(node, "is no tensor")
        raise refuse(node, "is a graph of its own, such as a branch of torch.cond", 'torch.where of what both branches make; or torch.compiler.disable around what has it, and graphs="several"')
    value = node.meta["val"]
    parts = list(value) if isinstance(value, (tuple, list)) else [value]
    for each in parts:
        if isinstance(each, HOST_NUMBERS):
            raise refuse(node, "is a number of the host", NUMBER_HINT)
        if isinstance(each, torch.Tensor) and each.layout != torch.strided:
            raise refuse(node, f"makes a tensor of layout {each.layout}, whose bytes its numbers decide", "dense tensors; sparse=False for embeddings")
        if each is not None and not isinstance(each, torch.Tensor):
            raise refuse(node, f"makes a {type(each).__name__}, which is no tensor")
    return parts


CHECKS = (torch.ops.aten._assert_async.msg, torch.ops.aten._assert_async.default, torch.ops.aten._linalg_check_errors.default)


def is_assertion(node: Node) -> bool:
    """Such as F.one_hot has for its classes, and linalg.cholesky for its result: it makes nothing, and runs once."""
    return node.target in CHECKS or _is_checked_in_order(node)


def _is_checked_in_order(node: Node) -> bool:
    """An assertion that reads and returns a token, a tensor of no bytes, which keeps effects in order."""
    return node.target is torch.ops.higher_order.with_effects and node.args[1] in CHECKS


def size_of(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def draws(node: Node) -> bool:
    """Whether the op draws random numbers. Attention without dropout says that it does, and does not."""
    tags = getattr(node.target, "tags", ())
    if torch.Tag.nondeterministic_seeded not in tags:
        return False
    places = {each.name: i for i, each in enumerate(node.target._schema.arguments)}
    if "dropout_p" not in places:
        return True
    place = places["dropout_p"]
    default = node.target._schema.arguments[place].default_value
    rate = node.args[place] if place < len(node.args) else node.kwargs.get("dropout_p", default)
    return not (isinstance(rate, (int, float)) and rate == 0)


def written(node: Node) -> list[Any]:
    """The arguments that an op writes in place."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return []
    places = {each.name: i for i, each in enumerate(schema.arguments) if each.alias_info is not None and each.alias_info.is_write}
    return [node.args[place] if place < len(node.args) else node.kwargs[name] for name, place in places.items()]


def _lies_elsewhere(node: Node) -> bool:
    """Of a view: a pass of Inductor's has given it another operand than it was traced with (of a copy, what was copied)."""
    returned = [each.alias_info for each in getattr(getattr(node.target, "_schema", None), "returns", ())]
    values = [node.meta.get("val"), node.args[0].meta.get("val") if node.args and isinstance(node.args[0], Node) else None]
    if len(returned) != 1 or returned[0] is None or returned[0].is_write or not all(isinstance(each, torch.Tensor) for each in values):
        return False
    return len({each.untyped_storage()._cdata for each in values}) == 2


def list_forward_part(graph: Graph, num_forward_outputs: int) -> None:
    """What the forward part writes in place (running statistics), and views that it returns of what it has written to, are traced behind the backward part: listed in front of it."""
    # Tangents, which have the tag too, are listed in front of all ops.
    first = next((node for node in graph.nodes if node.op == "call_function" and "backward" in node.meta.get("partitioner_tag", "")), None)
    if first is None:
        return
    nodes = list(graph.nodes)
    behind = set(nodes[nodes.index(first):])
    last = first.prev  # of the forward part: the first that is marked may be one that both parts read (softplus under Inductor's decompositions)

    def move(node: Node) -> None:
        nonlocal last
        if node in behind:
            behind.remove(node)
            for each in node.all_input_nodes:
                move(each)
            last.append(node)
            last = node

    results = torch.utils._pytree.tree_leaves(nodes[-1].args[0])[:num_forward_outputs]
    for node in nodes:
        if node.op == "call_function" and (node.meta.get("partitioner_tag") == "must_be_in_forward" or node in results):
            move(node)


class Joint:
    """A joint graph as a problem, and back: which node runs for an op, and which makes a storage.

    `num_forward_outputs`: how many of the graph's outputs the forward part makes. `price_of(node)`: see Price. `is_plain`: without views, boundary and order of draws: who reads a view names
    its storage, and what draws runs once. `holds_tangents`: they are in memory through the whole backward part, as under
    autograd's engine, and are resident then. `own_ops`: functions beside ATen's that make new tensors of their arguments
    alone, with whether they draw.
    """

    def __init__(self, graph: Graph, num_forward_outputs: int, price_of: Callable[[Node], Price], *, is_plain: bool = False,
                 holds_tangents: bool = False, own_ops: dict[Any, bool] | None = None) -> None:
        self.graph = graph
        self.is_plain = is_plain
        self.price_of = price_of
        self.own_ops = own_ops or {}
        self.names: dict[Node, list[str]] = {}  # what a reader of the node names
        self.root: dict[int, str] = {}  # by storage: its id
        self.storages: dict[str, dict[str, Any]] = {}
        self.maker: dict[str, tuple[Node, int]] = {}  # the node that makes a storage, and the number of the output
        self.resident: list[str] = []
        self.ops: list[dict[str, Any]] = []
        self.nodes: dict[str, Node] = {}  # by op
        self.of_tangents: set[Node] = set()  # nodes that depend on one
        self.tangents: list[Node] = []  # all of them
        self.has_backward_part = any(node.op == "placeholder" and node.name.startswith("tangents") for node in graph.nodes)
        self._unlisted: list[Node] = []  # tangents whose place in the list has not come
        self._kept_alive: list[Any] = []  # storages are told apart by address
        self._put_right: set[Node] = set()  # nodes whose tensors without memory had another type than kernels make
        for node in graph.nodes:
            if node.op == "placeholder" and node.name.startswith("tangents"):
                self.tangents.append(node)
                self.of_tangents.add(node)
                if holds_tangents:
                    self._add_resident(node)
                else:
                    self._unlisted.append(node)
            elif node.op in ("placeholder", "get_attr"):
                self._add_resident(node)
            elif node.op != "output":
                self._add_op(node)
        self._add_tangents()
        if not self.is_plain and all(op["phase"] == "forward" for op in self.ops):
            self.storages[NO_BACKWARD_PART] = {"bytes": 0}
            self.ops.append(no_backward_part())
        returned = torch.utils._pytree.tree_leaves(next(node for node in graph.nodes if node.op == "output").args[0])
        self.forward_outputs = returned[:num_forward_outputs]  # a number of a shape, say, is no node
        self.gradients = [each if isinstance(each, Node) else None for each in returned[num_forward_outputs:]]
        self._hold(self._counted(self.forward_outputs))

    def problem(self, *, forward_base_bytes: int = 0, backward_base_bytes: int = 0, between_bytes: int = 0) -> dict[str, Any]:
        storages = [{"id": name, **entry} for name, entry in self.storages.items()]
        result = {"storages": storages, "resident": self.resident, "keep": self._counted([*self.forward_outputs, *self.gradients])}
        if not self.is_plain:
            result["boundary"] = {"forward_outputs": self._counted(self.forward_outputs)}
            bases = {"forward_base_bytes": forward_base_bytes, "backward_base_bytes": backward_base_bytes, "between_bytes": between_bytes}
            result["boundary"].update({name: value for name, value in bases.items() if value})
        return {**result, "ops": self.ops}

    def base_of(self, name: str) -> str:
        """The storage that a view lies in; itself where it is none."""
        return self.storages.get(name, {}).get("view_of", name)

    def result_bytes(self) -> int:
        """Of the forward outputs that ops make: others are resident."""
        return sum(self.storages[name]["bytes"] for name in {self.base_of(name) for name in self._counted(self.forward_outputs)} - set(self.resident))

    def _hold(self, names: list[str]) -> None:
        """Who calls has the forward outputs: forgotten and made again, they would be there twice."""
        if self.is_plain:
            return
        bases = {self.base_of(name) for name in names}
        for op in self.ops:
            if op["phase"] == "forward" and not op.get("ordered") and bases & set(op["outputs"]):
                op["recompute"] = False

    def _counted(self, outputs: list[Any]) -> list[str]:
        ids = dict.fromkeys(name for node in outputs if isinstance(node, Node) for name in self.names[node])
        return [name for name in ids if name in self.storages]

    def _key(self, tensor: torch.Tensor) -> int:
        storage = tensor.untyped_storage()
        self._kept_alive.append(storage)
        return storage._cdata

    def _add_resident(self, node: Node) -> None:
        self.names[node] = []
        if not node.users and isinstance(node.meta.get("val", 0), HOST_NUMBERS):  # PyTorch 2.11 notes no value of it
            return  # a size that Dynamo hands over, and that is a constant of this graph
        for each in tensors(node):
            if each is None:
                continue
            key = self._key(each)
            if key not in self.root:
                self.root[key] = node.name
                self.resident.append(node.name)
            self.names[node].append(self.root[key])

    def _make(self, node: Node, number: int) -> tuple[str, dict[str, Any] | None]:
        """The id of a tensor that a node makes, and what its storage entry says: None where readers name the storage it lies in."""
        tensor = tensors(node)[number]
        assert tensor is not None
        key, name = self._key(tensor), _name_of(node, number)
        if key not in self.root:
            self.root[key] = name
            self.maker[name] = (node, number)
            return name, {"bytes": tensor.untyped_storage().nbytes()}
        root = self.root[key]
        return (root, None) if self.is_plain else (name, {"view_of": root})

    def _add_op(self, node: Node) -> None:
        if any(each in self.of_tangents for each in node.all_input_nodes):
            self.of_tangents.add(node)
        if any(each in self._put_right for each in node.all_input_nodes) and not is_assertion(node):
            self._trace_again(node)
        if _lies_elsewhere(node):
            node.meta["val"] = value_of(node)
        if node.target is operator.getitem and _is_checked_in_order(node.args[0]):
            self.names[node] = self.names[node.args[0]]
            return
        if node.target is operator.getitem:
            numbers = [i for i, each in enumerate(tensors(node.args[0])) if each is not None]
            self.names[node] = [self.names[node.args[0]][numbers.index(node.args[1])]]
            return
        if not isinstance(node.target, torch._ops.OpOverload) and node.target not in self.own_ops and not is_assertion(node):
            if node.args and isinstance(node.args[0], torch._ops.OpOverload):  # a custom op with mutates_args
                raise refuse(node, f"calls {node.args[0]}, which writes tensors in place", "let it return what it makes")
            if node.target is torch.ops.higher_order.with_effects:
                raise refuse(node, f"calls {node.args[1]}, which is there for an effect", "leave it out of what is compiled, or print and log behind the step")
            raise refuse(node, "is no ATen op")
        if node.target is torch.ops.aten.mkldnn_rnn_layer.default:
            raise refuse(node, "makes what its backward op needs under autograd alone, so that no backend trains it", 'a loop of nn.LSTMCell; or torch._dynamo.config.allow_rnn off and graphs="several": it runs between two graphs then, in no plan')
        if getattr(node.target, "namespace", "") in ("_c10d_functional", "c10d"):
            raise refuse(node, "is a collective, whose partners on other ranks are not known here")
        if "backward" in node.meta.get("partitioner_tag", "") or node in self.of_tangents:
            self._add_tangents()
        inputs = list(dict.fromkeys(name for each in node.all_input_nodes for name in self.names[each]))
        makes = [self._make(node, i) for i, each in enumerate(tensors(node)) if each is not None]
        self.names[node] = [name for name, _ in makes]
        overwritten = self._overwritten(node)
        if overwritten or is_assertion(node):
            self._list_op(node, inputs, overwritten)
            return
        if not makes:
            raise refuse(node, "returns nothing, so it is there for an effect")
        made = dict(makes)
        views = [name for name, entry in makes if entry and entry.get("view_of", name) not in made]
        if 0 < len(views) < len(makes) or (None in made.values() and any(made.values())):
            raise refuse(node, "makes views and tensors at once")
        if None in made.values():
            return  # readers of the view read its storage
        self.storages.update(made)
        self.nodes[node.name] = node
        if views:
            bases = [self.storages.get(self.base_of(name)) for name in views]
            if None not in bases:
                node.meta["storage_bytes"] = tuple(base["bytes"] for base in bases if base is not None)  # as they were put right where they are made
            self.ops.append({"id": node.name, "phase": self._phase(node), "cost": 0, "inputs": inputs, "outputs": views})
        else:
            self._list_op(node, inputs, self.names[node])

    def _overwritten(self, node: Node) -> list[str]:
        names = []
        for each in [node.args[0]] if _is_checked_in_order(node) else written(node):
            for name in self.names[each]:
                if name not in self.resident:
                    raise refuse(node, f"writes {name} in place, which is no parameter and no input")
                names.append(name)
        if names:
            self.names[node] = names  # what it returns is what it wrote
        return names

    def _list_op(self, node: Node, inputs: list[str], outputs: list[str]) -> None:
        self.nodes[node.name] = node
        is_drawn = draws(node) or self.own_ops.get(node.target, False)
        more: dict[str, Any] = {}
        if is_drawn and not self.is_plain:
            more["ordered"] = True
        elif is_drawn or must_be_saved(node) or is_assertion(node):
            more["recompute"] = False
        tag = self._tag(node)
        if is_assertion(node) and not self.is_plain and self._phase(node) == "forward":
            more["part"] = "forward"  # or what is wrong would be said after the loss is out
        elif tag.startswith("must_be_in_") and not self.is_plain:
            more["part"] = tag.removeprefix("must_be_in_")
            if tag == "must_be_in_backward" and node not in self.of_tangents:
                more.setdefault("recompute", True)  # by its phase it would run once
        price = self.price_of(node)
        if price.scratch:
            more["scratch_bytes"] = price.scratch
        if price.storages is not None:
            self._correct(node, price.storages)
            self._correct_types(node, price.types)
        self.ops.append({"id": node.name, "phase": self._phase(node), "cost": price.cost, "inputs": inputs, "outputs": outputs, **more})

    def _correct(self, node: Node, storages: tuple[int, ...]) -> None:
        """Of what an op makes, its own word for how much counts: tensors without memory are laid out by other code."""
        numbers = [i for i, each in enumerate(tensors(node)) if each is not None]
        for number, count in zip(numbers, storages):
            name = _name_of(node, number)
            if self.maker.get(name) == (node, number):
                self.storages[name]["bytes"] = count
        node.meta["storage_bytes"] = storages

    def _correct_types(self, node: Node, types: tuple[str, ...]) -> None:
        """Kernels of the CPU keep statistics of 16-bit numbers in the type of the weights, say, where PyTorch's tensors without memory have that of the numbers."""
        made = list(tensors(node))
        numbers = [i for i, each in enumerate(made) if each is not None]
        for number, name in zip(numbers, types):
            each, kind = made[number], getattr(torch, name)
            if each is None or each.dtype == kind or self.maker.get(_name_of(node, number)) != (node, number):
                continue
            with torch._guards.detect_fake_mode([each]):
                made[number] = right = torch.empty_strided(each.shape, each.stride(), dtype=kind, device=each.device)
            self.root[self._key(right)] = _name_of(node, number)
            self._put_right.add(node)
        if node in self._put_right:
            node.meta["val"] = type(node.meta["val"])(made) if isinstance(node.meta["val"], (tuple, list)) else made[0]

    def _trace_again(self, node: Node) -> None:
        """Of a node that reads what is put right: what it makes, if that is something else than before."""
        before, now = node.meta.get("val"), value_of(node)
        if [_kind_of(each) for each in torch.utils._pytree.tree_leaves(before)] != [_kind_of(each) for each in torch.utils._pytree.tree_leaves(now)]:
            node.meta["val"] = now
            self._put_right.add(node)

    def _tag(self, node: Node) -> str:
        """In which part PyTorch wants it. What a graph writes that has no backward part it would list in that."""
        return str(node.meta.get("partitioner_tag", "")) if self.has_backward_part else "must_be_in_forward"

    def _phase(self, node: Node) -> str:
        """The boundary lies in front of the first op of the backward part, which may be one that is made again there for the first that reads a tangent."""
        is_behind = not self.is_plain and self._tag(node) == "must_be_in_backward"
        return "backward" if is_behind or node in self.of_tangents else "forward"

    def _add_tangents(self) -> None:
        """Behind the last op of the forward part: who calls hands them over then."""
        for node in self._unlisted:
            self.names[node] = []
            for i in range(len(tensors(node))):
                name, entry = self._make(node, i)
                assert entry is not None
                self.storages[name] = entry
                self.names[node].append(name)
            self.nodes[node.name] = node
            self.ops.append({"id": node.name, "phase": "backward", "cost": 0, "inputs": [], "outputs": self.names[node], "recompute": False})
        self._unlisted = []


def _kind_of(value: Any) -> Any:
    return (value.dtype, value.shape, value.stride()) if isinstance(value, torch.Tensor) else value


def _name_of(node: Node, number: int) -> str:
    """Of a tensor that a node makes."""
    return node.name if number == 0 else f"{node.name}.{number}"
