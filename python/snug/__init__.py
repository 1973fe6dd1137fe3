# SPDX-License-Identifier: Apache-2.0
"""Trains neural networks in the memory you have.

    import snug
    print(snug.plan(model="bert-base", memory="2GiB"))
    snug.train(model="bert-base", train_file="train.jsonl", output_dir="out", memory="2GiB")
"""
from __future__ import annotations

from typing import Any

from . import layers, ops, recompute, solve
from ._errors import DoesNotFit, Error, Way
from ._network import InitRule, Length, Network, NetworkBuilder, Tensor, TensorType, network
from ._own_op import Op, op
from ._plan import Plan
from ._planning import (explain_network, every_combination, fastest_levers, gradients, model_network, plan_allowed_levers, plan_levers, plan_network,
                        splits_of, tensors_of)
from ._progress import Warned
from ._row_source import RowSlot, RowSource
from ._session import Cancel, Evaluation, GradientResult, LossScale, Machine, Session, SessionPlan, StepResult, TensorInfo, UpdateCounts
from ._verbs import convert, evaluate, explain, export, inspect, keys, levers, merge, plan, predict, tokenize, train, verify


def __getattr__(name: str) -> Any:
    """snug.sklearn, which is imported where it is asked for, and __version__, which is the library's."""
    if name == "__version__":
        return version()["version"]
    if name == "sklearn":
        import importlib

        return importlib.import_module(".sklearn", __name__)
    raise AttributeError(f"module 'snug' has no attribute {name!r}")


def version() -> dict[str, str]:
    """The library's version, and the instruction set it computes with."""
    from ._library import call

    return call("version", {})


__all__ = [
    "Cancel", "DoesNotFit", "Error", "Evaluation", "GradientResult", "InitRule", "Length", "LossScale", "Machine", "Network",
    "NetworkBuilder", "Op", "Plan", "RowSlot", "RowSource", "Session", "SessionPlan", "StepResult", "Tensor", "TensorInfo", "TensorType",
    "UpdateCounts", "Warned", "Way", "convert", "evaluate", "every_combination", "explain", "explain_network", "export", "fastest_levers",
    "gradients", "inspect", "keys", "layers", "levers", "merge", "model_network", "network", "op", "ops", "plan", "plan_allowed_levers",
    "plan_levers", "plan_network", "predict", "recompute", "solve", "splits_of", "tensors_of", "tokenize", "train", "verify", "version",
]
