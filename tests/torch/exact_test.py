"""The backend of torch.compile: bits against the same graphs without a plan, bytes against what was planned. Every model keeps all, and then
trains at two budgets, the smallest among them; with SNUG_WHOLE_MATRIX=1 at five.

    ./test.sh --torch                    makes the environment and runs this
    python tests/torch/exact_test.py     in an environment with PyTorch, transformers and peft; SNUG_LIBRARY names the library
"""
import functools
import gc
import pathlib
import re
import tempfile
import unittest
import warnings

import torch
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import models
import snug
import snug.torch
from cases import DEVICE, WHOLE_MATRIX, Case, equal, gradients_of, loss_of, marked_model, taken_by

SHARES = (1.0, 0.8, 0.6, 0.4, 0.0) if WHOLE_MATRIX else (0.6, 0.0)  # of what lies between the resident bytes and keeping all
warnings.filterwarnings("ignore")


class Exact(unittest.TestCase):
    def budgets(self, case, traced):
        """Plans, from keeping all to the smallest that is found."""
        whole = case.backend(2**50)
        yield whole, case.gradients(traced.by(whole))
        self.assertEqual(len(whole.plans), 1)
        base, top = whole.plans[0].resident.total, whole.plans[0].peak_bytes
        for share in SHARES:
            memory = base + int(share * (top - base))
            try:
                backend = case.backend(memory)
                yield backend, case.gradients(traced.by(backend))
            except snug.DoesNotFit as error:
                self.assertGreater(error.smallest_bytes, memory)
                self.assertLessEqual(error.smallest_bytes, top)
                backend = case.backend(error.smallest_bytes)
                yield backend, case.gradients(traced.by(backend))
                return

    def check(self, name):
        case = Case(name)
        traced = case.traced()
        wanted = case.gradients(traced.by("aot_eager"))
        peaks, costs = [], []
        for backend, found in self.budgets(case, traced):
            (plan,) = backend.plans
            with self.subTest(memory=backend.memory):
                self.assertTrue(equal(wanted, found))
                self.assertLessEqual(plan.peak_bytes, backend.memory)
                self.assertEqual(plan.measured_forward_bytes, plan.forward_peak_bytes)
                self.assertEqual(plan.measured_backward_bytes, plan.backward_peak_bytes)
                peaks.append(plan.peak_bytes)
                costs.append(plan.milliseconds)
        self.assertLess(peaks[-1], peaks[0])
        self.assertEqual(costs, sorted(costs))  # less memory never costs less

    def test_within_ops(self):
        """With what ops allocate within, the peak of the allocator is below the plan, and hardly."""
        case = Case("bert")
        whole = snug.torch.plan(case.model, case.batch, optimizer=case.optimizer)
        memory = (whole.smallest_bytes + whole.keep_all_bytes) // 2
        backend = case.backend(memory, count="workspace")
        run = case.compiled(backend)

        def step():
            loss_of(run(**case.batch)).backward()
            case.optimizer.step()

        step()
        step()
        with snug.torch.measure() as measured:
            step()
        (plan,) = backend.plans
        self.assertGreaterEqual(measured.start_bytes, plan.resident.total)  # other tests leave tensors
        found, planned = measured.peak_bytes - measured.start_bytes, plan.peak_bytes - plan.resident.total
        self.assertLessEqual(found, planned)
        self.assertGreater(found, 0.98 * planned)

    def test_accumulation(self):
        case = Case("tied")
        wanted = case.gradients(case.compiled("aot_eager"), times=3)
        for share in (0.7, 0.5):
            backend = case.backend(int(share * 12e6))
            self.assertTrue(equal(wanted, case.gradients(case.compiled(backend), times=3)))

    def test_dropout_in_16_bits(self):
        """Taken apart, it is rounded as native_dropout rounds; 1 / (1 - rate) is no 16-bit number."""
        from snug.torch._dropout import apply_dropout
        for kind in (torch.bfloat16, torch.float16, torch.float32):
            for rate in (0.1, 0.3, 0.7):
                x = torch.randn(4096, device=DEVICE).to(kind)
                product, mask = torch.ops.aten.native_dropout.default(x, rate, True)
                self.assertTrue(torch.equal(product, apply_dropout(x, mask, 1.0 / (1.0 - rate))))

    def test_results_that_are_resident(self):
        """A buffer that is assigned to comes out of the graph again."""
        class Counting(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(48, 48)
                self.register_buffer("steps", torch.zeros((), dtype=torch.long))

            def forward(self, x):
                self.steps += 1
                return torch.tanh(self.layer(x)).square().mean()

        torch.manual_seed(0)
        model, x = Counting().to(DEVICE), torch.randn(20, 48, device=DEVICE)
        wanted = gradients_of(model, "aot_eager", x)
        backend = snug.torch.backend(1 << 40, resident_bytes=0, count="storages")
        self.assertTrue(equal(wanted, gradients_of(model, backend, x)))
        self.assertEqual(int(model.steps), 2)
        (plan,) = backend.plans
        self.assertEqual(plan.measured_backward_bytes, plan.backward_peak_bytes)

    def test_evaluation_is_left_alone(self):
        case = Case("resnet")
        case.model.eval()
        with torch.no_grad():
            wanted = loss_of(case.model(**case.batch))
            backend = case.backend(1 << 40)
            found = loss_of(case.compiled(backend)(**case.batch))
        self.assertTrue(torch.equal(wanted, found))
        self.assertEqual(backend.plans, [])

    def test_a_plan_for_every_shape(self):
        case = Case("tied")
        backend = case.backend(1 << 40)
        torch._dynamo.reset()
        run = torch.compile(case.model, backend=backend)
        reference = torch.compile(case.model, backend="aot_eager", dynamic=False)
        for rows in (8, 4, 6, 4, 8):
            batch = {"ids": case.batch["ids"][:rows].clone()}
            found = []
            for each in (reference, run):
                case.optimizer.zero_grad()
                torch.manual_seed(1)
                each(**batch).backward()
                found.append([parameter.grad.clone() for parameter in case.trained])
            self.assertTrue(equal(*found))
        self.assertEqual(len(backend.plans), 3)

    def test_too_many_shapes(self):
        case = Case("tied")
        torch._dynamo.reset()
        run = torch.compile(case.model, backend=case.backend(1 << 40))
        with self.assertRaisesRegex(snug.Error, "shapes.*new for the 9th time"):
            for length in range(8, 20):
                run(ids=case.batch["ids"][:2, :length].clone()).backward()

    def test_several_graphs(self):
        case = Case("broken")
        wanted = case.gradients(case.compiled("aot_eager"))
        whole = case.backend(1 << 40, graphs="several")
        run = case.compiled(whole)
        self.assertTrue(equal(wanted, case.gradients(run)))
        self.assertTrue(equal(wanted, case.gradients(run)))
        self.assertEqual(len(whole.plans), 3)
        base = whole.plans[0].resident.total
        top = max(plan.measured_forward_bytes for plan in whole.plans)
        backend = case.backend(base + int(0.8 * (top - base)), graphs="several")
        run = case.compiled(backend)
        for _ in range(3):
            self.assertTrue(equal(wanted, case.gradients(run)))
        for plan in backend.plans:
            self.assertLessEqual(plan.peak_bytes, backend.memory)
            self.assertGreater(plan.allowance.crossing_bytes, 0)
        self.assertGreater(sum(plan.runs_again for plan in backend.plans), 0)
        with self.assertRaisesRegex(snug.Error, "more than one graph"):
            snug.torch.plan(case.model, case.batch, optimizer=case.optimizer)

    def test_blocks_compiled_apart(self):
        class Block(nn.Sequential):  # one of torch.nn itself, PyTorch may skip: uses_test.py
            def forward(self, x):
                return super().forward(x)

        torch.manual_seed(0)
        blocks = nn.ModuleList(Block(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)).to(DEVICE) for _ in range(4))
        x = torch.randn(128, 64, device=DEVICE)

        def step():
            for each in blocks.parameters():
                each.grad = None
            value = x
            for block in blocks:
                value = value + block(value)
            value.square().mean().backward()
            return [each.grad.clone() for each in blocks.parameters()]

        wanted = step()
        torch._dynamo.reset()
        backend = snug.torch.backend("3MiB", optimizer=torch.optim.SGD(blocks.parameters(), 0.1), graphs="several", count="storages")
        for block in blocks:
            block.compile(backend=backend)
        for _ in range(3):
            self.assertTrue(equal(wanted, step()))
        self.assertLessEqual(max(plan.peak_bytes for plan in backend.plans), backend.memory)

    def test_blocks_of_one_graph(self):
        """What the first block reads is there anyhow; what the others read, blocks before them made, and is kept for them."""
        class Block(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.norm, self.layer = torch.nn.LayerNorm(64), torch.nn.Linear(64, 64)

            def forward(self, x):
                return x + self.layer(self.norm(x)).tanh()

        blocks = torch.nn.Sequential(*(Block() for _ in range(6))).to(DEVICE)
        optimizer = torch.optim.SGD(blocks.parameters(), 0.1)
        x = torch.randn(1024, 64, device=DEVICE, requires_grad=True)

        def backend_of(memory):
            torch._dynamo.reset()
            backend = snug.torch.backend(memory, optimizer=optimizer, graphs="several")
            for block in blocks:
                block.compile(backend=backend)
            for _ in range(2):
                optimizer.zero_grad(set_to_none=False)
                blocks(x).mean().backward()
            return backend

        whole = backend_of(1 << 30)
        self.assertEqual([each.kept_input_bytes for each in whole.plans], [x.nbytes])
        with self.assertRaisesRegex(snug.DoesNotFit, "6 graphs of a step") as refused:
            backend_of(whole.plans[0].resident.total + 8 * x.nbytes)
        memory = refused.exception.smallest_bytes
        backend_of(memory)
        with snug.torch.measure() as measured:
            blocks(x).mean().backward()
        there = sum(each.nbytes for parameter in (*blocks.parameters(), x) for each in (parameter, parameter.grad))
        self.assertLessEqual(there + measured.peak_bytes - measured.start_bytes, memory)

    def test_gradients_that_must_not_be_there(self):
        case = Case("custom")
        backend = case.backend(1 << 40, grads="none")
        run = case.compiled(backend)
        case.gradients(run)
        with self.assertRaisesRegex(snug.Error, "zero_grad"):
            run(**case.batch)
        with_grads = case.backend(1 << 40)
        case.gradients(case.compiled(with_grads))
        self.assertEqual(with_grads.plans[0].resident.gradients - backend.plans[0].resident.gradients, sum(each.nbytes for each in case.trained))

    def test_a_second_forward_before_the_backward(self):
        case = Case("tied")
        whole = case.backend(1 << 40)
        case.gradients(case.compiled(whole))
        run = case.compiled(case.backend(whole.plans[0].peak_bytes))
        first = run(**case.batch)
        with self.assertRaisesRegex(snug.DoesNotFit, "backward parts that have not run"):
            run(**case.batch)
        first.backward()
        run(**case.batch).backward()

    def test_results_that_are_held_over_the_next_call(self):
        """Logits of earlier steps: a plan leaves room for them, once; those of ever more steps are refused."""
        case = Case("gpt2")
        whole = case.backend(1 << 40)
        wanted = case.gradients(case.compiled(whole))
        backend = case.backend(whole.plans[0].peak_bytes - 4096)
        run = case.compiled(backend)
        case.gradients(run)
        alone = backend.plans[0]
        kept = []

        def step():
            kept.append(run(**case.batch))
            loss_of(kept[-1]).backward()

        for _ in range(4):
            step()
        self.assertIs(backend.plans[0], alone)
        with self.assertWarnsRegex(UserWarning, "planned anew"):
            step()
        (beside,) = backend.plans
        self.assertEqual(beside.allowance.waiting_bytes, 4 * kept[0].logits.nbytes)
        self.assertEqual((beside.measured_forward_bytes, beside.measured_backward_bytes), (beside.forward_peak_bytes, beside.backward_peak_bytes))
        self.assertLessEqual(beside.peak_bytes, backend.memory)
        with self.assertRaisesRegex(snug.DoesNotFit, "whoever called them still has"):
            for _ in range(16):
                step()
        kept.clear()
        self.assertTrue(equal(wanted, case.gradients(run)))

    def test_retained_graphs(self):
        """Whether the first backward of a graph retains it or a later one."""
        for is_first in (True, False):
            torch._dynamo.reset()
            case = Case("custom")
            run = case.compiled(case.backend(1 << 40))
            if not is_first:
                case.gradients(run)
                case.model.zero_grad()
            loss = run(**case.batch)
            loss.backward(retain_graph=True)
            once = [each.grad.clone() for each in case.trained]
            loss.backward()
            for a, b in zip(once, case.trained):
                torch.testing.assert_close(2 * a, b.grad)

    def test_room_for_retained_graphs(self):
        """What crosses stays behind a backward part that retains it. Refused before anything runs, with the bytes that hold it, which are what is measured."""
        torch.manual_seed(0)
        layers = nn.Sequential(*(nn.Sequential(nn.Linear(32, 128), nn.Tanh(), nn.Linear(128, 32)) for _ in range(4))).to(DEVICE)
        x = torch.randn(256, 32, device=DEVICE)

        def losses(x):
            y = layers(x)
            return y.square().mean(), y.abs().mean()

        def steps(memory, mode):
            torch._dynamo.reset()
            run = torch.compile(losses, backend=snug.torch.backend(memory, resident_bytes=0, count="storages" if mode == "exact" else "workspace", mode=mode))

            def step():
                one, other = run(x)
                one.backward(retain_graph=True)
                other.backward()

            return taken_by(step, (x, *layers.parameters()))

        for mode in ("exact", "inductor"):
            with self.subTest(mode):
                layers.zero_grad()
                whole = snug.torch.plan(losses, x, loss=lambda both: both[0] + both[1], resident_bytes=0, mode=mode)
                for part in (0.3, 0.6, 0.98):
                    with self.assertRaisesRegex(snug.DoesNotFit, "backward part with retain_graph=True, which takes (?s:.*)hint: call backward once") as caught:
                        steps(int(whole.smallest_bytes + part * (whole.keep_all_bytes - whole.smallest_bytes)), mode)
                    self.assertTrue(all(each.grad is None for each in layers.parameters()))
                memory = caught.exception.smallest_bytes
                self.assertLess(memory, 1.25 * whole.keep_all_bytes)
                peak = steps(memory, mode)
                self.assertLessEqual(peak, memory)
                self.assertGreater(peak, 0.95 * memory)

    def test_gradients_that_are_parts_of_larger_tensors(self):
        """Of a soft prompt in front of what is embedded: autograd takes what it is given as .grad, with its whole storage. Parts that fill one stay there."""
        class Prompted(nn.Module):
            def __init__(self):
                super().__init__()
                self.prompt = nn.Parameter(torch.randn(1, 4, 32))
                self.parts = nn.ParameterList(torch.randn(32, 32) for _ in range(3))
                self.table = nn.Embedding(100, 32).requires_grad_(False)
                self.layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True).requires_grad_(False)

            def forward(self, ids):
                q, k, v = (self.layer(torch.cat([self.prompt, self.table(ids)], 1)) @ torch.cat(list(self.parts), 1)).chunk(3, -1)
                return (q * k + v).square().mean()

        torch.manual_seed(0)
        model, ids = Prompted().to(DEVICE), torch.randint(100, (1, 508), device=DEVICE)
        trained = [model.prompt, *model.parts]
        optimizer = torch.optim.AdamW(trained, lr=0.0)

        def gradients(run):
            model.zero_grad()
            run(ids).backward()
            return [each.grad.clone() for each in trained]

        wanted = gradients(torch.compile(model, backend="aot_eager"))
        for mode in ("exact", "inductor"):
            with self.subTest(mode):
                torch._dynamo.reset()
                model.zero_grad()
                backend = snug.torch.backend(1 << 40, optimizer=optimizer, mode=mode)
                run = torch.compile(model, backend=backend)
                found = gradients(run)
                if mode == "exact":
                    self.assertTrue(equal(wanted, found))
                for one, other in zip(wanted, found):
                    torch.testing.assert_close(one, other)
                self.assertEqual(model.prompt.grad.untyped_storage().nbytes(), model.prompt.nbytes)
                for _ in range(2):
                    run(ids).backward()
                    optimizer.step()
                gc.collect()
                with snug.torch.measure(DEVICE) as measured:
                    run(ids).backward()
                    optimizer.step()
                plan = backend.plans[0]
                self.assertLessEqual(measured.peak_bytes - measured.start_bytes + plan.resident.total, plan.peak_bytes)
                if mode == "exact":
                    results = backend.parts[0].backward.module.graph.output_node().all_input_nodes
                    copies = [node for node in results if node.target is torch.ops.aten.clone.default]
                    self.assertEqual([list(each.meta["val"].shape) for each in copies], [[1, 4, 32]])

    def test_results_that_lie_otherwise_than_traced(self):
        """Of batch norm of a transposed operand, on the CPU: what reads it as a view has no such strides, also under PyTorch's own aot_eager."""
        norm, linear = nn.BatchNorm1d(16).to(DEVICE), nn.Linear(16, 4).to(DEVICE)

        def loss(x):
            return linear(norm(x.transpose(1, 2)).transpose(1, 2)).square().mean()

        x = torch.randn(8, 12, 16, device=DEVICE)
        torch._dynamo.reset()
        try:
            torch.compile(loss, backend="aot_eager")(x)
        except RuntimeError:
            with self.assertRaisesRegex(snug.Error, r"graph\] cannot run view.*: _native_batch_norm_legit.* lies otherwise(?s:.*)hint: mode=.inductor."):
                torch._dynamo.reset()
                torch.compile(loss, backend=snug.torch.backend("1GiB", resident_bytes=0))(x)
        else:
            self.skipTest("PyTorch traces it as it is here")

    def test_gradients_of_the_loss_alone(self):
        case = Case("gpt2")
        wanted = case.gradients(case.compiled("aot_eager"))
        plans = []
        for differentiate in ("all", "loss"):
            backend = case.backend(1 << 40, differentiate=differentiate)
            run = case.compiled(backend)
            self.assertTrue(equal(wanted, case.gradients(run)))
            self.assertEqual(run(**case.batch).logits.requires_grad, differentiate == "all")
            plans += backend.plans
        logits = 4 * 64 * 512 * 4
        self.assertEqual(plans[0].tangent_bytes - plans[1].tangent_bytes, logits)
        self.assertLessEqual(plans[1].peak_bytes, plans[0].peak_bytes - logits)

    def test_marked_to_be_saved(self):
        """Products never run again."""
        model, x = marked_model({torch.ops.aten.addmm.default: CheckpointPolicy.MUST_SAVE})
        whole = snug.torch.plan(model, (x,), resident_bytes=0, count="storages")
        backend = snug.torch.backend(whole.smallest_bytes, resident_bytes=0, count="storages")
        torch.compile(model, backend=backend)(x).backward()
        (plan,) = backend.plans
        products = [step for step in plan.report["schedule"] if step.startswith("addmm")]
        self.assertEqual(len(products), len(set(products)))
        self.assertGreater(plan.runs_again, 0)

    def test_marked_to_be_made_again(self):
        """What is marked is not in memory between the parts, however many bytes there are, nor are views of it."""
        for marks, wanted_runs in (({}, 4), ({torch.ops.aten.tanh.default: CheckpointPolicy.MUST_RECOMPUTE}, 8)):
            model, x = marked_model(marks)
            wanted = gradients_of(model, "eager", x)
            smallest = snug.torch.plan(model, (x,), resident_bytes=0, count="storages").smallest_bytes
            for memory in (1 << 40, smallest):
                with self.subTest(marks=len(marks), memory=memory):
                    backend = snug.torch.backend(memory, resident_bytes=0, count="storages")
                    self.assertTrue(equal(wanted, gradients_of(model, backend, x)))
                    (plan,) = backend.plans
                    self.assertEqual(plan.measured_backward_bytes, plan.backward_peak_bytes)
                    named = re.compile(r"tanh(_\d+)?").fullmatch
                    if marks:
                        self.assertEqual([name for name in plan.report["crossing"] if named(name)], [])
                    if memory > smallest:
                        self.assertEqual(len([step for step in plan.report["schedule"] if named(step)]), wanted_runs)

    def test_a_loss_that_is_made_again(self):
        """Copies of what is marked are the first ops of the backward part."""
        class Whole(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(64, 64)

            def forward(self, x):
                def part(x):
                    return nn.functional.cross_entropy(torch.tanh(self.layer(x)), torch.arange(len(x), device=x.device))

                return checkpoint(part, x, use_reentrant=False, context_fn=functools.partial(create_selective_checkpoint_contexts, lambda *_, **__: CheckpointPolicy.MUST_RECOMPUTE))

        torch.manual_seed(0)
        model, x = Whole().to(DEVICE), torch.randn(32, 64, device=DEVICE)
        wanted = gradients_of(model, "eager", x)
        backend = snug.torch.backend(1 << 40, resident_bytes=0, count="storages")
        self.assertTrue(equal(wanted, gradients_of(model, backend, x)))
        (plan,) = backend.plans
        self.assertEqual(plan.report["crossing"], ["nll_loss_forward"])  # the loss itself
        self.assertEqual(plan.measured_backward_bytes, plan.backward_peak_bytes)

    def test_marks_that_change_numbers(self):
        model, x = marked_model({torch.ops.aten.native_dropout.default: CheckpointPolicy.MUST_RECOMPUTE}, rate=0.5)
        backend = snug.torch.backend(1 << 40, resident_bytes=0)
        with self.assertRaisesRegex(Exception, r"(?s)\(aten.native_dropout.default\).*MUST_RECOMPUTE and draws random numbers.*PREFER_RECOMPUTE"):
            gradients_of(model, backend, x)

    def test_planning_needs_no_run(self):
        case = Case("gpt2")
        state = torch.get_rng_state()
        plan = snug.torch.plan(case.model, case.batch, optimizer=case.optimizer, memory=1 << 40)
        self.assertTrue(torch.equal(state, torch.get_rng_state()))
        self.assertTrue(all(each.grad is None for each in case.trained))
        self.assertEqual(plan.peak_bytes, plan.region.peak_bytes)
        costs = [row["milliseconds"] for row in plan.price_list]
        self.assertEqual(costs, sorted(costs, reverse=True))
        self.assertIn("planned peak", str(plan))
        self.check_page(plan)
        with self.assertRaises(snug.DoesNotFit) as caught:
            snug.torch.plan(case.model, case.batch, optimizer=case.optimizer, memory=plan.smallest_bytes - (1 << 20))
        error = caught.exception
        self.assertEqual({key for way in error.ways for key in way.keys}, {"micro_batches", "autocast", "freeze", "optim_bits"})
        for way in error.ways:
            self.assertLess(way.least_bytes, plan.smallest_bytes)
            self.assertGreater(way.step_seconds, 0)
        halves = next(way.keys["micro_batches"] for way in error.ways if "micro_batches" in way.keys)
        piece = {key: value[: len(value) // halves] for key, value in case.batch.items()}
        backend = snug.torch.backend(plan.smallest_bytes - (1 << 20), optimizer=case.optimizer)
        loss_of(case.compiled(backend)(**piece)).backward()

    def test_a_backend_without_its_memory(self):
        torch._dynamo.reset()
        with self.assertRaisesRegex(Exception, r"\[backend\] is given to torch.compile without its memory\n *hint: backend=snug.torch.backend\(memory="):
            torch.compile(nn.Linear(8, 8).to(DEVICE), backend=snug.torch.backend)(torch.ones(2, 8, device=DEVICE))

    def test_refusals_say_where_it_is_dear(self):
        """Of a long chain little has to be kept, where all is made again and again."""
        torch._dynamo.reset()
        layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(24)).to(DEVICE)

        def loss(x):
            for layer in layers:
                x = torch.tanh(layer(x))
            return x.square().mean()

        x = torch.randn(2048, 8, device=DEVICE)
        whole = snug.torch.plan(loss, x, resident_bytes=0, count="storages")
        with self.assertRaisesRegex(snug.DoesNotFit, r"hint: memory=\d+ fits, and takes \d+\.\d times as long as keeping all; memory=\d+ takes 1\.\d\d times as long") as caught:
            torch.compile(loss, backend=snug.torch.backend(whole.smallest_bytes - 1000, resident_bytes=0, count="storages"))(x)
        memory, times = re.search(r"memory=(\d+) takes (\d\.\d\d) times", str(caught.exception)).groups()
        self.assertTrue(whole.smallest_bytes < int(memory) < whole.keep_all_bytes)
        plan = snug.torch.plan(loss, x, resident_bytes=0, count="storages", memory=int(memory)).region
        self.assertEqual(f"{1 + plan.overhead:.2f}", times)

    def check_page(self, plan):
        import matplotlib

        matplotlib.use("Agg")
        with tempfile.TemporaryDirectory() as folder:
            plan.save_html(pathlib.Path(folder, "plan.html"))
            page = pathlib.Path(folder, "plan.html").read_text()
            with self.assertRaisesRegex(snug.Error, "cannot be written"):
                plan.save_html(pathlib.Path(folder, "nowhere", "plan.html"))
        self.assertEqual(page.count("<svg"), 2)
        self.assertIn("planned peak", page)
        self.assertNotIn("<script", page)
        self.assertIn("&lt;svg", plan._repr_html_())

    def test_states_of_optimizers(self):
        """Counted before they exist, they are what they are when they do."""
        from snug.torch._resident import storages, update_bytes
        model = nn.Sequential(nn.Linear(96, 64), nn.Linear(64, 8)).to(DEVICE)
        device = torch.device(DEVICE)
        kinds = {"SGD": {"lr": 0.1}, "Adam": {}, "AdamW": {"amsgrad": True}, "Adafactor": {}, "RMSprop": {"momentum": 0.9}, "Adagrad": {}, "NAdam": {}, "RAdam": {}}
        for name, words in kinds.items():
            with self.subTest(optimizer=name):
                optimizer = getattr(torch.optim, name)(model.parameters(), **words)
                before = update_bytes(optimizer, device)
                for each in model.parameters():
                    each.grad = torch.ones_like(each)
                versions = [each._version for each in model.parameters()]
                update_bytes(optimizer, device)
                self.assertEqual(versions, [each._version for each in model.parameters()])
                optimizer.step()
                self.assertEqual(before.states, sum(storages(torch.utils._pytree.tree_leaves([*optimizer.state.values()]), device).values()))

    def test_wrong_uses(self):
        model = nn.Linear(4, 4)
        for words, text in (({"memory": "1GiB"}, "optimizer"), ({"memory": 0.5, "resident_bytes": 0}, "number of bytes"), ({"memory": "1.5", "resident_bytes": 0}, "number of bytes"),
                            ({"memory": True, "resident_bytes": 0}, "number of bytes"), ({"memory": -1, "resident_bytes": 0}, "below 0"),
                            ({"memory": 10**30, "resident_bytes": 0}, "which no device has"), ({"memory": "99999999TiB", "resident_bytes": 0}, "which no device has"),
                            ({"memory": "1GiB", "resident_bytes": 0, "grads": "maybe"}, "one of"), ({"memory": "1GiB", "resident_bytes": 0, "count": "all"}, "one of"),
                            ({"memory": "1GiB", "resident_bytes": 0, "graphs": 2}, "one of"), ({"memory": "1GiB", "resident_bytes": 0, "effort": "most"}, "one of")):
            with self.assertRaisesRegex(snug.Error, text):
                snug.torch.backend(**words)
        with self.assertRaisesRegex(snug.Error, "LBFGS.*cannot be counted"):
            snug.torch.plan(model, torch.ones(2, 4), loss=lambda result: result.sum(), optimizer=torch.optim.LBFGS(model.parameters()))
        with self.assertRaisesRegex(snug.DoesNotFit, "does not hold the update: parameters, gradients, results and what else is resident are"):
            snug.torch.plan(model, torch.ones(2, 4), memory=8, resident_bytes=0)
        for optimizer in ("AdamW", torch.optim.AdamW):
            with self.assertRaisesRegex(snug.Error, "optimizer.*no param_groups"):
                snug.torch.backend("1GiB", optimizer=optimizer)
        with self.assertRaisesRegex(Exception, "mode.*'max-autotune' of torch.compile"):
            torch.compile(model, backend=snug.torch.backend("1GiB", resident_bytes=0), mode="max-autotune")(torch.ones(2, 4))
        torch._dynamo.reset()
        with self.assertRaisesRegex(snug.Error, "differentiate.*no result of one number"):
            snug.torch.plan(model, torch.ones(2, 4), resident_bytes=0, differentiate="loss")
        with self.assertRaisesRegex(snug.Error, "differentiate.*no result of one number"):
            torch.compile(model, backend=snug.torch.backend("1GiB", resident_bytes=0, differentiate="loss"))(torch.ones(2, 4))
        for batch, text in ((None, "must be Tensor, not NoneType"), ({"y": 1}, "missing required positional argument"), ("text", "must be Tensor, not str"),
                            (torch.ones(2, 5), "a and b must have same reduction dim")):
            with self.assertRaisesRegex(snug.Error, f"cannot be called with this batch.*{text}"):
                snug.torch.plan(model, batch, resident_bytes=0)
        with self.assertRaisesRegex(snug.Error, "no gradient"):
            snug.torch.plan(model.requires_grad_(False), torch.ones(2, 4), resident_bytes=0)

    def test_what_is_not_understood(self):
        def branches(x):
            return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,)).sum()

        x = torch.ones(4, requires_grad=True)
        torch._dynamo.reset()
        with self.assertRaisesRegex(snug.Error, "cond\nhint: torch.where"):
            torch.compile(branches, backend=snug.torch.backend(1 << 40, resident_bytes=0))(x)

        @torch.library.custom_op("snug_tests::double", mutates_args={"y"})
        def double(x: torch.Tensor, y: torch.Tensor) -> None:
            y.copy_(2 * x)

        def doubled(x):
            y = torch.empty_like(x)
            double(x.detach(), y)
            return (x * y).sum()

        torch._dynamo.reset()
        with self.assertRaisesRegex(snug.Error, "calls snug_tests.double.default, which writes tensors in place"):
            torch.compile(doubled, backend=snug.torch.backend(1 << 40, resident_bytes=0))(x)
        torch._dynamo.reset()
        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True), self.assertRaisesRegex(snug.Error, "as many rows as its numbers say.*nonzero"):
            torch.compile(lambda x: x[x > 0].sum(), backend=snug.torch.backend(1 << 40, resident_bytes=0))(x)


def add(name):
    setattr(Exact, f"test_{name}", lambda self: self.check(name))


for each in models.MODELS:
    if each != "broken":  # several graphs: a test of its own
        add(each)

if __name__ == "__main__":
    unittest.main()
