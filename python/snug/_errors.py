# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Error(Exception):
    """Every failure of the library. `str()` is what the program prints behind "error: "."""

    def __init__(self, code: str, where: str, message: str, hint: str = "", text: str = "") -> None:
        super().__init__(text or f"[{where}] {message}" + (f"\nhint: {hint}" if hint else ""))
        #: "bad_config", "bad_data", "out_of_budget", "io", "numeric", "cancelled", ...
        self.code = code
        #: The place: a key, a file with its line, an op.
        self.where = where
        self.message = message
        #: The cheapest fix where one is known, else "".
        self.hint = hint

    def __reduce__(self) -> Any:
        return type(self), (self.code, self.where, self.message, self.hint, str(self)), self.__dict__


class Way(NamedTuple):
    """A change with which it fits."""

    #: Ready to apply: `config | way.keys`, or `snug.train(file, **way.keys)`.
    keys: dict[str, str]
    #: A budget that works with them.
    least_bytes: int
    #: What an update takes within the budget asked for (of another budget: within that); None where nothing is run.
    step_seconds: float | None
    #: Whether other weights come out at the end.
    changes_result: bool
    #: One line for people.
    text: str


class DoesNotFit(Error):
    """A budget that does not work."""

    #: The smallest number of bytes that is known to work; None where nobody looked for it.
    smallest_bytes: int | None = None
    #: Nothing less can work; None where that is not known.
    bound_bytes: int | None = None
    #: The cheapest ways to fit, the smallest budget first. Empty where none is known.
    ways: tuple[Way, ...] = ()
    #: The report of the smallest peak found; None but for solve.remat.
    report: dict[str, Any] | None = None

    def __init__(self, code: str, where: str, message: str, hint: str = "", text: str = "") -> None:
        super().__init__(code, where, message, hint, text)
        #: The proof, or the best that was found, the bound and the gap.
        self.proof = message


def error_of(fields: Mapping[str, Any]) -> Error:
    given = [fields[name] for name in ("code", "where", "message", "hint", "text")]
    if fields["code"] != "out_of_budget":
        return Error(*given)
    error = DoesNotFit(*given)
    error.proof = fields.get("proof") or fields["message"]
    error.smallest_bytes = fields.get("smallest_bytes")
    error.bound_bytes = fields.get("bound_bytes")
    error.ways = tuple(Way(**way) for way in fields.get("ways", ()))
    error.report = fields.get("report")
    return error
