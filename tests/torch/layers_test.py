"""Checkpointing by layer in eager mode; on several ranks: ranks_test.py.

    python tests/torch/layers_test.py     in an environment as for exact_test.py; a refusal of the example, with SNUG_WHOLE_MATRIX=1
"""
import copy
import gc
import inspect
import os
import pathlib
import pickle
import random
import subprocess
import sys
import tempfile
import unittest
import warnings
import weakref

import numpy
import torch

import snug
import snug.torch
from cases import DEVICE, WHOLE_MATRIX, deep, equal

warnings.filterwarnings("ignore")
MIB = 1 << 20


def gradients(model, batch):
    model.zero_grad()
    torch.manual_seed(1)
    model(**batch).loss.backward()
    return [each.grad.clone() for each in model.parameters()]


def with_caches():
    """Models that hand their layers a cache to write keys and values into, as they do unless use_cache=False."""
    from transformers import LlamaConfig, LlamaForCausalLM, T5Config, T5ForConditionalGeneration
    torch.manual_seed(0)
    ids = torch.randint(3, 100, (2, 8), device=DEVICE)
    sizes = dict(vocab_size=100, hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=2)
    yield LlamaForCausalLM(LlamaConfig(**sizes)).train().to(DEVICE), dict(input_ids=ids, labels=ids)
    yield T5ForConditionalGeneration(T5Config(vocab_size=100, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2, decoder_start_token_id=0)).train().to(DEVICE), dict(input_ids=ids, labels=ids)


