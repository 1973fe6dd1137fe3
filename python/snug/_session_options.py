# SPDX-License-Identifier: Apache-2.0
"""The keyword arguments of sessions and plans, for editors and type checkers; nothing imports it at run time. Names, meanings
and defaults are those of SessionOptions (include/snug/train_fields.inc says what each means)."""
from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

from ._session import Cancel, Machine

Path = str | os.PathLike[str]
Memory = int | str


class Options(TypedDict, total=False):
    # What is trained, and what that costs.
    batch_rows: int
    memory: Memory
    process_bytes: int
    startup_bytes: int
    micro_batch_size: int
    allow_coupled_split: bool
    two_pass_clip: bool
    fusion: str
    fusion_overrides: Sequence[Mapping[str, str]]
    recompute: str
    lengths: Sequence[int | Mapping[str, int]]
    optim: str
    optim_args: Mapping[str, float]
    learning_rate: float
    weight_decay: float
    max_grad_norm: float
    loss_scale: str | float
    loss_scale_min: float
    param_groups: Sequence[Mapping[str, Any]]
    layerwise_lr_decay: float
    optim_bits: int
    optim_codec: str
    optim_bits_overrides: Sequence[Mapping[str, Any]]
    bf16: bool
    fp16: bool
    bf16_full_eval: bool
    fp16_full_eval: bool
    precision_overrides: Sequence[Mapping[str, str]]
    freeze: Sequence[str]
    lora: Mapping[str, Any]
    only_gradients: bool
    only_evaluation: bool
    frozen_dtype: str
    weight_dtype: str
    lr_scheduler_type: str
    lr_scheduler_kwargs: Mapping[str, float]
    warmup_steps: int
    max_steps: int
    seed: int
    draw_numbering: str
    has_initial_values: bool
    threads: int
    # How it is opened.
    plan_file: Path
    profile_folder: Path
    repeats_own_ops: bool
    machine: Machine | None
    block: Any
    cancel: Cancel | None
    on_planning: Callable[[int, int, str], Any] | None
    on_message: Callable[[str], Any] | None
    wants_picture: bool
