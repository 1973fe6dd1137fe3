# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping
from typing import Any


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
        return type(self), (self.code, self.where, self.message, self.hint, str(self))


class DoesNotFit(Error):
    """A budget that does not work. The message has the proof, or the bound and the gap."""

    @property
    def proof(self) -> str:
        return self.message


def error_of(fields: Mapping[str, Any]) -> Error:
    kind = DoesNotFit if fields["code"] == "out_of_budget" else Error
    return kind(fields["code"], fields["where"], fields["message"], fields["hint"], fields["text"])
