"""Draws small tables as people have them: labels in every spelling, missing values, encodings, line ends, quoting, delimiters, orders
of columns. A table knows what its cells are and, of labels of a model, which class each was written for."""
import dataclasses
import json
import math

TEXTS = ["alpha beta", "beta gamma delta", "delta", "gamma alpha alpha", "epsilon zeta", "zeta beta beta beta", "eta theta", "theta", "iota kappa alpha",
         "kappa"]
ODD_TEXTS = ["NA", "null", "nan", "1.5", "TRUE", "=1+1", "alpha, beta", 'say "alpha" now', '"alpha"', "two\nlines", "a\ttab", " lead", "trail ",
             "naïve café", "cafe\u0301", "你好 alpha", "😀 beta", "alpha\u00a0beta", "# alpha", "back\\slash n\\n", "semi;colon", "bar|alpha", "'single'", '"',
             "<b>alpha</b>", "ALPHA Beta", "1,5"]
BLANK_TEXTS = ["", "  ", "\u200b"]

WORDS = [["neg", "pos"], ["a", "b", "c"], ["no", "yes"], ["low", "medium", "high"], ["spam", "ham"]]
ALIKE = [["pos", "Pos", "neg"], ["pos", "pos ", "neg"], [" pos", "pos", "neg"], ["café", "cafe\u0301", "thé"], ["ﬁne", "fine", "bad"],
         ["straße", "STRASSE", "weg"], ["A", "Ａ", "b"], ["a b", "a\u00a0b", "c"], ["x", "x\u200b", "y"], ["İ", "i̇", "k"]]
NUMBERS = [["0", "1"], ["1", "2", "3"], ["0", "2"], ["-1", "0", "1"], ["-1", "1"], ["-100", "5"], ["10", "9", "8"], ["1.0", "2.0", "10.0"], ["01", "02", "10"],
           ["001", "2"], ["1e0", "2e0"], ["9007199254740992", "9007199254740993"], ["100000", "1e5", "3"], ["+1", "-1"], ["-0", "0", "1"], ["1.", "2."],
           ["0.0", "1.0"], ["1", "2", "1.0"]]
TRUTHS = [["TRUE", "FALSE"], ["True", "False"], ["true", "false"], ["True", "true", "False"], ["T", "F"]]
TEXTUAL = [["1 star", "2 stars", "3 stars"], ["1/2", "1/3"], ["50%", "60%"], ["1,5", "2,5"], ["0x1", "0x2"], ["1_0", "2_0"], ["2024-01-02", "2024-02-01"],
           ["label_0", "label_1"], ["LABEL_1", "LABEL_0"], ["１", "２"], ["½", "¼"], ["1.5.2", "1.5.3"], ["-", "+"], ["?", "!"], ["−1", "1"]]
QUOTED = [['"neg"', "pos"], ["it's", 'so "so"'], ['"neg"', "neg", "pos"]]
NONE_WORDS = ["NA", "nan", "NaN", "null", "NULL", "None", "N/A", "<NA>", "n/a", "inf", "-inf", "-1", "nil", "none", "na", "#N/A"]
# Labels of the task regression; behind them what no reader takes for a number.
REALS = ["0.5", "1.25", "-2.5", "3", "0", ".5", "5.", "1e-3", "2.5E2", "+1.5", " 1.5", "1.5 ", "-0.0", "123456789.125", "0.1", "00.5", "1.50"]
NO_REALS = ["1,5", "1_0", "0x1p3", "1.5\u00a0", "−1.5", "1.5%", "$2", "1 000.5", "１.５", "1.5f", "abc", "1e-400"]
TOO_LARGE = ["1e39", "-1e300"]

# Labels that a model has, and whether each is an id at once.
MODEL_NAMES = [["neg", "neutral", "pos"], ["1.0", "2.0", "3.0"], ["01", "02", "03"], ["1 star", "2 stars", "3 stars"], ["LABEL_0", "LABEL_1", "LABEL_2"],
               ["0", "1", "2"], ["2", "0", "1"], ["-1", "0", "1"], ["True", "False", "maybe"], ["a", "a", "b"], ["pos", "Pos", "neg"], ["NA", "nan", "x"],
               ["1", "2", "x"], ["0", "0.5", "1"], ["class 1", "class 2", "class 0"], ["9007199254740992", "9007199254740994", "1"], ["1", "1.0", "2"]]


