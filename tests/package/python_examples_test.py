#!/usr/bin/env python3
"""examples/python beside examples/cpp: the same bits in at most 0.6 of the lines.

   python_examples_test.py FOLDER_OF_PROGRAMS SOURCE_FOLDER ROWS.jsonl     SNUG_LIBRARY and PYTHONPATH: the package
"""
import pathlib
import re
import subprocess
import sys
import tempfile

UPDATES = {"unet": 3, "seq2seq": 8, "two_towers": 8, "own_op": 21}
MOST_LINES = 0.6
BITS = re.compile(r"loss \d|first value|planned arena|finished after|^row \d")  # lines that follow every bit of the weights


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{words}: {done.stdout[-800:]}{done.stderr[-2000:]}"
    return [line for line in done.stdout.splitlines() if BITS.search(line)]


def main():
    programs, source, rows = map(pathlib.Path, sys.argv[1:])
    examples = source / "examples/python"
    names = sorted(path.stem for path in (source / "examples/cpp").glob("*.cc"))
    # torch_*.py have no C++ beside them and run with PyTorch (tests/torch).
    assert names == sorted(path.stem for path in examples.glob("*.py") if not path.stem.startswith("torch_")), names
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            lines = [len((source / file).read_text().splitlines()) for file in (f"examples/cpp/{name}.cc", f"examples/python/{name}.py")]
            assert lines[1] <= MOST_LINES * lines[0], f"{name}: {lines[1]} lines in Python, {lines[0]} in C++"
            python = [sys.executable, "-W", "ignore", examples / f"{name}.py"]
            if name == "two_sessions":  # which update is the last is chance: it compares its bits itself
                for threads in (1, 2):
                    run(*python, threads)
                continue
            if name in UPDATES:
                words = [["64MiB", UPDATES[name]]] * 2
                run(*python)  # it learns what it is to learn
            else:
                words = [[rows, pathlib.Path(folder, f"{name}-{language}")] for language in ("cpp", "python")]
            wanted, found = run(programs / name, *words[0]), run(*python, *words[1])
            assert wanted and wanted == found, f"{name}: C++ {wanted}, Python {found}"
            print(f"{name}: equal bits in {lines[1]} of {lines[0]} lines")


if __name__ == "__main__":
    main()
