#!/usr/bin/env python3
"""Predicted and measured time of a training step.

usage: step_times.py PATH_TO_SNUG [--cases mlp lstm bert-base ...] [--steps 5] [--within SHARE] [--json bench/results/predictions.json]

For each case: the plan's step with speeds measured right before it, and the median over --steps updates of the same run, all rows at the
largest length, keep-all. With --json, records go into FILE (bench/records.py). With --within, a prediction that is off by more is exit 1. Measure on a machine that does nothing else. (Images of
other sizes than 32 are planned only; `snug_bench_costs vgg-16 4 1 --optim sgd --image_size 224` runs them on numbers.)
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

from records import here, rounded, save

TEXT = dict(train_batch_size=16, max_seq_length=128, vocab_size=8192)
CASES = {"mlp": dict(TEXT, model="mlp", train_batch_size=256),
         "lstm": dict(TEXT, model="lstm", train_batch_size=32, max_seq_length=200),
         "bert-mini": dict(TEXT, model="bert-mini", train_batch_size=64),
         "bert-base": dict(TEXT, model="bert-base"),
         "bert-large": dict(TEXT, model="bert-large", train_batch_size=4, max_seq_length=512),
         "resnet-56": dict(model="resnet-56", train_batch_size=64, optim="sgd", image_size=32),
         "vgg-16": dict(model="vgg-16", train_batch_size=32, optim="sgd", image_size=32)}


def write_rows(path, count, words):
    generator = random.Random(1)
    names = [f"w{i}" for i in range(2000)]
    with path.open("w") as file:
        for i in range(count):
            file.write(json.dumps({"text": " ".join(generator.choices(names, k=words)), "label": f"c{i % 2}"}) + "\n")


def write_images(folder, count):
    folder.mkdir(exist_ok=True)
    generator = random.Random(1)
    (folder / "data_batch_1.bin").write_bytes(b"".join(bytes([i % 10]) + generator.randbytes(3072) for i in range(count)))
    (folder / "batches.meta.txt").write_text("".join(f"class{i}\n" for i in range(10)))


def run(snug, verb, keys, *words):
    command = [snug, verb, *words]
    for key, value in keys.items():
        command += [f"--{key}", value]
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout


def measure(snug, folder, name, steps):
    """The plan's step, its uncertainty, and the measured one, in seconds."""
    keys = dict(CASES[name], memory="1TiB", recompute="none", micro_batch_size=CASES[name]["train_batch_size"])
    batch, length = keys["train_batch_size"], keys.get("max_seq_length", 1)
    if "image_size" in keys:
        write_images(folder / "images", 4 * batch)
        data = folder / "images"
    else:
        data = folder / f"rows-{name}.jsonl"
        write_rows(data, 4 * batch, length)
    keys.update(train_file=data, validation_split=0)
    plan = json.loads(run(snug, "plan", keys, "--json"))
    out = folder / name
    # The first update brings pages and code into memory.
    run(snug, "train", dict(keys, output_dir=out, max_steps=steps + 1, logging_steps=1))
    log = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    seconds = [batch * length / line["tokens_per_second"] for line in log[1:]]
    return plan["step_seconds"], plan["step_seconds_uncertainty"], statistics.median(seconds)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("snug", type=pathlib.Path)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--within", type=float)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    worst, ratios = 0, {}
    print("| | planned | measured | planned / measured |\n|---|---|---|---|")
    for case in args.cases:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            os.environ["XDG_CACHE_HOME"] = name
            planned, uncertainty, measured = measure(args.snug.resolve(), folder, case, args.steps)
            ratios[case] = planned / measured
            worst = max(worst, abs(ratios[case] - 1))
            print(f"| {case} | {1e3 * planned:.1f} ms ± {100 * uncertainty:.0f} % | {1e3 * measured:.1f} ms | {planned / measured:.2f} |", flush=True)
    if args.json:
        common = dict(command="python3 bench/step_times.py build/release/snug --cases " + " ".join(args.cases), **here(args.snug.resolve()))
        save(args.json, [dict(name=f"{case}.step.planned-to-measured", claim=f"`{case}`, whole run", measure="planned / measured",
                              figure=rounded(ratio, 2), **common) for case, ratio in ratios.items()])
    return 1 if args.within is not None and worst > args.within else 0


if __name__ == "__main__":
    sys.exit(main())
