#!/usr/bin/env python3
"""Writes docs/results.md from bench/results/*.json (bench/records.py says what a record is), and checks it and the README's figures.

   results_page.py           writes the page
   results_page.py --check   exit 1 where a record is incomplete, the page is not what the records say, or the README has a figure
                             that no record has (tools/readme_figures.json lists which records its figures come from)
   results_page.py --all     prints the page with every record, also those that it leaves to the files
   results_page.py --test    plants errors and sees that each is found
"""
import json
import pathlib
import re
import sys
from decimal import Decimal

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from records import OPTIONAL, REQUIRED, judged, merged, read  # noqa: E402

MOST_LINES = 200
MOST_COLUMNS = 6  # of figures in one table
FEWEST_ROWS = 4   # that have columns of their own
HEAD = """<!-- Written by tools/results_page.py from bench/results/*.json. Do not edit. -->
# Results
Every figure has the command that printed it, the machine, and the version (commit) that was measured. Machines are shared, so timings move by several per cent; ratios
come from sides that took turns. Two or more numbers are as many runs, or the cases that the row lists; brackets hold the spread around a median. Files in `bench/results`
have more figures than this page: `python3 tools/results_page.py --all` prints them. docs/guarantees.md says what must hold.
"""


def number_text(number):
    if isinstance(number, int):
        return f"{number:,}" if number >= 10000 else str(number)
    return format(number, "f")


def figure_text(record):
    numbers = record["figure"] if isinstance(record["figure"], list) else [record["figure"]]
    joint = " to " if record.get("span") else " and " if len(numbers) == 2 else ", "
    text = joint.join(map(number_text, numbers))
    if "range" in record:
        text += " (" + " to ".join(map(number_text, record["range"])) + ")"
    return text + (" " + record["unit"] if "unit" in record else "")


def goal_text(record):
    if record["goal"] is None:
        return ""
    goal = record["goal"].replace(">=", "≥").replace("<=", "≤")
    return f" (goal {goal})" if record["reached"] else f" (goal {goal}: **missed**)"


def value_of(record):
    text = figure_text(record)
    return f"**{text}**{goal_text(record)}" if record["goal"] is not None else text


def cell_of(records):
    return "; ".join(" ".join(part for part in (record.get("measure"), value_of(record)) if part) for record in records)


def escaped(text):
    return text.replace("|", "\\|")


class Row:
    """Records of one claim and one measurement, which stand next to each other."""

    def __init__(self, record):
        self.key = tuple(record[each] for each in ("claim", "command", "cpu", "instruction_set", "commit"))
        self.records = []

    def claim(self):
        return ". ".join([self.key[0], *(record["note"].rstrip(".") for record in self.records if "note" in record)])

    def how(self):
        _, command, cpu, instruction_set, commit = self.key
        return f"`{escaped(command)}`", f"{cpu}, {instruction_set}, {commit}"

    def measures(self):
        return [record.get("measure", "figure") for record in self.records]


def rows_of(records, shows_all):
    rows = []
    for record in records:
        if record.get("detail") and not shows_all:
            continue
        row = Row(record)
        if not rows or rows[-1].key != row.key:
            rows.append(row)
        rows[-1].records.append(record)
    return rows


def tables_of(rows):
    """Rows in tables, each with the columns of its figures: rows of the same measures in a row share a table, and what has no such
    neighbours stands in tables with all figures of a row in one column (None)."""
    tables = []
    for row in rows:
        measures = row.measures()
        if tables and (set(measures) <= set(tables[-1][0]) or len(set(measures) & set(tables[-1][0])) >= 2) and \
                len(tables[-1][0] + [each for each in measures if each not in tables[-1][0]]) <= MOST_COLUMNS:
            tables[-1][0].extend(each for each in measures if each not in tables[-1][0])
            tables[-1][1].append(row)
        else:
            tables.append((measures, [row]))
    joined = []
    for measures, members in tables:
        columns = measures if len(members) >= FEWEST_ROWS else None
        if columns is None and joined and joined[-1][0] is None:
            joined[-1][1].extend(members)
        else:
            joined.append((columns, members))
    return joined


def table_lines(columns, rows):
    heads = ["", *(columns or ["figures"]), "command", "machine, version"]
    lines = ["", "| " + " | ".join(map(escaped, heads)) + " |", "|---" * len(heads) + "|"]
    before = (None, None)
    for row in rows:
        if columns is None:
            cells = [cell_of(row.records)]
        else:
            values = dict(zip(row.measures(), map(value_of, row.records)))
            cells = [values.get(column, "") for column in columns]
        shown = ["the same" if new == old else new for new, old in zip(row.how(), before)]
        lines.append("| " + " | ".join([escaped(row.claim()), *map(escaped, cells), *shown]) + " |")
        before = row.how()
    return lines


def section(file, shows_all):
    rows = rows_of(file["records"], shows_all)
    lines = ["", f"## {file['title']}", file["about"]]
    for columns, members in tables_of(rows):
        lines += table_lines(columns, members)
    return lines if rows else []


