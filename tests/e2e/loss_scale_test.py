"""Loss scaling: equal weights for every power of two, updates that overflow are skipped and counted, a kill goes on, refusals."""
import json

from common import Case, main, options, read_safetensors, run, sha256

KEYS = dict(train_batch_size=8, micro_batch_size=4, validation_file=None, validation_split=0, logging_steps=1)
# The first update makes the weights so large that every gradient behind it overflows.
DIVERGING = dict(KEYS, optim="sgd", learning_rate=1e30, max_grad_norm=0, lr_scheduler_type="constant", warmup_steps=0, warmup_ratio=0)


class LossScale(Case):
    def lines(self, out):
        return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]

    def test_a_power_of_two_changes_no_bit_and_the_log_is_without_it(self):
        plain = self.train("plain", **dict(KEYS, max_steps=4))
        self.assertEqual({(line["loss_scale"], line["skipped_updates"]) for line in self.lines(plain)}, {(1, 0)})
        for scale, logged in (("256", 256), ("dynamic", 65536), ("dynamic_paddle", 32768)):
            out = self.train(f"scaled-{scale}", **dict(KEYS, max_steps=4, loss_scale=scale))
            self.assertEqual(sha256(out / "last/model.safetensors"), sha256(plain / "last/model.safetensors"), scale)
            for line, wanted in zip(self.lines(out), self.lines(plain)):
                self.assertEqual((line["loss"], line["grad_norm"]), (wanted["loss"], wanted["grad_norm"]))
                self.assertEqual((line["loss_scale"], line["skipped_updates"]), (logged, 0))

    def test_overflows_are_skipped_said_and_counted_and_a_kill_goes_on(self):
        keys = dict(DIVERGING, loss_scale="dynamic", max_steps=6, save_steps=1)
        out = self.folder / "whole"
        done = self.ok("train", **self.base(**keys, output_dir=out))
        self.assertIn("update 2 is skipped: gradients overflowed at a loss scale of 65536, the next has 32768", done.stderr)
        last = self.lines(out)[-1]
        self.assertEqual((last["loss_scale"], last["skipped_updates"], last["grad_norm"]), (65536 / 2**4, 5, None))
        cut = self.base(**dict(keys, output_dir=self.folder / "cut"))
        self.kill_after_a_checkpoint(**cut)
        self.ok("train", **dict(cut, resume=True))
        states = [json.loads((folder / "last/snug_state.json").read_text()) for folder in (out, cut["output_dir"])]
        self.assertEqual(states[0]["loss_scale"], states[1]["loss_scale"])
        self.assertEqual((states[0]["global_step"], states[0]["optimizer_step"], states[0]["schedule_step"]), (6, 1, 1))
        self.assertEqual(sha256(out / "last/model.safetensors"), sha256(cut["output_dir"] / "last/model.safetensors"))
        weights = read_safetensors(out / "last/model.safetensors")
        self.assertTrue(all(value == value for tensor in weights.values() for value in tensor))

    def test_an_overflow_that_no_scale_answers_is_exit_3(self):
        for i, (keys, text) in enumerate(((dict(loss_scale="dynamic", loss_scale_min=32768), "at a loss scale of 32768"),
                                         (dict(loss_scale=1024), "at a loss scale of 1024"), (dict(loss_scale="none"), "not finite"))):
            done = run("train", *options(**self.base(**dict(DIVERGING, max_steps=9), output_dir=self.folder / f"over{i}", **keys)))
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(text, done.stderr)

    def test_what_is_no_scale_is_refused(self):
        for keys, text in ((dict(loss_scale="big"), "loss_scale"), (dict(loss_scale=0), "loss_scale"), (dict(loss_scale="1e39"), "loss_scale"),
                           (dict(loss_scale_min=4), "never falls"), (dict(loss_scale="dynamic", loss_scale_min=1e6), "with which dynamic begins")):
            done = run("plan", *options(**self.base(**keys)))
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(text, done.stderr)

    def test_the_hint_behind_a_scale_that_is_too_large_is_followed(self):
        keys = dict(KEYS, fp16=True, save_steps=1, learning_rate=0.5, max_steps=60, micro_batch_size=None)
        out = self.folder / "over"
        done = run("train", *options(**self.base(**keys, loss_scale=8192, output_dir=out)))
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("set loss_scale to dynamic, or lower learning_rate, and add --resume", done.stderr)
        steps = json.loads((out / "last/snug_state.json").read_text())["global_step"]
        done = self.ok("train", **self.base(**dict(keys, max_steps=steps + 3), loss_scale="dynamic", output_dir=out, resume=True))
        self.assertIn("changed: loss_scale from '8192' to 'dynamic'", done.stderr)
        changed = [line for line in self.lines(out) if "changed" in line]
        self.assertEqual([line["changed"]["loss_scale"] for line in changed], [{"from": "8192", "to": "dynamic"}])

    def test_a_resume_under_another_scale_has_the_bits_of_a_run_that_kept_it(self):
        keys = dict(KEYS, max_steps=6, lr_scheduler_type="constant")
        for model in (dict(), dict(optim="sgd", momentum=0.9)):
            wanted = self.train(f"plain-{len(model)}", **keys, **model)
            for i, (before, now) in enumerate(((64, "dynamic"), ("dynamic", 64), ("none", "dynamic_paddle"), ("dynamic", "none"))):
                out = self.train(f"changed-{len(model)}-{i}", **dict(keys, max_steps=3, loss_scale=before), **model)
                self.ok("train", **self.base(**keys, **model, output_dir=out, resume=True, loss_scale=now))
                for name in ("model", "optimizer"):
                    self.assertEqual(sha256(out / f"last/{name}.safetensors"), sha256(wanted / f"last/{name}.safetensors"), (before, now))

    def test_a_scale_goes_on_where_it_stood_and_no_lower_than_its_floor(self):
        keys = dict(DIVERGING, save_steps=1)
        out = self.train("run", **dict(keys, max_steps=4, loss_scale="dynamic"))
        scale = lambda: json.loads((out / "last/snug_state.json").read_text())["loss_scale"]
        self.assertEqual(self.lines(out)[-1]["loss_scale"], 16384)
        more = dict(keys, output_dir=out, resume=True)
        self.ok("train", **self.base(**dict(more, max_steps=5, loss_scale="dynamic_paddle")))
        self.assertEqual((self.lines(out)[-1]["loss_scale"], scale()["overflows"]), (8192, 1))
        self.ok("train", **self.base(**dict(more, max_steps=6, loss_scale="dynamic", loss_scale_min=4096)))
        self.assertEqual(self.lines(out)[-1]["loss_scale"], 8192)
        done = run("train", *options(**self.base(**dict(more, max_steps=7, loss_scale="dynamic", loss_scale_min=16384))))
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("at a loss scale of 16384", done.stderr)

    def test_a_plan_under_a_dynamic_scale_keeps_gradients_and_verifies(self):
        keys = dict(train_batch_size=8, micro_batch_size=8, max_grad_norm=0)
        # Not all that is resident: whether a plan has packed weights follows from the machine's speeds.
        kept = lambda **more: self.plan(**self.base(**dict(keys, **more)))["components"].get("gradients", 0)
        self.assertGreater(kept(loss_scale="dynamic"), kept(loss_scale="none"))
        self.assertEqual(kept(loss_scale="dynamic"), kept(loss_scale="dynamic", max_grad_norm=1))
        self.ok("verify", **self.base(**KEYS, loss_scale="dynamic"))


if __name__ == "__main__":
    main()
