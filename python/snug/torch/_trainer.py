# SPDX-License-Identifier: Apache-2.0
"""For Hugging Face's Trainer: a refusal before the first step, and planned bytes beside measured ones in its log."""
from __future__ import annotations

import inspect
from typing import Any

import torch
from transformers import TrainerCallback

from ._backend import Backend
from ._left import random_numbers_as_they_were
from ._measure import measure
from ._planning import Plan, SeveralGraphs, plan
from ._shadow import unwrapped


class BudgetCallback(TrainerCallback):
    """`Trainer(..., callbacks=[snug.torch.BudgetCallback(backend)])`, where `model.compile(backend=backend)` was called before.

    When training begins, the step is planned on the first batch of the dataloader and refused where it does not fit
    (snug.DoesNotFit, with ways). Behind the second update, `snug_planned_bytes` and `snug_measured_bytes` are logged. Training is
    the same as without. Where no batch can be had without taking it from training (a data set that is read once, in order), or
    the model is several graphs, the step is planned when it first runs, and `plan` is None.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.plan: Plan | None = None
        self._watch: measure | None = None
        self._measured: Any = None

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, optimizer: Any = None, train_dataloader: Any = None, **_: Any) -> None:
        backend = self.backend
        if backend.optimizer is None:
            backend.optimizer = unwrapped(optimizer)
        device = next(model.parameters()).device
        batch = _first_batch(train_dataloader, device)
        if batch is None:
            return
        batch = {key: value.to(device) if isinstance(value, torch.Tensor) else value for key, value in batch.items()}
        if "labels" in batch and _takes_count(model):
            batch["num_items_in_batch"] = batch["labels"].ne(-100).sum()  # as the Trainer hands it over
        # The whole result, as in training: logits beside the loss are results of the graph, too.
        compiled, model._compiled_call_impl = model._compiled_call_impl, None
        try:
            self.plan = plan(model, batch, memory=backend.memory, loss=None, optimizer=backend.optimizer, resident_bytes=backend.resident_bytes,
                             grads=backend.grads, count=backend.count, graphs="one", differentiate=backend.differentiate, effort=backend.effort)
        except SeveralGraphs:
            if backend.graphs != "several":
                raise
        finally:
            model._compiled_call_impl = compiled

    def on_step_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        if state.global_step == 1:  # the first compiles, and makes the optimizer's states
            self._watch = measure(next(model.parameters()).device)
            self._measured = self._watch.__enter__()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._watch is None:
            return
        self._watch.__exit__(None, None, None)
        self._watch = None
        planned = max((each.peak_bytes for each in self.backend.plans), default=0)
        state.log_history.append({"step": state.global_step, "snug_planned_bytes": planned, "snug_measured_bytes": self._measured.peak_bytes})


def _first_batch(loader: Any, device: torch.device) -> Any:
    """That training will have, whose random numbers stay as they are; None of a data set that may be read only once. Accelerate's own loader counts what goes through it."""
    loader = getattr(loader, "base_dataloader", loader)
    if isinstance(getattr(loader, "dataset", None), torch.utils.data.IterableDataset):
        return None
    sampler = getattr(loader, "batch_sampler", None)
    owners = (loader, getattr(loader, "sampler", None), sampler, getattr(sampler, "sampler", None))
    generators = {id(each.generator): each.generator for each in owners if isinstance(getattr(each, "generator", None), torch.Generator)}
    states = [(each, each.get_state()) for each in generators.values()]
    with random_numbers_as_they_were(device):
        batch = next(iter(loader))
    for generator, state in states:
        generator.set_state(state)
    return batch


def _takes_count(model: Any) -> bool:
    """Whether the Trainer gives the model the number of labels, by the Trainer's own rule."""
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model  # of peft
    if hasattr(inner, "accepts_loss_kwargs"):
        return bool(inner.accepts_loss_kwargs)
    return any(each.kind is inspect.Parameter.VAR_KEYWORD for each in inspect.signature(inner.forward).parameters.values())
