# SPDX-License-Identifier: Apache-2.0
"""Layers, under the names of include/snug/layers.h: each declares its weights, called after the scope and its name
("encoder.fc.weight", "encoder.fc.bias"), and gives its result. Layouts of weights are PyTorch's."""
from __future__ import annotations

from ._network import Tensor, builder_of


def linear(name: str, x: Tensor, out_features: int) -> Tensor:
    """(rows, ..., in) -> (rows, ..., out); weight (out, in), bias (out)."""
    return builder_of(x)._tensor("linear", [x], name=name, out_features=out_features)


def conv2d(name: str, x: Tensor, out_channels: int, *, kernel: int = 3, stride: int = 1, padding: int = 1, has_bias: bool = True) -> Tensor:
    """Images (N, H, W, C) -> (N, OH, OW, out); weight (out, C, KH, KW)."""
    return builder_of(x)._tensor("conv2d", [x], name=name, out_channels=out_channels, kernel=kernel, stride=stride, padding=padding, has_bias=has_bias)


def layer_norm(name: str, x: Tensor, eps: float = 1e-5) -> Tensor:
    """Over the last axis."""
    return builder_of(x)._tensor("layer_norm", [x], name=name, eps=eps)


def batch_norm(name: str, x: Tensor, eps: float = 1e-5, momentum: float = 0.1) -> Tensor:
    """Over all axes but the last: by the statistics of the batch in training, by running ones in evaluation. Couples the rows."""
    return builder_of(x)._tensor("batch_norm", [x], name=name, eps=eps, momentum=momentum)


def embedding(name: str, ids: Tensor, count: int, width: int) -> Tensor:
    """ids i32(...) -> rows of weight (count, width): (..., width)."""
    return builder_of(ids)._tensor("embedding", [ids], name=name, count=count, width=width)


def embedding_sum(name: str, ids: Tensor, weights: Tensor, count: int, width: int) -> Tensor:
    """The sum over the last axis of weights (..., T) times the rows that ids i32(..., T) name: (..., width)."""
    return builder_of(ids)._tensor("embedding_sum", [ids, weights], name=name, count=count, width=width)


def cross_entropy(logits: Tensor, labels: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """The mean of softmax cross entropy of logits (rows, ..., classes) over the labels i32(rows, ...) that are not -100."""
    return builder_of(logits)._tensor("cross_entropy", [logits, labels], label_smoothing=label_smoothing)


def mean_squared_error(prediction: Tensor, target: Tensor) -> Tensor:
    """The mean of (prediction - target)^2."""
    return builder_of(prediction)._tensor("mean_squared_error", [prediction, target])
