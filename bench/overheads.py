#!/usr/bin/env python3
"""What recomputation costs when it is run, beside what was planned.

usage: overheads.py PATH_TO_SNUG [--cases bert resnet lstm] [--rounds 11]

For each case one micro-batch and five budgets: keep-all's, and the smallest that plan at most 2, 10, 20 and 30 % more time. Runs
snug_bench_costs, in which the budgets take turns: a figure is the sum of every op's median over the rounds, beside that of keep-all.
Build with benchmarks; measure on a machine that does nothing else.
"""
import argparse
import pathlib
import subprocess

from snug_plan import least_at, plan

MARKS = (0.02, 0.10, 0.20, 0.30)
CASES = dict(bert=dict(model="bert-medium", vocab_size=8192, batch=16, length=128),
             resnet=dict(model="resnet-56", optim="sgd", batch=64),
             lstm=dict(model="lstm", vocab_size=8192, hidden_size=512, num_hidden_layers=1, batch=32, length=256))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("snug", type=pathlib.Path)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--rounds", type=int, default=11)
    args = parser.parse_args()
    snug = args.snug.resolve()
    profile = pathlib.Path.home() / ".cache/snug/machine-2.json"
    for name in args.cases:
        keys = dict(CASES[name])
        batch, length = keys.pop("batch"), keys.pop("length", None)
        sizes = dict(train_batch_size=batch, micro_batch_size=batch, **(dict(max_seq_length=length) if length else {}))
        whole, _ = plan(snug, "1TiB", **keys, **sizes)
        plans = [whole]
        for most in MARKS:
            at = least_at(snug, most, **keys, **sizes)
            if at["arena_bytes"] < plans[-1]["arena_bytes"]:
                plans.append(at)
        command = [snug.parent / "bench/snug_bench_costs", keys.pop("model"), batch, length or 1, "--rounds", args.rounds, "--profile", profile]
        for key, value in keys.items():
            command += [f"--{key}", value]
        for at in plans:
            command += ["--memory", at["planned_peak_bytes"] - at["process_bytes"]]
        printed = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout.splitlines()
        print(f"{name}:\n\n| arena | planned | run | difference |\n|---|---|---|---|")
        for at, line in zip(plans, printed[-len(plans):]):
            _, planned, run = map(float, line.split())
            print(f"| {at['arena_bytes'] / 1e6:.0f} MB | {planned:.1f} % | {run:.1f} % | {run - planned:+.1f} |")
        print(flush=True)


if __name__ == "__main__":
    main()
