#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/schedules.txt: factors of the learning rate from transformers' get_scheduler, one schedule a line:
name.total.warmup (and arguments), number of factors, the factor of each update. The rate is 1 where `lr` says no other.

    python3 tools/golden/schedules.py tests/golden/schedules.txt
"""
import sys

import torch
import transformers

CASES = [("linear", 10, 0), ("linear", 10, 3), ("linear", 7, 7), ("linear", 1, 0), ("linear", 1, 1), ("linear", 5, 8),
         ("cosine", 10, 0), ("cosine", 11, 4), ("cosine", 3, 3), ("constant", 6, 0), ("constant_with_warmup", 6, 4),
         ("inverse_sqrt", 8, 0), ("inverse_sqrt", 8, 3), ("inverse_sqrt", 8, 2, {"timescale": 5}),
         ("cosine", 9, 2, {"num_cycles": 1.25}),
         ("cosine_with_restarts", 9, 2), ("cosine_with_restarts", 11, 1, {"num_cycles": 3}),
         ("polynomial", 9, 0), ("polynomial", 9, 3, {"power": 2.0, "lr_end": 0.125}),
         ("polynomial", 7, 2, {"lr": 5e-05, "power": 0.5}), ("polynomial", 5, 8),
         ("cosine_with_min_lr", 9, 2, {"lr": 0.5, "min_lr": 0.125}), ("cosine_with_min_lr", 9, 0, {"min_lr_rate": 0.1, "num_cycles": 1.5}),
         ("cosine_warmup_with_min_lr", 9, 3, {"min_lr_rate": 0.1}), ("cosine_warmup_with_min_lr", 8, 3, {"lr": 0.5, "min_lr": 0.25, "warmup_lr_rate": 0.2}),
         ("warmup_stable_decay", 10, 2, {"num_decay_steps": 4}),
         ("warmup_stable_decay", 12, 3, {"num_decay_steps": 5, "num_stable_steps": 2, "min_lr_ratio": 0.1, "num_cycles": 1.25}),
         ("warmup_stable_decay", 6, 2, {"num_decay_steps": 7})]


def factors(name, total, warmup, arguments):
    arguments = dict(arguments)
    rate = arguments.pop("lr", 1.0)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=rate)
    schedule = transformers.get_scheduler(name, optimizer, num_warmup_steps=warmup, num_training_steps=total,
                                          scheduler_specific_kwargs=arguments)
    values = []
    for _ in range(total):
        values.append(optimizer.param_groups[0]["lr"] / rate)
        optimizer.step()
        schedule.step()
    return values


def main():
    lines = [f"# tools/golden/schedules.py, transformers {transformers.__version__}"]
    for name, total, warmup, *more in CASES:
        arguments = more[0] if more else {}
        values = " ".join(repr(x) for x in factors(name, total, warmup, arguments))
        given = "".join(f",{key}={value}" for key, value in arguments.items())
        lines.append(f"{name.removesuffix('_with_warmup')}.{total}.{warmup}{given} {total} {values}")
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


main()
