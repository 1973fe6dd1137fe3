#!/usr/bin/env python3
"""Speed of tokenizers on one thread, beside the tokenizers package (pip), on WordNet's glosses (Debian's wordnet-base).

usage: compare_tokenizers.py [FOLDER ...] [--rounds 3]
Takes the tokenizer.json of each folder; besides, a vocabulary of 8,192 of each kind learned by snug. Figures are megabytes of text a
second of processor time, the best of the rounds, in turns: snug tokenize without its start, its printing of ids included; the package
called a line at a time and in one batch. Ids are compared, too.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
from tokenizers import Tokenizer  # noqa: E402

SNUG = os.environ.get("SNUG") or pathlib.Path(__file__).resolve().parent.parent / "build/release/snug"
WORDNET = pathlib.Path("/usr/share/wordnet")


def glosses():
    for part in ("noun", "verb", "adj", "adv"):
        for line in (WORDNET / f"data.{part}").open():
            if " | " in line:
                yield line.split(" | ")[1].strip()


def learn(kind, lines, work):
    rows = work / "rows.jsonl"
    rows.write_text("".join(json.dumps({"text": line, "label": str(i % 2)}) + "\n" for i, line in enumerate(lines[:20000])))
    subprocess.run([SNUG, "train", "--model", "mlp", "--train_file", rows, "--vocab_size", "8192", "--max_seq_length", "32", "--max_steps", "1",
                    "--memory", "256MiB", "--tokenizer_kind", kind, "--output_dir", work / kind], check=True, capture_output=True)
    return work / kind / "last"


def snug_seconds(folder, text):
    before = os.times()
    done = subprocess.run([SNUG, "tokenize", "--model", folder], input=text, capture_output=True, text=True, check=True)
    after = os.times()
    seconds = after.children_user + after.children_system - before.children_user - before.children_system
    return seconds, done.stdout


def package_seconds(call):
    before = time.process_time()
    ids = call()
    return time.process_time() - before, ids


def measure(name, folder, lines, rounds):
    text = "".join(line + "\n" for line in lines)
    package = Tokenizer.from_file(str(folder / "tokenizer.json"))
    package.no_truncation()
    package.no_padding()
    ours, single, batch = [], [], []
    for _ in range(rounds):
        start, _ = snug_seconds(folder, "")
        seconds, found = snug_seconds(folder, text)
        ours.append(seconds - start)
        seconds, wanted = package_seconds(lambda: [package.encode(line).ids for line in lines])
        single.append(seconds)
        batch.append(package_seconds(lambda: package.encode_batch_fast(lines))[0])
    size = len(text.encode()) / 1e6
    is_equal = [json.loads(line) for line in found.splitlines()] == wanted
    best = min(min(single), min(batch))
    print(f"{name:<12} {size:.1f} MB: snug {size / min(ours):5.1f} MB/s, package {size / min(single):4.1f} a line at a time, "
          f"{size / min(batch):4.1f} in a batch: {best / min(ours):.1f} x; ids {'equal' if is_equal else 'DIFFER'}", flush=True)
    return is_equal


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    lines = list(glosses())
    with tempfile.TemporaryDirectory(prefix="snug-bench-") as name:
        work = pathlib.Path(name)
        cases = [(folder.name, folder) for folder in args.folders]
        cases += [(kind, learn(kind, lines, work)) for kind in ("wordpiece", "bpe", "unigram")]
        good = [measure(name, folder, lines, args.rounds) for name, folder in cases]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
