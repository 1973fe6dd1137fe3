#!/usr/bin/env python3
"""Small files: warns above 500 lines, fails above 800."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WARN, FAIL = 500, 800


def main():
    names = subprocess.run(["git", "ls-files", "*.h", "*.cc", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    sizes = sorted(((len((ROOT / name).read_text().splitlines()), name) for name in names if (ROOT / name).exists()), reverse=True)
    for lines, name in sizes:
        if lines > WARN:
            print(f"{'error' if lines > FAIL else 'warning'}: {name} has {lines} lines")
    print(f"sizes: {len(sizes)} files, {sum(lines for lines, _ in sizes)} lines, largest {sizes[0][0]}")
    return 1 if sizes and sizes[0][0] > FAIL else 0


if __name__ == "__main__":
    sys.exit(main())
