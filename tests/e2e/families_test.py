"""Every family at 32 budgets, LSTMs at 12: time never rises with memory, no plan exceeds its budget; and at some of them, run."""
import json
import os
import subprocess
import unittest

from common import IS_SANITIZED, PAGE, SNUG, TOPICS, Case, options, write_cifar, write_jsonl

BUDGETS = 32
TRAINED = (0, 0.1, 0.5, 1)  # of the budgets


class Families(Case):
    def sweep(self, budgets=BUDGETS, **keys):
        whole = self.plan(memory="256GiB", **keys)
        low, high = whole["smallest_budget_bytes"], whole["keep_all_peak_bytes"]
        self.assertLess(low, high)
        last = None
        for i in range(budgets):
            budget = (low + (high - low) * i // (budgets - 1) + PAGE - 1) // PAGE * PAGE
            plan = self.plan(memory=budget, **keys)
            self.assertEqual(plan["budget_bytes"], budget)
            self.assertLessEqual(plan["planned_peak_bytes"], budget)
            if last is not None:
                self.assertLessEqual(plan["step_seconds"], last)
            last = plan["step_seconds"]
            yield i, budget, plan

    def setUp(self):
        super().setUp()
        # A vocabulary that need not be learned: learning takes more memory than these small models.
        self.vocabulary = self.folder / "vocab.txt"
        words = sorted({word for topic in TOPICS.values() for word in topic})
        self.vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]) + "\n")

    def sweep_and_train(self, budgets=BUDGETS, **keys):
        data = self.base(max_steps=2, vocab_size=None, **keys)
        data.pop("memory")
        for i, budget, plan in self.sweep(budgets, **data):
            if i not in [int(part * (budgets - 1)) for part in TRAINED]:
                continue
            out = self.folder / f"b{i}"
            self.ok("train", **dict(data, memory=budget, output_dir=out))
            summary = self.summary(out)
            self.assertEqual(summary["measured_arena_bytes"], plan["arena_bytes"])
            self.assert_resident_within(summary, budget)

    def test_bert(self):
        self.sweep_and_train(model="bert-mini", tokenizer=self.vocabulary, train_batch_size=48)

    def test_mlp(self):
        self.sweep_and_train(model="mlp", tokenizer=self.vocabulary, hidden_sizes="512,512,256", train_batch_size=2048)

    def test_lstm(self):
        self.sweep_and_train(12, model="lstm", tokenizer=self.vocabulary, hidden_size=128, num_hidden_layers=2, train_batch_size=96)

    def test_a_small_lstm_is_planned_in_what_it_trains_in(self):
        words = sorted({word for topic in TOPICS.values() for word in topic})
        rows = [{"text": " ".join(words[(i + j) % len(words)] for j in range(80)), "label": "ab"[i % 2]} for i in range(32)]
        file = self.folder / "long.jsonl"
        write_jsonl(file, rows)
        for hidden, length, batch in ((2, 32, 32), (2, 64, 32), (32, 64, 8)):
            keys = self.base(model="lstm", tokenizer=self.vocabulary, vocab_size=None, hidden_size=hidden, max_steps=1,
                             train_file=file, validation_file=file, max_seq_length=length, train_batch_size=batch)
            for memory in (self.plan(**keys)["smallest_budget_bytes"], "1GiB"):
                out = self.folder / f"small-{hidden}-{length}-{memory}"
                self.ok("train", **dict(keys, memory=memory, output_dir=out))
                summary = self.summary(out)
                self.assert_resident_within(summary, summary["planned_peak_bytes"])

    def test_planning_deep_networks_keeps_their_smallest_budgets(self):
        """Layers so narrow that planning takes more than training."""
        config = self.folder / "config.json"
        config.write_text(json.dumps(dict(model_type="bert", vocab_size=100, hidden_size=16, num_hidden_layers=24, num_attention_heads=2,
                                          intermediate_size=32, max_position_embeddings=64)))
        deep = dict(model=config, max_seq_length=16, threads=2)
        long = dict(model="lstm", vocab_size=100, hidden_size=16, max_seq_length=160, threads=2)
        for keys in (deep | dict(train_batch_size=8), deep | dict(train_batch_size=2048), long | dict(train_batch_size=8), long | dict(train_batch_size=512)):
            smallest = self.plan(**keys, memory="1TiB")["smallest_budget_bytes"]
            process = subprocess.Popen([SNUG, "plan", *options(**keys, memory=smallest)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(process.returncode, 0, keys)
            if not IS_SANITIZED:
                self.assertLessEqual(usage.ru_maxrss * 1024, smallest, keys)

    def test_resnet(self):
        images = write_cifar(self.folder / "cifar", data_batch_1=64, test_batch=16)
        self.sweep_and_train(model="resnet-20", train_file=images, validation_file=images / "test_batch.bin",
                             max_seq_length=None, train_batch_size=16, optim="sgd")

    def test_vgg(self):
        for _ in self.sweep(model="vgg-16", train_batch_size=32):
            pass


if __name__ == "__main__":
    unittest.main(verbosity=2)
