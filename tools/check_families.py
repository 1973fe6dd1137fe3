#!/usr/bin/env python3
"""Checks that a model family's name appears only in its own folder.

The families are the words of src/models/families.cmake. Outside of src/models/FAMILY and of tests nothing includes a family's
headers, names its types (BertConfig, build_bert_classifier, bert_preset), writes its name as a text ("bert", "bert-base"), or asks
which of several types a configuration holds; and what a family's rows are is asked only in src/run_rows/input.cc and by tasks. Comments may give
examples.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "src/models"
COMMENT = re.compile(r"//.*")
OP_PATH = re.compile(r'"ops/[^"]*"')  # a family of ops may be called the same
MODULE = re.compile(r'"mlp[._]\w+"')  # a part of other networks may be, too: its name in their files


def rules(families):
    names = "|".join(families)
    return [(re.compile(rf'#\s*include\s+"models/({names})/'), "includes a family's header"),
            (re.compile(rf"\b({names})_(config|preset|init_rule|family|stored_name)\w*|\bbuild_({names})_"), "calls into a family"),
            (re.compile(rf"(?i:\b({names})Config\b)"), "names a family's type"),
            (re.compile(rf'"[^"]*\b({names})\b[^"]*"'), "names a family"),
            (re.compile(r"\b(holds_alternative|get_if|dynamic_cast|static_cast)\s*<[^>]*(Config|Family|Architecture)\b"), "asks which family it is")]


def sources():
    for folder in ("src", "cli", "include"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".cc") and "test" not in path.stem:
                yield path


def main():
    families = re.findall(r"^snug_family\((\w+)\)", (MODELS / "families.cmake").read_text(), re.M)
    errors = []
    if not families:
        errors.append("src/models/families.cmake: no families")
    for path in sources():
        own = path.parent.name if path.parent.parent == MODELS else None
        if own is not None and own not in families:
            errors.append(f"{path.relative_to(ROOT)}: src/models/{own} is no word of families.cmake")
        found = rules([family for family in families if family != own])
        if own is None and path.parent != ROOT / "src/tasks" and path not in (MODELS / "family.h", MODELS / "text_family.h", ROOT / "src/run_rows/input.cc", ROOT / "src/run_model/row_kind.cc"):
            found.append((re.compile(r"\bInputKind::"), "asks what rows are (input_of in src/run_rows/input.h gives what follows from it)"))
        for number, line in enumerate(path.read_text().splitlines(), 1):
            code = OP_PATH.sub("", line if line.lstrip().startswith("#") else COMMENT.sub("", line))
            if own is not None:
                code = MODULE.sub("", code)
            for pattern, what in found:
                if pattern.search(code):
                    errors.append(f"{path.relative_to(ROOT)}:{number}: {what}: {line.strip()}")
    for error in errors:
        print(error)
    print(f"families: {len(errors)} errors" if errors else f"families: {', '.join(families)}, each in its folder")
    return 1 if errors else 0


sys.exit(main())