class Layers(unittest.TestCase):
    def test_layers_that_write_to_a_cache(self):
        for model, batch in with_caches():
            wanted = gradients(model, batch)
            model.zero_grad()
            keys = [each.keys.clone() for each in getattr(model(**batch).past_key_values, "self_attention_cache", model(**batch).past_key_values).layers]
            whole = snug.torch.checkpoint(model, batch, memory="1GiB")
            self.assertLess(abs(whole.measured_bytes - whole.planned_bytes), 0.08 * whole.planned_bytes)  # keys and values count once, whether made again or not
            with self.assertRaisesRegex(snug.DoesNotFit, "hint: memory=.* fits; use_cache=False in the batch spares") as caught:
                snug.torch.checkpoint(model, batch, memory=1)
            plan = snug.torch.checkpoint(model, batch, memory=caught.exception.smallest_bytes)
            self.assertGreater(plan.checkpointed, 0)
            self.assertTrue(equal(wanted, gradients(model, batch)))
            result = model(**batch).past_key_values
            self.assertTrue(equal(keys, [each.keys for each in getattr(result, "self_attention_cache", result).layers]))

    def test_layers_within_layers(self):
        """Stages of Swin, and the layers within them: keeping all takes what is measured."""
        from transformers import SwinConfig, SwinForImageClassification
        torch.manual_seed(0)
        model = SwinForImageClassification(SwinConfig(image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 2], window_size=4)).train().to(DEVICE)
        batch = dict(pixel_values=torch.randn(2, 3, 32, 32, device=DEVICE), labels=torch.tensor([0, 1], device=DEVICE))
        plan = snug.torch.checkpoint(model, batch, memory="1GiB")
        self.assertEqual((plan.layers, plan.checkpointed), (4, 0))
        self.assertTrue(0.85 * plan.planned_bytes < plan.measured_bytes <= plan.planned_bytes)
        self.assertEqual(snug.torch.checkpoint(model, batch, memory=int(1.01 * plan.measured_bytes)).checkpointed, 0)

    def test_layers_that_are_dropped(self):
        """A plan holds for steps in which all of them run; the model drops its layers again behind it."""
        from transformers import HubertConfig, HubertForCTC, WhisperConfig, WhisperForConditionalGeneration
        torch.manual_seed(0)
        sizes = dict(vocab_size=50, num_hidden_layers=4, num_attention_heads=2, pad_token_id=0)
        hubert = HubertForCTC(HubertConfig(hidden_size=32, intermediate_size=64, conv_dim=[16, 16], conv_kernel=[8, 4], conv_stride=[5, 4], num_feat_extract_layers=2, num_conv_pos_embeddings=16,
                                           num_conv_pos_embedding_groups=2, layerdrop=0.5, apply_spec_augment=False, **sizes))
        whisper = WhisperForConditionalGeneration(WhisperConfig(d_model=32, encoder_layers=4, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64, num_mel_bins=8,
                                                                max_source_positions=100, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, encoder_layerdrop=0.5, **sizes))
        labels = torch.randint(3, 50, (2, 8), device=DEVICE)
        for model, batch in ((hubert, dict(input_values=torch.randn(2, 4000, device=DEVICE), labels=labels)),
                             (whisper, dict(input_features=torch.randn(2, 8, 200, device=DEVICE), labels=labels, use_cache=False))):
            model.train().to(DEVICE)
            plans = []
            for seed in range(3):
                torch.manual_seed(seed)
                plans.append(all_checkpointed(model, batch))
            self.assertEqual(len({(plan.memory, plan.checkpointed, plan.measured_bytes) for plan in plans}), 1)
            peaks = set()
            model(**batch).loss.backward()
            for _ in range(8):
                gc.collect()
                with snug.torch.measure(DEVICE) as measured:
                    model(**batch).loss.backward()
                peaks.add(measured.peak_bytes)
            self.assertLessEqual(max(peaks), plans[0].memory)
            self.assertGreater(len(peaks), 1)

    def test_layers_that_do_not_run_alike_in_each_step(self):
        class Skipping(torch.nn.Sequential):
            def forward(self, x):
                for layer in self:
                    if torch.rand(()) < 0.7:
                        x = layer(x)
                return x

        class Lazy(torch.nn.Module):
            def __init__(self, block):
                super().__init__()
                self.block = block

            def forward(self, x):
                return self.block(x) if torch.rand(()) < 0.5 else x.clone()

        torch.manual_seed(0)
        x = torch.randn(64, 32, device=DEVICE)
        model = Skipping(*blocks(12)).to(DEVICE)
        with self.assertRaisesRegex(snug.Error, r"(?s)layers\] do not run alike in each step \([0-9]+.*have all of them run while this is planned"):
            snug.torch.checkpoint(model, x, memory="1GiB", loss=square)
        self.assertFalse(any("forward" in vars(each) or each._forward_pre_hooks for each in model.modules()))
        with self.assertWarnsRegex(UserWarning, r"keep more in one step than in another \([0-9]+, .*\), as they draw") as caught:
            snug.torch.checkpoint(torch.nn.Sequential(*map(Lazy, blocks(12))).to(DEVICE), x, memory="1GiB", loss=square)
        self.assertEqual(caught.filename, __file__)

    def test_as_few_as_the_bytes_ask_for(self):
        model, batch = deep()
        wanted = gradients(model, batch)
        model.zero_grad()
        counts = []
        whole = snug.torch.checkpoint(model, batch, memory="4GiB")
        self.assertEqual(whole.checkpointed, 0)
        for part in (1.0, 0.8, 0.65, 0.55):
            plan = snug.torch.checkpoint(model, batch, memory=int(part * whole.measured_bytes))
            self.assertLessEqual(plan.measured_bytes, plan.memory)
            self.assertLess(abs(plan.measured_bytes - plan.planned_bytes), 0.05 * plan.planned_bytes)
            self.assertTrue(all(each.grad is None for each in model.parameters()))
            self.assertTrue(equal(wanted, gradients(model, batch)))
            model.zero_grad()
            counts.append(plan.checkpointed)
        self.assertEqual(counts, sorted(counts))
        self.assertGreater(counts[-1], counts[0])
        with self.assertRaises(snug.DoesNotFit) as caught:
            snug.torch.checkpoint(model, batch, memory=whole.measured_bytes // 5)
        again = snug.torch.checkpoint(model, batch, memory=caught.exception.smallest_bytes)
        self.assertGreaterEqual(again.checkpointed, again.layers - 1)  # the last one is made again at once, or kept

    def test_evaluation_and_wrong_uses(self):
        model, batch = deep(2)
        snug.torch.checkpoint(model, batch, memory="4GiB")
        model.eval()
        with self.assertRaisesRegex(snug.Error, "training mode"):
            snug.torch.checkpoint(model, batch, memory="4GiB")
        with self.assertRaisesRegex(snug.Error, "no two layers"):
            snug.torch.checkpoint(torch.nn.Linear(4, 4), torch.ones(2, 4), memory="4GiB")
        with self.assertRaisesRegex(snug.Error, "loss"):
            snug.torch.checkpoint(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)), torch.ones(2, 4), memory="4GiB")

    def test_the_example(self):
        """The same losses with and without a budget, which holds."""
        root = pathlib.Path(__file__).resolve().parents[2]
        losses = []
        for words in ([], ["80MiB"]):
            done = subprocess.run([sys.executable, root / "examples/python/torch_gpt.py", root / "LICENSE", *words], capture_output=True, text=True, timeout=900)
            self.assertEqual(done.returncode, 0, done.stderr[-2000:])
            lines = [line for line in done.stdout.splitlines() if line.startswith("update")]
            losses.append([line.split()[3].rstrip(",") for line in lines])
            peak = float(next(line for line in lines if "peak" in line).split("peak ")[1].split()[0])
            (self.assertLessEqual if words else self.assertGreater)(peak, 80)
        self.assertEqual(losses[0], losses[1])
        if not WHOLE_MATRIX:
            return
        done = subprocess.run([sys.executable, root / "examples/python/torch_gpt.py", root / "LICENSE", "60MiB"], capture_output=True, text=True, timeout=900)
        self.assertEqual(done.returncode, 1)
        self.assertIn("micro-batches", done.stderr)


