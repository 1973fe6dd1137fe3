#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/windows.json: what the `tokenizers` package makes of a long text with truncation and stride, its overflowing pieces
included: a list of cases of words, max_length, stride and the ids of every window.

    python3 tools/golden/windows.py tests/golden/windows.json
"""
import json
import sys

import tokenizers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + list("abcdefghijklmnopqrst")


def main():
    vocabulary = {token: i for i, token in enumerate(TOKENS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    cases = []
    for words in (0, 1, 5, 6, 7, 11, 20):
        for max_length, stride in ((7, 0), (7, 2), (7, 4), (3, 0), (22, 5), (8, 5)):
            text = " ".join(TOKENS[5:5 + words])
            tokenizer.enable_truncation(max_length, stride=stride)
            first = tokenizer.encode(text)
            cases.append({"words": words, "max_length": max_length, "stride": stride,
                          "windows": [e.ids for e in [first, *first.overflowing]]})
    with open(sys.argv[1], "w") as file:
        json.dump({"tokenizers": tokenizers.__version__, "tokens": TOKENS, "cases": cases}, file, separators=(",", ":"))
        file.write("\n")


main()
