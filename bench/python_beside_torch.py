#!/usr/bin/env python3
"""How much longer a step takes in a process that PyTorch, numpy and pandas work in, too.

   SNUG_LIBRARY=build/release/libsnug_c.so PYTHONPATH=python python3 bench/python_beside_torch.py [--rounds 15] [--threads 2] [--most RATIO]

Two processes take turns: one that has Snug only, and one in which PyTorch was imported first and trains a network of the same size
before every stretch that is timed. Printed are the medians and their ratio. Both have the same losses to the bit, also where
PyTorch then trains in a thread at the same time. With --most, a larger ratio is exit 1.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time

ROWS, WIDTH, HIDDEN, CLASSES = 128, 256, 1024, 10
STEPS = 20  # of one stretch


class Torch:
    """The same network, and a frame that is summed."""

    def __init__(self, threads):
        import pandas
        import torch

        torch.set_num_threads(threads)
        self.functional, self.frame = torch.nn.functional, pandas.DataFrame({"x": range(100_000)})
        self.model = torch.nn.Sequential(torch.nn.Linear(WIDTH, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, CLASSES))
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.x, self.label = torch.randn(ROWS, WIDTH), torch.randint(CLASSES, (ROWS,))

    def step(self):
        self.optimizer.zero_grad()
        self.functional.cross_entropy(self.model(self.x), self.label).backward()
        self.optimizer.step()
        self.frame.groupby(self.frame["x"] % 7).sum()


def at_once(torch, work):
    """Runs the work while PyTorch trains in another thread."""
    ends = threading.Event()

    def train():
        while not ends.is_set():
            torch.step()

    thread = threading.Thread(target=train)
    thread.start()
    try:
        return work()
    finally:
        ends.set()
        thread.join()


def side(words):
    """Answers each line of the standard input: seconds of a step and all losses."""
    torch = Torch(words.threads) if words.side == "beside" else None
    import numpy as np
    import snug
    from snug.layers import cross_entropy, linear
    from snug.ops import relu

    @snug.network
    def layers(b):
        x = relu(linear("second", relu(linear("first", b.input("x", [WIDTH]), HIDDEN)), HIDDEN))
        b.minimize(cross_entropy(linear("out", x, CLASSES), b.input("label", dtype="i32")))

    session = snug.Session(layers, batch_rows=ROWS, memory="256MiB", threads=words.threads)
    generator = np.random.default_rng(1)
    rows = {"x": generator.standard_normal((ROWS, WIDTH), np.float32), "label": generator.integers(CLASSES, size=ROWS, dtype=np.int32)}

    def stretch():
        begin = time.perf_counter()
        losses = [session.step(rows).loss.hex() for _ in range(STEPS)]
        return (time.perf_counter() - begin) / STEPS, losses

    print("ready", flush=True)
    for line in sys.stdin:
        if torch is not None:
            for _ in range(3):
                torch.step()
        found = at_once(torch, stretch) if torch is not None and line == "at once\n" else stretch()
        print(json.dumps(found), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--most", type=float)
    parser.add_argument("--side", choices=("alone", "beside"), help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.side:
        return side(words)
    sides = {name: subprocess.Popen([sys.executable, __file__, "--side", name, "--threads", str(words.threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
             for name in ("alone", "beside")}
    for process in sides.values():
        assert process.stdout.readline() == "ready\n", "a side did not begin"

    def asked(line):
        found = {}
        for name, process in sides.items():
            process.stdin.write(line)
            process.stdin.flush()
            found[name] = json.loads(process.stdout.readline())
        assert found["alone"][1] == found["beside"][1], "other losses beside PyTorch"
        return {name: seconds for name, (seconds, _losses) in found.items()}

    asked("in turns\n")  # warm
    rounds = [asked("in turns\n") for _ in range(words.rounds)]
    asked("at once\n")
    for process in sides.values():
        process.stdin.close()
        assert process.wait() == 0, "a side did not end well"
    alone, beside = (statistics.median(each[name] for each in rounds) for name in ("alone", "beside"))
    ratio = statistics.median(each["beside"] / each["alone"] for each in rounds)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; a step of {1e3 * alone:.2f} ms, beside PyTorch {1e3 * beside:.2f} ms: {ratio:.3f} x")
    print("the same losses in turns and at once")
    return int(words.most is not None and ratio > words.most)


if __name__ == "__main__":
    sys.exit(main())
