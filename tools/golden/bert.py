#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/bert.safetensors: a tiny random BertForSequenceClassification of the transformers package in
float64, with one padded batch of odd length. For both kinds of gelu: logits, weighted loss and every gradient; for the
exact one also losses and weights of ten updates with AdamW, clipping and a linear schedule as in its Trainer.

    python3 tools/golden/bert.py tests/golden/bert.safetensors
"""
import sys

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import save_file

SEED = 11
SIZES = dict(vocab_size=23, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=17,
             max_position_embeddings=9, type_vocab_size=2, num_labels=4)
RATE, BETAS, EPS, DECAY, MAX_NORM, STEPS = 0.01, (0.9, 0.98), 1e-7, 0.1, 0.5, 10


def make_model(hidden_act, weights=None):
    config = transformers.BertConfig(**SIZES, hidden_act=hidden_act, hidden_dropout_prob=0.0,
                                     attention_probs_dropout_prob=0.0, attn_implementation="eager")
    model = transformers.BertForSequenceClassification(config).to(torch.float64).train()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if weights is not None:
                parameter.copy_(weights[name])
            else:  # biases and layer norms too, so that each has its own gradient
                parameter.copy_(torch.randn_like(parameter) * 0.3 + (1.0 if "LayerNorm.weight" in name else 0.0))
    return model


def make_batch():
    mask = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0]])
    ids = torch.randint(1, SIZES["vocab_size"], mask.shape) * mask
    types = torch.tensor([[0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0]])
    return dict(input_ids=ids, token_type_ids=types, attention_mask=mask), torch.tensor([3, 0, 1])


def loss_of(logits, labels, row_weights):
    rows = F.cross_entropy(logits, labels, reduction="none")
    return (rows * row_weights).sum() / row_weights.sum()


def decays(name):
    return "bias" not in name and "LayerNorm" not in name


def main():
    torch.manual_seed(SEED)
    row_weights = torch.tensor([1.0, 0.5, 2.0], dtype=torch.float64)
    model = make_model("gelu")
    weights = {name: p.detach().clone() for name, p in model.named_parameters()}
    inputs, labels = make_batch()
    out = {f"weights/{name}": w for name, w in weights.items()}
    out |= {f"inputs/{name}": x.to(torch.float64) for name, x in inputs.items()}
    out["inputs/labels"], out["inputs/row_weights"] = labels.to(torch.float64), row_weights

    for act in ("gelu", "gelu_new"):
        one = make_model(act, weights)
        logits = one(**inputs).logits
        loss = loss_of(logits, labels, row_weights)
        loss.backward()
        out[f"{act}/logits"], out[f"{act}/loss"] = logits.detach(), loss.detach()
        out |= {f"{act}/grad/{name}": p.grad for name, p in one.named_parameters()}

    groups = [dict(params=[p for n, p in model.named_parameters() if decays(n) == yes], weight_decay=DECAY * yes)
              for yes in (True, False)]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=BETAS, eps=EPS)
    schedule = transformers.get_scheduler("linear", optimizer, num_warmup_steps=0, num_training_steps=STEPS)
    losses, norms = [], []
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        loss = loss_of(model(**inputs).logits, labels, row_weights)
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM).detach())
        losses.append(loss.detach())
        optimizer.step()
        schedule.step()
        if step in (1, 2, 10):
            out |= {f"step{step}/{name}": p.detach().clone() for name, p in model.named_parameters()}
    out["losses"], out["norms"] = torch.stack(losses), torch.stack(norms)
    note = f"torch {torch.__version__}, transformers {transformers.__version__}, float64, seed {SEED}"
    save_file({name: tensor.contiguous() for name, tensor in out.items()}, sys.argv[1], {"tools/golden/bert.py": note})


main()
