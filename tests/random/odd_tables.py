#!/usr/bin/env python3
"""Odd tables: labels in every spelling, missing values, encodings, line ends, quotes, delimiters, models trained before. For each
the right reading is worked out apart from the product (table_reading.py): which rows are which class, in which order, which have
none, and the metrics of what is predicted. The product gives this, or refuses or warns by name; nothing is silently different.

usage: odd_tables.py [--seed N] [--count N] [--only N]
The program is the environment variable SNUG.
"""
import argparse
import dataclasses
import json
import math
import pathlib
import random
import shutil
import struct
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "e2e"))

import common  # noqa: E402
import table_draw as draw  # noqa: E402
import table_reading as reading  # noqa: E402
from table_reading import number_of  # noqa: E402

KEYS = dict(memory="1GiB", threads=1)
SCALE = 12  # of the weights of the model: predictions differ from row to row
BOUND = 2e-5


class Different(Exception):
    """What the product says is not what the table says."""


def require(holds, *what):
    if not holds:
        raise Different(" ".join(map(str, what)))


def near(found, wanted, what, bound=BOUND):
    if wanted is None:
        require(found is None, f"{what} is {found}, and not defined")
        return
    require(found is not None and abs(found - wanted) <= bound * max(1, abs(wanted)), f"{what} is {found}, right is {wanted}")


def cell_text(cell):
    """A label of JSON lines as text; None: none."""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float) and cell == int(cell):
        cell = int(cell)
    return None if cell is None or cell == "" else str(cell)


# ---- what is right ----

class Expected:
    """How a file is read: the names of the classes, what each row is (None: it is left out), warnings that must be there, and why it
    must be refused."""

    def __init__(self):
        self.task, self.names, self.rows, self.warnings, self.refusals, self.may_refuse = "classification", [], [], set(), [], False


def of_form(table, data, expected):
    if table.form.encoding.startswith("utf-16"):
        expected.refusals.append("UTF-16")
    elif table.form.encoding == "latin-1" and any(byte > 127 for byte in data):
        expected.refusals.append("UTF-8")
    if table.form.header != "as it is" and not (table.form.is_json and table.form.header == "twice"):
        expected.refusals.append("column 'label'")
    if table.form.fault:
        expected.refusals.append("quote" if table.form.fault == "quote" else "fields where the header has")
    for cell in table.weights or []:
        number = cell if isinstance(cell, float) else number_of(cell)
        if number is None or not 0 <= number < 3.4e38:
            expected.refusals.append("weight")


def of_classes(table, expected):
    cells = [cell_text(label) for label in table.labels]
    expected.names = reading.sorted_names({cell for cell in cells if cell is not None})
    expected.rows = [None if cell is None else expected.names.index(cell) for cell in cells]
    if table.form.is_json:
        texts = [cell or "" for cell in cells]
        column = [None if not cell else number_of(cell) if all(number_of(text) is not None for text in texts if text) else cell for cell in texts]
    else:
        column = reading.pandas_column([cell or "" for cell in cells])
    if any(value is None and cell is not None for value, cell in zip(column, cells)):
        expected.warnings.add("missing_labels")
    pairs = [(value, cell) for value, cell in zip(column, cells) if value is not None]
    if len({value for value, _ in pairs}) < len({cell for _, cell in pairs}):
        expected.warnings.add("similar_labels")
    if table.form.suffix == ".tsv" and not table.form.has_quotes and any(cell and cell[0] == cell[-1] == '"' and cell[1:-1] in cells for cell in cells):
        expected.warnings.add("similar_labels")
    if not expected.names:
        expected.refusals.append("label")
    if len(expected.names) == 1:
        expected.warnings.add("one_label")


