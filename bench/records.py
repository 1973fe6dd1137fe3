"""Figures as records: bench/results/NAME.json, from which tools/results_page.py writes docs/results.md.

A file has a title, a text about its table, the order of tables, and records. Each record stands by itself:

   name             of the record in its file, such as bert-base.16x128.f32.avx2.times-as-fast
   claim, measure   what is measured, and which figure of it (none where there is only one)
   figure           a number, or a list of them: of two or more runs, or of the cases that the claim lists
   goal, reached    a text such as ">= 1.4", or null; with a goal, whether the figure reaches it
   command          what prints the figure, from the root of the repository
   cpu, instruction_set, commit   where it was measured, and of which version
   unit, date, note               as far as there are any
   range            [smallest, largest], where the figure is a median
   span             true: the figure is itself [smallest, largest] of many
   detail           true: of the file only, not of the page

Figures that are older than these files: where the version was not written down, commit is the one that brought the figure into docs/results.md;
where the machine was not, cpu says so, and instruction_set is avx512, which was the rule until figures named theirs.
"""
import datetime
import json
import os
import pathlib
import re
import subprocess
from decimal import Decimal

FOLDER = pathlib.Path(__file__).resolve().parent / "results"
REQUIRED = ("name", "claim", "figure", "goal", "command", "cpu", "instruction_set", "commit")
OPTIONAL = ("measure", "range", "span", "unit", "reached", "date", "note", "detail")


def read(path):
    """The file as it is, numbers with the digits that they were written with."""
    return json.loads(path.read_text(), parse_float=Decimal)


def text_of(value):
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, list):
        return "[" + ", ".join(map(text_of, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {text_of(each)}" for key, each in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


def write(path, file):
    """One record a line, so that a new figure is one changed line."""
    heads = [f" {json.dumps(key)}: {text_of(value)},\n" for key, value in file.items() if key != "records"]
    path.write_text("{\n" + "".join(heads) + ' "records": [\n  ' + ",\n  ".join(map(text_of, file["records"])) + "\n ]\n}\n")


def rounded(number, digits):
    """A figure with so many digits behind the point, trailing zeros included."""
    return Decimal(f"{number:.{digits}f}")


def three_digits(number):
    """A figure with three digits that count."""
    digits = 2 - Decimal(number).adjusted() if number else 0
    return rounded(number, max(0, digits))


def here(snug, instruction_set=None):
    """What all records of a measurement on this machine have in common."""
    found = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
    version = subprocess.run([snug, "--version"], check=True, capture_output=True, text=True).stdout
    git = ["git", "-C", str(FOLDER)]
    commit = subprocess.run([*git, "describe", "--always", "--dirty", "--exclude=*"], check=True, capture_output=True, text=True).stdout.strip()
    return dict(cpu=f"{found[1] if found else 'unknown processor'}, {os.cpu_count()} cores",
                instruction_set=instruction_set or re.search(r"\((\w+)\)", version)[1], commit=commit, date=datetime.date.today().isoformat())


def judged(record):
    """Whether the figure reaches a goal of the form '>= number', '<= number' or 'number to number'; None for a goal in words, or none."""
    goal = record["goal"] or ""
    numbers = record["figure"] if isinstance(record["figure"], list) else [record["figure"]]
    if match := re.fullmatch(r"(>=|<=) (-?[\d.]+)", goal):
        bound = Decimal(match[2])
        return all(number >= bound if match[1] == ">=" else number <= bound for number in numbers)
    if match := re.fullmatch(r"(-?[\d.]+) to (-?[\d.]+)", goal):
        return all(Decimal(match[1]) <= number <= Decimal(match[2]) for number in numbers)
    return None


def merged(path, old, new):
    """The new record, with what it does not say (claim, goal) as it was. Notes, ranges and spans belong to the old figure."""
    record = {key: value for key, value in old.items() if key not in ("note", "range", "span")} | new
    if "reached" not in new and record["goal"] is not None:
        record["reached"] = judged(record)
        if record["reached"] is None:
            raise SystemExit(f"{path}: {record['name']} has the goal '{record['goal']}', which only its benchmark can judge: give the options that do, or edit the record")
    return record


def save(path, records):
    """Puts records into a file of bench/results: in the place of those of the same name, or at the end."""
    file = read(path)
    places = {each["name"]: i for i, each in enumerate(file["records"])}
    for new in records:
        if new["name"] in places:
            i = places[new["name"]]
            file["records"][i] = merged(path, file["records"][i], new)
        else:
            file["records"].append({"goal": None} | new)
    write(path, file)
