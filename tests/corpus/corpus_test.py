#!/usr/bin/env python3
"""No result on the frozen problems gets worse than the best known one by more than the margin.

usage: CORPUS_TOOL=build/release/tests/corpus/corpus_tool corpus_test.py [--fast | --update | --long | --freeze | --freeze-joint]

--fast          only the small problems (as in ./test.sh)
--update        writes best.json anew where a result became better, or has none yet; never where it became worse
--long          the same with the best effort, where the check is of the default one: minutes a problem
--freeze        writes the programs anew from the models and examples of today, which also makes their old results meaningless
--freeze-joint  so with the joint graphs of PyTorch models (needs torch and transformers)
"""
import concurrent.futures
import gzip
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
# Training programs of networks that are no chains, those of examples/cpp.
EXAMPLES = {"example-unet": "unet", "example-seq2seq": "seq2seq", "example-two-towers": "two_towers"}
# Joint forward and backward graphs, as tools/torch_joint_graph.py wrote them.
JOINT = {"gpt2": "gpt2", "llama": "llama layers=32", "resnet-50": "resnet"}
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
SLOW = {"remat/densenet", "remat/resnet-50", "remat/mobilenet", "remat/resnet", "remat/fcn", "remat/unet", "remat/tower", "joint/llama"}
NAMES = [f"frontier/{name}" for name in [*PROGRAMS, *EXAMPLES]] + [f"program/{name}" for name in EXAMPLES] + \
    [f"joint/{name}" for name in JOINT] + [f"remat/{name}" for name in GRAPHS]


def problem_file(name):
    return HERE / "problems" / f"{name}.json"


def freeze():
    problem_file("x").parent.mkdir(exist_ok=True)
    for name, words in PROGRAMS.items():
        made = subprocess.run([TOOL, "freeze", *map(str, words)], check=True, capture_output=True, text=True)
        problem_file(name).write_text(made.stdout)
    for name, network in EXAMPLES.items():
        made = subprocess.run([TOOL, "example", network], check=True, capture_output=True, text=True)
        problem_file(name).write_text(made.stdout)


def joint_file(name):
    return HERE / "problems" / f"{name}.json.gz"


def freeze_joint():
    with tempfile.TemporaryDirectory() as folder:
        made = pathlib.Path(folder, "made.json")
        for name, words in JOINT.items():
            maker = HERE.parents[1] / "tools" / "torch_joint_graph.py"
            subprocess.run([sys.executable, maker, *words.split(), "--plain", "--output", made], check=True)
            joint_file(name).write_bytes(gzip.compress(made.read_bytes(), mtime=0))


def measure(name, folder, is_long):
    kind, problem = name.split("/")
    file = problem_file(problem)
    if kind == "joint":
        file = folder / f"joint-{problem}.json"
        file.write_bytes(gzip.decompress(joint_file(problem).read_bytes()))
    if kind == "remat":
        file = folder / f"{problem}.json"
        maker = HERE.parents[1] / "tools" / "make_remat_graphs.py"
        subprocess.run([sys.executable, maker, *GRAPHS[problem].split(), "--output", file], check=True, capture_output=True)
    words = [TOOL, kind, file] + ["best"] * (is_long and kind in ("joint", "program"))
    done = subprocess.run(words, check=True, capture_output=True, text=True)
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
    if words == ["--freeze-joint"]:
        return freeze_joint()
    if words not in ([], ["--fast"], ["--update"], ["--long"]) or not TOOL:
        sys.exit(__doc__)
    is_update = words in (["--update"], ["--long"])
    names = [name for name in NAMES if words != ["--fast"] or name not in SLOW]
    table = HERE / "best.json"
    best = json.loads(table.read_text()) if table.exists() else {}
    failures = []
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, found in zip(names, pool.map(lambda each: measure(each, pathlib.Path(folder), words == ["--long"]), names)):
            if not found:
                failures.append(f"{name}: no result")
            if not is_update and name not in best:
                failures.append(f"{name}: best.json does not know it; run with --update")
            best[name] = compare(name, found, best, failures)
    if is_update:
        table.write_text(json.dumps({name: best[name] for name in sorted(best)}, indent=1) + "\n")
    for failure in failures:
        print("WORSE:", failure)
    print(f"{len(names)} problems, {len(failures)} results worse by more than {100 * MARGIN:.1f} %")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
