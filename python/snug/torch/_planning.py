# SPDX-License-Identifier: Apache-2.0
"""What a budget would cost, before anything runs."""
from __future__ import annotations

import contextlib
import html
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd

from .. import solve
from .._errors import DoesNotFit, Error, Way
from . import _page
from ._backend import Backend, without_gradients
from ._compiled import device_of, joint_of
from ._joint import Joint
from ._memory import shown
from ._region import Allowance, RegionPlan, beside, plan_region, with_bases


class _Found(Exception):
    """The joint graph is there; nothing of it is to be compiled."""


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

    def to_html(self) -> str:
        """One page: the text, memory over the step, the price list. Needs matplotlib."""
        return _page.page(self)

    def save_html(self, file: str | os.PathLike[str]) -> None:
        _page.save(self, os.fspath(file))

    def _repr_html_(self) -> str:
        # A page of its own within the notebook's, whose styles it leaves alone.
        return f'<iframe srcdoc="{html.escape(self.to_html())}" style="width:100%;height:60em;border:0"></iframe>'


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


def price_list(backend: Backend, joint: Joint, args: list[Any]) -> list[dict[str, float]]:
    resident, tangents = beside(backend, joint, args, device_of(args))
    points = solve.curve(with_bases(joint.problem(), resident.total, tangents, Allowance(), 0), effort=backend.effort)["points"]
    rows: list[dict[str, float]] = []
    for point in points:
        row = {"peak_bytes": max(point["peak_bytes"], resident.update_peak), "milliseconds": point["cost"], "overhead": point["overhead"]}
        if rows and rows[-1]["peak_bytes"] == row["peak_bytes"]:
            rows.pop()
        rows.append(row)
    return rows


def plan(model: Callable[..., Any], batch: Any, *, memory: int | str | None, loss: Callable[[Any], Any] | None, **options: Any) -> Plan:
    backend = Backend(2**62 if memory is None else memory, **options)
    joint, args = joint_graph(model, batch, backend, loss)
    device = device_of(args)
    region = None
    if memory is not None:
        try:
            region = plan_region(backend, joint, args, device, Allowance())
        except DoesNotFit as error:
            error.ways = tuple(sorted((way for way in _Search(model, batch, backend, loss).ways() if way is not None), key=lambda way: way.least_bytes))
            raise
    return Plan(str(device), region, price_list(backend, joint, args), sorted(set(backend.prices(device).estimated)))


# --- what would fit


class _Search:
    """Changes of a model's step, each planned."""

    def __init__(self, model: Callable[..., Any], batch: Any, backend: Backend, loss: Callable[[Any], Any] | None) -> None:
        self.model, self.batch, self.backend, self.loss = model, batch, backend, loss

    def way(self, keys: dict[str, Any], text: str, *, batch: Any = None, backend: Backend | None = None, parts: int = 1) -> Way | None:
        """None where it does not fit either."""
        backend = self.backend if backend is None else backend
        joint, args = joint_graph(self.model, self.batch if batch is None else batch, backend, self.loss)
        rows = price_list(backend, joint, args)
        fitting = [row for row in rows if row["peak_bytes"] <= backend.memory]
        if not fitting:
            return None
        return Way(keys, int(rows[0]["peak_bytes"]), parts * fitting[-1]["milliseconds"] / 1000, "micro_batches" not in keys, text)

    def ways(self) -> Iterator[Way | None]:
        yield self.micro_batches()
        device = next((each.device.type for each in torch.utils._pytree.tree_leaves(self.batch) if isinstance(each, torch.Tensor)), "cpu")
        with torch.autocast(device, torch.bfloat16):
            yield self.way({"autocast": "bfloat16"}, f'torch.autocast("{device}", torch.bfloat16) around the model')
        tables = [module.weight for module in self.model.modules() if isinstance(module, torch.nn.Embedding)] if isinstance(self.model, torch.nn.Module) else []
        if any(each.requires_grad for each in tables):
            with _frozen([each for each in tables if each.requires_grad]):
                yield self.way({"freeze": "embeddings"}, "no gradient for embeddings, and an optimizer without them")
        states = _states_in_8_bits(self.backend)
        if states is not None:
            yield self.way({"optim_bits": 8}, f"{type(self.backend.optimizer).__name__} with states of one byte, as bitsandbytes has", backend=self.backend.with_states(states))

    def micro_batches(self) -> Way | None:
        leaves = [each for each in torch.utils._pytree.tree_leaves(self.batch) if isinstance(each, torch.Tensor) and each.dim()]
        rows = leaves[0].shape[0] if leaves and len({each.shape[0] for each in leaves}) == 1 else 1
        parts = 1
        while rows % (2 * parts) == 0:
            parts *= 2
            piece = torch.utils._pytree.tree_map_only(torch.Tensor, lambda leaf: leaf[: rows // parts] if leaf.dim() else leaf, self.batch)
            found = self.way({"micro_batches": parts}, f"{parts} micro-batches of {rows // parts} rows, whose gradients are added up", batch=piece, parts=parts)
            if found is not None:
                return found
        return None


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
