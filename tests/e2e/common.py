"""What the end-to-end tests share: a small data set, the program as a process, weights as numbers, memory limits."""
import array
import fcntl
import hashlib
import json
import os
import pathlib
import pty
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

SNUG = os.environ.get("SNUG", str(pathlib.Path(__file__).resolve().parents[2] / "build/release/snug"))
PAGE = 4096
# A sanitizer's shadow memory is in the resident set: no budget can hold then.
IS_SANITIZED = os.environ.get("SNUG_SANITIZED") == "1"

TOPICS = {
    "animal": "cat dog horse bird fish lion tiger whale mouse rabbit fur paw tail wing nest".split(),
    "food": "bread cheese apple soup rice sugar salt butter grape honey cook eat taste bake plate".split(),
    "tool": "hammer nail saw drill wrench screw bolt glue blade handle cut fix build bend lever".split(),
}


def make_rows(count, seed=1, longest=24):
    generator = random.Random(seed)
    rows = []
    for _ in range(count):
        label = generator.choice(sorted(TOPICS))
        words = [generator.choice(TOPICS[label] if generator.random() < 0.5 else sum(TOPICS.values(), []))
                 for _ in range(generator.randint(1, longest))]
        rows.append({"text": " ".join(words), "label": label})
    return rows


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


CIFAR_NAMES = "plane car bird cat deer dog frog horse ship truck".split()


def write_images(path, count, seed):
    """Noise with a bright bar whose place is the class."""
    generator = random.Random(seed)
    records = bytearray()
    for _ in range(count):
        label = generator.randrange(10)
        image = bytearray(generator.randbytes(3072))
        for plane in range(3):
            for row in range(32):
                begin = (plane * 32 + row) * 32 + 3 * label
                image[begin:begin + 3] = b"\xff\xff\xff"
        records += bytes([label]) + image
    path.write_bytes(records)


def write_cifar(folder, **counts):
    """CIFAR's binary files by name, with so many images each."""
    folder.mkdir()
    for seed, (name, count) in enumerate(counts.items(), 1):
        write_images(folder / f"{name}.bin", count, seed)
    (folder / "batches.meta.txt").write_text("\n".join(CIFAR_NAMES) + "\n")
    return folder


def run(*words, env=None, timeout=600, prefix=()):
    """Runs the program; returns the finished process with text output."""
    merged = dict(os.environ, **(env or {}))
    return subprocess.run([*prefix, SNUG, *map(str, words)], capture_output=True, text=True, errors="surrogateescape", timeout=timeout, env=merged)


def keep_speeds(profile):
    """Speeds in this file count as undisturbed: tests beside each other keep one another's threads waiting, and plans are to stay the same."""
    profile.write_text(json.dumps(dict(json.loads(profile.read_text()), waited_share=0)))


def set_rates(folder, rates):
    """Environment in which plans are made with these speeds, by op, whatever the machine's are."""
    env = {"XDG_CACHE_HOME": str(folder)}
    done = run("plan", "--model", "mlp", "--hidden_sizes", "4", "--vocab_size", "10", "--max_seq_length", "4",
               "--train_batch_size", "1", "--threads", "2", "--json", env=env)
    assert done.returncode == 0, done.stderr
    (profile,) = pathlib.Path(folder, "snug").glob("machine-2-*.json")
    measured = json.loads(profile.read_text())
    none = dict.fromkeys(measured["rates"][""], 0)
    rates = {kind: none | {"far_per_byte": rate["per_byte"], "reached_per_flop": rate["per_flop"]} | rate for kind, rate in rates.items()}
    profile.write_text(json.dumps(dict(measured, rates=rates, waited_share=0)))
    return env


def options(**values):
    """Keyword arguments as command-line words."""
    words = []
    for key, value in values.items():
        words += [f"--{key}"] if value is True else [f"--{key}", str(value)]
    return words


