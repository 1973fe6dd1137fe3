"""What is measured: whole steps, ops and what they take within, beside other threads and garbage.

    python tests/torch/measuring_test.py     in an environment as for exact_test.py
"""
import threading
import time
import unittest
import unittest.mock
import warnings

import torch
from torch import nn

import snug
import snug.torch
from cases import DEVICE
from snug.torch import _profiler
from snug.torch._measure import growth
from snug.torch._prices import Prices
from snug.torch._profiler import allocated_on_cpu
from snug.torch._resident import update_bytes

warnings.filterwarnings("ignore")


class Rarely(torch.optim.SGD):
    """Takes room with every tenth step, by a counter of its own, and as much where a gradient is no number."""

    def __init__(self, parameters, by_gradient):
        super().__init__(parameters, lr=0.1)
        self.count, self.by_gradient = 0, by_gradient

    def step(self, closure=None):
        self.count += 1
        super().step(closure)
        for each in (each for group in self.param_groups for each in group["params"]):
            if not torch.isfinite(each.grad).all() if self.by_gradient else self.count % 10 == 0:
                each.detach().mul_(torch.ones(16, *each.shape, device=each.device).sum(0))


class Measuring(unittest.TestCase):
    def test_a_rate_that_is_a_tensor(self):
        """It lies where it was made: on the CPU, beside the states."""
        model = nn.Linear(16, 16).to(DEVICE)
        number, tensor = (snug.torch.backend("1MiB", optimizer=torch.optim.AdamW(model.parameters(), lr=lr)) for lr in (1e-3, torch.tensor(1e-3)))
        with self.assertNoLogs("torch", "ERROR"):
            of_number, of_tensor = (update_bytes(each.optimizer, torch.device(DEVICE)).states for each in (number, tensor))
        self.assertEqual(of_tensor - of_number, 4 if DEVICE == "cpu" else 0)

    def test_steps_that_take_more_than_the_first(self):
        """The second has momenta, RAdam's sixth corrects them, others do something every so many steps, or where a number is what it seldom is."""
        device = torch.device(DEVICE)
        for kind, words in ((torch.optim.SGD, {"momentum": 0.9}), (torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}), (torch.optim.RAdam, {}), (torch.optim.RAdam, {"foreach": True}),
                            (torch.optim.Adam, {"lr": torch.tensor(1e-3)}), (torch.optim.NAdam, {}), (Rarely, {"by_gradient": False}), (Rarely, {"by_gradient": True})):
            layers = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 64)).to(device)
            optimizer = kind(layers.parameters(), **words)
            planned, taken = update_bytes(optimizer, device), []
            for i in range(12):
                for each in layers.parameters():
                    each.grad = torch.full_like(each, float("nan") if i == 7 else 1.0)
                there = sum(each.nbytes for state in optimizer.state.values() for each in state.values() if isinstance(each, torch.Tensor) and each.device.type == DEVICE)
                with growth(device) as grown:
                    optimizer.step()
                taken.append(there + grown.peak_bytes)
            rate = words["lr"].nbytes if "lr" in words and DEVICE == "cpu" else 0
            self.assertLessEqual(rate + max(taken), planned.states + planned.scratch)
            if DEVICE == "cpu":
                self.assertEqual(rate + max(taken), planned.states + planned.scratch)
            self.assertEqual(planned, update_bytes(optimizer, device))  # behind them it is the same

    def test_what_a_step_takes_within(self):
        """Muon multiplies matrices of 16-bit numbers, for which libraries take room of their own."""
        device = torch.device(DEVICE)
        prices = Prices(device)
        layers = nn.Sequential(*(nn.Linear(*sizes, bias=False) for sizes in ((128, 64), (64, 128), (32, 32)))).to(device)
        for kind, words in ((torch.optim.Muon, {}), (torch.optim.Muon, {"nesterov": False}), (torch.optim.Adafactor, {}), (torch.optim.AdamW, {})):
            optimizer = kind(layers.parameters(), **words)
            for each in layers.parameters():
                each.grad = torch.ones_like(each)
            planned = update_bytes(optimizer, device, prices).scratch
            optimizer.step()
            with growth(device) as grown:
                optimizer.step()
            self.assertLessEqual(grown.peak_bytes, planned)
            self.assertGreater(grown.peak_bytes, 0.97 * planned)

    def test_constants_of_a_graph(self):
        """A tensor that is made of Python's numbers stays with the graph."""
        layer, x, ids, numbers = nn.Linear(16, 16).to(DEVICE), torch.randn(4, 16, device=DEVICE), torch.arange(4, device=DEVICE), [1.0] * 5000
        for mode in ("exact", "inductor"):
            torch._dynamo.reset()
            backend = snug.torch.backend("1GiB", resident_bytes=0, mode=mode)
            torch.compile(lambda: (layer(x) * torch.tensor(numbers, device=DEVICE)[ids][:, None]).square().mean(), backend=backend)().backward()
            self.assertGreaterEqual(backend.plans[0].resident.buffers_and_inputs, x.nbytes + ids.nbytes + (20000 if DEVICE == "cpu" else 0))

    def test_operands_that_are_conjugated_as_they_are_read(self):
        """A product of complex numbers copies them within."""
        torch._dynamo.reset()
        weight, x = torch.randn(16, 16, 65, dtype=torch.cfloat, device=DEVICE, requires_grad=True), torch.randn(2, 16, 128, device=DEVICE)
        backend = snug.torch.backend("1GiB", resident_bytes=0)
        loss = torch.compile(lambda: torch.fft.irfft(torch.einsum("bif,iof->bof", torch.fft.rfft(x), weight)).square().mean(), backend=backend)
        loss().backward()
        with snug.torch.measure() as measured:  # a gradient is there
            loss().backward()
        (plan,) = backend.plans
        grown, planned = measured.peak_bytes - measured.start_bytes, plan.peak_bytes - plan.resident.total
        self.assertLessEqual(grown, planned)
        self.assertGreater(grown, 0.9 * planned)

    def test_bags_of_embeddings(self):
        """What they take within follows from which bags are empty, and one of their results lies in more than it takes."""
        torch.manual_seed(0)
        layer, ids, begins = nn.Linear(32, 1).to(DEVICE), torch.randint(0, 2000, (512,), device=DEVICE), torch.arange(0, 512, 8, device=DEVICE)
        for kind in ("sum", "mean", "max"):
            bags = nn.EmbeddingBag(2000, 32, mode=kind).to(DEVICE)
            for mode in ("exact", "inductor"):
                def step():
                    bags.zero_grad(), layer.zero_grad()
                    torch.compile(lambda: layer(bags(ids, begins)).square().mean(), backend=backend)().backward()

                torch._dynamo.reset()
                backend = snug.torch.backend(1 << 40, resident_bytes=0, mode=mode)
                step()
                (plan,) = backend.plans
                self.assertLessEqual(plan.measured_backward_bytes, plan.backward_peak_bytes)
                if mode == "inductor":
                    self.assertEqual((plan.measured_forward_bytes, plan.measured_backward_bytes), (plan.forward_peak_bytes, plan.backward_peak_bytes))
                    continue
                with snug.torch.measure() as measured:
                    step()
                self.assertLessEqual(measured.peak_bytes - measured.start_bytes, plan.peak_bytes - plan.resident.total + sum(each.nbytes for each in (*bags.parameters(), *layer.parameters())))

    def test_measure_sees_gradients_that_nobody_has_looked_at(self):
        layer = nn.Linear(64, 64).to(DEVICE)
        layer(torch.ones(64, device=DEVICE)).sum().backward()
        with snug.torch.measure() as measured:
            pass
        del layer
        with snug.torch.measure() as without:
            pass
        self.assertEqual(measured.start_bytes - without.start_bytes, 2 * 4 * (64 * 64 + 64))

    def test_measure_beside_tensors_of_vmap(self):
        """They have no storage, and one that was handed out of its call stays."""
        kept = []
        torch.vmap(lambda x: kept.append(x) or x.sin())(torch.ones(4, 4, device=DEVICE))
        with snug.torch.measure() as measured:
            x = torch.ones(1024, device=DEVICE)
        self.assertEqual(measured.peak_bytes - measured.start_bytes, x.nbytes)

    def test_measure_sees_tensors_of_before_go(self):
        """Of the call before, say, within another measurement or not: their bytes are free for what comes."""
        size = 1 << 20
        for _ in range(3):
            held = [torch.ones(size, dtype=torch.uint8, device=DEVICE)]
            with snug.torch.measure() as measured:
                fresh = torch.ones(size // 4, dtype=torch.uint8, device=DEVICE)
                view = held.pop()[1:]
                between = torch.ones(size // 2, dtype=torch.uint8, device=DEVICE)  # the view holds the whole
                del view
                held.append(torch.ones(size, dtype=torch.uint8, device=DEVICE))
            self.assertEqual(measured.peak_bytes - measured.start_bytes, 3 * size // 4)
            with snug.torch.measure() as measured:  # what was made within a measurement goes once as well
                held.clear()
                fresh = torch.ones(2 * size, dtype=torch.uint8, device=DEVICE)
            self.assertEqual(measured.peak_bytes - measured.start_bytes, size)
            del between, fresh

    def test_garbage_that_goes_meanwhile(self):
        """What was made in another measurement is seen to go in this one. Who waits for its garbage to be collected saves nothing by it."""
        if DEVICE != "cpu":
            self.skipTest("there, the allocator is asked")
        with growth(torch.device("cpu")):
            garbage, leaving = torch.ones(1 << 18), torch.ones(1 << 17)
        with growth(torch.device("cpu"), [leaving]) as grown:
            del garbage, leaving
            torch.ones(1 << 19)
        self.assertEqual(grown.peak_bytes, 4 * ((1 << 19) - (1 << 17)))
        with growth(torch.device("cpu")):
            held = [torch.ones(1 << 18)]
        self.assertEqual(allocated_on_cpu(lambda: held.clear() or torch.ones(1 << 17))[:2], (4 << 17, 4 << 17))

    def test_one_profiler(self):
        """The first step measures ops with it on the CPU: a measurement around that says so, and is no wrong number."""
        if DEVICE != "cpu":
            self.skipTest("there, the allocator is asked")
        with self.assertRaisesRegex(snug.Error, "lost PyTorch's profiler.*\nhint: measure behind the first step"), snug.torch.measure(), self.assertWarnsRegex(UserWarning, "ends here"):
            with snug.torch.measure():
                pass
        with self.assertRaises(ZeroDivisionError), snug.torch.measure():
            1 / 0
        with snug.torch.measure() as measured:
            x = torch.ones(64)
        self.assertEqual(measured.peak_bytes - measured.start_bytes, x.nbytes)

    def test_threads_measure_in_turns(self):
        """Two threads in PyTorch's profiler end the process, or get nothing of it."""
        wrong = []

        def work(size):
            for _ in range(20):
                found = allocated_on_cpu(lambda: torch.ones(size).sin())[:2]
                wrong.extend([found] if found != (8 * size, 4 * size) else [])

        threads = [threading.Thread(target=work, args=(size,)) for size in (64, 128)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        self.assertEqual(wrong, [])
        with unittest.mock.patch.object(_profiler, "SECONDS_FOR_PROFILER", 0.01), snug.torch.measure("cpu"):  # one that waits for the other for ever is refused
            def late():
                with self.assertRaisesRegex(snug.Error, "another thread measures.*\nhint: measure behind"):
                    allocated_on_cpu(lambda: torch.ones(64))
                wrong.append("refused")

            thread = threading.Thread(target=late)
            thread.start()
            thread.join()
        self.assertEqual(wrong, ["refused"])

    def test_a_price_is_not_what_another_process_takes(self):
        """An op of microseconds whose threads are held up the first times, each time for longer or less."""
        waits = [0.03, 0.09, 0.05, 0.02]
        seconds = Prices(torch.device("cpu"))._seconds(lambda: time.sleep(waits.pop() if waits else 0))
        self.assertLess(seconds, 0.005)
        runs = []
        Prices(torch.device("cpu"))._seconds(lambda: runs.append(time.sleep(0.02)))
        self.assertLess(len(runs), 20)


if __name__ == "__main__":
    unittest.main()
