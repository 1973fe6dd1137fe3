# SPDX-License-Identifier: Apache-2.0
"""Two towers and a contrastive loss: every question is to be nearer to its own answer than to the answers of all other rows of the
batch. So the rows are coupled: the batch is not split.
    python two_towers.py [memory [updates]]"""
import sys

import numpy as np
import snug
from snug.layers import layer_norm, linear
from snug.ops import exp, gelu, log, matmul, reduce_sum, rsqrt

ROWS, FEATURES, WIDTH, SHARPNESS = 32, 24, 32, 10


def tower(b, name, x):
    """Unit vectors."""
    with b.scope(name):
        y = linear("out", gelu(layer_norm("norm", linear("in", x, 4 * WIDTH))), WIDTH)
        return y * rsqrt(reduce_sum(y * y, [1], True) + 1e-6)


@snug.network
def two_towers(b):
    question = tower(b, "question", b.input("question", [FEATURES]))
    answer = tower(b, "answer", b.input("answer", [FEATURES]))
    b.output("question_vector", question)
    b.output("answer_vector", answer)
    if not b.training:
        return  # vectors of single rows are what is used afterwards
    b.couples_rows("compares every row with every other")
    every = SHARPNESS * matmul(question, answer, transpose_b=True)
    own = SHARPNESS * reduce_sum(question * answer, [1])
    b.minimize(b.weighted_mean(log(reduce_sum(exp(every), [1])) - own))


def pairs(random):
    drawn = random.randint(0, 1 << 32, (ROWS, 2, FEATURES), np.uint32) % 2001
    question, noise = np.moveaxis((drawn.astype(np.float32) - 1000) * np.float32(0.0017), 1, 0)
    answer = question[:, ::-1] - np.float32(0.5) * question + np.float32(0.1) * noise  # the same, turned around and mixed
    return {"question": np.ascontiguousarray(question), "answer": answer}


memory, updates = (sys.argv[1:2] or ["8MiB"])[0], int((sys.argv[2:3] or [300])[0])
session = snug.Session(two_towers, batch_rows=ROWS, memory=memory, learning_rate=2e-3)
print(session.plan)
random = np.random.RandomState(1)
for _ in range(updates):
    step = session.step(pairs(random))
    if step.update % 50 == 0:
        print(f"update {step.update}: loss {step.loss:.4f}")
found = session.predict(pairs(random))
right = int((np.argmax(found["question_vector"] @ found["answer_vector"].T, 1) == np.arange(ROWS)).sum())
print(f"unseen rows: {right} of {ROWS} questions find their answer, first value {found['question_vector'][0, 0]:.9g}")
print(f"planned arena {session.plan.arena_bytes}, measured {session.measured_arena_bytes()} bytes")
sys.exit(0 if len(sys.argv) > 2 or right >= ROWS * 3 / 4 else 1)
