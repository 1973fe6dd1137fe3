"""mode="inductor": numbers beside Inductor's own, bytes beside what was planned, its caches.

    python tests/torch/inductor_test.py     in an environment as for exact_test.py, and with a C++ compiler
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings

import torch

import snug
import snug.torch
from exact_test import DEVICE, Case, equal

if DEVICE == "cpu":
    os.environ.setdefault("CUDA_HOME", "/nonexistent")  # or PyTorch warns of the one that it does not find


class Inductor(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        torch.set_num_threads(1)  # rows of embeddings are added with atomics: with several, Inductor's own bits differ from run to run

    def backend(self, case, memory, **more):
        return snug.torch.backend(memory, optimizer=case.optimizer, mode="inductor", **more)

    def check_bytes(self, backend):
        (plan,) = backend.plans
        self.assertEqual(plan.mode, "inductor")
        for planned, measured in ((plan.forward_peak_bytes, plan.measured_forward_bytes), (plan.backward_peak_bytes, plan.measured_backward_bytes)):
            self.assertLessEqual(measured, backend.memory)
            self.assertLess(abs(planned - measured), 0.03 * measured)
        return plan

    def check(self, name, share):
        case = Case(name)
        wanted = case.gradients(case.compiled("inductor"))
        whole = self.backend(case, 1 << 40)
        found = case.gradients(case.compiled(whole))
        plan = self.check_bytes(whole)
        self.assertTrue(equal(wanted, found))  # PyTorch's own partition fits, and is taken
        self.assertEqual((plan.rounds, plan.runs_again), (1, 0))

        base = plan.resident.total
        less = self.backend(case, base + int(share * (plan.peak_bytes - base)))
        found = case.gradients(case.compiled(less))
        smaller = self.check_bytes(less)
        self.assertGreater(smaller.runs_again, 0)
        self.assertLessEqual(smaller.rounds, 4)
        self.assertLess(smaller.peak_bytes, plan.peak_bytes)
        distance = sum(float((a.double() - b.double()).square().sum()) for a, b in zip(wanted, found)) ** 0.5
        size = sum(float(a.double().square().sum()) for a in wanted) ** 0.5
        self.assertLess(distance, 1e-6 * size)  # masks of dropout are the same, or it would be far more
        # Further steps, which are not measured.
        again = case.compiled(less)
        self.assertTrue(equal(found, case.gradients(again)))
        self.assertTrue(equal(found, case.gradients(again)))
        with torch.no_grad():
            self.assertEqual(len(again(**case.batch)), len(case.model(**case.batch)))

    def test_gpt2(self):
        self.check("gpt2", 0.8)

    def test_resnet(self):
        self.check("resnet", 0.8)

    def test_bert(self):
        self.check("bert", 0.8)

    def test_op_by_op_where_nothing_fits(self):
        """Inductor's backward part of this model takes more than the ops one by one."""
        case = Case("unet")
        exact = snug.torch.plan(case.model, case.batch, optimizer=case.optimizer)
        backend = self.backend(case, exact.smallest_bytes)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            case.gradients(case.compiled(backend))
        (plan,) = backend.plans
        self.assertLessEqual(plan.peak_bytes, exact.smallest_bytes)
        self.assertEqual(plan.mode == "exact", any("op by op" in str(each.message) for each in said))
        with self.assertRaises(snug.DoesNotFit) as caught:
            case.gradients(case.compiled(self.backend(case, plan.resident.total + 1000)))
        self.assertGreater(caught.exception.smallest_bytes, plan.resident.total)

    def test_wrong_uses(self):
        for words in ({"count": "storages"}, {"graphs": "several"}):
            with self.assertRaisesRegex(snug.Error, 'mode.*is "inductor" with'):
                snug.torch.backend("1GiB", resident_bytes=0, mode="inductor", **words)
        with self.assertRaisesRegex(snug.Error, 'mode.*is .fast'):
            snug.torch.backend("1GiB", resident_bytes=0, mode="fast")
        with torch._inductor.config.patch({"triton.cudagraphs": True}), self.assertRaisesRegex(snug.Error, "CUDA graphs"):
            run = torch.compile(torch.nn.Linear(4, 4), backend=snug.torch.backend("1GiB", resident_bytes=0, mode="inductor"))
            run(torch.ones(2, 4))

    def test_caches(self):
        """Another process: with the same budget, nothing is compiled anew; with another, both parts are."""
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder, "step.py")
            script.write_text(STEP)
            environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(pathlib.Path(folder, "cache"))}

            def step(share):
                done = subprocess.run([sys.executable, script, str(share)], env=environment, check=True, capture_output=True, text=True)
                return tuple(map(int, done.stdout.split()[-2:]))

            self.assertEqual(step(1.0), (0, 2))
            self.assertEqual(step(1.0), (2, 0))
            self.assertEqual(step(0.7), (0, 2))
            self.assertEqual(step(0.7), (2, 0))


STEP = """
import sys

import torch
from torch._dynamo.utils import counters

import snug.torch
from exact_test import Case

case = Case("custom")
plan = snug.torch.backend(1 << 40, optimizer=case.optimizer)
case.gradients(case.compiled(plan))
base, top = plan.plans[0].resident.total, plan.plans[0].peak_bytes
backend = snug.torch.backend(base + int(float(sys.argv[1]) * (top - base)), optimizer=case.optimizer, mode="inductor")
case.gradients(case.compiled(backend))
assert backend.plans[0].mode == "inductor"
print(counters["inductor"]["fxgraph_cache_hit"], counters["inductor"]["fxgraph_cache_miss"])
"""

if __name__ == "__main__":
    unittest.main()
