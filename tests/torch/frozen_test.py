"""Graphs of a step that compute no gradient, such as a frozen encoder: they are planned beside the others.

    python tests/torch/frozen_test.py     in an environment as for exact_test.py
"""
import copy
import functools
import unittest
import warnings

import torch
from torch import nn

import snug
import snug.torch
from cases import DEVICE, taken_by
from snug.torch._backend import MOST_SHAPES

warnings.filterwarnings("ignore")
SETTINGS = ("one", "several")
WIDE, ROWS = 1024, 512


def mlp(*widths):
    layers = [layer for a, b in zip(widths, widths[1:]) for layer in (nn.Linear(a, b), nn.GELU())]
    return nn.Sequential(*layers[:-1]).to(DEVICE)


class Model(nn.Module):
    """A part that trains, if asked for, a frozen encoder, and a head, with graph breaks between them."""

    def __init__(self, begins_trained=False):
        super().__init__()
        torch.manual_seed(0)
        self.stem = mlp(64, 128, 64) if begins_trained else None
        self.encoder, self.head = mlp(64, WIDE, WIDE, 64).requires_grad_(False), mlp(64, 256, 64)

    def forward(self, x):
        h = x
        if self.stem is not None:
            h = self.stem(x)
            torch._dynamo.graph_break()
        features = self.encoder(h.detach())
        torch._dynamo.graph_break()
        return self.head(features + h).square().mean()

    def trained(self):
        return [each for each in self.parameters() if each.requires_grad]


def planned_by(model, memory, **words):
    """The model's losses, what its steps took at most, and the backend."""
    torch._dynamo.reset()
    x = torch.linspace(-1, 1, ROWS * 64, device=DEVICE).reshape(ROWS, 64)
    optimizer = torch.optim.SGD(model.trained(), lr=0.1)
    backend = snug.torch.backend(memory, optimizer=optimizer, **words)
    run = torch.compile(model, backend=backend, dynamic=False)

    def step():
        loss = run(x)
        loss.backward()
        optimizer.step()
        return loss.detach()

    losses = [step() for _ in range(3)]
    return losses, taken_by(step, (x, *model.parameters())), backend


