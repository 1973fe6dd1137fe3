#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/task_metrics.json: what networks said of some rows, and the metrics that scikit-learn and scipy find.

    python3 tools/golden/task_metrics.py > tests/golden/task_metrics.json
"""
import json
import warnings

import numpy as np
import scipy
import scipy.stats
import sklearn
from sklearn import metrics

warnings.filterwarnings("ignore")
random = np.random.default_rng(29)


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


cases = [classification(40, 5), regression(30, 1), regression(25, 3), multi_label(40, 6, 0.5), multi_label(20, 4, 0.3)]
note = f"scikit-learn {sklearn.__version__}, scipy {scipy.__version__}"
print(json.dumps(dict(written_by=f"tools/golden/task_metrics.py, {note}", cases=cases)))
