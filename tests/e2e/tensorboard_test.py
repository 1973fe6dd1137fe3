"""report_to tensorboard: event files as the real TensorBoard reads them, over resumes. Listed as not run where the package is missing."""
import json
import math
import shutil

from common import Case, main, not_run, options, run

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError as missing:
    EventAccumulator, reason = None, f"Python has no {missing.name}"


class TensorBoard(Case):
    rows = 60

    def base(self, **more):
        return super().base(**dict(dict(max_seq_length=8, recompute="none", lr_scheduler_type="constant", logging_steps=1, eval_steps=2,
                                        save_steps=2, report_to="tensorboard"), **more))

    def events(self, out):
        if EventAccumulator is None:
            not_run(self, reason)
        events = EventAccumulator(str(out / "runs"), size_guidance={"scalars": 0, "tensors": 0})
        return events.Reload()

    def lines(self, out, name):
        return [line for line in map(json.loads, (out / name).read_text().splitlines()) if "changed" not in line]

    def assert_all_is_there(self, out):
        """Every number of the logs, once, under Hugging Face's tags."""
        events, updates, evaluations = self.events(out), self.lines(out, "metrics.jsonl"), self.lines(out, "evaluations.jsonl")
        wanted = {f"train/{key}": [(line["step"], line[key]) for line in updates] for key in ("loss", "learning_rate", "grad_norm", "epoch")}
        wanted["memory/measured_arena_bytes"] = [(line["step"], line["arena_peak_bytes"]) for line in updates]
        for key in evaluations[0]:
            if key.startswith("eval_") and key != "eval_rows":
                wanted[f"eval/{key[5:]}"] = [(line["step"], line[key]) for line in evaluations if line[key] is not None]
        for tag, values in wanted.items():
            found = [(event.step, event.value) for event in events.Scalars(tag)] if values else []
            self.assertEqual([step for step, _ in found], [step for step, _ in values], tag)
            for (_, a), (_, b) in zip(found, values):
                self.assertTrue(math.isclose(a, b, rel_tol=1e-6), (tag, a, b))
        plan = json.loads((out / "plan.json").read_text())
        self.assertAlmostEqual(events.Scalars("memory/planned_peak_bytes")[-1].value, plan["planned_peak_bytes"], delta=1e3)
        text = events.Tensors("plan/text_summary")[0].tensor_proto
        self.assertIn("arena", text.string_val[0].decode())

    def test_scalars_and_text_over_resumes(self):
        out = self.train("run", max_steps=4)
        self.assert_all_is_there(out)
        shutil.copytree(out / "last", self.folder / "kept")
        for _ in range(2):
            self.ok("train", **self.base(output_dir=out, max_steps=7, resume=True))
            self.assert_all_is_there(out)
            shutil.rmtree(out / "last")  # as where a kill came before the next checkpoint
            shutil.copytree(self.folder / "kept", out / "last")
        self.assertEqual(len(list((out / "runs").iterdir())), 3)

    def test_without_the_key_there_are_no_events_and_others_are_refused(self):
        self.assertFalse((self.train("run", max_steps=2, report_to="none") / "runs").exists())
        done = run("train", *options(**self.base(output_dir=self.folder / "other", report_to="wandb")))
        self.assertEqual(done.returncode, 1)
        self.assertIn("wandb", done.stderr)
        self.assertIn("nothing is sent anywhere", done.stderr)


if __name__ == "__main__":
    main()
