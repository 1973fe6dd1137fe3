#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/spans.json: labels of words, and the spans that seqeval finds in them under each scheme.

    python3 tools/golden/spans.py > tests/golden/spans.json
"""
import importlib.metadata
import json
import random

from seqeval.scheme import BILOU, IOB1, IOB2, IOBES, Tokens

SCHEMES = dict(IOB1=(IOB1, "BI"), IOB2=(IOB2, "BI"), BIOES=(IOBES, "BIES"), BILOU=(BILOU, "BILU"))
generator = random.Random(31)


def row(letters):
    """Any label may stand behind any other; one kind more often than the next, so that some spans are long."""
    return ["O" if (letter := generator.choice(letters + "O")) == "O" else f"{letter}-{generator.choice(['PER', 'PER', 'LOC'])}"
            for _ in range(generator.randint(0, 7))]


cases = [dict(scheme=name, labels=labels, spans=[[each.start, each.end, each.tag] for each in Tokens(labels, scheme).entities])
         for name, (scheme, letters) in SCHEMES.items() for labels in (row(letters) for _ in range(400))]
print(json.dumps(dict(written_by=f"tools/golden/spans.py, seqeval {importlib.metadata.version('seqeval')}", cases=cases), separators=(",", ":")))
