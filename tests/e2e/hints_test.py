"""Refusals: every printed way to fit fits when it is applied, and what is known to fit is named."""
import json
import re
import shlex

import common
from common import Case, options, run

LINE = re.compile(r"^    (--.*?)   +(.*)$", re.M)
FIGURES = re.compile(r"fits from (.*?); (.*?) an update at ")
BYTES = dict(B=1, KiB=1 << 10, MiB=1 << 20, GiB=1 << 30)
SECONDS = {"ms": 1e-3, "s": 1, "min": 60}


class Hints(Case):
    def refusal(self, budget, **keys):
        done = run("plan", *options(**keys, memory=budget))
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        return done.stderr

    def hints(self, text):
        return LINE.findall(text.split("cheapest ways to fit:\n")[1])

    def apply_all(self, budget, **keys):
        """The words of every hint, each of which was applied to the refused command."""
        found = []
        for words, note in self.hints(self.refusal(budget, **keys)):
            # Behind the command's own words, of which it replaces those of the same key.
            parts = shlex.split(words)
            named = {part[2:] for part in parts if part.startswith("--")}
            kept = {key: value for key, value in dict(keys, memory=budget).items() if key not in named}
            done = run("plan", *options(**kept, json=True), *parts)
            self.assertEqual(done.returncode, 0, f"{keys} at {budget}: {words} ({note})\n{done.stderr}")
            self.check_figures(note, json.loads(done.stdout), f"{keys} at {budget}: {words}")
            found.append(words)
        self.assertTrue(found and found[0].startswith("--memory"), found)
        return found

    def check_figures(self, note, plan, command):
        """A hint's figures are those of the plan, but for rounding and plans that were not tried."""
        figures = FIGURES.match(note)
        if not figures:
            return
        number, unit = figures[1].split()
        self.assertLessEqual(float(number) * BYTES[unit], plan["budget_bytes"], command)
        self.assertGreaterEqual(float(number) * BYTES[unit], plan["smallest_budget_bytes"] * 0.99, command)
        self.assertLessEqual(float(number) * BYTES[unit], plan["smallest_budget_bytes"] * 1.1, command)
        seconds = sum(float(part) * SECONDS[unit] for part, unit in re.findall(r"([\d.]+) (ms|s|min)", figures[2]))
        if "at most" not in figures[2]:  # else the run takes levers as they pay
            self.assertLess(seconds, 1.15 * plan["step_seconds"] + 1e-4, command)
        self.assertGreater(seconds, 0.95 * plan["step_seconds"] - 1e-4, command)

    def apply_at_shares(self, shares=(0.95, 0.7), **keys):
        smallest = self.plan(**keys, memory="1TiB")["smallest_budget_bytes"]
        found = []
        for share in shares:
            found += self.apply_all(int(share * smallest) // common.PAGE * common.PAGE, **keys)
        return found

    def test_bert_base_of_512_tokens_names_sgd(self):
        found = self.apply_all("1200MiB", model="bert-base", train_batch_size=8, max_seq_length=512)
        self.assertIn("--optim sgd", found)

    def test_weights_in_fewer_bits_are_named_once_the_states_have_8(self):
        keys = dict(model="bert-mini", vocab_size=8000, train_batch_size=8, max_seq_length=24, max_grad_norm=0)
        least = {dtype: self.plan(**keys, memory="1TiB", optim_bits=8, weight_dtype=dtype)["smallest_budget_bytes"]
                 for dtype in ("float32", "bfloat16")}
        budget = (least["float32"] + 3 * least["bfloat16"]) // 4 // common.PAGE * common.PAGE
        found = self.apply_all(budget, **keys, optim_bits=8)
        self.assertIn("--weight_dtype bfloat16", found)
        self.assertFalse([words for words in self.apply_all(budget, **keys) if "weight_dtype" in words])

    def test_bert(self):
        self.apply_at_shares(model="bert-mini", train_batch_size=16, max_seq_length=256)
        self.apply_at_shares(model="bert-tiny", train_batch_size=4, max_seq_length=512, max_grad_norm=0)

    def test_a_fixed_split_and_a_fixed_strategy_are_given_up_together(self):
        keys = dict(model="bert-mini", train_batch_size=32, micro_batch_size=32, recompute="none", max_seq_length=256)
        free = self.plan(model="bert-mini", train_batch_size=32, max_seq_length=256, memory="1TiB")["smallest_budget_bytes"]
        self.assertIn("--micro_batch_size auto --recompute auto", self.apply_all(free, **keys))
        # Where one of them is enough the other is not named beside it.
        found = self.apply_all(2 * free, **keys)
        self.assertTrue({"--micro_batch_size auto", "--recompute auto"} & set(found), found)
        self.assertNotIn("--micro_batch_size auto --recompute auto", found)

    def test_frozen_weights_in_fewer_bits_are_named(self):
        for model, budget in (("bert-tiny", "50MiB"), ("lstm", "60MiB")):
            found = self.apply_all(budget, model=model, train_batch_size=32, max_seq_length=128, num_labels=3)
            self.assertTrue(any("--freeze" in words and "--frozen_dtype" in words for words in found), found)
        frozen = dict(model="bert-tiny", train_batch_size=8, max_seq_length=64, freeze="bert.*")
        smallest = self.plan(**frozen, memory="1TiB")["smallest_budget_bytes"]
        found = self.apply_all(smallest - common.PAGE, **frozen)
        self.assertIn("--frozen_dtype bfloat16", found)

    def test_a_hint_that_builds_on_a_lever_that_was_allowed_names_it(self):
        keys = dict(threads=1, train_batch_size=8, max_seq_length=64, vocab_size=8000, num_labels=2)
        for model in ("bert-tiny", "roberta-tiny", "albert-tiny", "modernbert-tiny"):
            allow = dict(keys, model=model, allow="freeze,adam8bit")
            smallest = self.plan(**allow, memory="1TiB")["smallest_budget_bytes"]
            found = self.apply_all(smallest - common.PAGE, **allow)
            self.assertTrue(any(re.match("--freeze .* --frozen_dtype bfloat16$", words) for words in found), f"{model}: {found}")
        found = self.apply_all("58MiB", model="lstm", threads=1, allow="freeze")  # with a shorter row
        self.assertTrue(any("--freeze" in words and "--frozen_dtype" in words for words in found), found)
        # Without fp16 there is nothing to wait for.
        scaled = dict(keys, model="bert-tiny", allow="fp16", max_grad_norm=0, two_pass_clip="false")
        smallest = self.plan(**scaled, memory="1TiB")["smallest_budget_bytes"]
        self.apply_all(smallest - common.PAGE, **scaled)

    def test_the_fastest_split_is_found_where_smaller_micro_batches_are_faster(self):
        """Measured speeds jump with the sizes of operands; these two did on the machine where they were found."""
        found = self.apply_all(40144896, model="roberta-tiny", max_seq_length=16, vocab_size=200, threads=1, optim="lamb",
                               two_pass_clip="true", multi_sample_dropout=3)
        self.assertIn("--two_pass_clip false", found)
        found = self.apply_all(41299968, model="albert-tiny", max_seq_length=7, vocab_size=3001, train_batch_size=64, threads=1,
                               max_grad_norm=0)
        self.assertIn("--optim_bits 8", found)

    def test_batch_norm(self):
        found = self.apply_at_shares(model="resnet-14", train_batch_size=64)
        self.assertTrue(any(words.startswith("--train_batch_size ") for words in found), found)
        self.assertIn("--allow_batch_norm_split", found)

    def test_images_without_batch_norm_and_sequences(self):
        found = self.apply_at_shares(model="vgg-16", image_size=32, train_batch_size=8)
        self.assertFalse(any("max_seq_length" in words for words in found), found)
        self.apply_at_shares(model="lstm", hidden_size=128, train_batch_size=8, max_seq_length=64)

    def test_settings_of_adam_do_not_get_sgd_as_a_hint(self):
        found = self.apply_at_shares(shares=(0.95,), model="bert-tiny", train_batch_size=4, max_seq_length=64, adam_beta1=0.8)
        self.assertFalse(any("sgd" in words for words in found), found)

    def test_of_allowed_levers_the_smallest_budget_is_that_of_all(self):
        keys = dict(model="bert-mini", vocab_size=2000, train_batch_size=8, max_seq_length=32, threads=1)
        plain = self.plan(**keys, memory="1TiB")["smallest_budget_bytes"]
        allow = dict(keys, allow="adam8bit,bf16x8")
        refused = self.refusal("36MiB", **allow)
        smallest = int(re.search(r"smallest budget that works is .*\((\d+) bytes\)", refused)[1])
        self.assertLess(smallest, plain)
        self.assertEqual(self.plan(**allow, memory=smallest)["smallest_budget_bytes"], smallest)
        self.assertEqual(self.plan(**allow, memory="1TiB")["smallest_budget_bytes"], smallest)
        self.assertIn("at most", self.refusal(smallest - common.PAGE, **allow))

    def test_adapters_are_no_way_to_fit_without_a_base(self):
        keys = self.base(model="bert-mini", memory="50MiB", max_seq_length=64, vocab_size=None, output_dir=self.folder / "no",
                         tokenizer=self.train("tokenizer", max_steps=1) / "last")
        keys["memory"] = self.plan(**dict(keys, memory="1TiB"))["smallest_budget_bytes"] - common.PAGE
        self.assertIn("--lora", run("plan", *options(**keys)).stderr)
        refused = run("train", *options(**keys))
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertNotIn("--lora", refused.stderr)

    def test_of_eval_and_predict(self):
        out = self.train("run", max_steps=1, max_seq_length=64)
        for verb in ("eval", "predict"):
            base = dict(output_dir=out, test_file=self.valid_file, eval_batch_size=4096, threads=2)
            done = run(verb, *options(**base, memory="60MiB"))
            self.assertEqual(done.returncode, 2, done.stderr)
            hints = self.hints(done.stderr)
            self.assertTrue(any("--eval_batch_size" in words for words, _ in hints), hints)
            for words, note in hints:
                self.assertIn("a batch", note)
                parts = shlex.split(words)
                given = {key: value for key, value in dict(base, memory="60MiB").items() if f"--{key}" not in parts}
                done = run(verb, *options(**given), *parts)
                self.assertEqual(done.returncode, 0, f"{verb} {words} ({note})\n{done.stderr}")

    def test_with_data(self):
        self.apply_at_shares(shares=(0.9,), **self.base(vocab_size=None, memory=None, model="bert-mini", max_seq_length=64,
                             tokenizer=self.train("tokenizer", max_steps=1) / "last"))


if __name__ == "__main__":
    common.main()
