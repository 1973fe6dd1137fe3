#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/task_metrics.json: what networks said of some rows, and the metrics that scikit-learn, scipy and seqeval find.

    python3 tools/golden/task_metrics.py > tests/golden/task_metrics.json
"""
import importlib.metadata
import json
import warnings

import numpy as np
import scipy
import scipy.stats
import sklearn
from seqeval.metrics import f1_score as span_f1, precision_score, recall_score
from seqeval.scheme import IOB2
from sklearn import metrics

warnings.filterwarnings("ignore")
random = np.random.default_rng(29)
TAGS = ["B-LOC", "B-PER", "I-LOC", "I-PER", "O"]


def numbers(*shape):
    """Few different values, so that ranks have ties, and exact in 32 bits."""
    return np.round(random.normal(size=shape) * 8) / 16


def classification(rows, count):
    logits, labels = numbers(rows, count), random.integers(count - 1, size=rows)
    found = logits.argmax(axis=1)
    return dict(task="classification", labels=[f"c{i}" for i in range(count)],
                rows=[dict(output=z.tolist(), integers=[[int(y)]]) for z, y in zip(logits, labels)],
                metrics=dict(loss=metrics.log_loss(labels, scipy.special.softmax(logits, axis=1), labels=list(range(count))),
                             accuracy=metrics.accuracy_score(labels, found), macro_f1=metrics.f1_score(labels, found, average="macro")))


def regression(rows, targets):
    found, wanted = numbers(rows, targets), numbers(rows, targets)
    found += wanted
    columns = list(zip(found.T, wanted.T))
    return dict(task="regression", labels=[str(i) for i in range(targets)],
                rows=[dict(output=a.tolist(), reals=[b.tolist()]) for a, b in zip(found, wanted)],
                metrics=dict(mse=metrics.mean_squared_error(wanted, found), mae=metrics.mean_absolute_error(wanted, found),
                             pearson=float(np.mean([scipy.stats.pearsonr(a, b)[0] for a, b in columns])),
                             spearman=float(np.mean([scipy.stats.spearmanr(a, b)[0] for a, b in columns]))))


def multi_label(rows, count, threshold):
    logits, labels = numbers(rows, count) + 0.03125, (random.random((rows, count)) < 0.4).astype(int)
    labels[0], labels[:, count - 1] = 0, 0  # a row without labels, a label without rows
    scores = 1 / (1 + np.exp(-logits))
    found = (scores >= threshold).astype(int)
    return dict(task="multi_label", labels=[f"l{i}" for i in range(count)], threshold=threshold,
                rows=[dict(output=z.tolist(), integers=[np.flatnonzero(y).tolist()]) for z, y in zip(logits, labels)],
                metrics=dict(loss=float(-np.mean(labels * np.log(scores) + (1 - labels) * np.log(1 - scores))),
                             micro_f1=metrics.f1_score(labels, found, average="micro"),
                             macro_f1=metrics.f1_score(labels, found, average="macro"),
                             subset_accuracy=metrics.accuracy_score(labels, found)))


def token_classification(rows, length):
    """Words are cut off, take more than one token, and rows have none."""
    out, wanted, found = [], [], []
    for row in range(rows):
        words = 0 if row == 0 else int(random.integers(1, length))
        places, at = [], 1
        for _ in range(words):
            places.append(at if at < length - 1 else -1)
            at += int(random.integers(1, 3))
        logits, labels = numbers(length, len(TAGS)), random.integers(len(TAGS), size=words).tolist()
        for place, label in zip(places, labels):
            if place >= 0 and random.random() < 0.6:  # often right
                logits[place, label] += 2
        out.append(dict(output=logits.reshape(-1).tolist(), integers=[places, labels]))
        kept = [(place, label) for place, label in zip(places, labels) if place >= 0]
        wanted.append([TAGS[label] for _, label in kept])
        found.append([TAGS[int(logits[place].argmax())] for place, _ in kept])
    flat = [(a, b) for xs, ys in zip(wanted, found) for a, b in zip(xs, ys)]
    strict = dict(mode="strict", scheme=IOB2)
    return dict(task="token_classification", labels=TAGS, rows=out,
                metrics=dict(precision=precision_score(wanted, found, **strict), recall=recall_score(wanted, found, **strict),
                             f1=span_f1(wanted, found, **strict), accuracy=float(np.mean([a == b for a, b in flat]))))


cases = [classification(40, 5), regression(30, 1), regression(25, 3), multi_label(40, 6, 0.5), multi_label(20, 4, 0.3),
         token_classification(30, 9)]
note = f"scikit-learn {sklearn.__version__}, scipy {scipy.__version__}, seqeval {importlib.metadata.version('seqeval')}"
print(json.dumps(dict(written_by=f"tools/golden/task_metrics.py, {note}", cases=cases)))
