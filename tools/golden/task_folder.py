#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what `snug predict` says of rows with what transformers says from the same folder.

    python3 tools/golden/task_folder.py FOLDER ROWS.jsonl PREDICTIONS.jsonl
"""
import json
import sys

import torch
import transformers


def read(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def main():
    folder, rows, predictions = sys.argv[1:]
    config = transformers.AutoConfig.from_pretrained(folder)
    has_words = config.architectures[0].endswith("ForTokenClassification")
    auto = transformers.AutoModelForTokenClassification if has_words else transformers.AutoModelForSequenceClassification
    model, tokenizer = auto.from_pretrained(folder).eval(), transformers.AutoTokenizer.from_pretrained(folder)
    worst = others = 0
    for row, found in zip(read(rows), read(predictions), strict=True):
        encoded = tokenizer(row["text"], is_split_into_words=has_words, truncation=True, return_tensors="pt")
        with torch.no_grad():
            logits = model(**encoded).logits[0]
        if has_words:
            places = encoded.word_ids()
            labels = [config.id2label[int(logits[places.index(word)].argmax())] if word in places else None for word in range(len(row["text"]))]
            others += labels != found["labels"]
            continue
        wanted = logits if "values" in found else torch.sigmoid(logits) if "labels" in found else torch.softmax(logits, 0)
        values = found.get("values") or list(found["scores"].values())
        worst = max(worst, float((wanted - torch.tensor(values)).abs().max()))
    print(f"{config.architectures[0]}, {config.problem_type}: values and scores differ by {worst:.1g} at most, {others} rows have other labels")


main()
