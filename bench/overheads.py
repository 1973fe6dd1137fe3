#!/usr/bin/env python3
"""What recomputation costs when it is run, beside what was planned.

usage: overheads.py PATH_TO_SNUG [--cases bert resnet lstm] [--rounds 5] [--threads 2]

For each case one micro-batch and five budgets: keep-all's, and the smallest that plan at most 2, 10, 20 and 30 % more time. The
budgets take turns in rounds; a figure is the median of the rounds' step times over that of keep-all's. Prints a table: planned
arena, planned overhead, run overhead, difference in points.
"""
import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

from snug_plan import least_at, plan

STEPS = dict(bert=5, resnet=16, lstm=8)  # of a run; the first is not counted
MARKS = (0.02, 0.10, 0.20, 0.30)


def write_text(folder, rows, words_in_row):
    generator = random.Random(1)
    words = ["".join(generator.choice("bcdfghklmnprst") + generator.choice("aeiou") for _ in range(3)) for _ in range(500)]
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted(set(words))]) + "\n")
    with open(folder / "train.jsonl", "w") as file:
        for i in range(rows):
            text = " ".join(generator.choice(words) for _ in range(words_in_row))
            file.write(json.dumps({"text": text, "label": str(i % 2)}) + "\n")


def write_images(folder, rows):
    generator = random.Random(1)
    images = folder / "images"
    images.mkdir()
    records = b"".join(bytes([i % 10]) + generator.randbytes(3072) for i in range(rows))
    (images / "data_batch_1.bin").write_bytes(records)
    (images / "test_batch.bin").write_bytes(records[:3073 * 4])


def case(name, folder):
    """Keys of the run; all of its rows are as long as the model takes."""
    if name == "resnet":
        write_images(folder, 64 * (STEPS[name] + 1))
        return dict(model="resnet-56", train_file=folder / "images", validation_file=folder / "images/test_batch.bin", optim="sgd",
                    train_batch_size=64, micro_batch_size=64)
    length, batch = (128, 16) if name == "bert" else (256, 32)
    write_text(folder, batch * (STEPS[name] + 1), length + 40)
    keys = dict(train_file=folder / "train.jsonl", validation_split=0, tokenizer=folder / "vocab.txt", max_seq_length=length,
                train_batch_size=batch, micro_batch_size=batch)
    if name == "bert":
        return dict(keys, model="bert-medium")
    return dict(keys, model="lstm", hidden_size=512, num_hidden_layers=1)


def options(keys):
    return [word for key, value in keys.items() for word in (f"--{key}", str(value))]


def step_seconds(snug, budget, keys, steps, out):
    command = [snug, "train", "--memory", str(budget), "--output_dir", out, "--max_steps", steps, "--logging_steps", 1,
               "--save_steps", 0, *options(keys)]
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return statistics.median(1 / line["tokens_per_second"] for line in lines[1:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("snug", type=pathlib.Path)
    parser.add_argument("--cases", nargs="+", default=["bert", "resnet", "lstm"], choices=["bert", "resnet", "lstm"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    snug = args.snug.resolve()
    for name in args.cases:
        with tempfile.TemporaryDirectory(prefix="snug-bench-") as folder:
            folder = pathlib.Path(folder)
            keys = dict(case(name, folder), threads=args.threads)
            whole, _ = plan(snug, "1TiB", **keys)
            plans = [whole]
            for most in MARKS:
                at = least_at(snug, most, **keys)
                if at["arena_bytes"] < plans[-1]["arena_bytes"]:
                    plans.append(at)
            times = [[] for _ in plans]
            for i in range(args.rounds):
                for j, at in enumerate(plans):
                    budget = at["planned_peak_bytes"]
                    times[j].append(step_seconds(snug, budget, keys, STEPS[name], folder / f"run{i}-{j}"))
                    print(f"\r{name}: round {i + 1} of {args.rounds}, budget {j + 1} of {len(plans)} ", end="", file=sys.stderr, flush=True)
            print(file=sys.stderr)
            print(f"{name} ({keys['model']}, micro-batch {keys['micro_batch_size']}):\n\n| arena | planned | run | difference |\n|---|---|---|---|")
            for at, own in zip(plans, times):
                run = statistics.median(b / a for a, b in zip(times[0], own)) - 1
                planned = at["recompute_overhead"]
                print(f"| {at['arena_bytes'] / 1e6:.0f} MB | {100 * planned:.1f} % | {100 * run:.1f} % | {100 * (run - planned):+.1f} |")
            print(flush=True)


if __name__ == "__main__":
    main()
