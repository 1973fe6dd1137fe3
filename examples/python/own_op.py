# SPDX-License-Identifier: Apache-2.0
"""An op of this program: of every row the k largest values stay, the others become 0. It brings its kernel and its gradient, and
is planned like any other op.
    python own_op.py [memory [updates]]"""
import sys

import numpy as np
import snug
from snug.layers import layer_norm, linear, mean_squared_error
from snug.ops import where

ROWS, FEATURES, WIDTH = 32, 16, 256


def same_as_x(x, k):
    if x.dtype != "f32" or not x.shape or not 1 <= k <= x.shape[-1]:
        raise snug.Error("shape_mismatch", "keep_largest", f"k values of f32 rows, not {x}")
    return x


@snug.op(shapes=same_as_x, flops=lambda x, k: 8 * np.prod(x.shape, dtype=float))
def keep_largest(x, y, *, k=1):
    least = np.partition(x, -k)[..., -k, None]
    np.copyto(y, np.where(x >= least, x, np.float32(0)))


@keep_largest.gradient
def _(x, y, dy, *, k):
    return where(y != 0, dy, 0)


@snug.network(ops=[keep_largest])
def own_op(b):
    x = linear("in", b.input("x", [FEATURES]), WIDTH)
    for i in range(4):
        with b.scope(f"block.{i}"):
            inner = linear("up", layer_norm("norm", x), WIDTH)
            x = x + linear("down", keep_largest(inner, k=32), WIDTH)
    y = linear("out", x, 1)
    b.output("y", y)
    b.minimize(mean_squared_error(y, b.input("wanted", [1])))


def data(random):
    drawn = random.randint(0, 1 << 32, (ROWS, FEATURES), np.uint32) % 2001
    x = (drawn.astype(np.float32) - 1000) * np.float32(0.0017)
    return {"x": x, "wanted": (x[:, :1] * x[:, 1:2] + np.where(x[:, 2:3] > 0, x[:, 3:4], -x[:, 3:4]))}


memory, updates = (sys.argv[1:2] or ["16MiB"])[0], int((sys.argv[2:3] or [300])[0])
session = snug.Session(own_op, batch_rows=ROWS, memory=memory, micro_batch_size=8)
print(session.plan)
random = np.random.RandomState(1)
losses = [session.step(data(random)).loss for _ in range(updates)]
first, last = losses[0], sum(loss / 20 for loss in losses[-20:])
print(f"loss {first:.9g} before, {last:.9g} after")
print(f"planned arena {session.plan.arena_bytes}, measured {session.measured_arena_bytes()} bytes")
sys.exit(0 if len(sys.argv) > 2 or last < 0.6 * first else 1)
