# SPDX-License-Identifier: Apache-2.0
"""Arrays in and out without a copy: anything with Python's buffer protocol (numpy, array.array, memoryview) or DLPack (PyTorch,
JAX) goes in; numpy's arrays come out. numpy is imported only where an array is asked for."""
from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ._errors import Error
from ._native import Array, Handle, text_bytes

_TYPES = {("f", 4): "f32", ("i", 4): "i32", ("l", 4): "i32", ("?", 1): "bool", ("B", 1): "bool"}
_PLAIN = {("d", 8): ("float64", "float32"), ("e", 2): ("float16", "float32"), ("q", 8): ("int64", "int32"), ("l", 8): ("int64", "int32")}
# What stands before the letter of a type where a library, such as ctypes, says the order of its bytes.
_OWN_ORDER, _OTHER_ORDER = ("<", ">") if sys.byteorder == "little" else (">", "<")
_UNALIGNED = "its elements do not lie at multiples of their size"
_FORMATS = {"f32": "<f4", "i32": "<i4", "i64": "<i8", "bool": "|b1", "u8": "|u1"}


class _Buffer(ctypes.Structure):  # Py_buffer
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int),
                ("ndim", ctypes.c_int), ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(_Buffer), ctypes.c_int]
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [ctypes.POINTER(_Buffer)]


def _address_of(view: memoryview) -> int:
    buffer = _Buffer()
    _get_buffer(view, buffer, 0)  # PyBUF_SIMPLE; `view` holds the memory where it is
    address = buffer.buf or 0
    _release_buffer(buffer)
    return address


class Elements(NamedTuple):
    """Where an array's elements are. `view` holds them there."""

    dtype: str
    shape: tuple[int, ...]
    address: int
    view: memoryview


def _view_of(name: str, value: Any) -> memoryview:
    masked = sys.modules.get("numpy.ma")
    if masked is not None and masked.is_masked(value):
        raise Error("bad_data", name, "some of its elements are masked, which nothing here knows", "give x.filled(0), and the mask as an input of its own")
    try:
        return memoryview(value)
    except ValueError as error:  # numpy, of times and the like
        raise Error("bad_data", name, f"its elements cannot be read: {error}", "give float32, int32 or bool") from None
    except TypeError:
        if not hasattr(value, "__dlpack__"):
            raise TypeError(f"'{name}' is a {type(value).__name__}, which has no elements in memory: give an array (numpy, PyTorch, array.array)") from None
    if getattr(value, "is_neg", bool)():  # of PyTorch, which gives the elements away as they lie
        raise Error("bad_data", name, "its elements are negated where they are read, not where they lie", "give x.resolve_neg()")
    try:
        import numpy

        return memoryview(numpy.from_dlpack(value))  # type: ignore[arg-type]
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise Error("bad_data", name, f"its elements cannot be read where they are: {error}",
                    "give a dense array of f32, i32 or booleans in this machine's memory") from error


def elements_of(name: str, value: Any, *, is_written: bool = False) -> Elements:
    """Raises Error{bad_data} for elements of another type, or that do not lie in a row."""
    view = _view_of(name, value)
    order, kind = view.format[:1], (view.format.removeprefix(_OWN_ORDER), view.itemsize)
    dtype = _TYPES.get(kind)
    if dtype is None:
        if order == _OTHER_ORDER:
            raise Error("bad_data", name, "the bytes of its elements are in the order of other machines",
                        "give float32, int32 or bool of this one: x.astype(x.dtype.newbyteorder('='))")
        if order == "=":  # as numpy calls them
            raise Error("bad_data", name, _UNALIGNED, "give x.copy()")
        known = _PLAIN.get(kind)
        raise Error("bad_data", name, f"its elements are {known[0] if known else repr(view.format)}", f"give {known[1]}" if known else "give float32, int32 or bool")
    if not view.c_contiguous:
        raise Error("bad_data", name, "its elements do not lie in a row", "give a copy: numpy.ascontiguousarray")
    if is_written and view.readonly:
        raise Error("bad_data", name, "it cannot be written to: it is read-only", "give a writable array")
    address = _address_of(view)
    if address % view.itemsize:
        raise Error("bad_data", name, _UNALIGNED, "give a copy")
    return Elements(dtype, view.shape or (), address, view)


def described(arrays: Mapping[str, Elements]) -> tuple[Any, list[Any]]:
    """As C takes them, and what has to live as long."""
    array = (Array * max(len(arrays), 1))()
    kept: list[Any] = []
    for i, (name, elements) in enumerate(arrays.items()):
        shape = (ctypes.c_int64 * len(elements.shape))(*elements.shape)
        kept += [shape, elements]
        array[i] = Array(text_bytes("rows", name), elements.dtype.encode(), shape, len(elements.shape), elements.address)
    return array, kept


class _Memory:
    """Elements of the library's as numpy finds them; numpy's array refers to it, so they live as long."""

    __slots__ = ("__array_interface__", "handle")

    def __init__(self, address: int, dtype: str, shape: Sequence[int], handle: Handle | None, is_written: bool) -> None:
        self.__array_interface__ = {"version": 3, "typestr": _FORMATS[dtype], "shape": tuple(shape), "data": (address, not is_written)}
        self.handle = handle


def array_at(address: int, dtype: str, shape: Sequence[int], handle: Handle | None, *, is_written: bool = False) -> Any:
    """The elements there, as numpy's array without a copy."""
    import numpy

    if math.prod(shape) == 0:
        return numpy.zeros(shape, _FORMATS[dtype])
    return numpy.asarray(_Memory(address, dtype, shape, handle, is_written))


def shape_of(array: Array) -> tuple[int, ...]:
    return tuple(array.shape[i] for i in range(array.rank))


def copy_of(array: Array) -> Any:
    """What C gives for the time of a call."""
    return array_at(array.data, array.dtype.decode(), shape_of(array), None).copy()