def page(files, shows_all=False):
    lines = HEAD.rstrip().split("\n")
    for file in sorted(files.values(), key=lambda each: each["order"]):
        lines += section(file, shows_all)
    return "\n".join(lines) + "\n"


def errors_of_record(where, record):
    errors = [f"{where}: has no '{key}'" for key in REQUIRED if key not in record]
    errors += [f"{where}: '{key}' is none of a record's keys" for key in record if key not in REQUIRED + OPTIONAL]
    if errors:
        return errors
    numbers = record["figure"] if isinstance(record["figure"], list) else [record["figure"]]
    if not numbers or any(isinstance(each, bool) or not isinstance(each, (int, Decimal)) for each in numbers):
        errors.append(f"{where}: 'figure' is neither a number nor a list of numbers")
    for key in ("name", "claim", "command", "cpu", "instruction_set", "commit"):
        if not isinstance(record[key], str) or not record[key]:
            errors.append(f"{where}: '{key}' is no text")
    if (record["goal"] is None) != ("reached" not in record):
        errors.append(f"{where}: 'reached' stands beside a goal, and only there")
    elif not errors and record["goal"] is not None and judged(record) not in (None, record["reached"]):
        errors.append(f"{where}: 'reached' is {record['reached']}, but the figure is {figure_text(record)} and the goal {record['goal']}")
    return errors


def errors_of_records(files):
    errors, orders = [], {}
    for name, file in files.items():
        missing = [key for key in ("order", "title", "about", "records") if key not in file]
        if missing:
            errors.append(f"bench/results/{name}.json: has no {', '.join(missing)}")
            continue
        if file["order"] in orders:
            errors.append(f"bench/results/{name}.json: has the order of {orders[file['order']]}")
        orders[file["order"]] = name
        seen = set()
        for i, record in enumerate(file["records"]):
            label = record.get("name", f"record {i}")
            errors += errors_of_record(f"bench/results/{name}.json: {label}", record)
            if label in seen:
                errors.append(f"bench/results/{name}.json: two records are named {label}")
            seen.add(label)
    return errors


# Numbers with one of these units are figures; a number in a name (BERT of 24 layers, AVX-512, bf16x8) is none.
FIGURE = re.compile(r"(?<![\w.-])\d[\d.,]*(?: to \d[\d.,]*)?(?: |-)?(?:times|x|%|s|ms|minutes|hours|KiB|MiB|GiB|kB|MB|GB|GFLOP/s|MB/s|GB/s)(?![\w/])")
NUMBER = re.compile(r"\d+(?:\.\d+)?")
SCREEN_FIGURE = re.compile(r"(?<![\w.])-?\d[\d.,]*\s(?:%|s|M|KiB|MiB|GiB)(?![\w/])")


def unfenced(text):
    """The text with blank lines in place of code between fences."""
    kept, inside = [], False
    for line in text.split("\n"):
        if line.startswith("```"):
            inside = not inside
            line = ""
        kept.append("" if inside else line)
    return "\n".join(kept)


def bounds_of(names, files):
    """The smallest and the largest figure of records FILE/NAME."""
    numbers = []
    for each in names:
        file, _, name = each.partition("/")
        found = [record for record in files.get(file, {"records": []})["records"] if record["name"] == name]
        if not found:
            raise KeyError(each)
        numbers += found[0]["figure"] if isinstance(found[0]["figure"], list) else [found[0]["figure"]]
    return min(numbers), max(numbers)


def rounded_like(number, text):
    return number.quantize(Decimal(text)) if isinstance(number, Decimal) else Decimal(number).quantize(Decimal(text))


def errors_of_claim(claim, readme, files):
    """The numbers of a claim's text are the smallest and the largest of its records, rounded as the text has them."""
    text = claim["text"]
    if text not in readme:
        return [f"README.md: does not say '{text}' any longer: tools/readme_figures.json does"]
    try:
        low, high = bounds_of(claim["records"], files)
    except KeyError as missing:
        return [f"tools/readme_figures.json: '{text}': there is no record {missing}"]
    figure = FIGURE.search(text) or re.search(r".*", text)
    said = NUMBER.findall(figure[0])
    should = [low, high] if len(said) == 2 else [low]
    if len(said) not in (1, 2) or (len(said) == 1 and low != high) or any(rounded_like(n, s) != Decimal(s) for n, s in zip(should, said)):
        return [f"README.md: says '{text}', but the records say {low} to {high}"]
    return []


def errors_of_screen(screen, readme, files):
    """The figures of a printed screen, in a fence, are those of the records FILE/PREFIX..."""
    block = readme.partition(screen["begins"])[2].partition("```")[0]
    file, _, prefix = screen["records"].partition("/")
    known = {figure_text(record) for record in files.get(file, {"records": []})["records"] if record["name"].startswith(prefix)}
    if not block or not known:
        return [f"tools/readme_figures.json: '{screen['begins']}' is not in README.md, or no record begins with {screen['records']}"]
    printed = set(SCREEN_FIGURE.findall(block))
    return [f"README.md: '{each}' of the screen behind '{screen['begins']}' is in no record {screen['records']}" for each in sorted(printed - known)] + \
           [f"README.md: the screen behind '{screen['begins']}' lacks '{each}', which a record has" for each in sorted(known - printed)]


