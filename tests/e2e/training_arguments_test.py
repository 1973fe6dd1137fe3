"""TrainingArguments as people write them: how often something happens, seeds of the order of rows, names of optimizers, what has no meaning."""
import json
import math

from common import Case, main, options, run, sha256

PER_EPOCH = 5


class TrainingArguments(Case):
    rows = 40

    def base(self, **more):
        values = dict(max_seq_length=12, train_batch_size=8, lr_scheduler_type="constant", max_steps=10, logging_steps=None)
        return super().base(**dict(values, **more))

    def steps(self, out, name="metrics.jsonl"):
        return [line["step"] for line in map(json.loads, (out / name).read_text().splitlines()) if "changed" not in line]

    def archives(self, out):
        return sorted(int(folder.name.split("-")[1]) for folder in out.glob("checkpoint-*") if folder.is_dir())

    def test_shares_and_epochs_say_when(self):
        out = self.train("run", eval_strategy="steps", eval_steps=0.25, save_strategy="epoch", save_steps=3, save_total_limit=9,
                         logging_strategy="epoch", logging_first_step=True)
        self.assertEqual(self.steps(out), [1, 5, 10])
        self.assertEqual(self.steps(out, "evaluations.jsonl"), [3, 6, 9, 10])  # ceil(10 x 0.25) = 3
        self.assertEqual(self.archives(out), [5, 10])
        state = json.loads((out / "last/trainer_state.json").read_text())
        self.assertEqual((state["logging_steps"], state["eval_steps"], state["save_steps"]), (5, math.ceil(10 * 0.25), 5))
        other = self.train("shares", eval_strategy="no", save_steps=0.3, save_total_limit=9, logging_strategy="no")
        self.assertEqual(self.steps(other), [10])
        self.assertEqual(self.steps(other, "evaluations.jsonl"), [10])
        self.assertEqual(self.archives(other), [3, 6, 9])

    def test_a_run_that_is_saved_by_epoch_goes_on_to_the_same_bits(self):
        whole = self.train("whole", save_strategy="epoch", logging_steps=0.5)
        out = self.train("halves", max_steps=5, save_strategy="epoch", logging_steps=0.5)
        self.ok("train", **self.base(output_dir=out, max_steps=10, save_strategy="epoch", logging_steps=0.5, resume=True))
        self.assertEqual(sha256(out / "last/model.safetensors"), sha256(whole / "last/model.safetensors"))

    def test_data_seed_is_of_the_order_of_rows_only(self):
        def weights(name, **more):
            return sha256(self.train(name, max_steps=7, **more) / "last/model.safetensors")
        first = weights("first")
        self.assertEqual(weights("same", data_seed=3), first)  # that of seed
        self.assertNotEqual(weights("other", data_seed=4), first)
        # One batch of all rows, without dropout: the first loss is that of the same weights on the same rows.
        whole = dict(train_batch_size=self.rows, hidden_dropout_prob=0, attention_probs_dropout_prob=0, max_steps=1)
        losses = []
        for name, seed in (("a", 3), ("b", 4)):
            out = self.train(name, **dict(whole, data_seed=seed))
            losses.append(json.loads((out / "metrics.jsonl").read_text().splitlines()[0])["loss"])
        self.assertAlmostEqual(*losses, places=5)

    def test_names_of_optimizers_are_those_keys_to_the_bit(self):
        for name, keys in (("adamw_8bit", dict(optim_bits=8)), ("adamw_bnb_8bit", dict(optim_bits=8, optim_codec="bnb")),
                           ("paged_adamw_32bit", {}), ("lion_32bit", dict(optim="lion", adam_beta2=0.999))):
            theirs = self.train(name, max_steps=3, optim=name)
            ours = self.train(f"own_{name}", max_steps=3, **keys)
            self.assertEqual(sha256(theirs / "last/model.safetensors"), sha256(ours / "last/model.safetensors"), name)

    def test_schedules_follow_their_arguments(self):
        out = self.train("run", lr_scheduler_type="cosine_with_min_lr", lr_scheduler_kwargs='{"min_lr": 0.0005}', logging_steps=1)
        rates = [json.loads(line)["learning_rate"] for line in (out / "metrics.jsonl").read_text().splitlines()]
        for step, rate in enumerate(rates):
            self.assertAlmostEqual(rate, 1e-3 * (0.5 + 0.5 * 0.5 * (1 + math.cos(math.pi * step / 10))), places=12)

    def test_what_has_no_meaning_is_said_once_and_changes_no_bit(self):
        plain = self.train("plain", max_steps=2)
        idle = dict(dataloader_num_workers=4, run_name="mine", disable_tqdm=True, overwrite_output_dir=True, torch_compile=True, tf32=True,
                    ddp_find_unused_parameters=False, eval_accumulation_steps=2, do_train=True, do_eval=True, hub_token="secret")
        out = self.folder / "idle"
        done = self.ok("train", **self.base(output_dir=out, max_steps=2, report_to="all", **idle))
        said = [line for line in done.stderr.splitlines() if "no meaning here" in line]
        self.assertEqual(len(said), 1, done.stderr)
        for name in idle:
            self.assertIn(name, said[0])
        self.assertNotIn("secret", done.stderr)
        self.assertIn("report_to all (the others are not built, and nothing is sent anywhere): report_to tensorboard", done.stderr)
        self.assertTrue(list((out / "runs").rglob("events*")))
        self.assertEqual(sha256(out / "last/model.safetensors"), sha256(plain / "last/model.safetensors"))

    def test_what_would_change_the_result_is_refused(self):
        for words, text in ((dict(dataloader_drop_last=True), "dataloader_drop_last: 'true' is refused"),
                            (dict(optim="galore_adamw"), "give lora"), (dict(lr_scheduler_type="reduce_lr_on_plateau"), "give linear or cosine"),
                            (dict(report_to="wandb"), "nothing is sent anywhere"), (dict(train_sampling_strategy="sequential"), "give random"),
                            (dict(push_to_hub=True), "nothing is sent anywhere"), (dict(deepspeed="ds.json"), "give memory")):
            done = run("train", *options(**self.base(output_dir=self.folder / "refused", **dict(words))))
            self.assertEqual(done.returncode, 1, words)
            self.assertIn(text, done.stderr)


if __name__ == "__main__":
    main()
