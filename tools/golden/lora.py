#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/lora.safetensors: a small network with low-rank adapters in plain PyTorch and float64. One map is used
twice, and a table of embeddings is tied to a product, of which only the product has an adapter. Inputs, weights, loss, every
gradient of the adapters, and the adapters after ten updates with AdamW.

    python3 tools/golden/lora.py tests/golden/lora.safetensors
"""
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

SEED, ROWS, IN, WIDTH, WORDS, RANK, ALPHA = 17, 6, 5, 16, 7, 4, 6.0
RATE, BETAS, EPS, DECAY = 0.01, (0.9, 0.98), 1e-7, 0.1


def tensor(*shape):
    return torch.randn(*shape, dtype=torch.float64) * 0.4


def main():
    torch.manual_seed(SEED)
    base = {"in.weight": tensor(WIDTH, IN), "in.bias": tensor(WIDTH), "twice.weight": tensor(WIDTH, WIDTH), "twice.bias": tensor(WIDTH),
            "words.weight": tensor(WORDS, WIDTH)}
    adapters = {}
    for name in ("in", "twice", "words"):
        out, inner = base[f"{name}.weight"].shape
        adapters[f"{name}.lora_A.weight"], adapters[f"{name}.lora_B.weight"] = tensor(RANK, inner), tensor(out, RANK)
    adapters = {name: value.requires_grad_() for name, value in adapters.items()}
    x, ids, labels = tensor(ROWS, IN), torch.randint(0, WORDS, (ROWS,)), torch.randint(0, WORDS, (ROWS,))

    def linear(name, x):
        y = F.linear(x, base[f"{name}.weight"], base.get(f"{name}.bias"))
        return y + ALPHA / RANK * (x @ adapters[f"{name}.lora_A.weight"].T) @ adapters[f"{name}.lora_B.weight"].T

    def loss():
        h = torch.tanh(linear("in", x) + base["words.weight"][ids])
        h = torch.tanh(linear("twice", torch.tanh(linear("twice", h))))
        return F.cross_entropy(linear("words", h), labels)

    out = {"inputs/x": x, "inputs/ids": ids.to(torch.float64), "inputs/labels": labels.to(torch.float64)}
    out |= {f"before/{name}": value.detach().clone() for name, value in (base | adapters).items()}
    first = loss()
    first.backward()
    out["loss"] = first.detach()
    out |= {f"grad/{name}": value.grad.clone() for name, value in adapters.items()}
    optimizer = torch.optim.AdamW(adapters.values(), lr=RATE, betas=BETAS, eps=EPS, weight_decay=DECAY)
    for _ in range(10):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    out |= {f"updated/{name}": value.detach().clone() for name, value in adapters.items()}
    note = f"torch {torch.__version__}, float64, seed {SEED}"
    save_file({name: value.contiguous() for name, value in out.items()}, sys.argv[1], {"tools/golden/lora.py": note})


main()