def read_safetensors_header(path):
    """Name -> type and shape."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    return {name: (info["dtype"], info["shape"]) for name, info in header.items() if name != "__metadata__"}


def read_safetensors(path):
    """Name -> array of floats, standard library alone."""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    tensors = {}
    for name, info in header.items():
        if name == "__metadata__":
            continue
        begin, end = info["data_offsets"]
        values = array.array("f")
        values.frombytes(data[8 + length + begin:8 + length + end])
        tensors[name] = values
    return tensors


def relative_l2(a, b):
    """Over all tensors together."""
    difference = sum((x - y) ** 2 for name in a for x, y in zip(a[name], b[name]))
    whole = sum(x * x for name in a for x in a[name])
    return (difference / whole) ** 0.5


def sha256(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def not_run(test, reason):
    """Skips the test and leaves a line for the end of ./test.sh, so that nobody believes it ran."""
    if "SNUG_NOT_RUN" in os.environ:
        with open(os.environ["SNUG_NOT_RUN"], "a") as file:
            file.write(f"{test.id()}: {reason}\n")
    test.skipTest(reason)


class MemoryLimit:
    """A control group with a hard limit, as context manager. Where none can be made the test is skipped, which is said;
    under continuous integration (CI is set) it fails where groups could be written."""

    def __init__(self, test, limit_bytes, root="/sys/fs/cgroup"):
        self.test, self.limit, self.root = test, limit_bytes, pathlib.Path(root)
        self.folder = None

    def __enter__(self):
        if IS_SANITIZED:
            not_run(self.test, "the sanitizer's own memory passes any limit")
        is_v1 = (self.root / "memory/memory.limit_in_bytes").exists()
        parent = self.root / "memory" if is_v1 else self.root
        if not is_v1 and not (parent / "cgroup.controllers").exists():
            not_run(self.test, "no memory control group is mounted")
        if not os.access(parent, os.W_OK):
            not_run(self.test, f"no control group can be made in {parent}: it is not writable")
        try:
            self.make(parent, is_v1)
        except OSError as error:
            self.__exit__()
            reason = f"no memory control group can be made in {parent}: {error}"
            if os.environ.get("CI"):
                self.test.fail(reason)
            not_run(self.test, reason)
        return self

    def make(self, parent, is_v1):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="snug-", dir=parent))
        if is_v1:
            self.write("memory.limit_in_bytes", self.limit)
            self.write_if_there("memory.swappiness", 0)
        else:
            if not (self.folder / "memory.max").exists():
                with open(parent / "cgroup.subtree_control", "r+") as file:
                    file.write("+memory")
            self.write("memory.max", self.limit)
            self.write_if_there("memory.swap.max", 0)

    def write(self, name, value):
        # Never created: in a folder that is no control group a limit would be a file like any other.
        with open(self.folder / name, "r+") as file:
            file.write(str(value))

    def write_if_there(self, name, value):
        if (self.folder / name).exists():
            self.write(name, value)

    @property
    def prefix(self):
        """A command that enters the group and becomes the program."""
        return ("sh", "-c", f'echo $$ > {self.folder}/cgroup.procs && exec "$@"', "sh")

    def __exit__(self, *_):
        if self.folder is not None and self.folder.exists():
            try:
                self.folder.rmdir()
            except OSError:
                pass


class Case(unittest.TestCase):
    """A test with a folder of its own, a data set in it, and speeds measured once for all tests."""

    rows = 200

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="snug-e2e-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.train_file = self.folder / "train.jsonl"
        self.valid_file = self.folder / "valid.jsonl"
        write_jsonl(self.train_file, make_rows(self.rows))
        write_jsonl(self.valid_file, make_rows(40, seed=2))

    def base(self, **more):
        values = dict(model="bert-tiny", train_file=self.train_file, validation_file=self.valid_file, vocab_size=400,
                      max_seq_length=32, train_batch_size=8, max_steps=6, learning_rate=1e-3, memory="1GiB", threads=2,
                      logging_steps=1, seed=3)
        values.update(more)
        return {key: value for key, value in values.items() if value is not None}

    def on_terminal(self, *words, columns):
        """What the program writes where stdout and stderr are a terminal of so many columns, and its exit code."""
        main, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen([SNUG, *map(str, words)], stdin=subprocess.DEVNULL, stdout=side, stderr=side)
        os.close(side)
        text = b""
        while True:
            try:
                part = os.read(main, 65536)
            except OSError:
                break
            if not part:
                break
            text += part
        os.close(main)
        return text.decode().replace("\r\n", "\n"), process.wait()

    def ok(self, verb, env=None, **values):
        done = run(verb, *options(**values), env=env)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return done

    def plan(self, env=None, **values):
        return json.loads(self.ok("plan", env=env, json=True, **values).stdout)

    def train(self, name, **more):
        """Trains into a folder of this name and returns it."""
        out = self.folder / name
        self.ok("train", **self.base(output_dir=out, **more))
        return out

    def start(self, **values):
        return subprocess.Popen([SNUG, "train", *options(**values)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def wait_until(self, is_reached, process):
        """Until this function says so, or the process has ended."""
        for _ in range(6000):
            if is_reached() or process.poll() is not None:
                return
            time.sleep(0.01)
        self.fail("the run does not move")

    def kill_after_a_checkpoint(self, **values):
        process = self.start(**values)
        self.wait_until((values["output_dir"] / "last/trainer_state.json").exists, process)
        process.kill()
        process.communicate()

    def assert_resident_within(self, summary, budget):
        if not IS_SANITIZED:
            self.assertLessEqual(summary["measured_peak_rss_bytes"], budget)

    def summary(self, out):
        return json.loads((out / "summary.json").read_text())


def main():
    if not os.access(SNUG, os.X_OK):
        sys.exit(f"{SNUG} is not built")
    unittest.main(verbosity=2)