def blocks(count=4, width=32):
    return [torch.nn.Sequential(torch.nn.Linear(width, 2 * width), torch.nn.GELU(), torch.nn.Linear(2 * width, width)) for _ in range(count)]


def square(result):
    return result.pow(2).mean()


def all_checkpointed(model, batch, **words):
    """With the smallest budget that the refusal names."""
    try:
        plan = snug.torch.checkpoint(model, batch, memory=1, **words)
    except snug.DoesNotFit as refused:
        plan = snug.torch.checkpoint(model, batch, memory=refused.smallest_bytes, **words)
    return plan


class Normed(torch.nn.Module):
    """Forward parts that write buffers in all ways: in place, by their data, and with new ones."""

    def __init__(self, width=16):
        super().__init__()
        self.linear = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(width, width))
        self.norm = torch.nn.BatchNorm1d(width, momentum=None)
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("count", torch.zeros(()), persistent=False)

    def forward(self, x):
        x = self.norm(self.linear(x)) * (1 + self.mean)
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        self.count.data.add_(1)
        return torch.tanh(x / self.count)


class InPlace(torch.nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.act, self.block = torch.nn.ReLU(inplace=True), blocks(1, width)[0]

    def forward(self, x):
        return self.block(self.act(x))


class Moody(torch.nn.Module):
    """Does one thing more each second time."""

    def __init__(self, width=32):
        super().__init__()
        self.linear, self.times = torch.nn.Linear(width, width), 0

    def forward(self, x):
        self.times += 1
        return self.linear(x) if self.times % 2 else self.linear(x).tanh()


class Copies(unittest.TestCase):
    def planned(self):
        torch.manual_seed(0)
        model, x = torch.nn.Sequential(*blocks()).to(DEVICE), torch.randn(64, 32, device=DEVICE)
        model[0].register_buffer("sparse", torch.eye(2).to_sparse(), persistent=False)  # PyTorch does not compare these
        keys = list(model.state_dict())
        self.assertGreater(all_checkpointed(model, x, loss=square).checkpointed, 2)
        self.assertEqual(list(model.state_dict()), keys)
        return model, x

    def test_a_copy_trains_its_own_layers(self):
        model, x = self.planned()
        for name, copied in (("deepcopy", copy.deepcopy(model)), ("twice", copy.deepcopy(copy.deepcopy(model))), ("pickle", pickle.loads(pickle.dumps(model)))):
            with self.subTest(name):
                plain = torch.nn.Sequential(*blocks()).to(DEVICE)
                plain.load_state_dict(model.state_dict())
                with torch.no_grad():
                    for each in (*plain[0].parameters(), *copied[0].parameters()):
                        each.mul_(0.5)
                with snug.torch.measure(DEVICE) as whole:
                    square(plain(x)).backward()
                with snug.torch.measure(DEVICE) as less:
                    square(copied(x)).backward()
                self.assertTrue(equal([each.grad for each in plain.parameters()], [each.grad for each in copied.parameters()]))
                self.assertTrue(all(each.grad is None for each in model.parameters()))
                if name != "pickle":  # of a file, a plan is not part
                    self.assertLess(less.peak_bytes - less.start_bytes, whole.peak_bytes - whole.start_bytes)

    def test_a_file_is_read_without_this_library(self):
        model, x = self.planned()
        model[0].forward = torch.nn.Sequential.forward.__get__(model[0])  # one that lies in the module itself
        all_checkpointed(model, x, loss=square)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "model.pt")
            torch.save((model, x), file)
            code = f"import torch; model, x = torch.load({str(file)!r}, weights_only=False); model(x).pow(2).mean().backward(); torch.save([p.grad for p in model.parameters()], {str(file)!r})"
            environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
            subprocess.run([sys.executable, "-c", code], check=True, env=environment, cwd=folder)
            square(model(x)).backward()
            self.assertTrue(equal([each.grad for each in model.parameters()], torch.load(file)))

    def test_hooks_run_once_and_modules_go_at_once(self):
        model, x = self.planned()
        calls = []
        model[1].register_forward_pre_hook(lambda *_: calls.append("before"))
        model[1].register_forward_hook(lambda *_: calls.append("behind"))
        square(model(x)).backward()
        self.assertEqual(calls, ["before", "behind"])
        self.assertEqual(inspect.signature(model[1].forward), inspect.signature(torch.nn.Sequential().forward))
        gc.collect()
        gc.disable()
        try:
            gone = weakref.ref(model[1])
            del model
            self.assertIsNone(gone())
        finally:
            gc.enable()

    def test_compiled_layers_and_none_any_more(self):
        model, x = self.planned()
        square(model(x)).backward()
        wanted = [each.grad.clone() for each in model.parameters()]
        model.zero_grad()
        torch._dynamo.reset()
        square(torch.compile(model, backend="aot_eager", fullgraph=True)(x)).backward()
        self.assertTrue(equal(wanted, [each.grad for each in model.parameters()]))
        self.assertEqual(snug.torch.checkpoint(model, x, memory="1GiB", loss=square).checkpointed, 0)
        self.assertFalse(any("forward" in vars(each) for each in model.modules()))


