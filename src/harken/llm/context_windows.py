"""Windows: how long a prompt each model takes, from a table of dated data.

What is not in the table is not known: nothing is guessed from a name.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import Annotated

import msgspec

from harken.core.arguments import check_arguments
from harken.llm.prices import fits


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much a model reads at once."""

    model: str
    """Its full name, or the beginning of one and a `*`."""
    tokens: Annotated[int, msgspec.Meta(ge=1)]
    """Of prompt, answer aside, where a provider says that; else of both together."""


@check_arguments
class ContextWindows:
    """A table of windows: those that somebody gives, before those that come with the package."""

    def __init__(self, own: Mapping[str, int] | None = None) -> None:
        """Put these first: name or pattern -> tokens. The package's are read when one is asked."""
        self.own = dict(own or {})
        self._found: dict[str, int | None] = {}

    def tokens(self, model: str) -> int | None:
        """Return how many tokens a model reads at most; None: that is not known."""
        if model not in self._found:
            self._found[model] = _find(self.own, model) or _find(built_in(), model)
        return self._found[model]


def _find(windows: Mapping[str, int], model: str) -> int | None:
    ranked = [(rank, tokens) for name, tokens in windows.items() if (rank := fits(name, model))]
    return max(ranked)[1] if ranked else None


class _List(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Windows that were read at one place."""

    source: str
    read: date
    windows: list[_Row]


@cache
def built_in() -> dict[str, int]:
    """Return the windows that come with the package; the file is read once."""
    text = Path(__file__).with_name("context_windows.toml").read_text("utf-8")
    lists = msgspec.convert(tomllib.loads(text)["list"], list[_List])
    return {row.model: row.tokens for one in lists for row in one.windows}
