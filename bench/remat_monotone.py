#!/usr/bin/env python3
"""Whether more budget ever costs more: `snug solve remat` at many budgets of many graphs, each in a run of its own.

usage: remat_monotone.py [FILE.json ...] [--budgets 100] [--order given free] [--effort default] [--snug build/release/snug]

FILE: problem files; without one, graphs of tools/make_remat_graphs.py. Budgets lie evenly between the bound and keep-all. A budget that is
refused above one that is not counts as well. Prints a line a graph and order, with the seconds of processor time a budget; exit 1 where a
larger budget cost more.
"""
import argparse
import json
import pathlib
import resource
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
GRAPHS = [
    "vgg --depth 11", "vgg --depth 16", "unet --depth 3 --coarse", "unet --depth 2 --coarse --again all --costs unit", "unet --depth 4",
    "tower --depth 6", "tower --depth 8 --costs random", "layered --depth 40 --seed 3", "layered --depth 30 --seed 5 --costs random --bytes random",
    "layered --depth 60 --seed 8", "plain --depth 60 --seed 2", "plain --depth 21 --seed 4 --again all", "plain --depth 100 --seed 6",
    "resnet --depth 18", "resnet --depth 50", "mobilenet --depth 8", "mobilenet --depth 13", "fcn --depth 10", "fcn --depth 20",
    "densenet --depth 40",
]


def answer(snug, file, budget, order, effort):
    done = subprocess.run([snug, "solve", "remat", file, "--budget", budget, "--order", order, "--effort", effort, "--json"],
                          capture_output=True, text=True)
    if done.returncode not in (0, 2):
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def check(snug, file, name, args, order):
    """The worst rise of the cost, as a ratio; infinite where a larger budget is refused."""
    all_kept = answer(snug, file, "1.0", order, "fast")
    bottom, top = all_kept["lower_bound_peak_bytes"], all_kept["keep_all_peak_bytes"]
    begin = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    worst, rises, before = 0, 0, None
    for i in range(1, args.budgets + 1):
        found = answer(snug, file, str(bottom + (top - bottom) * i // (args.budgets + 1)), order, args.effort)
        if before is not None:
            rise = found["cost"] / before - 1 if found["fits"] else float("inf")
            rises += rise > 0
            worst = max(worst, rise)
        if found["fits"]:
            before = found["cost"]
    seconds = (resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - begin) / args.budgets
    print(f"{name:52} {order:6} {rises:3} of {args.budgets} dearer, worst {100 * worst:.4f} %, {seconds:.2f} s each", flush=True)
    return worst


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="*")
    parser.add_argument("--budgets", type=int, default=100)
    parser.add_argument("--order", nargs="+", default=["given", "free"], choices=["given", "free"])
    parser.add_argument("--effort", default="default", choices=["fast", "default", "best"])
    parser.add_argument("--snug", default=str(ROOT / "build/release/snug"))
    args = parser.parse_args()
    worst = 0
    with tempfile.TemporaryDirectory() as folder:
        for each in args.files or GRAPHS:
            file = each
            if not args.files:
                file = str(pathlib.Path(folder) / "problem.json")
                maker = ROOT / "tools" / "make_remat_graphs.py"
                subprocess.run([sys.executable, maker, *each.split(), "--output", file], check=True, capture_output=True)
            for order in args.order:
                worst = max(worst, check(args.snug, file, pathlib.Path(each).name if args.files else each, args, order))
    return 1 if worst > 0 else 0


if __name__ == "__main__":
    sys.exit(main())