@dataclasses.dataclass
class Form:
    """How a table is written."""
    suffix: str = ".csv"
    delimiter: str = ","
    ending: str = "\n"
    encoding: str = "utf-8"
    has_bom: bool = False
    quotes: str = "needed"  # needed, all, some
    ends_last_line: bool = True
    blank_lines: bool = False
    is_shuffled: bool = False  # columns in another order, with others between
    says_delimiter: bool = False
    header: str = "as it is"  # upper, padded, twice: the column of labels is called otherwise, or is there twice
    fault: str = ""           # less, more: a row with another number of fields; quote: a quote within a field

    @property
    def is_json(self):
        return self.suffix == ".jsonl"

    @property
    def has_quotes(self):
        return not self.is_json and not (self.suffix == ".tsv" and self.delimiter == "\t")


@dataclasses.dataclass
class Table:
    kind: str
    texts: list
    labels: list           # cells: text in tables, JSON values in JSON lines; None: there is no such field
    form: Form
    weights: list = None   # cells
    keys: dict = dataclasses.field(default_factory=dict)
    names: list = None     # of a model that was trained before
    classes: list = None   # the class that each label was written for; None: none
    spellings: list = None  # of those: exact, number, id, other
    validation: list = None  # labels of the rows of a validation file
    is_trained_further: bool = False  # a model of labels is trained on the rows before it is evaluated
    is_plain: bool = False  # nothing odd was drawn: nothing may be warned of

    def columns(self, labels):
        columns = {"text": self.texts[:len(labels)], "label": labels}
        if self.weights is not None:
            columns["weight"] = self.weights[:len(labels)]
        return columns


def draw_form(generator, is_json, is_plain):
    form = Form()
    if is_json:
        form.suffix, form.delimiter = ".jsonl", ""
    elif generator.random() < 0.5:
        form.suffix, form.delimiter = generator.choice([(".csv", ";"), (".csv", "\t"), (".csv", "|"), (".tsv", "\t"), (".tsv", "\t"), (".tsv", ",")])
        form.says_delimiter = generator.random() < 0.3
    if is_plain:
        return form
    form.ending = generator.choice(["\n", "\n", "\r\n", "\r"])
    form.encoding = generator.choice(["utf-8"] * 16 + ["latin-1", "utf-16", "utf-16-le"])
    form.has_bom = generator.random() < 0.2
    form.quotes = generator.choice(["needed", "all", "some"])
    form.ends_last_line = generator.random() < 0.7
    form.blank_lines = generator.random() < 0.15
    form.is_shuffled = generator.random() < 0.3
    if generator.random() < 0.04:
        form.header = generator.choice(["upper", "padded", "twice"])
    if not is_json and generator.random() < 0.04:
        form.fault = generator.choice(["less", "more", "quote"] if form.has_quotes else ["less", "more"])
    return form


def draw_texts(generator, form, count, is_plain):
    texts = [generator.choice(TEXTS) for _ in range(count)]
    if is_plain:
        return texts
    for i in range(count):
        if generator.random() < 0.25:
            texts[i] = generator.choice(ODD_TEXTS)
        elif generator.random() < 0.02:
            texts[i] = generator.choice(BLANK_TEXTS)
    return [cell_for(form, text) for text in texts]


def cell_for(form, text):
    """The text without what the form cannot say."""
    if form.is_json:
        return text
    if not form.has_quotes:
        text = text.replace("\t", " ").replace("\n", " ")
    return text.replace("\n", "\r\n") if form.ending == "\r\n" and "\n" in text else text.replace("\n", " ") if form.ending == "\r" else text


def respelled(generator, name):
    """The same number in another spelling."""
    if not is_number(name):
        return name
    value = float(name)
    ways = [name, f"{value}", f"+{name.strip().lstrip('+')}" if value >= 0 else name, f" {name}", f"{value:.2f}", f"{value:e}"]
    if value == int(value):
        ways += [f"{int(value)}", f"{int(value):03d}"]
    return generator.choice([way for way in ways if is_number(way) and float(way) == value])


def is_number(text):
    try:
        return math.isfinite(float(text)) and "_" not in text and text.isascii()
    except ValueError:
        return False


def json_label(generator, text):
    """A label of text as JSON lines may have it: a string, or the number or truth that it spells."""
    if text in ("true", "false") and generator.random() < 0.5:
        return text == "true"
    if is_number(text) and generator.random() < 0.7:
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


