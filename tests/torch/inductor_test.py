"""mode="inductor": numbers beside Inductor's own, bytes beside what was planned, its caches.

    python tests/torch/inductor_test.py     in an environment as for exact_test.py, and with a C++ compiler; SNUG_WHOLE_MATRIX=1 runs what --all does
"""
import contextlib
import copy
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings
from unittest import mock

import torch
import torch._inductor.memory
from torch import nn
from torch._inductor.codegen import wrapper
from torch._inductor.compile_fx import compile_fx_inner
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

import snug
import snug.torch
import models
from cases import DEVICE, Case, CheckpointPolicy, distance, equal, gradients_of, length, marked_model, taken_by, whole_matrix
from snug.torch import _fused
from snug.torch._kernels import milliseconds
from snug.torch._lowered import generate, live
from snug.torch._planning import outlook

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
        run = case.compiled(less)
        found = case.gradients(run)
        smaller = self.check_bytes(less)
        self.assertGreater(smaller.runs_again, 0)
        self.assertLessEqual(smaller.rounds, 4)
        self.assertLess(smaller.peak_bytes, plan.peak_bytes)
        self.assertLess(distance(wanted, found), 1e-6 * length(wanted))  # masks of dropout are the same, or it would be far more
        # Further steps, which are not measured.
        self.assertTrue(equal(found, case.gradients(run)))
        self.assertTrue(equal(found, case.gradients(run)))
        return case, run

    def test_gpt2(self):
        case, run = self.check("gpt2", 0.8)
        with torch.no_grad():
            self.assertEqual(len(run(**case.batch)), len(case.model(**case.batch)))

    def test_resnet(self):
        self.check("resnet", 0.8)

    def test_bert(self):
        self.check("bert", 0.8)

    def test_marked_to_be_made_again(self):
        model, x = marked_model({torch.ops.aten.tanh.default: CheckpointPolicy.MUST_RECOMPUTE})
        wanted = gradients_of(model, "inductor", x)
        rows = snug.torch.plan(model, (x,), resident_bytes=0, mode="inductor").price_list
        backend = snug.torch.backend(int(rows[0]["peak_bytes"]), resident_bytes=0, mode="inductor")
        found = gradients_of(model, backend, x)
        plan = self.check_bytes(backend)
        self.assertTrue(plan.report["schedule"])  # a partition of the planner's
        self.assertLess(distance(wanted, found), 1e-6 * length(wanted))

    def test_inputs_that_are_written_behind_what_reads_them(self):
        """PyTorch's partition makes what was read of them again, of what they are by then: other gradients, without a word."""
        def updated_behind(self, x):
            shares = torch.sin(self.scale)
            for layer in self.layers:
                x = torch.tanh(layer(x) * shares)
            with torch.no_grad():
                self.scale.mul_(0.5)
            return (x * torch.cos(self.scale)).square().mean()

        def updated_before(self, x):
            with torch.no_grad():
                self.scale.mul_(0.5)
            for layer in self.layers:
                x = torch.tanh(layer(x) * torch.sin(self.scale.view(2, 32).t().reshape(64)))
            return x.square().mean()

        for forward in (updated_behind, updated_before):
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(3))
                    self.register_buffer("scale", torch.linspace(0.5, 1.5, 64))

            Net.forward = forward
            torch.manual_seed(0)
            model, x = Net().to(DEVICE), torch.randn(256, 64, device=DEVICE)
            scale = model.scale.clone()

            def gradients(backend):
                model.scale.copy_(scale)
                return gradients_of(model, backend, x)

            wanted = gradients("eager")
            self.assertTrue(equal(wanted, gradients(snug.torch.backend(1 << 40, resident_bytes=0))))
            whole = snug.torch.backend(1 << 40, resident_bytes=0, mode="inductor")
            self.assertLess(distance(wanted, gradients(whole)), 1e-6 * length(wanted))
            self.assertFalse(self.check_bytes(whole).report["schedule"])
            if forward is updated_before:
                continue
            rows = snug.torch.plan(model, (x,), resident_bytes=0, mode="inductor").price_list
            less = snug.torch.backend(int(rows[0]["peak_bytes"]), resident_bytes=0, mode="inductor")
            self.assertLess(distance(wanted, gradients(less)), 1e-6 * length(wanted))
            self.assertTrue(self.check_bytes(less).report["schedule"])

    def test_what_a_library_takes_for_itself(self):
        """Inductor lays pictures out with their channels last, where convolutions take less than in the graph's order."""
        layers = torch.nn.Sequential(torch.nn.Conv2d(3, 96, 4, 4), torch.nn.GELU(), torch.nn.Conv2d(96, 384, 2, 2), torch.nn.GELU(), torch.nn.Flatten(2)).to(DEVICE)
        backend = snug.torch.backend(1 << 40, resident_bytes=0, mode="inductor")
        x = models.pictures(4, 3, 32).to(DEVICE, memory_format=torch.channels_last)
        result = torch.compile(layers, backend=backend)(x)  # held: results are counted
        result.sum().backward()
        self.check_bytes(backend)

    def test_ops_that_both_parts_read(self):
        """The formulas of these activations begin with what they are applied to, which Inductor's decompositions mark as of the backward part."""
        class Mean(nn.Sequential):
            def forward(self, x):
                return super().forward(x).square().mean()

        torch.manual_seed(0)
        model, x = Mean(nn.Linear(32, 32), nn.Softplus(), nn.Linear(32, 32), nn.ELU()).to(DEVICE), torch.randn(64, 32, device=DEVICE)
        backend = snug.torch.backend(1 << 40, resident_bytes=0, mode="inductor")
        self.assertTrue(equal(gradients_of(model, "inductor", x), gradients_of(model, backend, x)))
        self.check_bytes(backend)

    def test_what_is_written_to_a_view(self):
        """Inductor leaves a copy out, and views of it lie in what was copied."""
        def whole(x):
            y = layer(x).tanh() + x
            y[1:, :4].mul_(2)
            return torch.nn.functional.gelu(y).square().mean()

        torch.manual_seed(0)
        layer, x = torch.nn.Linear(32, 32).to(DEVICE), torch.randn(8, 16, 32, device=DEVICE)
        found = []
        for backend in ("inductor", snug.torch.backend(snug.torch.plan(whole, x, resident_bytes=0, mode="inductor").smallest_bytes, resident_bytes=0, mode="inductor")):
            torch._dynamo.reset()
            layer.zero_grad()
            torch.compile(whole, backend=backend)(x).backward()
            found.append([each.grad for each in layer.parameters()])
        self.check_bytes(backend)
        self.assertLess(distance(*found), 1e-6 * length(found[0]))

    def test_checks(self):
        """F.one_hot has one: a kernel that is there for its effect, and makes nothing that anyone reads."""
        class Classes(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))

            def forward(self, x, classes):
                for layer in self.layers:
                    x = torch.tanh(layer(x)).sin()
                return (x - F.one_hot(classes, 32).float()).square().mean()

        torch.manual_seed(0)
        model, x, classes = Classes().to(DEVICE), torch.randn(512, 32, device=DEVICE), torch.randint(0, 32, (512,), device=DEVICE)
        plan = snug.torch.plan(model, (x, classes), resident_bytes=0, mode="inductor")
        self.assertLess(plan.smallest_bytes, plan.keep_all_bytes)
        found = []
        for backend in ("inductor", snug.torch.backend(plan.smallest_bytes, resident_bytes=0, mode="inductor")):
            torch._dynamo.reset()
            model.zero_grad()
            torch.compile(model, backend=backend)(x, classes).backward()
            found.append([each.grad for each in model.parameters()])
        self.assertGreater(self.check_bytes(backend).runs_again, 0)
        self.assertLess(distance(*found), 1e-6 * length(found[0]))

    def test_vectors_that_are_not_full(self):
        """A state space of four numbers, whose scan is made again in one kernel: PyTorch 2.15 computes it wrongly where the rest of a loop is on vectors, too."""
        from transformers import MambaConfig, MambaForCausalLM
        torch.manual_seed(0)
        ids = torch.randint(3, 100, (2, 8), device=DEVICE)
        model = MambaForCausalLM(MambaConfig(vocab_size=100, hidden_size=32, num_hidden_layers=2, state_size=4, use_cache=False)).train().to(DEVICE)
        found = []
        memory = 1 << 40
        for _ in range(2):
            torch._dynamo.reset()
            model.zero_grad()
            backend = snug.torch.backend(memory, resident_bytes=0, mode="inductor")
            torch.compile(model, backend=backend)(input_ids=ids, labels=ids).loss.backward()
            found.append([each.grad for each in model.parameters()])
            (plan,) = backend.plans
            memory = plan.peak_bytes * 7 // 8
        self.assertGreater(plan.runs_again, 0)
        for wanted, each in zip(*found):
            self.assertLess(distance([wanted], [each]), 1e-4 * length([wanted]))

    def test_what_writes_its_operand_takes(self):
        """Of scatter_reduce, which has no kernel of Inductor's."""
        layer, x = torch.nn.Linear(64, 64).to(DEVICE), torch.randn(128, 64, device=DEVICE)
        places = torch.randint(0, 128, (128, 64), device=DEVICE)
        backend = snug.torch.backend(1 << 40, resident_bytes=0, mode="inductor")
        torch.compile(lambda x: layer(x).scatter_reduce(0, places, x, "mean").sin().mean(), backend=backend)(x).backward()
        self.check_bytes(backend)

    def test_read_while_it_is_compiled(self):
        """What PyTorch's partition takes is read from what Inductor compiles; where that misses the budget after all, others are lowered."""
        case = Case("custom")
        whole = self.backend(case, 1 << 40)
        with mock.patch("snug.torch._candidates.lowered", side_effect=AssertionError("nothing is lowered")):
            wanted = case.gradients(case.compiled(whole))
        plan = self.check_bytes(whole)
        base = plan.resident.total
        for share in (0.9, 0.76):  # the backward part misses, or both do
            less = self.backend(case, base + int(share * (plan.peak_bytes - base)))
            with mock.patch("snug.torch._candidates.Candidates.surely_fits", return_value=True):
                found = case.gradients(case.compiled(less))
            smaller = self.check_bytes(less)
            self.assertLessEqual(smaller.peak_bytes, less.memory)
            self.assertTrue(smaller.report["schedule"])
            self.assertLess(distance(wanted, found), 1e-6 * length(wanted))

    def test_plan_before_anything_runs(self):
        case = Case("custom")
        whole = snug.torch.plan(case.model, case.batch, optimizer=case.optimizer, mode="inductor")
        self.assertIsNone(whole.region)
        peaks, times = ([row[key] for row in whole.price_list] for key in ("peak_bytes", "milliseconds"))
        self.assertGreater(len(peaks), 1)
        self.assertEqual((peaks, times), (sorted(peaks), sorted(times, reverse=True)))
        memory = (whole.smallest_bytes + 3 * whole.keep_all_bytes) // 4
        planned = snug.torch.plan(case.model, case.batch, optimizer=case.optimizer, memory=memory, mode="inductor")
        backend = self.backend(case, memory)
        case.gradients(case.compiled(backend))
        self.assertEqual(planned.peak_bytes, self.check_bytes(backend).peak_bytes)
        self.assertEqual(planned.region.report["schedule"], backend.plans[0].report["schedule"])
        self.assertEqual(max(max(each) for each in planned.region.levels), max(planned.region.forward_peak_bytes, planned.region.backward_peak_bytes))
        self.assertRegex(str(planned), "compiles a partition of the planner's, of . lowered")
        self.assertEqual(planned.to_html().count("<svg"), 2)

    def test_more_bytes_never_cost_more(self):
        """Even where estimates say the contrary: here, what makes more again is the faster for it, but for PyTorch's partition, which is lowered first."""
        case = Case("custom")
        parts = []

        def planned(memory, prices=0):
            parts.clear()
            return outlook(case.model, case.batch, self.backend(case, memory), None, prices=prices)

        def reverse(graph, *_):
            parts.append(graph)
            return 1.0 if len(parts) <= 2 else 1000.0 / sum(len(node.get_nodes()) for node in graph.scheduler.nodes)

        with mock.patch("snug.torch._lowered.milliseconds", reverse):
            whole = planned(1 << 40, prices=1)
            least, most = whole.price_list[0]["peak_bytes"], whole.region.peak_bytes
            plans = [planned(least + i * (most - least) // 3).region for i in range(4)]
        costs = [plan.milliseconds for plan in plans]
        self.assertEqual(costs, sorted(costs, reverse=True))
        self.assertGreater(len({plan.peak_bytes for plan in plans}), 2)
        self.assertGreater(costs[0], 2 * costs[-1])
        for plan in plans:
            self.assertLessEqual(plan.peak_bytes, plan.memory)
            self.assertAlmostEqual(plan.overhead, plan.milliseconds / costs[-1] - 1)  # PyTorch's partition fits with the most

    @unittest.skipIf(DEVICE != "cpu", "a GPU's kernels are written")
    def test_kernels_that_nobody_runs(self):
        """Written or not: the same buffers, in place of each other or local to a kernel, the same operands of each call, the same time."""
        def told(graph):
            with V.set_graph_handler(graph):
                part = live(graph, {}, [], mock.Mock(of=lambda *_: mock.Mock(scratch=0, cost=1.0, storages=None)))
                calls = [sorted(map(str, line.call_args)) for line in graph.wrapper_code.lines if isinstance(line, wrapper.KernelCallLine)]
                return part.levels, calls, milliseconds(graph, lambda kernel: 1.0, 1e6, "cpu"), graph.removed_buffers

        def both(module, inputs, is_backward):
            with mock.patch("snug.torch._lowered.kernels_without_text", contextlib.nullcontext):
                written = generate(copy.deepcopy(module), inputs, is_backward)
            found = generate(module, inputs, is_backward)
            seen.append(told(found))
            self.assertEqual(seen[-1], told(written))
            return found

        case, seen = Case("autocast"), []
        with mock.patch("snug.torch._lowered.generate", both):
            snug.torch.plan(case.model, case.batch, optimizer=case.optimizer, mode="inductor")
            classes = torch.arange(8, device=DEVICE)
            snug.torch.plan(lambda x: (x.sin() - F.one_hot(classes, 8).float()).square().mean(), torch.randn(8, 8, device=DEVICE, requires_grad=True),
                            resident_bytes=0, mode="inductor")
        self.assertGreaterEqual(len(seen), 6)
        self.assertTrue(any(removed for _, _, _, removed in seen))

    def test_time_of_kernels(self):
        """A library's kernels by their prices; ops that share one of Inductor's go through memory once, and do their arithmetic."""
        def times(function):
            mode = FakeTensorMode()
            with mode:
                x = torch.empty(256, 256, device=DEVICE)
            with torch._guards.tracing(torch._guards.TracingContext(mode)), V.set_fake_mode(mode):
                graph = generate(make_fx(function)(x), [x], False)
                with V.set_graph_handler(graph):
                    return [milliseconds(graph, lambda kernel: 5.0, 1e6, kind) for kind in ("cuda", "cpu")]

        size = 256 * 256 * 4
        bytes_only, with_arithmetic = times(lambda x: (x.sin().cos().exp(),))
        self.assertAlmostEqual(bytes_only, 2 * size / 1e6)
        self.assertGreater(with_arithmetic, bytes_only)
        self.assertGreater(times(lambda x: (x.sin().cos().tanh(),))[1], with_arithmetic)
        self.assertAlmostEqual(times(lambda x: (x.mm(x).sin().cos().exp(),))[0], 5.0 + 2 * size / 1e6)

    def test_refused_with_ways(self):
        """Half of the batch takes less; the ops one by one do not fit either."""
        case = Case("custom")
        exact = snug.torch.plan(case.model, case.batch, optimizer=case.optimizer)
        with self.assertRaises(snug.DoesNotFit) as caught:
            snug.torch.plan(case.model, case.batch, optimizer=case.optimizer, memory=exact.smallest_bytes - 4096, mode="inductor")
        ways = caught.exception.ways
        self.assertIn("micro_batches", [key for way in ways for key in way.keys])
        self.assertTrue(all(way.least_bytes < exact.smallest_bytes for way in ways))

    def test_parameters_stay(self):
        """Inductor orders ops by what they let go of: it is told which inputs are parameters, and gets them, not views of them, in the backward part."""
        case = Case("custom")
        seen = []

        def spied(module, inputs, **words):
            values = {node: node.meta["val"] for node in (*module.graph.find_nodes(op="placeholder"), *module.graph.output_node().all_input_nodes)}
            given = {value.untyped_storage()._cdata for node, value in values.items() if node.op == "placeholder" and isinstance(value, torch.Tensor)}
            views = [node.name for node, value in values.items() if node.op != "placeholder" and value.untyped_storage()._cdata in given]
            seen.append((words.get("is_backward", False), list(words["static_input_idxs"]), views))
            return compile_fx_inner(module, inputs, **words)

        whole = self.backend(case, 1 << 40)
        with mock.patch.object(_fused, "compile_fx_inner", spied):
            case.gradients(case.compiled(whole))
            base, top = whole.plans[0].resident.total, whole.plans[0].peak_bytes
            backend = self.backend(case, base + int(0.8 * (top - base)))
            case.gradients(case.compiled(backend))
        self.assertGreater(backend.plans[0].runs_again, 0)
        forward = [each for each in seen if not each[0]]
        self.assertEqual(len(forward), 2)
        for _, fixed, views in forward:
            self.assertEqual(len(fixed), len(case.trained))
            self.assertEqual(views, [])

    @whole_matrix
    def test_bfloat16(self):
        """What is saved decides what Inductor rounds. Strictly, it rounds as the ops one by one do."""
        model = models.Autocast(models.Custom()).to(DEVICE)
        x = models.pictures(8, 1, 128).reshape(1024, 128).to(DEVICE)
        optimizer = torch.optim.AdamW(model.parameters())

        def gradients(run, x=x):
            model.zero_grad(set_to_none=True)
            run(x=x).backward()
            return [each.grad.clone() for each in model.parameters()]

        def within(memory, numerics):
            torch._dynamo.reset()
            backend = snug.torch.backend(memory, optimizer=optimizer, mode="inductor", numerics=numerics)
            found = gradients(torch.compile(model, backend=backend, dynamic=False))
            return found, self.check_bytes(backend)

        eager = gradients(model)
        found, whole = within(1 << 40, "strict")
        self.assertTrue(equal(eager, found))
        memory = whole.resident.total + int(0.8 * (whole.peak_bytes - whole.resident.total))
        found, plan = within(memory, "strict")
        self.assertGreater(plan.runs_again, 0)
        self.assertTrue(equal(eager, found))
        found, plan = within(memory, "default")
        self.assertGreater(plan.runs_again, 0)
        exact = gradients(model.double().module, x.double())
        self.assertLess(distance(exact, found), 1.1 * distance(exact, eager))

    @whole_matrix
    def test_several_graphs(self):
        case = Case("broken")
        wanted = case.gradients(case.compiled("inductor"))
        whole = self.backend(case, 1 << 40, graphs="several")
        run = case.compiled(whole)
        for _ in range(3):
            found = case.gradients(run)
        self.assertTrue(equal(wanted, found))
        self.assertEqual([plan.rounds for plan in whole.plans], [1, 1, 1])
        base = whole.plans[0].resident.total
        top = max(plan.peak_bytes for plan in whole.plans)
        backend = self.backend(case, base + int(0.8 * (top - base)), graphs="several")
        run = case.compiled(backend)
        for _ in range(3):
            found = case.gradients(run)
        self.assertTrue(equal(found, case.gradients(run)))
        self.assertLess(distance(wanted, found), 1e-6 * length(wanted))
        for plan in backend.plans:
            self.assertLessEqual(max(plan.peak_bytes, plan.measured_forward_bytes, plan.measured_backward_bytes), backend.memory)
            self.assertLessEqual(plan.report["handed_bytes"], plan.allowance.crossing_bytes)
        self.assertGreater(sum(plan.runs_again for plan in backend.plans), 0)

    def test_gradients_that_wait(self):
        """Of two calls of a step: see graphs_test."""
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(128, 256), nn.Tanh(), nn.Linear(256, 128)).to(DEVICE)
        pair = [torch.randn(16, 128, device=DEVICE) for _ in range(2)]
        backend = snug.torch.backend(1 << 30, optimizer=torch.optim.SGD(net.parameters()), graphs="several", mode="inductor")
        run = torch.compile(net, backend=backend)
        taken = taken_by(lambda: (run(pair[0]) - run(pair[1])).square().mean().backward(), (*pair, *net.parameters()))
        (plan,) = backend.plans
        self.assertGreater(plan.allowance.waiting_gradients, 0)
        largest_sum = max(each.nbytes for each in net.parameters())  # which autograd may add in place, and no plan counts on that
        self.assertTrue(taken <= plan.peak_bytes < 1.12 * (taken + largest_sum))

    def test_draws_at_other_budgets(self):
        """Those by seeds, and those of ops that draw one by one: Inductor orders what it compiles by what lets go of most bytes, and may then exchange two of these."""
        def by_seed(y):
            return F.dropout(y) + torch.randn_like(y) * y

        def one_by_one(y):
            return F.rrelu(F.alpha_dropout(F.dropout2d(y.view(32, 6, 4, 8)).view(32, 6, 32), 0.5, True), training=True)

        torch.manual_seed(0)
        layers, x = nn.Sequential(*(nn.Sequential(nn.Linear(32, 32), nn.GELU()) for _ in range(2))).to(DEVICE), torch.randn(32, 6, 32, device=DEVICE)
        for drawn in (by_seed, one_by_one):
            losses, memory = [], 1 << 30
            with mock.patch.object(torch._inductor.memory, "reorder_for_peak_memory", wraps=torch._inductor.memory.reorder_for_peak_memory) as ordered:
                for _ in range(2):
                    torch._dynamo.reset()
                    backend = snug.torch.backend(memory, resident_bytes=0, mode="inductor")
                    torch.manual_seed(5)
                    losses.append(torch.compile(lambda: layers(drawn(layers(x))).square().mean(), backend=backend)())
                    losses[-1].backward()
                    (plan,) = backend.plans
                    memory = plan.peak_bytes * 3 // 4
            self.assertEqual((plan.mode, plan.runs_again > 0, ordered.called), ("inductor", True, drawn is by_seed))
            self.assertAlmostEqual(losses[0].item(), losses[1].item(), delta=1e-6 * abs(losses[0].item()))

    @whole_matrix
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
        smallest = []
        for memory in (plan.resident.total + 1000, 1):  # which does not even hold the update
            with self.assertRaises(snug.DoesNotFit) as caught:
                case.gradients(case.compiled(self.backend(case, memory)))
            smallest.append(caught.exception.smallest_bytes)
        self.assertGreater(smallest[0], plan.resident.total)
        self.assertEqual(*smallest)

    def test_wrong_uses(self):
        with self.assertRaisesRegex(snug.Error, 'mode.*is "inductor" with'):
            snug.torch.backend("1GiB", resident_bytes=0, mode="inductor", count="storages")
        with self.assertRaisesRegex(snug.Error, "numerics.*in any case"):
            snug.torch.backend("1GiB", resident_bytes=0, numerics="strict")
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

            def step(memory):
                done = subprocess.run([sys.executable, script, str(memory)], env=environment, check=True, capture_output=True, text=True)
                return tuple(map(int, done.stdout.split()[-2:]))

            case = Case("custom")
            whole = snug.torch.backend(1 << 40, optimizer=case.optimizer)
            case.gradients(case.compiled(whole))
            base, top = whole.plans[0].resident.total, whole.plans[0].peak_bytes
            self.assertEqual(step(top), (0, 2))
            self.assertEqual(step(top), (2, 0))
            less = base + int(0.7 * (top - base))
            self.assertEqual(step(less), (0, 2))
            self.assertEqual(step(less), (2, 0))


STEP = """
import sys

import torch
from torch._dynamo.utils import counters

import snug.torch
import models
from cases import Case

case = Case("custom")
backend = snug.torch.backend(int(sys.argv[1]), optimizer=case.optimizer, mode="inductor")
case.gradients(case.compiled(backend))
assert backend.plans[0].mode == "inductor"
print(counters["inductor"]["fxgraph_cache_hit"], counters["inductor"]["fxgraph_cache_miss"])
"""

if __name__ == "__main__":
    unittest.main()
