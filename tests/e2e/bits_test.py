"""A plan never changes the result: strategies, budgets, splits, freezing, resume."""
import json
import math

import common
from common import Case, read_safetensors, relative_l2, sha256


class Bits(Case):
    def weights(self, name, **more):
        return self.train(name, **more) / "last/model.safetensors"

    def test_strategies_and_budgets_give_equal_bits_after_20_updates_with_dropout(self):
        run = dict(max_steps=20, train_batch_size=32, micro_batch_size=16, model="bert-tiny")
        wanted = sha256(self.weights("none", recompute="none", **run))
        for strategy in ("all", "sqrt", "every:1", "every:2", "auto"):
            self.assertEqual(sha256(self.weights(strategy.replace(":", ""), recompute=strategy, **run)), wanted, strategy)
        smallest = self.plan(**self.base(**run))["smallest_budget_bytes"]
        self.assertEqual(sha256(self.weights("smallest", **dict(run, memory=smallest))), wanted)

    def test_splits_agree_to_the_order_of_a_sum(self):
        run = dict(max_steps=20, train_batch_size=32, recompute="none")
        wanted = read_safetensors(self.weights("m32", micro_batch_size=32, **run))
        for size in (16, 8, 12):  # 12: uneven, the last micro-batch is padded with rows of weight zero
            found = read_safetensors(self.weights(f"m{size}", micro_batch_size=size, **run))
            self.assertLessEqual(relative_l2(wanted, found), 1e-6, size)

    def test_threads_are_part_of_the_machine_but_runs_repeat(self):
        self.assertEqual(sha256(self.weights("a")), sha256(self.weights("b")))

    def test_lengths_512_16_32_480_accumulate_to_the_big_batch(self):
        words = sum(common.TOPICS.values(), [])
        rows = [{"text": " ".join(words[i % len(words)] for i in range(length)), "label": label}
                for length, label in ((510, "a"), (14, "b"), (30, "a"), (478, "b"))]
        common.write_jsonl(self.train_file, rows)
        base = dict(max_seq_length=512, train_batch_size=4, max_steps=1, optim="sgd", learning_rate=1.0, max_grad_norm=0,
                    validation_file=None, validation_split=0, hidden_dropout_prob=0.1, warmup_steps=0)
        results = {}
        for size in (4, 2, 1, 3):
            out = self.train(f"split{size}", micro_batch_size=size, **base)
            line = json.loads((out / "metrics.jsonl").read_text().splitlines()[0])
            results[size] = (line["loss"], line["grad_norm"], read_safetensors(out / "last/model.safetensors"))
        loss, norm, weights = results[4]
        for size, (other_loss, other_norm, other_weights) in results.items():
            self.assertTrue(math.isclose(loss, other_loss, rel_tol=1e-6), size)
            self.assertTrue(math.isclose(norm, other_norm, rel_tol=1e-5), size)
            # With one step of plain SGD at rate 1 the weights show the gradients.
            self.assertLessEqual(relative_l2(weights, other_weights), 1e-6, size)

    def test_freezing_with_recompute_all_leaves_all_other_gradients(self):
        run = dict(model="bert-mini", freeze="bert.embeddings.*,bert.encoder.layer.0.*,bert.encoder.layer.1.*", max_steps=3,
                   weight_decay=0.1, train_batch_size=8, micro_batch_size=8)
        keep = self.train("keep", recompute="none", **run)
        redo = self.train("redo", recompute="all", **run)
        self.assertEqual(sha256(keep / "last/model.safetensors"), sha256(redo / "last/model.safetensors"))
        start = self.train("start", **dict(run, max_steps=1, learning_rate=1e-30))
        first, last = (read_safetensors(out / "last/model.safetensors") for out in (start, redo))
        states = read_safetensors(redo / "last/optimizer.safetensors")
        for name in first:
            frozen = name.startswith(("bert.embeddings.", "bert.encoder.layer.0.", "bert.encoder.layer.1."))
            self.assertEqual(first[name] == last[name], frozen, name)
            self.assertEqual(any(name in state for state in states), not frozen, name)

    def test_ten_rows_in_batches_of_four_make_three_updates(self):
        common.write_jsonl(self.train_file, common.make_rows(10))
        out = self.train("tail", train_batch_size=4, max_steps=None, num_train_epochs=1, validation_file=None, validation_split=0)
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual([line["step"] for line in lines], [1, 2, 3])
        split = self.train("tail1", train_batch_size=4, micro_batch_size=1, max_steps=None, num_train_epochs=1,
                           validation_file=None, validation_split=0)
        self.assertLessEqual(relative_l2(*(read_safetensors(o / "last/model.safetensors") for o in (out, split))), 1e-6)


if __name__ == "__main__":
    common.main()