def of_numbers(table, expected):
    numbers = [number_of(str(label)) if label is not None and not (table.form.is_json and isinstance(label, str)) else None for label in table.labels]
    cells = [cell_text(label) for label in table.labels]
    others = [cell for cell, number in zip(cells, numbers) if number is None and cell is not None]
    count = sum(number is not None for number in numbers)
    has_fraction = any(number is not None and number != int(number) for number in numbers)
    says_task = "task" in table.keys
    if others and not says_task:
        are_missing = all(other.lower() in {word.lower() for word in draw.NONE_WORDS} - {"-1"} for other in others)
        if has_fraction and count >= (len(others) + 1 if are_missing else 9 * len(others)):
            expected.refusals.append("set task to regression")
            return
        of_classes(table, expected)
        if table.form.is_json and any(cell and number_of(cell) is not None and number_of(cell) != int(number_of(cell)) for cell in cells):
            expected.may_refuse = True  # numbers with fractions, in quotes or beside texts
        return
    if says_task:  # a text is a number in any spelling
        numbers = [None if cell is None else number_of(cell) for cell in cells]
        others = [cell for cell, number in zip(cells, numbers) if number is None and cell is not None]
    if not has_fraction and not says_task:
        return of_classes(table, expected)
    expected.task = "regression"
    expected.rows = [None if number is None or abs(number) > 3.4e38 else float(number) for number in numbers]
    too_large = any(number is not None and abs(number) > 3.4e38 for number in numbers)
    if others or too_large:
        if table.keys.get("bad_rows") == "skip":
            expected.warnings.add("bad_rows")
        else:
            expected.refusals.append("32 bits" if too_large and not others else "the label")


def of_several(table, expected):
    expected.task = "multi_label"
    is_hot = table.names is not None
    if is_hot:
        if "task" not in table.keys:
            expected.refusals.append("task")
            return
        places = [label for label in table.labels if label]
        expected.names = table.names if "label_order" in table.keys else [str(i) for i in range(len(places[0]))]
        expected.rows = [None if label is None else {k for k, each in enumerate(label) if each == 1} for label in table.labels]
        expected.may_refuse = [] in table.labels
    else:
        expected.names = reading.sorted_names({name for label in table.labels for name in label or []})
        expected.rows = [None if label is None else {expected.names.index(name) for name in label} for label in table.labels]
        if any(label and len(set(label)) < len(label) for label in table.labels):
            expected.refusals.append("stands twice")


def class_of(names, label):
    """The class of a trained model that a label is; None: none, or in doubt."""
    if names.count(label):
        return names.index(label) if names.count(label) == 1 else None
    numbers = [number_of(name) for name in names]
    number = number_of(label)
    is_nameless = names in ([f"LABEL_{i}" for i in range(len(names))], [str(i) for i in range(len(names))])
    if number is not None and number in numbers:
        return numbers.index(number) if numbers.count(number) == 1 else None
    if (any(each is not None for each in numbers) and not is_nameless) or not label.isdigit() or label != str(int(label)) or int(label) >= len(names):
        return None
    in_others = [k for k, name in enumerate(names) if k != int(label) and label in [part for part in name.split() if part.isdigit()]]
    return None if in_others and not is_nameless else int(label)


def of_trained(table, expected):
    cells = [cell_text(label) for label in table.labels]
    expected.names = table.names
    expected.rows = [None if cell is None else class_of(table.names, cell) for cell in cells]
    there = [cell for cell in cells if cell is not None]
    if None in [row for row, cell in zip(expected.rows, cells) if cell is not None]:
        expected.refusals.append("label")
    by_name = [cell in table.names or number_of(cell) in [number_of(name) for name in table.names if number_of(name) is not None] for cell in there]
    if any(by_name) and not all(by_name):
        expected.refusals.append("id")
    if any(isinstance(label, float) and label != int(label) for label in table.labels):
        expected.may_refuse = True  # a number with a fraction is no class in JSON
    for row, cell, k, spelling in zip(expected.rows, cells, table.classes, table.spellings):
        if spelling == "exact" and row is not None and not table.form.is_json:
            assert row == k, (table.names, cell, row, k)
    if not there:
        expected.may_refuse = True


def expect(table, data):
    expected = Expected()
    are_blank = [text.strip() == "" for text in table.texts]
    has_label = [cell is not None and cell != "" for cell in table.labels]
    if any(blank and has for blank, has in zip(are_blank, has_label)):
        expected.warnings.add("empty_rows")
    if any(not blank and not has for blank, has in zip(are_blank, has_label)):
        expected.warnings.add("unlabelled_rows")
    # A label that only such rows have is no class.
    left = dataclasses.replace(table, labels=[None if blank else label for blank, label in zip(are_blank, table.labels)])
    {"classes": of_classes, "numbers": of_numbers, "several": of_several, "trained": of_trained}[table.kind](left, expected)
    if all(row is None for row in expected.rows):
        expected.may_refuse = True
    of_form(table, data, expected)
    return expected


