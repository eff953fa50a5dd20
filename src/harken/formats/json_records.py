"""Records: the JSON objects of which most files of other runtimes consist, one in a line.

One idea: whatever stands in a record is foreign. So a member is read as the type that it should
have, or it is not there; and what is kept as it is, is kept such that every writer can say it.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

from harken.core import canonical

Record: TypeAlias = dict[str, Any]

_DEPTH = 32
"""What is nested deeper is kept as text: those who write it have limits, too."""
_TITLE_CHARACTERS = 80
_INTEGERS = range(-(2**63), 2**64)


def get_text(record: Record, name: str) -> str:
    """Return a member that is a text; empty: it is none.

    >>> get_text({"id": 5, "name": "Jill"}, "name")
    'Jill'
    """
    value = record.get(name)
    return value if isinstance(value, str) else ""


def get_object(record: Record, name: str) -> Record:
    """Return a member that is an object; empty: it is none."""
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def get_objects(record: Record, name: str) -> list[Record]:
    """Return the objects of a member that is a list; empty: it is none."""
    value = record.get(name)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def get_count(record: Record, name: str) -> int | None:
    """Return a member that is a count; None: it is none."""
    value = record.get(name)
    is_one = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 40
    return value if is_one else None


def title_of(prompt: str) -> str:
    """Return the beginning of a prompt, on one line."""
    return " ".join(prompt[: 8 * _TITLE_CHARACTERS].split())[:_TITLE_CHARACTERS]


def to_safe_json(value: Any, levels: int = _DEPTH) -> Any:
    """Return a JSON value that every writer can say: not too deep, with numbers that all know."""
    if isinstance(value, dict | list) and levels == 0:
        return _written(value)
    if isinstance(value, dict):
        return {name: to_safe_json(item, levels - 1) for name, item in value.items()}
    if isinstance(value, list):
        return [to_safe_json(item, levels - 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and value not in _INTEGERS:
        return str(value)
    return value


def members_not_in(whole: Record, said: Record) -> Record:
    """Return the members of `whole` that `said` does not have so: what it takes to restore it."""
    return {
        name: to_safe_json(value)
        for name, value in whole.items()
        if name not in said or (said[name] is not value and said[name] != value)
    }


def _written(value: object) -> str:
    try:
        return canonical.to_json_line(value).decode()
    except (ValueError, RecursionError):
        return "..."
