#!/usr/bin/env python3
"""No result on the frozen problems gets worse than the best known one by more than the margin.

usage: CORPUS_TOOL=build/release/tests/corpus/corpus_tool corpus_test.py [--fast | --update | --freeze]

--fast    the small problems alone (as in ./test.sh)
--update  writes best.json anew where a result became better, or has none yet; never where it became worse
--freeze  writes the problems anew from the models of today, which also makes their old results meaningless
"""
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TOOL = os.environ.get("CORPUS_TOOL", "")
MARGIN = 0.005  # of every result: bytes, ratios of seconds, heights over loads

# Training programs of our own families: model, batch, micro-batch, length, keys of a run.
PROGRAMS = {
    "bert-clip": ("bert-tiny", 8, 8, 64),
    "bert-accumulate": ("bert-mini", 8, 2, 128),
    "bert-no-clip": ("bert-mini", 4, 4, 96, "max_grad_norm", "0"),
    "lstm-short": ("lstm", 8, 8, 20, "hidden_size", "64"),
    "lstm-deep": ("lstm", 8, 4, 16, "hidden_size", "64", "num_hidden_layers", "2"),
    "resnet": ("resnet-20", 16, 16, 32),
    "resnet-sgd": ("resnet-14", 8, 8, 32, "optim", "sgd", "max_grad_norm", "0"),
    "vgg": ("vgg-16", 2, 2, 32, "image_size", "32", "optim", "sgd"),
    "mlp": ("mlp", 64, 64, 16, "hidden_sizes", "256,128", "vocab_size", "1000"),
}
# Graphs of tools/make_remat_graphs.py, which makes the same ones from the same words.
GRAPHS = {
    "vgg": "vgg --depth 11",
    "unet": "unet --depth 3 --coarse",
    "unet-again": "unet --depth 2 --coarse --again all --costs unit",
    "tower": "tower --depth 6",
    "layered": "layered --depth 40 --seed 3",
    "layered-random": "layered --depth 30 --seed 5 --costs random --bytes random",
    "plain": "plain --depth 60 --seed 2",
    "resnet": "resnet --depth 18",
    "mobilenet": "mobilenet --depth 8",
    "fcn": "fcn --depth 10",
    "densenet": "densenet --depth 121",
    "resnet-50": "resnet --depth 50",
}
SLOW = {"remat/densenet", "remat/resnet-50", "remat/mobilenet", "remat/resnet", "remat/fcn", "remat/unet", "remat/tower"}


def problem_file(name):
    return HERE / "problems" / f"{name}.json"


def freeze():
    problem_file("x").parent.mkdir(exist_ok=True)
    for name, words in PROGRAMS.items():
        made = subprocess.run([TOOL, "freeze", *map(str, words)], check=True, capture_output=True, text=True)
        problem_file(name).write_text(made.stdout)


def measure(name, folder):
    kind, problem = name.split("/")
    file = problem_file(problem)
    if kind == "remat":
        file = folder / f"{problem}.json"
        maker = HERE.parents[1] / "tools" / "make_remat_graphs.py"
        subprocess.run([sys.executable, maker, *GRAPHS[problem].split(), "--output", file], check=True, capture_output=True)
    done = subprocess.run([TOOL, kind, file], check=True, capture_output=True, text=True)
    return {key: float(value) for key, value in (line.split() for line in done.stdout.splitlines())}


def compare(name, found, best, failures):
    """The best results with what became better; adds to `failures` what became worse."""
    known = dict(best.get(name, {}))
    for key, value in known.items():
        if key not in found:
            failures.append(f"{name}: no {key} any more (was {value:.9g})")
        elif found[key] > value * (1 + MARGIN):
            failures.append(f"{name}: {key} is {found[key]:.9g}, the best known is {value:.9g}")
    for key, value in found.items():
        if value < known.get(key, float("inf")):
            if key in known and value < known[key] * (1 - 1e-6):
                print(f"better: {name}: {key} is {value:.9g}, was {known[key]:.9g}")
            known[key] = value
    return known


def main():
    words = sys.argv[1:]
    if words == ["--freeze"]:
        return freeze()
    if words not in ([], ["--fast"], ["--update"]) or not TOOL:
        sys.exit(__doc__)
    names = [f"frontier/{name}" for name in PROGRAMS] + [f"remat/{name}" for name in GRAPHS]
    if words == ["--fast"]:
        names = [name for name in names if name not in SLOW]
    table = HERE / "best.json"
    best = json.loads(table.read_text()) if table.exists() else {}
    failures = []
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, found in zip(names, pool.map(lambda each: measure(each, pathlib.Path(folder)), names)):
            if not found:
                failures.append(f"{name}: no result")
            if words != ["--update"] and name not in best:
                failures.append(f"{name}: best.json does not know it; run with --update")
            best[name] = compare(name, found, best, failures)
    if words == ["--update"]:
        table.write_text(json.dumps({name: best[name] for name in sorted(best)}, indent=1) + "\n")
    for failure in failures:
        print("WORSE:", failure)
    print(f"{len(names)} problems, {len(failures)} results worse by more than {100 * MARGIN:.1f} %")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
