"""PyTorch's side of compare_products.py: reads the lines that snug_bench_products reads and answers as it does."""
import json
import math
import statistics
import sys
import time

import numpy
import torch

SAMPLES = 16


def filled(*shape):
    """The numbers of the C++ sides (bound_node.cc)."""
    noise = (numpy.arange(math.prod(shape), dtype=numpy.uint32) * numpy.uint32(2654435761)) >> 8
    return torch.from_numpy((numpy.float32(1e-3) + noise.astype(numpy.float32) * numpy.float32(2.0**-24)).reshape(shape))


def bind(layout, batch, m, n, k, onto):
    """A function that computes the product, and its result."""
    a = filled(batch, k, m).transpose(1, 2) if layout[0] == "t" else filled(batch, m, k)
    b = filled(batch, n, k).transpose(1, 2) if layout[1] == "t" else filled(batch, k, n)
    c = filled(batch, m, n)
    if batch == 1:
        a, b, c = a[0], b[0], c[0]
    if onto == "add":
        return (lambda: torch.addmm(c, a, b, out=c)), c
    product = torch.mm if batch == 1 else torch.bmm
    return (lambda: product(a, b, out=c)), c


def seconds_of(run, calls):
    begin = time.perf_counter()
    for _ in range(calls):
        run()
    return time.perf_counter() - begin


def median_seconds(run, seconds):
    calls = max(1, math.ceil(5e-3 / min(seconds_of(run, 1), seconds_of(run, 1))))
    samples, spent = [], 0
    while not samples or spent < seconds:
        took = seconds_of(run, calls)
        spent += took
        samples.append(took / calls)
    return statistics.median(samples)


def main():
    torch.set_num_threads(int(sys.argv[1]))
    torch.set_grad_enabled(False)
    last = None
    for line in sys.stdin:
        *shape, seconds = line.split()
        result = {}
        if shape != last:
            layout, *sizes, onto = shape
            run, c = bind(layout, *map(int, sizes), onto)
            run()
            flat = c.reshape(-1)
            result["sample"] = [flat[i * (len(flat) - 1) // (SAMPLES - 1)].item() for i in range(SAMPLES)]
            last = shape
        result.update(seconds=median_seconds(run, float(seconds)), kernel=f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}")
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
