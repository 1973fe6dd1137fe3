"""What a table says, worked out without the product: columns as pandas.read_csv takes them, metrics as scikit-learn and scipy
define them. Nothing but the standard library, so that the tests need no other."""
import math
import re

# What pandas takes for no value.
MISSING = {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA", "NULL", "NaN", "None",
           "n/a", "nan", "null"}
TRUTHS = {"True": True, "TRUE": True, "true": True, "False": False, "FALSE": False, "false": False}
NUMBER = re.compile(r"[ \t]*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[ \t]*", re.ASCII)
INTEGER = re.compile(r"[ \t]*[+-]?\d+[ \t]*", re.ASCII)
INFINITE = {"inf", "infinity"}


def number_of(text):
    """An int or a float; None where the text is no finite number."""
    if INTEGER.fullmatch(text):
        return int(text)
    if NUMBER.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    return None


def is_infinite(text):
    return text.strip(" \t").lstrip("+-").lower() in INFINITE or (NUMBER.fullmatch(text) is not None and number_of(text) is None)


def pandas_column(cells):
    """The values of a column of text: numbers where all are, truths where all are, else the texts; None is NaN."""
    there = [cell for cell in cells if cell not in MISSING]
    if there and all(cell in TRUTHS for cell in there):
        return [TRUTHS.get(cell) for cell in cells]
    if there and all(number_of(cell) is not None or is_infinite(cell) for cell in there):
        numbers = [None if cell in MISSING else number_of(cell) for cell in cells]
        if all(isinstance(number, int) and abs(number) < 2 ** 63 for number in numbers):
            return numbers
        return [None if cell in MISSING else math.copysign(math.inf, -1 if "-" in cell else 1) if number is None else float(number)
                for cell, number in zip(cells, numbers)]
    return [None if cell in MISSING else cell for cell in cells]


def sorted_names(names):
    """As numbers where all are, equal ones by their bytes; else by their bytes."""
    by_bytes = sorted(names, key=lambda name: name.encode())
    numbers = [number_of(name) for name in by_bytes]
    if any(number is None for number in numbers):
        return by_bytes
    return [name for _, name in sorted(zip(numbers, by_bytes), key=lambda pair: pair[0])]


def partition(values):
    """Which rows are together, as the number of each row's group in order of appearance; None where there is no value."""
    seen = {}
    return [None if value is None else seen.setdefault((isinstance(value, bool), value), len(seen)) for value in values]


# ---- metrics: truth and guess are ids ----

def share(part, whole):
    return part / whole if whole else 0.0


def f1(hits, found, wanted):
    return share(2 * hits, found + wanted)


def class_counts(truth, guess, classes):
    hits = [sum(t == c and g == c for t, g in zip(truth, guess)) for c in range(classes)]
    return hits, [guess.count(c) for c in range(classes)], [truth.count(c) for c in range(classes)]


def quadratic_kappa(truth, guess, classes):
    rows = len(truth)
    seen = expected = 0
    for i in range(classes):
        for j in range(classes):
            cost = (i - j) ** 2
            seen += cost * sum(t == i and g == j for t, g in zip(truth, guess))
            expected += cost * truth.count(i) * guess.count(j) / rows
    return None if expected == 0 else 1 - seen / expected


def matthews(truth, guess, classes):
    rows, correct = len(truth), sum(t == g for t, g in zip(truth, guess))
    both = sum(truth.count(c) * guess.count(c) for c in range(classes))
    of_truth = rows ** 2 - sum(truth.count(c) ** 2 for c in range(classes))
    of_guess = rows ** 2 - sum(guess.count(c) ** 2 for c in range(classes))
    return 0.0 if of_truth * of_guess == 0 else (correct * rows - both) / math.sqrt(of_truth * of_guess)


def area_under_roc(is_one, scores):
    ones = [score for score, one in zip(scores, is_one) if one]
    others = [score for score, one in zip(scores, is_one) if not one]
    if not ones or not others:
        return None
    return sum(1.0 if a > b else 0.5 if a == b else 0.0 for a in ones for b in others) / (len(ones) * len(others))


def class_metrics(truth, scores):
    """`scores`: of a row, one number a class; the first of the highest is the guess."""
    classes = len(scores[0])
    guess = [row.index(max(row)) for row in scores]
    hits, found, wanted = class_counts(truth, guess, classes)
    occurring = [c for c in range(classes) if found[c] + wanted[c] > 0]
    each = [f1(hits[c], found[c], wanted[c]) for c in range(classes)]
    looked_for = [1] if classes == 2 else range(classes)
    areas = [area_under_roc([t == c for t in truth], [row[c] for row in scores]) for c in looked_for]
    return {"accuracy": share(sum(hits), len(truth)), "macro_f1": share(sum(each[c] for c in occurring), len(occurring)),
            "weighted_f1": share(sum(each[c] * wanted[c] for c in range(classes)), len(truth)),
            "matthews": matthews(truth, guess, classes), "qwk": quadratic_kappa(truth, guess, classes),
            "roc_auc": None if None in areas else share(sum(areas), len(areas)),
            "loss": -sum(math.log(row[t]) for t, row in zip(truth, scores)) / len(truth)}


def several_metrics(truth, guess, labels):
    """Of rows that are sets of ids."""
    rows = len(truth)
    hits = [sum(c in t and c in g for t, g in zip(truth, guess)) for c in range(labels)]
    found = [sum(c in g for g in guess) for c in range(labels)]
    wanted = [sum(c in t for t in truth) for c in range(labels)]
    each = [f1(*three) for three in zip(hits, found, wanted)]
    return {"micro_f1": f1(sum(hits), sum(found), sum(wanted)), "macro_f1": share(sum(each), labels),
            "weighted_f1": share(sum(value * count for value, count in zip(each, wanted)), sum(wanted)),
            "subset_accuracy": share(sum(t == g for t, g in zip(truth, guess)), rows)}


def correlation(a, b):
    if len(a) < 2 or len(set(a)) == 1 or len(set(b)) == 1:
        return None
    mean_a, mean_b = math.fsum(a) / len(a), math.fsum(b) / len(b)
    ab = math.fsum((x - mean_a) * (y - mean_b) for x, y in zip(a, b))
    aa, bb = (math.fsum((x - mean) ** 2 for x in values) for values, mean in ((a, mean_a), (b, mean_b)))
    return None if aa == 0 or bb == 0 else ab / math.sqrt(aa) / math.sqrt(bb)


def ranks(values):
    order = sorted(values)
    return [(order.index(value) + len(order) - 1 - order[::-1].index(value)) / 2 for value in values]


def number_metrics(truth, guess):
    errors = [g - t for t, g in zip(truth, guess)]
    mse = math.fsum(error ** 2 for error in errors) / len(errors)
    return {"mse": mse, "rmse": math.sqrt(mse), "mae": math.fsum(map(abs, errors)) / len(errors), "pearson": correlation(truth, guess),
            "spearman": correlation(ranks(truth), ranks(guess))}
