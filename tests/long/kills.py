#!/usr/bin/env python3
"""Kills a small run at random moments and resumes it, until so many kills hit: nothing is lost, bits are equal.

A run of bert-tiny checkpoints after every second update, evaluates, keeps its best weights and a copy of older checkpoints. It is
killed (SIGKILL) after a time drawn from the duration of a whole run, and resumed, often killed again, until it ends; then its weights,
optimizer states, best weights, copies and log are compared with an undisturbed run. Every run has its own seed of moments, so
`--first N` goes on where a stopped command ended.

usage: kills.py SNUG [--kills 1000] [--first 0] [--jobs J]
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import common  # noqa: E402

STEPS = 24
KILLS_OF_A_RUN = 5


def start(words, out):
    return subprocess.Popen([*words, "--output_dir", str(out)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                            text=True)


def finish(words, out):
    process = start(words, out)
    errors = process.communicate()[1]
    assert process.returncode == 0, errors


def result(out):
    """All that must be equal; the log but for its timings."""
    names = sorted(str(path.relative_to(out)) for path in out.rglob("*"))
    hashes = {name: common.sha256(out / name) for name in names if name.endswith(".safetensors")}
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return names, hashes, [(line["step"], line["loss"], line["grad_norm"]) for line in lines]


def killed_run(words, folder, number, seconds, wanted):
    """Kills that hit in one run; raises where its end is not the wanted one."""
    generator = random.Random(number)
    out = folder / f"run{number}"
    hits = 0
    for _ in range(KILLS_OF_A_RUN):
        process = start(words, out)
        time.sleep(generator.uniform(0, seconds))
        process.kill()
        process.communicate()
        hits += process.returncode == -signal.SIGKILL
    finish(words, out)
    found = result(out)
    for name, one, other in zip(("files", "hashes", "log"), found, wanted):
        assert one == other, f"run {number}, {name}: {one}\nwanted: {other}"
    shutil.rmtree(out)
    return hits


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("snug", type=pathlib.Path)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first run")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="snug-kills-") as name:
        folder = pathlib.Path(name)
        common.write_jsonl(folder / "train.jsonl", common.make_rows(60, longest=6))
        common.write_jsonl(folder / "valid.jsonl", common.make_rows(12, seed=2, longest=6))
        words = [str(arguments.snug.resolve()), "train", *common.options(
            model="bert-tiny", train_file=folder / "train.jsonl", validation_file=folder / "valid.jsonl", vocab_size=80, max_seq_length=8,
            train_batch_size=8, max_steps=STEPS, save_steps=2, save_total_limit=2, eval_steps=3, logging_steps=1, memory="300MiB",
            threads=1, seed=3, learning_rate=1e-3, recompute="none", resume=True)]
        finish(words, folder / "warm")  # measures the machine, once
        begin = time.monotonic()
        finish(words, folder / "whole")
        seconds = time.monotonic() - begin
        wanted = result(folder / "whole")
        assert [step for step, _, _ in wanted[2]] == list(range(1, STEPS + 1))
        hits, number = 0, arguments.first
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            while hits < arguments.kills:
                numbers = range(number, number + 4 * arguments.jobs)
                hits += sum(pool.map(lambda n: killed_run(words, folder, n, seconds, wanted), numbers))
                number = numbers.stop
                print(f"{hits} kills in runs {arguments.first} to {number - 1}: nothing lost, bits equal", flush=True)


if __name__ == "__main__":
    main()
