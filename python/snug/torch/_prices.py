# SPDX-License-Identifier: Apache-2.0
"""What ops cost on the device that runs: milliseconds, and bytes that an op takes beside its operands and results.

Every op is measured once a device, on operands of its own shapes, and remembered in a file.
"""
from __future__ import annotations

import json
import operator
import os
import pathlib
import platform
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.utils._python_dispatch import _disable_current_modes

from .._errors import Error
from ._joint import Price, size_of, tensors
from ._profiler import allocated_on_cpu

MOVED = 32 << 20  # bytes that an op reads and writes to show how fast the device moves them
BYTES_PER_MS = 10e6  # of an op that does not run on made-up operands
MS_PER_CALL = 0.005
OF_PYTORCH = ("aten", "prims", "mkldnn", "onednn", "quantized", "quantized_decomposed")


def cache_folder() -> pathlib.Path:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(home) / "snug" / "torch"


def device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), model)
    except OSError:
        pass
    return f"{model}, {torch.get_num_threads()} threads"


def wait(device: torch.device) -> None:
    """Until the device has done what it was told."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Prices:
    """What ops cost. `estimated` has those that could not be measured, whose nodes say for what they are held, and under which key to tell what they took (`learn`)."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        safe = "".join(each if each.isalnum() else "-" for each in f"{device_name(device)}, PyTorch {torch.__version__}")
        self.path = cache_folder() / f"{safe}.json"
        self.estimated: list[str] = []
        self._known: dict[str, Price | None] = self._read()
        self._unsure = {*self._known}  # of these, ops that are not PyTorch's may be others by now
        self._unmeasured = {key for key, price in self._known.items() if price is None}  # do not run on made-up operands
        self._learned: set[str] = set()  # in this process
        self._is_changed = False

    def of(self, node: Node, operands: Mapping[Node, torch.Tensor] | None = None) -> Price:
        """`operands`: those that are others than the graph's."""
        name = node.target if isinstance(node.target, torch._ops.OpOverload) else getattr(node.target, "__qualname__", str(node.target))
        values = {each: each.meta["val"] for each in node.all_input_nodes} | dict(operands or {})
        key = f"{name}{_shown(node.args, values)}{_shown(node.kwargs, values)}"
        if key not in self._known or (key in self._unsure and not _is_of_pytorch(node)):
            known = self._known.get(key)
            found = self._measure(node, values, known)
            if found is None:
                self._unmeasured.add(key)
            self._is_changed |= key not in self._known or found not in (None, known)
            self._known[key] = found or known
            self._unsure.discard(key)
        price = self._known[key]
        if price is None:
            self.estimated.append(node.name)
            price = Price(_estimate(node))
        if key in self._unmeasured:
            node.meta["unmeasured"] = key, price
        return price

    def measured_now(self, run: Callable[[], Any]) -> tuple[Any, Price]:
        """What a call returns that can be made only once, and what it took."""
        start = time.perf_counter()
        result, scratch = self._scratch(run)
        return result, Price(round((time.perf_counter() - start) * 1000, 6), scratch, *_storages(result))

    def learn(self, key: str, price: Price) -> Price:
        """Of an op that does not run on made-up operands: what it took on others, of all in this process at most."""
        known = self._known[key]
        if known is None or key not in self._learned or price.scratch > known.scratch:
            self._known[key] = price
            self._is_changed |= known is None or known[1:] != price[1:]
        self._learned.add(key)
        return self._known[key] or price

    def of_call(self, target: Any, args: Any, words: Any, result: Any) -> Price:
        """Of an op beside a graph, with tensors without memory."""
        graph = Graph()

        def placed(value: torch.Tensor) -> Node:
            node = graph.placeholder(f"operand_{len(graph.nodes)}")
            node.meta["val"] = value
            return node

        args, words = torch.utils._pytree.tree_map_only(torch.Tensor, placed, (args, words))
        node = graph.call_function(target, args, words)
        node.meta["val"] = result
        price = self.of(node)
        for each in graph.nodes:
            each.meta.clear()  # a graph is a cycle, which would hold the tensors
        return price

    def bytes_per_ms(self) -> float:
        """What an op moves that does next to nothing with it."""
        key = f"{MOVED} bytes moved"
        price = self._known.get(key)
        if price is None:
            with _disable_current_modes(), torch.no_grad():
                numbers, result = torch.ones(2, MOVED // 8, device=self.device)
                price = self._known[key] = Price(round(self._seconds(lambda: torch.neg(numbers, out=result)) * 1000, 6), 0, ())
            self._is_changed = True
        return MOVED / price.cost

    def save(self) -> None:
        """Written whole or not at all; a cache that cannot be written is measured again."""
        if not self._is_changed:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=self.path.parent, suffix=".tmp", delete=False, encoding="utf-8") as file:
                json.dump({**self._read(), **self._known}, file)
            os.replace(file.name, self.path)
        except OSError:
            pass
        self._is_changed = False

    def _read(self) -> dict[str, Price | None]:
        try:
            with open(self.path, encoding="utf-8") as file:
                return {str(key): None if value is None else Price(float(value[0]), int(value[1]), tuple(map(int, value[2])), tuple(map(str, value[3])))
                        for key, value in json.load(file).items() if value is None or len(value) == 4}  # older versions wrote no types
        except (OSError, ValueError, AttributeError, TypeError, IndexError):
            return {}

    def _measure(self, node: Node, values: Mapping[Node, Any], known: Price | None) -> Price | None:
        """`known`: from another process. It holds where the op still takes and makes as much."""
        def run() -> Any:
            return node.target(*operands, **words)

        devices = [self.device] if self.device.type == "cuda" else []
        with _disable_current_modes(), torch.random.fork_rng(devices=devices), torch.no_grad():
            try:
                operands, words = _operands(node, values, self.device)
                made = _storages(run())  # what is set up at the first run is the library's
                price = Price(0, self._scratch(run)[1], *made)
                if known is not None and known[1:] == price[1:]:
                    return known
                return price._replace(cost=round(self._seconds(run) * 1000, 6))
            except Error:  # of the profiler
                raise
            except Exception:  # noqa: BLE001: made-up operands may be no valid ones, whatever the op says
                return None

    def _seconds(self, run: Any) -> float:
        """The shortest of up to twenty runs: of three where they are long and the shortest two agree. What else the machine does only adds to it."""
        times: list[float] = []
        repeats = 1

        def is_enough() -> bool:
            shortest = sorted(times)[:2]
            agrees = shortest[-1] <= 1.1 * shortest[0]  # a thread that another process holds up takes milliseconds, and not the same ones twice
            return sum(times) * repeats >= (0.01 if agrees else 0.5)

        while len(times) < 3 or (len(times) < 20 and not is_enough()):
            wait(self.device)
            start = time.perf_counter()
            for _ in range(repeats):
                run()
            wait(self.device)
            times.append((time.perf_counter() - start) / repeats)
            if self.device.type == "cuda" and repeats == 1 and times[0] < 1e-3:
                repeats, times = 10, []  # one launch is mostly waiting
        return min(times)

    def _scratch(self, run: Callable[[], Any]) -> tuple[Any, int]:
        """What a call returns, and bytes at its own peak beside that."""
        if self.device.type == "cuda":
            wait(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)
            before = torch.cuda.memory_stats(self.device)["requested_bytes.all.current"]
            result = run()
            wait(self.device)
            after = torch.cuda.memory_stats(self.device)
            return result, max(0, after["requested_bytes.all.peak"] - max(before, after["requested_bytes.all.current"]))
        peak, kept, result = allocated_on_cpu(run)
        return result, peak - max(0, kept)


