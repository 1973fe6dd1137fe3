# SPDX-License-Identifier: Apache-2.0
"""Learning from numbers: a network of fully connected layers (snug.network) in a session."""
from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from .. import layers, ops
from .._host import host_bytes
from .._network import Network, NetworkBuilder
from .._session import Session

#: What a fit does where its keys say nothing else.
DEFAULTS = {"hidden_sizes": (100,), "learning_rate": 1e-3, "num_train_epochs": 100, "train_batch_size": 32, "hidden_dropout_prob": 0.0, "seed": 42}
# What this file does itself; all else is an option of the session.
_OWN = ("hidden_sizes", "num_train_epochs", "train_batch_size", "hidden_dropout_prob", "max_steps")
# Options of the session that this file says, by these keys.
_SAID_BY = {"batch_rows": "train_batch_size", "process_bytes": "memory"}
# What decides how weights are held: a session that predicts has to hold them alike.
_OF_WEIGHTS = ("weight_dtype", "frozen_dtype", "freeze", "lora")


def _whole(keys: dict[str, Any], name: str, least: int) -> int:
    value = keys[name]
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name} is {value!r}; give a whole number of at least {least}")
    return int(value)


def _real(keys: dict[str, Any], name: str, most: float) -> float:
    value = keys[name]
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 <= value <= most:
        raise ValueError(f"{name} is {value!r}; give a number from 0 to {most:g}")
    return float(value)


def _said(keys: dict[str, Any]) -> dict[str, str]:
    return {name: repr(value) for name, value in keys.items()}


def _network(features: int, outputs: int, hidden_sizes: tuple[int, ...], dropout: float, has_classes: bool) -> Network:
    def build(b: NetworkBuilder) -> None:
        x = b.input("x", (features,))
        for i, size in enumerate(hidden_sizes):
            x = ops.relu(layers.linear(f"hidden.{i}", x, size))
            if dropout > 0:
                x = ops.dropout(x, dropout)
        found = layers.linear("out", x, outputs)
        b.output("found", found)
        target = b.input("target", (outputs,))
        if has_classes:  # -log softmax at the class
            shifted = found - ops.reduce_max(found, [-1], keep_dims=True)
            loss = ops.log(ops.reduce_sum(ops.exp(shifted), [-1])) - ops.reduce_sum(shifted * target, [-1])
        else:
            difference = found - target
            loss = ops.reduce_mean(difference * difference, [-1])
        b.minimize(b.weighted_mean(loss, b.input("weight")))

    return Network("numbers", build)


def _kinds_of(X: Any, targets: Any) -> Any:
    """A number a row: equal rows have equal ones, in an order that follows from what the rows are."""
    rows = np.ascontiguousarray(np.hstack([X, targets]))
    return np.unique(rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel(), return_inverse=True)[1]


