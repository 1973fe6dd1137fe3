# SPDX-License-Identifier: Apache-2.0
"""What a budget would cost, before anything runs."""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd

from .. import solve
from .._errors import DoesNotFit, Error
from ._backend import Backend, device_of, joint_of, without_gradients
from ._joint import Joint
from ._memory import shown
from ._region import Allowance, RegionPlan, plan_region, with_bases
from ._resident import count_resident

MOST_HALVINGS = 12


class _Found(Exception):
    """The joint graph is there; nothing of it is to be compiled."""


@dataclass
class Way:
    """Something that makes a step smaller, planned."""

    name: str
    text: str
    #: The smallest peak found with it, and the peak of keeping all.
    smallest_bytes: int
    keep_all_bytes: int
    #: For what comes next: {"micro_batches": 4}, {"autocast": "bfloat16"}, {"freeze": [...]}.
    keys: dict[str, Any] = field(default_factory=dict)


@dataclass
class Plan:
    """Bytes of the whole step on the device against time, and the plan within `memory` where it was given."""

    device: str
    region: RegionPlan | None
    #: From the smallest peak found to keeping all: {"peak_bytes", "milliseconds", "overhead"}.
    price_list: list[dict[str, float]]
    #: Ops whose time is an estimate by the bytes they move, since they do not run on made-up operands.
    estimated: list[str] = field(default_factory=list, repr=False)

    @property
    def smallest_bytes(self) -> int:
        return int(self.price_list[0]["peak_bytes"])

    @property
    def keep_all_bytes(self) -> int:
        return int(self.price_list[-1]["peak_bytes"])

    @property
    def peak_bytes(self) -> int:
        return self.keep_all_bytes if self.region is None else self.region.peak_bytes

    def __str__(self) -> str:
        lines = [] if self.region is None else [str(self.region), ""]
        lines.append(f"{'memory':>12}  {'time':>9}  more than keeping all")
        rows = self.price_list if len(self.price_list) < 12 else [self.price_list[round(i * (len(self.price_list) - 1) / 11)] for i in range(12)]
        lines += [f"{shown(int(row['peak_bytes'])):>12}  {row['milliseconds']:>6.1f} ms  {100 * row['overhead']:.1f} %" for row in reversed(rows)]
        if self.estimated:
            lines.append(f"{len(self.estimated)} ops were not measured, but estimated: {', '.join(self.estimated[:3])}")
        return "\n".join(lines)


def call(model: Callable[..., Any], batch: Any) -> Any:
    if isinstance(batch, Mapping):
        return model(**batch)
    if isinstance(batch, (list, tuple)):
        return model(*batch)
    return model(batch)


def joint_graph(model: Callable[..., Any], batch: Any, backend: Backend, loss: Callable[[Any], Any] | None = None) -> tuple[Joint, list[Any]]:
    """The joint graph of one call, and its inputs. Nothing of the model runs.

    Raises Error where the call is more than one graph, or has no gradient.
    """
    found: list[tuple[Joint, list[Any]]] = []

    def compile_graph(module: Any, _: Any) -> Callable[..., Any]:
        if backend.differentiate == "loss":
            module = without_gradients(module)

        def run(*args: Any) -> Any:
            def partition(joint_module: Any, __: Any, *, num_fwd_outputs: int, **___: Any) -> Any:
                prices = backend.prices(device_of(args))
                found.append((joint_of(joint_module, num_fwd_outputs, prices, backend.count), list(args)))
                raise _Found

            def nothing(graph: Any, _: Any) -> Any:
                return graph

            return aot_autograd(fw_compiler=nothing, partition_fn=partition, keep_inference_input_mutations=True)(module, list(args))(*args)

        return run

    def whole(*args: Any, **words: Any) -> Any:
        result = model(*args, **words)
        return result if loss is None else loss(result)

    torch._dynamo.reset()
    try:
        call(torch.compile(model if loss is None else whole, backend=compile_graph, fullgraph=True, dynamic=False), batch)
    except torch._dynamo.exc.Unsupported as error:
        raise Error("unsupported", "model", f"is more than one graph to torch.compile: {str(error).splitlines()[0]}",
                    'train it with backend(graphs="several"), which needs no plan before, or remove the break') from error
    except Exception:
        if not found:
            raise
    finally:
        torch._dynamo.reset()
    if not found:
        raise Error("bad_config", "model", "has no gradient for this batch", "call model.train(), let a parameter require a gradient")
    return found[0]


def price_list(joint: Joint, base: int, tangents: int, update: int, effort: str) -> list[dict[str, float]]:
    points = solve.curve(with_bases(joint.problem(), base, tangents, Allowance(), 0), effort=effort)["points"]
    rows: list[dict[str, float]] = []
    for point in points:
        row = {"peak_bytes": max(point["peak_bytes"], update), "milliseconds": point["cost"], "overhead": point["overhead"]}
        if rows and rows[-1]["peak_bytes"] == row["peak_bytes"]:
            rows.pop()
        rows.append(row)
    return rows


