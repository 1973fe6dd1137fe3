#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/distilbert_folder: a small random DistilBertForSequenceClassification and its tokenizer as transformers
saves them, with texts (texts.jsonl) and the probabilities of transformers for them (probabilities.json).

    python3 tools/golden/distilbert_folder.py tests/golden/distilbert_folder

Or loads a folder that Snug wrote with transformers' Auto classes, and compares it with what `snug predict` printed:

    python3 tools/golden/distilbert_folder.py --compare RUN/best TEXTS.jsonl PREDICTIONS.jsonl
"""
import json
import pathlib
import sys

import torch
import transformers

SEED, LENGTH = 19, 16
LABELS = ["animal", "food", "tool"]
WORDS = "cat dog horse bread cheese apple hammer nail saw the a is on ##s ##ing".split()
TEXTS = ["the cat is on a horse", "bread, cheese; apple!", "Hammering nails", "a saw", "the dogs", "unknown words", "cat " * 30]


def probabilities_of(folder, texts):
    """By nothing but the folder: its tokenizer decides what the model is fed."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model, loading = transformers.AutoModelForSequenceClassification.from_pretrained(folder, output_loading_info=True)
    for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not loading[problem], (problem, loading[problem])
    inputs = tokenizer(texts, padding=True, truncation=True, max_length=min(LENGTH, tokenizer.model_max_length), return_tensors="pt")
    assert set(inputs) == {"input_ids", "attention_mask"}, set(inputs)
    with torch.no_grad():
        return type(model).__name__, model.eval().double()(**inputs).logits.softmax(-1), model.config.id2label


def write(folder):
    torch.manual_seed(SEED)
    folder.mkdir(exist_ok=True)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *"abcdefghijklmnopqrstuvwxyz,;!"]
    vocabulary = list(dict.fromkeys(vocabulary))
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    tokenizer = transformers.DistilBertTokenizerFast(vocab=str(folder / "vocab.txt"), model_max_length=LENGTH)
    tokenizer.save_pretrained(folder)
    config = transformers.DistilBertConfig(vocab_size=len(vocabulary), dim=16, n_layers=2, n_heads=2, hidden_dim=24, activation="relu",
                                           max_position_embeddings=24, id2label=dict(enumerate(LABELS)),
                                           label2id={name: i for i, name in enumerate(LABELS)})
    model = transformers.DistilBertForSequenceClassification(config).eval()
    with torch.no_grad():
        for name, x in model.named_parameters():
            x.copy_(torch.randn_like(x) * 0.3 + (1.0 if x.dim() == 1 and name.endswith("weight") else 0.0))
    model.save_pretrained(folder, safe_serialization=True)
    (folder / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    _, probabilities, _ = probabilities_of(folder, TEXTS)
    note = f"torch {torch.__version__}, transformers {transformers.__version__}, float64, seed {SEED}"
    (folder / "probabilities.json").write_text(json.dumps({"note": note, "probabilities": probabilities.tolist()}) + "\n")


def compare(folder, texts, predictions):
    rows = [json.loads(line)["text"] for line in pathlib.Path(texts).read_text().splitlines()]
    name, probabilities, labels = probabilities_of(folder, rows)
    lines = [json.loads(line) for line in pathlib.Path(predictions).read_text().splitlines()]
    found = torch.tensor([[line["scores"][labels[i]] for i in range(len(labels))] for line in lines], dtype=torch.float64)
    difference = (found - probabilities).abs().max().item()
    print(f"{name}: {len(rows)} rows, largest difference of a probability {difference:.2g}")
    assert difference < 1e-5


if sys.argv[1] == "--compare":
    compare(*sys.argv[2:])
else:
    write(pathlib.Path(sys.argv[1]))
