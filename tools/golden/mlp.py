#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/mlp.safetensors: small classifiers by the mean of their word embeddings, in PyTorch and float64. For each:
token ids, mask (one row has no token), weights, logits, loss, every gradient, and ten updates with AdamW.

    python3 tools/golden/mlp.py tests/golden/mlp.safetensors
"""
import sys

import torch
from safetensors.torch import save_file
from torch import nn

from updates import groups, loss_of, run_updates

SEED = 13
BATCH, LENGTH, VOCAB, LABELS = 4, 6, 9, 3
LENGTHS = [6, 0, 4, 5]
RATE, BETAS, EPS, DECAY = 0.01, (0.9, 0.98), 1e-7, 0.1
# Fields are those of Snug's config.json.
MODELS = {
    "no_hidden_layer": dict(embedding_size=3, hidden_sizes=[]),
    "one_layer": dict(embedding_size=5, hidden_sizes=[5]),
    "three_layers": dict(embedding_size=4, hidden_sizes=[7, 3, 5]),
}


class Classifier(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embeddings = nn.Embedding(VOCAB, c["embedding_size"])
        sizes = [c["embedding_size"], *c["hidden_sizes"]]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        self.classifier = nn.Linear(sizes[-1], LABELS)

    def forward(self, ids, mask):
        there = mask.to(torch.float64)[:, :, None]
        x = (self.embeddings(ids) * there).sum(1) / there.sum(1).clamp(min=1)
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.classifier(x)


def weights_of(model):
    return {key: p.detach().clone() for key, p in model.named_parameters()}


def run(name, config, out):
    model = Classifier(config).to(torch.float64)
    with torch.no_grad():
        for x in model.parameters():
            x.copy_(torch.randn_like(x) * 0.6)
    mask = torch.arange(LENGTH)[None, :] < torch.tensor(LENGTHS)[:, None]
    ids = torch.randint(1, VOCAB, (BATCH, LENGTH)) * mask
    labels = torch.randint(0, LABELS, (BATCH,))
    row_weights = torch.tensor([1.0, 0.5, 2.0, 1.5], dtype=torch.float64)
    for key, x in (("input_ids", ids), ("attention_mask", mask), ("labels", labels), ("row_weights", row_weights)):
        out[f"{name}/{key}"] = x.to(torch.float64)
    out |= {f"{name}/before/{key}": x for key, x in weights_of(model).items()}
    logits = model(ids, mask)
    loss = loss_of(logits, labels, row_weights)
    loss.backward()
    out[f"{name}/logits"], out[f"{name}/loss"] = logits.detach(), loss.detach()
    out |= {f"{name}/grad/{key}": p.grad.clone() for key, p in model.named_parameters()}
    optimizer = torch.optim.AdamW(groups(model, DECAY), lr=RATE, betas=BETAS, eps=EPS)
    run_updates(name, model, optimizer, lambda: loss_of(model(ids, mask), labels, row_weights), weights_of, out)


def main():
    torch.manual_seed(SEED)
    out = {}
    for name, config in MODELS.items():
        run(name, config, out)
    note = f"torch {torch.__version__}, float64, seed {SEED}"
    save_file({name: x.contiguous() for name, x in out.items()}, sys.argv[1], {"tools/golden/mlp.py": note})


main()
