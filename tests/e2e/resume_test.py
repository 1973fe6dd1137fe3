"""Nothing is lost: kills, signals, resume under another budget, full disks, folders in use."""
import json
import os
import random
import signal
import subprocess
import time

import common
from common import Case, options, run, sha256

KILLS = int(os.environ.get("SNUG_KILLS", "4"))


class Resume(Case):
    def wait_for_step(self, out, step, process):
        metrics = out / "metrics.jsonl"
        self.wait_until(lambda: metrics.exists() and len(metrics.read_text().splitlines()) >= step, process)

    def steps_in(self, out):
        metrics = out / "metrics.jsonl"
        return [json.loads(line)["step"] for line in metrics.read_text().splitlines() if line.endswith("}")] if metrics.exists() else []

    def kill_at_random(self, base, out, generator):
        """Whether the kill hit before the last update was logged; about one in eight hits before the first of its own."""
        process = self.start(**dict(base, output_dir=out, resume=True))
        logged = len(self.steps_in(out))
        if generator.random() < 0.875:
            self.wait_for_step(out, min(logged + generator.randint(1, 60), base["max_steps"] - 1), process)
        time.sleep(generator.uniform(0, 0.03))
        process.kill()
        process.communicate()
        return process.returncode == -signal.SIGKILL and self.steps_in(out)[-1:] != [base["max_steps"]]

    def test_kill_9_at_random_moments_and_resume_gives_the_uninterrupted_weights(self):
        base = self.base(max_steps=200, save_steps=7, eval_steps=50, train_batch_size=8)
        wanted = self.train("whole", **base)
        generator = random.Random(7)
        hits, runs = 0, 0
        while hits < KILLS:
            self.assertLess(runs, 4 + KILLS, "the kills come too late")
            out = self.folder / f"killed{runs}"
            runs += 1
            # Three kills of up to 60 steps each leave some for the run that ends.
            hits += sum(self.kill_at_random(base, out, generator) for _ in range(3))
            self.ok("train", **dict(base, output_dir=out, resume=True))
            for name in ("last/model.safetensors", "last/optimizer.safetensors", "best/model.safetensors"):
                self.assertEqual(sha256(out / name), sha256(wanted / name), name)
            self.assertEqual(self.steps_in(out), list(range(1, 201)))

    def test_signals_finish_the_update_checkpoint_and_exit_130(self):
        base = self.base(max_steps=5000, save_steps=100000)
        often = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)
        for number in (signal.SIGINT, signal.SIGTERM, *often):
            out = self.folder / f"signal{number}"
            process = self.start(**dict(base, output_dir=out))
            self.wait_for_step(out, 3, process)
            process.send_signal(number)
            if number in often:  # a terminal's end comes from the kernel, and again from the shell
                process.send_signal(number)
            _, errors = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 130, errors)
            state = json.loads((out / "last/snug_state.json").read_text())
            self.assertGreaterEqual(state["global_step"], 3)

    def test_a_signal_ends_an_evaluation_and_resume_makes_it_again(self):
        common.write_jsonl(self.valid_file, common.make_rows(4000, seed=2))
        base = self.base(max_steps=4, eval_steps=2, save_steps=2, save_total_limit=3, report_to="tensorboard")
        wanted = self.train("whole", **base)
        out = self.folder / "stopped"
        for step in (2, 4):  # the second evaluation is the last
            process = self.start(**dict(base, output_dir=out, resume=True))
            self.wait_for_step(out, step, process)
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 130, errors)
            self.assertIn(f"interrupted after update {step}; the checkpoint is in", errors)
            state = json.loads((out / "last/snug_state.json").read_text())
            self.assertEqual((state["global_step"], state["owes_evaluation"], state["is_finished"]), (step, True, False))
            self.assertEqual(len((out / "evaluations.jsonl").read_text().splitlines()), step // 2 - 1)
            self.assertFalse((out / f"checkpoint-{step}").exists())
            self.assertFalse((out / "summary.json").exists())
        self.ok("train", **dict(base, output_dir=out, resume=True))
        for name in ("last/model.safetensors", "last/optimizer.safetensors", "best/model.safetensors", "checkpoint-2/model.safetensors"):
            self.assertEqual(sha256(out / name), sha256(wanted / name), name)
        for folder in ("last", "checkpoint-2", "checkpoint-4"):
            self.assertEqual(self.state_without_paths(out / folder), self.state_without_paths(wanted / folder), folder)
        self.assertEqual(self.steps_in(out), self.steps_in(wanted))
        self.assertEqual(*(self.summary(folder)["final_metrics"] for folder in (out, wanted)))
        self.assertEqual(*([{key: value for key, value in json.loads(line).items() if key not in ("eval_runtime", "eval_samples_per_second")}
                            for line in (folder / "evaluations.jsonl").read_text().splitlines()] for folder in (out, wanted)))

    def state_without_paths(self, folder):
        """What a checkpoint says of the run; lengths of logs vary with the times in them."""
        state = json.loads((folder / "snug_state.json").read_text())
        return {key: value for key, value in state.items() if key not in ("config", "metrics_bytes", "evaluations_bytes")}

    def test_signals_that_the_caller_ignores_are_not_heard(self):
        out = self.folder / "nohup"
        ignored = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)
        process = subprocess.Popen(["nohup", common.SNUG, "train", *options(**self.base(output_dir=out, max_steps=30))],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   preexec_fn=lambda: [signal.signal(number, signal.SIG_IGN) for number in ignored])
        self.wait_for_step(out, 2, process)
        for number in (signal.SIGHUP, *ignored):
            process.send_signal(number)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, errors)

    def test_resume_under_another_budget_goes_on_to_the_same_bits(self):
        base = self.base(max_steps=8, train_batch_size=32, micro_batch_size=None, save_steps=1)
        smallest = self.plan(**base)["smallest_budget_bytes"]
        wanted = self.train("whole", **base)
        out = self.folder / "moved"
        process = self.start(**dict(base, output_dir=out))
        self.wait_for_step(out, 4, process)
        process.kill()
        process.communicate()
        fixed = json.loads((out / "last/snug_state.json").read_text())["micro_batch"] if (out / "last").exists() else 32
        small = self.plan(**dict(base, micro_batch_size=fixed))["smallest_budget_bytes"]
        self.assertGreaterEqual(small, smallest)
        self.ok("train", **dict(base, output_dir=out, resume=True, memory=small))
        self.assertEqual(sha256(out / "last/model.safetensors"), sha256(wanted / "last/model.safetensors"))

    def test_resume_keeps_the_micro_batch_or_names_the_key(self):
        out = self.train("run", train_batch_size=32, micro_batch_size=32, max_steps=2)
        refused = run("train", *options(**self.base(output_dir=out, train_batch_size=32, micro_batch_size=8, max_steps=2, resume=True)))
        self.assertEqual(refused.returncode, 1)
        self.assertIn("allow_new_split", refused.stderr)

    def test_links_in_the_place_of_checkpoints_are_refused_before_training(self):
        out = self.train("run", max_steps=2, validation_file=self.valid_file)
        for name in ("last", "best"):
            disk = self.folder / f"disk_{name}"
            (out / name).rename(disk)
            (out / name).symlink_to(disk)
            before = {path.name: path.read_bytes() for path in disk.iterdir() if path.is_file()}
            refused = run("train", *options(**self.base(output_dir=out, max_steps=4, resume=True)))
            self.assertEqual(refused.returncode, 1, refused.stderr)
            self.assertIn(f"[{out / name}] a folder would be written here, and a symbolic link stands in its place", " ".join(refused.stderr.split()))
            self.assertIn("hint:", refused.stderr)
            self.assertTrue((out / name).is_symlink())
            self.assertEqual({path.name: path.read_bytes() for path in disk.iterdir() if path.is_file()}, before)
            (out / name).unlink()
            disk.rename(out / name)
        moved = self.folder / "moved"  # the folder around them may be a link
        out.rename(moved)
        out.symlink_to(moved)
        self.ok("train", **self.base(output_dir=out, max_steps=4, resume=True))
        self.assertTrue(out.is_symlink())

    def test_a_used_folder_without_resume_and_a_folder_in_use_are_refused(self):
        out = self.train("run")
        used = run("train", *options(**self.base(output_dir=out)))
        self.assertEqual(used.returncode, 1)
        self.assertIn("--resume", used.stderr)
        other = self.folder / "busy"
        process = self.start(**self.base(output_dir=other, max_steps=5000))
        self.wait_for_step(other, 1, process)
        busy = run("train", *options(**self.base(output_dir=other, resume=True)))
        process.kill()
        process.communicate()
        self.assertEqual(busy.returncode, 1)
        self.assertIn(str(process.pid), busy.stderr)

    def test_resume_of_a_finished_run_changes_nothing(self):
        out = self.train("run")
        before = sha256(out / "last/model.safetensors")
        self.ok("train", **self.base(output_dir=out, resume=True))
        self.assertEqual(sha256(out / "last/model.safetensors"), before)

    def test_a_loss_that_is_not_finite_stops_with_3_and_keeps_the_last_checkpoint(self):
        out = self.folder / "nan"
        done = run("train", *options(**self.base(output_dir=out, learning_rate=1e30, max_grad_norm=0, optim="sgd", max_steps=50,
                                                 save_steps=1)))
        self.assertEqual(done.returncode, 3, done.stderr)
        weights = common.read_safetensors(out / "last/model.safetensors") if (out / "last").exists() else {}
        self.assertTrue(all(value == value for tensor in weights.values() for value in tensor))

    def test_a_write_that_does_not_fit_leaves_the_last_complete_checkpoint(self):
        base = self.base(max_steps=6, save_steps=2)
        out = self.folder / "full"
        self.ok("train", **dict(base, output_dir=out))
        before = sha256(out / "last/model.safetensors")
        # The weights are larger than the limit, all smaller files are not.
        limit = ("sh", "-c", 'ulimit -f 600 && exec "$@"', "sh")
        other = self.folder / "fresh"
        failed = run("train", *options(**dict(base, output_dir=other)), prefix=limit)
        self.assertEqual(failed.returncode, 1, failed.stderr)
        self.assertIn("last", failed.stderr)
        self.assertFalse((other / "last").exists())
        again = run("train", *options(**dict(base, output_dir=out, resume=True)), prefix=limit)
        self.assertEqual(again.returncode, 1, again.stderr)
        self.assertEqual(sha256(out / "last/model.safetensors"), before)
        self.ok("train", **dict(base, output_dir=other, resume=True))
        self.assertEqual(sha256(other / "last/model.safetensors"), before)

    def test_early_stopping(self):
        out = self.train("stop", learning_rate=1e-12, eval_steps=1, early_stopping_patience=2, max_steps=50)
        self.assertEqual(self.summary(out)["status"], "early_stopped")
        self.assertLess(self.summary(out)["steps"], 10)

    def test_a_threshold_is_patience_s_alone(self):
        """Transformers': what is better is kept, by however little."""
        values = dict(eval_steps=1, learning_rate=1e-4, lr_scheduler_type="constant", early_stopping_threshold=0.5)
        out = self.train("patient", **values, early_stopping_patience=100, max_steps=8)
        lines = [json.loads(line) for line in (out / "evaluations.jsonl").read_text().splitlines()]
        best = min(lines, key=lambda line: line["eval_loss"])
        self.assertGreater(best["step"], 1)
        state = json.loads((out / "last/trainer_state.json").read_text())
        self.assertEqual((state["best_global_step"], state["best_metric"]), (best["step"], best["eval_loss"]))
        out = self.train("ended", **values, early_stopping_patience=3, max_steps=50)
        self.assertEqual((self.summary(out)["status"], self.summary(out)["steps"]), ("early_stopped", 4))
        done = run("train", *options(**self.base(output_dir=self.folder / "none", **values)))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("give early_stopping_patience, or omit early_stopping_threshold", done.stderr)

    def test_an_undefined_metric_does_not_end_a_run(self):
        one = self.folder / "one.jsonl"
        common.write_jsonl(one, [row for row in common.make_rows(60) if row["label"] == "food"])
        values = dict(validation_file=one, metric_for_best_model="roc_auc", eval_steps=1, early_stopping_patience=1, max_steps=4)
        done = self.ok("train", **self.base(output_dir=self.folder / "out", **values))
        self.assertEqual(self.summary(self.folder / "out")["status"], "completed")
        self.assertEqual(done.stderr.count("metric_for_best_model roc_auc is undefined on the "), 1, done.stderr)

    def test_patience_without_evaluations_is_refused(self):
        for verb in ("train", "plan"):
            done = run(verb, *options(**self.base(output_dir=self.folder / "out", validation_file=None, validation_split=0,
                                                  early_stopping_patience=1)))
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("[early_stopping_patience] 1 evaluations end no run that has none", done.stderr)


if __name__ == "__main__":
    common.main()