class Unchanged(unittest.TestCase):
    """What is as it was behind `checkpoint`, whatever ends it."""

    def state(self, model):
        buffers = list(model.named_buffers())
        return ([(name, id(each)) for name, each in buffers], [each.clone() for _, each in buffers], [each.detach().clone() for each in model.parameters()],
                [id(each.grad) for each in model.parameters()], [each.grad.clone() for each in model.parameters() if each.grad is not None],
                torch.get_rng_state(), random.getstate(), str(numpy.random.get_state()), [vars(each).get("forward") for each in model.modules()])

    def assert_same(self, before, after):
        for one, other in zip(before, after, strict=True):
            self.assertTrue(torch.equal(one, other) if isinstance(one, torch.Tensor) else equal(one, other) if one and isinstance(one[0], torch.Tensor) else one == other)

    def test_whatever_ends_it(self):
        def drawing(result):
            random.random(), numpy.random.rand()
            return square(result)

        def raising(error):
            def loss(result):
                raise error
            return loss

        class Late(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, gradient):
                raise KeyboardInterrupt

        torch.manual_seed(0)
        model, x = torch.nn.Sequential(*(Normed() for _ in range(4))).train().to(DEVICE), torch.randn(512, 16, device=DEVICE)
        for is_planned in (False, True):
            if is_planned:
                self.assertGreater(all_checkpointed(model, x, loss=square).checkpointed, 0)
            square(model(x)).backward()  # gradients are there
            before = self.state(model)
            if not is_planned:
                snug.torch.checkpoint(model, x, memory="1GiB", loss=drawing)
                self.assert_same(before, self.state(model))
            for wanted, words in ((snug.DoesNotFit, dict(memory=1, loss=drawing)), (ZeroDivisionError, dict(memory="1GiB", loss=raising(ZeroDivisionError()))),
                                  (KeyboardInterrupt, dict(memory="1GiB", loss=raising(KeyboardInterrupt()))), (snug.Error, dict(memory="1GiB")),
                                  (KeyboardInterrupt, dict(memory="1GiB", loss=lambda result: square(Late.apply(result))))):
                with self.subTest(wanted.__name__, is_planned=is_planned), self.assertRaises(wanted):
                    snug.torch.checkpoint(model, x, **words)
                self.assert_same(before, self.state(model))

    def test_hooks_that_step(self):
        torch.manual_seed(0)
        model, x = torch.nn.Sequential(*blocks()).to(DEVICE), torch.randn(16, 32, device=DEVICE)
        optimizers = {each: torch.optim.AdamW([each]) for each in model.parameters()}
        calls = []

        def step(parameter):
            calls.append(parameter)
            optimizers[parameter].step()
            optimizers[parameter].zero_grad()

        def change(parameter):
            def hook(gradient):
                calls.append(parameter)
                parameter.data -= gradient
            return hook

        for each in model.parameters():
            each.register_post_accumulate_grad_hook(step)
        next(model.parameters()).register_hook(change(next(model.parameters())))
        before = self.state(model)
        counted = torch.optim.AdamW(model.parameters())
        plan = all_checkpointed(model, x, loss=square, optimizer=counted)
        self.assert_same(before[:-1], self.state(model)[:-1])
        self.assertEqual((calls, sum(len(each.state) for each in optimizers.values())), ([], 0))
        for _ in range(2):
            gc.collect()
            with snug.torch.measure(DEVICE) as measured:
                square(model(x)).backward()
            self.assertLessEqual(measured.peak_bytes, plan.memory)
        self.assertEqual(len(calls), 2 * (1 + len(optimizers)))

    def test_layers_that_write_what_they_are_given(self):
        torch.manual_seed(0)
        model, x = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Sequential(*(InPlace() for _ in range(6)))).to(DEVICE), torch.randn(256, 32, device=DEVICE)
        square(model(x)).backward()
        wanted = [each.grad.clone() for each in model.parameters()]
        model.zero_grad()
        plan = snug.torch.checkpoint(model, x, memory="1GiB", loss=square)
        self.assertEqual((plan.layers, plan.checkpointed, plan.left_out), (6, 0, [f"1.{i}" for i in range(6)]))
        self.assertRegex(str(plan), r"6 cannot run again \(1.0, 1.1, 1.2, ...\): what they are given is written in place")
        with self.assertRaisesRegex(snug.DoesNotFit, r"with 0 of 6 layers checkpointed\nhint: .*6 cannot run again .*inplace=True"):
            snug.torch.checkpoint(model, x, memory=1, loss=square)
        for each in model[1][:4]:
            each.act.inplace = False
        plan = all_checkpointed(model, x, loss=square)
        self.assertEqual(plan.left_out, ["1.4", "1.5"])
        self.assertIn(plan.checkpointed, (3, 4))  # the last one is made again at once, or kept
        square(model(x)).backward()
        self.assertTrue(equal(wanted, [each.grad for each in model.parameters()]))

    def test_a_layer_that_does_another_thing_again(self):
        torch.manual_seed(0)
        model, x = torch.nn.Sequential(*(Moody() for _ in range(4))).to(DEVICE), torch.randn(256, 32, device=DEVICE)
        model[0].forward = model[1].forward = lambda x: x.sin()
        with self.assertRaisesRegex(snug.Error, "[23] does not compute the same when it runs again"):
            snug.torch.checkpoint(model, x, memory=1, loss=square)
        square(model(x)).backward()


