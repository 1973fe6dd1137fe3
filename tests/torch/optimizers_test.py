"""Optimizers that are like few others: what they have and take is counted before they step, and they train as they do without us.

    python tests/torch/optimizers_test.py     in an environment as for exact_test.py
"""
import threading
import unittest
import warnings

import accelerate
import torch
from torch import nn

import snug
import snug.torch
from cases import DEVICE, equal, of_function, taken_by

warnings.filterwarnings("ignore")


class Listed(torch.optim.Optimizer):
    """Momentum, in a list of its own."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1})
        self.momenta = []

    @torch.no_grad()
    def step(self, closure=None):
        parameters = [each for group in self.param_groups for each in group["params"]]
        if not self.momenta:
            self.momenta.extend(torch.zeros_like(each) for each in parameters)
        for each, momentum in zip(parameters, self.momenta):
            each.sub_(momentum.mul_(0.9).add_(each.grad), alpha=self.param_groups[0]["lr"])


class Around(torch.optim.Optimizer):
    """Another optimizer's steps, with attributes as Lookahead and ZeroRedundancyOptimizer have, among them what cannot be copied."""

    def __init__(self, inner):
        self.inner = inner
        super().__init__(inner.param_groups, {})
        self.param_groups, self.lock = inner.param_groups, threading.Lock()

    def step(self, closure=None):
        with self.lock:
            return self.inner.step(closure)


class Delegating(torch.optim.Optimizer):
    """As accelerate has it: what is assigned to goes to the one within."""

    def __init__(self, inner):
        self.inner = inner

    param_groups = property(lambda self: self.inner.param_groups, lambda self, groups: setattr(self.inner, "param_groups", groups))
    state = property(lambda self: self.inner.state, lambda self, state: setattr(self.inner, "state", state))

    def step(self, closure=None):
        return self.inner.step(closure)

    def zero_grad(self):
        self.inner.zero_grad()


class Enclosed(torch.optim.SGD):
    """Momentum, where only a function of its own reaches it."""

    def __init__(self, parameters):
        super().__init__(parameters, lr=0.1)
        momenta = []

        def update(parameters):
            if not momenta:
                momenta.extend(torch.zeros_like(each) for each in parameters)
            for each, momentum in zip(parameters, momenta):
                each.sub_(momentum.mul_(0.9).add_(each.grad))

        self.update = update

    @torch.no_grad()
    def step(self, closure=None):
        self.update([each for group in self.param_groups for each in group["params"]])


def scheduled(parameters):
    """The scheduler puts a step of its own into the optimizer."""
    optimizer = torch.optim.AdamW(parameters, lr=0.01)
    torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)
    return optimizer


def prepared(parameters):
    return accelerate.Accelerator(cpu=DEVICE == "cpu").prepare(scheduled(parameters))


