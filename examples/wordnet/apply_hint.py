#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes the first hint of a refusal that does not ask for more memory, and shows that the run fits with it.

    apply_hint.py REFUSAL.txt COMMAND WORD ...      runs COMMAND WORD ... HINT --json
"""
import json
import pathlib
import shlex
import subprocess
import sys


def hints(text):
    """The words of each hint: a line that begins with two or more spaces and an option; its words end at the next gap
    of two spaces."""
    for line in text.splitlines():
        if line.startswith("  ") and line.lstrip().startswith("--"):
            yield shlex.split(line.strip().split("  ")[0])


def main():
    refusal, command = pathlib.Path(sys.argv[1]).read_text(), sys.argv[2:]
    found = [words for words in hints(refusal) if "--memory" not in words]
    if not found:
        sys.exit("the refusal has no hint but more memory")
    done = subprocess.run([*command, *found[0], "--json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"the hint {shlex.join(found[0])} does not work:\n{done.stderr}")
    plan = json.loads(done.stdout)
    print(f"\n$ snug plan --memory {plan['budget_bytes']} {shlex.join(found[0])}\n"
          f"fits: planned peak {plan['planned_peak_bytes']} of {plan['budget_bytes']} bytes, "
          f"{plan['step_seconds']:.1f} s an update")


if __name__ == "__main__":
    main()
