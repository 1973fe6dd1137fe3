# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from fractions import Fraction

from .._errors import Error

UNITS = {"": 1, "B": 1, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


MOST = 2**62  # what a plan takes that is given no memory: below what 64 bits hold


def bytes_of(name: str, value: int | str) -> int:
    """Bytes, as a whole number or as text with a unit ("6GiB"); no fraction of anything."""
    count = _number_of(name, value)
    if count > MOST:
        raise Error("bad_config", name, f"is {value!r}, above {MOST} bytes, which no device has")
    return count


def _number_of(name: str, value: int | str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise Error("bad_config", name, f"is {value!r}, which is no number of bytes", 'a whole number, or text such as "6GiB"')
    if isinstance(value, int):
        if value < 0:
            raise Error("bad_config", name, f"is {value}, below 0")
        return value
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", value)
    if match is None or match[2].upper() not in UNITS or ("." in match[1] and not match[2]):
        raise Error("bad_config", name, f"is {value!r}, which is no number of bytes", 'a whole number, or text such as "6GiB"')
    return int(Fraction(match[1]) * UNITS[match[2].upper()])


def shown(count: int) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count} bytes"


def shown_apart(*counts: int) -> list[str]:
    """In whole bytes where they would look the same otherwise."""
    texts = [shown(each) for each in counts]
    return texts if len(set(texts)) == len(set(counts)) else [f"{each} bytes" for each in counts]
