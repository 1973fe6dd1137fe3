#!/usr/bin/env python3
"""Single f32 products of our models, Snug beside OpenBLAS and PyTorch, in turns.

usage: compare_products.py [PATTERN ...] [--isa avx2] [--threads 2] [--rounds 5] [--seconds 0.1] [--sides snug snug-own openblas pytorch]
                           [--json FILE] [--mean 1.0 --least 0.85]

PATTERN: names of products.txt, or parts of them ('mini/', 'dw'); all without one. Each side is a process of its own, since their threads
disturb one another, and sleeps while another measures. Needs build/release/bench/snug_bench_products (built with -DSNUG_BUILD_BENCHMARKS=ON);
OpenBLAS (Debian: libopenblas0-pthread) and PyTorch (pip install torch) where those sides are asked for.

--isa avx2 holds every side to AVX2; avx512 is what a processor with AVX-512 does by itself. Without it: the best of the two that this
processor has. The arithmetic limit is that of fused multiply-adds on registers only, with the same instructions on the same threads. A side
beyond it computes with other instructions: then nothing is compared, exit 1. So it is where results differ.
With --json, the mean and the least go into FILE (bench/results/kernels.json) as records: bench/records.py.
With --mean and --least, a geometric mean or a ratio to the better of the others below them is exit 1.
"""
import argparse
import math
import pathlib
import statistics
import sys

from records import here, rounded, save
from sides import PRODUCTS, Limit, Side, check_limit, cpu_name, environment_for

HERE = pathlib.Path(__file__).resolve().parent
LARGE_FLOPS = 1e9  # from here on a product is held against the limit, too


def shapes(patterns):
    for line in (HERE / "products.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, *words = line.split()
            if not patterns or any(pattern in name for pattern in patterns):
                yield name, words


def check_samples(name, found):
    """Sums of thousands of positive numbers: equal but for rounding."""
    (first, base), *others = found.items()
    for other, values in others:
        for x, y in zip(base, values):
            if not abs(x - y) <= 1e-4 * abs(x):
                sys.exit(f"{name}: {first} computes {x}, {other} {y}")


def measure(sides, limit, isa, name, words, args):
    """Median seconds and kernel of each side, and the limit in FLOP/s (none where this processor's is unknown)."""
    seconds, kernels, samples, limits = {side.name: [] for side in sides}, {}, {}, []
    for _ in range(args.rounds):
        limits.append(limit.of(isa))
        for side in sides:
            answer = side.ask(" ".join([*words, str(args.seconds)]))
            seconds[side.name].append(answer["seconds"])
            kernels[side.name] = answer["kernel"]
            samples.setdefault(side.name, answer.get("sample"))
    check_samples(name, samples)
    return {side: statistics.median(times) for side, times in seconds.items()}, kernels, max(limits) if limits[0] else None


def row(name, words, flops, rates, limit):
    own = next((rate for side, rate in rates.items() if side.startswith("snug")), None)  # the first of ours is held against the others
    others = [rate for side, rate in rates.items() if not side.startswith("snug")]
    ratio = own / max(others) if others and own else None
    best = own or max(rates.values())
    print(f"| {name} | {words[0]} | {'x'.join(words[1:5])}{'+' if words[5] == 'add' else ''} | "
          + " | ".join(f"{rate / 1e9:.1f}" for rate in rates.values())
          + (f" | {100 * best / limit:.0f} %" if limit else " | ?") + (f" | {ratio:.2f}" if ratio else " | ") + " |", flush=True)
    return dict(name=name, flops=flops, best=best, limit=limit, ratio=ratio)


def summary(rows):
    ratios = [r["ratio"] for r in rows if r["ratio"]]
    if not ratios:
        return None, None
    mean, least = math.exp(statistics.fmean(map(math.log, ratios))), min(rows, key=lambda r: r["ratio"])
    print(f"\n{len(ratios)} products: geometric mean {mean:.3f} x the better of the others, least {least['ratio']:.3f} ({least['name']})")
    large = [r for r in rows if r["flops"] >= LARGE_FLOPS and r["limit"]]
    short = [r["name"] for r in large if r["best"] < 0.85 * r["limit"] and r["ratio"] < 1.03]
    print(f"of {len(large)} products of a GFLOP or more, {len(large) - len(short)} reach 85 % of the limit or 1.03 x the better"
          + (f"; short: {', '.join(short)}" if short else ""))
    return mean, least["ratio"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--isa", choices=["avx2", "avx512"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--sides", nargs="+", default=["snug", "openblas", "pytorch"], choices=["snug", "snug-own", "openblas", "pytorch"])
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--mean", type=float)
    parser.add_argument("--least", type=float)
    args = parser.parse_args()
    if args.json and (args.patterns or args.sides != parser.get_default("sides")):
        parser.error("--json writes the mean and the least of all products beside both others: omit PATTERN and --sides")
    limit = Limit(args.threads)
    isa = args.isa or limit.best_isa()
    environment = environment_for(isa, args.threads)
    commands = {"pytorch": [sys.executable, HERE / "pytorch_products.py", args.threads]}
    sides = [Side(name, commands.get(name, [PRODUCTS, name, "--threads", args.threads]), environment) for name in args.sides]
    print(f"{cpu_name()}, {isa}, {args.threads} threads; GFLOP/s, medians of {args.rounds} rounds\n")
    print("| product | layout | batch x m x n x k | " + " | ".join(args.sides) + f" | {args.sides[0]} of the limit | to the better |")
    print("|---|---|---|" + "---|" * (len(sides) + 2))
    for side in sides:
        side.ask("nn 1 8 8 8 new 0.001")  # until all have started
    rows, kernels = [], {side: set() for side in args.sides}
    for name, words in shapes(args.patterns):
        flops = 2 * math.prod(map(int, words[1:5]))
        seconds, ran, bound = measure(sides, limit, isa, name, words, args)
        rates = {side: flops / took for side, took in seconds.items()}
        for side, kernel in ran.items():
            kernels[side].add(kernel)
        check_limit(isa, name, rates, bound)
        rows.append(row(name, words, flops, rates, bound))
    if not rows:
        sys.exit(f"products.txt has no product of these names: {', '.join(args.patterns)}")
    mean, least = summary(rows)
    limits = [r["limit"] for r in rows if r["limit"]]
    if limits:
        print(f"registers alone: {statistics.median(limits) / 1e9:.1f} GFLOP/s")
    for side, names in kernels.items():
        print(f"{side}: {', '.join(sorted(names))}")
    if args.json:
        common = dict(command=" ".join(["python3 bench/compare_products.py", *sys.argv[1:]]), unit="x", **here(HERE.parent / "build/release/snug", isa))
        save(args.json, [dict(name=f"products.{isa}.{name}", figure=rounded(figure, 2), **common) for name, figure in (("geometric-mean", mean), ("least", least))])
    return 1 if (args.mean and not (mean and mean >= args.mean)) or (args.least and not (least and least >= args.least)) else 0


if __name__ == "__main__":
    sys.exit(main())
