"""Ops of the caller's own: what they take and make is measured, on made-up operands or, where they refuse those, at the first step.

    python tests/torch/own_ops_test.py     in an environment as for exact_test.py
"""
import os
import tempfile
import unittest
import unittest.mock
import warnings

import torch

import snug
import snug.torch
from cases import DEVICE

SIDE = 64
WITHIN = 1 << 18  # numbers that an op takes within


def op(name, run):
    """An op x, order -> x, whose kernel is `run`."""
    found = torch.library.custom_op(f"snug_own::{name}", run, mutates_args=(), schema="(Tensor x, Tensor order) -> Tensor")
    found.register_fake(lambda x, order: torch.empty_like(x))
    found.register_autograd(lambda ctx, gradient: (gradient * 1, None), setup_context=lambda ctx, inputs, output: None)
    return found


def check(order):
    if int(order.sum()) != SIDE * (SIDE - 1) // 2:
        raise ValueError("no permutation")


def takes_within(x, order):
    check(order)
    return x + x.new_zeros(WITHIN)[:SIDE]


def part_of_more(x, order):
    check(order)
    return torch.cat([x, x])[: len(x)]


def of_its_own(x, order):
    return x * 1


class OwnOps(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        patch = unittest.mock.patch.dict(os.environ, XDG_CACHE_HOME=folder.name)
        patch.start()
        self.addCleanup(patch.stop)
        self.weight = torch.ones(SIDE, SIDE, device=DEVICE, requires_grad=True)
        self.batch = torch.ones(SIDE, SIDE, device=DEVICE), torch.arange(SIDE, device=DEVICE).flip(0)

    def loss(self, op):
        return lambda x, order: op(x @ self.weight, order).square().mean()

    def steps(self, op, backend, count=2):
        """Of a fresh process, but for what is in files."""
        torch._dynamo.reset()
        run = torch.compile(self.loss(op), backend=backend)
        for _ in range(count):
            self.weight.grad = None
            run(*self.batch).backward()
        return self.weight.grad

    def backend(self, memory="64MiB", **words):
        return snug.torch.backend(memory, resident_bytes=0, **words)

    def test_what_is_taken_within_is_known_behind_the_first_step(self):
        own = op("takes_within", takes_within)
        wanted = self.steps(own, "aot_eager")
        backend = self.backend()
        self.assertTrue(torch.equal(self.steps(own, backend, 1), wanted))
        self.assertLess(backend.plans[0].peak_bytes, 4 * WITHIN)
        self.assertTrue(torch.equal(self.steps(own, backend := self.backend(), 2), wanted))
        self.assertGreater(backend.plans[0].peak_bytes, 4 * WITHIN)
        self.assertEqual(len(backend.plans), 1)
        found = snug.torch.plan(self.loss(own), self.batch, resident_bytes=0, memory="64MiB")  # remembered in a file
        self.assertEqual((found.estimated, found.region.peak_bytes), ([], backend.plans[0].peak_bytes))

    def test_a_first_step_that_took_more_is_said_and_the_next_refused(self):
        own = op("takes_more_within", takes_within)
        small = 4 * WITHIN
        run = torch.compile(self.loss(own), backend=self.backend(small))
        with self.assertWarnsRegex(UserWarning, r"this step took .* of 1.00 MiB.*At the next step the graph is planned anew"):
            run(*self.batch).backward()
        with self.assertRaisesRegex(snug.DoesNotFit, "takes_more_within"):
            run(*self.batch)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.steps(op("takes_more_storages", takes_within), self.backend(small, count="storages"))

    def test_results_that_are_parts_of_more(self):
        own = op("part_of_more", part_of_more)
        wanted = self.steps(own, "aot_eager")
        backend = self.backend(count="storages")
        self.assertTrue(torch.equal(self.steps(own, backend), wanted))
        (plan,) = backend.plans
        self.assertEqual((plan.measured_forward_bytes, plan.measured_backward_bytes), (plan.forward_peak_bytes, plan.backward_peak_bytes))

    def test_graphs_that_share_the_memory(self):
        """It is divided once what all of them take is known."""
        own = op("in_the_first_graph", takes_within)

        def loss(x, order):
            x = own(x @ self.weight, order)
            torch._dynamo.graph_break()
            return x.cos().square().mean()

        backend = self.backend(graphs="several")
        run = torch.compile(loss, backend=backend)
        for _ in range(4):
            self.weight.grad = None
            run(*self.batch).backward()
        wanted = self.weight.grad
        first, second = backend.plans
        self.assertGreater(first.peak_bytes, 4 * WITHIN)
        self.assertTrue(first.is_measured and second.is_measured)
        least = first.resident.total + first.inputs_of_others + 4 * WITHIN + 3 * self.weight.nbytes
        self.setUp()  # nothing is known
        less = self.backend(least, graphs="several")
        run = torch.compile(loss, backend=less)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the first step took more than was known
            for _ in range(4):
                self.weight.grad = None
                run(*self.batch).backward()
        self.assertTrue(torch.equal(self.weight.grad, wanted))
        self.assertLessEqual(max(each.peak_bytes for each in less.plans), least)

    def test_an_op_that_is_another_in_the_next_process(self):
        """Its price is in a file, under its name."""
        own = op("changes", of_its_own)
        self.steps(own, self.backend())
        own._init_fn = lambda x, order: torch.cat([x * 1, x])[: len(x)]
        own._backend_fns[None] = own._init_fn
        backend = self.backend(count="storages")
        self.steps(own, backend)
        (plan,) = backend.plans
        self.assertEqual(plan.measured_forward_bytes, plan.forward_peak_bytes)
        again = self.backend(count="storages")
        self.steps(own, again)
        self.assertEqual(again.plans[0].problem, plan.problem)  # to the time it takes, which is not measured anew


if __name__ == "__main__":
    unittest.main(verbosity=2)
