#!/usr/bin/env python3
"""Random configurations by the program and by Python: the same plans, files and bits, and of what is refused the same words. Then
random networks in Python: in every budget the same bits, planned = measured, a page less is refused, and a resumed session goes on.

usage: random_in_python.py [--seed N] [--configs N] [--networks N] [--seconds S]
No new one is begun after S seconds. The program is the environment variable SNUG. (The other promises: random_configs.py with
tests/python/program.py as the program.)
"""
import argparse
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
import types
import warnings

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]

import common  # noqa: E402
import draw  # noqa: E402
import random_configs  # noqa: E402
import snug  # noqa: E402
from common import PAGE  # noqa: E402
from snug import layers, ops  # noqa: E402

try:
    import numpy as np
except ImportError:
    np = None

# What the process has, and what follows from it.
OF_PROCESS = {"process_bytes", "planned_peak_bytes", "keep_all_peak_bytes", "smallest_budget_bytes", "prices"}


class Different(Exception):
    pass


def plain(text):
    """Without line breaks, which follow the terminal."""
    return " ".join(text.split())


class Both(random_configs.Harness):
    """Asks the program and Python for every plan."""

    def plan(self, values):
        done, words = super().plan(values)
        try:
            ours = snug.plan(values, progress=False).to_dict()
        except snug.Error as error:
            self.figures["refused"] += 1
            self.compare("an error", plain(done.stderr).partition("error: ")[2], plain(str(error)), words)
        else:
            theirs = random_configs.json.loads(done.stdout or "{}")
            for report in (theirs, ours):
                report.get("components", {}).pop("process", None)
            for field in theirs.keys() | ours.keys():
                if field not in OF_PROCESS:
                    self.compare(field, theirs.get(field), ours.get(field), words)
        return done, words

    def compare(self, what, theirs, ours, words):
        if theirs != ours:
            raise Different(f"{what}: the program says {theirs!r}, Python {ours!r}: snug {' '.join(map(str, words))}")


def digests(folder):
    """Every file that says nothing of the process."""
    names = [path for path in sorted(folder.glob("*/*")) if path.suffix in (".safetensors", ".txt") or path.name in ("config.json", "tokenizer.json", "adapter_config.json")]
    return {str(path.relative_to(folder)): common.sha256(path) for path in names}


def check_config(harness, case):
    folder = harness.folder / "data"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    values = random_configs.settle(harness, case, folder)
    if "lora" in values or values.get("frozen_dtype", "float32") != "float32":
        random_configs.with_base(harness, case, values)
        values = random_configs.settle(harness, case, folder)
    theirs, ours = harness.folder / "theirs", harness.folder / "ours"
    for out in (theirs, ours):
        shutil.rmtree(out, ignore_errors=True)
    words = harness.words("train", dict(values, output_dir=theirs))
    done = common.run(*words, timeout=random_configs.RUN_TIMEOUT)
    try:
        snug.train(values, output_dir=ours, progress=False)
    except snug.Error as error:
        harness.figures["refused"] += 1
        harness.compare("an error", plain(done.stderr).partition("error: ")[2].replace(str(theirs), str(ours)), plain(str(error)), words)
        return
    harness.compare("the exit", done.returncode, 0, words)
    harness.compare("files", digests(theirs), digests(ours), words)
    harness.figures["trained"] += 1


def drawn_network(generator):
    """A network of a few layers, some of them run again, some shared, with a loss of one of two kinds; and its rows."""
    width, classes, depth = generator.randint(1, 40), generator.randint(2, 5), generator.randint(1, 5)
    kinds = [(generator.choice(("linear", "residual", "dropout", "norm", "part", "shared")), generator.randint(1, 40)) for _ in range(depth)]
    is_classifier = generator.random() < 0.5
    activations = [generator.choice((ops.relu, ops.tanh, ops.gelu, ops.sigmoid)) for _ in range(depth)]

    def function(b):
        x = b.input("x", [width])
        for i, ((kind, size), activation) in enumerate(zip(kinds, activations)):
            with b.scope(f"block{i}"):
                if kind == "linear":
                    x = activation(layers.linear("l", x, size))
                elif kind == "residual":
                    x = x + activation(layers.linear("l", x, x.shape[-1]))
                elif kind == "dropout":
                    x = ops.dropout(activation(layers.linear("l", x, size)), 0.2)
                elif kind == "norm":
                    x = layers.layer_norm("n", activation(x))
                elif kind == "part":
                    x = snug.recompute.checkpoint(lambda y, size=size, activation=activation: activation(layers.linear("b", activation(layers.linear("a", y, size)), size)), x)
                else:
                    for _ in range(2):
                        with b.scope("twice", shared=True):
                            x = activation(layers.linear("l", x, x.shape[-1]))
        y = layers.linear("out", x, classes)
        b.output("y", y)
        b.minimize(layers.cross_entropy(y, b.input("t", dtype="i32")) if is_classifier else layers.mean_squared_error(y, b.input("t", [classes])))

    rows = generator.choice((4, 8, 12))
    numbers = np.random.default_rng(generator.randrange(2**32))
    targets = numbers.integers(0, classes, rows, dtype=np.int32) if is_classifier else numbers.standard_normal((rows, classes), dtype=np.float32)
    batch = {"x": numbers.standard_normal((rows, width), dtype=np.float32), "t": targets}
    options = dict(batch_rows=rows, threads=generator.choice((1, 2)), optim=generator.choice(("sgd", "adamw", "adafactor")), learning_rate=1e-2,
                   max_grad_norm=generator.choice((0.0, 1.0)), seed=generator.randrange(100))
    return types.SimpleNamespace(network=snug.Network("drawn", function), rows=batch, options=options)


