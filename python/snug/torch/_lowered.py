# SPDX-License-Identifier: Apache-2.0
"""What Inductor makes of a graph, in bytes and time: its own passes, lowering, fusion, order and reuse of buffers, up to the text of the program
that calls the kernels. No kernel is compiled, most are not even written (`_unwritten.py`), nothing runs.

What it allocates and lets go is read from the lines of that program, which Inductor has as objects.
"""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
from torch._dynamo.convert_frame import compile_lock
from torch._inductor import compile_fx, ir
from torch._inductor import config as inductor_config
from torch._inductor.choices import InductorChoices
from torch._inductor.codegen import wrapper
from torch._inductor.graph import GraphLowering
from torch._inductor.utils import BoxedBool, get_dtype_size
from torch._inductor.virtualized import V
from torch.fx import GraphModule, Node

from ._kernels import milliseconds
from ._numbers import copied
from ._prices import Prices
from ._unwritten import kernels_without_text

Key = Any  # of a storage
Storage = tuple[Key, int]  # and its bytes


#: Places in the order of the graph, beyond which PyTorch 2.11 makes no kernel of two ops that read the same.
NEAR = 8


class _Near(InductorChoices):
    @staticmethod
    def can_fuse_horizontal(scheduler: Any, node1: Any, node2: Any, shared_data_score: int) -> bool:
        distance = max(abs(node1.min_order - node2.max_order), abs(node2.min_order - node1.max_order))
        return distance <= NEAR and InductorChoices.can_fuse_horizontal(scheduler, node1, node2, shared_data_score)


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """No fusion of Inductor's that lengthens lives beyond the peak: without it, what is made again is made with what is needed early. Nor the rest of a
    loop on vectors that are not full: on a CPU, PyTorch 2.15 gave wrong gradients so where much is made again in one kernel (Mamba, states of 4)."""
    with contextlib.ExitStack() as stack:
        if hasattr(inductor_config.cpp, "enable_loop_tail_vec"):
            stack.enter_context(inductor_config.patch({"cpp.enable_loop_tail_vec": False}))
        if hasattr(inductor_config, "fusion_memory_timeline_peak_memory_increase_gb"):
            stack.enter_context(inductor_config.patch(fusion_memory_timeline_peak_memory_increase_gb=0.0))
        else:
            stack.enter_context(V.set_choices_handler(_Near()))
        yield


class _Generated(BaseException):
    """The program is there. No Exception, which debugging aids of Inductor's would take for a failure."""


def generate(module: GraphModule, inputs: Sequence[Any], is_backward: bool) -> GraphLowering | None:
    """The lowered graph, with the lines of its program. None where it has no op: Inductor makes no program then."""
    found: list[GraphLowering] = []

    def stop(_: str) -> None:
        found.append(V.graph)
        raise _Generated

    with torch.no_grad(), compile_lock, mock.patch.object(GraphLowering, "save_output_code", stop), inductor_config.patch(force_disable_caches=True), \
            kernels_without_text():
        try:
            compile_fx.compile_fx_inner(module, inputs, static_input_idxs=(), cudagraphs=BoxedBool(False), is_backward=is_backward, graph_id=0, boxed_forward_device_index=None)
        except _Generated:
            pass
    return next(iter(found), None)


@dataclass
class Part:
    """What a program has in memory beside what is resident, and how long it takes."""

    #: Bytes, behind each line that makes or lets go, and within each kernel that takes more.
    levels: list[int]
    #: The largest, where nothing that is given to the program is let go.
    retained_peak: int
    #: By output: the storage it lies in, None where it is resident or no tensor.
    outputs: list[Storage | None] = field(default_factory=list)
    strides: list[tuple[int, ...] | None] = field(default_factory=list)
    milliseconds: float = 0.0

    @property
    def peak(self) -> int:
        return max(self.levels)


class _Life:
    """Storages by the names that hold them."""

    def __init__(self) -> None:
        self.storages: dict[Key, int] = {}
        self.holders: dict[Key, int] = {}
        self.of: dict[str, set[Key]] = {}
        self.now = 0
        self.levels = [0]

    def make(self, name: str, storages: Iterable[Storage]) -> None:
        self.of[name] = set()
        for key, count in storages:
            if key not in self.storages:
                self.storages[key], self.holders[key] = count, 0
                self.now += count
            self._hold(name, key)
        self.levels.append(self.now)

    def share(self, name: str, others: Iterable[str]) -> None:
        """`name` lies in storages of others."""
        keys = {key for other in others for key in self.of.get(other, ())}
        self.of[name] = set()
        for key in keys:
            self._hold(name, key)

    def _hold(self, name: str, key: Key) -> None:
        self.of[name].add(key)
        self.holders[key] += 1

    def drop(self, name: str) -> None:
        for key in self.of.pop(name, ()):
            self.holders[key] -= 1
            if not self.holders[key]:
                self.now -= self.storages.pop(key)
                del self.holders[key]
        self.levels.append(self.now)

    def take(self, scratch: int) -> None:
        self.levels += [self.now + scratch, self.now]