class Frozen(unittest.TestCase):
    def test_an_encoder_is_planned(self):
        """Its weights lie beside what trains, and what it takes while it runs counts: measured is planned, a budget below that is refused, one of that many bytes is not."""
        needed = sum(each.nbytes for each in Model().encoder.parameters()) + 2 * ROWS * WIDE * 4
        for graphs in SETTINGS:
            for begins_trained in (False, True):
                words = dict(graphs=graphs, count="storages")
                losses, taken, backend = planned_by(Model(begins_trained), "1GiB", **words)
                largest = max(backend.plans, key=lambda plan: plan.peak_bytes)
                # What the trained stem hands on is there in any case; what hands it on may be counted with what reads it.
                self.assertTrue(0.97 * largest.peak_bytes <= taken <= largest.peak_bytes, (graphs, begins_trained, taken, largest))
                self.assertEqual(largest.measured_forward_bytes, largest.forward_peak_bytes)
                self.assertIsNone(largest.measured_backward_bytes)
                self.assertIn("no backward part", str(largest))
                with self.assertRaises(snug.DoesNotFit) as refused:
                    planned_by(Model(begins_trained), needed, **words)
                self.assertGreater(refused.exception.smallest_bytes, needed)
                again, taken_again, backend = planned_by(Model(begins_trained), largest.peak_bytes, **words)
                self.assertEqual(again, losses)
                self.assertLessEqual(taken_again, largest.peak_bytes)

    def test_weights_of_an_encoder_lie_beside_what_trains(self):
        for graphs in SETTINGS:
            model = Model()
            _, _, backend = planned_by(model, "1GiB", graphs=graphs)
            encoder = sum(each.nbytes for each in model.encoder.parameters())
            for plan in backend.plans:
                self.assertGreaterEqual(plan.resident.total + plan.inputs_of_others, encoder + sum(2 * each.nbytes for each in model.trained()))

    def test_features_of_a_data_set_before_anything_trains(self):
        """Any number of calls, of any number of shapes, with gradients on or off."""
        torch._dynamo.reset()
        model = Model()
        backend = snug.torch.backend("64MiB", optimizer=torch.optim.SGD(model.trained(), lr=0.1), graphs="several")
        encoder, head = (torch.compile(each, backend=backend, dynamic=False) for each in (model.encoder, model.head))
        with torch._dynamo.config.patch(recompile_limit=2 * MOST_SHAPES):
            for _ in range(2):
                features = [encoder(torch.randn(rows, 64, device=DEVICE)) for rows in range(16, 17 + MOST_SHAPES)]
            self.assertLessEqual(len(backend.order), MOST_SHAPES + 2)
            for _ in range(3):
                head(features[0]).square().mean().backward()
            with torch.no_grad():
                encoder(torch.randn(16, 64, device=DEVICE))
        self.assertEqual([plan.measured_backward_bytes is None for plan in backend.plans].count(False), 1)

    def test_features_that_are_held_count_at_the_next_call(self):
        torch._dynamo.reset()
        encoder = mlp(64, 256, 4096).requires_grad_(False)
        backend = snug.torch.backend("16MiB", resident_bytes=0)
        run = torch.compile(encoder, backend=backend, dynamic=False)
        held = []
        with self.assertRaisesRegex(snug.DoesNotFit, "whoever called them still has"):
            for _ in range(20):
                held.append(run(torch.randn(64, 64, device=DEVICE)))  # 1 MiB each
        self.assertTrue(8 <= len(held) < 14, len(held))
        held.clear()
        run(torch.randn(64, 64, device=DEVICE))

    def test_gradients_that_take_no_op(self):
        """Of a copy of a parameter, beside much that is frozen: there is a backward part, in which nothing runs."""
        encoder, weight = mlp(64, WIDE, 64).requires_grad_(False), nn.Parameter(torch.ones(64, device=DEVICE))
        x = torch.randn(ROWS, 64, device=DEVICE)

        def run(x):
            return encoder(x), weight.clone()

        for mode in ("exact", "inductor"):
            torch._dynamo.reset()
            weight.grad = None
            backend = snug.torch.backend("1GiB", resident_bytes=0, mode=mode)
            features, copy = torch.compile(run, backend=backend, dynamic=False)(x)
            copy.sum().backward()
            torch.testing.assert_close(features, encoder(x))
            self.assertEqual(weight.grad.tolist(), [1.0] * 64)
            self.assertEqual(len(backend.plans), 1)
            self.assertGreater(backend.plans[0].peak_bytes, ROWS * WIDE * 4)

    def losses_with(self, function, module, backend):
        torch._dynamo.reset()
        torch.manual_seed(1)
        module.zero_grad()
        run = torch.compile(function, backend=backend, dynamic=False)
        x, losses = torch.linspace(-1, 1, 64 * 64, device=DEVICE).reshape(64, 64), []
        for _ in range(3):
            loss = run(x)
            loss.backward()
            losses.append(loss.item())
        return losses, [each.grad.clone() for each in module.parameters() if each.requires_grad], [each.clone() for each in module.buffers()]

    def test_statistics_and_draws_of_a_frozen_part(self):
        """What it writes and draws is as without a plan, to the bit."""
        encoder = nn.Sequential(nn.Linear(64, 256), nn.BatchNorm1d(256), nn.GELU(), nn.Dropout(0.2), nn.Linear(256, 64), nn.BatchNorm1d(64)).requires_grad_(False)
        model = nn.Sequential(encoder, nn.Linear(64, 64), nn.Dropout(0.3)).to(DEVICE).train()

        def loss(x, model):
            y = model[0](x)
            torch._dynamo.graph_break()
            return model[1:](y).square().mean()

        for mode, plain in (("exact", "aot_eager"), ("inductor", "inductor")):
            found = []
            for backend in (plain, snug.torch.backend("1GiB", resident_bytes=0, mode=mode, graphs="several")):
                own = copy.deepcopy(model)
                found.append(self.losses_with(functools.partial(loss, model=own), own, backend))
            torch.testing.assert_close(found[1], found[0], rtol=0, atol=0)

    def test_graphs_of_any_kind_before_one_that_trains(self):
        net = nn.Linear(64, 64).to(DEVICE)

        def views(x):
            y, z = x.view(16, 256), x.t()
            torch._dynamo.graph_break()
            return net(y.view(64, 64)).sum() + z.sum()

        def mask(x):
            kept, zeros, number = torch.arange(64, device=DEVICE)[None] < 3, torch.zeros(3, dtype=torch.int64, device=DEVICE), x.max()
            torch._dynamo.graph_break()
            return (net(x) * kept).sum() + zeros.sum() + number

        def written(x):
            y = torch.zeros_like(x)
            y[:, 0] = 1
            y.add_(x)
            torch._dynamo.graph_break()
            return net(y).sum()

        def drawn(x):
            a, b = torch.rand(64, 64, device=DEVICE), nn.functional.dropout(x, 0.5, True)
            torch._dynamo.graph_break()
            return net(a).sum() + b.sum()

        for function in (views, mask, written, drawn):
            found = [self.losses_with(function, net, backend) for backend in ("aot_eager", snug.torch.backend("1GiB", resident_bytes=0, graphs="several"))]
            torch.testing.assert_close(found[1], found[0], rtol=0, atol=0, msg=function.__name__)

    def test_with_inductor(self):
        words = dict(graphs="several", mode="inductor")
        _, taken, backend = planned_by(Model(), "1GiB", **words)
        largest = max(backend.plans, key=lambda plan: plan.peak_bytes)
        self.assertTrue(0.97 * largest.peak_bytes <= taken <= largest.peak_bytes, (taken, largest))
        self.assertEqual(largest.mode, "inductor")
        self.assertLessEqual(largest.measured_forward_bytes, largest.forward_peak_bytes)
        with self.assertRaises(snug.DoesNotFit):
            planned_by(Model(), taken - 200_000, **words)  # what trains keeps nothing beside the encoder


if __name__ == "__main__":
    unittest.main()