def _is_of_pytorch(node: Node) -> bool:
    """Which says its version in the name of the file; or ours."""
    return not isinstance(node.target, torch._ops.OpOverload) or node.target.namespace in OF_PYTORCH


def _storages(result: Any) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Of what an op makes: bytes and types."""
    made = [each for each in torch.utils._pytree.tree_leaves(result) if isinstance(each, torch.Tensor)]
    return tuple(each.untyped_storage().nbytes() for each in made), tuple(str(each.dtype).removeprefix("torch.") for each in made)


def _shown(arg: Any, values: Mapping[Node, Any]) -> str:
    if isinstance(arg, Node):
        return _shown(values[arg], values)
    if isinstance(arg, torch.Tensor):
        lazy = " conj" * arg.is_conj() + " neg" * arg.is_neg()
        return f"{str(arg.dtype).removeprefix('torch.')}{list(arg.shape)}{list(arg.stride())}+{arg.storage_offset()}/{arg.untyped_storage().nbytes()}{lazy}"
    if isinstance(arg, (list, tuple)):
        return "(" + ",".join(_shown(each, values) for each in arg) + ")"
    if isinstance(arg, dict):
        return "{" + ",".join(f"{key}={_shown(each, values)}" for key, each in arg.items()) + "}"
    return repr(arg)


def _operands(node: Node, values: Mapping[Node, Any], device: torch.device) -> Any:
    """Made up, but for what the op that makes it lays down in integers (seeds, indices, masks): that op runs for it, since
    kernels take their word for it, and for where they lie."""
    made: dict[Node, Any] = {}

    def operand(arg: Node) -> Any:
        value = values[arg]
        if arg.target is not operator.getitem or not isinstance(value, torch.Tensor) or value.dtype.is_floating_point:
            return _made_up(value, device)
        maker = arg.args[0]
        assert isinstance(maker, Node)
        if maker not in made:
            inputs, words = torch.fx.node.map_arg((maker.args, maker.kwargs), lambda each: _made_up(each.meta["val"], device))
            _make_usual(maker.target, inputs)
            made[maker] = maker.target(*inputs, **words)  # type: ignore[operator]
        return made[maker][arg.args[1]]

    operands, words = torch.fx.node.map_arg((node.args, node.kwargs), operand)
    _make_usual(node.target, operands)
    return operands, words


def _make_usual(target: Any, operands: Any) -> None:
    """What some ops take within follows from the numbers in their operands."""
    if target in (torch.ops.aten.index_put.default, torch.ops.aten.index_put_.default):
        _take_rows(*operands[:3])
    if target in (torch.ops.aten._embedding_bag.default, torch.ops.aten._embedding_bag_forward_only.default):
        _fill_bags(*operands[1:3])


def _fill_bags(indices: torch.Tensor, offsets: torch.Tensor) -> None:
    """Each bag has as many."""
    offsets.copy_(torch.arange(len(offsets)) * (len(indices) // max(1, len(offsets))))


def _take_rows(x: torch.Tensor, indices: list[torch.Tensor | None], y: torch.Tensor) -> None:
    """Where y has a row for each place of a mask, the mask is true at so many."""
    mask = indices[0]
    if len(indices) == 1 and mask is not None and mask.dtype == torch.bool and y.dim() == 1 + x.dim() - mask.dim() and y.shape[0] > 1:
        mask.fill_(False)
        mask[torch.ones_like(mask).nonzero()[: y.shape[0]].unbind(1)] = True


def _made_up(value: Any, device: torch.device) -> Any:
    """An operand with the shape and strides of the real one: numbers between 0.1 and 1, integers 0, masks true. Conjugated
    where that is left to who reads it, which may take a copy."""
    if isinstance(value, (list, tuple)):
        return type(value)(_made_up(each, device) for each in value)
    if not isinstance(value, torch.Tensor):
        return value
    count = value.untyped_storage().nbytes() // value.element_size()  # some ops copy the whole of it
    where = device if value.device.type != "cpu" else torch.device("cpu")
    base = torch.empty(count, dtype=value.dtype, device=where)
    if value.dtype.is_floating_point and value.element_size() > 1:
        base.uniform_(0.1, 1)
    else:
        base.fill_(1 if value.dtype == torch.bool else 0)
    made = base.as_strided(value.shape, value.stride(), value.storage_offset())
    made = made.conj() if value.is_conj() else made
    return torch._neg_view(made) if value.is_neg() else made


def _estimate(node: Node) -> float:
    moved = sum(size_of(each) for part in [node, *node.all_input_nodes] for each in tensors(part) if each is not None)
    return moved / BYTES_PER_MS + MS_PER_CALL
