"""What users do beside the models of exact_test.py: ops with effects, refusals that name a line of theirs.

    python tests/torch/uses_test.py     in an environment as for exact_test.py
"""
import copy
import gc
import pickle
import threading
import unittest
import warnings

import torch
from torch import nn
from torch.nn import functional as F

import snug
import snug.torch
from cases import DEVICE, OfFunction, equal, gradients_of, of_function
from snug.torch._numbers import Numbers

warnings.filterwarnings("ignore")
# Before it, PyTorch itself drops what only checks when it traces a graph: with aot_eager nothing is raised either.
KEEPS_CHECKS = torch.__version__ >= torch.torch_version.TorchVersion("2.15")


class Scaled(torch.Tensor):
    """Numbers, each row of which is multiplied by one of another tensor's."""

    @staticmethod
    def __new__(cls, numbers, scales):
        return torch.Tensor._make_wrapper_subclass(cls, numbers.shape, dtype=numbers.dtype, device=numbers.device)

    def __init__(self, numbers, scales):
        self.numbers, self.scales = numbers, scales

    def __tensor_flatten__(self):
        return ["numbers", "scales"], None

    @staticmethod
    def __tensor_unflatten__(parts, *_):
        return Scaled(parts["numbers"], parts["scales"])

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if function is torch.ops.aten.detach.default:
            return Scaled(args[0].numbers.detach(), args[0].scales.detach())
        plain = torch.utils._pytree.tree_map_only(Scaled, lambda leaf: leaf.numbers * leaf.scales, (args, kwargs or {}))
        return function(*plain[0], **plain[1])


def rows_by_kind(layer, x):
    """A loop that breaks graphs, which Dynamo leaves to eager mode as a whole."""
    made_of = torch.zeros_like(x)
    for kind in range(2):
        rows = torch.where((x.sum(1) > 0) == kind)[0]
        if len(rows) > 0:
            made_of = made_of.index_add(0, rows, layer(x[rows]))
    return made_of.sum()


