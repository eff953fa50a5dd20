"""Conversion of any Python value to a JSON value.

Clients return objects of their own: models of pydantic, dataclasses, structs, mappings. The
conversion never raises: a value that is no data at all becomes its `repr`.
"""

from __future__ import annotations

import base64
import dataclasses
import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from enum import Enum
from typing import Any

import msgspec

_MAX_DEPTH = 64
_PLAIN = (str, int, float, bool, type(None))
_DUMP_METHODS = ("model_dump", "to_dict", "dict")
"""Methods of client objects that return their members: pydantic's, and those of older SDKs."""


def to_plain_value(
    value: object, on_opaque: Callable[[str], None], levels: int = _MAX_DEPTH
) -> Any:
    """Return a value as JSON types, its exact members where it has some. Never raises.

    on_opaque: called with the type of each value of which only the `repr` is kept.
    """
    if levels == 0:
        on_opaque("a value that is nested too deeply")
        return safe_repr(value)
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {
            str(name): to_plain_value(inner, on_opaque, levels - 1) for name, inner in _items(value)
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [to_plain_value(inner, on_opaque, levels - 1) for inner in value]
    members = get_members(value)
    if members is not None:
        return to_plain_value(members, on_opaque, levels - 1)
    on_opaque(type(value).__name__)
    return safe_repr(value)


def get_members(value: object) -> Mapping[str, Any] | None:
    """Return the members of a client object. Return None if it has none, or fails to name them."""
    if isinstance(value, msgspec.Struct):
        members = msgspec.to_builtins(value, enc_hook=safe_repr, str_keys=True)
        return members if isinstance(members, dict) else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, type):
        return None
    for name in _DUMP_METHODS:
        for options in ({"mode": "json", "by_alias": True, "exclude_none": True}, {}):
            try:
                members = getattr(value, name)(**options)
            except Exception:  # noqa: BLE001, S112 - a client object must not fail its program.
                continue
            if isinstance(members, Mapping):
                return members
    return None


def _items(value: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
    try:
        return [*value.items()]
    except Exception:  # noqa: BLE001 - as above.
        return []


def safe_repr(value: object) -> str:
    """Return the `repr` of a value, at most 1,000 characters. Never raises."""
    try:
        return repr(value)[:1000]
    except Exception:  # noqa: BLE001 - as above.
        return f"<{type(value).__name__}>"
