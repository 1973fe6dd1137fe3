"""Graphs and calls of one step beside each other: what lies there while each runs is in its plan.

    python tests/torch/graphs_test.py     in an environment as for exact_test.py
"""
import gc
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


def in_two_graphs(first, second, x, y):
    def loss():
        z = first(x)
        torch._dynamo.graph_break()
        return (second(z) - y).square().mean()

    return loss


def mlp(*widths):
    return nn.Sequential(nn.Linear(widths[0], widths[1]), nn.Tanh(), nn.Linear(widths[1], widths[2])).to(DEVICE)


class Graphs(unittest.TestCase):
    def at_least_bytes(self, step):
        """What `step(memory)` returns at the first memory named by refusals that is not refused as well, and that memory."""
        memory = 1000
        for _ in range(8):
            torch._dynamo.reset()
            try:
                return step(memory), memory
            except snug.DoesNotFit as error:
                self.assertGreater(error.smallest_bytes, memory)
                memory = error.smallest_bytes
        self.fail(f"{memory} bytes are still refused")

    def test_inputs_of_other_graphs(self):
        """Behind a graph break, the batch is still there, and so are what a later graph reads, and parameters that no optimizer is given for."""
        for graphs in SETTINGS:
            torch._dynamo.reset()
            first, second = nn.Linear(256, 8).to(DEVICE), nn.Sequential(nn.Linear(8, 512), nn.ReLU(), nn.Linear(512, 64)).to(DEVICE)
            x, y = torch.randn(128, 256, device=DEVICE), torch.randn(128, 64, device=DEVICE)
            there = (x, y, *first.parameters(), *second.parameters())
            backend = snug.torch.backend("1GiB", resident_bytes=0, graphs=graphs)
            loss = torch.compile(in_two_graphs(first, second, x, y), backend=backend)
            self.assertEqual(taken_by(lambda: loss().backward(), there), max(plan.peak_bytes for plan in backend.plans))  # what the first hands to the second is there once
            if graphs == "several":
                for plan in backend.plans:
                    self.assertGreaterEqual(plan.resident.total + plan.allowance.inputs_of_others, sum(each.nbytes + each.nbytes * each.requires_grad for each in there))

    def test_shares_of_steps_with_other_shapes(self):
        """What one graph keeps is beside every shape of the other. One that came later and does not fit has the memory divided anew, with it."""
        first, second = (nn.Sequential(*(layer for _ in range(count) for layer in (nn.Linear(32, 32), nn.Tanh()))).to(DEVICE) for count in (4, 2))
        optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], 1e-3)
        x = torch.randn(256, 32, device=DEVICE)

        def begun(memory):
            torch._dynamo.reset()
            backend = snug.torch.backend(memory, optimizer=optimizer, count="storages", graphs="several")
            features = torch.compile(first, backend=backend, dynamic=False)
            loss = torch.compile(lambda z, y: second(torch.cat([z, y])).square().mean(), backend=backend, dynamic=False)

            def step(rows):
                y = torch.randn(rows, 32, device=DEVICE)
                loss(features(x), y).backward()
                optimizer.step()
                optimizer.zero_grad()

            return step

        def long(memory):
            step = begun(memory)
            for _ in range(3):
                step(512)

        _, memory = self.at_least_bytes(long)
        there = sum(each.nbytes for each in (x, *first.parameters(), *second.parameters()))
        step, refused = begun(memory), []
        for rows in (16, 16, 512, 512, 16, 512, 300, 512, 16):
            try:
                step(rows)  # ops of new shapes are measured, which is no part of the step
                gc.collect()  # of a step that was refused
                with snug.torch.measure() as measured:
                    step(rows)
                self.assertLessEqual(measured.peak_bytes - measured.start_bytes, memory - there, rows)
            except snug.DoesNotFit as error:
                self.assertIn("begin this step again", str(error))
                refused.append(rows)
        self.assertEqual(refused, [512])

    def test_steps_of_other_graphs_leave_shares_alone(self):
        """Two nets that train in turns, each of two graphs."""
        torch._dynamo.reset()
        backend = snug.torch.backend("1GiB", resident_bytes=0, graphs="several")
        x, y = torch.randn(64, 32, device=DEVICE), torch.randn(64, 16, device=DEVICE)
        losses = [torch.compile(in_two_graphs(mlp(32, width, width), mlp(width, width, 16), x, y), backend=backend) for width in (48, 64)]
        for _ in range(3):
            for loss in losses:
                loss().backward()
        known = list(backend.plans)
        for _ in range(3):
            for loss in losses:
                loss().backward()
        self.assertEqual(len(known), 4)
        self.assertTrue(all(plan.allowance.crossing_bytes is not None for plan in known))  # each has its share
        self.assertTrue(all(before is now for before, now in zip(known, backend.plans, strict=True)))

    def test_inputs_of_graphs_behind(self):
        """Where the first graph of a step takes most, what a later one reads (labels) lies beside it, which its plan cannot know of at its first call: it is made anew, or refused."""
        torch.manual_seed(0)
        first, second = mlp(16, 512, 16), nn.Linear(16, 256).to(DEVICE)
        x, y = torch.randn(256, 16, device=DEVICE), torch.randn(256, 256, device=DEVICE)

        def step(memory):
            backend = snug.torch.backend(memory, resident_bytes=0, count="storages")
            loss = torch.compile(in_two_graphs(first, second, x, y), backend=backend)
            return taken_by(lambda: loss().backward(), (x, y, *first.parameters(), *second.parameters())), max(plan.peak_bytes for plan in backend.plans)

        torch._dynamo.reset()
        taken, planned = step(1 << 30)
        self.assertTrue(0.97 * planned < taken <= planned)
        (taken, planned), memory = self.at_least_bytes(step)
        self.assertTrue(0.97 * memory < taken <= planned <= memory)

    def test_gradients_that_wait(self):
        """Of what several calls of a step read, autograd adds the gradients up before it gives them to the parameters: those of the last call wait for the first one's."""
        torch.manual_seed(0)
        net, tied = mlp(128, 256, 128), nn.Linear(128, 64, bias=False).to(DEVICE)
        pair = [torch.randn(16, 128, device=DEVICE) for _ in range(2)]

        def across(x):
            h = torch.tanh(tied(x))
            torch._dynamo.graph_break()
            return h @ tied.weight

        for module, call, loss in ((net, net, lambda run: (run(pair[0]) - run(pair[1])).square().mean()), (tied, across, lambda run: run(pair[0]).square().mean())):
            for graphs in SETTINGS:
                def step(memory):
                    backend = snug.torch.backend(memory, optimizer=torch.optim.SGD(module.parameters()), graphs=graphs, count="storages")
                    run = torch.compile(call, backend=backend)
                    return taken_by(lambda: loss(run).backward(), (*pair, *module.parameters())), max(plan.peak_bytes for plan in backend.plans)

                torch._dynamo.reset()
                largest_sum = max(each.nbytes for each in module.parameters())  # which autograd may add in place, and no plan counts on that
                for (taken, planned), memory in ((step(1 << 30), 1 << 30), self.at_least_bytes(step)):
                    self.assertTrue(taken <= planned <= memory and planned < 1.12 * (taken + largest_sum), (graphs, taken, planned, memory))

    def test_steps_that_are_given_up(self):
        """A step without a backward part (its loss was not finite), whose loss is there until the next call has given another, is not one of two calls of a step."""
        torch.manual_seed(0)
        x = torch.randn(256, 64, device=DEVICE)
        net = nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(64, 64), nn.GELU())]).to(DEVICE)
        optimizer = torch.optim.Adam(net.parameters())

        def loss_of(x):
            return net(x).square().mean()

        memory = snug.torch.plan(loss_of, x, optimizer=optimizer).smallest_bytes
        backend = snug.torch.backend(memory, optimizer=optimizer)
        run = torch.compile(loss_of, backend=backend)
        for step in range(6):
            loss = run(x)
            if step in (1, 2, 4):
                continue
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        loss = None
        run(x).backward()
        (plan,) = backend.plans
        self.assertLessEqual(plan.peak_bytes, memory)
        self.assertFalse(plan.has_learned)

    def test_evaluation_at_many_lengths(self):
        """What trains has a plan for each shape, and there are eight at most. What only evaluates has none; frozen with gradients on, it may be part of a step, and has."""
        net = nn.Sequential(nn.Embedding(20, 16), nn.Linear(16, 20)).to(DEVICE)
        for freeze in (False, True):
            torch._dynamo.reset()
            backend = snug.torch.backend("1GiB", optimizer=torch.optim.Adam(net.parameters()))
            run = torch.compile(net, backend=backend)  # the first length has a graph of its own, all others another
            for length in range(3, 4 + MOST_SHAPES):
                run(torch.randint(0, 20, (2, length), device=DEVICE)).sum().backward()
            with self.assertRaisesRegex(snug.Error, "new for the 9th time"):
                run(torch.randint(0, 20, (2, 50), device=DEVICE)).sum().backward()
            net.requires_grad_(not freeze)
            for length in (*range(3, 25), 3, 4):
                ids = torch.randint(0, 20, (4, length), device=DEVICE)
                with torch.set_grad_enabled(freeze):
                    self.assertTrue(torch.equal(run(ids), net(ids)))
            net.requires_grad_(True)
            self.assertEqual(sum(plan.has_backward_part for plan in backend.plans), 1 + MOST_SHAPES)
            self.assertEqual(len(backend.plans) > 1 + MOST_SHAPES, freeze)
            self.assertLessEqual(len(backend.parts), 1 + MOST_SHAPES + 1 + MOST_SHAPES)

    def test_blocks_that_are_alike(self):
        """They are one graph, called with parameters of their own, whose gradients wait for no others."""
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = mlp(64, 128, 64)

            def forward(self, x):
                return torch.tanh(self.net(x))

        torch._dynamo.reset()
        blocks, x = [Block() for _ in range(2)], torch.randn(16, 64, device=DEVICE, requires_grad=True)
        parameters = [each for block in blocks for each in block.parameters()]
        backend = snug.torch.backend("1GiB", optimizer=torch.optim.SGD(parameters), count="storages")
        for block in blocks:
            block.compile(backend=backend)
        for _ in range(2):
            blocks[1](blocks[0](x * 1)).square().mean().backward()
        (plan,) = backend.plans
        self.assertEqual(plan.more_gradients, 0)

    def test_what_a_graph_makes_for_one_behind_the_next(self):
        """A mask has no gradient, so nothing is kept for a backward part; it is there beside the graph between, and stays where it is returned."""
        first, second, third, x = nn.Linear(16, 64).to(DEVICE), mlp(64, 512, 64), nn.Linear(64, 64).to(DEVICE), torch.randn(128, 16, device=DEVICE)

        def loss():
            h = torch.tanh(first(x))
            mask = (h > 0).float().repeat(1, 4)
            torch._dynamo.graph_break()
            y = second(h)
            torch._dynamo.graph_break()
            return (torch.tanh(third(y)) * mask[:, :64]).square().mean(), mask

        for graphs in SETTINGS:
            torch._dynamo.reset()
            backend = snug.torch.backend("1GiB", resident_bytes=0, graphs=graphs)
            run = torch.compile(loss, backend=backend)

            def step():
                result = run()  # held, with the mask
                result[0].backward()

            taken = taken_by(step, (x, *first.parameters(), *second.parameters(), *third.parameters()))
            planned = max(plan.peak_bytes for plan in backend.plans)
            # Results are planned until the step ends; that of the second is gone before.
            self.assertTrue(taken <= planned <= taken + 2 * 128 * 64 * 4, (graphs, taken, planned))


if __name__ == "__main__":
    unittest.main()