class Uses(unittest.TestCase):
    def check(self, model, x):
        """Bits and bytes at the largest and the smallest budget."""
        wanted = gradients_of(model, "aot_eager", x)
        whole = snug.torch.plan(model, x, resident_bytes=0, count="storages")
        for memory in (whole.keep_all_bytes, whole.smallest_bytes):
            backend = snug.torch.backend(memory, resident_bytes=0, count="storages")
            self.assertTrue(equal(wanted, gradients_of(model, backend, x)))
            (plan,) = backend.plans
            self.assertEqual((plan.measured_forward_bytes, plan.measured_backward_bytes), (plan.forward_peak_bytes, plan.backward_peak_bytes))
        return backend

    def test_draws_come_in_their_order(self):
        """Of two branches the one that is drawn first is added last, and a result of the forward part comes behind both."""
        model, x = of_function(lambda layer, x: (lambda y: (F.dropout(layer(x)) + y).square().mean())(F.dropout(layer(x.sin()))))
        self.check(model, x)

    def test_assertions(self):
        """F.one_hot has two, which make nothing, and run in the forward part whatever the budget."""
        def one_hot(layer, x):
            classes = x[:, 0].abs().long()
            y = torch.tanh(layer(x))
            return (F.one_hot(classes, 8).float() @ torch.tanh(y[:8])).square().mean() + y.sin().mean()

        model, x = of_function(one_hot)
        backend = self.check(model, x)
        run = torch.compile(model, backend=backend)
        run(x).backward()
        if KEEPS_CHECKS:
            with self.assertRaisesRegex(RuntimeError, "smaller than num_classes"):
                run(x + 100)
        run(x).backward()

    def test_checks_of_linear_algebra(self):
        """Of their own results, in order, as in eager mode, in forward and backward part."""
        class Inverse(torch.autograd.Function):
            @staticmethod
            def forward(context, matrix):
                context.save_for_backward(matrix)
                return torch.linalg.inv(matrix)

            @staticmethod
            def backward(context, gradient):
                inverse = torch.linalg.inv(context.saved_tensors[0]).T
                return -inverse @ gradient @ inverse

        def algebra(layer, x):
            y = torch.tanh(layer(x))
            matrix = y.T @ y
            lower = torch.linalg.cholesky(matrix + torch.eye(16, device=x.device))
            return (torch.linalg.inv(matrix * x[0, 0]) @ lower + torch.linalg.solve(matrix.sin(), lower) + Inverse.apply(matrix.cos())).sin().mean()

        model, x = of_function(algebra)
        self.assertTrue(equal(gradients_of(model, "eager", x), gradients_of(model, "aot_eager", x)))
        backend = self.check(model, x)
        self.assertGreater(backend.plans[0].runs_again, 0)
        run = torch.compile(model, backend=backend)
        with torch.no_grad():
            self.assertTrue(torch.equal(run(x), model(x)))
        singular = x.clone()
        singular[0, 0] = 0
        for wrong, text in ((x * float("nan"), "linalg.cholesky: .*not positive-definite"), (singular, "linalg.inv: .*singular")):
            with self.assertRaisesRegex(torch.linalg.LinAlgError, text):
                model(wrong)
            if KEEPS_CHECKS:
                with self.assertRaisesRegex(torch.linalg.LinAlgError, text):
                    run(wrong)
        run(x).backward()

    def test_statistics_in_other_types(self):
        """Kernels of the CPU keep those of 16-bit numbers in the type of the weights, and write running ones in that of the buffers."""
        def normed(*layers):
            def function(layer, x):
                with torch.autocast(DEVICE, torch.bfloat16):
                    y = layer(x).reshape(8, 16, 2, 2)
                    for each in layers:
                        y = torch.tanh(each(y))
                return y.float().square().mean()

            return function

        for layers in ((nn.BatchNorm2d(16), nn.GroupNorm(4, 16), nn.InstanceNorm2d(16, affine=True)), (nn.LayerNorm([16, 2, 2]), nn.BatchNorm2d(16).eval()),
                       (nn.BatchNorm2d(16).bfloat16(), nn.GroupNorm(4, 16).bfloat16(), nn.InstanceNorm2d(16, affine=True, track_running_stats=True).bfloat16())):
            model, x = of_function(normed(*layers))
            model.norms = nn.ModuleList(layers).to(DEVICE)
            self.check(model, x)
            plan = snug.torch.plan(model, x, resident_bytes=0)
            self.assertEqual(plan.estimated, [])

    def test_views_of_storages_that_are_larger(self):
        """On the CPU, the gradient of unfold lies in a storage that had all its blocks."""
        def blocks(layer, x):
            y = torch.tanh(layer(x)).reshape(4, 16, 8, 1)
            return F.unfold(y, [3, 1], padding=[1, 0]).sin().reshape(4, 16, 24).square().mean()

        self.check(*of_function(blocks))

    def train(self, model, x, numbers, backend, **more):
        """The gradients of calls with so many numbers, and the plans."""
        torch._dynamo.reset()
        run = torch.compile(model, backend=backend, **more)
        found = []
        for each in numbers:
            model.zero_grad()
            run(x, *each).backward()
            found += [parameter.grad.clone() for parameter in model.parameters()]
        return found

    def test_floats_that_change(self):
        """Weights and temperatures: one plan serves those for which the graph is the same; what an op wants as a number is a constant."""
        class Weighted(OfFunction):
            def forward(self, x, weight, heat):
                return self.function(self.layer(x), weight, heat)

        numbers = [(0.1 * i, 1 + 0.5 * i) for i in range(1, 7)]
        for function, plans in ((lambda y, weight, heat: weight * torch.softmax(y / heat, -1).square().mean() + y.mean() * (weight + 1) ** 2, 2),
                                (lambda y, weight, heat: F.leaky_relu(y, heat).mean() * weight, 6)):
            torch.manual_seed(0)
            model, x = Weighted(function).to(DEVICE), torch.randn(32, 16, device=DEVICE)
            wanted = self.train(model, x, numbers, "eager")
            backend = snug.torch.backend("1MiB", resident_bytes=0)
            self.assertTrue(equal(wanted, self.train(model, x, numbers, backend)))
            self.assertEqual(len(backend.plans), plans)
        # With dynamic=True, what is a float of a module is a number, too.
        backend = snug.torch.backend("1MiB", resident_bytes=0)
        self.assertTrue(equal(wanted, self.train(model, x, numbers, backend, dynamic=True)))
        with self.assertRaisesRegex(snug.Error, "numbers.*new for the 9th time.*\nhint: a tensor in place of a float"):
            self.train(model, x, [(1.0, 0.1 * i) for i in range(1, 12)], snug.torch.backend("1MiB", resident_bytes=0))

    def test_numbers_behind_dynamos_limit(self):
        """With dynamic=False there is a graph for each number. Behind so many, Dynamo would run without a plan."""
        model, x = of_function(lambda layer, x: layer(x[0]).sin().mean() * x[1])
        for more in ({}, {"fullgraph": True}):
            torch._dynamo.reset()
            run = torch.compile(model, backend=snug.torch.backend("1MiB", resident_bytes=0), dynamic=False, **more)
            limit = torch._dynamo.config.recompile_limit
            for i in range(limit):
                run((x, 0.1 * i + 0.5)).backward()
            for _ in range(2):
                with self.assertRaisesRegex(snug.Error, f"recompile_limit. is {limit}.*forward .*cases.*without a plan\nhint: leave out dynamic=False") as raised:
                    run((x, 3.0))
                self.assertEqual((raised.exception.code, raised.exception.where), ("unsupported", "torch._dynamo.config.recompile_limit"))
            run((x, 0.5)).backward()  # what has a plan runs
        with self.assertLogs("torch._dynamo", "WARNING"), torch.no_grad():  # evaluation has none in any case
            self.assertTrue(torch.equal(torch.compile(model, backend=snug.torch.backend("1MiB", resident_bytes=0), dynamic=False)((x, 3.0)), model((x, 3.0))))

    def test_calls_that_dynamo_does_not_compile(self):
        model, x = of_function(lambda layer, x: layer(x[0]).sin().mean() * x[1])
        other = torch.compile(model, backend="eager", dynamic=False)
        with self.assertLogs("torch._dynamo", "WARNING"):
            for i in range(torch._dynamo.config.recompile_limit + 1):
                other((x, 0.1 * i + 0.5))
        run = torch.compile(model, backend=snug.torch.backend("1MiB", resident_bytes=0), dynamic=False)
        with self.assertRaisesRegex(snug.Error, "without compiling it, so there is no plan.*\nhint: .*reset"):
            run((x, 3.0))
        with torch.no_grad():
            run((x, 3.0))
        with torch.compiler.set_stance("force_eager"):
            run((x, 3.0)).backward()
        torch._dynamo.reset()
        run((x, 3.0)).backward()
        for _ in range(2):  # PyTorch's own reason, also where another call had it
            torch._dynamo.reset()
            odd, rows = of_function(rows_by_kind)
            with self.assertRaisesRegex(snug.Error, r"so there is no plan for it: .*aten.nonzero.*\nhint: leave that out of what is compiled.*; PyTorch: .*capture_dynamic_output_shape_ops"):
                torch.compile(odd, backend=snug.torch.backend("1MiB", resident_bytes=0))(rows)
        # What compiles nothing itself, and calls what does.
        inner = torch.compiler.disable(lambda x: run(x))
        torch.compile(lambda x: inner(x), backend=snug.torch.backend("1MiB", resident_bytes=0))((x, 3.0)).backward()
        # PyTorch 2.11 compiles no module that torch.nn defines itself, and 2.15 none behind one without ops: they have their outer function in common.
        torch._dynamo.reset()
        nothing, layers = nn.Identity(), nn.Sequential(nn.Linear(16, 16), nn.Tanh()).to(DEVICE)
        for each in (nothing, layers):
            each.compile(backend=snug.torch.backend("1MiB", resident_bytes=0))
        self.assertIs(nothing(x), x)
        with self.assertRaisesRegex(snug.Error, "without compiling it, so there is no plan.*\nhint: a function or module of your own"):
            layers(x)
        backend = snug.torch.backend("1MiB", resident_bytes=0)
        torch.compile(lambda x: layers.forward(x), backend=backend)(x).sum().backward()
        self.assertEqual(len(backend.plans), 1)

    def test_ops_outside_the_graphs_of_a_call(self):
        model, x = of_function(lambda layer, x: layer(x).tanh())
        outside = torch.compiler.disable(torch.sin)
        for each, is_outside in ((lambda x: model(x).square().mean(), False), (lambda x: outside(model(x)).mean(), True)):
            run = torch.compile(each, backend=snug.torch.backend("1MiB", resident_bytes=0))
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                for _ in range(3):
                    run(x).backward()
            self.assertEqual(any("outside the graphs of this call" in str(one.message) for one in told), is_outside)

    def test_what_a_graph_asks_of_a_number(self):
        numbers = Numbers([0])
        with numbers.traced([torch.tensor(2.0, dtype=torch.float64)]) as (number,):
            self.assertTrue(number.item() > 1)
        for value, holds in ((3.0, True), (0.5, False)):
            self.assertEqual(numbers.hold([torch.tensor(value, dtype=torch.float64)]), holds)

    def refused(self, function, text, **more):
        model, x = of_function(function)
        with self.assertRaisesRegex(snug.Error, text):
            snug.torch.plan(model, x, resident_bytes=0, **more)

    def test_refusals_name_the_line(self):
        def number(layer, x):
            return (layer(x) * layer(x).sum().item()).sum()

        def branch(layer, x):
            return layer(x).sum() if x.sum() > 0 else layer(x).mean()

        def rows(layer, x):
            return layer(x)[x > 0].sum()

        def heads(layer, x):
            return F.multi_head_attention_forward(layer(x), x, x, 16, 4 if bool((x == 0).all()) else 2, None, None, None, None, False, 0.0, layer.weight, layer.bias)[0].sum()

        here = r"uses_test\.py\", line \d+"
        self.refused(number, f"more than one graph.*item.*{here}.*: Dynamo does not(?s:.*)hint: .*several")
        self.refused(branch, f"more than one graph.*ata-dependent branching.*{here}.*: Detected")
        self.refused(rows, f"more than one graph.*ynamic shape operator.*{here}(?s:.*)hint: .*several")
        self.refused(heads, f"more than one graph.*item.*{here}")
        # With fullgraph=True, both are in the graph.
        for function, text in ((number, "number of the host.*_local_scalar_dense.*" + here + "(?s:.*)hint: leave out .item"), (rows, "as many rows as its numbers say.*nonzero.*" + here)):
            model, x = of_function(function)
            with self.assertRaisesRegex(snug.Error, text):
                torch.compile(model, backend=snug.torch.backend("1MiB", resident_bytes=0), fullgraph=True)(x)

    def test_what_is_planned_is_the_graph_that_trains(self):
        """A number that a graph made of itself breaks it, but for fullgraph=True."""
        def span(layer, x):
            y = torch.tanh(layer(x))
            width = torch.tensor(min(len(x), 8)).item()
            return y[:, 8 - width:].square().mean()

        self.refused(span, "more than one graph.*item(?s:.*)hint: .*several")
        model, x = of_function(span)
        wanted = gradients_of(model, "aot_eager", x)
        backend = snug.torch.backend("1MiB", resident_bytes=0, graphs="several")
        self.assertTrue(equal(wanted, gradients_of(model, backend, x)))
        self.assertGreater(len(backend.plans), 1)

    def test_a_range_of_a_tensor(self):
        """Longformer has one for its global attention: its length is a number, which Dynamo may leave in the graph. Outside of what is compiled, it trains."""
        def below(x):
            counts = (x > 0).sum(1)
            return torch.arange(counts.max(), device=x.device) < counts.unsqueeze(-1)

        def spans(below):
            return of_function(lambda layer, x: (layer(x).sum(1, keepdim=True) * below(x)).square().mean())

        for mode in ("exact", "inductor"):
            model, x = spans(below)
            with self.assertRaisesRegex(snug.Error, r"number of the host(?s:.*)hint: .*arange.*torch.compiler.disable"):
                torch.compile(model, backend=snug.torch.backend("1MiB", resident_bytes=0, mode=mode), fullgraph=True)(x)
            model, x = spans(torch.compiler.disable(below))
            for found, wanted in zip(gradients_of(model, snug.torch.backend("1MiB", resident_bytes=0, mode=mode, graphs="several"), x), gradients_of(model, "eager", x)):
                torch.testing.assert_close(found, wanted)

    def test_refusals_name_the_op(self):
        def printed(layer, x):
            y = layer(x)
            torch.ops.aten._print("here")
            return y.sum()

        self.refused(printed, r"uses_test\.py\", line \d+\)\] calls aten._print.default.*for an effect\nhint: leave it out")
        table = nn.EmbeddingBag(100, 16, sparse=True, device=DEVICE)
        self.refused(lambda layer, x: layer(table(x.abs().long())).sum(), "layout torch.sparse_coo.*\nhint: .*sparse=False")

    def test_nested_tensors_are_refused(self):
        layer = nn.Linear(16, 16, device=DEVICE)
        rows = torch.nested.nested_tensor([torch.ones(3, 16), torch.ones(5, 16)], layout=torch.jagged, device=DEVICE)

        def whole(rows):
            return layer(rows).values().square().mean()

        for train in (lambda: snug.torch.plan(whole, (rows,), resident_bytes=0), lambda: torch.compile(whole, backend=snug.torch.backend("1MiB", resident_bytes=0))(rows)):
            torch._dynamo.reset()
            with self.assertRaisesRegex(snug.Error, "inputs.*nested tensor.*\nhint: .*values"):
                train()

    def test_tensors_of_tensors_are_refused(self):
        """Such as weights of 8 bits with their scales, and shards."""
        def square(layer, x):
            return layer(x).square().mean()

        def is_refused(model, x, text):
            for mode in ("exact", "inductor"):
                for train in (lambda: snug.torch.plan(model, (x,), resident_bytes=0, mode=mode), lambda: torch.compile(model, backend=snug.torch.backend("1MiB", resident_bytes=0, mode=mode))(x)):
                    torch._dynamo.reset()
                    with self.assertRaisesRegex(snug.Error, text):
                        train()

        model, x = of_function(square)
        is_refused(model, Scaled(x, x[:1]), r"inputs.*\.Scaled of shape \(32, 16\), whose bytes lie in tensors of its own\nhint: plain tensors")
        model.layer.weight = nn.Parameter(Scaled(model.layer.weight.detach(), x[:1]), requires_grad=False)
        is_refused(model, x, r"parameters.*Scaled of shape \(16, 16\)")
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        try:
            from torch.distributed.tensor import Replicate, distribute_module, distribute_tensor
            mesh = torch.distributed.init_device_mesh(DEVICE, (1,))
            model, x = of_function(square)
            is_refused(distribute_module(model, mesh), distribute_tensor(x, mesh, [Replicate()]), r"DTensor of shape.*\nhint: .to_local\(\)")
        finally:
            torch.distributed.destroy_process_group()

    @unittest.skipIf(DEVICE == "cuda", "an op of the CPU")
    def test_a_fused_lstm_is_refused(self):
        model, x = nn.LSTM(16, 32), torch.ones(6, 4, 16)
        with torch._dynamo.config.patch(allow_rnn=True), self.assertRaisesRegex(snug.Error, "mkldnn_rnn_layer.*under autograd alone.*\nhint: a loop of nn.LSTMCell"):
            snug.torch.plan(model, x, loss=lambda result: result[0].square().mean(), resident_bytes=0)

    def test_results_at_the_update(self):
        """Who called the model has its results while the optimizer steps, and no more is in memory then than planned."""
        torch.manual_seed(0)
        model, x = nn.Linear(256, 2048).to(DEVICE), torch.randn(64, 256, device=DEVICE)

        def whole(x):
            logits = model(x)
            return logits.square().mean(), logits

        for kind in (torch.optim.AdamW, torch.optim.SGD):
            for grads in ("accumulate", "none"):
                torch._dynamo.reset()
                model.zero_grad()
                optimizer = kind(model.parameters(), lr=0.01)
                backend = snug.torch.backend("1GiB", optimizer=optimizer, grads=grads)
                run = torch.compile(whole, backend=backend)

                def step():
                    optimizer.zero_grad(set_to_none=grads == "none")
                    results = run(x)
                    results[0].backward()
                    optimizer.step()
                    return results

                step()
                step()
                if grads == "none":
                    model.zero_grad()
                gc.collect()
                with snug.torch.measure() as measured:
                    step()
                (plan,) = backend.plans
                resident = plan.resident.total
                others = measured.start_bytes - resident  # other tests leave tensors
                self.assertGreaterEqual(others, 0)
                self.assertLessEqual(measured.peak_bytes - others, plan.peak_bytes)
                if kind is torch.optim.AdamW:
                    self.assertEqual(plan.peak_bytes, plan.update_peak_bytes)
                    self.assertGreater(measured.peak_bytes - others, 0.99 * plan.peak_bytes)

    def test_a_view_that_is_returned_of_what_was_written_to(self):
        """Where AOTAutograd traces it behind the backward part, it is a result of the forward part."""
        def whole(x):
            y = layer(x)
            y.mul_(x)
            return y.sin().mean(), y, y.view(-1)

        torch.manual_seed(0)
        layer, x = nn.Linear(16, 16).to(DEVICE), torch.randn(32, 16, device=DEVICE)
        found = []
        for backend in ("aot_eager", snug.torch.backend("1MiB", resident_bytes=0), snug.torch.backend("1MiB", resident_bytes=0, mode="inductor")):
            torch._dynamo.reset()
            layer.zero_grad()
            loss, y, view = torch.compile(whole, backend=backend)(x)
            (loss + y.mean() + view.cos().mean()).backward()
            found.append([loss, y, view, layer.weight.grad])
        self.assertTrue(equal(found[0], found[1]))
        for some, others in zip(found[0], found[2]):
            torch.testing.assert_close(some, others)

    def test_graphs_that_garbage_holds_the_inputs_of(self):
        """Dynamo leaves cycles behind that hold what a frame had: the step has ended all the same, and its graphs share the memory."""
        class Part(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second = nn.Linear(16, 64), nn.Linear(64, 16)

            def forward(self, x):
                y = self.first(x).sin()
                torch._dynamo.graph_break()
                return self.second(y) + x

        torch.manual_seed(0)
        torch._dynamo.reset()
        model, x = nn.ModuleList(Part() for _ in range(3)).to(DEVICE), torch.randn(32, 16, device=DEVICE)

        def whole(x):
            for each in model:
                x = each(x)
            return x.square().mean()

        backend = snug.torch.backend("1MiB", resident_bytes=0, graphs="several")
        run = torch.compile(whole, backend=backend)
        kept = []
        gc.disable()
        try:
            for _ in range(3):
                run(x).backward()
                kept += [backend.is_learning, len(backend.order)]
        finally:
            gc.enable()
        self.assertEqual(kept, [True, kept[1], False, kept[1], False, kept[1]])

    def test_hooks_that_step(self):
        """They run while the engine has gradients beside `.grad`: an optimizer of all parameters, which is only counted, stands for them."""
        def train(mode, grads, is_kept):
            torch.manual_seed(0)
            torch._dynamo.reset()
            model, x = nn.Linear(128, 256).to(DEVICE), torch.randn(32, 128, device=DEVICE)
            optimizers = {each: torch.optim.AdamW([each]) for each in model.parameters()}

            def step(parameter):
                optimizers[parameter].step()
                optimizers[parameter].zero_grad(set_to_none=not is_kept)

            for each in model.parameters():
                each.register_post_accumulate_grad_hook(step)
            backend = snug.torch.backend("1GiB", optimizer=torch.optim.AdamW(model.parameters()), mode=mode, grads=grads)
            run = torch.compile(lambda x: model(x).square().mean(), backend=backend)
            for _ in range(2):
                run(x).backward()
            gc.collect()
            with snug.torch.measure() as measured:
                run(x).backward()
            (plan,) = backend.plans
            there = plan.resident.total - plan.resident.libraries - (0 if is_kept else plan.resident.gradients)  # other tests leave tensors
            self.assertLessEqual(measured.peak_bytes - (measured.start_bytes - there), plan.peak_bytes)

        with warnings.catch_warnings(action="error", category=UserWarning):
            for mode in ("exact", "inductor"):
                for grads, is_kept in (("accumulate", True), ("accumulate", False), ("none", False)):
                    train(mode, grads, is_kept)

    def test_hooks_that_are_not_seen(self):
        for register, text in (("register_hook", "register_hook.*resident_bytes="), ("register_post_accumulate_grad_hook", "states.*give optimizer=")):
            model, x = of_function(lambda layer, x: layer(x).square().mean())
            getattr(model.layer.weight, register)(lambda _: None)
            with self.assertWarnsRegex(UserWarning, text):
                snug.torch.plan(model, x, resident_bytes=0)
            torch._dynamo.reset()
            with self.assertWarnsRegex(UserWarning, text):
                torch.compile(model, backend=snug.torch.backend("1MiB", resident_bytes=0))(x).backward()

    def test_numbers_that_are_returned(self):
        """A number of a shape is none of the graph's tensors."""
        for mode in ("exact", "inductor"):
            for words in ({}, {"dynamic": True}):
                model, _ = of_function(lambda layer, x: (layer(x).square().mean(), {"rows": x.shape[0], "numbers": 2 * x.numel(), "text": "kept", "none": None}))
                run = torch.compile(model, backend=snug.torch.backend("1MiB", resident_bytes=0, mode=mode), **words)
                for rows in (32, 24, 16):
                    loss, counts = run(torch.randn(rows, 16, device=DEVICE))
                    loss.backward()
                    self.assertEqual(counts, {"rows": rows, "numbers": 32 * rows, "text": "kept", "none": None})

    def test_numbers_from_graph_to_graph(self):
        def halves(layer, x):
            y = layer(x)
            rows = 3 * y.shape[0]
            torch._dynamo.graph_break()
            return y.square().sum() / rows

        model, _ = of_function(halves)
        run = torch.compile(model, backend=snug.torch.backend("1MiB", resident_bytes=0, graphs="several"))
        for rows in (32, 24, 16):
            x = torch.randn(rows, 16, device=DEVICE)
            self.assertAlmostEqual(run(x).item(), model.layer(x).square().sum().item() / (3 * rows), places=5)

    def test_what_would_hold_several_graphs(self):
        """A refusal names bytes that fit; where the others are not known yet, those that one graph takes by itself."""
        parts = [nn.Sequential(nn.Linear(16, width), nn.Tanh(), nn.Linear(width, 16)).to(DEVICE) for width in (64, 64)]
        optimizer = torch.optim.AdamW([each for part in parts for each in part.parameters()])
        x = torch.randn(32, 16, device=DEVICE)

        def whole(x):
            y = parts[0](x)
            torch._dynamo.graph_break()
            return parts[1](y).square().mean()

        memory, refused = 1000, []
        while len(refused) < 4:
            torch._dynamo.reset()
            try:
                run = torch.compile(whole, backend=snug.torch.backend(memory, optimizer=optimizer, graphs="several", count="storages"))
                for _ in range(2):
                    run(x).backward()
                break
            except snug.DoesNotFit as error:
                self.assertGreater(error.smallest_bytes, memory)
                text = "memory={} fits" if "graphs of a step" in str(error) else "at least memory={}, which this graph takes by itself"
                self.assertIn(text.format(error.smallest_bytes), str(error))
                memory = error.smallest_bytes
                refused.append(str(error))
        self.assertTrue(any("graphs of a step" in each for each in refused), refused)
        self.assertLess(len(refused), 4)
        # By default a graph has all of the memory: what is said is of this one, behind which another follows.
        torch._dynamo.reset()
        lock = threading.Lock()

        def part(number, x):
            return parts[number](x)

        def locked(x):  # Dynamo does not trace it, but what it calls
            with lock:
                y = part(0, x)
            return part(1, y).square().mean()

        for function in (whole, locked):
            with self.subTest(function.__name__), self.assertRaisesRegex(snug.DoesNotFit, r'\nhint: memory=\d+ fits this graph; graphs="several" divides'):
                torch.compile(function, backend=snug.torch.backend(1000, optimizer=optimizer))(x)

    def test_transforms_around_what_is_compiled(self):
        model, x = of_function(lambda layer, x: layer(x).tanh())
        run = torch.compile(model, backend=snug.torch.backend("1MiB", resident_bytes=0))
        run(x).sum().backward()
        with self.assertRaisesRegex(snug.Error, "without compiling it.*\nhint: compile what calls torch.vmap"):
            torch.vmap(run)(x)

    def test_a_loss_elsewhere(self):
        """What it takes is in no plan, which is said; for a function of model and loss it is."""
        model, x = of_function(lambda layer, x: layer(x))

        def whole(x):
            return model(x).square().mean()

        with self.assertWarnsRegex(UserWarning, "the loss is computed elsewhere"):
            snug.torch.plan(model, x, resident_bytes=0)
        with self.assertWarnsRegex(UserWarning, "the loss is computed elsewhere"):
            torch.compile(model, backend=snug.torch.backend("1MiB", resident_bytes=0))(x)
        torch._dynamo.reset()
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            plans = [snug.torch.plan(model, x, resident_bytes=0, loss=lambda result: result.square().mean()), snug.torch.plan(whole, x, resident_bytes=0)]
            self.assertEqual(*(each.price_list[0]["peak_bytes"] for each in plans))
            torch.compile(whole, backend=snug.torch.backend(plans[0].smallest_bytes, resident_bytes=0))(x).backward()

    def test_calls_without_a_backward_part(self):
        """Nothing is remembered of those whose results nobody has."""
        model, x = of_function(lambda layer, x: layer(x).tanh().sum())
        backend = snug.torch.backend("1MiB", resident_bytes=0)
        run = torch.compile(model, backend=backend)
        for _ in range(20):
            run(x)
        (part,) = backend.parts
        self.assertLessEqual(max(len(part.pending), len(part.returned)), 2)

    def test_threads(self):
        """Two models, compiled at once."""
        models = [of_function(lambda layer, x: torch.tanh(layer(x)).square().mean()) for _ in range(2)]
        results = []

        def train(model, x):
            backend = snug.torch.backend("1MiB", resident_bytes=0)
            torch.compile(model, backend=backend)(x).backward()
            results.append(([each.grad for each in model.parameters()], len(backend.plans)))

        threads = [threading.Thread(target=train, args=each) for each in models]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        self.assertEqual([count for _, count in results], [1, 1])
        self.assertTrue(equal(results[0][0], results[1][0]))

    def test_copies_and_files(self):
        """They have the backend's settings, and nothing that is compiled."""
        model, x = of_function(lambda layer, x: F.cross_entropy(layer(x), torch.arange(len(x), device=x.device) % 4))
        backend = snug.torch.backend("1MiB", optimizer=torch.optim.AdamW(model.parameters()))
        run = torch.compile(model, backend=backend)
        run(x).backward()
        self.assertEqual(len(backend.plans), 1)
        for other in (copy.deepcopy(backend), pickle.loads(pickle.dumps(backend))):
            self.assertEqual((other.memory, other.plans), (1 << 20, []))
        again = copy.deepcopy(run)
        again.zero_grad()
        again(x).backward()
        self.assertTrue(equal([each.grad for each in model.parameters()], [each.grad for each in again.parameters()]))
        self.assertEqual(len(backend.plans), 1)


if __name__ == "__main__":
    unittest.main()
