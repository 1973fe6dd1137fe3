"""An LSTM, unrolled over the tokens: the five promises hold for a net whose weights every step uses."""
import json

import common
from common import PAGE, TOPICS, Case, options, run, sha256


class Lstm(Case):
    def setUp(self):
        super().setUp()
        # A vocabulary of its own: learning one would need more memory than these plans.
        words = sorted({word for topic in TOPICS.values() for word in topic})
        self.vocabulary = self.folder / "vocab.txt"
        self.vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]) + "\n")

    def base(self, **more):
        return super().base(**dict(dict(model="lstm", hidden_size=64, num_hidden_layers=2, embedding_size=32,
                                        tokenizer=self.vocabulary, vocab_size=None, micro_batch_size=8, max_steps=12,
                                        save_steps=4, learning_rate=5e-3, hidden_dropout_prob=0.1), **more))

    def test_every_budget_trains_to_the_same_bits_and_keeps_it(self):
        # Activations beside which the floor of the process is small.
        batch = dict(train_batch_size=192, micro_batch_size=192)
        whole = self.plan(**self.base(**batch))
        small, large = whole["smallest_budget_bytes"], whole["planned_peak_bytes"]
        self.assertLess(small, large - 100 * PAGE)
        wanted = None
        for i in range(4):
            budget = (small + (large - small) * i // 3 + PAGE - 1) // PAGE * PAGE
            out = self.train(f"b{i}", memory=budget, **batch)
            summary = self.summary(out)
            self.assertEqual(summary["measured_arena_bytes"], summary["planned_arena_bytes"])
            self.assert_resident_within(summary, budget)
            wanted = wanted or sha256(out / "last/model.safetensors")
            self.assertEqual(sha256(out / "last/model.safetensors"), wanted, budget)
        refused = run("train", *options(**self.base(output_dir=self.folder / "less", memory=small - PAGE, **batch)))
        self.assertEqual(refused.returncode, 2, refused.stderr)

    def test_many_layers_of_few_steps_keep_their_smallest_budget(self):
        """Planning them takes most: every layer is a kind of block of its own."""
        for layers in (5, 10, 20):
            sizes = dict(hidden_size=2, embedding_size=2, num_hidden_layers=layers, max_seq_length=8, train_batch_size=8, max_steps=1)
            out = self.train(f"layers{layers}", **sizes, memory=self.plan(**self.base(**sizes))["smallest_budget_bytes"])
            summary = self.summary(out)
            self.assert_resident_within(summary, summary["planned_peak_bytes"])

    def test_kill_9_and_resume_gives_the_same_bits_also_under_another_budget_and_without_clipping(self):
        base = self.base(max_grad_norm=0, max_steps=60, save_steps=2)
        small = self.plan(**base)["smallest_budget_bytes"]
        wanted = self.train("wanted", **base)
        out = self.folder / "killed"
        self.kill_after_a_checkpoint(**dict(base, output_dir=out))
        self.ok("train", **dict(base, output_dir=out, memory=small, resume=True))
        for name in ("last/model.safetensors", "last/optimizer.safetensors"):
            self.assertEqual(sha256(out / name), sha256(wanted / name), name)

    def test_learns_evaluates_and_predicts(self):
        out = self.train("run", max_steps=120)
        metrics = json.loads(self.ok("eval", model=out / "best", test_file=self.valid_file, memory="1GiB", threads=2).stdout)
        self.assertGreater(metrics["accuracy"], 0.7)  # chance: 0.33
        lines = self.ok("predict", model=out / "best", test_file=self.valid_file, memory="1GiB", threads=2).stdout
        self.assertEqual(len(lines.splitlines()), metrics["rows"])
        names = common.read_safetensors(out / "last/model.safetensors")
        for name in ("embeddings.weight", "lstm.weight_ih_l0", "lstm.bias_hh_l1", "classifier.weight"):
            self.assertIn(name, names)

    def test_plans_a_thousand_steps_without_weights(self):
        # Rates of a quiet machine: the goals are about the plan, not about what else runs during the test.
        speeds = common.set_rates(self.folder, {
            "": dict(per_call=1e-6, per_flop=0, per_byte=3e-11),
            "matmul": dict(per_call=5e-6, per_flop=2.2e-12, per_byte=1.5e-11),
            # Several sums onto a gradient gain nothing in one kernel: the goals are about what runs again.
            "matmul.tn": dict(per_call=1, per_flop=2.2e-12, per_byte=1.5e-11),
            "lstm_cell": dict(per_call=1e-6, per_flop=0, per_byte=4e-11),
            "lstm_cell_grad": dict(per_call=1e-6, per_flop=0, per_byte=4e-11)})
        values = dict(model="lstm", hidden_size=1024, num_hidden_layers=1, train_batch_size=32, micro_batch_size=32,
                      max_seq_length=1000, threads=2)
        whole = self.plan(memory="1TiB", recompute="none", env=speeds, **values)  # searches nothing
        self.assertGreater(whole["keep_all_arena_bytes"], 800 << 20)
        fixed = whole["process_bytes"] + whole["resident_bytes"]
        for share, most in ((0.05, 0.33), (0.01, 0.70)):
            budget = int(fixed + share * whole["keep_all_arena_bytes"]) // PAGE * PAGE
            plan = self.plan(memory=budget, env=speeds, **values)
            self.assertLessEqual(plan["recompute_overhead"], most, share)
            self.assertGreater(plan["recompute_overhead"], 0.1)

    def test_wrong_input_is_one_clear_error(self):
        cases = [(dict(hidden_sizes="8"), "describes a fresh mlp"), (dict(hidden_size=0), "hidden_size"),
                 (dict(stage_blocks="1,1"), "does not take it; it is for resnet"),
                 (dict(attention_probs_dropout_prob=0.2), "does not take it; it is for bert"),
                 (dict(model="bert-tiny"), "describes a fresh lstm")]
        for values, text in cases:
            done = run("train", *options(**self.base(output_dir=self.folder / "no", **values)))
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(text, done.stderr)

    def test_verify_finds_equal_bits(self):
        self.assertNotIn("DIFFERENT", self.ok("verify", **self.base()).stdout)


if __name__ == "__main__":
    common.main()
