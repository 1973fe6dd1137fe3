"""Hugging Face's Trainer with BudgetCallback: refused before it runs, planned as measured, and what it is without.

    python tests/torch/trainer_test.py     in an environment as for exact_test.py
"""
import contextlib
import io
import tempfile
import unittest
import warnings

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

import snug
import snug.torch
from cases import DEVICE, deep

warnings.filterwarnings("ignore")
ROWS = [{"input_ids": ids, "labels": ids} for ids in torch.randint(0, 100, (24, 16), generator=torch.Generator().manual_seed(0))]


class Once(torch.utils.data.IterableDataset):
    """Rows that are read once, as they come."""

    def __init__(self, rows):
        self.rows = iter(rows)

    def __iter__(self):
        return self.rows


class Trained(unittest.TestCase):
    def train(self, graphs="one", with_callback=True, rows=ROWS, loss_type="ForCausalLM", memory="1GiB"):
        """The losses of its steps, and the callback."""
        torch._dynamo.reset()
        set_seed(0)
        model = GPT2LMHeadModel(GPT2Config(vocab_size=100, n_positions=16, n_embd=32, n_layer=2, n_head=2, loss_type=loss_type))
        if loss_type:
            model.loss_type = loss_type  # else a message of a logger breaks the graph
        backend = snug.torch.backend(memory, resident_bytes=0, graphs=graphs)
        backend.optimizer = None
        model.compile(backend=backend, dynamic=False)
        callback = snug.torch.BudgetCallback(backend)
        with tempfile.TemporaryDirectory() as folder:
            arguments = TrainingArguments(folder, per_device_train_batch_size=4, max_steps=4, logging_steps=1, report_to=[], use_cpu=True, disable_tqdm=True, save_strategy="no")
            trainer = Trainer(model, arguments, train_dataset=rows, callbacks=[callback] if with_callback else [])
            with contextlib.redirect_stdout(io.StringIO()):
                trainer.train()
        return [each["loss"] for each in trainer.state.log_history if "loss" in each], callback

    def test_it_draws_nothing(self):
        without, _ = self.train(with_callback=False)
        losses, callback = self.train()
        self.assertEqual(losses, without)
        self.assertGreater(callback.plan.peak_bytes, 0)

    def test_rows_that_are_read_once(self):
        without, _ = self.train(with_callback=False, rows=Once(ROWS))
        losses, callback = self.train(rows=Once(ROWS))
        self.assertEqual(losses, without)
        self.assertIsNone(callback.plan)
        self.assertEqual(len(callback.backend.plans), 1)
        self.assertIsNotNone(callback.backend.optimizer)
        with self.assertRaises(snug.DoesNotFit):
            self.train(rows=Once(ROWS), memory="300KiB")

    def test_several_graphs(self):
        without, _ = self.train("several", with_callback=False, loss_type=None)
        losses, callback = self.train("several", loss_type=None)
        self.assertEqual(losses, without)
        self.assertGreater(len(callback.backend.plans), 0)


class Planned(unittest.TestCase):
    def test_planned_is_measured(self):
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


if __name__ == "__main__":
    unittest.main()