def plan(model: Callable[..., Any], batch: Any, *, memory: int | str | None, loss: Callable[[Any], Any] | None, **options: Any) -> Plan:
    backend = Backend(2**62 if memory is None else memory, **options)
    joint, args = joint_graph(model, batch, backend, loss)
    device = device_of(args)
    if memory is not None:
        try:
            region = plan_region(backend, joint, args, device, Allowance())
        except DoesNotFit as error:
            error.ways = [way for way in _ways(model, batch, backend, loss) if way.smallest_bytes <= backend.memory]
            raise
    else:
        region = None
    resident = count_resident(args, backend.optimizer, backend.resident_bytes, backend.grads, device)
    tangents = sum(each.meta["val"].untyped_storage().nbytes() for each in joint.tangents)
    rows = price_list(joint, resident.total, tangents, resident.update_peak, backend.effort)
    return Plan(str(device), region, rows, sorted(set(backend.prices(device).estimated)))


# --- what would fit


def _bytes_of(model: Callable[..., Any], batch: Any, backend: Backend, loss: Callable[[Any], Any] | None) -> tuple[int, int]:
    joint, args = joint_graph(model, batch, backend, loss)
    resident = count_resident(args, backend.optimizer, backend.resident_bytes, backend.grads, device_of(args))
    tangents = sum(each.meta["val"].untyped_storage().nbytes() for each in joint.tangents)
    rows = price_list(joint, resident.total, tangents, resident.update_peak, backend.effort)
    return int(rows[0]["peak_bytes"]), int(rows[-1]["peak_bytes"])


def _ways(model: Callable[..., Any], batch: Any, backend: Backend, loss: Callable[[Any], Any] | None) -> Iterator[Way]:
    yield from _micro_batches(model, batch, backend, loss)
    device = next((each.device.type for each in torch.utils._pytree.tree_leaves(batch) if isinstance(each, torch.Tensor)), "cpu")
    with torch.autocast(device, torch.bfloat16):
        smallest, keep_all = _bytes_of(model, batch, backend, loss)
    yield Way("autocast", f"torch.autocast({device!r}, torch.bfloat16) around the model", smallest, keep_all, {"autocast": "bfloat16"})
    tables = [module.weight for module in model.modules() if isinstance(module, torch.nn.Embedding) and module.weight.requires_grad] if isinstance(model, torch.nn.Module) else []
    if tables:
        with _frozen(tables):
            smallest, keep_all = _bytes_of(model, batch, backend, loss)
        yield Way("freeze", "no gradient for embeddings, and an optimizer without them", smallest, keep_all, {"freeze": "embeddings"})
    small = _states_in_8_bits(backend)
    if small is not None:
        shadow = Backend(backend.memory, optimizer=None, resident_bytes=backend.resident_bytes + small, grads=backend.grads, count=backend.count, graphs="one", differentiate=backend.differentiate,
                         effort=backend.effort)
        smallest, keep_all = _bytes_of(model, batch, shadow, loss)
        yield Way("8-bit states", f"{type(backend.optimizer).__name__} with states of one byte, as bitsandbytes has", smallest, keep_all, {"optim_bits": 8})


def _micro_batches(model: Callable[..., Any], batch: Any, backend: Backend, loss: Callable[[Any], Any] | None) -> Iterator[Way]:
    leaves = [each for each in torch.utils._pytree.tree_leaves(batch) if isinstance(each, torch.Tensor) and each.dim()]
    rows = leaves[0].shape[0] if leaves and len({each.shape[0] for each in leaves}) == 1 else 1
    parts = 1
    while rows % (2 * parts) == 0 and parts < 2**MOST_HALVINGS:
        parts *= 2
        piece = torch.utils._pytree.tree_map_only(torch.Tensor, lambda leaf: leaf[: rows // parts] if leaf.dim() else leaf, batch)
        smallest, keep_all = _bytes_of(model, piece, backend, loss)
        if smallest <= backend.memory:
            yield Way("micro-batches", f"{parts} micro-batches of {rows // parts} rows, whose gradients are added up", smallest, keep_all, {"micro_batches": parts})
            return


@contextlib.contextmanager
def _frozen(parameters: list[torch.nn.Parameter]) -> Iterator[None]:
    for each in parameters:
        each.requires_grad_(False)
    try:
        yield
    finally:
        for each in parameters:
            each.requires_grad_(True)


def _states_in_8_bits(backend: Backend) -> int | None:
    """Bytes of the states of Adam with a byte each and a float for every 256 of them."""
    if not isinstance(backend.optimizer, (torch.optim.Adam, torch.optim.AdamW)):
        return None
    counts = [each.numel() for group in backend.optimizer.param_groups for each in group["params"]]
    return sum(2 * (count + 4 * (-(-count // 256))) for count in counts)
