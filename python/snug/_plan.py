# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import html
import os
import pathlib
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from ._errors import Error


class Plan:
    """How a run fits its budget. Prints as the table of `snug plan`, shows in a notebook as its page. Every field of
    `snug plan --json` (docs/files.md) is an attribute."""

    def __init__(self, answer: Mapping[str, Any], save: Callable[[str], None], page: Callable[[], str]) -> None:
        self._fields = dict(answer["json"])
        self._text = answer["text"]
        self._save = save
        self._page = page

    def __getstate__(self) -> dict[str, Any]:
        """With its page and its file, which are made for it: another process may know neither the run nor this machine's speed."""
        with tempfile.TemporaryDirectory(prefix="snug-plan-") as folder:
            path = pathlib.Path(folder, "plan")
            try:
                self._save(str(path))
                file: bytes | Error = path.read_bytes()
            except Error as error:  # what cannot be written here cannot there
                file = error
        return {"fields": self._fields, "text": self._text, "file": file, "page": self._page()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        def save(path: str) -> None:
            if isinstance(state["file"], Error):
                raise state["file"]
            pathlib.Path(path).write_bytes(state["file"])

        self._fields, self._text, self._save, self._page = state["fields"], state["text"], save, lambda: state["page"]

    def __copy__(self) -> Plan:
        return self

    def __deepcopy__(self, _memo: Any) -> Plan:
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._fields:
            raise AttributeError(f"a plan has no '{name}'")
        return self._fields[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._fields]

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<snug.Plan {self._fields['model']}: {self._fields['planned_peak_bytes']} of {self._fields['budget_bytes']} bytes>"

    def _repr_html_(self) -> str:
        # A page of its own within the notebook's, whose styles it leaves alone.
        return f'<iframe srcdoc="{html.escape(self._page())}" style="width:100%;height:60em;border:0"></iframe>'

    def to_dict(self) -> dict[str, Any]:
        """All fields, as `snug plan --json` prints them."""
        return dict(self._fields)

    def to_html(self) -> str:
        """One page: memory over time, the arena's map, the price list."""
        return self._page()

    @property
    def price_list(self) -> list[dict[str, Any]]:
        """What other budgets would cost, a dict a row: pandas.DataFrame(plan.price_list)."""
        return [dict(row) for row in self._fields["prices"]]

    def plot(self, ax: Any = None) -> Any:
        """The price list as a picture, on these or new axes of matplotlib: seconds of an update by budget."""
        from . import _plot

        return _plot.prices(self._fields, ax)

    def save(self, file: str) -> None:
        """Writes the plan for `replay=` of plan and train."""
        self._save(os.fspath(file))
