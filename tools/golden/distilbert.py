#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/distilbert.safetensors: tiny random DistilBertForSequenceClassification of the transformers package in
float64, one for each activation. For each: a padded batch of odd length, weights, logits, loss, every gradient, and ten updates
with AdamW.

    python3 tools/golden/distilbert.py tests/golden/distilbert.safetensors
"""
import sys

import torch
import transformers
from safetensors.torch import save_file

from updates import groups, loss_of, run_updates

SEED = 17
SIZES = dict(vocab_size=23, dim=12, n_layers=2, n_heads=3, hidden_dim=17, max_position_embeddings=9, num_labels=4)
RATE, BETAS, EPS, DECAY = 0.01, (0.9, 0.98), 1e-7, 0.1
MASK = [[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0]]


def make_model(activation):
    config = transformers.DistilBertConfig(**SIZES, activation=activation, dropout=0.0, attention_dropout=0.0,
                                           seq_classif_dropout=0.0, attn_implementation="eager")
    model = transformers.DistilBertForSequenceClassification(config).to(torch.float64).train()
    with torch.no_grad():
        for name, parameter in model.named_parameters():  # biases and norms too, so that each has its own gradient
            is_scale = parameter.dim() == 1 and name.endswith("weight")
            parameter.copy_(torch.randn_like(parameter) * 0.3 + (1.0 if is_scale else 0.0))
    return model


def main():
    torch.manual_seed(SEED)
    row_weights, labels = torch.tensor([1.0, 0.5, 2.0], dtype=torch.float64), torch.tensor([3, 0, 1])
    out = {}
    for activation in ("gelu", "relu"):
        model, mask = make_model(activation), torch.tensor(MASK)
        ids = torch.randint(1, SIZES["vocab_size"], mask.shape) * mask
        out |= {f"{activation}/{key}": x.to(torch.float64).clone() for key, x in
                dict(input_ids=ids, attention_mask=mask, labels=labels, row_weights=row_weights).items()}
        out |= {f"{activation}/before/{name}": p.detach().clone() for name, p in model.named_parameters()}

        def logits_of():
            return model(input_ids=ids, attention_mask=mask).logits

        logits = logits_of()
        loss = loss_of(logits, labels, row_weights)
        loss.backward()
        out[f"{activation}/logits"], out[f"{activation}/loss"] = logits.detach(), loss.detach()
        out |= {f"{activation}/grad/{name}": p.grad.clone() for name, p in model.named_parameters()}
        optimizer = torch.optim.AdamW(groups(model, DECAY), lr=RATE, betas=BETAS, eps=EPS)
        run_updates(activation, model, optimizer, lambda: loss_of(logits_of(), labels, row_weights),
                    lambda m: {name: p.detach().clone() for name, p in m.named_parameters()}, out)
    note = f"torch {torch.__version__}, transformers {transformers.__version__}, float64, seed {SEED}"
    save_file({name: tensor.contiguous() for name, tensor in out.items()}, sys.argv[1], {"tools/golden/distilbert.py": note})


main()
