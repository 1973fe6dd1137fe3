#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/heads.safetensors: tiny random BERT and DistilBERT bodies of the transformers package in float64 with each head that
Snug has beside theirs (docs/heads.md), written in plain PyTorch: pooling by first token, mean, maximum and attention, of one layer or of
the last two side by side. For each: a padded batch, weights, logits, loss and every gradient.

    python3 tools/golden/heads.py tests/golden/heads.safetensors
"""
import sys

import torch
import transformers
from safetensors.torch import save_file

SEED = 29
MASK = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0]])
LABELS, TOKEN_LABELS = torch.tensor([2, 0, 1]), torch.tensor([[0, 2, 1, 0, 1, 1, 2], [1, 1, 0, 2, -100, -100, -100], [2] + [-100] * 6])
CASES = [("bert", "first", 1), ("bert", "mean", 1), ("bert", "max", 2), ("bert", "attention", 2), ("bert", "tokens", 2),
         ("distilbert", "first", 2), ("distilbert", "attention", 1)]


class Attention(torch.nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.dense = torch.nn.Linear(width, hidden)
        self.score = torch.nn.Linear(hidden, 1, bias=False)

    def forward(self, x, mask):
        scores = self.score(torch.tanh(self.dense(x))).squeeze(-1).masked_fill(mask == 0, -torch.inf)
        return (torch.softmax(scores, 1).unsqueeze(-1) * x).sum(1)


class Head(torch.nn.Module):
    def __init__(self, pooling, layers, hidden, labels):
        super().__init__()
        self.pooling, self.layers = pooling, layers
        if pooling == "attention":
            self.attention = Attention(layers * hidden, hidden)
        self.classifier = torch.nn.Linear(layers * hidden, labels)

    def forward(self, hidden_states, mask):
        x, there = torch.cat(hidden_states[-self.layers:], dim=-1), mask.unsqueeze(-1)
        if self.pooling == "first":
            x = x[:, 0]
        elif self.pooling == "mean":
            x = (x * there).sum(1) / there.sum(1)
        elif self.pooling == "max":
            x = x.masked_fill(there == 0, -torch.inf).amax(1)
        elif self.pooling == "attention":
            x = self.attention(x, mask)
        return self.classifier(x)


class Model(torch.nn.Module):
    def __init__(self, family, pooling, layers):
        super().__init__()
        if family == "bert":
            config = transformers.BertConfig(vocab_size=23, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=10,
                                             max_position_embeddings=9, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
                                             attn_implementation="eager")
            self.bert = transformers.BertModel(config, add_pooling_layer=False)
        else:
            config = transformers.DistilBertConfig(vocab_size=23, dim=8, n_layers=2, n_heads=2, hidden_dim=10, max_position_embeddings=9,
                                                   dropout=0.0, attention_dropout=0.0, attn_implementation="eager")
            self.distilbert = transformers.DistilBertModel(config)
        self.snug_head = Head(pooling, layers, 8, 3)

    def forward(self, ids):
        body = self.bert if hasattr(self, "bert") else self.distilbert
        return self.snug_head(body(input_ids=ids, attention_mask=MASK, output_hidden_states=True).hidden_states, MASK)


def main():
    torch.manual_seed(SEED)
    out = {}
    for family, pooling, layers in CASES:
        model = Model(family, pooling, layers).to(torch.float64).train()
        with torch.no_grad():
            for name, parameter in model.named_parameters():  # biases and norms too, so that each has its own gradient
                is_scale = parameter.dim() == 1 and name.endswith("weight")
                parameter.copy_(torch.randn_like(parameter) * 0.3 + (1.0 if is_scale else 0.0))
        ids = torch.randint(1, 23, MASK.shape) * MASK
        labels = TOKEN_LABELS if pooling == "tokens" else LABELS
        logits = model(ids)
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, 3), labels.reshape(-1))
        loss.backward()
        prefix = f"{family}_{pooling}_{layers}/"
        out |= {prefix + key: x.detach().to(torch.float64).clone() for key, x in
                dict(input_ids=ids, attention_mask=MASK, labels=labels, logits=logits, loss=loss).items()}
        out |= {f"{prefix}before/{name}": p.detach().clone() for name, p in model.named_parameters()}
        out |= {f"{prefix}grad/{name}": p.grad.clone() for name, p in model.named_parameters()}
    note = f"torch {torch.__version__}, transformers {transformers.__version__}, float64, seed {SEED}"
    save_file({name: tensor.contiguous() for name, tensor in out.items()}, sys.argv[1], {"tools/golden/heads.py": note})


main()
