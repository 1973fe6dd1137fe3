# SPDX-License-Identifier: Apache-2.0
"""Ops on the values of a network, under the names of include/snug/ops.h. Shapes are checked at the call. Operators stand for
the element-wise ones; `fill` is the builder's: b.fill(1.0, [])."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._network import Tensor, _listed, builder_of, dtype_name

Number = float | int


def _unary(name: str, x: Tensor) -> Tensor:
    return builder_of(x)._tensor(name, [x])


def _operands(a: Tensor | Number, b: Tensor | Number) -> list[Tensor]:
    """Tensors, of which one may be given as a number."""
    like = a if isinstance(a, Tensor) else b
    found = []
    for each in (a, b):
        operand = builder_of(like)._constant(each, like)  # type: ignore[arg-type]
        if operand is None:
            raise TypeError(f"an operand is a value of a network (snug.Tensor) or a number, not a {type(each).__name__}")
        found.append(operand)
    return found


def _compared(name: str, a: Tensor | Number, b: Tensor | Number) -> Tensor:
    return builder_of(a, b)._tensor(name, _operands(a, b))


def exp(x: Tensor) -> Tensor:
    return _unary("exp", x)


def log(x: Tensor) -> Tensor:
    return _unary("log", x)


def sqrt(x: Tensor) -> Tensor:
    return _unary("sqrt", x)


def rsqrt(x: Tensor) -> Tensor:
    """1 / sqrt(x)."""
    return _unary("rsqrt", x)


def tanh(x: Tensor) -> Tensor:
    return _unary("tanh", x)


def erf(x: Tensor) -> Tensor:
    return _unary("erf", x)


def sigmoid(x: Tensor) -> Tensor:
    return _unary("sigmoid", x)


def relu(x: Tensor) -> Tensor:
    return _unary("relu", x)


def gelu(x: Tensor) -> Tensor:
    return _unary("gelu", x)


def where(condition: Tensor, a: Tensor | Number, b: Tensor | Number) -> Tensor:
    """a where the condition (boolean) is true, b elsewhere. Numbers stand for constants."""
    builder = builder_of(condition)
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        a = builder.fill(a)
    return builder._tensor("where", [condition, *_operands(a, b)])


def cast(x: Tensor, to: Any) -> Tensor:
    """To "f32", "i32" or "bool"."""
    return builder_of(x)._tensor("cast", [x], to=dtype_name(to))


def equal(a: Tensor | Number, b: Tensor | Number) -> Tensor:
    return _compared("equal", a, b)


def not_equal(a: Tensor | Number, b: Tensor | Number) -> Tensor:
    return _compared("not_equal", a, b)


def less(a: Tensor | Number, b: Tensor | Number) -> Tensor:
    return _compared("less", a, b)


def less_equal(a: Tensor | Number, b: Tensor | Number) -> Tensor:
    return _compared("less_equal", a, b)


def greater(a: Tensor | Number, b: Tensor | Number) -> Tensor:
    return _compared("greater", a, b)


def greater_equal(a: Tensor | Number, b: Tensor | Number) -> Tensor:
    return _compared("greater_equal", a, b)


def reshape(x: Tensor, shape: Sequence[int]) -> Tensor:
    return builder_of(x)._tensor("reshape", [x], shape=_listed("reshape", "shape", shape))


def transpose(x: Tensor, order: Sequence[int]) -> Tensor:
    """All axes, in this order."""
    return builder_of(x)._tensor("transpose", [x], order=_listed("transpose", "order", order))


def slice(x: Tensor, axis: int, start: int, stop: int) -> Tensor:  # noqa: A001: its name in C++
    """[start, stop) of one axis."""
    return builder_of(x)._tensor("slice", [x], axis=axis, start=start, stop=stop)


def pad(x: Tensor, axis: int, before: int, after: int) -> Tensor:
    """Zeros before and after, along one axis."""
    return builder_of(x)._tensor("pad", [x], axis=axis, before=before, after=after)


def concat(parts: Sequence[Tensor], axis: int) -> Tensor:
    parts = list(parts)
    return builder_of(*parts)._tensor("concat", parts, axis=axis)


def broadcast_to(x: Tensor, shape: Sequence[int]) -> Tensor:
    return builder_of(x)._tensor("broadcast_to", [x], shape=_listed("broadcast_to", "shape", shape))


def upsample_nearest(x: Tensor, factor: int) -> Tensor:
    """Images (N, H, W, C) -> (N, factor H, factor W, C), every pixel repeated."""
    return builder_of(x)._tensor("upsample_nearest", [x], factor=factor)


def _reduced(name: str, x: Tensor, axes: Sequence[int], keep_dims: bool) -> Tensor:
    return builder_of(x)._tensor(name, [x], axes=_listed(name, "axes", axes), keep_dims=keep_dims)


def reduce_sum(x: Tensor, axes: Sequence[int], keep_dims: bool = False) -> Tensor:
    return _reduced("reduce_sum", x, axes, keep_dims)


def reduce_mean(x: Tensor, axes: Sequence[int], keep_dims: bool = False) -> Tensor:
    return _reduced("reduce_mean", x, axes, keep_dims)


def reduce_max(x: Tensor, axes: Sequence[int], keep_dims: bool = False) -> Tensor:
    return _reduced("reduce_max", x, axes, keep_dims)


def matmul(a: Tensor, b: Tensor, *, transpose_a: bool = False, transpose_b: bool = False) -> Tensor:
    """(..., m, k) (..., k, n) -> (..., m, n); either may be given transposed. `a @ b` where neither is."""
    return builder_of(a)._tensor("matmul", [a, b], transpose_a=transpose_a, transpose_b=transpose_b)


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    return builder_of(x)._tensor("softmax", [x], axis=axis)


def masked_softmax(x: Tensor, mask: Tensor) -> Tensor:
    """Over the last axis, of the elements whose mask (boolean, broadcast to x) is true; the others are 0."""
    return builder_of(x)._tensor("masked_softmax", [x, mask])


def max_pool2d(x: Tensor, kernel: int = 2, stride: int = 2, padding: int = 0) -> Tensor:
    """Images (N, H, W, C)."""
    return builder_of(x)._tensor("max_pool2d", [x], kernel=kernel, stride=stride, padding=padding)


def gather_rows(table: Tensor, ids: Tensor) -> Tensor:
    """Rows of a table (n, columns) by id i32(...): (..., columns)."""
    return builder_of(table)._tensor("gather_rows", [table, ids])


def gather_sum(table: Tensor, ids: Tensor, weights: Tensor) -> Tensor:
    """The sum over the last axis of weights (..., T) times rows by id i32(..., T): (..., columns)."""
    return builder_of(table)._tensor("gather_sum", [table, ids, weights])


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, *, heads: int = 1, dropout: float = 0.0) -> Tensor:
    """Self-attention of several heads over q, k, v (rows, length, width), tiled. mask boolean(rows, length): keys that are there."""
    return builder_of(q)._tensor("attention", [q, k, v, mask], heads=heads, dropout=dropout)


def dropout(x: Tensor, rate: float) -> Tensor:
    """x itself in evaluation or where the rate is 0."""
    return builder_of(x)._tensor("dropout", [x], rate=rate)


def lstm_cell(gates: Tensor, h: Tensor, c: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """One step of an LSTM: gates (rows, 4 H) in the order i, f, g, o; the next h and c (rows, H). Rows whose mask boolean(rows) is
    false stay as they are."""
    state = builder_of(gates)._tensors("lstm_cell", [gates, h, c, mask])
    return state[0], state[1]  # type: ignore[return-value]
