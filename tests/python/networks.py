"""What the tests of networks have in common: one network, its rows, and how an error is looked at."""
import numpy as np
import snug
from snug import ops
from snug.layers import cross_entropy, linear

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
