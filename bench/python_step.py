#!/usr/bin/env python3
"""What a step costs in Python beyond the library's own: Session.step on arrays, beside the same call of the C interface with
everything prepared, in turns, on a network that is all overhead. With --steps N also the growth of the resident set over N steps.

   SNUG_LIBRARY=build/release/libsnug_c.so PYTHONPATH=python python3 bench/python_step.py [--steps 100000] [--within US]

With --within it fails where the overhead is above so many microseconds, or the resident set grew by more than 1 MiB.
"""
import argparse
import statistics
import sys
import time

import numpy as np
import snug
from snug import _native
from snug._arrays import described, elements_of
from snug._host import resident_bytes
from snug.layers import linear, mean_squared_error

ROWS, WIDTH = 8, 4
ROUNDS, STEPS = 200, 50  # in turns


@snug.network
def tiny(b):
    y = linear("out", b.input("x", [WIDTH]), 1)
    b.output("y", y)
    b.minimize(mean_squared_error(y, b.input("wanted", [1])))


def seconds_of(step):
    begin = time.perf_counter()
    for _ in range(STEPS):
        step()
    return (time.perf_counter() - begin) / STEPS


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--within", type=float)
    words = parser.parse_args()
    session = snug.Session(tiny, batch_rows=ROWS, memory="16MiB", threads=1)
    rows = {"x": np.ones((ROWS, WIDTH), np.float32), "wanted": np.ones((ROWS, 1), np.float32)}
    arrays, kept = described({name: elements_of(name, each) for name, each in rows.items()})
    data = _native.Data(rows=ROWS, arrays=arrays, array_count=2)
    library, address, verb = _native.library(), session._handle.address, b"step"
    none = _native.options_array({})

    def prepared():
        library.snug_free(library.snug_do(address, verb, none, 0, data, None))

    found = [(seconds_of(lambda: session.step(rows)), seconds_of(prepared)) for _ in range(ROUNDS)]
    whole, bare = (statistics.median(each) for each in zip(*found))
    flag = snug.Cancel()
    empty = statistics.median(seconds_of(lambda: library.snug_free(library.snug_do(flag._handle.address, b"is_set", none, 0, data, None))) for _ in range(20))
    print(f"a step of {1e6 * whole:.1f} us, {1e6 * bare:.1f} us of them with everything prepared; a call that does nothing takes {1e6 * empty:.1f} us")
    overhead = 1e6 * (whole - bare + empty)
    print(f"overhead over C++: at most {overhead:.1f} us")
    growth = 0
    if words.steps:
        for _ in range(1000):
            session.step(rows)
        before = resident_bytes()
        for _ in range(words.steps):
            session.step(rows)
        growth = resident_bytes() - before
        print(f"the resident set grew by {growth} bytes over {words.steps} steps")
    return int(words.within is not None and (overhead > words.within or growth > 1 << 20))


if __name__ == "__main__":
    sys.exit(main())
