#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/images.safetensors: small random VGG and residual networks of PyTorch in float64. For each: logits,
loss, every gradient, running statistics after one training pass, and the logits of evaluation with those. Also writes
tests/golden/torchvision_names.txt: names and shapes in torchvision's resnet50 and vgg16.

    python3 tools/golden/images.py tests/golden/images.safetensors tests/golden/torchvision_names.txt
"""
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

SEED = 5
BATCH, LABELS = 3, 4
# Fields are those of Snug's config.json.
VGG = dict(depths=[1, 2], widths=[3, 5], hidden_size=6, image_size=9)
RESNETS = {
    "basic": dict(depths=[1, 2], widths=[4, 6], bottleneck=False, pre=False, stem="imagenet", shortcut="projection",
                  image_size=17),
    "bottleneck": dict(depths=[2, 1], widths=[2, 3], bottleneck=True, pre=False, stem="imagenet", shortcut="projection",
                       image_size=16),
    "padded": dict(depths=[1, 2], widths=[3, 5], bottleneck=False, pre=False, stem="cifar", shortcut="padding",
                   image_size=7),
    "preactivation": dict(depths=[2, 1], widths=[2, 3], bottleneck=True, pre=True, stem="cifar", shortcut="projection",
                          image_size=6),
    "preactivation_stem": dict(depths=[1, 1], widths=[2, 3], bottleneck=False, pre=True, stem="imagenet",
                               shortcut="projection", image_size=12),
}


def conv(inputs, outputs, kernel, stride=1):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class Padding(nn.Module):
    """The shortcut without parameters of He et al. 2015: every second pixel, zeros for new channels."""

    def __init__(self, missing, stride):
        super().__init__()
        self.missing, self.stride = missing, stride

    def forward(self, x):
        before = self.missing // 2
        return F.pad(x[:, :, ::self.stride, ::self.stride], (0, 0, 0, 0, before, self.missing - before))


class Block(nn.Module):
    def __init__(self, inputs, width, stride, c):
        super().__init__()
        self.pre = c["pre"]
        outputs = width * 4 if c["bottleneck"] else width
        shapes = ([(inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1)] if c["bottleneck"] else
                  [(inputs, width, 3, stride), (width, outputs, 3, 1)])
        for i, shape in enumerate(shapes, 1):
            setattr(self, f"conv{i}", conv(*shape))
            setattr(self, f"bn{i}", nn.BatchNorm2d(shape[0] if self.pre else shape[1]))
        self.count = len(shapes)
        self.downsample = None
        if inputs != outputs or stride != 1:
            if c["shortcut"] == "padding":
                self.downsample = Padding(outputs - inputs, stride)
            else:
                norm = [] if self.pre else [nn.BatchNorm2d(outputs)]
                self.downsample = nn.Sequential(conv(inputs, outputs, 1, stride), *norm)

    def forward(self, x):
        y, short = x, x
        for i in range(1, self.count + 1):
            convolve, norm = getattr(self, f"conv{i}"), getattr(self, f"bn{i}")
            if self.pre:
                y = F.relu(norm(y))
                if i == 1 and self.downsample is not None:
                    short = self.downsample(y)
                y = convolve(y)
            else:
                y = norm(convolve(y))
                y = F.relu(y) if i < self.count else y
        if self.pre:
            return y + short
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, c, labels):
        super().__init__()
        self.c = c
        channels = c["widths"][0]
        self.conv1 = nn.Conv2d(3, channels, 7, 2, 3, bias=False) if c["stem"] == "imagenet" else conv(3, channels, 3)
        if c["stem"] == "imagenet" or not c["pre"]:
            self.bn1 = nn.BatchNorm2d(channels)
        for stage, (depth, width) in enumerate(zip(c["depths"], c["widths"])):
            blocks = []
            for i in range(depth):
                blocks.append(Block(channels, width, 2 if stage > 0 and i == 0 else 1, c))
                channels = width * 4 if c["bottleneck"] else width
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        if c["pre"]:
            self.norm = nn.BatchNorm2d(channels)
        self.fc = nn.Linear(channels, labels)

    def forward(self, x):
        x = self.conv1(x)
        if hasattr(self, "bn1"):
            x = F.relu(self.bn1(x))
        if self.c["stem"] == "imagenet":
            x = F.max_pool2d(x, 3, 2, 1)
        for stage in range(len(self.c["depths"])):
            x = getattr(self, f"layer{stage + 1}")(x)
        if self.c["pre"]:
            x = F.relu(self.norm(x))
        return self.fc(x.mean((2, 3)))


class Vgg(nn.Module):
    def __init__(self, c, labels):
        super().__init__()
        layers, channels = [], 3
        for depth, width in zip(c["depths"], c["widths"]):
            for _ in range(depth):
                layers += [nn.Conv2d(channels, width, 3, 1, 1), nn.ReLU()]
                channels = width
            layers.append(nn.MaxPool2d(2, 2))
        self.features = nn.Sequential(*layers)
        side, hidden = c["image_size"] >> len(c["depths"]), c["hidden_size"]
        self.classifier = nn.Sequential(nn.Linear(channels * side * side, hidden), nn.ReLU(), nn.Dropout(0),
                                        nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(0), nn.Linear(hidden, labels))

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


def state_of(model):
    return {name: x.detach().clone() for name, x in model.state_dict().items() if not name.endswith("num_batches_tracked")}


def randomize(model):
    """Norms, biases and running statistics too, so that each has its own effect."""
    with torch.no_grad():
        for name, x in model.state_dict().items():
            if name.endswith("running_var"):
                x.copy_(torch.rand_like(x) + 0.5)
            elif not name.endswith("num_batches_tracked"):
                x.copy_(torch.randn_like(x) * 0.3 + (1.0 if x.dim() == 1 and name.endswith("weight") else 0.0))


def run(name, model, side, out):
    model = model.to(torch.float64).train()
    randomize(model)
    pixels = torch.randn(BATCH, 3, side, side, dtype=torch.float64)
    labels = torch.randint(0, LABELS, (BATCH,))
    row_weights = torch.tensor([1.0, 0.5, 2.0], dtype=torch.float64)
    out[f"{name}/pixel_values"] = pixels.permute(0, 2, 3, 1)
    out[f"{name}/labels"], out[f"{name}/row_weights"] = labels.to(torch.float64), row_weights
    out |= {f"{name}/before/{key}": x for key, x in state_of(model).items()}
    logits = model(pixels)
    loss = (F.cross_entropy(logits, labels, reduction="none") * row_weights).sum() / row_weights.sum()
    loss.backward()
    out[f"{name}/logits"], out[f"{name}/loss"] = logits.detach(), loss.detach()
    out |= {f"{name}/grad/{key}": p.grad for key, p in model.named_parameters()}
    out |= {f"{name}/after/{key}": x for key, x in state_of(model).items() if "running" in key}
    with torch.no_grad():
        out[f"{name}/eval_logits"] = model.eval()(pixels)


def check_against_torchvision(torchvision):
    """The modules above are torchvision's where both exist."""
    config = dict(depths=[3, 4, 6, 3], widths=[64, 128, 256, 512], bottleneck=True, pre=False, stem="imagenet",
                  shortcut="projection", image_size=224)
    theirs = torchvision.models.resnet50().to(torch.float64).eval()
    ours = ResNet(config, 1000).to(torch.float64).eval()
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(1, 3, 64, 64, dtype=torch.float64)
    assert torch.allclose(ours(x), theirs(x), rtol=1e-9)
    return theirs


def main():
    import torchvision  # here alone: image_updates.py needs the modules above and not this package
    torch.manual_seed(SEED)
    out = {}
    run("vgg", Vgg(VGG, LABELS), VGG["image_size"], out)
    for name, config in RESNETS.items():
        run(name, ResNet(config, LABELS), config["image_size"], out)
    note = f"torch {torch.__version__}, torchvision {torchvision.__version__}, float64, seed {SEED}"
    save_file({name: x.contiguous() for name, x in out.items()}, sys.argv[1], {"tools/golden/images.py": note})
    with open(sys.argv[2], "w") as names:
        for title, model in (("resnet-50", check_against_torchvision(torchvision)), ("vgg-16", torchvision.models.vgg16())):
            for name, x in state_of(model).items():
                names.write(f"{title} {name} {'x'.join(map(str, x.shape))}\n")


if __name__ == "__main__":
    main()
