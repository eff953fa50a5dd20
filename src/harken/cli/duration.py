"""Durations as people write them: `90s`, `45m`, `12h`, `7d`, `2w`."""

from __future__ import annotations

import re
from typing import Any

import click

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_WRITTEN = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)([smhdw])")


class Duration(click.ParamType[float]):
    """A number and a unit; the value is in seconds."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the seconds."""
        if isinstance(value, int | float):
            return float(value)
        found = _WRITTEN.fullmatch(str(value).strip())
        if found is None:
            self.fail(f"{value!r} is no duration such as 90s, 45m, 12h, 7d or 2w", param, ctx)
        return float(found[1]) * _SECONDS[found[2]]
