#!/usr/bin/env python3
"""What planning takes where programs are extremely long, on one core.

usage: long_programs.py PATH_TO_SNUG [OTHER_PATH ...]

Processor time and largest resident set of plans: a BERT of 5,000 layers (hidden size 16, vocabulary of 100 tokens) in a budget that
holds it and in one that does not, and an LSTM of 4,000 steps; and how long runs of `snug plan` with 3,000 and 5,000 layers live after SIGINT at
random moments, in processor time, which a busy machine does not stretch.
Several programs are run in turns, so that a machine whose speed changes treats them alike.
"""
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ALWAYS = ("--threads", "1")
SIGNALS = {3000: 12, 5000: 20}  # layers, and the latest moment in seconds of processor time
SIGNALS_EACH = 20


def bert(folder, layers):
    path = pathlib.Path(folder, f"bert{layers}.json")
    path.write_text(json.dumps(dict(model_type="bert", hidden_size=16, num_hidden_layers=layers, num_attention_heads=2, intermediate_size=16,
                                    vocab_size=100, max_position_embeddings=512, type_vocab_size=2)))
    return ("--model", str(path), "--train_batch_size", "32", "--max_seq_length", "128")


def started(snug, memory, keys):
    return subprocess.Popen([snug, "plan", *ALWAYS, "--memory", memory, *keys], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def planned(snug, memory, keys):
    """Exit status, processor seconds, MiB."""
    process = started(snug, memory, keys)
    _, status, usage = os.wait4(process.pid, 0)
    return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def processor_seconds(process):
    """Of its only thread, so far."""
    return int(pathlib.Path(f"/proc/{process.pid}/schedstat").read_text().split()[0]) / 1e9


def seconds_after_signal(snug, keys, moment):
    process = started(snug, "64GiB", keys)
    while (before := processor_seconds(process)) < moment:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 130:
        raise SystemExit(f"{snug} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime - before


def main(programs):
    with tempfile.TemporaryDirectory() as folder:
        cases = (("BERT, 5,000 layers", "64GiB", bert(folder, 5000)), ("the same, too small a budget", "1GiB", bert(folder, 5000)),
                 ("LSTM, 4,000 steps", "64GiB", ("--model", "lstm", "--max_seq_length", "4000", "--train_batch_size", "8")))
        print("| program | planned | exit status | processor time | largest resident set |\n|---|---|---|---|---|")
        for name, memory, keys in cases:
            for snug in programs:
                status, seconds, mib = planned(snug, memory, keys)
                print(f"| {snug} | {name}, {memory} | {status} | {seconds:.1f} s | {mib:.0f} MiB |", flush=True)
        print(f"\n| program | layers | SIGINT, {SIGNALS_EACH} times within | median | most |\n|---|---|---|---|---|")
        for layers, latest in SIGNALS.items():
            generator = random.Random(layers)
            moments = [generator.uniform(0.1, latest) for _ in range(SIGNALS_EACH)]
            for snug in programs:
                found = [seconds_after_signal(snug, bert(folder, layers), moment) for moment in moments]
                print(f"| {snug} | {layers} | {latest} s | {statistics.median(found):.2f} s | {max(found):.2f} s |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main(sys.argv[1:])
