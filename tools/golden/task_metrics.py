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


def defined(found):
    """Without rows nothing is defined, and libraries differ in how they say so; NaN is null."""
    return {name: None if np.isnan(value) else float(value) for name, value in found.items()}


def none(*names):
    return dict.fromkeys(names)


def class_metrics(logits, labels):
    count, found = logits.shape[1], logits.argmax(axis=1)
    if len(labels) == 0:
        return none("accuracy", "macro_f1", "weighted_f1", "matthews", "qwk", "roc_auc")
    ids, scores = list(range(count)), scipy.special.softmax(logits, axis=1)
    area = metrics.roc_auc_score(labels, scores[:, 1]) if count == 2 else metrics.roc_auc_score(labels, scores, multi_class="ovr", labels=ids)
    return defined(dict(loss=metrics.log_loss(labels, scores, labels=ids), accuracy=metrics.accuracy_score(labels, found),
                        macro_f1=metrics.f1_score(labels, found, average="macro"), weighted_f1=metrics.f1_score(labels, found, average="weighted"),
                        matthews=metrics.matthews_corrcoef(labels, found),
                        qwk=metrics.cohen_kappa_score(labels, found, labels=ids, weights="quadratic"), roc_auc=area))


def classification(rows, count, classes=None, constant=False):
    """`classes`: how many occur in the rows; constant: every row is said to be the same."""
    logits, labels = numbers(rows, count), random.integers(classes or count, size=rows)
    logits[np.arange(rows), labels] += np.round(random.random(rows) * 16) / 8
    if constant:
        logits[:] = numbers(count)
    return dict(task="classification", labels=[f"c{i}" for i in range(count)],
                rows=[dict(output=z.tolist(), integers=[[int(y)]]) for z, y in zip(logits, labels)], metrics=class_metrics(logits, labels))


def regression(rows, targets, constant=False):
    found, wanted = numbers(rows, targets), numbers(rows, targets)
    found += wanted
    if constant:
        found[:] = np.float64(np.float32(0.1))
    columns = list(zip(found.T, wanted.T))
    values = none("mse", "mae", "rmse", "mcrmse", "pearson", "spearman")
    if rows > 0:
        values = defined(dict(mse=metrics.mean_squared_error(wanted, found), mae=metrics.mean_absolute_error(wanted, found),
                              rmse=metrics.root_mean_squared_error(wanted, found),
                              mcrmse=np.mean(np.sqrt(np.mean((wanted - found) ** 2, axis=0))),
                              pearson=np.mean([scipy.stats.pearsonr(a, b)[0] if rows > 1 else np.nan for a, b in columns]),
                              spearman=np.mean([scipy.stats.spearmanr(a, b)[0] for a, b in columns])))
    return dict(task="regression", labels=[str(i) for i in range(targets)],
                rows=[dict(output=a.tolist(), reals=[b.tolist()]) for a, b in zip(found, wanted)], metrics=values)


def multi_label(rows, count, threshold, form=""):
    """`form`: what the rows have of labels: "" a random part, and a label is in no row; "all", "none", "any" label in some row."""
    logits, labels = numbers(rows, count) + 0.03125, (random.random((rows, count)) < 0.4).astype(int)
    if form in ("all", "none"):
        labels[:] = form == "all"
    elif rows > 0:
        labels[0] = 0  # a row without labels
        if form != "any":
            labels[:, count - 1] = 0
    scores = 1 / (1 + np.exp(-logits))
    found = (scores >= threshold).astype(int)
    values = none("micro_f1", "macro_f1", "weighted_f1", "subset_accuracy", "roc_auc")
    if rows > 0:
        values = defined(dict(loss=-np.mean(labels * np.log(scores) + (1 - labels) * np.log(1 - scores)),
                              micro_f1=metrics.f1_score(labels, found, average="micro"),
                              macro_f1=metrics.f1_score(labels, found, average="macro"),
                              weighted_f1=metrics.f1_score(labels, found, average="weighted"),
                              roc_auc=metrics.roc_auc_score(labels, scores, average="macro"),
                              subset_accuracy=metrics.accuracy_score(labels, found)))
    return dict(task="multi_label", labels=[f"l{i}" for i in range(count)], threshold=threshold,
                rows=[dict(output=z.tolist(), integers=[np.flatnonzero(y).tolist()]) for z, y in zip(logits, labels)], metrics=values)


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


cases = [classification(40, 5), classification(60, 4, classes=3), classification(50, 2), classification(20, 2, classes=1),
         classification(20, 3, constant=True), classification(24, 2, constant=True), classification(12, 3, classes=1, constant=True),
         classification(1, 3), classification(0, 3),
         regression(30, 1), regression(25, 3), regression(20, 2, constant=True), regression(1, 1), regression(0, 2),
         multi_label(40, 6, 0.5), multi_label(20, 4, 0.3), multi_label(30, 3, 0.5, "any"), multi_label(12, 2, 0.5, "all"),
         multi_label(12, 2, 0.5, "none"), multi_label(1, 1, 0.5), multi_label(0, 2, 0.5),
         token_classification(30, 9)]
note = f"scikit-learn {sklearn.__version__}, scipy {scipy.__version__}, seqeval {importlib.metadata.version('seqeval')}"
print(json.dumps(dict(written_by=f"tools/golden/task_metrics.py, {note}", cases=cases)))