class NetLearner:
    """A trained network of numbers. Holds the bytes of its tensors, so it can be pickled, and goes on where it was."""

    kind = "numbers"

    def __init__(self, has_classes: bool) -> None:
        self.has_classes = has_classes
        self.shape: tuple[Any, ...] = ()
        self.tensors: dict[str, Any] = {}
        self.counts: tuple[int, ...] = (0, 0, 0)
        self.held_as: dict[str, Any] = {}  # keys of _OF_WEIGHTS
        self.said: dict[str, str] = {}  # every key of the last training, as it reads
        self.losses: list[float] = []

    def _session(self, keys: dict[str, Any], **options: Any) -> Session:
        """With what was learned so far."""
        given = {name: value for name, value in keys.items() if name not in (*_OWN, "model")}
        features, outputs, hidden_sizes, dropout = self.shape
        network = _network(features, outputs, hidden_sizes, dropout, self.has_classes)
        session = Session(network, **given, **options, process_bytes=host_bytes())
        if self.tensors:
            self._fill({tensor.name: session.edit_bytes(tensor.name) for tensor in session.tensors()}, keys, options)
        return session

    def _fill(self, places: dict[str, Any], keys: dict[str, Any], options: dict[str, Any]) -> None:
        """What trains has all that was learned, with the optimizer's states, and nothing new; what only predicts has less."""
        names = sorted(places if options.get("only_evaluation") else {*places, *self.tensors})
        other = [name for name in names if name not in places or name not in self.tensors or len(places[name]) != len(self.tensors[name])]
        if other:
            said = _said(keys)
            changed = [key for key in sorted({*said, *self.said} - {*_OWN, *_SAID_BY}) if said.get(key) != self.said.get(key)]
            before = ", ".join(f"{key}={self.said.get(key)}" for key in changed)
            raise ValueError(f"what was learned with {before} cannot be trained further with another: '{other[0]}' would be lost or begin anew. "
                             "Set it back, or fit anew")
        for name, place in places.items():
            place[:] = self.tensors[name]

    def train(self, keys: dict[str, Any], X: Any, targets: Any, weights: Any, *, passes: float | None = None) -> None:
        """`passes` over the rows; None: as the keys say, from the first weights on."""
        given = {**DEFAULTS, **{name: value for name, value in keys.items() if value is not None}}
        if given.get("model") is not None:
            raise ValueError(f"model is {given['model']!r}; what learns from numbers is layers of hidden_sizes, and model=None")
        for name in sorted(_SAID_BY.keys() & given.keys()):
            raise ValueError(f"{name} is what the estimator says itself, by {_SAID_BY[name]}")
        sizes = given["hidden_sizes"]
        sizes = list(sizes) if isinstance(sizes, (list, tuple)) or (isinstance(sizes, np.ndarray) and sizes.ndim) else [sizes]
        hidden_sizes = tuple(_whole({"hidden_sizes": size}, "hidden_sizes", 1) for size in sizes)
        if self.tensors and hidden_sizes != self.shape[2]:
            raise ValueError(f"hidden_sizes is {hidden_sizes}, and what is trained further has {self.shape[2]}: set it back, or fit anew")
        self.shape = (X.shape[1], targets.shape[1], hidden_sizes, _real(given, "hidden_dropout_prob", 1))
        seed = _whole(given, "seed", 0)
        rows, batch = len(X), min(_whole(given, "train_batch_size", 1), len(X))
        a_pass = -(-rows // batch)
        steps = math.ceil((_real(given, "num_train_epochs", 1e6) if passes is None else passes) * a_pass)
        most = None if given.get("max_steps", -1) == -1 else _whole(given, "max_steps", 1)
        if passes is None:
            steps = most = most or steps
        if steps == 0:
            raise ValueError("num_train_epochs is 0; give more")
        with self._session({**given, "batch_rows": batch}, max_steps=most) as session:
            if any(self.counts):
                session.set_counts(*self.counts)
            weight = np.ones(rows) if weights is None else weights
            self._kinds = _kinds_of(X, targets)
            self.losses = [self._step(session, X, targets, weight, batch, step, seed) for step in range(steps)]
            self.counts = tuple(session.counts)
            self.tensors = {tensor.name: np.array(session.view_bytes(tensor.name)) for tensor in session.tensors()}
            self.held_as = copy.deepcopy({name: given[name] for name in _OF_WEIGHTS if name in given})
            self.said = _said(given)

    def _step(self, session: Session, X: Any, targets: Any, weight: Any, batch: int, step: int, seed: int) -> float:
        """The rows of an epoch are a function of the seed and how many batches were drawn before. Within a batch equal rows are one
        of their weights' sum, and rows of no weight are not there, so that a weight of two is a row that stands there twice, to the
        bit: sums of f32 follow their summands' number and order."""
        a_pass = -(-len(X) // batch)
        epoch, place = divmod(step, a_pass)
        if place == 0:
            self._order = np.random.default_rng([seed, self.counts[0], epoch]).permutation(len(X))
        chosen = self._order[place * batch:(place + 1) * batch]
        _, first, kind = np.unique(self._kinds[chosen], return_index=True, return_inverse=True)
        sums = np.bincount(kind, weights=weight[chosen])
        chosen, sums = chosen[first][sums > 0], sums[sums > 0]
        if not len(chosen):
            return 0.0  # such a batch has no mean
        return session.step({"x": X[chosen], "target": targets[chosen], "weight": sums.astype(np.float32)}).loss

    def outputs(self, keys: dict[str, Any], X: Any) -> Any:
        """(rows, outputs) in float64: logits, or values."""
        given = {name: value for name, value in keys.items() if name in ("memory", "threads", "bf16_full_eval", "fp16_full_eval") and value is not None}
        batch = min(1024, len(X))
        with self._session({**given, **self.held_as, "batch_rows": batch}, only_evaluation=True) as session:
            return session.predict({"x": np.ascontiguousarray(X, np.float32)})["found"].astype(np.float64)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_order", "_kinds")}
