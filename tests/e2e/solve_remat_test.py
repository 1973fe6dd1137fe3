"""The training step of a run as files of `snug solve`: the check judges the plan's schedule as the plan itself does."""
import json
import random
import resource

import common
from common import Case, options, run


class SavedProblems(Case):
    FAMILIES = {
        "bert": dict(model="bert-tiny", max_seq_length=32, train_batch_size=8, memory="120MiB"),
        "bert in pieces": dict(model="bert-tiny", max_seq_length=64, train_batch_size=32, micro_batch_size=4, memory="200MiB"),
        "every layer again": dict(model="bert-tiny", max_seq_length=32, train_batch_size=8, memory="120MiB", recompute="all"),
        "distilbert": dict(model="distilbert-base", max_seq_length=16, train_batch_size=4, memory="2GiB"),
        "lstm": dict(model="lstm", hidden_size=32, max_seq_length=24, train_batch_size=8, memory="120MiB", recompute="sqrt"),
        "resnet": dict(model="resnet-20", train_batch_size=16, memory="120MiB"),
        "vgg": dict(model="vgg-16", image_size=32, train_batch_size=2, memory="5GiB"),
        "mlp": dict(model="mlp", hidden_sizes="64,32", max_seq_length=16, train_batch_size=8, vocab_size=500, memory="90MiB"),
    }

    def saved(self, **words):
        files = self.folder / "problem.json", self.folder / "schedule.json"
        done = run("plan", "--json", "--save-problem", files[0], "--save-schedule", files[1], *options(threads=1, **words))
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout), *files, done.stderr

    def test_the_check_gives_the_peak_and_cost_of_the_plan(self):
        for name, words in self.FAMILIES.items():
            with self.subTest(name):
                # A problem file has no row programs.
                plan, problem, schedule, _ = self.saved(**words, max_grad_norm=0, fusion="off")
                check = run("solve", "check", problem, schedule, "--json")
                self.assertEqual(check.returncode, 0, check.stderr + check.stdout)
                check, written = json.loads(check.stdout), json.loads(schedule.read_text())
                self.assertEqual(check["violations"], [])
                self.assertEqual((check["peak_bytes"], check["cost"]), (written["peak_bytes"], written["cost"]))
                self.assertEqual(check["peak_bytes"], plan["load_bytes"])
                self.assertLessEqual(check["peak_bytes"], plan["arena_bytes"])
                if plan["accumulation_steps"] == 1:
                    self.assertEqual(written["cost"] + written["kept_cost"], plan["step_seconds"])

    def test_which_program_is_saved_is_said(self):
        # Which split is the fastest is the machine's affair; here it is given.
        _, _, _, said = self.saved(**self.FAMILIES["bert"], micro_batch_size=8)
        self.assertIn("8 x row of 32 tokens, with the update, one of the 2 programs of this run", said)
        _, _, _, said = self.saved(**self.FAMILIES["resnet"])
        self.assertIn("16 x image of 32 x 32 pixels, with the update", said)
        _, _, _, said = self.saved(**self.FAMILIES["bert in pieces"])
        # Where products are our own, weights may be packed by one more.
        self.assertRegex(said, "4 x row of 64 tokens, without the update, one of the [34] programs of this run")

    def test_the_planner_alone_plans_the_saved_problem(self):
        _, problem, schedule, _ = self.saved(**self.FAMILIES["mlp"])
        least = json.loads(run("solve", "remat", problem, "--budget", "1", "--json").stdout)
        self.assertFalse(least["fits"])
        self.assertLess(least["peak_bytes"], json.loads(schedule.read_text())["peak_bytes"])
        better = self.folder / "better.json"
        done = run("solve", "remat", problem, "--budget", least["peak_bytes"], "--json", "--output", better)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        check = json.loads(run("solve", "check", problem, better, "--json").stdout)
        self.assertEqual((check["peak_bytes"], check["cost"]), (report["peak_bytes"], report["cost"]))

    def test_a_time_limit_is_a_number_above_0(self):
        for text in ("0", "-0.0", "-1", "0x10", "1e-400", "soon"):
            done = run("solve", "remat", self.folder / "nowhere.json", "--budget", "0.5", f"--time-limit={text}")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(f"[--time-limit] '{text}' is no number of seconds above 0", done.stderr)
            self.assertIn("omit it for a search without a time limit", done.stderr)

    def test_the_result_is_not_written_over_the_problem(self):
        _, problem, _, _ = self.saved(**self.FAMILIES["mlp"])
        before = problem.read_bytes()
        for more in (["--budget", "0.9"], ["--curve"]):
            done = run("solve", "remat", problem, *more, "--output", self.folder / "." / "problem.json")
            self.assertEqual((done.returncode, "own file" in done.stderr), (1, True), done.stderr)
        self.assertEqual(problem.read_bytes(), before)

    def test_bytes_with_a_decimal_point_are_no_fraction(self):
        _, problem, _, _ = self.saved(**self.FAMILIES["mlp"])
        done = run("solve", "remat", problem, "--budget", "6144.0")
        self.assertEqual((done.returncode, "6144.0 times the peak" in done.stderr), (1, True), done.stderr)
        self.assertEqual(run("solve", "remat", problem, "--budget", "1.5").returncode, 0)

    def test_a_small_problem_ends_soon(self):
        draw = random.Random(5)
        problem = {"storages": [], "ops": [], "keep": ["t20"]}
        for i in range(21):
            problem["storages"].append({"id": f"t{i}", "bytes": draw.randint(1, 40)})
            inputs = [f"t{j}" for j in sorted(draw.sample(range(i), min(i, draw.randint(1, 4))))]
            problem["ops"].append({"id": f"o{i}", "inputs": inputs, "outputs": [f"t{i}"], "cost": draw.randint(1, 9)})
        file = self.folder / "small.json"
        file.write_text(json.dumps(problem))
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        done = run("solve", "remat", file, "--budget", "0.68", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        # Seconds of the processor. It takes a sixth of this, and with the limits of large problems more than twice.
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, 8)

    def test_a_changed_schedule_or_file_is_refused(self):
        _, problem, schedule, _ = self.saved(**self.FAMILIES["mlp"])
        written = json.loads(schedule.read_text())
        last = written["schedule"].pop()
        schedule.write_text(json.dumps(written))
        done = run("solve", "check", problem, schedule)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f'op "{last}" has never run', done.stdout + done.stderr)
        done = run("plan", *options(**self.FAMILIES["mlp"]), "--save-problem", self.folder / "no" / "folder.json")
        self.assertEqual(done.returncode, 1)
        self.assertIn("folder.json", done.stderr)
        done = run("train", "--save-problem", "x.json")
        self.assertEqual(done.returncode, 1, "plan alone takes it")


if __name__ == "__main__":
    common.main()
