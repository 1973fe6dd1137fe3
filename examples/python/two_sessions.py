# SPDX-License-Identifier: Apache-2.0
"""Two sessions in two threads, each with a network of its own: both plan, train, save as they go, are cancelled from a third
thread, resume from what they saved under another budget, and read their weights by name. The weights must be those of a single
session that nothing ever stopped.
    python two_sessions.py [threads of each session]"""
import concurrent.futures
import pathlib
import sys
import tempfile
import time

import numpy as np
import snug
from snug.layers import cross_entropy, layer_norm, linear
from snug.ops import dropout, gelu

ROWS, FEATURES, CLASSES = 24, 10, 3
UPDATES_AFTER, MOST_UPDATES = 5, 100_000  # of a resumed session; before somebody has cancelled them


def network_of(width):
    @snug.network
    def blocks(b):
        x = linear("in", b.input("x", [FEATURES]), width)
        for i in range(4):
            with b.scope(f"block.{i}"):
                x = x + dropout(linear("down", gelu(linear("up", layer_norm("norm", x), 2 * width)), width), 0.1)
        logits = linear("out", x, CLASSES)
        b.output("logits", logits)
        b.minimize(cross_entropy(logits, b.input("label", [], "i32")))

    return blocks


def batch(update):
    """A function of its number, so that a resumed run sees the same rows."""
    rows = np.arange(update * ROWS, (update + 1) * ROWS)
    x = np.sin(1.7 * (rows[:, None] * FEATURES + np.arange(FEATURES)))
    return {"x": x.astype(np.float32), "label": (rows % CLASSES).astype(np.int32)}


def tensors_of(session):
    return {tensor.name: session.read(tensor.name).tobytes() for tensor in session.tensors()}


def is_cancelled(work):
    try:
        work()
    except snug.Error as error:
        if error.code != "cancelled":
            raise
        return True
    return False


class Learner:
    def __init__(self, width, seed, threads, folder):
        self.network, self.folder, self.stop, self.updates = network_of(width), folder, snug.Cancel(), 0
        self.options = dict(batch_rows=ROWS, memory="1GiB", micro_batch_size=8, max_grad_norm=1, seed=seed, threads=threads)

    def learn_and_be_stopped(self):
        enough = snug.Cancel()
        own = dict(self.options, cancel=enough, on_planning=lambda done, total, phase: enough.set())
        assert is_cancelled(lambda: snug.plan_network(self.network, **own)), "planning was not cancelled"
        smallest = snug.plan_network(self.network, **self.options).smallest_budget_bytes
        with snug.Session(self.network, **dict(self.options, memory=smallest, cancel=self.stop)) as session:
            before, saved = tensors_of(session), 0
            while not is_cancelled(lambda: session.step(batch(session.updates))):
                assert session.updates < MOST_UPDATES, "nobody cancelled the updates"
                self.updates = session.updates
                if self.updates % 2 == 1:
                    session.save(self.folder)
                    saved = self.updates
            assert tensors_of(session) != before, "the weights did not move"
        self.stop.clear()
        session = snug.Session.resume(self.network, self.folder, **self.options, cancel=self.stop)
        assert session.updates == saved, "another update was resumed than was saved"
        for _ in range(UPDATES_AFTER):
            session.step(batch(session.updates))
        assert np.isfinite(session.evaluate(batch(0)).loss), "the loss is not finite"
        self.updates = session.updates
        return tensors_of(session)

    def learn_alone(self):
        session = snug.Session(self.network, **self.options)
        while session.updates < self.updates:
            session.step(batch(session.updates))
        return tensors_of(session)


with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor() as pool:
    threads = int((sys.argv[1:2] or [1])[0])
    learners = [Learner(32, 1, threads, pathlib.Path(folder, "first")), Learner(48, 2, threads, pathlib.Path(folder, "second"))]
    found = [pool.submit(learner.learn_and_be_stopped) for learner in learners]
    while not all(learner.updates >= 3 or done.done() for learner, done in zip(learners, found)):
        time.sleep(0.001)
    for learner in learners:
        learner.stop.set()
    for i, (learner, resumed) in enumerate(zip(learners, [each.result() for each in found])):
        assert resumed == learner.learn_alone(), f"session {i}: other bits than alone and unstopped"
        print(f"session {i}: {learner.updates} updates in two runs, {len(resumed)} tensors equal those of a single run")
