# SPDX-License-Identifier: Apache-2.0
"""Trains neural networks in the memory you have.

    import snug
    print(snug.plan(model="bert-base", memory="2GiB"))
    snug.train(model="bert-base", train_file="train.jsonl", output_dir="out", memory="2GiB")
"""
from __future__ import annotations

from . import solve
from ._errors import DoesNotFit, Error
from ._plan import Plan
from ._progress import Warned
from ._verbs import convert, evaluate, explain, export, inspect, keys, levers, merge, plan, predict, tokenize, train, verify


def version() -> dict[str, str]:
    """The library's version, and the instruction set it computes with."""
    from ._library import call

    return call("version", {})


__all__ = [
    "DoesNotFit", "Error", "Plan", "Warned", "convert", "evaluate", "explain", "export", "inspect", "keys", "levers", "merge",
    "plan", "predict", "solve", "tokenize", "train", "verify", "version",
]
