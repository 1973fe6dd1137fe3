#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/lstm.safetensors: small LSTM classifiers of PyTorch (nn.LSTM over packed sequences) in float64.
For each: token ids, mask, weights, logits, loss, every gradient.

    python3 tools/golden/lstm.py tests/golden/lstm.safetensors
"""
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

SEED = 11
BATCH, LENGTH, VOCAB, LABELS = 4, 6, 9, 3
LENGTHS = [6, 1, 4, 5]
# Fields are those of Snug's config.json.
MODELS = {
    "one_layer": dict(embedding_size=3, hidden_size=5, num_hidden_layers=1),
    "two_layers": dict(embedding_size=4, hidden_size=3, num_hidden_layers=2),
}


class Classifier(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embeddings = nn.Embedding(VOCAB, c["embedding_size"])
        self.lstm = nn.LSTM(c["embedding_size"], c["hidden_size"], c["num_hidden_layers"], batch_first=True)
        self.classifier = nn.Linear(c["hidden_size"], LABELS)

    def forward(self, ids, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(self.embeddings(ids), lengths, batch_first=True, enforce_sorted=False)
        _, (h, _) = self.lstm(packed)
        return self.classifier(h[-1])


def run(name, config, out):
    model = Classifier(config).to(torch.float64)
    with torch.no_grad():
        for x in model.parameters():
            x.copy_(torch.randn_like(x) * 0.6)
    lengths = torch.tensor(LENGTHS)
    mask = torch.arange(LENGTH)[None, :] < lengths[:, None]
    ids = torch.randint(1, VOCAB, (BATCH, LENGTH)) * mask
    labels = torch.randint(0, LABELS, (BATCH,))
    row_weights = torch.tensor([1.0, 0.5, 2.0, 1.5], dtype=torch.float64)
    for key, x in (("input_ids", ids), ("attention_mask", mask), ("labels", labels), ("row_weights", row_weights)):
        out[f"{name}/{key}"] = x.to(torch.float64)
    out |= {f"{name}/before/{key}": x.detach().clone() for key, x in model.named_parameters()}
    logits = model(ids, lengths)
    loss = (F.cross_entropy(logits, labels, reduction="none") * row_weights).sum() / row_weights.sum()
    loss.backward()
    out[f"{name}/logits"], out[f"{name}/loss"] = logits.detach(), loss.detach()
    out |= {f"{name}/grad/{key}": p.grad for key, p in model.named_parameters()}


def main():
    torch.manual_seed(SEED)
    out = {}
    for name, config in MODELS.items():
        run(name, config, out)
    note = f"torch {torch.__version__}, float64, seed {SEED}"
    save_file({name: x.contiguous() for name, x in out.items()}, sys.argv[1], {"tools/golden/lstm.py": note})


main()
