#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/schedules.txt: factors of the learning rate from transformers' get_scheduler, one schedule a line:
name.total.warmup, number of factors, the factor of each update.

    python3 tools/golden/schedules.py tests/golden/schedules.txt
"""
import sys

import torch
import transformers

CASES = [("linear", 10, 0), ("linear", 10, 3), ("linear", 7, 7), ("linear", 1, 0), ("linear", 1, 1), ("linear", 5, 8),
         ("cosine", 10, 0), ("cosine", 11, 4), ("cosine", 3, 3), ("constant", 6, 0), ("constant_with_warmup", 6, 4)]


def factors(name, total, warmup):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = transformers.get_scheduler(name, optimizer, num_warmup_steps=warmup, num_training_steps=total)
    values = []
    for _ in range(total):
        values.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return values


def main():
    lines = [f"# tools/golden/schedules.py, transformers {transformers.__version__}"]
    for name, total, warmup in CASES:
        values = " ".join(repr(x) for x in factors(name, total, warmup))
        lines.append(f"{name.removesuffix('_with_warmup')}.{total}.{warmup} {total} {values}")
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


main()
