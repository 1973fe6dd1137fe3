#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/words.json: lists of words as BertTokenizerFast of the transformers package cuts them (is_split_into_words), and
the first token of each word, where its label stands (-1: no token is left).

    python3 tools/golden/words.py > tests/golden/words.json
"""
import json
import random
import tempfile

import transformers

LETTERS = "abcdeé漢"
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS[:5], "漢", *("##" + c for c in LETTERS[:5]), "ab", "##cd", "-", ".", "'"]
WORDS = ["ab", "abcd", "Abé", "a-b", "don't".replace("o", "a"), "...", "", " ", "\u200b\u0007", "漢漢", "zz", "[SEP]", "e" * 120, "a b c", "cd."]


def main():
    generator = random.Random(5)
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/vocab.txt", "w") as file:
            file.write("\n".join(VOCABULARY) + "\n")
        tokenizer = transformers.BertTokenizerFast(f"{folder}/vocab.txt")
    cases = []
    for length in (2, 3, 6, 9, 16, 400):
        for count in (0, 1, 4, 12):
            words = [generator.choice(WORDS) for _ in range(count)]
            encoded = tokenizer(words, is_split_into_words=True, truncation=True, max_length=length)
            places = encoded.word_ids()
            first = [places.index(word) if word in places else -1 for word in range(count)]
            cases.append(dict(words=words, max_length=length, ids=encoded["input_ids"], first_tokens=first))
    print(json.dumps(dict(written_by=f"tools/golden/words.py, transformers {transformers.__version__}", vocabulary=VOCABULARY, cases=cases)))


main()