def draw_classes(generator, is_plain):
    count = generator.randint(4, 14)
    form = draw_form(generator, generator.random() < 0.3, is_plain)
    names = generator.choice(WORDS + [["0", "1"], ["1", "2", "3"]] if is_plain else
                             generator.choice([WORDS, ALIKE, NUMBERS, NUMBERS, TRUTHS, TEXTUAL, QUOTED]))
    labels = [names[i % len(names)] for i in range(count)]
    generator.shuffle(labels)
    if not is_plain and generator.random() < 0.25:
        labels = [respelled(generator, label) for label in labels]
    for i in range(count if not is_plain and generator.random() < 0.3 else 0):
        if generator.random() < 0.2:
            labels[i] = generator.choice(NONE_WORDS)
    for i in range(count if not is_plain and generator.random() < 0.3 else 0):
        if generator.random() < 0.2:
            labels[i] = ""
    table = Table("classes", draw_texts(generator, form, count, is_plain), labels, form, is_plain=is_plain)
    if form.is_json:
        table.labels = [None if label == "" and generator.random() < 0.5 else json_label(generator, label) for label in labels]
    if generator.random() < 0.25:
        draw_weights(generator, table)
    elif generator.random() < 0.15:
        table.keys["class_weights"] = "balanced"
    if not is_plain and generator.random() < 0.12:
        table.keys["validation_split"] = 0.3
        if generator.random() < 0.5:
            table.keys["stratify"] = "true"
    if not is_plain and "validation_split" not in table.keys and generator.random() < 0.2 and len(set(map(str, labels))) > 1:
        table.validation = [respelled(generator, label) if isinstance(label, str) else label for label in table.labels[:5]]
        if generator.random() < 0.3:
            table.validation[0] = "unseen"
    return table


def draw_weights(generator, table):
    cells = ["1", "0.5", "2", "0", "1e1", ".25", "3.0", "1e-3"]
    odd = ["", "-1", "NA", "inf", "1,5", "abc", "1e39"]
    table.weights = [generator.choice(cells) for _ in table.texts]
    table.weights[0] = "1"
    if not table.is_plain and generator.random() < 0.3:
        table.weights[generator.randrange(len(table.texts))] = generator.choice(odd)
    if table.form.is_json:
        table.weights = [float(cell) if is_number(cell) else cell for cell in table.weights]
    table.keys["weight_column"] = "weight"


def draw_numbers(generator, is_plain):
    count = generator.randint(4, 14)
    form = draw_form(generator, generator.random() < 0.3, is_plain)
    labels = [generator.choice(REALS[:5] if is_plain else REALS) for _ in range(count)]
    labels[0] = "0.25"
    others = [] if is_plain else generator.choice([[], [], NO_REALS, NONE_WORDS, TOO_LARGE, [""]])
    for i in range(1, count):
        if others and generator.random() < 0.12:
            labels[i] = generator.choice(others)
    table = Table("numbers", draw_texts(generator, form, count, is_plain), labels, form, is_plain=is_plain)
    if form.is_json:
        table.labels = [None if label == "" else json_label(generator, label) for label in labels]
    if not is_plain and generator.random() < 0.3:
        table.keys["task"] = "regression"
    if not is_plain and generator.random() < 0.2:
        table.keys["bad_rows"] = "skip"
    return table


def draw_several(generator, is_plain):
    count = generator.randint(4, 12)
    form = draw_form(generator, True, is_plain)
    names = generator.choice([["a", "b"], ["red", "green", "blue"], ["1.0", "2.0", "10.0"], ["TRUE", "FALSE"]] + ([] if is_plain else ALIKE[:3]))
    is_hot = generator.random() < 0.25
    labels = []
    for i in range(count):
        has = [i % len(names) == k or generator.random() < 0.3 for k in range(len(names))]
        row = [float(each) if generator.random() < 0.5 else int(each) for each in has] if is_hot else [name for name, each in zip(names, has) if each]
        if not is_plain and not is_hot and generator.random() < 0.2:
            row = row + row[:1]
        if not is_plain and generator.random() < 0.1:
            row = generator.choice([None, []])
        generator.shuffle(row) if row and not is_hot else None
        labels.append(row)
    table = Table("several", draw_texts(generator, form, count, is_plain), labels, form, is_plain=is_plain)
    if is_hot or generator.random() < 0.3:
        table.keys["task"] = "multi_label"
    if is_hot and generator.random() < 0.5:
        table.keys.pop("task")
    if is_hot:
        table.names = names
    if is_hot and generator.random() < 0.5 and all(name == name.strip() for name in names):
        table.keys["label_order"] = ",".join(names)
    return table


