# SPDX-License-Identifier: Apache-2.0
"""scikit-learn's estimators: a classifier and a regressor of texts, pairs of texts, images and numbers (docs/python.md).

    from snug.sklearn import SnugClassifier
    model = SnugClassifier("bert-mini", memory="1GiB", num_train_epochs=2).fit(texts, labels)
"""
from __future__ import annotations

import os
from typing import Any

try:
    import numpy as np
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data
except ImportError as missing:
    raise ImportError("snug.sklearn needs scikit-learn, 1.6 or newer: pip install scikit-learn", name="sklearn") from missing

from .. import _verbs
from ._net import NetLearner
from ._rows import rows_of
from ._run import RunLearner

__all__ = ["SnugClassifier", "SnugRegressor"]

# What an estimator says itself.
_OWN = frozenset(("train_file", "validation_file", "test_file", "output_dir", "task", "text_column", "text_pair_column", "label_column", "weight_column", "resume"))


class _Estimator(BaseEstimator):
    """What both have. Parameters are `model`, `memory` and every key of a run configuration."""

    def __init__(self, model: str | os.PathLike[str] | None = None, *, memory: str | int = "auto", **keys: Any) -> None:
        self.model = model
        self.memory = memory
        vars(self).update(keys)

    # Keys are attributes, as the two parameters are. What a fit makes ends with an underscore.
    def _names(self) -> list[str]:
        return sorted(name for name in vars(self) if not name.startswith("_") and not name.endswith("_"))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Any:
        known = set(self._names())
        if not known.issuperset(params):
            known |= {key["name"] for key in _verbs.keys()} - _OWN
        for name, value in params.items():
            if name not in known:
                raise ValueError(f"{name!r} is no parameter of {type(self).__name__}: it takes model, memory and the keys of docs/configuration.md")
            setattr(self, name, value)
        return self

    def _keys(self) -> dict[str, Any]:
        keys = self.get_params()
        for name in _OWN.intersection(keys):
            raise ValueError(f"{name} is what {type(self).__name__} says itself")
        return keys

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        return tags

    def _numbers(self, X: Any, y: Any, **how: Any) -> Any:
        return validate_data(self, X, y, dtype=np.float32, **how)

    def _learner_for(self, kind: str, *, is_new: bool) -> Any:
        """A new one, or the one that there is, which has to be of this kind."""
        if is_new or not hasattr(self, "learner_"):
            return None
        if self.learner_.kind != kind:
            raise ValueError(f"X has {kind}, and what is trained further learned from {self.learner_.kind}")
        return self.learner_

    def _rows_to_predict(self, X: Any) -> Any:
        """Rows for the learner: as it has them, or an array."""
        check_is_fitted(self, "learner_")
        rows = rows_of(X)
        kind = "numbers" if rows is None else rows.kind
        if self.learner_.kind == "numbers" and rows is None:
            return validate_data(self, X, dtype=np.float32, reset=False)
        if rows is None and len(X) == 0:
            raise ValueError("X has no rows")
        if kind != self.learner_.kind:
            raise ValueError(f"X has {kind}; {type(self).__name__} was fitted on {self.learner_.kind}")
        return rows


def _weights(sample_weight: Any, X: Any) -> Any:
    if sample_weight is None:
        return None
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if not weights.any():
        raise ValueError("sample_weight is 0 everywhere")
    return weights


