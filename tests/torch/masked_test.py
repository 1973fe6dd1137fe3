"""`x[mask] = y` whose y has a gradient: the numbers are those of eager mode, and no more is in memory than planned, whatever the mask.

    python tests/torch/masked_test.py     in an environment as for inductor_test.py
"""
import os
import unittest
import warnings

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import snug
import snug.torch
from cases import DEVICE, distance, equal, length

warnings.filterwarnings("ignore")
if DEVICE == "cpu":
    os.environ.setdefault("CUDA_HOME", "/nonexistent")  # or PyTorch warns of the one that it does not find


def one_for_all(x, mask, y):
    x[mask] = y[0]
    return x


def one_for_all_with_dims(x, mask, y):
    x[mask] = y[:1]
    return x


def one_number(x, mask, y):
    x[mask] = y[0, 0]
    return x


def every_number(x, mask, y):
    x[mask.unsqueeze(-1).expand(-1, -1, x.shape[-1])] = y[0, 0]
    return x


def added(x, mask, y):
    return x.index_put_((mask,), y[0], accumulate=True)


def a_row_each(x, mask, y):
    x[mask] = y.sin()
    return x


def in_a_view(x, mask, y):
    x[1:, :4][mask[1:, :4]] = y[0]
    return x


def in_a_checkpoint(x, mask, y):
    return checkpoint(lambda x: one_for_all(x * 2, mask, y).sin(), x, use_reentrant=False)


def in_rows_beside(x, mask, y):
    x[mask, 3] = y[0, 0]
    return x


def in_columns(x, mask, y):
    x[:, mask[0]] = y[0]
    return x


def taken(x, mask, y):
    return x + x[mask].sum()


class Masked(nn.Module):
    def __init__(self, put, width):
        super().__init__()
        self.layer, self.other, self.put = nn.Linear(width, width), nn.Linear(width, width), put

    def forward(self, x, mask, rows):
        x = torch.tanh(self.layer(x)) + x
        return F.gelu(self.put(x, mask, self.other(rows))).square().mean()


class Rows(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)

    def made(self, put, width=32):
        torch.manual_seed(0)
        mask = torch.rand(8, 16) < 0.3
        batch = (torch.randn(8, 16, width), mask, torch.randn(int(mask.sum()), width))
        return Masked(put, width).to(DEVICE), [each.to(DEVICE) for each in batch]

    def gradients(self, model, batch, backend=None, **more):
        model.zero_grad()
        torch._dynamo.reset()
        run = model if backend is None else torch.compile(model, backend=backend, **more)
        run(*batch).backward()
        return [each.grad.clone() for each in model.parameters()]

    def test_gradients_and_bytes(self):
        for put in (one_for_all, one_for_all_with_dims, one_number, every_number, added, a_row_each, in_a_view, in_a_checkpoint):
            with self.subTest(put.__name__):
                model, batch = self.made(put)
                wanted = self.gradients(model, batch)
                whole = snug.torch.plan(model, tuple(batch), resident_bytes=0)
                for memory in (whole.keep_all_bytes, whole.smallest_bytes):
                    backend = snug.torch.backend(memory, resident_bytes=0)
                    self.assertTrue(equal(wanted, self.gradients(model, batch, backend)))
                if put not in (one_for_all, a_row_each, in_a_view):
                    continue
                whole = snug.torch.plan(model, tuple(batch), resident_bytes=0, mode="inductor")
                for memory in (whole.keep_all_bytes, whole.smallest_bytes):
                    backend = snug.torch.backend(memory, resident_bytes=0, mode="inductor")
                    found = self.gradients(model, batch, backend, fullgraph=True)
                    self.assertLess(distance(wanted, found), 1e-6 * length(wanted))
                    (plan,) = backend.plans
                    self.assertEqual(plan.mode, "inductor")
                    self.assertLessEqual(plan.measured_forward_bytes, plan.forward_peak_bytes)
                    self.assertLessEqual(plan.measured_backward_bytes, plan.backward_peak_bytes)

    def test_masks_of_all_and_none(self):
        """One plan, which is held whatever the mask."""
        for mode in ("exact", "inductor"):
            model, (x, mask, rows) = self.made(one_for_all)
            memory = snug.torch.plan(model, (x, mask, rows), resident_bytes=0, mode=mode).smallest_bytes
            backend = snug.torch.backend(memory, resident_bytes=0, mode=mode)
            masks = (mask, torch.zeros_like(mask), torch.ones_like(mask))
            every = [self.gradients(model, (x, each, rows)) for each in masks]
            run = torch.compile(model, backend=backend, fullgraph=True)
            for each, wanted in zip(masks, every):
                model.zero_grad()
                run(x, each, rows).backward()
                with snug.torch.measure() as measured:
                    run(x, each, rows).backward()
                self.assertLessEqual(measured.peak_bytes - measured.start_bytes + backend.plans[0].resident.total, memory)
                found = [parameter.grad / 2 for parameter in model.parameters()]
                self.assertLess(distance(wanted, found), 1e-6 * length(wanted))
            self.assertEqual(len(backend.plans), 1)

    def test_what_is_written_to_an_input_of_the_graph(self):
        """Of two graphs, the second writes to what the first has made."""
        def put(x, mask, y):
            torch._dynamo.graph_break()
            return one_for_all(x, mask, y)

        for mode in ("exact", "inductor"):
            model, batch = self.made(put)
            wanted = self.gradients(model, batch)
            for _ in range(2):
                backend = snug.torch.backend("1MiB", resident_bytes=0, mode=mode, graphs="several")
                found = self.gradients(model, batch, backend)
                self.assertGreater(len(backend.plans), 1)
                self.assertLess(distance(wanted, found), 1e-6 * length(wanted))

    def test_what_has_no_static_gradient_is_refused(self):
        for mode in ("exact", "inductor"):
            for put in (in_rows_beside, in_columns, taken):
                model, batch = self.made(put)
                with self.subTest(put.__name__), warnings.catch_warnings(action="ignore"), self.assertRaisesRegex(snug.Error, "as many rows as its numbers say .*nonzero(?s:.*)hint: torch.where.*mask, 3"):
                    self.gradients(model, batch, snug.torch.backend("1MiB", resident_bytes=0, mode=mode), fullgraph=True)


if __name__ == "__main__":
    unittest.main()
