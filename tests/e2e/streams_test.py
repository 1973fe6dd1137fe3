"""Standard streams that are closed, full or left by their reader."""
import json
import subprocess

import common
from common import Case, SNUG, options

TINY = options(model="mlp", hidden_sizes=4, vocab_size=10, max_seq_length=4, train_batch_size=1, threads=2)


class Streams(Case):
    rows = 40

    def shell(self, words, redirection):
        """Runs the program with the shell's redirection of its streams."""
        command = ("sh", "-c", f'exec "$@" {redirection}', "sh", SNUG, *map(str, words))
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)

    def verbs(self):
        """Every verb with words under which it succeeds, and what prints help."""
        out = self.train("run", max_steps=1)
        trained = options(output_dir=out, test_file=self.valid_file, memory="1GiB", threads=2)
        problem = self.folder / "items.csv"
        problem.write_text("id,lower,upper,size\n0,0,2,8\n1,1,3,8\n")
        return [["--help"], ["--version"], ["train", "--help"], ["solve", "--help"], ["plan", *TINY], ["plan", *TINY, "--json"],
                ["inspect", *TINY], ["explain", *TINY], ["eval", *trained], ["predict", *trained],
                ["verify", *options(**self.base(max_seq_length=8, model="mlp", hidden_sizes=4))], ["solve", "placement", problem]]

    def test_output_that_cannot_be_written_is_exit_1_for_every_verb(self):
        for words in self.verbs():
            done = self.shell(words, "> /dev/full")
            self.assertEqual(done.returncode, 1, (words, done.stderr))
            self.assertIn("standard output", done.stderr, words)
            self.assertEqual(self.shell(words, "").returncode, 0, words)

    def test_files_asked_for_never_take_the_place_of_a_device_or_a_link(self):
        problem, target, link = (self.folder / name for name in ("items.csv", "target.csv", "link.csv"))
        problem.write_text("id,lower,upper,size\n0,0,2,8\n")
        target.touch()
        link.symlink_to(target)
        for words in (["solve", "placement", problem, "--output", link], ["plan", *TINY, "--save-plan", link],
                      ["plan", *TINY, "--save-problem", link, "--save-schedule", self.folder / "schedule.json"]):
            target.write_text("")
            self.assertEqual(self.shell(words, "").returncode, 0, words)
            self.assertTrue(link.is_symlink(), words)
            self.assertGreater(target.stat().st_size, 0, words)
        pipe = self.shell(["solve", "placement", problem, "--json", "--output", "/dev/stderr"], "")
        self.assertEqual(pipe.returncode, 0, pipe.stderr)
        self.assertTrue(pipe.stderr.startswith("id,lower,upper,size,offset"), pipe.stderr)
        weights = common.pathlib.Path(__file__).resolve().parents[1] / "golden/torch_files/protocol2.bin"
        refused = self.shell(["convert", weights, "--output", link], "")
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertIn("a link", refused.stderr)

    def test_training_goes_on_without_a_reader_and_says_so_at_the_end(self):
        for redirection in ("> /dev/full", "2> /dev/full"):
            out = self.folder / f"run{len(redirection)}"
            done = self.shell(["train", *options(**self.base(output_dir=out, max_steps=3))], redirection)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertEqual(self.summary(out)["status"], "completed")

    def test_a_reader_that_leaves_ends_predictions_with_exit_1(self):
        out = self.train("run", max_steps=1)
        words = options(output_dir=out, test_file=self.train_file, memory="1GiB", threads=2)
        process = subprocess.Popen([SNUG, "predict", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        process.stdout.close()
        errors = process.stderr.read()
        process.stderr.close()
        self.assertEqual(process.wait(), 1, errors)
        self.assertIn("standard output", errors)

    def test_closed_streams_are_no_place_for_files(self):
        wanted = common.sha256(self.train("whole", max_steps=3) / "last/model.safetensors")
        for i, redirection in enumerate((">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-")):
            out = self.folder / f"run{i}"
            done = self.shell(["train", *options(**self.base(output_dir=out, max_steps=3))], redirection)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex((out / ".snug.lock").read_text(), r"\A[0-9]+\n\Z")
            self.assertEqual(common.sha256(out / "last/model.safetensors"), wanted)
            for line in (out / "metrics.jsonl").read_text().splitlines():
                self.assertIn("step", json.loads(line))


if __name__ == "__main__":
    common.main()
