"""The members of the arguments of a call with their verbatim texts.

A JSON decoder changes numbers and drops repeated members; what a call had must be shown as it was.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

_DECODER = json.JSONDecoder()
_SPACE = " \t\n\r"


class Member(NamedTuple):
    """A member of an object."""

    value: Any
    text: str
    """Its name and value, verbatim."""


def read_members(arguments: str) -> dict[str, Member] | None:
    """Return the members of a JSON object. Return None for another text, or a repeated member.

    >>> read_members('{"id": 12345678901234567890, "a": 1.0}')["id"].text
    '"id": 12345678901234567890'
    """
    try:
        return _read_object(arguments)
    except (ValueError, RecursionError, IndexError):
        return None


def _read_object(text: str) -> dict[str, Member]:
    """Read an object. Raises ValueError, RecursionError, or IndexError at the end of the text."""
    members: dict[str, Member] = {}
    position = _expect(text, 0, "{")
    while text[position] != "}":
        if members:
            position = _expect(text, position, ",")
        start = position
        if text[position] != '"':
            raise ValueError("a name is missing")
        name, position = _DECODER.raw_decode(text, position)
        position = _expect(text, _skip(text, position), ":")
        value, position = _DECODER.raw_decode(text, position)
        if name in members:
            raise ValueError("repeated member")
        members[name] = Member(value, text[start:position])
        position = _skip(text, position)
    if _skip(text, position + 1) != len(text):
        raise ValueError("text after the object")
    return members


def _expect(text: str, position: int, sign: str) -> int:
    """Return the position after a sign and white space. Raises ValueError, IndexError."""
    position = _skip(text, position)
    if text[position] != sign:
        raise ValueError(f"{sign} is missing")
    return _skip(text, position + 1)


def _skip(text: str, position: int) -> int:
    """Return the position after white space."""
    while position < len(text) and text[position] in _SPACE:
        position += 1
    return position
