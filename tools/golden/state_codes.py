#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/state_codes.safetensors: bitsandbytes' codes of 8 bits on the CPU, signed and unsigned, of numbers that span seven
decades in blocks of 256; and a weight with its coded states before and after one update of AdamW8bit.

    python3 tools/golden/state_codes.py tests/golden/state_codes.safetensors
"""
import sys

import bitsandbytes
import torch
from bitsandbytes import functional
from safetensors.torch import save_file

SEED, BLOCK, SHAPE, RATE, DECAY = 20261123, 256, (65, 64), 1e-3, 0.01


def codes_of(x, is_signed):
    table = functional.create_dynamic_map(signed=is_signed)
    codes, state = functional.quantize_blockwise(x, code=table.clone(), blocksize=BLOCK)
    return {"map": table, "values": x, "codes": codes, "scales": state.absmax, "decoded": functional.dequantize_blockwise(codes, state)}


def one_update():
    weight = torch.nn.Parameter(torch.randn(SHAPE))
    optimizer = bitsandbytes.optim.AdamW8bit([weight], lr=RATE, weight_decay=DECAY)
    scales = 10 ** (-2 * torch.rand(SHAPE))
    out = {}
    for step in range(3):
        weight.grad = torch.randn(SHAPE) * scales
        if step == 2:
            state = optimizer.state[weight]
            out |= {"w": weight.detach().clone(), "g": weight.grad.clone()}
            out |= {f"{role}.codes": state[f"state{i}"].clone() for i, role in ((1, "m"), (2, "v"))}
            out |= {f"{role}.scales": state[f"absmax{i}"].clone() for i, role in ((1, "m"), (2, "v"))}
        optimizer.step()
    out |= {"after.w": weight.detach().clone()}
    out |= {f"after.{role}.codes": state[f"state{i}"].clone() for i, role in ((1, "m"), (2, "v"))}
    return out | {f"after.{role}.scales": state[f"absmax{i}"].clone() for i, role in ((1, "m"), (2, "v"))}


def main():
    torch.manual_seed(SEED)
    x = torch.randn(4 * BLOCK + 77) * 10 ** (-7 * torch.rand(4 * BLOCK + 77))
    out = {f"signed/{key}": value for key, value in codes_of(x, True).items()}
    out |= {f"unsigned/{key}": value for key, value in codes_of(x.abs(), False).items()}
    out |= {f"update/{key}": value for key, value in one_update().items()}
    note = f"bitsandbytes {bitsandbytes.__version__}, torch {torch.__version__}, seed {SEED}"
    save_file({name: value.contiguous() for name, value in out.items()}, sys.argv[1], {"tools/golden/state_codes.py": note})


main()
