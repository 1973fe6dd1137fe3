#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/resnet_folder: a small random ResNetForImageClassification as transformers saves it, with images of
CIFAR's form (images.bin) and the probabilities of transformers for them (probabilities.json).

    python3 tools/golden/resnet_folder.py tests/golden/resnet_folder
"""
import json
import pathlib
import sys

import torch
import transformers

SEED, SIDE, IMAGES = 7, 32, 4
MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.manual_seed(SEED)
    names = [f"class {i}" for i in range(10)]
    config = transformers.ResNetConfig(embedding_size=4, hidden_sizes=[16, 24], depths=[1, 2], layer_type="bottleneck",
                                       id2label=dict(enumerate(names)), label2id={n: i for i, n in enumerate(names)})
    model = transformers.ResNetForImageClassification(config).eval()
    with torch.no_grad():
        for name, x in model.state_dict().items():
            if name.endswith("running_var"):
                x.copy_(torch.rand_like(x) + 0.5)
            elif not name.endswith("num_batches_tracked"):
                x.copy_(torch.randn_like(x) * 0.3 + (1.0 if "normalization.weight" in name else 0.0))
    model.save_pretrained(folder, safe_serialization=True)

    pixels = torch.randint(0, 256, (IMAGES, 3, SIDE, SIDE), dtype=torch.uint8)
    labels = [3, 0, 9, 5]
    records = b"".join(bytes([label]) + bytes(image.flatten().tolist()) for label, image in zip(labels, pixels))
    (folder / "images.bin").write_bytes(records)
    shape = (1, 3, 1, 1)
    x = (pixels.double() / 255 - torch.tensor(MEAN).double().view(shape)) / torch.tensor(DEVIATION).double().view(shape)
    with torch.no_grad():
        probabilities = model.double()(x).logits.softmax(-1)
    note = f"torch {torch.__version__}, transformers {transformers.__version__}, float64, seed {SEED}"
    (folder / "probabilities.json").write_text(json.dumps({"note": note, "probabilities": probabilities.tolist()}) + "\n")


main()
