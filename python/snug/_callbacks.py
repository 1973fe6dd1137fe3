# SPDX-License-Identifier: Apache-2.0
"""What Python's functions raise while the library calls them: it goes through the library as a number, and is raised again
by the call that led there."""
from __future__ import annotations

import itertools
import threading
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


def raise_error(fields: dict[str, Any]) -> None:
    """Raises what an answer's "error" says."""
    if fields["code"] == "callback":
        raise _raised.pop(fields["answer"])
    cause = getattr(_here, "cause", None)
    _here.cause = None
    raise error_of(fields) from cause
