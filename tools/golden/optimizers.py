#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/optimizers.safetensors: three weights after the updates 1, 2 and 20 of every optimizer, in float64, from random
gradients with a linear schedule to zero. A case is named OPTIMIZER/HYPER=VALUE,...: weight_decay (only of matrices), learning_rate and
clip (the global norm) are the run's, group_learning_rate and group_weight_decay those of
conv.weight, the others the optimizer's own. References: torch.optim; transformers'
Adafactor; for LAMB, LARS and Lion their papers' formulas.

    python3 tools/golden/optimizers.py tests/golden/optimizers.safetensors
"""
import sys

import torch
from safetensors.torch import save_file
from transformers.optimization import Adafactor

STEPS, KEPT, SEED = 20, (1, 2, 20), 20240607
SHAPES = {"dense.weight": (5, 7), "conv.weight": (3, 2, 3, 3), "dense.bias": (5,)}


class Formula(torch.optim.Optimizer):
    """`step(w, g, state, group)` returns the new weight; `state` is a dict that is empty at first."""

    def __init__(self, groups, step):
        super().__init__(groups, dict(lr=1))
        self.formula = step

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for w in group["params"]:
                state = self.state[w]
                state["t"] = state.get("t", 0) + 1
                w.copy_(self.formula(w, w.grad, state, group))


def is_adapted(w):
    return w.dim() > 1


def lamb(o):
    beta1, beta2, epsilon = o.get("beta1", 0.9), o.get("beta2", 0.999), o.get("epsilon", 1e-6)

    def step(w, g, state, group):
        m = state["m"] = beta1 * state.get("m", 0) + (1 - beta1) * g
        v = state["v"] = beta2 * state.get("v", 0) + (1 - beta2) * g**2
        r = m / (1 - beta1 ** state["t"]) / ((v / (1 - beta2 ** state["t"])).sqrt() + epsilon)
        u = r + group["weight_decay"] * w
        return w - group["lr"] * (w.norm() / u.norm() if is_adapted(w) else 1) * u
    return step


def lars(o):
    momentum, trust, epsilon = o.get("momentum", 0.9), o.get("trust_coefficient", 0.001), o.get("epsilon", 1e-8)

    def step(w, g, state, group):
        decay = group["weight_decay"]
        local = trust * w.norm() / (g.norm() + decay * w.norm() + epsilon) if is_adapted(w) else 1
        d = local * (g + decay * w)
        buffer = state["buffer"] = momentum * state.get("buffer", 0) + d
        return w - group["lr"] * (d + momentum * buffer if o.get("nesterov") else buffer)
    return step


def lion(o):
    beta1, beta2 = o.get("beta1", 0.9), o.get("beta2", 0.99)

    def step(w, g, state, group):
        m = state.get("m", torch.zeros_like(w))
        state["m"] = beta2 * m + (1 - beta2) * g
        return w - group["lr"] * ((beta1 * m + (1 - beta1) * g).sign() + group["weight_decay"] * w)
    return step


OPTIMIZERS = {
    "sgd": lambda p, o: torch.optim.SGD(p, momentum=o.get("momentum", 0), nesterov=bool(o.get("nesterov", 0)), lr=1),
    "adamw": lambda p, o: torch.optim.AdamW(p, betas=(o.get("beta1", 0.9), o.get("beta2", 0.999)), eps=o.get("epsilon", 1e-8), lr=1),
    "adam": lambda p, o: torch.optim.Adam(p, betas=(o.get("beta1", 0.9), o.get("beta2", 0.999)), eps=o.get("epsilon", 1e-8), lr=1),
    "rmsprop": lambda p, o: torch.optim.RMSprop(p, alpha=o.get("alpha", 0.99), eps=o.get("epsilon", 1e-8), momentum=o.get("momentum", 0), lr=1),
    "adagrad": lambda p, o: torch.optim.Adagrad(p, lr_decay=o.get("lr_decay", 0), eps=o.get("epsilon", 1e-10), lr=1),
    "lamb": lambda p, o: Formula(p, lamb(o)),
    "lars": lambda p, o: Formula(p, lars(o)),
    "adafactor": lambda p, o: Adafactor(p, eps=(o.get("epsilon", 1e-30), 0), clip_threshold=o.get("clip_threshold", 1),
                                        decay_rate=-o.get("decay_rate", 0.8), scale_parameter=False, relative_step=False, lr=1),
    "lion": lambda p, o: Formula(p, lion(o)),
}
CASES = [
    ("sgd", "learning_rate=0.1,weight_decay=0.01"),
    ("sgd", "learning_rate=0.1,weight_decay=0.01,clip=2"),
    ("sgd", "learning_rate=0.1,weight_decay=0.01,momentum=0.9"),
    ("sgd", "learning_rate=0.1,weight_decay=0.01,momentum=0.9,nesterov=1,clip=2"),
    ("adamw", "learning_rate=0.01"),
    ("adamw", "learning_rate=0.01,weight_decay=0.1,beta1=0.8,beta2=0.98,epsilon=1e-06,clip=2"),
    ("adam", "learning_rate=0.01"),
    ("adam", "learning_rate=0.01,weight_decay=0.1,beta1=0.8,beta2=0.98,epsilon=1e-06,clip=2"),
    ("rmsprop", "learning_rate=0.01"),
    ("rmsprop", "learning_rate=0.01,weight_decay=0.1,alpha=0.9,epsilon=1e-06,clip=2"),
    ("rmsprop", "learning_rate=0.01,weight_decay=0.1,alpha=0.9,momentum=0.8,clip=2"),
    ("adagrad", "learning_rate=0.05"),
    ("adagrad", "learning_rate=0.05,weight_decay=0.1,lr_decay=0.1,epsilon=1e-06,clip=2"),
    ("lamb", "learning_rate=0.01"),
    ("lamb", "learning_rate=0.01,weight_decay=0.1,beta1=0.8,beta2=0.98,epsilon=1e-05,clip=2"),
    ("lars", "learning_rate=1"),
    ("lars", "learning_rate=1,weight_decay=0.1,momentum=0.8,nesterov=1,trust_coefficient=0.02,clip=2"),
    ("adafactor", "learning_rate=0.01"),
    ("adafactor", "learning_rate=0.01,weight_decay=0.1,clip_threshold=0.5,decay_rate=0.7,epsilon=1e-08,clip=2"),
    ("lion", "learning_rate=0.001"),
    ("lion", "learning_rate=0.001,weight_decay=0.1,beta1=0.8,beta2=0.98,clip=2"),
]
CASES += [(name, case + ",group_learning_rate=0.03,group_weight_decay=0.2") for name, case in CASES if "clip" in case]


def updates(name, options, weights, gradients):
    """The weights by name after every update."""
    decay = options.pop("weight_decay", 0)
    rate, clip = options.pop("learning_rate"), options.pop("clip", 0)
    weights = {key: torch.nn.Parameter(w.clone()) for key, w in weights.items()}
    own = {"conv.weight": (options.pop("group_learning_rate", rate), options.pop("group_weight_decay", decay))}
    rates = [own.get(key, (rate, 0))[0] for key in weights]
    groups = [dict(params=[w], weight_decay=own.get(key, (0, decay * (w.dim() > 1)))[1]) for key, w in weights.items()]
    optimizer = OPTIMIZERS[name](groups, options)
    for step in range(STEPS):
        for key, w in weights.items():
            w.grad = gradients[key][step].clone()
        if clip:
            torch.nn.utils.clip_grad_norm_(weights.values(), clip)
        for group, highest in zip(optimizer.param_groups, rates):
            group["lr"] = highest * (1 - step / STEPS)
        optimizer.step()
        yield {key: w.detach().clone() for key, w in weights.items()}


def main():
    torch.manual_seed(SEED)
    drawn = {key: torch.randn(STEPS + 1, *shape).double() for key, shape in SHAPES.items()}
    weights = {key: x[0] for key, x in drawn.items()}
    gradients = {key: x[1:] for key, x in drawn.items()}
    out = {f"weights/{key}": x for key, x in weights.items()} | {f"gradients/{key}": x for key, x in gradients.items()}
    for name, case in CASES:
        options = {key: float(value) for key, value in (word.split("=") for word in case.split(","))}
        after = list(updates(name, options, weights, gradients))
        for key in SHAPES:
            out[f"{name}/{case}/{key}"] = torch.stack([after[step - 1][key] for step in KEPT])
    note = f"torch {torch.__version__}, float64, seed {SEED}"
    save_file({name: x.contiguous() for name, x in out.items()}, sys.argv[1], {"tools/golden/optimizers.py": note})


main()
