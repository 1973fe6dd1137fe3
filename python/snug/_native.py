# SPDX-License-Identifier: Apache-2.0
"""The interface of include/snug/snug_session_c.h: objects, verbs by name, and what goes in and out beside words."""
from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from . import _callbacks
from ._library import _EVENT, _load, _Option, answer_of, options_array, text_bytes

Build = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
Kernel = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int64),
    ctypes.POINTER(ctypes.c_double), ctypes.c_void_p)
Ask = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p)


class Array(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_char_p), ("shape", ctypes.POINTER(ctypes.c_int64)), ("rank", ctypes.c_size_t),
                ("data", ctypes.c_void_p)]


class Slot(ctypes.Structure):
    _fields_ = [("array", Array), ("length", ctypes.c_char_p), ("padding", ctypes.c_int32), ("first_row", ctypes.c_int64)]


Fill = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.POINTER(Slot), ctypes.c_size_t)
Sink = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.POINTER(Array), ctypes.c_size_t)


class Data(ctypes.Structure):
    _fields_ = [("rows", ctypes.c_int64), ("arrays", ctypes.POINTER(Array)), ("array_count", ctypes.c_size_t), ("fill", Fill), ("sink", Sink),
                ("event", _EVENT), ("cancel", ctypes.c_void_p), ("machine", ctypes.c_void_p), ("block", ctypes.c_void_p),
                ("block_bytes", ctypes.c_size_t), ("context", ctypes.c_void_p)]


_lock = threading.Lock()
_loaded: ctypes.CDLL | None = None


def library() -> ctypes.CDLL:
    global _loaded
    if _loaded is None:
        with _lock:
            found = _load()
            place = ctypes.POINTER(ctypes.c_void_p)
            for name, arguments in {
                "snug_build_call": [ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int32), ctypes.c_size_t, ctypes.c_char_p],
                "snug_network_new": [ctypes.c_char_p, Build, ctypes.c_void_p, place],
                "snug_network_of_model": [ctypes.POINTER(_Option), ctypes.c_size_t, place],
                "snug_network_add": [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, Ask, ctypes.c_void_p],
                "snug_do": [ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(_Option), ctypes.c_size_t, ctypes.POINTER(Data), place],
            }.items():
                function = getattr(found, name)
                function.restype = ctypes.c_void_p
                function.argtypes = arguments
            found.snug_release.restype = None
            found.snug_release.argtypes = [ctypes.c_void_p]
            found.snug_reply.restype = None
            found.snug_reply.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
            _loaded = found
    return _loaded


def result_of(address: int | None) -> Any:
    """The result of an answer, or its error raised."""
    answer = answer_of(address)
    if "error" in answer:
        _callbacks.raise_error(answer["error"])
    return answer["result"]


class Handle:
    """An object of the library. What refers to its memory refers to it, so that lives as long."""

    __slots__ = ("address", "kept", "__weakref__")

    def __init__(self, address: int, kept: Sequence[Any] = ()) -> None:
        self.address = address
        self.kept = kept

    def __reduce__(self) -> Any:
        raise TypeError("an object of the library is neither copied nor pickled: it is memory of this process, which a copy would free again")

    def __del__(self) -> None:
        if _loaded is not None:
            _loaded.snug_release(self.address)


NO_DATA = Data()


def _did(handle: Handle | None, verb: str, options: Mapping[str, str], data: Data, place: Any) -> Any:
    _callbacks.begin()
    given = (None if handle is None else handle.address, verb.encode(), options_array(options), len(options), data, place)
    calls_back = data.event or data.fill or data.sink or _callbacks.has_kernels
    return result_of(_callbacks.heard(library().snug_do, *given) if calls_back else library().snug_do(*given))


def do(handle: Handle | None, verb: str, options: Mapping[str, str] | None = None, data: Data = NO_DATA) -> Any:
    """A verb's result."""
    return _did(handle, verb, options or {}, data, None)


def make(handle: Handle | None, verb: str, options: Mapping[str, str], data: Data = NO_DATA, kept: Sequence[Any] = ()) -> Handle:
    """The object that a verb makes, which keeps `kept`."""
    place = ctypes.c_void_p()
    _did(handle, verb, options, data, place)
    assert place.value is not None
    return Handle(place.value, kept)
