#!/usr/bin/env python3
"""Checks that every test that docs/traps.md names is there."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main():
    tests = set()
    for folder in ("src", "tests"):
        for path in sorted(path for path in (ROOT / folder).rglob("*_test.*") if path.suffix in (".cc", ".py")):
            text = path.read_text()
            tests.update(f"{suite}.{name}" for suite, name in re.findall(r"\bTEST(?:_P|_F)?\((\w+),\s*(\w+)\)", text))
            tests.update(re.findall(r"def (test_\w+)\(", text))
    rows = [line for line in (ROOT / "docs/traps.md").read_text().splitlines() if re.match(r"\| T\d+ ", line)]
    errors = [] if rows else ["docs/traps.md: no rows"]
    for row in rows:
        named = re.findall(r"`([^`]+)`", row.split("|")[3])
        errors += [f"docs/traps.md: no test is called {name}" for name in named if name not in tests]
        if not named:
            errors.append(f"docs/traps.md: no test: {row}")
    for error in errors:
        print(error)
    print(f"traps: {len(errors)} errors" if errors else f"traps: {len(rows)}, each with a test")
    return 1 if errors else 0


sys.exit(main())