class Optimizers(unittest.TestCase):
    def test_optimizers_that_have_tensors_and_optimizers_of_their_own(self):
        """They train as without a plan, and what they keep is counted, wherever it is."""
        def train(kind, backend_of):
            model, x = of_function(lambda layer, x: layer(x).tanh().square().mean())
            optimizer = kind(model.parameters())
            backend = backend_of(optimizer)
            run = torch.compile(model, backend=backend)
            for rows in (32, 32, 16):  # planned again where states are there
                run(x[:rows]).backward()
                optimizer.step()
                optimizer.zero_grad()
            return list(model.parameters()), backend

        def planned(optimizer):
            return snug.torch.backend("1MiB", optimizer=optimizer)

        of_layer = 4 * (16 * 16 + 16)
        numbers = 8 if DEVICE == "cpu" else 0  # of steps, which lie on the CPU
        for kind, states in ((Listed, of_layer), (lambda of: Around(torch.optim.Adam(of)), 2 * of_layer + numbers), (lambda of: Delegating(torch.optim.Adam(of)), 2 * of_layer + numbers),
                             (lambda of: Around(scheduled(of)), 2 * of_layer + numbers), (prepared, 2 * of_layer + numbers)):
            found, backend = train(kind, planned)
            self.assertTrue(equal(train(kind, lambda _: "aot_eager")[0], found))
            self.assertEqual([each.resident.states for each in backend.plans], [states, states])

    def test_micro_batches_of_accelerate(self):
        """Its optimizer steps with the last one alone, and plans are made at the first."""
        model, x = of_function(lambda layer, x: layer(x).square().mean())
        accelerator = accelerate.Accelerator(cpu=DEVICE == "cpu", gradient_accumulation_steps=2)
        optimizer = accelerator.prepare(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
        backend = snug.torch.backend("1MiB", optimizer=optimizer)
        with accelerator.accumulate(model):
            torch.compile(model, backend=backend)(x).backward()
        self.assertEqual(backend.plans[0].resident.states, 4 * (16 * 16 + 16))

    def test_optimizers_that_cannot_be_counted(self):
        """Refused, and as before."""
        model, x = of_function(lambda layer, x: layer(x).square().mean())
        for kind, text in ((Enclosed, "Enclosed cannot be counted.*closures(?s:.*)hint: give resident_bytes="), (torch.optim.LBFGS, "LBFGS cannot be counted.*closure(?s:.*)hint: give resident_bytes=")):
            optimizer = kind(model.parameters())
            with self.assertRaisesRegex(snug.Error, text):
                snug.torch.plan(model, x, optimizer=optimizer)
            self.assertEqual([*map(id, model.parameters())], [id(each) for group in optimizer.param_groups for each in group["params"]])
        optimizer, before = Enclosed(model.parameters()), model.layer.weight.detach().clone()
        with self.assertRaises(snug.Error):
            snug.torch.plan(model, x, optimizer=optimizer)
        model(x).backward()
        optimizer.step()
        torch.testing.assert_close(model.layer.weight.detach(), before - model.layer.weight.grad)

    def test_layers_beside_what_is_there_already(self):
        """Checkpointing by layer counts what an optimizer keeps once, before it has stepped as behind that."""
        for kind in (Listed, lambda of: Around(torch.optim.Adam(of)), prepared):
            torch.manual_seed(0)
            model = nn.Sequential(*[nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(3)]).to(DEVICE)
            optimizer, x = kind(model.parameters()), torch.randn(8, 16, device=DEVICE)
            plans = []
            for _ in range(2):
                plans.append(snug.torch.checkpoint(model, x, memory="1MiB", optimizer=optimizer, loss=lambda result: result.square().mean()))
                model(x).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
            self.assertEqual(plans[0].measured_bytes, plans[1].measured_bytes)

    def test_gradients_of_what_is_frozen(self):
        """They stay where nobody lets go of them, and are counted then, also beside other graphs of the step."""
        for graphs in ("one", "several"):
            torch.manual_seed(0)
            torch._dynamo.reset()
            layers, x = nn.ModuleList(nn.Linear(64, 64) for _ in range(4)).to(DEVICE), torch.randn(8, 64, device=DEVICE)
            backend = snug.torch.backend("1GiB", optimizer=torch.optim.SGD(layers[1:].parameters(), 0.1), graphs=graphs)

            def whole(x):
                y = layers[1](layers[0](x).sin()).tanh()
                if graphs == "several":
                    torch._dynamo.graph_break()
                return layers[3](layers[2](y).tanh()).square().mean()

            def step():
                run(x).backward()
                layers.zero_grad(set_to_none=False)

            run = torch.compile(whole, backend=backend)
            step()
            for each in layers[0].parameters():
                each.requires_grad_(False)
            step()
            step()
            there = sum(2 * each.nbytes for each in layers.parameters()) + x.nbytes  # weights, gradients and the input
            with_y = there + x.nbytes  # an input of the second graph
            taken = taken_by(step, [x]) + there - x.nbytes
            plans = backend.plans[-1:] if graphs == "one" else backend.plans[-2:]
            self.assertLessEqual(taken, max(each.peak_bytes for each in plans))
            counted = sorted(each.resident.total + each.allowance.inputs_of_others for each in plans)
            self.assertEqual(counted, [there, with_y] if graphs == "several" else [there])


if __name__ == "__main__":
    unittest.main()
