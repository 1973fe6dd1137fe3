#!/usr/bin/env python3
"""Checks that a task's name appears only in its own file.

The tasks are the words of src/tasks/tasks.cmake. Outside of src/tasks/TASK.cc and of tests nothing writes a task's name as a text
that is no sentence, nor calls its function; src/models/config_reader.cc has Hugging Face's problem_type, whose words may be the same.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TASKS = ROOT / "src/tasks"
COMMENT = re.compile(r"//.*")


def main():
    words = re.findall(r"^snug_task\((\w+)\)", (TASKS / "tasks.cmake").read_text(), re.M)
    errors = [] if words else ["src/tasks/tasks.cmake: no tasks"]
    for folder in ("src", "cli", "include"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".h", ".cc") or "test" in path.stem:
                continue
            name = str(path.relative_to(ROOT))
            for number, line in enumerate(path.read_text().splitlines(), 1):
                code = COMMENT.sub("", line)
                for word in words:
                    if path in (TASKS / f"{word}.cc", ROOT / "src/models/config_reader.cc"):
                        continue
                    if re.search(rf'"{word}"|\b{word}_task\b', code):
                        errors.append(f"{name}:{number}: names a task: {line.strip()}")
    for error in errors:
        print(error)
    print(f"tasks: {len(errors)} errors" if errors else f"tasks: {', '.join(words)}, each in its file")
    return 1 if errors else 0


sys.exit(main())