def errors_of_readme(readme, claims, files):
    errors = []
    for screen in claims.get("screens", []):
        errors += errors_of_screen(screen, readme, files)
    for claim in claims["figures"]:
        errors += errors_of_claim(claim, readme, files)
    prose = unfenced(readme)
    covered = [(match.start(), match.end()) for claim in claims["figures"] for match in re.finditer(re.escape(claim["text"]), prose)]
    for match in FIGURE.finditer(prose):
        if not any(begin <= match.start() and match.end() <= end for begin, end in covered):
            line = prose.count("\n", 0, match.start()) + 1
            errors.append(f"README.md:{line}: '{match[0]}' comes from no record: add it to tools/readme_figures.json")
    return errors


def load():
    return ({path.stem: read(path) for path in sorted((ROOT / "bench/results").glob("*.json"))},
            json.loads((ROOT / "tools/readme_figures.json").read_text()), (ROOT / "README.md").read_text())


def check():
    files, claims, readme = load()
    errors = errors_of_records(files)
    if not errors:
        made = page(files)
        if len(made.splitlines()) > MOST_LINES:
            errors.append(f"docs/results.md: {len(made.splitlines())} lines, {MOST_LINES} at most: mark records as detail")
        target = ROOT / "docs/results.md"
        if not target.exists() or target.read_text() != made:
            errors.append("docs/results.md: is not what bench/results says: run tools/results_page.py")
        errors += errors_of_readme(readme, claims, files)
    for error in errors:
        print(error)
    print(f"results: {len(errors)} errors" if errors else f"results: {sum(len(each['records']) for each in files.values())} records, one page, every figure of the README")
    return 1 if errors else 0


def test():
    good = dict(name="a.b", claim="A step", figure=Decimal("1.24"), unit="x", goal=">= 1.2", reached=True, command="bench/a.py", cpu="A", instruction_set="avx2", commit="abc")
    files = lambda **changed: {"steps": dict(order=1, title="T", about="A", records=[{k: v for k, v in dict(good, **changed).items() if v != "drop"}])}
    assert not errors_of_records(files())
    planted = [dict(command="drop"), dict(figure="1.24"), dict(figure=[]), dict(figure=True), dict(reached=False), dict(reached="drop"), dict(goal=None), dict(speed=3), dict(cpu="")]
    for changed in planted:
        assert len(errors_of_records(files(**changed))) == 1, (changed, errors_of_records(files(**changed)))
    assert len(errors_of_records({"one": files()["steps"], "two": files()["steps"]})) == 1
    twice = files()
    twice["steps"]["records"] *= 2
    assert len(errors_of_records(twice)) == 1
    claims = {"figures": [dict(text="1.2 times as long in PyTorch", records=["steps/a.b"])]}
    assert not errors_of_readme("takes 1.2 times as long in PyTorch\n```\n7 GiB\n```\nBERT-base in 24 layers", claims, files())
    wrong = [("takes 1.3 times as long in PyTorch", claims), ("takes 1.2 times as long in PyTorch and 3 GiB", claims), ("1.2 times as long in PyTorch",
             {"figures": [dict(claims["figures"][0], records=["steps/none"])]})]
    for readme, said in wrong:
        assert len(errors_of_readme(readme, said, files())) == (2 if "1.3" in readme else 1), readme
    assert merged("f", dict(good, note="n"), dict(name="a.b", figure=Decimal("1.1"))) == dict(good, figure=Decimal("1.1"), reached=False)
    assert merged("f", dict(good, goal="0.9 to 1.3"), dict(name="a.b", figure=Decimal("1.1")))["reached"]
    screen, seconds = dict(begins="$ a", records="steps/a."), files(unit="s")
    assert not errors_of_screen(screen, "```\n$ a\n 1.24 s of 3\n```\n9 s", seconds)
    assert len(errors_of_screen(screen, "```\n$ a\n 1.24 s and 9 s\n```\n", seconds)) == 1
    assert len(errors_of_screen(screen, "```\n$ a\n 1.25 s\n```\n", seconds)) == 2
    assert len(errors_of_screen(screen, "```\n$ b\n```\n", seconds)) == 1
    assert "**missed**" in page(files(figure=Decimal("1.1"), reached=False)) and "**missed**" not in page(files())
    assert "A step" not in page(files(detail=True)) and "A step" in page(files(detail=True), shows_all=True)
    print(f"results: {len(planted) + 5 + len(wrong)} planted errors found")
    return 0


def main():
    if sys.argv[1:] == ["--test"]:
        return test()
    if sys.argv[1:] == ["--check"]:
        return check()
    if sys.argv[1:] not in ([], ["--all"]):
        sys.exit(__doc__)
    files, _, _ = load()
    errors = errors_of_records(files)
    if errors:
        sys.exit("\n".join(errors))
    if sys.argv[1:]:
        print(page(files, shows_all=True), end="")
    else:
        (ROOT / "docs/results.md").write_text(page(files))
    return 0


if __name__ == "__main__":
    sys.exit(main())
