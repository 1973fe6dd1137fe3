#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/expressions.txt: whether Python's re.fullmatch matches, one case a line: expression, text, 1 or 0, with a tab between them.

    python3 tools/golden/expressions.py tests/golden/expressions.txt [SEED COUNT]
"""
import random
import re
import sys
import warnings

NAMES = ["bert.encoder.layer.0.attention.self.query", "bert.encoder.layer.11.output.dense", "bert.pooler.dense", "classifier", "a", "ab", "aab", "abc",
         "b", "a.b", "a-b", "aa", "aaa", "layer_1", "{2}", "x{", "", "a b", "]", "-", "^a", "q1", "7"]
FIXED = [r".*\.(query|value)", r".*layer\.(0|1)\..*(query|dense)", r"(.*\.)?(query)", r"(.*\.)?(layer.0.attention.self.query)", r".*", r".+", r"a?",
         r"a*?b", r"(a|ab)(c|b)?", r"a{2}", r"a{2,}", r"a{,2}", r"a{,}", r"a{1,2}?b", r"x{", r"[ab]+", r"[^ab]*", r"[a-c]+", r"[]]", r"[^]]", r"[a\-]+",
         r"[\w.]+", r"\w+\.\w+", r"\d", r"\D+", r"\S+", r"\s", r"^a$", r"\Aa\Z", r"\bab\b", r"a\Bb", r"a\b.b", r"(?:ab|a)b?", r"(?P<n>a)+", r"\^a", r"", r"|a",
         r"a|", r"()", r"(a*)*b", r"(a?){3}", r"[-a]", r"[a-]+", r".*layer\.\d+\..*", r"bert\.encoder\.layer\.([0-9]|1[01])\.output\.dense", r"\{2\}", r"a\-b"]


def made(generator, depth=0):
    pick = generator.random()
    if depth > 3 or pick < 0.45:
        return generator.choice(["a", "b", "c", ".", r"\.", r"\w", r"\d", "[ab]", "[^a]", "[a-c0-9]", "-", " ", "^", "$", r"\b"])
    if pick < 0.6:
        return "(" + "|".join(made(generator, depth + 1) for _ in range(generator.randint(1, 3))) + ")"
    if pick < 0.75:
        inner = "(?:" + made(generator, depth + 1) + ")"
        return inner + generator.choice(["*", "+", "?", "{2}", "{1,2}", "{0,}", "*?", "{,1}"])
    return "".join(made(generator, depth + 1) for _ in range(generator.randint(1, 4)))


def main():
    warnings.simplefilter("ignore")
    seed, count = (int(x) for x in sys.argv[2:4]) if len(sys.argv) > 3 else (1, 60)
    generator = random.Random(seed)
    lines = []
    for pattern in FIXED + [made(generator) for _ in range(count)]:
        for name in NAMES:
            lines.append(f"{pattern}\t{name}\t{int(re.fullmatch(pattern, name) is not None)}\n")
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.writelines(lines)


main()
