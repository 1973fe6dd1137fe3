#!/usr/bin/env python3
"""Makes every system call of a small run fail, or ends the process there, and resumes: nothing is lost, bits are equal.

The run: bert-tiny, three updates, a checkpoint after the second, evaluation and the best weights at the end. Two begin: one in an
empty folder, and one that resumes in a folder whose last commit was killed halfway. Each call on the run's folder and data
(fault.cc counts them) is hit in every way that it can be:

  kill, torn     the process ends before the call, or after half of a write
  ENOSPC, EIO    exit 1 and an error that names a file (2 where memory is refused), or success with the same weights
  EINTR, short   success with the same weights

After each, --resume reaches the weights, optimizer states, best weights, log and files of an undisturbed run.

usage: run_faults.py SNUG SHIM [--sample N] [--seed S] [--jobs J] [--first N] [--only SCENARIO:CALL:KIND]
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import common  # noqa: E402

READS = {"read", "pread"}
WRITES = {"write", "pwrite"}
MAY_BE_INTERRUPTED = {"open", "open_write", "create", "read", "pread", "write", "pwrite", "fsync", "ftruncate", "flock", "close"}
MAY_BE_FULL = {"create", "fcreate", "write", "pwrite", "fsync", "ftruncate", "mkdir", "rename", "renameat2"}
KILLED = -9
# Closing a file that was read, or one that is thrown away, cannot lose anything; a folder that is there already need not be made; a
# token cache that cannot be read is made again.
HARMLESS = {"close", "unlink", "rmdir", "flock", "mkdir"}

Case = collections.namedtuple("Case", "scenario number operation path kind")


def kinds_of(operation):
    kinds = ["kill"]
    kinds += ["torn"] if operation in WRITES else []
    kinds += ["short"] if operation in READS | WRITES else []
    if operation == "mmap":
        return kinds + ["ENOMEM"]
    kinds += ["EINTR"] if operation in MAY_BE_INTERRUPTED else []
    kinds += ["ENOSPC"] if operation in MAY_BE_FULL else []
    return kinds + ["EIO"]


class Faults:
    def __init__(self, snug, shim, folder):
        self.snug, self.shim, self.folder = str(snug), str(shim), folder
        self.data = folder / "data"
        self.data.mkdir()
        common.write_jsonl(self.data / "train.jsonl", common.make_rows(24, longest=6))
        common.write_jsonl(self.data / "valid.jsonl", common.make_rows(6, seed=2, longest=6))
        self.words = common.options(
            model="bert-tiny", train_file=self.data / "train.jsonl", validation_file=self.data / "valid.jsonl", vocab_size=80,
            max_seq_length=8, train_batch_size=8, max_steps=3, save_steps=2, save_total_limit=1, logging_steps=1, memory="300MiB",
            threads=1, seed=3, learning_rate=1e-3, recompute="none", resume=True)

    def run(self, out, at=None, kind="", log=None):
        """Trains or resumes in `out`; with `at`, through the shim (0: counting)."""
        env = dict(os.environ)
        if at is not None:
            env.update(LD_PRELOAD=self.shim, SNUG_FAULT_PATHS=f"{out}:{self.data}", SNUG_FAULT_AT=str(at), SNUG_FAULT_KIND=kind,
                       SNUG_FAULT_LOG=str(log))
        return subprocess.run([self.snug, "train", *self.words, "--output_dir", str(out)], env=env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=300)

    def calls(self, out):
        """The calls of a run in `out`, as (operation, path)."""
        log = self.folder / f"{out.name}.log"
        done = self.run(out, 0, log=log)
        assert done.returncode == 0, done.stderr
        return [tuple(line.replace(str(out), "OUT").split(" ", 1)) for line in log.read_text().splitlines()]

    def result(self, out):
        """All that must be equal, whatever happened."""
        names = sorted(str(path.relative_to(out)) for path in out.rglob("*"))
        hashes = {name: common.sha256(out / name)
                  for name in ("last/model.safetensors", "last/optimizer.safetensors", "best/model.safetensors")}
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        steps = [line["step"] for line in lines if "loss" in line]  # not those that say where the folder was moved
        return {"files": names, "hashes": hashes, "steps": steps}

    def differences(self, out):
        found, wanted = self.result(out), self.wanted
        return [f"{key}: {set(map(str, found[key])) ^ set(map(str, wanted[key])) or found[key]}"
                for key in found if found[key] != wanted[key]]

    def prepare(self):
        """Undisturbed runs, and for each scenario the folder it begins in and its calls."""
        # A first run of a program on a machine measures the kernels' rates, with their own buffers, and keeps them in the cache.
        self.calls(self.folder / "warm")
        whole = self.folder / "whole"
        fresh_calls = self.calls(whole)
        self.wanted = self.result(whole)
        assert self.wanted["steps"] == [1, 2, 3], self.wanted
        # Killed before the exchange for the last checkpoint: it lies complete beside that of the second update.
        halfway = self.folder / "halfway"
        exchange = [i for i, (operation, _) in enumerate(fresh_calls, 1) if operation == "renameat2"][0]
        done = self.run(halfway, exchange, "kill", self.folder / "halfway.log")
        assert done.returncode == KILLED, done.stderr
        assert (halfway / "last.snug-new").is_dir() and (halfway / "last").is_dir()
        self.begin = {"fresh": None, "halfway": halfway}
        resumed = self.folder / "resumed"
        shutil.copytree(halfway, resumed)
        calls = {"fresh": fresh_calls, "halfway": self.calls(resumed)}
        assert not self.differences(resumed), self.differences(resumed)
        return [Case(scenario, number, operation, path, kind) for scenario, made in calls.items()
                for number, (operation, path) in enumerate(made, 1) for kind in kinds_of(operation)]

    def check(self, case):
        """What is wrong with this case; nothing if all is well."""
        out = pathlib.Path(tempfile.mkdtemp(prefix="run-", dir=self.folder))
        try:
            if self.begin[case.scenario] is None:
                out.rmdir()
            else:
                shutil.copytree(self.begin[case.scenario], out, dirs_exist_ok=True)
            log = self.folder / f"{out.name}.log"
            done = self.run(out, case.number, case.kind, log)
            hit = log.read_text().replace(str(out), "OUT") if log.exists() else ""
            log.unlink(missing_ok=True)
            if hit != f"{case.operation} {case.path}\n":
                return f"another call was hit: '{hit.strip()}'"
            return self.judge(case, done, out)
        finally:
            shutil.rmtree(out, ignore_errors=True)

    def judge(self, case, done, out):
        said = f"exit {done.returncode}: {done.stderr.strip()[-600:]}"
        if case.kind in ("kill", "torn"):
            if done.returncode != KILLED:
                return said
        elif case.kind in ("EINTR", "short"):
            if done.returncode != 0:
                return said
        elif case.kind == "ENOMEM":
            if done.returncode != 2 or "error: " not in done.stderr:
                return said
        elif done.returncode == 0:
            if case.operation not in HARMLESS and not case.path.endswith(".tokens"):
                return f"the error was not seen: {said}"
        elif done.returncode != 1 or not any(f"[{place}" in done.stderr for place in (out, self.data)):
            return said
        if done.returncode != 0:
            again = self.run(out)
            if again.returncode != 0:
                return f"{said}\n  resume: exit {again.returncode}: {again.stderr.strip()[-600:]}"
        differences = self.differences(out)
        return f"{said}\n  another result: {differences}" if differences else ""


def sampled(cases, count, generator):
    """One case each of so many classes, where a class is a way to hit a call on a file in a scenario."""
    classes = collections.defaultdict(list)
    for case in cases:
        classes[case.scenario, case.operation, case.path, case.kind].append(case)
    chosen = generator.sample(sorted(classes), min(count, len(classes)))
    return [generator.choice(classes[key]) for key in chosen]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("snug", type=pathlib.Path)
    parser.add_argument("shim", type=pathlib.Path)
    parser.add_argument("--sample", type=int, default=0, help="so many cases of different kinds; 0: every case")
    parser.add_argument("--seed", type=int, default=int(time.time()) // 86400, help="of the sample; default: the day's number")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--first", type=int, default=0, help="omit so many cases: goes on where a stopped command ended")
    parser.add_argument("--only", default="", help="SCENARIO:CALL:KIND, as a failure names it")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="snug-fault-") as folder:
        faults = Faults(arguments.snug.resolve(), arguments.shim.resolve(), pathlib.Path(folder))
        cases = faults.prepare()
        total = len(cases)
        if arguments.only:
            cases = [case for case in cases if f"{case.scenario}:{case.number}:{case.kind}" == arguments.only]
        elif arguments.sample:
            cases = sampled(cases, arguments.sample, random.Random(arguments.seed))
            print(f"sample of seed {arguments.seed}", flush=True)
        else:
            cases = cases[arguments.first:]
        assert cases, "no such case"
        failures = 0
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            for done, (case, wrong) in enumerate(zip(cases, pool.map(faults.check, cases)), 1):
                if wrong:
                    failures += 1
                    print(f"FAILED {case.scenario}:{case.number}:{case.kind} {case.operation} {case.path}\n  {wrong}", flush=True)
                if done % 500 == 0:
                    print(f"{done} of {len(cases)}, {failures} failed", flush=True)
    print(f"{len(cases)} of {total} cases, {failures} failed")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
