#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/image_updates.safetensors: the networks of tests/golden/images.safetensors (images.py), from their weights and
batch there, after ten updates with SGD and momentum in float64: losses, norms of the gradients, weights and running statistics.

    python3 tools/golden/image_updates.py tests/golden/images.safetensors tests/golden/image_updates.safetensors
"""
import sys

import torch
from safetensors.torch import load_file, save_file

from images import LABELS, RESNETS, VGG, ResNet, Vgg, state_of
from updates import groups, loss_of, run_updates

RATE, MOMENTUM, DECAY = 0.05, 0.9, 0.01


def main():
    golden = load_file(sys.argv[1])
    out = {}
    models = {"vgg": Vgg(VGG, LABELS)} | {name: ResNet(config, LABELS) for name, config in RESNETS.items()}
    for name, model in models.items():
        model = model.to(torch.float64).train()
        before = {key.split("/before/")[1]: x for key, x in golden.items() if key.startswith(f"{name}/before/")}
        model.load_state_dict(before, strict=False)
        assert state_of(model).keys() == before.keys()
        pixels = golden[f"{name}/pixel_values"].permute(0, 3, 1, 2)
        labels, row_weights = golden[f"{name}/labels"].long(), golden[f"{name}/row_weights"]
        optimizer = torch.optim.SGD(groups(model, DECAY), lr=RATE, momentum=MOMENTUM)
        run_updates(name, model, optimizer, lambda: loss_of(model(pixels), labels, row_weights), state_of, out)
    note = f"torch {torch.__version__}, float64"
    save_file({name: x.contiguous() for name, x in out.items()}, sys.argv[2], {"tools/golden/image_updates.py": note})


main()
