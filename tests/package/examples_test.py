#!/usr/bin/env python3
"""Programs of the user's own networks, built against the installed package: each learns what it is to learn; from its smallest
budget to keep-all it gives the same bits, touches the arena that was planned, and is refused below.

   examples_test.py FOLDER_OF_PROGRAMS
"""
import pathlib
import re
import subprocess
import sys

PROGRAMS = {"unet": 3, "seq2seq": 8, "two_towers": 8, "own_op": 21}  # and updates, where budgets are compared
BUDGETS = 5


def run(folder, name, *words):
    return subprocess.run([str(folder / name), *map(str, words)], capture_output=True, text=True, timeout=300)


def result_of(done):
    """The planned bytes and the lines that depend on every bit of the weights."""
    assert done.returncode == 0, done.stdout[-800:] + done.stderr
    planned, measured = map(int, re.search(r"planned arena (\d+), measured (\d+) bytes", done.stdout).groups())
    assert planned == measured, done.stdout[-300:]
    return planned, [line for line in done.stdout.splitlines() if re.search(r"loss \d|first value", line)]


def check(folder, name, updates):
    learned = run(folder, name)
    assert learned.returncode == 0, name + " did not learn:\n" + learned.stdout[-800:] + learned.stderr
    result_of(learned)
    refused = run(folder, name, "8KiB", updates)
    assert refused.returncode == 2, refused.stdout + refused.stderr
    smallest = int(re.search(r"smallest budget that works is .*?\((\d+) bytes\)", refused.stderr).group(1))
    below = run(folder, name, smallest - 4096, updates)
    assert below.returncode == 2 and re.search("proof:|no plan found:", below.stderr), below.stderr
    whole = run(folder, name, "1GiB", updates)
    keep_all, wanted = result_of(whole)
    # Nothing runs again, but for what is faster made again than written to memory and read back.
    assert re.search(r"recompute +(keep-all|budget: (-|\+0\.0))", whole.stdout), whole.stdout
    largest = smallest + keep_all
    seen = set()
    for i in range(BUDGETS):
        budget = smallest + (largest - smallest) * i // (BUDGETS - 1)
        arena, lines = result_of(run(folder, name, budget, updates))
        assert lines == wanted, f"{name} at {budget}: {lines}, not {wanted}"
        seen.add(arena)
    assert len(seen) > 1, name + ": every budget had the same plan"
    print(f"{name}: {BUDGETS} budgets from {smallest} bytes on, arenas {sorted(seen)}: equal bits")


def main():
    folder = pathlib.Path(sys.argv[1])
    for name, updates in PROGRAMS.items():
        check(folder, name, updates)


if __name__ == "__main__":
    main()
