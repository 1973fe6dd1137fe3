# SPDX-License-Identifier: Apache-2.0
"""What Python's functions raise while the library calls them: it goes through the library as a number, and is raised again
by the call that led there."""
from __future__ import annotations

import itertools
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from ._errors import Error, error_of

#: What a callback answers for the error that the builder has reported last: SNUG_LAST_ERROR.
LAST_ERROR = -1

_numbers = itertools.count(1)
_raised: dict[int, BaseException] = {}
_here = threading.local()


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


def _hold(_signal: int, _frame: Any) -> None:
    _here.is_held = True


def _hand_to(handler: Callable[..., Any]) -> None:
    """Ctrl-C is the handler's again, also what was held."""
    signal.signal(signal.SIGINT, handler)
    if getattr(_here, "is_held", False):
        _here.is_held = False
        handler(signal.SIGINT, sys._getframe())


def heard(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function of the library gives that calls Python's. Of a Ctrl-C that came meanwhile Python hears where the first of
    those begins, before any `try` in it, and ctypes loses what is raised there: so it is held until one is `interruptible`, or to
    the end. Signals are the main thread's."""
    handler = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if not callable(handler) or handler is _hold:
        return function(*arguments)
    outer, _here.handler = getattr(_here, "handler", None), handler
    signal.signal(signal.SIGINT, _hold)
    try:
        return function(*arguments)
    finally:
        _here.handler = outer
        _hand_to(handler)


class _Interruptible:
    """Within what the library calls, what Ctrl-C ends as it always does."""

    def __enter__(self) -> None:
        handler = getattr(_here, "handler", None)
        if handler is not None:
            try:
                _hand_to(handler)
            except BaseException:
                self.__exit__()
                raise

    def __exit__(self, *_error: Any) -> None:
        if getattr(_here, "handler", None) is not None:
            signal.signal(signal.SIGINT, _hold)


interruptible = _Interruptible()


def raise_held() -> None:
    """In place of that where nothing is called that takes time."""
    if getattr(_here, "is_held", False):
        with interruptible:
            pass


#: Whether there are kernels in Python, so that any call may call them.
has_kernels = False


def raise_error(fields: dict[str, Any]) -> None:
    """Raises what an answer's "error" says."""
    if fields["code"] == "callback":
        raise _raised.pop(fields["answer"])
    cause = getattr(_here, "cause", None)
    _here.cause = None
    raise error_of(fields) from cause
