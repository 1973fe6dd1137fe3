#!/usr/bin/env python3
"""What recomputation costs when it is run, beside what was planned.

usage: overheads.py PATH_TO_SNUG [--cases bert resnet vgg lstm lstm-1000] [--repeats 5] [--json bench/results/predictions.json]

For each case one micro-batch and five budgets: keep-all's, and the smallest that plan at most 2, 10, 20 and 30 % more time. Runs
snug_bench_costs, in which the budgets take turns: a figure is the sum of every op's median over the rounds, beside that of keep-all.
One process keeps the pages that it got, which moves its figures by some points; so every case runs in --repeats processes, all cases
before the next repeat. Printed are their median and, in brackets, the smallest and the largest. The speeds of the machine are measured at the start:
they differ from hour to hour where it is shared.
With --json, records go into FILE (bench/records.py). Build with benchmarks; measure on a machine that does nothing else.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from records import here, rounded, save
from snug_plan import least_at, plan

MARKS = (0.02, 0.10, 0.20, 0.30)
LSTM = dict(model="lstm", vocab_size=8192, hidden_size=512, num_hidden_layers=1, batch=32)
CASES = {"bert": dict(model="bert-medium", vocab_size=8192, batch=16, length=128, rounds=11),
         "resnet": dict(model="resnet-56", optim="sgd", batch=64, rounds=21),
         "vgg": dict(model="vgg-16", optim="sgd", batch=32, rounds=5),
         "lstm": dict(length=256, rounds=21, **LSTM),
         "lstm-1000": dict(length=1000, rounds=5, **LSTM)}


def prepare(snug, keys):
    """The plans of a case, and the command that runs them once."""
    keys = dict(keys)
    batch, length, rounds = keys.pop("batch"), keys.pop("length", None), keys.pop("rounds")
    sizes = dict(train_batch_size=batch, micro_batch_size=batch, **(dict(max_seq_length=length) if length else {}))
    whole, _ = plan(snug, "1TiB", **keys, **sizes)
    plans = [whole]
    for most in MARKS:
        at = least_at(snug, most, **keys, **sizes)
        if at["arena_bytes"] < plans[-1]["arena_bytes"]:
            plans.append(at)
    (profile,) = pathlib.Path(os.environ["XDG_CACHE_HOME"], "snug").glob("machine-*.json")
    command = [snug.parent / "bench/snug_bench_costs", keys.pop("model"), batch, length or 1, "--rounds", rounds, "--profile", profile]
    for key, value in keys.items():
        command += [f"--{key}", value]
    for at in plans:
        command += ["--memory", at["planned_peak_bytes"] - at["process_bytes"]]
    return plans, list(map(str, command))


def overheads(command, count):
    """For every budget (planned, run) in percent."""
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [tuple(map(float, line.split()[1:])) for line in printed[-count:]]


def compare(args):
    prepared = {name: prepare(args.snug.resolve(), CASES[name]) for name in args.cases}
    measured = {name: [] for name in args.cases}
    for repeat in range(args.repeats):
        for name, (plans, command) in prepared.items():
            measured[name].append(overheads(command, len(plans)))
            print(f"{repeat + 1} of {args.repeats}: {name} {' '.join(f'{run:.1f}' for _, run in measured[name][-1])}", file=sys.stderr)
    records = []
    for name, (plans, _) in prepared.items():
        print(f"{name}:\n\n| arena | planned | run | difference |\n|---|---|---|---|")
        for i, at in enumerate(plans):
            planned = measured[name][0][i][0]
            runs = [each[i][1] for each in measured[name]]
            run = statistics.median(runs)
            print(f"| {at['arena_bytes'] / 1e6:.0f} MB | {planned:.1f} % | {run:.1f} % ({min(runs):.1f} to {max(runs):.1f}) | {run - planned:+.1f} |")
            if at is not plans[0]:  # which is the step that the others are compared with
                records += records_of(name, at["arena_bytes"], planned, run, runs)
        print(flush=True)
    if args.json:
        common = dict(command="python3 bench/overheads.py build/release/snug", **here(args.snug.resolve()))
        save(args.json, [dict(record, **common) for record in records])


def records_of(case, arena_bytes, planned, run, runs):
    size = rounded(arena_bytes / 1e6, 0)
    claim = f"{CASES[case]['model']}, overhead in {size} MB"
    what = dict(unit="%", goal="within 3 points", reached=abs(planned - run) <= 3)
    return [dict(name=f"{case}.{size}-mb.planned", claim=claim, measure="planned", figure=rounded(planned, 1), unit="%", goal=None),
            dict(name=f"{case}.{size}-mb.run", claim=claim, measure="run", figure=rounded(run, 1), range=[rounded(min(runs), 1), rounded(max(runs), 1)], **what)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("snug", type=pathlib.Path)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        compare(args)


if __name__ == "__main__":
    main()
