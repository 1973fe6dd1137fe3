# SPDX-License-Identifier: Apache-2.0
"""A U-Net that finds discs in noisy pictures, which this program draws: segmentation, pixel by pixel.
    python unet.py [memory [updates]]"""
import sys

import numpy as np
import snug
from snug.layers import conv2d, cross_entropy
from snug.ops import concat, max_pool2d, relu, upsample_nearest

SIDE, ROWS = 32, 16


def two_convolutions(b, name, x, channels):
    with b.scope(name):
        return relu(conv2d("conv2", relu(conv2d("conv1", x, channels)), channels))


@snug.network
def unet(b):
    level1 = two_convolutions(b, "down.1", b.input("picture", [SIDE, SIDE, 1]), 8)
    level2 = two_convolutions(b, "down.2", max_pool2d(level1), 16)
    bottom = two_convolutions(b, "bottom", max_pool2d(level2), 32)
    up2 = two_convolutions(b, "up.2", concat([upsample_nearest(bottom, 2), level2], 3), 16)
    up1 = two_convolutions(b, "up.1", concat([upsample_nearest(up2, 2), level1], 3), 8)
    logits = conv2d("classes", up1, 2, kernel=1, padding=0)
    b.output("logits", logits)
    b.minimize(cross_entropy(logits, b.input("class", [SIDE, SIDE], "i32")))


def pictures(random):
    drawn = random.randint(0, 1 << 32, (ROWS, 3 + SIDE * SIDE), np.uint32).astype(np.int64)
    x, y, radius = 6 + drawn[:, 0:1] % 20, 6 + drawn[:, 1:2] % 20, 3 + drawn[:, 2:3] % 6
    at = np.arange(SIDE * SIDE)
    is_disc = (at % SIDE - x) ** 2 + (at // SIDE - y) ** 2 <= radius * radius
    noise = (drawn[:, 3:] % 1000).astype(np.float32) * np.float32(0.0006)
    picture = np.where(is_disc, np.float32(0.8), np.float32(0.2)) + noise
    return {"picture": picture.reshape(ROWS, SIDE, SIDE, 1), "class": is_disc.astype(np.int32).reshape(ROWS, SIDE, SIDE)}


memory, updates = (sys.argv[1:2] or ["8MiB"])[0], int((sys.argv[2:3] or [120])[0])
session = snug.Session(unet, batch_rows=ROWS, memory=memory, micro_batch_size=4, learning_rate=5e-3)
print(session.plan)
random = np.random.RandomState(1)
for _ in range(updates):
    step = session.step(pictures(random))
    if step.update % 20 == 0:
        print(f"update {step.update}: loss {step.loss:.4f}")
unseen, right = pictures(random), []
found = session.evaluate(unseen, lambda _first, out: right.append(out["logits"].argmax(-1)))
share = 100 * (np.concatenate(right) == unseen["class"]).mean()
print(f"unseen pictures: loss {found.loss:.9g}, {share:.2f} % of the pixels are right")
print(f"planned arena {session.plan.arena_bytes}, measured {session.measured_arena_bytes()} bytes")
sys.exit(0 if len(sys.argv) > 2 or share > 97 else 1)