# ---- what the product says ----

class Harness:
    def __init__(self, folder):
        self.folder = folder
        self.figures = {"runs": 0, "refused": 0, "warned": 0}
        self.base = self.make_base()
        self.scores = self.scores_by_text()

    def snug(self, verb, **values):
        self.figures["runs"] += 1
        return common.run(verb, *common.options(**dict(KEYS, **values)))

    def ok(self, verb, **values):
        done = self.snug(verb, **values)
        require(done.returncode == 0, f"{verb}: exit {done.returncode}: {done.stderr}")
        return done

    def make_base(self):
        """A model of three classes whose scores differ from text to text."""
        rows = [{"text": text, "label": "abc"[i % 3]} for i, text in enumerate((draw.TEXTS + draw.ODD_TEXTS) * 3)]
        common.write_jsonl(self.folder / "base.jsonl", rows)
        self.ok("train", model="mlp", hidden_sizes=8, train_file=self.folder / "base.jsonl", vocab_size=400, max_steps=1, learning_rate=0,
                validation_split=0, max_seq_length=32, output_dir=self.folder / "base")
        folder = self.folder / "base/last"
        (folder / ".snug.complete").unlink()
        file = folder / "model.safetensors"
        data = bytearray(file.read_bytes())
        begin = 8 + struct.unpack("<Q", data[:8])[0]
        values = struct.unpack(f"<{(len(data) - begin) // 4}f", data[begin:])
        data[begin:] = struct.pack(f"<{len(values)}f", *(SCALE * value for value in values))
        file.write_bytes(data)
        return folder

    def scores_by_text(self):
        texts = draw.TEXTS + draw.ODD_TEXTS + draw.BLANK_TEXTS
        common.write_jsonl(self.folder / "texts.jsonl", [{"text": text} for text in texts])
        lines = self.ok("predict", model=self.base, test_file=self.folder / "texts.jsonl").stdout.splitlines()
        return dict(zip(texts, [list(json.loads(line)["scores"].values()) for line in lines]))

    def model_of(self, names):
        folder = self.folder / "model"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.base, folder)
        config = json.loads((folder / "config.json").read_text())
        config.pop("label2id", None)
        config["id2label"] = {str(i): name for i, name in enumerate(names)}
        (folder / "config.json").write_text(json.dumps(config))
        return folder


def warnings_in(text):
    return [line for line in text.splitlines() if line.startswith("warning:")]


def settled(harness, done, expected):
    """True where the run was made; a refusal must be the right one."""
    if done.returncode == 0:
        require(not expected.refusals, f"taken, but must be refused ({', '.join(expected.refusals)}): {done.stderr}")
        return True
    require(done.returncode == 1, f"exit {done.returncode}: {done.stderr}")
    require("error:" in done.stderr and "hint" in done.stderr, f"a refusal without a hint: {done.stderr}")
    require(expected.refusals or expected.may_refuse, f"refused: {done.stderr}")
    require(not expected.refusals or expected.may_refuse or any(text in done.stderr for text in expected.refusals),
            f"refused, but not by name ({', '.join(expected.refusals)}): {done.stderr}")
    harness.figures["refused"] += 1
    return False


def check_predictions(harness, table, lines):
    require(len(lines) == len(table.texts), f"{len(lines)} lines for {len(table.texts)} rows")
    for i, line in enumerate(lines):
        require(line["row"] == i, f"line {i} is of row {line['row']}")
        if table.kind != "trained" or "scores" not in line:
            continue
        wanted = harness.scores.get(table.texts[i].replace("\r\n", "\n"))
        if wanted is not None:
            for found, right in zip(line["scores"].values(), wanted):
                near(found, right, f"the score of row {i}")


