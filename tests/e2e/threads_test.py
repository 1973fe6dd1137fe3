#!/usr/bin/env python3
"""Threads on cores that other processes want too."""
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

from common import IS_SANITIZED, SNUG, make_rows, options, run, write_jsonl


def symbols(path, *flags):
    listed = subprocess.run(["nm", "-D", *flags, path], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r" (GOMP_\w+|omp_\w+|__kmpc_\w+)", listed))


class Spinners:
    """Processes that want a core all the time, on the cores that the test has."""

    def __init__(self, count):
        self.count = count

    def __enter__(self):
        self.running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(self.count)]

    def __exit__(self, *_):
        for each in self.running:
            each.kill()
            each.wait()


class ThreadsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        write_jsonl(self.folder / "rows.jsonl", make_rows(64))
        cores = os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, cores)
        os.sched_setaffinity(0, sorted(cores)[:2])

    def train(self, name, steps):
        """The finished process, and the processor time that it took."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = run("train", *options(model="bert-tiny", train_file=self.folder / "rows.jsonl", output_dir=self.folder / name, threads=2,
                                     max_seq_length=32, train_batch_size=16, max_steps=steps, vocab_size=100, validation_split=0))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def test_more_threads_than_the_process_may_use_are_said(self):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
        for threads, is_said in ((1, False), (2, True)):
            done = run("plan", *options(model="bert-tiny", num_labels=2, memory="1GiB", threads=threads))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(f"threads is {threads}, and this process may use 1 at once" in done.stderr, is_said, done.stderr)

    @unittest.skipIf(os.geteuid() != 0, "only root has other users' limits to try")
    def test_threads_that_the_system_does_not_give(self):
        """A limit of processes, which a batch system or a container sets."""
        self.folder.chmod(0o777)  # of a user who may start none, and has no way to where this lies
        program = shutil.copy(SNUG, self.folder)
        vocabulary = self.folder / "vocab.txt"
        vocabulary.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\n")
        data = dict(model="bert-tiny", train_file=self.folder / "rows.jsonl", memory="200MiB", output_dir=self.folder / "none")
        for more, text in ((dict(threads=1), "no thread can be had to learn a vocabulary"), (dict(threads=2, tokenizer=vocabulary), "are 2, and the system gives this process 1")):
            done = subprocess.run(["setpriv", "--reuid=54321", "--clear-groups", "prlimit", "--nproc=1", program, "train", *map(str, options(**data, **more))],
                                  cwd=self.folder, capture_output=True, text=True)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(f"error: [threads] {text}", done.stderr)
            self.assertIn("ulimit -u", done.stderr)
        script = """
import array, os, resource, snug
from snug.layers import cross_entropy, linear
@snug.network
def digits(b):
    b.minimize(cross_entropy(linear("out", linear("hidden", b.input("x", [64]), 512), 10), b.input("label", dtype="i32")))
rows = {"x": memoryview(array.array("f", [0.5] * 64 * 256)).cast("B").cast("f", [256, 64]), "label": array.array("i", [1] * 256)}
options = dict(batch_rows=256, memory="64MiB")
snug.Session(digits, **options, threads=1).step(rows)  # all modules are there from now on
resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
os.setuid(54321)
try:
    snug.Session(digits, **options, threads=2).step(rows)
except snug.Error as error:
    print(error)
print("goes on")
"""
        root = pathlib.Path(__file__).parents[2]
        library = pathlib.Path(SNUG).parent / "libsnug_c.so"
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], env={**os.environ, "SNUG_LIBRARY": str(library), "PYTHONPATH": str(root / "python")},
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"\[threads\] are 2, and the system gives this process 1.*\n.*\ngoes on")

    def test_the_program_has_all_of_openmp_that_its_libraries_ask_for(self):
        listed = subprocess.run(["ldd", SNUG], capture_output=True, text=True, check=True).stdout
        libraries = re.findall(r"=> (/\S+)", listed)
        asked = set().union(*(symbols(each, "--undefined-only") for each in libraries if not re.search(r"lib(g|i)?omp", each)))
        self.assertIn("GOMP_parallel", asked)
        self.assertEqual(asked - symbols(SNUG, "--defined-only"), set())

    @unittest.skipIf(IS_SANITIZED, "a sanitizer's own work is most of the time")
    def test_waiting_beside_busy_processes_takes_no_processor_time(self):
        self.train("first", 1)  # the machine's speeds are measured
        # Startup is left out of the difference of two runs.
        alone = [self.train(f"alone-{steps}", steps)[1] for steps in (5, 40)]
        with Spinners(4):
            beside = [self.train(f"beside-{steps}", steps)[1] for steps in (5, 40)]
        # A thread that spins while the other waits for a core takes four times as much.
        self.assertLess(beside[1] - beside[0], 2.2 * (alone[1] - alone[0]))


if __name__ == "__main__":
    unittest.main()