class SnugClassifier(ClassifierMixin, _Estimator):
    """Classifies texts, pairs of texts, images or numbers, and is trained within `memory`, the process's.

    X is one of: texts (n,); pairs of texts (n, 2); images, uint8 (n, height, width) or (n, height, width, 3), a list of such
    of any sizes, or files of PNG and JPEG (n,); numbers (n, features). `model` is a preset or a folder as Hugging Face's; None
    is bert-tiny or resnet-20 with fresh weights, and of numbers a network with layers of `hidden_sizes`. Every key of
    docs/configuration.md is a parameter. All rows are trained on, unless `validation_split` says otherwise.

    Fitted: `classes_`, and `learner_`, which of texts and images has `summary` (docs/files.md) and `folder.path`, the model's
    folder, of numbers `losses`.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SnugClassifier:
        return self._fit(X, y, None, sample_weight, is_new=True)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> SnugClassifier:
        """Trains further: of numbers one pass, with the optimizer's states as they were left; of texts and images a run from
        the weights as they were left, with an optimizer of its own. The first call needs all `classes`, or y has them."""
        return self._fit(X, y, classes, sample_weight, is_new=False)

    def _fit(self, X: Any, y: Any, classes: Any, sample_weight: Any, *, is_new: bool) -> SnugClassifier:
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        keys = self._keys()
        rows = rows_of(X)
        learner = self._learner_for("numbers" if rows is None else rows.kind, is_new=is_new)
        if rows is None:
            X, y = self._numbers(X, y, reset=learner is None)
        y = column_or_1d(y, warn=True)
        found = _classes_of("y", y)
        check_classification_targets(y)
        if len(y) != len(X):
            raise ValueError(f"X has {len(X)} rows and y has {len(y)}")
        known = found if classes is None else _classes_of("classes", classes)
        if learner is not None:
            if classes is not None and not np.array_equal(known, self.classes_):
                raise ValueError(f"classes is {known.tolist()}, and was {self.classes_.tolist()} when the first of it was learned")
            known = self.classes_
        places = _places(known, y)
        weights = _weights(sample_weight, places)
        if rows is None:
            learner = learner or NetLearner(has_classes=True)
            learner.train(keys, X, np.eye(len(known), dtype=np.float32)[places], weights, passes=None if is_new else 1)
        else:
            learner = learner or RunLearner(rows.kind, "classification")
            names = _class_names(known)
            if classes is not None and not learner.is_trained:
                keys.setdefault("label_order", _listed(names))
            learner.train(keys, rows, [names[place] for place in places], weights)
        self.classes_, self.learner_ = known, learner  # both, or where training fails both as they were
        return self

    def predict_proba(self, X: Any) -> Any:
        """(rows, classes), in the order of `classes_`."""
        rows = self._rows_to_predict(X)
        if self.learner_.kind == "numbers":
            logits = self.learner_.outputs(self._keys(), rows)
            powers = np.exp(logits - logits.max(axis=1, keepdims=True))
            return powers / powers.sum(axis=1, keepdims=True)
        names = _class_names(self.classes_)
        return np.array([[row["scores"][name] for name in names] for row in self.learner_.predictions(self._keys(), rows)])

    def predict(self, X: Any) -> Any:
        places = self.predict_proba(X).argmax(axis=1)
        return self.classes_[places]


def _classes_of(name: str, labels: Any) -> Any:
    """In their order, each once."""
    if np.ndim(labels) != 1 or not len(labels):
        raise ValueError(f"{name} is {labels!r}; it has to be a list of labels")
    try:
        classes = np.unique(labels)
    except TypeError:
        raise ValueError(f"{name} has labels that no order is known of: {', '.join(sorted({type(label).__name__ for label in labels}))}") from None
    if classes.dtype.kind == "f" and not np.isfinite(classes).all():
        raise ValueError(f"{name} has a label that is not finite")
    return classes


def _places(classes: Any, y: Any) -> Any:
    """Of each label among the classes."""
    try:
        places = np.searchsorted(classes, y)
    except TypeError:  # texts among numbers
        places = np.zeros(len(y), np.int64)
    places[places == len(classes)] = 0
    strange = classes[places] != y
    if strange.any():
        raise ValueError(f"y has labels that are none of the classes: {list(dict.fromkeys(y[strange].tolist()))}")
    return places


def _class_names(classes: Any) -> list[str]:
    """As the library calls them."""
    names = [str(each) for each in classes.tolist()]
    for name in names:
        if not name.strip() or "/" in name or "\0" in name or name in (".", ".."):
            raise ValueError(f"{name!r} is no name of a class")
    if len(set(names)) != len(names):
        raise ValueError(f"classes are called alike: {names}")
    return names


def _listed(names: list[str]) -> list[str]:
    for name in names:
        if "," in name:
            raise ValueError(f"the class {name!r} has a comma, and cannot be one of classes=")
    return names


def _in_f32(targets: Any) -> Any:
    most = np.finfo(np.float32).max
    if np.abs(targets).max() > most:
        raise ValueError(f"y has {targets.flat[np.abs(targets).argmax()]:g}; it is learned in f32, whose largest number is {most:g}: scale it")
    return targets.astype(np.float32)


class SnugRegressor(RegressorMixin, _Estimator):
    """The same for numbers: one a row, or several. Images have classes only."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SnugRegressor:
        return self._fit(X, y, sample_weight, is_new=True)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> SnugRegressor:
        """Trains further, as SnugClassifier does."""
        return self._fit(X, y, sample_weight, is_new=False)

    def _fit(self, X: Any, y: Any, sample_weight: Any, *, is_new: bool) -> SnugRegressor:
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        keys = self._keys()
        rows = rows_of(X)
        if rows is not None and rows.kind == "images":
            raise ValueError("X has images, which have classes only: SnugClassifier takes them")
        learner = self._learner_for("numbers" if rows is None else rows.kind, is_new=is_new)
        if rows is None:
            X, y = self._numbers(X, y, multi_output=True, y_numeric=True, reset=learner is None)
        targets = np.asarray(y, dtype=np.float64)
        if targets.ndim not in (1, 2) or len(targets) != len(X) or not np.isfinite(targets).all():
            raise ValueError(f"y is {targets.shape}; it has to be a finite number a row of X, which has {len(X)}, or several")
        if learner is not None and targets.shape[1:] != self.target_shape_:
            raise ValueError(f"y has targets of the shape {targets.shape[1:]}, and had of {self.target_shape_}")
        weights = _weights(sample_weight, targets)
        if rows is None:
            learner = learner or NetLearner(has_classes=False)
            learner.train(keys, X, _in_f32(targets.reshape(len(targets), -1)), weights, passes=None if is_new else 1)
        else:
            learner = learner or RunLearner(rows.kind, "regression")
            learner.train(keys, rows, targets.tolist(), weights)
        self.target_shape_, self.learner_ = targets.shape[1:], learner
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def predict(self, X: Any) -> Any:
        rows = self._rows_to_predict(X)
        if self.learner_.kind == "numbers":
            values = self.learner_.outputs(self._keys(), rows)
        else:
            values = np.array([row["values"] for row in self.learner_.predictions(self._keys(), rows)])
        return values.reshape(len(values), *self.target_shape_)
