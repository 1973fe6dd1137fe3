# SPDX-License-Identifier: Apache-2.0
"""Which columns of rows in memory a run reads: others may hold anything, and are not written."""
from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ._errors import Error

_USUAL = {"text_column": "text", "text_pair_column": "", "label_column": "label", "weight_column": ""}
_NEEDED = ("text_column", "text_pair_column", "weight_column")


def columns_to_write(names: Collection[str], keys: Mapping[str, Any] | None) -> Collection[str]:
    """Those of `names` that a run of these keys reads. All of them where the keys are not known, and where one that is needed is
    not there: the error lists what is."""
    if keys is None:
        return names
    given = {key: keys[key] if isinstance(keys.get(key), str) else usual for key, usual in _USUAL.items()}
    if any(given[key] and given[key] not in names for key in _NEEDED):
        return names
    return [name for name in names if name in given.values()]


def refuse_twice(key: str, names: Collection[str]) -> None:
    """Of two columns of one name nobody knows which is meant."""
    twice = [name for i, name in enumerate(names) if name in list(names)[:i]]
    if twice:
        raise Error("bad_data", key, f"two columns are called '{twice[0]}'", "give each a name of its own")
