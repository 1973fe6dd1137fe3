"""What the tests of this folder share: models whose gradients are computed again and again, and how sets of them are compared."""
import copy
import functools
import gc
import os
import unittest

import torch
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import models
import snug.torch

WHOLE_MATRIX = bool(os.environ.get("SNUG_WHOLE_MATRIX"))  # what ./test.sh --all runs beyond --torch
whole_matrix = unittest.skipUnless(WHOLE_MATRIX, "with SNUG_WHOLE_MATRIX=1")
# On the CPU unless a GPU is there.
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def made(name):
    torch.manual_seed(0)
    model, batch = models.MODELS[name]()
    model.train().to(DEVICE)
    return model, {key: value.to(DEVICE) for key, value in batch.items()}


def loss_of(result):
    return result if isinstance(result, torch.Tensor) else result[0]


class Case:
    """A model whose gradients are computed again and again from the same state and seed."""

    def __init__(self, name):
        self.model, self.batch = made(name)
        self.trained = [each for each in self.model.parameters() if each.requires_grad]
        self.state = {key: value.clone() for key, value in self.model.state_dict().items()}
        self.optimizer = torch.optim.AdamW(self.trained)

    def compiled(self, backend):
        torch._dynamo.reset()
        return torch.compile(self.model, backend=backend, dynamic=False)

    def traced(self):
        """Whose backend may be changed: Dynamo traces the model once for all."""
        torch._dynamo.reset()
        return Traced(self.model)

    def gradients(self, run, times=1):
        self.model.load_state_dict(self.state)
        self.optimizer.zero_grad(set_to_none=True)
        torch.manual_seed(1)
        for _ in range(times):
            result = run(**self.batch)  # held: results are counted
            loss = loss_of(result)
            loss.backward()
        buffers = [each.clone() for each in self.model.buffers()]
        return [loss.detach().clone(), *buffers, *(each.grad.clone() for each in self.trained if each.grad is not None)]

    def backend(self, memory, **more):
        return snug.torch.backend(memory=memory, optimizer=self.optimizer, **{"count": "storages", **more})


class Traced:
    """A compiled model that runs by one backend after the other, each as if it had been given to torch.compile."""

    def __init__(self, model):
        self.graph = None
        self.run = torch.compile(model, backend=self.keep, dynamic=False)

    def keep(self, module, inputs):
        assert self.graph is None  # one graph, and one set of shapes
        self.graph = module
        return lambda *args: self.ready(args)

    def ready(self, args):
        if self.compiled is None:
            own = torch.fx.GraphModule(self.graph, copy.deepcopy(self.graph.graph))
            self.compiled = self.backend(own, list(args))
        return self.compiled(*args)

    def by(self, backend):
        self.backend, self.compiled = torch._dynamo.lookup_backend(backend), None
        return self.run


def equal(a, b):
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b))


def length(tensors):
    """Of all numbers, in float64."""
    return sum(float(each.double().square().sum()) for each in tensors) ** 0.5


def distance(some, others):
    return length(a.double() - b.double() for a, b in zip(some, others))


class Marked(nn.Module):
    """Four layers, checkpointed in two parts."""

    def __init__(self, policy, rate):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))
        self.policy, self.rate = policy, rate

    def part(self, x, first):
        for layer in self.layers[first:first + 2]:
            x = torch.tanh(layer(x)).view(128, 4, 64).sin().view(512, 64)
            x = nn.functional.dropout(x, self.rate) if self.rate else x
        return x

    def forward(self, x):
        for first in (0, 2):
            x = checkpoint(self.part, x, first, use_reentrant=False, context_fn=functools.partial(create_selective_checkpoint_contexts, self.policy))
        return x.square().mean()


def marked_model(marks, rate=0):
    """With its input. `marks`: policies by op; the others are preferred to be computed again."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    model = Marked(lambda _, op, *__, **___: marks.get(op, CheckpointPolicy.PREFER_RECOMPUTE), rate)
    return model.to(DEVICE), torch.randn(512, 64, device=DEVICE)


def gradients_of(model, backend, x):
    torch._dynamo.reset()
    model.zero_grad(set_to_none=True)
    torch.manual_seed(1)
    torch.compile(model, backend=backend)(x).backward()
    return [each.grad.clone() for each in model.parameters()]


def taken_by(step, there):
    """Bytes in memory at most in a step behind three others: of these tensors with their gradients, and what comes beside them."""
    for _ in range(3):
        step()
    gc.collect()  # of steps before
    with snug.torch.measure() as measured:
        step()
    return sum(each.nbytes + each.nbytes * each.requires_grad for each in there) + measured.peak_bytes - measured.start_bytes


def deep(layers=6, rows=16):
    """A BERT of so many layers, and a batch."""
    from transformers import BertConfig, BertForSequenceClassification
    torch.manual_seed(0)
    model, batch = models.classified(BertForSequenceClassification(BertConfig(hidden_size=128, intermediate_size=512, num_hidden_layers=layers,
                                                                              num_attention_heads=4, vocab_size=512)), rows, 64)
    return model.train().to(DEVICE), {key: value.to(DEVICE) for key, value in batch.items()}


class OfFunction(nn.Module):
    """Of a function, which gets a linear layer and the input."""

    def __init__(self, function, width=16):
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.function = function

    def forward(self, x):
        return self.function(self.layer, x)


def of_function(function):
    """Such a model, and its input."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    return OfFunction(function).to(DEVICE), torch.randn(32, 16, device=DEVICE)
