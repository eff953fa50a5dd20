"""Typed access to JSON objects, the records of most session files of other runtimes.

Records are untrusted. A member is returned only if it has the expected type, and a value that is
stored as it is, is first made safe for every writer.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

from harken.core import canonical

Record: TypeAlias = dict[str, Any]

_MAX_DEPTH = 32
"""Values nested deeper are stored as text, because other writers have limits, too."""
_MAX_TITLE_CHARS = 80
_INTEGERS = range(-(2**63), 2**64)


def get_text(record: Record, name: str) -> str:
    """Return a member that is a string, or an empty string.

    >>> get_text({"id": 5, "name": "Jill"}, "name")
    'Jill'
    """
    value = record.get(name)
    return value if isinstance(value, str) else ""


def get_object(record: Record, name: str) -> Record:
    """Return a member that is an object, or an empty object."""
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def get_objects(record: Record, name: str) -> list[Record]:
    """Return the objects in a member that is a list, or an empty list."""
    return as_objects(record.get(name))


def as_objects(value: object) -> list[Record]:
    """Return the objects in a list, or an empty list for another value."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def get_count(record: Record, name: str) -> int | None:
    """Return a member that is a count. Return None if it is not."""
    value = record.get(name)
    is_valid = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 40
    return value if is_valid else None


def check_text(value: object) -> str:
    """Return a value that must be a string. Raises TypeError."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.60} is not a string")
    return value


def truncate_title(prompt: str) -> str:
    """Return the beginning of a prompt on one line."""
    return " ".join(prompt[: 8 * _MAX_TITLE_CHARS].split())[:_MAX_TITLE_CHARS]


def to_safe_json(value: Any, levels: int = _MAX_DEPTH) -> Any:
    """Return a JSON value that every writer can encode: limited in depth, with portable numbers."""
    if isinstance(value, dict | list) and levels == 0:
        return _encode_as_text(value)
    if isinstance(value, dict):
        return {name: to_safe_json(item, levels - 1) for name, item in value.items()}
    if isinstance(value, list):
        return [to_safe_json(item, levels - 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and value not in _INTEGERS:
        return str(value)
    return value


def extra_members(record: Record, restored: Record) -> Record:
    """Return the members of `record` that are missing or different in `restored`."""
    return {
        name: to_safe_json(value)
        for name, value in record.items()
        if name not in restored or (restored[name] is not value and restored[name] != value)
    }


def parse_json_text(text: str, default: Any = None) -> Any:
    """Return the JSON value of a text. Return `default` if it is not JSON."""
    try:
        return canonical.from_json(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        return default


def equal_json(left: object, right: object) -> bool:
    """Whether two JSON values are equal, type by type.

    >>> equal_json({"a": 1, "b": 2}, {"b": 2, "a": 1}), equal_json([1], [1.0]), equal_json(1, True)
    (True, False, False)
    """
    try:
        return _are_equal(left, right)
    except RecursionError:
        return _have_equal_bytes(left, right)


def _are_equal(left: object, right: object) -> bool:
    if left is right:
        return True
    if type(left) is not type(right) or isinstance(left, float):
        return _have_equal_bytes(left, right)
    if isinstance(left, dict) and isinstance(right, dict):
        return len(left) == len(right) and all(
            name in right and _are_equal(value, right[name]) for name, value in left.items()
        )
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_are_equal, left, right))
    return left == right


def _have_equal_bytes(left: object, right: object) -> bool:
    """Whether two values have equal canonical bytes: `-0.0` differs from `0.0`."""
    return left == right and canonical.to_canonical_bytes(left) == canonical.to_canonical_bytes(
        right
    )


def changed_members(built: Record, value: Record) -> Record | None:
    """Return the members that turn `built` into `value`, null for a member that `value` lacks.

    A member that is an object in both has only its own changed members. Return None if a null in
    `value` would be taken for an absent member.

    >>> changed_members({"a": 1, "b": {"c": 1}, "d": 1}, {"a": 1, "b": {"c": 1, "e": 2}})
    {'b': {'e': 2}, 'd': None}
    """
    changes = _find_changes(built, value)
    is_exact = not changes or equal_json(apply_members(built, changes), value)
    return changes if is_exact else None


def _find_changes(built: Record, value: Record) -> Record:
    changes: Record = {}
    for name, inner in value.items():
        old = built.get(name)
        if isinstance(old, dict) and isinstance(inner, dict):
            if nested := _find_changes(old, inner):
                changes[name] = nested
        elif name not in built or not equal_json(old, inner):
            changes[name] = inner
    return changes | {name: None for name in built if name not in value}


def apply_members(built: Record, changes: Record) -> Record:
    """Return a value with the changed members that `changed_members` returned.

    >>> apply_members({"a": 1, "b": {"c": 1}, "d": 1}, {"b": {"e": 2}, "d": None})
    {'a': 1, 'b': {'c': 1, 'e': 2}}
    """
    value = dict(built)
    for name, inner in changes.items():
        old = built.get(name)
        if inner is None:
            value.pop(name, None)
        elif isinstance(old, dict) and isinstance(inner, dict):
            value[name] = apply_members(old, inner)
        else:
            value[name] = inner
    return value


def _encode_as_text(value: object) -> str:
    try:
        return canonical.to_json_line(value).decode()
    except (ValueError, RecursionError):
        return "..."
