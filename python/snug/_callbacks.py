# SPDX-License-Identifier: Apache-2.0
"""What Python's functions raise while the library calls them: it goes through the library as a number, and is raised again
by the call that led there."""
from __future__ import annotations

import atexit
import functools
import itertools
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from ._errors import Error, error_of

#: What a callback answers for the error that the builder has reported last: SNUG_LAST_ERROR.
LAST_ERROR = -1

_numbers = itertools.count(1)
_raised: dict[int, BaseException] = {}


def failed(error: BaseException) -> int:
    """The answer of a callback that has raised `error`."""
    number = next(_numbers) % 2**31 or next(_numbers)  # answers of an event are of 31 bits
    _raised[number] = error
    return number


def failed_building(error: BaseException, reported: Error | None) -> int:
    """The same of a network's function. What the library has `reported` it says again, with what it knows of the building."""
    if error is not reported:
        return failed(error)
    _here.cause = error
    return LAST_ERROR


def begin() -> None:
    _here.cause = None


#: Signals whose handlers may raise: of these a program asks for its end, or for a pause of its work.
_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGUSR1", "SIGUSR2")]


class _Holding:
    """In a handler's place. Where nothing is held it is that handler, so one that is left in place by an exception at the wrong moment does no harm."""

    def __init__(self, handler: Callable[..., Any]) -> None:
        self.handler = handler

    def __call__(self, number: int, frame: Any) -> Any:
        if _here.is_held:
            _here.held.append(number)
        else:
            self.handler(number, frame)


class _Here(threading.local):
    """Of a thread; of signals, the main thread's counts."""

    def __init__(self) -> None:
        self.cause: BaseException | None = None
        self.is_held = False  # whether signals wait
        self.held: list[int] = []  # those that do
        self.outer: list[bool] = []  # of is_held, outside of each `interruptible`


_here = _Here()


@functools.cache
def _is_main_interpreter() -> bool:
    """Asked in a main thread: that of a subinterpreter gets no signals, and may not set their handlers."""
    for number in _SIGNALS:
        handler = signal.getsignal(number)
        if handler is None:  # set by others than Python
            continue
        try:
            signal.signal(number, handler)
            return True
        except ValueError:
            return False
    return False


def _take_places() -> None:
    for number in _SIGNALS:
        handler = signal.getsignal(number)
        if callable(handler) and not isinstance(handler, _Holding):
            signal.signal(number, _Holding(handler))


def _put_back() -> None:
    for number in _SIGNALS:
        handler = signal.getsignal(number)
        if isinstance(handler, _Holding):
            signal.signal(number, handler.handler)


def _give_back() -> None:
    """Signals are the handlers' again, also those that waited. Until all are, they wait: a handler that is called before may raise, and the rest would never be."""
    try:
        try:
            _put_back()
        except BaseException:  # of one that is back
            _put_back()
            raise
    finally:
        _here.is_held = False
        _raise_each(_here.held)


def _raise_each(held: list[int]) -> None:
    if not held:
        return
    try:
        signal.raise_signal(held.pop(0))
    finally:  # also where the handler of one raises
        _raise_each(held)


def heard(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function of the library gives that calls Python's. Of a signal that came meanwhile (Ctrl-C, an alarm) Python hears
    where the first of those begins, before any `try` in it, and ctypes loses what a handler raises there: so it is held until one
    is `interruptible`, or to the end. Signals are the main thread's."""
    if threading.current_thread() is not threading.main_thread() or not _is_main_interpreter():
        return _beside(function, *arguments)
    if _here.is_held:
        return function(*arguments)
    try:
        _here.is_held = True
        _take_places()
        return function(*arguments)
    finally:
        _give_back()


# Python ends daemon threads where they next call it, by unwinding their stack: of one that the library has called from, that is the
# end of the whole process, by a signal. So before Python ends, each call of another thread is told to, and waited for.
_changed = threading.Condition()
_calls_beside = 0
_is_ending = False


def _beside(function: Callable[..., Any], *arguments: Any) -> Any:
    global _calls_beside
    _raise_at_the_end()
    with _changed:
        _calls_beside += 1
    try:
        return function(*arguments)
    finally:
        with _changed:
            _calls_beside -= 1
            _changed.notify_all()


def _raise_at_the_end() -> None:
    if _is_ending and threading.current_thread() is not threading.main_thread():
        raise SystemExit("Python ends")  # of which threads say nothing


def _end_calls() -> None:
    global _is_ending
    with _changed:
        _is_ending = True
        _changed.wait_for(lambda: _calls_beside == 0)


def _begin_in_child() -> None:
    """Which has none of the other threads."""
    global _changed, _calls_beside
    _changed, _calls_beside = threading.Condition(), 0


def end_child(error: BaseException | None) -> NoReturn:
    """Where a callback of a run ends in a process that was forked in it: the run, and its folder, are the parent's, so nothing of it may unwind here."""
    status = 1
    if isinstance(error, SystemExit):
        if error.code is None or isinstance(error.code, int):
            status = error.code or 0
        else:
            print(error.code, file=sys.stderr)
    elif error is not None:
        traceback.print_exception(type(error), error, error.__traceback__)
    else:
        print("snug: a process that was forked in a callback ends where the callback does, since the run is its parent's: end it by os._exit", file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):  # there may be none, or it is closed
            pass
    os._exit(status)


atexit.register(_end_calls)
os.register_at_fork(after_in_child=_begin_in_child)


class _Interruptible:
    """Within what the library calls, what a signal ends as it always does."""

    def __enter__(self) -> None:
        _raise_at_the_end()
        _here.outer.append(_here.is_held)
        if not _here.is_held:
            return
        try:
            _give_back()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_error: Any) -> None:
        _here.is_held = _here.outer.pop()
        if _here.is_held:
            _take_places()  # what was called may have set others


interruptible = _Interruptible()


def raise_held() -> None:
    """In place of that where nothing is called that takes time."""
    _raise_at_the_end()
    if _here.held:
        with interruptible:
            pass


#: Whether there are kernels in Python, so that any call may call them.
has_kernels = False


def raise_error(fields: dict[str, Any]) -> None:
    """Raises what an answer's "error" says."""
    if fields["code"] == "callback":
        raise _raised.pop(fields["answer"])
    cause, _here.cause = _here.cause, None
    raise error_of(fields) from cause