def trained(session, rows, steps):
    losses = [session.step(rows).loss for _ in range(steps)]
    return losses, {tensor.name: session.read(tensor.name).tobytes() for tensor in session.tensors()}


def check_network(case, folder, generator):
    def same(what, one, other):
        if one != other:
            raise Different(f"{what}: {one!r:.200} and {other!r:.200}")

    plenty = snug.plan_network(case.network, memory="1GiB", **case.options)
    low, high = plenty.smallest_budget_bytes, plenty.keep_all_peak_bytes
    micro_batch = snug.plan_network(case.network, memory=low, **case.options).micro_batch
    options = dict(case.options, micro_batch_size=micro_batch)
    least = snug.plan_network(case.network, memory="1GiB", **options).smallest_budget_bytes
    try:
        snug.Session(case.network, memory=least - PAGE, **options)
    except snug.DoesNotFit as refusal:
        same("the smallest budget", refusal.smallest_bytes, least)
    else:
        raise Different("a page less is not refused")
    wanted = None
    for budget in sorted({least, max(high, least), generator.randint(least // PAGE, max(high, least) // PAGE) * PAGE}):
        session = snug.Session(case.network, memory=budget, **options)
        found = trained(session, case.rows, 2)
        session.save(folder / "saved")
        found += trained(session, case.rows, 2)
        same("planned and measured", session.plan.arena_bytes, session.measured_arena_bytes())
        if session.plan.planned_peak_bytes > budget:
            raise Different(f"a planned peak of {session.plan.planned_peak_bytes} bytes in {budget}")
        wanted = wanted or found
        same(f"losses in {budget} bytes", wanted[::2], found[::2])
        same(f"tensors in {budget} bytes", wanted[1::2], found[1::2])
        resumed = snug.Session.resume(case.network, folder / "saved", **dict(options, memory=max(high, least)))
        same(f"resumed from {budget} bytes", wanted[2:], trained(resumed, case.rows, 2))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--configs", type=int, default=20)
    parser.add_argument("--networks", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=10**9)
    parser.add_argument("--plan-seconds", type=float, default=10, help="a configuration that takes longer to plan is not checked")
    parser.add_argument("--most-parameters", type=int, default=draw.MOST_PARAMETERS, help="larger models are not drawn")
    words = parser.parse_args()
    warnings.simplefilter("ignore", snug.Warned)
    begin, failures, networks = time.monotonic(), 0, 0
    options = draw.read_options()
    models = draw.small_models(options, words.most_parameters)
    given = types.SimpleNamespace(plan_seconds=words.plan_seconds, without_hints=True)
    with tempfile.TemporaryDirectory(prefix="snug-random-") as folder:
        harness = Both(options, pathlib.Path(folder), given)
        harness.figures = {"trained": 0, "refused": 0}
        for number in range(words.configs):
            if time.monotonic() - begin > words.seconds:
                break
            generator = random.Random(f"python {words.seed} {number}")
            values, text, data = draw.draw(options, models, generator)
            try:
                check_config(harness, {"values": values, "text": text, "data": data, "moment": 0})
            except (random_configs.NotRun, subprocess.TimeoutExpired):
                pass
            except (Different, random_configs.Broken) as broken:
                failures += 1
                print(f"FAILED configuration {number}: {broken}", flush=True)
        for number in range(words.networks if np is not None else 0):
            generator = random.Random(f"network {words.seed} {number}")
            try:
                check_network(drawn_network(generator), pathlib.Path(folder), generator)
                networks += 1
            except (Different, snug.Error) as broken:
                failures += 1
                print(f"FAILED network {number}: {broken}", flush=True)
    print(f"seed {words.seed}: {harness.figures['trained']} runs and {harness.figures['refused']} refusals as the program's, {networks} networks; {failures} broken; "
          f"{time.monotonic() - begin:.0f} s")
    nothing = harness.figures["trained"] + harness.figures["refused"] == 0 or (np is not None and networks == 0)
    sys.exit(1 if failures or nothing else 0)


if __name__ == "__main__":
    main()