class Statistics(unittest.TestCase):
    def test_what_layers_write_is_what_eager_mode_writes(self):
        """To the bit, and gradients as well: spectral_norm computes its weight of a buffer that it writes."""
        torch.manual_seed(0)
        model, x = torch.nn.Sequential(*(Normed() for _ in range(4))).train().to(DEVICE), torch.randn(512, 16, device=DEVICE)
        plain = copy.deepcopy(model)
        self.assertGreater(all_checkpointed(model, x, loss=square).checkpointed, 0)
        objects = [each.count for each in model]
        for model_or_plain in (model, plain):
            optimizer = torch.optim.SGD(model_or_plain.parameters(), 0.1)
            for i in range(3):
                value = square(model_or_plain(x + i))
                value.backward(retain_graph=i == 1)
                if i == 1:
                    value.backward()
                optimizer.step()
        self.assertTrue(equal(list(plain.parameters()), list(model.parameters())))
        self.assertTrue(equal(list(plain.buffers()), list(model.buffers())))
        self.assertTrue(all(one is each.count for one, each in zip(objects, model)))  # what was written in place is where it was


class Update(unittest.TestCase):
    def test_what_the_optimizer_takes(self):
        """As much as plan says, which refuses in the same words; states that are there count once."""
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.table, self.layers = torch.nn.Embedding(5000, 32), torch.nn.Sequential(*blocks())

            def forward(self, ids):
                return square(self.layers(self.table(ids)))

        torch.manual_seed(0)
        model, ids = Net().to(DEVICE), torch.randint(0, 5000, (8, 4), device=DEVICE)
        said = r"\[memory\] .* does not hold the update: parameters, gradients, states, results and what AdamW.step takes are"
        with self.assertRaisesRegex(snug.DoesNotFit, said):
            snug.torch.plan(model, ids, memory=1, optimizer=torch.optim.AdamW(model.parameters()))
        for foreach in (True, False):
            optimizer = torch.optim.AdamW(model.parameters(), foreach=foreach)
            found = []
            for _ in range(2):  # without states, and with them
                with self.assertRaisesRegex(snug.DoesNotFit, said) as caught:
                    snug.torch.checkpoint(model, ids, memory=1, optimizer=optimizer)
                self.assertRegex(caught.exception.hint, "memory=[0-9]+ fits, or an optimizer with smaller states, or foreach=False")
                found.append(caught.exception.smallest_bytes)
                with self.assertRaises(snug.DoesNotFit):
                    snug.torch.checkpoint(model, ids, memory=found[-1] - 1, optimizer=optimizer)
                plan = snug.torch.checkpoint(model, ids, memory=found[-1], optimizer=optimizer)
                self.assertEqual((plan.measured_bytes, plan.planned_bytes), (found[-1], found[-1]))
                gc.collect()
                with snug.torch.measure(DEVICE) as measured:
                    value = model(ids)
                    value.backward()
                    optimizer.step()
                optimizer.zero_grad()
                del value
                self.assertLessEqual(measured.peak_bytes, found[-1])
            self.assertGreater(measured.peak_bytes, 0.99 * found[-1])
            self.assertLess(abs(found[1] - found[0]), 0.01 * found[0])
            optimizer.state.clear()
            del optimizer


if __name__ == "__main__":
    unittest.main()
