#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a text classification data set from Debian's wordnet-base package.

Every synset gives one row: text is its gloss (definition and examples), label the name of its lexicographer file, such
as noun.act. A seeded 5 % of the distinct glosses is held out; equal glosses always lie on the same side.

    make_dataset.py --output build/wordnet      writes train.jsonl and validation.jsonl
"""

import argparse
import collections
import hashlib
import json
import os
import sys

# lexnames(5WN): the position is the file number.
LEXNAMES = """
adj.all adj.pert adv.all noun.Tops noun.act noun.animal noun.artifact noun.attribute noun.body noun.cognition
noun.communication noun.event noun.feeling noun.food noun.group noun.location noun.motive noun.object noun.person
noun.phenomenon noun.plant noun.possession noun.process noun.quantity noun.relation noun.shape noun.state
noun.substance noun.time verb.body verb.change verb.cognition verb.communication verb.competition verb.consumption
verb.contact verb.creation verb.emotion verb.motion verb.perception verb.possession verb.social verb.stative
verb.weather adj.ppl
""".split()

DATA_FILES = ("data.noun", "data.verb", "data.adj", "data.adv")


def read_rows(folder):
    """Yields (gloss, label) of every synset, in file order. The format of a line is that of wndb(5WN)."""
    for name in DATA_FILES:
        path = os.path.join(folder, name)
        with open(path, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.startswith("  "):  # the licence
                    continue
                fields, separator, gloss = line.partition(" | ")
                words = fields.split(" ", 2)
                if not separator or len(words) < 3 or not words[1].isdigit() or int(words[1]) >= len(LEXNAMES):
                    sys.exit(f"{path}:{number}: not a synset of WordNet 3.0")
                yield " ".join(gloss.split()), LEXNAMES[int(words[1])]


def is_held_out(text, seed, share):
    """A pure function of the gloss and the seed, so duplicates cannot straddle the split."""
    digest = hashlib.sha256(f"{seed}\n{' '.join(text.lower().split())}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


def write_rows(path, rows):
    """Writes the file as a whole or not at all."""
    temporary = path + ".tmp"
    with open(temporary, "w", encoding="utf-8", newline="\n") as out:
        for text, label in rows:
            out.write(json.dumps({"text": text, "label": label}, ensure_ascii=False) + "\n")
    os.replace(temporary, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wordnet", default="/usr/share/wordnet", help="folder of data.noun (default: %(default)s)")
    parser.add_argument("--output", required=True, help="folder for train.jsonl and validation.jsonl")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--held-out", type=float, default=0.05, help="share of glosses held out (default: %(default)s)")
    options = parser.parse_args()
    if not 0 < options.held_out < 1:
        parser.error("--held-out must lie between 0 and 1")
    if not os.path.exists(os.path.join(options.wordnet, "data.noun")):
        sys.exit(f"{options.wordnet}: data.noun is not there; install the package wordnet-base")

    os.makedirs(options.output, exist_ok=True)
    parts = {"train": [], "validation": []}
    for text, label in read_rows(options.wordnet):
        part = "validation" if is_held_out(text, options.seed, options.held_out) else "train"
        parts[part].append((text, label))
    for part, rows in parts.items():
        write_rows(os.path.join(options.output, part + ".jsonl"), rows)

    counts = collections.Counter(label for rows in parts.values() for _, label in rows)
    total = sum(counts.values())
    label, largest = counts.most_common(1)[0]
    print(
        f"{total:,} glosses: {len(parts['train']):,} to train on, {len(parts['validation']):,} held out; "
        f"{len(counts)} categories, the largest {label} with {100 * largest / total:.1f} %"
    )


if __name__ == "__main__":
    main()