def _bytes(graph: GraphLowering, buffer: Any) -> int:
    return int(graph.get_allocation_storage_size(buffer)) * get_dtype_size(buffer.get_dtype())


def _flat(outputs: Any) -> list[Any]:
    if isinstance(outputs, (list, tuple)):
        return [each for part in outputs for each in _flat(part)]
    return [outputs] if isinstance(outputs, ir.Buffer) else []


def _called(life: _Life, graph: GraphLowering, node: Any, prices: Prices) -> None:
    """A kernel that makes its own results: a view of an operand, one tensor, or several. A result may lie in more than it takes itself."""
    def make(results: list[Any]) -> None:
        counts = [_bytes(graph, each) for each in results]
        for origin in _ops_of(node):
            storages = prices.of(origin).storages
            if storages is not None and len(storages) == len(counts):
                counts = [max(pair) for pair in zip(counts, storages)]
        life.make(name, [(each.get_name(), count) for each, count in zip(results, counts)])

    name = node.get_name()
    aliases = node.get_inputs_that_alias_output()
    if aliases:
        life.share(name, aliases)
    elif isinstance(node.layout, ir.MultiOutputLayout):
        make(_flat(getattr(node, "outputs", [])))
    elif not isinstance(node.layout, ir.NoneLayout):
        make([node])


def _part_of(life: _Life, line: Any) -> None:
    """A tensor taken out of several that a kernel made."""
    if line.result_name in life.of.get(line.arg_name, ()):
        life.of[line.result_name] = set()
        life._hold(line.result_name, line.result_name)
    else:
        life.share(line.result_name, [line.arg_name])


def _of_forward(storage: Storage | None) -> Storage | None:
    """Names of buffers come again in the backward part."""
    return None if storage is None else (("forward", storage[0]), storage[1])


def _ops_of(kernel: Any) -> list[Node]:
    """The graph's op that a kernel of a library computes: Inductor names it, unless it has several results, or writes its operand in the op's place."""
    origin = kernel.get_origin_node()
    return [origin] if origin is not None else [each for each in kernel.get_origins() if _name_of(each.target) == _name_of(kernel.op_overload)]


def _name_of(target: Any) -> Any:
    """Of an op, the same where it writes in place."""
    return target._schema.name.rstrip("_") if isinstance(target, torch._ops.OpOverload) else target


def _laid_out(kernel: Any, origin: Node) -> dict[Node, torch.Tensor]:
    """Operands that lie otherwise than in the graph (channels last, say): what a library takes for itself differs."""
    nodes = [each for each in torch.utils._pytree.tree_leaves((origin.args, origin.kwargs)) if isinstance(each, Node) and isinstance(each.meta["val"], torch.Tensor)]
    layouts = [each.get_layout() for each in torch.utils._pytree.tree_leaves(kernel.inputs) if each.has_tensor_output()]
    if len(nodes) != len(layouts):
        return {}  # these are no operands of the op's
    found: dict[Node, torch.Tensor] = {}
    for node, layout in zip(nodes, layouts):
        value = node.meta["val"]
        size, stride = ([int(each) for each in of] for of in (layout.size, layout.stride))
        if size != list(value.shape):
            return {}  # nor these
        if stride != list(value.stride()):
            found[node] = value.new_empty_strided(size, stride)
    return found


def _scratch(kernel: Any, prices: Prices) -> int:
    return max((prices.of(origin, _laid_out(kernel, origin)).scratch for origin in _ops_of(kernel)), default=0)


def _cost(kernel: Any, prices: Prices) -> float:
    """Of the op as its operands lie in the graph: what two partitions both run costs the same in both, and is measured once."""
    return max((prices.of(origin).cost for origin in _ops_of(kernel)), default=0.0)


