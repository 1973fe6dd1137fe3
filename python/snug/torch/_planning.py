# SPDX-License-Identifier: Apache-2.0
"""What a budget would cost, before anything runs."""
from __future__ import annotations

import contextlib
import functools
import html
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.convert_frame import compile_lock

from .. import solve
from .._errors import DoesNotFit, Error, Way
from . import _page
from ._backend import Backend, without_gradients
from ._compiled import device_of, joint_of, refuse_wrapped, refused_by_name
from ._joint import Joint, place_in
from ._masked import put_in_place
from ._memory import shown
from ._region import Allowance, RegionPlan, beside, plan_region, warn_of_what_is_not_seen, with_bases
from ._resident import Resident


class SeveralGraphs(Error):
    """torch.compile makes more than one graph of a call."""


class _Found(Exception):
    """What was looked for is there; nothing is to be compiled."""


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


def _of_one_graph(model: Callable[..., Any], batch: Any, backend: Backend, loss: Callable[[Any], Any] | None, look: Callable[[Any, Sequence[Any]], Outlook | None]) -> Outlook:
    """What `look` finds in the graph of one call, given its inputs. Nothing of the model runs.

    Raises Error where the call is more than one graph, or has no gradient.
    """
    found: list[Outlook | None] = []

    def compile_graph(module: Any, _: Any) -> Callable[..., Any]:
        def run(*args: Any) -> Any:  # what is refused in here, and not while Dynamo compiles, it hands on as it is
            with compile_lock:
                found.append(look(without_gradients(module) if backend.differentiate == "loss" else module, args))
            raise _Found

        return run

    def whole(*args: Any, **words: Any) -> Any:
        result = model(*args, **words)
        return result if loss is None else loss(result)

    torch._dynamo.reset()
    try:
        # With fullgraph=True, Dynamo captures numbers and sizes that it breaks graphs at without: the graph would be another than the backend gets.
        with torch._dynamo.error_on_graph_break(True):
            call(torch.compile(whole, backend=compile_graph, dynamic=False), batch)
    except torch._dynamo.exc.TorchRuntimeError as error:  # of an op, for tensors without memory of these shapes
        said = re.search(r"got (\w+\(.*)", str(error))
        raise _not_callable(str(error).split("\n", 1)[0] if said is None else said[1], str(error)) from error
    except (torch._dynamo.exc.Unsupported, torch._dynamo.exc.UserError) as error:
        said = re.search("Developer debug context: (.*)", str(error))
        does_not_bind = str(error).startswith("failed to bind arguments")  # so says PyTorch 2.11
        if said is not None and (does_not_bind or str(error).startswith(("Observed exception", "TypeError when"))):
            raise _not_callable(str(error.__cause__) if does_not_bind else said[1], str(error)) from error
        raise SeveralGraphs("unsupported", "model", f"is more than one graph to torch.compile: {_break_in(str(error))}",
                            'train it with backend(graphs="several"), which needs no plan before, or remove the break') from error
    except Exception:
        if not found:
            raise
    finally:
        torch._dynamo.reset()
    if not found or found[0] is None:
        raise Error("bad_config", "model", "has no gradient for this batch", "call model.train(), let a parameter require a gradient")
    return found[0]


def _not_callable(why: str, said: str) -> Error:
    place = "".join(f" ({each})" for each in place_in(said) if __file__ not in each)
    return Error("bad_config", "model", f"cannot be called with this batch where torch.compile traces it{place}: {why}",
                 'a dict, a tuple or one argument, as the model takes them; loss= is a function of its result; what runs in eager mode alone trains with backend(graphs="several")')


def _break_in(said: str) -> str:
    """What Dynamo says of a graph break: what it is, where in the user's code, and why."""
    why = re.search(r"^ *Explanation: (.*)", said, re.MULTILINE)
    return said.split("\n", 1)[0] + "".join(f" ({place})" for place in place_in(said)) + (f": {why[1].strip()}" if why else "")


@dataclass
class Outlook:
    """What a graph costs at every budget; the plan within the backend's, or the refusal."""

    device: torch.device
    price_list: list[dict[str, float]]
    region: RegionPlan | None = None
    refusal: DoesNotFit | None = None


def outlook(model: Callable[..., Any], batch: Any, backend: Backend, loss: Callable[[Any], Any] | None, *, prices: int = 0, is_planned: bool = False) -> Outlook:
    """With `is_planned`, op by op, also the plan, or the refusal. Under Inductor the price list has what was looked at for the plan, and so many partitions more.

    Raises Error where the call is more than one graph, or has no gradient.
    """
    look = functools.partial(_op_by_op, backend, is_planned) if backend.mode == "exact" else functools.partial(_under_inductor, backend, prices)
    return _of_one_graph(model, batch, backend, loss, look)


