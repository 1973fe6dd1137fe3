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

from . import _callbacks
from ._errors import Error, error_of

_EVENT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)


class _Option(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_char_p)]


_lock = threading.Lock()
_library: ctypes.CDLL | None = None
_own_files: frozenset[str] = frozenset()
_owner = os.getpid()


def mapped_file(line: str) -> str:
    """The file of a line of /proc/self/maps: what stands behind address, permissions, offset, device and inode."""
    fields = line.rstrip("\n").split(None, 5)
    return fields[5] if len(fields) == 6 else ""


def _mapped_files() -> frozenset[str]:
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        return frozenset(map(mapped_file, file))


def _load() -> ctypes.CDLL:
    global _library, _own_files
    with _lock:
        if _library is None:
            path = os.environ.get("SNUG_LIBRARY") or str(pathlib.Path(__file__).parent / "libsnug_c.so")
            before = _mapped_files()
            # Its own symbols first: other packages load an OpenMP of theirs for the whole process.
            library = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_DEEPBIND)
            library.snug_call.restype = ctypes.c_void_p
            library.snug_call.argtypes = [ctypes.c_char_p, ctypes.POINTER(_Option), ctypes.c_size_t, _EVENT, ctypes.c_void_p]
            library.snug_place.restype = ctypes.c_void_p
            library.snug_place.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_size_t, ctypes.POINTER(_Option), ctypes.c_size_t, _EVENT, ctypes.c_void_p]
            library.snug_free.restype = None
            library.snug_free.argtypes = [ctypes.c_void_p]
            _own_files = _mapped_files() - before - {""}
            _library = library
        return _library


def own_files() -> frozenset[str]:
    """The library and all that came into the process with it."""
    _load()
    return _own_files


def text_bytes(where: str, text: str) -> bytes:
    """As C takes it."""
    if not isinstance(text, str):
        raise Error("bad_config", where, f"{text!r} is no text", "give a name")
    try:
        found = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise Error("bad_config", repr(where), "is no text: it has half of a surrogate pair") from None
    if b"\0" in found:
        raise Error("bad_config", where, "has a zero byte")
    return found


def options_array(options: Mapping[str, str]) -> Any:
    array = (_Option * max(len(options), 1))()
    for i, (name, value) in enumerate(options.items()):
        where = name.removeprefix(".")
        array[i] = _Option(text_bytes(where, name), text_bytes(where, value))
    return array


def answer_of(address: int | None) -> Any:
    """What the library has answered."""
    if not address:
        raise MemoryError("snug")
    try:
        return json.loads(ctypes.string_at(address).decode("utf-8", "replace"))
    finally:
        _load().snug_free(address)


def _result_of(address: int | None) -> Any:
    """What an answer says. Raises Error."""
    answer = answer_of(address)
    if "error" in answer:
        raise error_of(answer["error"])
    return answer["result"]


def place(lower: int, upper: int, size: int, offsets: int, count: int, options: Mapping[str, str]) -> Any:
    """The report of a placement of ranges that lie at these addresses, int64 each; the offsets are filled in."""
    return _told(None, _load().snug_place, lower, upper, size, offsets, count, options_array(options), len(options))


def call(verb: str, options: Mapping[str, str], event: Callable[[str, Any], Any] | None = None) -> Any:
    """The result of a verb. `event(kind, value)` is told what happens; what it raises asks the verb to stop (training
    finishes its update and writes a checkpoint), and is raised here when it has.

    Raises Error, or DoesNotFit, as the library says.
    """
    return _told(event, _load().snug_call, verb.encode(), options_array(options), len(options))


def _told(event: Callable[[str, Any], Any] | None, function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a function of the library whose last arguments are an event and its context."""
    raised: list[BaseException] = []
    process = os.getpid()

    def tell(_context: Any, kind: bytes, text: bytes) -> int:
        if raised:
            return 1
        try:
            with _callbacks.interruptible:
                if event is not None:
                    event(kind.decode(), json.loads(text))
        except BaseException as error:  # noqa: BLE001: nothing may leave through C
            raised.append(error)
        if os.getpid() != process:
            _callbacks.end_child(raised[0] if raised else None)
        return len(raised)

    address = _callbacks.heard(function, *arguments, _EVENT(tell), None)
    if not raised:
        return _result_of(address)
    _load().snug_free(address)
    raise raised[0]