def check_metrics(expected, metrics, lines):
    """The metrics of the evaluation against those of the predictions, row by row."""
    pairs = [(row, line) for row, line in zip(expected.rows, lines) if row is not None]
    require(metrics["rows"] == len(pairs), f"{metrics['rows']} rows are evaluated, {len(pairs)} have a label")
    if not pairs:
        return
    truth = [row for row, _ in pairs]
    if expected.task == "regression":
        wanted = reading.number_metrics(truth, [line["values"][0] for _, line in pairs])
        size = max(abs(value) for value in truth)
        for name, value in wanted.items():
            near(metrics[name], value, name, 2e-5 * max(1, size ** 2 if name == "mse" else 1))
        return
    names = [each["label"] for each in metrics["classes"]]
    if len(set(expected.names)) == len(expected.names):
        require(names[:len(expected.names)] == expected.names, f"the classes are {names}, right is {expected.names}")
    for k, entry in enumerate(metrics["classes"]):
        count = sum(k in row if isinstance(row, set) else k == row for row in truth)
        require(entry["rows"] == count, f"{entry['rows']} rows of '{entry['label']}', right is {count}")
    if expected.task == "multi_label":
        guess = [{names.index(label) for label in line["labels"]} for _, line in pairs]
        wanted = reading.several_metrics(truth, guess, len(names))
    else:
        for _, line in pairs:
            scores = list(line["scores"].values())
            require(line["label"] == list(line["scores"])[scores.index(max(scores))], "the label is not that of the highest score")
        wanted = reading.class_metrics(truth, [list(line["scores"].values()) for _, line in pairs])
    for name, value in wanted.items():
        near(metrics[name], value, name)


def check_loss(table, expected, out, lines):
    """The loss of the one batch that was trained on, by weights of rows and classes."""
    if expected.task != "classification" or len(table.texts) > 16 or "validation_split" in table.keys:
        return
    counts = [expected.rows.count(k) for k in range(len(expected.names))]
    loss = next(line["loss"] for line in map(json.loads, (out / "metrics.jsonl").read_text().splitlines()) if "loss" in line)
    total = weight = 0.0
    for i, (row, line) in enumerate(zip(expected.rows, lines)):
        if row is not None:
            own = float(table.weights[i]) if table.weights is not None else 1.0
            own /= counts[row] if "class_weights" in table.keys else 1
            total -= own * math.log(list(line["scores"].values())[row])
            weight += own
    near(loss, total / weight, "the loss of the update", 1e-4)


def check_warnings(table, expected, said, summary):
    codes = {each["code"] for each in summary["warnings"]}
    require(len(warnings_in(said)) == len(summary["warnings"]), "the lines that begin with 'warning:' are not those of summary.json")
    require(expected.warnings <= codes, f"not warned of {', '.join(sorted(expected.warnings - codes))}: {sorted(codes)}")
    if table.is_plain:
        require(codes <= expected.warnings, f"a plain table is warned of: {summary['warnings']}")


def check_trained(harness, table, data):
    file = harness.folder / ("table" + table.form.suffix)
    file.write_bytes(data)
    expected = expect(table, data)
    keys = dict(model=harness.model_of(table.names), test_file=file, **table.keys)
    out = harness.folder / "out"
    if table.is_trained_further:
        done = train(harness, out, model=keys["model"], train_file=file, **table.keys)
        if not settled(harness, done, expected):
            return
        names = json.loads((out / "last/config.json").read_text())["id2label"]
        require(list(names.values()) == table.names, f"the model's names are {names} after training, they were {table.names}")
        keys["model"] = out / "last"
    done = harness.snug("eval", **keys)
    if not settled(harness, done, expected):
        return
    warned = warnings_in(done.stderr)
    harness.figures["warned"] += bool(warned)
    require(not table.is_plain or not warned, f"a plain table is warned of: {warned}")
    require("unlabelled_rows" not in expected.warnings or any("have no label" in line for line in warned), f"rows without a label are not said: {done.stderr}")
    lines = [json.loads(line) for line in harness.ok("predict", **keys).stdout.splitlines()]
    check_predictions(harness, table, lines)
    check_metrics(expected, json.loads(done.stdout), lines)
    if table.is_trained_further:
        check_loss(table, expected, out, lines)


def train(harness, out, **keys):
    """One update that moves nothing, of all rows in one batch."""
    shutil.rmtree(out, ignore_errors=True)
    values = dict(validation_split=0, learning_rate=0, max_steps=1, train_batch_size=16, max_seq_length=32, logging_steps=1,
                  lr_scheduler_type="constant", output_dir=out)
    return harness.snug("train", **dict(values, **keys))


