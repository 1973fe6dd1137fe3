#!/usr/bin/env python3
"""Makes the mistakes of docs/traps.md one by one (mutants.py), in the source tree, and sees that the test that is to hold each fails.

usage: run_mutants.py [--build DIR] [--list] [TRAP ...]

A file is changed, the test's program is built, run and the file put back, also after Ctrl-C. A file with changes of your own is
refused. The mutant must compile, and the test must pass without it. A few seconds each with a compiler cache.
"""
import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys

from mutants import MUTANTS

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def check(mutants):
    """What is wrong with the list itself: a text that is not there once, a test that docs/traps.md does not name."""
    rows = {}
    for line in (ROOT / "docs/traps.md").read_text().splitlines():
        if found := re.match(r"\| (T\d+) ", line):
            rows[found[1]] = set(re.findall(r"`([^`]+)`", line))
    errors = []
    for each in mutants:
        count = (ROOT / each.file).read_text().count(each.before)
        if count != 1:
            errors.append(f"{each.trap} ({each.mistake}): the text to replace stands {count} times in {each.file}")
        for test in set(each.tests) - rows.get(each.trap, set()):
            errors.append(f"{each.trap} ({each.mistake}): docs/traps.md does not name {test}")
    return errors


def is_script(target):
    return target.endswith(".py")


def build(folder, target):
    target = "snug_cli" if is_script(target) else target
    done = subprocess.run(["cmake", "--build", folder, "--target", target], capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stdout[-3000:])
    return done.returncode == 0


def passes(folder, target, test):
    """True, False, or None where no test ran."""
    if is_script(target):
        command = [sys.executable, ROOT / target, "-k", test]
    else:
        command = [next(pathlib.Path(folder).rglob(target)), f"--gtest_filter={test}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT,
                          env=dict(os.environ, SNUG=str(pathlib.Path(folder).resolve() / "snug")))
    ran = "Running 1 test " in done.stdout or "Ran 1 test " in done.stderr
    return done.returncode == 0 if ran else None


def verdict(mutant, folder):
    path = ROOT / mutant.file
    clean = path.read_text()
    try:
        path.write_text(clean.replace(mutant.before, mutant.after))
        if not build(folder, mutant.target):
            return "it does not compile"
        for test in mutant.tests:
            if passes(folder, mutant.target, test) is not False:
                return f"{test} passes all the same"
    finally:
        path.write_text(clean)
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(ROOT / "build/release"), help="a build folder of this tree")
    parser.add_argument("--list", action="store_true", help="only checks the list")
    parser.add_argument("traps", nargs="*", metavar="TRAP")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    errors = check(MUTANTS)
    if errors or options.list:
        print("\n".join(errors) if errors else f"mutants: {len(MUTANTS)} of {len({each.trap for each in MUTANTS})} traps")
        return 1 if errors else 0
    chosen = [each for each in MUTANTS if not options.traps or each.trap in options.traps]
    files = sorted({each.file for each in chosen})
    if subprocess.run(["git", "diff", "--quiet", "HEAD", "--", *files], cwd=ROOT).returncode != 0:
        print("commit or put away your changes first: a mutant is put back to what the file was")
        return 1
    for target in sorted({each.target for each in chosen}):
        if not build(options.build, target):
            return 1
    for target, test in sorted({(each.target, test) for each in chosen for test in each.tests}):
        if not passes(options.build, target, test):
            print(f"{test} does not pass as it is")
            return 1
    bad = 0
    for each in chosen:
        wrong = verdict(each, options.build)
        bad += wrong != ""
        print(f"{each.trap:4} {'FAILED: ' + wrong if wrong else 'found'}: {each.mistake}", flush=True)
    for target in sorted({each.target for each in chosen}):
        build(options.build, target)
    print(f"{len(chosen) - bad} of {len(chosen)} mutants were found")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
