"""Checkpointing by layer in eager mode, alone and on several ranks; Hugging Face's Trainer.

    python tests/torch/layers_test.py     in an environment as for exact_test.py; four ranks, and a refusal of the example, with SNUG_WHOLE_MATRIX=1
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings

import torch

import models
import snug
import snug.torch
from cases import DEVICE, WHOLE_MATRIX, equal

warnings.filterwarnings("ignore")
MIB = 1 << 20


def deep(layers=6, rows=16):
    from transformers import BertConfig, BertForSequenceClassification
    torch.manual_seed(0)
    model, batch = models.classified(BertForSequenceClassification(BertConfig(hidden_size=128, intermediate_size=512, num_hidden_layers=layers,
                                                                              num_attention_heads=4, vocab_size=512)), rows, 64)
    return model.train().to(DEVICE), {key: value.to(DEVICE) for key, value in batch.items()}


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

    @unittest.skipIf(DEVICE == "cuda", "one device for two ranks")
    def test_ranks(self):
        """Gradients are those of DDP without us, and every rank has the choice of the first, whatever it would take itself."""
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "rank.py"
            script.write_text(RANK)
            for ranks in (2, 4) if WHOLE_MATRIX else (2,):
                done = subprocess.run([sys.executable, str(script), str(ranks), str(pathlib.Path(folder) / f"store{ranks}")], capture_output=True, text=True, timeout=600)
                self.assertEqual(done.returncode, 0, done.stderr[-2000:])
                lines = done.stdout.split()
                self.assertEqual(len(lines), ranks)
                self.assertEqual(len(set(lines)), 1)

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

    def test_the_trainer(self):
        from transformers import Trainer, TrainingArguments
        model, batch = deep(2, 4)
        rows = [{key: value[i % 4].cpu() for key, value in batch.items()} for i in range(12)]
        model.to("cpu")

        def trainer(memory, folder, **more):
            backend = snug.torch.backend(memory, resident_bytes=0)
            backend.optimizer = None
            model.compile(backend=backend, dynamic=False)
            arguments = TrainingArguments(output_dir=folder, per_device_train_batch_size=4, max_steps=3, report_to=[], save_strategy="no", use_cpu=DEVICE == "cpu",
                                          disable_tqdm=True, **more)
            return Trainer(model, arguments, train_dataset=rows, callbacks=[snug.torch.BudgetCallback(backend)])

        with tempfile.TemporaryDirectory() as folder:
            torch._dynamo.reset()
            run = trainer("1GiB", folder)
            run.train()
            batch_bytes = sum(each.nbytes for each in batch.values())

            def check(run, batches):
                (entry,) = [entry for entry in run.state.log_history if "snug_planned_bytes" in entry]
                self.assertGreater(entry["snug_measured_bytes"], 0.8 * entry["snug_planned_bytes"])
                self.assertLessEqual(entry["snug_measured_bytes"], entry["snug_planned_bytes"] + batches * batch_bytes)  # of those to come, which are the Trainer's

            check(run, 2)
            # What is planned before is what trains, results beside the loss among it.
            (callback,) = (each for each in run.callback_handler.callbacks if isinstance(each, snug.torch.BudgetCallback))
            self.assertIn(callback.plan.peak_bytes - callback.backend.plans[0].peak_bytes, range(9))  # the number of labels is handed over in 4 bytes or 8
            # At the smallest budget, with logits of the call before that go when the next are there.
            smallest = callback.plan.smallest_bytes
            model.zero_grad()
            del run, callback  # which have optimizer and results
            torch._dynamo.reset()
            run = trainer(smallest, folder, bf16=True, gradient_accumulation_steps=2)
            run.train()
            check(run, 4)
            torch._dynamo.reset()
            with self.assertRaises(snug.DoesNotFit):
                trainer("8MiB", folder).train()


RANK = f"""
import os, sys
sys.path[:0] = {[str(pathlib.Path(__file__).resolve().parent)] + sys.path!r}
import datetime
import torch
import torch.multiprocessing as processes

def work(rank, ranks, store):
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=ranks, timeout=datetime.timedelta(seconds=120))
    import snug
    import snug.torch
    from layers_test import deep, gradients
    model, batch = deep(4, 8 * ranks)  # as many rows for each rank, so that layers are the same part of its bytes
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    batch = {{key: value[rank::ranks] for key, value in batch.items()}}
    gradients(wrapped, batch)  # DDP lays its buckets out anew behind the first backward part, and sums in another order
    wanted = gradients(wrapped, batch)
    wrapped.zero_grad()
    whole = snug.torch.checkpoint(wrapped, batch, memory="4GiB")
    # What a rank would choose for itself differs, but for the first.
    plan = snug.torch.checkpoint(wrapped, batch, memory=whole.measured_bytes * (85 if rank == 0 else 200) // 100)
    found = gradients(wrapped, batch)
    assert 0 < plan.checkpointed <= plan.layers, plan
    assert all(torch.equal(a, b) for a, b in zip(wanted, found))
    wrapped.zero_grad()
    # Nor does one that fits go on alone: where rank 1 needs more layers made again, all make them again, or none trains.
    more = snug.torch.checkpoint(wrapped, batch, memory=whole.measured_bytes * (85 if rank == 0 else 70) // 100)
    assert more.checkpointed > plan.checkpointed, (more, plan)
    try:
        snug.torch.checkpoint(wrapped, batch, memory=whole.measured_bytes * (200 if rank == 0 else 10) // 100)
        raise AssertionError("fits in a tenth")
    except snug.DoesNotFit as error:
        assert "measured on rank 1 with" in str(error), error
    sys.stdout.write(f"{{plan.checkpointed}}\\n")  # one write
    sys.stdout.flush()

if __name__ == "__main__":
    processes.start_processes(work, args=(int(sys.argv[1]), sys.argv[2]), nprocs=int(sys.argv[1]), start_method="spawn")
"""

if __name__ == "__main__":
    unittest.main()