def _op_by_op(backend: Backend, is_planned: bool, module: Any, args: Sequence[Any]) -> Outlook | None:
    found: list[Joint] = []

    def partition(joint_module: Any, __: Any, *, num_fwd_outputs: int, **___: Any) -> Any:
        found.append(joint_of(joint_module, num_fwd_outputs, backend.prices(device_of(args)), backend.count))
        raise _Found

    def nothing(graph: Any, _: Any) -> Any:
        return graph

    refuse_wrapped(args)
    put_in_place(module)
    try:
        with refused_by_name():
            aot_autograd(fw_compiler=nothing, partition_fn=partition, keep_inference_input_mutations=True)(module, list(args))(*args)
    except Exception:
        if not found:
            raise
    if not found:
        return None
    joint, device = found[0], device_of(args)
    warn_of_what_is_not_seen(backend, joint, args)
    try:
        region = plan_region(backend, joint, args, device, Allowance()) if is_planned else None
    except DoesNotFit as error:
        return Outlook(device, [], refusal=error)
    resident, tangents = beside(backend, joint, args, device) if region is None else (region.resident, region.tangent_bytes)
    return Outlook(device, _curve(backend, joint, resident, tangents), region)


def _curve(backend: Backend, joint: Joint, resident: Resident, tangents: int) -> list[dict[str, float]]:
    points = solve.curve(with_bases(joint.problem(), resident.total, tangents, Allowance(), 0), effort=backend.effort)["points"]
    return _cheapest([(max(point["peak_bytes"], resident.update_peak), point["cost"], point["overhead"]) for point in points])


def _under_inductor(backend: Backend, prices: int, module: Any, args: Sequence[Any]) -> Outlook | None:
    from ._fused import Planned  # some 30 MB that who does not use it does without

    try:
        planned = Planned(backend, module, args, prices)
    except DoesNotFit as error:
        return Outlook(device_of(args), [], refusal=error)
    if planned.plan is None or not planned.trains:
        return None
    rows = _cheapest([(each.peak_bytes, each.milliseconds, each.overhead) for each in (*planned.lowered, planned.plan)])
    own = next((each for each in planned.lowered if not each.report["schedule"]), None)
    if own is not None and rows[-1]["peak_bytes"] < own.peak_bytes:  # another is as fast within less; this one is taken where it fits
        rows.append({"peak_bytes": own.peak_bytes, "milliseconds": own.milliseconds, "overhead": own.overhead})
    return Outlook(device_of(args), rows, planned.plan)


def _cheapest(points: Iterable[tuple[int, float, float]]) -> list[dict[str, float]]:
    """From the smallest peak to the least time, without what takes more bytes for no less time."""
    rows: list[dict[str, float]] = []
    for peak, milliseconds, overhead in sorted(points):
        if not rows or milliseconds < rows[-1]["milliseconds"]:
            rows.append({"peak_bytes": peak, "milliseconds": milliseconds, "overhead": overhead})
    return rows


def plan(model: Callable[..., Any], batch: Any, *, memory: int | str | None, loss: Callable[[Any], Any] | None, **options: Any) -> Plan:
    backend = Backend(2**62 if memory is None else memory, **options)
    found = outlook(model, batch, backend, loss, prices=3, is_planned=memory is not None)
    if found.refusal is not None:
        found.refusal.ways = tuple(sorted((way for way in _Search(model, batch, backend, loss).ways() if way is not None), key=lambda way: way.least_bytes))
        raise found.refusal
    return Plan(str(found.device), None if memory is None else found.region, found.price_list, sorted(set(backend.prices(found.device).estimated)))


# --- what would fit


class _Search:
    """Changes of a model's step, each planned."""

    def __init__(self, model: Callable[..., Any], batch: Any, backend: Backend, loss: Callable[[Any], Any] | None) -> None:
        self.model, self.batch, self.backend, self.loss = model, batch, backend, loss

    def way(self, keys: dict[str, Any], text: str, *, batch: Any = None, backend: Backend | None = None, parts: int = 1) -> Way | None:
        """None where it does not fit either."""
        backend = self.backend if backend is None else backend
        rows = outlook(self.model, self.batch if batch is None else batch, backend, self.loss).price_list
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