def check_fresh(harness, table, data, validation):
    file = harness.folder / ("table" + table.form.suffix)
    file.write_bytes(data)
    expected = expect(table, data)
    out = harness.folder / "out"
    keys = dict(train_file=file, **table.keys)
    if validation is not None:
        keys["validation_file"] = harness.folder / ("validation" + table.form.suffix)
        keys["validation_file"].write_bytes(validation)
        if "unseen" in table.validation and expected.names:
            expected.refusals.append("unseen")
        expected.may_refuse = True
    if "validation_split" in table.keys:
        expected.may_refuse = True  # of few rows none may be left for one of the two
    done = train(harness, out, model=harness.base, fresh_head=True, **keys)
    if not settled(harness, done, expected):
        return
    summary = json.loads((out / "summary.json").read_text())
    harness.figures["warned"] += bool(summary["warnings"])
    check_warnings(table, expected, done.stderr, summary)
    if validation is not None:
        check_validation(table, expected, summary)
    if "validation_split" in table.keys:
        check_split(expected, summary)
    given = {key: value for key, value in table.keys.items() if key in ("bad_rows", "delimiter")}
    lines = [json.loads(line) for line in harness.ok("predict", model=out / "last", test_file=file, **given).stdout.splitlines()]
    check_predictions(harness, table, lines)
    metrics = json.loads(harness.ok("eval", model=out / "last", test_file=file, **given).stdout)
    check_metrics(expected, metrics, lines)
    check_loss(table, expected, out, lines)


def check_validation(table, expected, summary):
    """Labels of a validation file are those of the training data, numbers in any spelling."""
    metrics = summary["final_metrics"]
    rows = [class_of(expected.names, cell_text(label)) if cell_text(label) is not None else None for label in table.validation]
    rows = [None if table.texts[i].strip() == "" else row for i, row in enumerate(rows)]
    for k, entry in enumerate(metrics["classes"]):
        require(entry["rows"] == rows.count(k), f"{entry['rows']} rows of '{entry['label']}' in the validation file, right is {rows.count(k)}")


def check_split(expected, summary):
    metrics = summary["final_metrics"]
    require([each["label"] for each in metrics["classes"]] == expected.names, f"the classes are {metrics['classes']}, right is {expected.names}")
    for k, entry in enumerate(metrics["classes"]):
        require(entry["rows"] <= expected.rows.count(k), f"{entry['rows']} held-out rows of '{entry['label']}' of {expected.rows.count(k)}")


def check(harness, table, generator):
    if table.form.says_delimiter:
        table.keys["delimiter"] = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}[table.form.delimiter]
    data = draw.as_bytes(generator, table.form, table.columns(table.labels))
    validation = None if table.validation is None else draw.as_bytes(generator, table.form, table.columns(table.validation))
    for file in harness.folder.glob("*.*"):
        if file.stem in ("table", "validation"):
            file.unlink()
    if table.kind == "trained":
        check_trained(harness, table, data)
    else:
        check_fresh(harness, table, data, validation)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=500, help="tables to check")
    parser.add_argument("--only", type=int, help="the number of one table")
    given = parser.parse_args()
    begin, failures = time.monotonic(), 0
    numbers = range(given.count) if given.only is None else [given.only]
    with tempfile.TemporaryDirectory(prefix="snug-tables-") as folder:
        harness = Harness(pathlib.Path(folder))
        for number in numbers:
            generator = random.Random(f"{given.seed} {number}")
            table = draw.draw_table(generator)
            try:
                check(harness, table, generator)
            except (Different, LookupError, ValueError, TypeError) as different:
                failures += 1
                print(f"FAILED {number} ({table.kind}, {table.form}, {table.keys}, {table.names or ''}): {different!r}", flush=True)
                for file in sorted(harness.folder.glob("*.*")):
                    if file.stem in ("table", "validation"):
                        print(f"{file.name}: {file.read_bytes()!r}", flush=True)
    figures = ", ".join(f"{value} {key}" for key, value in harness.figures.items())
    print(f"{len(numbers)} tables (seed {given.seed}), {failures} different; {figures}; {time.monotonic() - begin:.0f} s")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
