#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/training_arguments.json: the fields of transformers' TrainingArguments with their types and defaults (as JSON), the values of
its lr_scheduler_type and optim, and the fields of older versions that are gone. Older versions are folders of unpacked wheels; what the page knows of
others stays.

    python3 tools/golden/training_arguments.py tests/golden/training_arguments.json [FOLDER/transformers-3.1.0 ...]
"""
import ast
import dataclasses
import enum
import json
import pathlib
import sys

import transformers
from transformers.trainer_utils import SchedulerType
from transformers.training_args import OptimizerNames, TrainingArguments


def plain(value):
    return value.value if isinstance(value, enum.Enum) else value


def fields():
    for field in dataclasses.fields(TrainingArguments):
        made = field.default_factory is not dataclasses.MISSING
        default = field.default_factory() if made else field.default
        kind = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", str(field.type))
        yield {"name": field.name, "type": kind.replace("transformers.", ""), "default": json.dumps(plain(default))}


def names_of(source):
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name == "TrainingArguments":
            return [each.target.id for each in node.body if isinstance(each, ast.AnnAssign)]
    raise SystemExit(f"{source} holds no TrainingArguments")


def main():
    now = list(fields())
    known = {field["name"] for field in now}
    page = pathlib.Path(sys.argv[1])
    before = json.loads(page.read_text(encoding="utf-8")) if page.exists() else {"gone": [], "older_versions": [], "fields": []}
    gone = {name for name in before["gone"] + [field["name"] for field in before["fields"]] if name not in known}
    versions = set(before["older_versions"]) | ({before["transformers"]} if "transformers" in before else set())
    for folder in map(pathlib.Path, sys.argv[2:]):
        version = next(folder.glob("transformers-*.dist-info")).name.split("-")[1].removesuffix(".dist")
        versions.add(version)
        for name in names_of(folder / "transformers" / "training_args.py"):
            if name not in known:
                gone.add(name)
    versions = sorted(versions - {transformers.__version__}, key=lambda version: [int(part) for part in version.split(".")])
    values = {"lr_scheduler_type": [plain(each) for each in SchedulerType], "optim": [plain(each) for each in OptimizerNames]}
    page = {"generator": "tools/golden/training_arguments.py", "transformers": transformers.__version__, "fields": now, "values": values,
            "older_versions": versions, "gone": sorted(gone)}
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(page, file, indent=1)
        file.write("\n")


main()
