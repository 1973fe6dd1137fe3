#!/usr/bin/env python3
"""How much longer a step takes beside other busy processes.

usage: shared_cores.py PATH_TO_SNUG [--spinners 4] [--threads 2] [--cores 2] [--steps 100] [--rounds 5] [--most RATIO]

Trains BERT-tiny with so many threads on so many cores, alone and beside processes that only spin on the same cores, in turns. Printed
are the medians over the rounds and their ratio; two threads beside four others on two cores have a third of the cores, so 3 is fair.
With --most, a larger ratio is exit 1. Measure on a machine that does nothing else.
"""
import argparse
import contextlib
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile


def write_rows(path, rows=512, words=100):
    generator = random.Random(1)
    names = [f"w{i}" for i in range(500)]
    with path.open("w") as file:
        for i in range(rows):
            file.write(json.dumps({"text": " ".join(generator.choices(names, k=words)), "label": f"c{i % 2}"}) + "\n")


@contextlib.contextmanager
def spinning(count):
    spinners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for each in spinners:
            each.kill()
        for each in spinners:
            each.wait()


def milliseconds_per_step(snug, folder, steps, threads, model):
    """Of the second half of the run."""
    out = pathlib.Path(tempfile.mkdtemp(dir=folder))
    subprocess.run([snug, "train", "--model", model, "--train_file", folder / "rows.jsonl", "--output_dir", out / "run", "--threads", str(threads),
                    "--max_seq_length", "64", "--train_batch_size", "16", "--max_steps", str(steps), "--logging_steps", str(steps // 2),
                    "--vocab_size", "1000", "--validation_split", "0", "--memory", "2GiB"], check=True, capture_output=True)
    log = [json.loads(line) for line in (out / "run/metrics.jsonl").read_text().splitlines()]
    return 1e3 * 16 * 64 / log[-1]["tokens_per_second"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("snug", type=pathlib.Path)
    parser.add_argument("--model", default="bert-tiny")
    parser.add_argument("--spinners", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--most", type=float)
    args = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:args.cores])
    alone, beside = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        os.environ["XDG_CACHE_HOME"] = name
        write_rows(folder / "rows.jsonl")
        measure = lambda: milliseconds_per_step(args.snug.resolve(), folder, args.steps, args.threads, args.model)
        measure()
        for _ in range(args.rounds):
            alone.append(measure())
            with spinning(args.spinners):
                beside.append(measure())
            print(f"alone {alone[-1]:.2f} ms, beside {args.spinners} {beside[-1]:.2f} ms", file=sys.stderr)
    ratio = statistics.median(beside) / statistics.median(alone)
    print(f"{args.model}, {args.threads} threads, {args.cores} cores: a step alone {statistics.median(alone):.2f} ms, "
          f"beside {args.spinners} spinning processes {statistics.median(beside):.2f} ms: {ratio:.2f} times")
    return 1 if args.most is not None and ratio > args.most else 0


if __name__ == "__main__":
    sys.exit(main())
