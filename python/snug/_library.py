# SPDX-License-Identifier: Apache-2.0
"""The library, and calls of it: options in, JSON out (include/snug/snug_c.h)."""
from __future__ import annotations

import ctypes
import json
import os
import pathlib
import threading
from collections.abc import Callable, Mapping
from typing import Any

from ._errors import error_of

_EVENT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)


class _Option(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_char_p)]


_lock = threading.Lock()
_library: ctypes.CDLL | None = None
_owner = os.getpid()


def _load() -> ctypes.CDLL:
    global _library
    with _lock:
        if _library is None:
            path = os.environ.get("SNUG_LIBRARY") or str(pathlib.Path(__file__).parent / "libsnug_c.so")
            # Its own symbols first: other packages load an OpenMP of theirs for the whole process.
            library = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_DEEPBIND)
            library.snug_call.restype = ctypes.c_void_p
            library.snug_call.argtypes = [ctypes.c_char_p, ctypes.POINTER(_Option), ctypes.c_size_t, _EVENT, ctypes.c_void_p]
            library.snug_free.restype = None
            library.snug_free.argtypes = [ctypes.c_void_p]
            _library = library
        return _library


def call(verb: str, options: Mapping[str, str], event: Callable[[str, Any], Any] | None = None) -> Any:
    """The result of a verb. `event(kind, value)` is told what happens; what it raises asks the verb to stop (training
    finishes its update and writes a checkpoint), and is raised here when it has.

    Raises Error, or DoesNotFit, as the library says.
    """
    raised: list[BaseException] = []

    def tell(_context: Any, kind: bytes, text: bytes) -> int:
        if raised:
            return 1
        try:
            if event is not None:
                event(kind.decode(), json.loads(text))
            return 0
        except BaseException as error:  # noqa: BLE001: nothing may leave through C
            raised.append(error)
            return 1

    library = _load()
    array = (_Option * max(len(options), 1))()
    for i, (name, value) in enumerate(options.items()):
        if "\0" in name or "\0" in value:
            raise error_of({"code": "bad_config", "where": name.lstrip("."), "message": "has a zero byte", "hint": "", "text": f"[{name.lstrip('.')}] has a zero byte"})
        array[i] = _Option(name.encode(), value.encode("utf-8", "surrogateescape"))
    address = library.snug_call(verb.encode(), array, len(options), _EVENT(tell), None)
    if not address:
        raise MemoryError("snug")
    try:
        answer = json.loads(ctypes.string_at(address).decode("utf-8", "replace"))
    finally:
        library.snug_free(address)
    if raised:
        raise raised[0]
    if "error" in answer:
        raise error_of(answer["error"])
    return answer["result"]
