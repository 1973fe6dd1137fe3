"""Networks of your own and sessions in Python: what a user does, from the first network to rows, weights, ops and stops."""
import array
import gc
import mmap
import os
import pathlib
import pickle
import signal
import tempfile
import threading
import unittest
import warnings
import weakref

import numpy as np
import snug
from snug import ops, recompute
from snug.layers import batch_norm, conv2d, cross_entropy, embedding, embedding_sum, layer_norm, linear, mean_squared_error

ROWS, WIDTH, CLASSES = 8, 6, 3
OPTIONS = dict(batch_rows=ROWS, memory="32MiB", threads=1)


@snug.network
def digits(b):
    x = b.input("x", [WIDTH])
    hidden = ops.relu(linear("hidden", x, 12))
    logits = linear("out", ops.dropout(hidden, 0.1), CLASSES)
    b.output("logits", logits)
    b.minimize(cross_entropy(logits, b.input("label", dtype="i32")))


def batch(seed=0, rows=ROWS):
    random = np.random.RandomState(seed)
    return {"x": random.rand(rows, WIDTH).astype(np.float32), "label": random.randint(0, CLASSES, rows, np.int32)}


def refused(test, code, part, work, kind=snug.Error):
    with test.assertRaises(kind) as caught:
        work()
    test.assertEqual(caught.exception.code, code, caught.exception)
    test.assertIn(part, str(caught.exception))
    return caught.exception


class First(unittest.TestCase):
    def test_a_network_is_planned_trained_and_read(self):
        session = snug.Session(digits, **OPTIONS, learning_rate=0.05)
        self.assertIn("planned peak", str(session.plan))
        self.assertEqual(session.plan.model, "digits")
        first = session.step(batch())
        self.assertEqual((first.update, first.is_skipped), (1, False))
        self.assertAlmostEqual(first.learning_rate, 0.05)
        for _ in range(60):
            last = session.step(batch())
        self.assertLess(last.loss, 0.8 * first.loss)
        weight = session.read("out.weight")
        self.assertEqual((weight.shape, weight.dtype), ((CLASSES, 12), np.float32))
        self.assertEqual(session.updates, 61)
        self.assertEqual(session.measured_arena_bytes(), snug.Session(digits, **OPTIONS).plan.arena_bytes)


if __name__ == "__main__":
    unittest.main()
