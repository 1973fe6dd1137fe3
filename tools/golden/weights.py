#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/weights.safetensors: losses with weights of classes and rows, and focal losses, in float64 by PyTorch. For each case:
logits, labels, row weights, class weights, gamma, the loss and its gradient.

    python3 tools/golden/weights.py tests/golden/weights.safetensors
"""
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

SEED, ROWS, CLASSES = 31, 5, 4


def softmax_loss(z, y, rows, classes, gamma):
    if gamma == 0 and torch.all(rows == 1):
        return F.cross_entropy(z, y, weight=classes)  # PyTorch's own: the mean over the weights
    plain = F.cross_entropy(z, y, reduction="none")
    weights = rows * classes[y]
    return (weights * (1 - torch.exp(-plain)) ** gamma * plain).sum() / weights.sum()


def binary_loss(z, y, rows, gamma):
    plain = F.binary_cross_entropy_with_logits(z, y, reduction="none")
    p = torch.sigmoid(z)
    right = p * y + (1 - p) * (1 - y)  # as torchvision's sigmoid_focal_loss
    return (rows * (plain * (1 - right) ** gamma).mean(1)).sum() / rows.sum()


def squared_loss(z, y, rows):
    return (rows * ((z - y) ** 2).mean(1)).sum() / rows.sum()


def main():
    torch.manual_seed(SEED)
    one = torch.ones(ROWS, dtype=torch.float64)
    rows = torch.tensor([0.5, 2.0, 0.0, 1.0, 3.25], dtype=torch.float64)
    classes, same = torch.tensor([0.25, 3.0, 1.0, 1.5], dtype=torch.float64), torch.ones(CLASSES, dtype=torch.float64)
    labels = torch.tensor([1, 0, 2, 3, 1])
    several = torch.tensor([[1, 0, 1, 1], [0, 0, 0, 0], [0, 1, 0, 0], [1, 1, 1, 1], [0, 0, 1, 0]], dtype=torch.float64)
    numbers = torch.randn(ROWS, CLASSES, dtype=torch.float64)
    cases = [("classification_classes", labels, one, classes, 0.0), ("classification_rows", labels, rows, same, 0.0),
             ("classification_both", labels, rows, classes, 0.0), ("classification_focal", labels, rows, classes, 2.0),
             ("classification_focal_half", labels, one, same, 0.5), ("multi_label_rows", several, rows, same, 0.0),
             ("multi_label_focal", several, rows, same, 2.0), ("regression_rows", numbers, rows, same, 0.0)]
    out = {}
    for name, y, row, of_class, gamma in cases:
        z = (torch.randn(ROWS, CLASSES, dtype=torch.float64) * 2).requires_grad_()
        if name.startswith("classification"):
            loss = softmax_loss(z, y, row, of_class, gamma)
        else:
            loss = binary_loss(z, y, row, gamma) if name.startswith("multi") else squared_loss(z, y, row)
        loss.backward()
        out |= {f"{name}/{key}": value.detach().to(torch.float64).clone() for key, value in
                dict(logits=z, labels=y, rows=row, classes=of_class, gamma=torch.tensor([gamma]), loss=loss, grad=z.grad).items()}
    save_file(out, sys.argv[1], {"tools/golden/weights.py": f"torch {torch.__version__}, float64, seed {SEED}"})


main()
