#!/usr/bin/env python3
"""The words of the program, done by the functions of Python: random_configs.py and the like take it for the program."""
import json
import sys

import snug
from snug import _host

CODES = {"out_of_budget": 2, "numeric": 3, "internal": 70, "cancelled": 130}
# What the interpreter has differs a little from process to process; with this it counts the same in all of them.
RESIDENT_BYTES = 58 << 20


def keys_of(words):
    keys, at = {}, 0
    while at < len(words):
        assert words[at].startswith("--"), words
        has_value = at + 1 < len(words) and not words[at + 1].startswith("--")
        keys[words[at][2:]] = words[at + 1] if has_value else True
        at += 1 + has_value
    return keys


def run(verb, words):
    keys = keys_of(words)
    keys.pop("json", None)
    if verb == "help":
        return {"options": list(snug.keys())}
    found = getattr(snug, verb)(keys, progress=False)
    return found.to_dict() if verb == "plan" else found


def main():
    ballast = bytes([1]) * max(0, RESIDENT_BYTES - _host.resident_bytes() + _host._resident_of(_host.own_files()))
    try:
        print(json.dumps(run(sys.argv[1], sys.argv[2:])))
    except snug.Error as error:
        print(f"error: {error}", file=sys.stderr)
        return CODES.get(error.code, 1)
    del ballast
    return 0


if __name__ == "__main__":
    sys.exit(main())