def draw_trained(generator, is_plain):
    """Labels for a model of three classes that has names. Each is written for a class."""
    count = generator.randint(4, 12)
    form = draw_form(generator, generator.random() < 0.4, is_plain)
    names = generator.choice(MODEL_NAMES[:2] if is_plain else MODEL_NAMES)
    way = "exact" if is_plain else generator.choice(["exact", "number", "id", "exact", "id", "mixed"])
    table = Table("trained", draw_texts(generator, form, count, is_plain), [], form, names=names, classes=[], spellings=[], is_plain=is_plain)
    table.is_trained_further = generator.random() < 0.3
    for i in range(count):
        k = i % 3 if generator.random() < 0.7 else generator.randrange(3)
        spelling = generator.choice(["exact", "id", "number"]) if way == "mixed" else way
        if not is_plain and generator.random() < 0.04:
            table.spellings.append("other")
            table.classes.append(None)
            label = generator.choice(["unseen", "3", "-1", "1.5", "", "9007199254740993", names[0].upper(), names[0] + " "])
        else:
            table.spellings.append(spelling)
            table.classes.append(k)
            label = {"exact": names[k], "number": respelled(generator, names[k]), "id": str(k)}[spelling]
        table.labels.append(json_label(generator, label) if form.is_json else label)
    return table


def draw_table(generator):
    is_plain = generator.random() < 0.15
    draw = generator.choices([draw_classes, draw_numbers, draw_several, draw_trained], weights=[5, 2, 1.5, 3])[0]
    table = draw(generator, is_plain)
    if table.form.encoding == "latin-1":  # cells that it has
        held = lambda cell: cell.encode("latin-1", "replace").decode("latin-1") if isinstance(cell, str) else cell
        table.texts = [held(text) for text in table.texts]
        table.labels = [list(map(held, label)) if isinstance(label, list) else held(label) for label in table.labels]
    return table


# ---- writing ----

def quoted(generator, form, cell):
    needs = any(each in cell for each in (form.delimiter, '"', "\n", "\r"))
    if not form.has_quotes or not (needs or form.quotes == "all" or (form.quotes == "some" and generator.random() < 0.3)):
        return cell
    return '"' + cell.replace('"', '""') + '"'


def called(form, name):
    return {"upper": "Label", "padded": " label"}.get(form.header, name) if name == "label" else name


def as_bytes(generator, form, columns):
    """The file of these columns."""
    names = list(columns)
    columns = dict(columns)
    if form.is_shuffled:
        columns["id"] = [str(i) for i in range(len(columns["text"]))]
        columns["note"] = [cell_for(form, generator.choice(ODD_TEXTS[:12])) for _ in columns["text"]]
        names = ["id", "note", *names]
        generator.shuffle(names)
    lines = []
    for i in range(-1, len(columns["text"])):
        if form.is_json:
            if i >= 0:
                row = {called(form, name): columns[name][i] for name in names if not (name == "label" and columns[name][i] is None and generator.random() < 0.5)}
                lines.append(json.dumps(row, ensure_ascii=generator.random() < 0.5))
            continue
        cells = [called(form, name) for name in names] if i < 0 else [columns[name][i] for name in names]
        if form.header == "twice":
            cells = cells + ["label" if i < 0 else columns["label"][i]]
        if form.fault == "less" and i == 1:
            cells = cells[:-1]
        if form.fault == "more" and i == 1:
            cells = cells + ["x"]
        if form.fault == "quote" and i == 1:
            cells = ['alpha "beta' if name == "text" else cell for name, cell in zip(names, cells)]
        lines.append(form.delimiter.join(cell if form.fault == "quote" and i == 1 else quoted(generator, form, cell) for cell in cells))
        if form.blank_lines and generator.random() < 0.2:
            lines.append("")
    text = form.ending.join(lines) + (form.ending if form.ends_last_line else "")
    data = text.encode(form.encoding, errors="replace")
    return b"\xef\xbb\xbf" + data if form.has_bom and form.encoding == "utf-8" else data
