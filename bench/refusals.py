#!/usr/bin/env python3
"""What refusals name as ways to fit, beside the plans that follow.

usage: refusals.py PATH_TO_SNUG

For each run that does not fit: processor time of the refusal over that of a plan in 400 GiB, and for every hint its smallest budget and its
time of an update over those of the plan that the hint leads to.
"""
import json
import re
import resource
import shlex
import subprocess
import sys

RUNS = [
    ("lstm --train_batch_size 32 --max_seq_length 100 --num_labels 5", "120MiB"),
    ("lstm --train_batch_size 32 --max_seq_length 100 --num_labels 5", "60MiB"),
    ("bert-base --train_batch_size 8 --max_seq_length 512 --num_labels 2", "1200MiB"),
    ("bert-mini --train_batch_size 32 --max_seq_length 128 --num_labels 2 --recompute none --micro_batch_size 32", "240MiB"),
    ("bert-tiny --train_batch_size 32 --max_seq_length 128 --num_labels 3", "50MiB"),
    ("bert-small --train_batch_size 16 --max_seq_length 256 --num_labels 2", "140MiB"),
    ("mlp --num_labels 2", "100MiB"),
    ("resnet-20 --train_batch_size 64", "44MiB"),
    ("vgg-16 --train_batch_size 8 --image_size 32", "400MiB"),
    ("bert-large --train_batch_size 4 --num_labels 2", "3GiB"),
    ("bert-large --train_batch_size 1 --num_labels 2", "2GiB"),
    ("deberta-v3-large --train_batch_size 8 --num_labels 2", "4GiB"),
]
HINT = re.compile(r"^    (--.*?)   +fits from (.*?); (.*?) an update", re.M)
BYTES = dict(B=1, KiB=1 << 10, MiB=1 << 20, GiB=1 << 30)
SECONDS = {"ms": 1e-3, "s": 1, "min": 60, "h": 3600}


def planned(snug, *words):
    """The ended process, and its processor seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([snug, "plan", "--threads", "1", *words], capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def total(text, units):
    return sum(float(number) * units[unit] for number, unit in re.findall(r"([\d.]+) (\w+)", text))


def without(words, replaced):
    """The command's words but those of the keys that a hint replaces."""
    kept = []
    for word in words:
        if word.startswith("--"):
            is_kept = word not in replaced
        if is_kept:
            kept.append(word)
    return kept


def main():
    snug = sys.argv[1]
    print("| run | budget | refusal / plan | hint | bytes | seconds |\n|---|---|---|---|---|---|")
    for run, budget in RUNS:
        words = shlex.split("--model " + run)
        plan = min(planned(snug, *words, "--memory", "400GiB")[1] for _ in range(3))
        refusals = [planned(snug, *words, "--memory", budget) for _ in range(3)]
        share = min(seconds for _, seconds in refusals) / plan
        first = f"| {run} | {budget} | {share:.1f} ({plan:.2f} s)"
        for hint, least, seconds in HINT.findall(refusals[0][0].stderr):
            parts = shlex.split(hint)
            done, _ = planned(snug, *without(words, parts), *parts, "--memory", budget, "--json")
            if done.returncode != 0:
                sys.exit(f"{run} at {budget}: {hint} does not fit\n{done.stderr}")
            made = json.loads(done.stdout)
            print(f"{first} | `{hint}` | {total(least, BYTES) / made['smallest_budget_bytes']:.2f} "
                  f"| {total(seconds, SECONDS) / made['step_seconds']:.2f} |")
            first = "| | |"


if __name__ == "__main__":
    main()