def live(graph: GraphLowering, inputs: dict[str, Storage], held: Sequence[Storage], prices: Prices) -> Part:
    """What the program has in memory. `inputs`: those that are given away to it. `held`: what the caller has throughout."""
    life = _Life()
    for number, storage in enumerate(held):
        life.make(f"held {number}", [storage])
    for name, storage in inputs.items():
        life.make(name, [storage])
    results = set(graph.get_output_names())
    for line in graph.wrapper_code.lines:
        if isinstance(line, wrapper.AllocateLine):
            life.make(line.node.get_name(), [(line.node.get_name(), _bytes(graph, line.node))])
        elif isinstance(line, wrapper.ReuseLine):
            life.share(line.reused_as.get_name(), [line.node.get_name()])
            if line.delete_old and line.node.get_name() not in results:
                life.drop(line.node.get_name())
        elif isinstance(line, wrapper.ReinterpretLine):
            life.share(line.reused_as.get_name(), [line.node.get_name()])
        elif isinstance(line, wrapper.FreeLine) or (isinstance(line, wrapper.FreeIfNotReusedLine) and not line.is_reused):
            life.drop(line.node.get_name())
        elif isinstance(line, wrapper.MultiOutputLine):
            _part_of(life, line)
        elif isinstance(line, (wrapper.ExternKernelOutLine, wrapper.ExternKernelAllocLine, wrapper.IndexPutFallbackLine, wrapper.ScatterFallbackLine)):
            if isinstance(line, wrapper.ExternKernelAllocLine):
                _called(life, graph, line.node, prices)
            life.take(_scratch(line.node, prices))
    part = Part(life.levels, max(life.levels))
    for each in graph.graph_outputs:
        is_tensor = isinstance(each, ir.IRNode) and each.has_tensor_output()
        keys = life.of.get(each.get_name(), ()) if is_tensor else ()
        part.outputs.append(next(((key, life.storages[key]) for key in keys), None))
        part.strides.append(tuple(int(step) for step in each.get_layout().stride) if is_tensor else None)
    return part


def _hand_on(module: GraphModule, inputs: dict[str, Storage], held: Sequence[Storage]) -> Part:
    """Of a graph without an op, whose results are inputs."""
    results = module.graph.output_node().args[0]
    level = sum(dict([*held, *inputs.values()]).values())
    part = Part([level], level)
    part.outputs = [inputs.get(each.name) if isinstance(each, Node) else None for each in results]
    part.strides = [each.meta["val"].stride() if isinstance(each, Node) else None for each in results]
    return part


@contextlib.contextmanager
def seen_by(read: Callable[[GraphLowering], None]) -> Iterator[None]:
    """`read` is called with what Inductor compiles, before its kernels are; a BaseException of it ends the compilation."""
    before = GraphLowering.save_output_code

    def see(code: str) -> None:
        if before is not None:
            before(code)
        if isinstance(V.graph, GraphLowering):  # else the code was in Inductor's cache
            read(V.graph)

    with mock.patch.object(GraphLowering, "save_output_code", see):
        yield


class Reader:
    """Both parts of a partition, the forward part first. Tangents are not counted."""

    def __init__(self, num_results: int, prices: Prices) -> None:
        self._num_results, self._prices = num_results, prices
        self._handed: list[Storage | None] = []
        self.parts: list[Part] = []

    def read(self, graph: GraphLowering | None, module: GraphModule) -> Part:
        """`graph`: what `generate` makes of `module`."""
        given: dict[str, Storage] = {}
        held: list[Storage] = []
        if self.parts:
            results, saved = self._handed[: self._num_results], self._handed[self._num_results:]
            names = [node.name for node in module.graph.find_nodes(op="placeholder")]
            given = {name: storage for name, storage in zip(names, saved) if storage is not None}
            held = [each for each in results if each is not None]
        if graph is None:
            part = _hand_on(module, given, held)
        else:
            with V.set_graph_handler(graph):
                part = live(graph, given, held, self._prices)
                if given:
                    part.retained_peak = live(graph, {}, [*held, *given.values()], self._prices).peak
                part.milliseconds = milliseconds(graph, lambda kernel: _cost(kernel, self._prices), self._prices.bytes_per_ms(), self._prices.device.type)
        self.parts.append(part)
        self._handed = [_of_forward(each) for each in part.outputs]
        return part


def lowered(forward: GraphModule, backward: GraphModule, reader: Reader, num_results: int) -> None:
    """`reader` has read both."""
    forward, backward = copied(forward), copied(backward)
    for module, visible in ((forward, num_results), (backward, 0)):
        output = module.graph.output_node()
        output.meta["user_visible_output_idxs"] = [i for i, each in enumerate(output.args[0][:visible]) if isinstance(each, Node)]
    first = reader.read(generate(forward, _inputs_of(forward), False), forward)
    inputs = _inputs_of(backward)
    for i, stride in enumerate(first.strides[num_results:]):
        if stride is not None and stride != inputs[i].stride():
            inputs[i] = inputs[i].as_strided(inputs[i].shape, stride)  # as AOTAutograd does where Inductor lays out what is saved otherwise
    reader.read(generate(backward, inputs, True), backward)


def _inputs_of(module: GraphModule) -> list[Any]:
    return [node.meta["val"] for node in module.graph.nodes if node.op == "placeholder"]
