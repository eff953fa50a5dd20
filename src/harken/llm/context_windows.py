"""Context windows of models, from a table of dated data.

A model that is not in the table has no known window: no value is inferred from its name.
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
from harken.llm.prices import rank_match


class _WindowRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The context window of a model or of a name pattern."""

    model: str
    """The full name, or a prefix and a `*`."""
    tokens: Annotated[int, msgspec.Meta(ge=1)]
    """The maximum prompt, if the provider documents it separately; else prompt and answer together.
    """


@check_arguments
class ContextWindows:
    """A table of context windows: user-defined ones before those of the package."""

    def __init__(self, own: Mapping[str, int] | None = None) -> None:
        """Put `own` first: name or pattern -> tokens. The package's table is read on first use."""
        self.user_windows = dict(own or {})
        self._tokens_by_model: dict[str, int | None] = {}

    def tokens(self, model: str) -> int | None:
        """Return the context window of a model in tokens. Return None if it is unknown."""
        if model not in self._tokens_by_model:
            self._tokens_by_model[model] = _find_tokens(self.user_windows, model) or _find_tokens(
                load_built_in_windows(), model
            )
        return self._tokens_by_model[model]


def _find_tokens(windows: Mapping[str, int], model: str) -> int | None:
    matches = [
        (rank, tokens) for name, tokens in windows.items() if (rank := rank_match(name, model))
    ]
    return max(matches)[1] if matches else None


class _WindowList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rows from one source, read at one date."""

    source: str
    read: date
    windows: list[_WindowRow]


@cache
def load_built_in_windows() -> dict[str, int]:
    """Return the windows of the package. The file is read once."""
    text = Path(__file__).with_name("context_windows.toml").read_text("utf-8")
    lists = msgspec.convert(tomllib.loads(text)["list"], list[_WindowList])
    return {row.model: row.tokens for list_ in lists for row in list_.windows}
