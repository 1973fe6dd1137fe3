# SPDX-License-Identifier: Apache-2.0
"""An encoder and a decoder with cross-attention write the odd digits of a row backwards, in lengths of their own.
    python seq2seq.py [memory [updates]]"""
import sys

import numpy as np
import snug
from snug.layers import cross_entropy, embedding, layer_norm, linear
from snug.ops import dropout, gelu, masked_softmax, matmul, reshape, slice, transpose

ROWS, LONGEST, WIDTH, HEADS, START, END, WORDS, NOTHING = 32, 8, 32, 4, 10, 11, 12, -100


def attend(b, name, x, memory, mask):
    """Queries of one sequence over keys of another, head by head, where `mask` (rows, 1, T or 1, S) lets them look."""
    heads = lambda y: transpose(reshape(y, [b.rows, y.dim(1), HEADS, WIDTH // HEADS]), [0, 2, 1, 3])  # noqa: E731
    with b.scope(name):
        q, k, v = heads(linear("query", x, WIDTH)), heads(linear("key", memory, WIDTH)), heads(linear("value", memory, WIDTH))
        scores = (1 / (WIDTH // HEADS) ** 0.5) * matmul(q, k, transpose_b=True)
        return linear("out", reshape(transpose(masked_softmax(scores, mask) @ v, [0, 2, 1, 3]), [b.rows, x.dim(1), WIDTH]), WIDTH)


def feed_forward(x):
    return x + dropout(linear("down", gelu(linear("up", layer_norm("norm3", x), 4 * WIDTH)), WIDTH), 0.05)


def embed(b, name, ids):
    with b.scope(name):
        places = b.parameter("places", [1, LONGEST + 1, WIDTH], snug.InitRule.normal(0.1))
        return embedding("words", ids, WORDS, WIDTH) + slice(places, 1, 0, ids.dim(1))


@snug.network
def seq2seq(b):
    source, target = b.length("source"), b.length("target")
    is_digit = reshape(b.input("is_digit", [source], "bool"), [b.rows, 1, 1, source])
    # A place sees what was written before it. Places are below 0: what fills a row up is behind all.
    place = b.input("place", [target], "i32")
    before = reshape(place, [b.rows, 1, target, 1]) >= reshape(place, [b.rows, 1, 1, target])
    x = embed(b, "source", b.input("digits", [source], "i32"))
    for i in range(2):
        with b.scope(f"encoder.{i}"):
            y = layer_norm("norm1", x)
            x = feed_forward(x + attend(b, "self", y, y, is_digit))
    memory = layer_norm("memory", x)
    y = embed(b, "target", b.input("written", [target], "i32"))
    for i in range(2):
        with b.scope(f"decoder.{i}"):
            own = layer_norm("norm1", y)
            y = y + attend(b, "self", own, own, before)
            y = feed_forward(y + attend(b, "cross", layer_norm("norm2", y), memory, is_digit))
    logits = linear("digit", layer_norm("last", y), WORDS)
    b.output("logits", logits)
    b.minimize(cross_entropy(logits, b.input("next", [target], "i32")))


def digits(random):
    """Rows of different lengths, filled up to the longest of them; and these lengths."""
    draw = lambda below: int(random.randint(0, 1 << 32, dtype=np.uint32)) % below  # noqa: E731
    filled = lambda rows, length, value: np.array([(row + length * [value])[:length] for row in rows], np.int32)  # noqa: E731
    longest = 2 + draw(LONGEST - 1)
    read = [[draw(10) for _ in range(1 + draw(longest))] for _ in range(ROWS)]
    odd = [[digit for digit in reversed(row) if digit % 2] + [END] for row in read]
    source, target = max(map(len, read)), max(map(len, odd))
    rows = {"digits": filled(read, source, 0), "is_digit": filled([[1] * len(row) for row in read], source, 0).astype(bool),
            "written": filled([[START] + row for row in odd], target, END), "next": filled(odd, target, NOTHING),
            "place": np.tile(np.arange(target, dtype=np.int32) - LONGEST - 1, (ROWS, 1))}
    return rows, {"source": source, "target": target}


memory, updates = (sys.argv[1:2] or ["8MiB"])[0], int((sys.argv[2:3] or [400])[0])
session = snug.Session(seq2seq, batch_rows=ROWS, memory=memory, micro_batch_size=8, learning_rate=3e-3, max_grad_norm=1,
                       lengths=snug.every_combination({"source": [4, 8], "target": [4, LONGEST + 1]}))
print(session.plan)
random = np.random.RandomState(1)
for _ in range(updates):
    rows, length = digits(random)
    step = session.step(rows, length=length)
    if step.update % 50 == 0:
        print(f"update {step.update}: loss {step.loss:.4f}, {length['source']} digits read, {length['target']} written")
rows, length = digits(random)
found = session.evaluate(rows, length=length)
print(f"unseen digits: loss {found.loss:.9g}")
print(f"planned arena {session.plan.arena_bytes}, measured {session.measured_arena_bytes()} bytes")
sys.exit(0 if len(sys.argv) > 2 or found.loss < 0.5 else 1)
