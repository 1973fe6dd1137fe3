# SPDX-License-Identifier: Apache-2.0
"""A run configuration as Python gives it, and as the library takes it: the words of the command line."""
from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from ._errors import Error

# Elements are files, of which one alone may have a comma (_rows.py).
FILE_KEYS = ("train_file", "validation_file", "test_file")

Config = Mapping[str, Any] | str | os.PathLike[str] | None


def _refuse(key: str, value: Any) -> Error:
    message = f"takes no {type(value).__name__}"
    return Error("bad_config", key, message, "give a text, a number, a truth value, or a list of them")


def _is_numpys(value: Any) -> bool:
    """A number or an array of numpy, or what is like one."""
    return hasattr(value, "tolist") and hasattr(value, "dtype")


def _plain(value: Any) -> Any:
    if not _is_numpys(value):
        raise TypeError(f"{type(value).__name__} is neither text nor number")
    return value.tolist()


def json_of(key: str, value: Any) -> str:
    """As JSON, numbers and arrays of numpy in it, too."""
    try:
        return json.dumps(value, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise Error("bad_config", key, f"is no JSON: {error}", "give texts, numbers, truth values, and lists and dicts of them") from None


def text_of(key: str, value: Any) -> str:
    """A value as the command line has it."""
    if _is_numpys(value):  # some are Python's numbers, too
        value = value.tolist()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return json_of(key, value)
    if isinstance(value, (list, tuple)):
        if any(isinstance(each, (Mapping, list, tuple)) for each in value):
            return json_of(key, list(value))
        texts = [text_of(key, each) for each in value]
        for text in texts:
            if "," in text and key not in FILE_KEYS:
                raise Error("bad_config", key, f"its element '{text}' holds a comma, which stands between elements", "split it")
        return ",".join(texts)
    if isinstance(value, (int, float)):
        return repr(float(value) if isinstance(value, float) else int(value))
    raise _refuse(key, value)


def options_of(config: Config, keys: Mapping[str, Any]) -> dict[str, str]:
    """The options of a call. `config` is a file, or keys and values; `keys` win over it. A value of None is not given."""
    options: dict[str, str] = {}
    merged: dict[str, Any] = {}
    if isinstance(config, (str, os.PathLike)):
        options[".file"] = os.fspath(config)
    elif isinstance(config, Mapping):
        merged.update(config)
    elif config is not None:
        raise Error("bad_config", "config", f"a {type(config).__name__} is no configuration", "give a YAML file, or a dict of keys")
    merged.update(keys)
    for key, value in merged.items():
        if not isinstance(key, str) or key.startswith("."):
            raise Error("bad_config", str(key), "is no key of a configuration")
        if value is not None:
            options[key] = text_of(key, value)
    return options
