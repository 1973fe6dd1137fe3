# SPDX-License-Identifier: Apache-2.0
"""What is told while a verb runs: a bar for people, and the callbacks."""
from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any


_KEYWORDS = {"row": "sink"}


class Warned(UserWarning):
    """What a run does all the same, and what is rarely meant. `code` is a contract (docs/files.md)."""

    def __init__(self, text: str, code: str) -> None:
        super().__init__(text)
        self.code = code


def _callers_level() -> int:
    """How far up the code is that has called this package."""
    package = __name__.rpartition(".")[0]
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        level, frame = level + 1, frame.f_back
    return level


def _is_seen() -> bool:
    """A service has no standard error, and what stands in its place may not know what a terminal is."""
    is_terminal = getattr(sys.stderr, "isatty", None)
    return sys.stderr is not None and ((is_terminal is not None and is_terminal()) or "ipykernel" in sys.modules)


class Reporter:
    """Tells the callbacks, and draws a bar where somebody looks: in terminals and notebooks, or where `progress` is True."""

    def __init__(self, progress: bool | None, callbacks: Mapping[str, Callable[..., Any] | None]) -> None:
        self._callbacks = {kind: function for kind, function in callbacks.items() if function is not None}
        for kind, function in self._callbacks.items():  # now, and not when a run is on its way
            if not callable(function):
                raise TypeError(f"{_KEYWORDS.get(kind, f'on_{kind}')} is a function, not a {type(function).__name__}")
        self._shows = _is_seen() if progress is None else progress and sys.stderr is not None
        self._bar: Any = None
        self._stage = ""

    def __call__(self, kind: str, value: Any) -> None:
        if kind == "progress" and self._shows:
            self._draw(value)
        if kind == "warning":
            warnings.warn(Warned(value["text"], value["code"]), stacklevel=_callers_level())
        if kind == "update" and self._bar is not None and value["loss"] is not None:
            self._bar.set_postfix(loss=f"{value['loss']:.4f}", refresh=False)
        function = self._callbacks.get(kind)
        if function is None:
            return
        if kind == "plan":
            function(value["json"])
        elif kind == "evaluation":
            function(value["step"], value["metrics"])
        elif kind == "checkpoint":
            function(value["step"], value["folder"])
        else:
            function(value)

    def _draw(self, value: Mapping[str, Any]) -> None:
        from tqdm.auto import tqdm

        if value["stage"] != self._stage:
            self.close()
            self._stage = value["stage"]
            self._bar = tqdm(desc=value["stage"], total=value["total"] or None, initial=value["done"], leave=False, file=sys.stderr)
        self._bar.n = value["done"]
        self._bar.refresh()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
