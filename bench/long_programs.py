#!/usr/bin/env python3
"""What planning takes where programs are extremely long, on one core.

usage: long_programs.py PATH_TO_SNUG [OTHER_PATH ...]

Processor time and largest resident set of plans: a BERT of 5,000 layers (hidden size 16, vocabulary of 100 tokens) in a budget that
holds it and in one that does not, and an LSTM of 4,000 steps; and how long a run of `snug plan` with 3,000 layers lives after SIGINT.
Several programs are run in turns, so that a machine whose speed changes treats them alike.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

ALWAYS = ("--threads", "1")
SIGNAL_SECONDS = (0.5, 2, 4, 7, 10)


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


def seconds_after_signal(snug, keys, seconds):
    process = started(snug, "64GiB", keys)
    time.sleep(seconds)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    status = process.wait()
    return f"{time.monotonic() - begin:.2f}" if status == 130 else f"exit {status}"


def main(programs):
    with tempfile.TemporaryDirectory() as folder:
        cases = (("BERT, 5,000 layers", "64GiB", bert(folder, 5000)), ("the same, too small a budget", "1GiB", bert(folder, 5000)),
                 ("LSTM, 4,000 steps", "64GiB", ("--model", "lstm", "--max_seq_length", "4000", "--train_batch_size", "8")))
        print("| program | planned | exit status | processor time | largest resident set |\n|---|---|---|---|---|")
        for name, memory, keys in cases:
            for snug in programs:
                status, seconds, mib = planned(snug, memory, keys)
                print(f"| {snug} | {name}, {memory} | {status} | {seconds:.1f} s | {mib:.0f} MiB |", flush=True)
        print("\n| program | " + " | ".join(f"SIGINT after {each} s" for each in SIGNAL_SECONDS) + " |\n|---|" + "---|" * len(SIGNAL_SECONDS))
        keys = bert(folder, 3000)
        for snug in programs:
            print(f"| {snug} | " + " | ".join(seconds_after_signal(snug, keys, each) for each in SIGNAL_SECONDS) + " |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1:])
