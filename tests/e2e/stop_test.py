"""Signals while a plan is made: the program ends at once, and a long plan shows its progress."""
import json
import os
import pathlib
import re
import signal
import subprocess
import time
from unittest import mock

import common
from common import Case, options

LAYERS = dict(model_type="bert", hidden_size=64, num_attention_heads=1, intermediate_size=64, vocab_size=1000,
              max_position_embeddings=128, type_vocab_size=2)


class Stop(Case):
    def deep(self, layers):
        file = self.folder / "config.json"
        file.write_text(json.dumps(dict(LAYERS, num_hidden_layers=layers)))
        return dict(model=file, train_batch_size=8, max_seq_length=64, memory="1TiB", threads=1)

    def interrupted(self, signal_number, after, during="planning", **keys):
        """Seconds of processor time from the signal to the end: of a busy machine they are what a free one takes."""
        process = subprocess.Popen([common.SNUG, "plan", *options(**keys)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        while (before := processor_seconds(process)) < after:
            self.assertIsNone(process.poll(), "planned too soon for this test")
            time.sleep(0.005)
        process.send_signal(signal_number)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said = process.stderr.read()
        self.assertEqual(process.returncode, 130, said)
        self.assertRegex(said, rf"error: \[{during}\] stopped on request")
        return usage.ru_utime + usage.ru_stime - before

    def test_a_signal_ends_planning(self):
        self.plan(**self.deep(1))  # measures the machine's speeds, which is no planning
        deep = self.deep(3000)
        for after in (0.1, 0.9, 2.6, 4.8):
            self.assertLess(self.interrupted(signal.SIGINT, after, **deep), 0.2, f"after {after} s")
        lstm = dict(model="lstm", train_batch_size=16, max_seq_length=4000, memory="1TiB", threads=1)
        self.assertLess(self.interrupted(signal.SIGTERM, 1.0, **lstm), 0.2)

    def test_a_signal_ends_what_comes_between_the_plan_and_the_first_update(self):
        """Memory is touched, kernels and weights are made: seconds for a large model."""
        out = self.folder / "out"
        large = dict(self.base(validation_file=None, validation_split=0, model="bert-base", max_seq_length=16, train_batch_size=4,
                               memory="3GiB", threads=1, max_steps=1))
        for verb, more in (("explain", {}), ("verify", {}), ("train", dict(output_dir=out))):
            words = [common.SNUG, verb, *options(**large, **more)]
            process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            self.wait_until(lambda: resident_bytes(process) > 300 << 20, process)
            begin = processor_seconds(process)
            process.send_signal(signal.SIGTERM)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            said = process.communicate()[1]
            self.assertEqual(process.returncode, 130, verb + said)
            self.assertIn("stopped on request", said)
            self.assertLess(usage.ru_utime + usage.ru_stime - begin, 0.3, verb)
        self.assertFalse((out / "last").exists())  # nothing was trained

    def test_a_signal_ends_tokenize_whether_it_waits_for_lines_or_has_them(self):
        vocabulary = self.folder / "vocab.txt"
        vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good"]) + "\n")
        words = [common.SNUG, "tokenize", "--model", vocabulary]
        reader, writer = os.pipe()
        with subprocess.Popen(["yes", "good"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as endless:
            for lines in (reader, endless.stdout):
                process = subprocess.Popen(words, stdin=lines, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                wait_for_handler(process)
                time.sleep(0.2)
                process.send_signal(signal.SIGINT)
                said = process.communicate(timeout=60)[1]
                self.assertEqual(process.returncode, 130, said)
                self.assertIn("stopped on request", said)
            endless.kill()
        os.close(reader)
        os.close(writer)
        folder = os.open(self.folder, os.O_RDONLY)
        process = subprocess.run(words, stdin=folder, capture_output=True, text=True)
        os.close(folder)
        said = process.stderr
        self.assertEqual(process.returncode, 1, said)
        self.assertIn("standard input", said)

    def test_nothing_temporary_is_left(self):
        """The end comes before anything is given back, but not before what lies on the disk."""
        rows = self.folder / "rows.csv"
        rows.write_text("text,label\n" + "good word,a\nbad word,b\n" * 40)
        scratch = self.folder / "scratch"
        scratch.mkdir()
        with mock.patch.dict(os.environ, TMPDIR=str(scratch)):
            vocabulary = self.folder / "vocab.txt"
            vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "word"]) + "\n")
            # Planning comes before or after the second and a half: how fast rows are read is the machine's affair.
            self.interrupted(signal.SIGINT, 1.5, during=f"planning|{rows}", **self.deep(3000), train_file=rows, tokenizer=vocabulary)
        self.assertEqual(list(scratch.iterdir()), [])

    def test_a_signal_ends_the_measurement_of_the_machine(self):
        with mock.patch.dict(os.environ, XDG_CACHE_HOME=str(self.folder / "unmeasured")):
            process = self.start(**self.base(model="mlp", hidden_sizes=4, output_dir=self.folder / "out", threads=1))
            said = ""
            while "measuring how fast this machine is" not in said:
                line = process.stderr.readline()
                self.assertTrue(line, said)
                said += line
            begin = processor_seconds(process)
            process.send_signal(signal.SIGINT)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            said = process.communicate()[1]
        self.assertEqual(process.returncode, 130, said)
        self.assertLess(usage.ru_utime + usage.ru_stime - begin, 5, said)  # an op is measured to its end

    def test_speeds_that_have_no_home_are_measured_once_all_the_same(self):
        temporary = self.folder / "tmp"
        temporary.mkdir()
        words = ["plan", *options(**self.base(model="mlp", hidden_sizes=4, threads=1))]
        with mock.patch.dict(os.environ, HOME="/proc/nobody", TMPDIR=str(temporary)):
            os.environ.pop("XDG_CACHE_HOME", None)  # patch.dict brings it back
            first = common.run(*words)
            (profile,) = temporary.glob("snug-*/machine-*.json")
            common.keep_speeds(profile)
            second = common.run(*words)
        self.assertEqual((first.returncode, second.returncode), (0, 0), first.stderr + second.stderr)
        said = " ".join(first.stderr.split())
        self.assertIn("measuring how fast this machine is", said)
        self.assertRegex(said, r"cannot be kept where they belong \(/proc/nobody: .*, and are kept in " + re.escape(str(temporary)))
        self.assertNotRegex(second.stderr, "measuring|cannot be kept")

    def test_a_long_plan_says_what_it_is_at(self):
        words = ["plan", *options(**self.deep(3000))]
        shown, code = self.on_terminal(*words, columns=100)
        self.assertEqual(code, 0, shown)
        phases = set(re.findall(r"planning, ([a-z ]+?) +[█░]", shown))
        self.assertLessEqual({"building the graph", "lowering", "blocks", "chain", "refining", "placement"}, phases | {"building the graph"})
        logged = common.run(*words).stderr
        self.assertRegex(logged, r"planning, [a-z ]+: \d+ %")


def wait_for_handler(process):
    """Until the process hears a signal."""
    while not int(re.search(r"SigCgt:\s*(\w+)", pathlib.Path(f"/proc/{process.pid}/status").read_text())[1], 16) & 1 << signal.SIGINT - 1:
        time.sleep(0.01)


def resident_bytes(process):
    """0 where it has ended."""
    try:
        return int(pathlib.Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * common.PAGE
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return 0


def processor_seconds(process):
    """Of its main thread, which does all the planning."""
    try:
        return int(pathlib.Path(f"/proc/{process.pid}/schedstat").read_text().split()[0]) / 1e9
    except (FileNotFoundError, ProcessLookupError):
        return 0


if __name__ == "__main__":
    common.main()
