# SPDX-License-Identifier: Apache-2.0
"""Equal plans on all ranks of a process group: what ops cost is what rank 0 measured.

Nothing here is a collective: a rank whose graph rank 0 does not have (other shapes) waits, and then plans with its own prices.
"""
from __future__ import annotations

import datetime
import hashlib
import json
import warnings
from typing import Any

import torch

SECONDS = 120


def with_prices_of_first_rank(problem: dict[str, Any]) -> dict[str, Any]:
    if not torch.distributed.is_available() or not torch.distributed.is_initialized() or torch.distributed.get_world_size() == 1:
        return problem
    from torch.distributed.distributed_c10d import _get_default_store

    ops = problem["ops"]
    graph = json.dumps({**problem, "ops": [{name: value for name, value in op.items() if name not in ("cost", "scratch_bytes")} for op in ops]}, sort_keys=True)
    key = f"snug/prices/{hashlib.sha256(graph.encode()).hexdigest()}"
    store = _get_default_store()
    if torch.distributed.get_rank() == 0:
        store.set(key, json.dumps([[op["cost"], op.get("scratch_bytes", 0)] for op in ops]))
        return problem
    try:
        store.wait([key], datetime.timedelta(seconds=SECONDS))
    except Exception:  # noqa: BLE001: stores raise errors of their own
        warnings.warn(f"snug.torch: rank 0 has had no such graph for {SECONDS} s: this rank plans with its own prices", stacklevel=2)
        return problem
    found = json.loads(store.get(key))
    return {**problem, "ops": [{**op, "cost": cost, **({"scratch_bytes": scratch} if scratch else {})} for op, (cost, scratch) in zip(ops, found, strict=True)]}
