"""Structural differences of two JSON values, and their application: the forms of pieces.

The value that a protocol would build for some messages is nearly the one on the wire. So a form
holds only the changes, each with the path to it; if that is longer than the value, it holds the
value. Values are compared as JSON, type by type: `1`, `1.0` and `true` are different.

    form = {"as": manner, "change": [change, ...]} or {"whole": value}, or None for no changes

    ["set", path, value]              set the member or the element
    ["drop", path]                    remove the member
    ["cut", path, start, stop, what]  replace the elements or characters from start to stop
    ["list", path, kind]              replace the text by a list of one {"type": kind, "text": text}
    ["text", path]                    replace the list of one block by its text

Source: docs/formats/wire.md, "Forms".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from harken.core import canonical
from harken.errors import FormatError

Path: TypeAlias = tuple[str | int, ...]
Change: TypeAlias = list[Any]

_MAX_DEPTH = 24
"""Differences that are nested deeper are replaced by a change of the containing value."""
_SHORT_CHARS = 40
"""A text up to this length is replaced as a unit."""
_STRIDE = 4096
"""The number of elements compared at once, because texts may be long."""
_NAME = "form"


def same(one: object, other: object) -> bool:
    """Whether two JSON values are equal, type by type.

    >>> same({"a": 1, "b": 2}, {"b": 2, "a": 1}), same([1], [1.0]), same(1, True)
    (True, False, False)
    """
    return one == other and canonical.to_canonical_bytes(one) == canonical.to_canonical_bytes(other)


def form_of(plain: Any, value: Any, manner: str = "") -> Any:
    """Return the form that turns a built value into `value`. It includes the manner, if any."""
    changes: list[Change] = []
    _append_changes(plain, value, (), changes)
    if not changes:
        return {"as": manner} if manner else None
    form = {"as": manner, "change": changes} if manner else {"change": changes}
    whole = {"whole": value}
    is_short = len(canonical.to_json_line(form)) <= len(canonical.to_json_line(whole))
    return form if is_short and same(changed(plain, form), value) else whole


def manner_of(form: object) -> str:
    """Return the manner stored in a form, or an empty string for the usual one."""
    manner = form.get("as") if isinstance(form, dict) else None
    return manner if isinstance(manner, str) else ""


def changed(plain: Any, form: Any) -> Any:
    """Apply a form to a built value, without modifying it.

    Raises FormatError for an invalid form, or one of another value.
    """
    if form is None:
        return plain
    if not isinstance(form, dict):
        raise FormatError(_NAME, f"{form!r:.60} is no object")
    if "whole" in form:
        return form["whole"]
    try:
        for change in form.get("change", ()):
            plain = _apply(plain, change)
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise FormatError(_NAME, f"a change does not fit ({error!r:.100})") from None
    return plain


def with_set(value: Any, path: Sequence[str | int], what: Any) -> Any:
    """Return a copy of a value in which a member or an element is set.

    Raises LookupError or TypeError if the path does not exist.
    """
    if not path:
        return what

    def put(holder: Any) -> Any:
        copy = _copy_holder(holder, path[-1])
        copy[path[-1]] = what
        return copy

    return _change_at(value, path[:-1], put)


def _append_changes(plain: Any, value: Any, path: Path, changes: list[Change]) -> None:
    """Append the changes that turn `plain` into `value`. No two changes overlap."""
    if isinstance(plain, dict) and isinstance(value, dict) and len(path) < _MAX_DEPTH:
        changes += [["drop", [*path, name]] for name in plain if name not in value]
        for name, inner in value.items():
            if name in plain:
                _append_changes(plain[name], inner, (*path, name), changes)
            else:
                changes.append(["set", [*path, name], inner])
    elif same(plain, value):
        return
    elif isinstance(plain, list) and isinstance(value, list) and len(path) < _MAX_DEPTH:
        if len(plain) == len(value):
            for index, inner in enumerate(value):
                _append_changes(plain[index], inner, (*path, index), changes)
        else:
            changes.append(_replace_range(plain, value, path))
    elif isinstance(plain, str) and (kind := _lone_block_type(value, plain)):
        changes.append(["list", [*path], kind])
    elif isinstance(value, str) and _lone_block_type(plain, value):
        changes.append(["text", [*path]])
    elif isinstance(plain, str) and isinstance(value, str) and len(value) > _SHORT_CHARS:
        changes.append(_replace_range(plain, value, path))
    else:
        changes.append(["set", [*path], value])


def _replace_range(plain: Any, value: Any, path: Path) -> Change:
    """Return the change of the range between a common prefix and a common suffix."""
    start = _common_prefix_length(plain, value)
    end = _common_prefix_length(plain[start:][::-1], value[start:][::-1])
    return ["cut", [*path], start, len(plain) - end, value[start : len(value) - end]]


def _common_prefix_length(left: Any, right: Any) -> int:
    """Return the length of the common prefix of two lists or two texts."""
    limit, length = min(len(left), len(right)), 0
    are_equal = str.__eq__ if isinstance(left, str) else same
    while length + _STRIDE <= limit and are_equal(
        left[length : length + _STRIDE], right[length : length + _STRIDE]
    ):
        length += _STRIDE
    while length < limit and are_equal(left[length], right[length]):
        length += 1
    return length


def _lone_block_type(value: object, text: str) -> str:
    """Return the type of a lone block with this text, or an empty string for any other value."""
    match value:
        case [{"type": str(kind), "text": str(block_text), **rest}] if (
            not rest and block_text == text
        ):
            return kind
    return ""


def _apply(value: Any, change: Change) -> Any:
    match change:
        case ["set", [*path], new]:
            return with_set(value, path, new)
        case ["drop", [*path, last]]:
            return _change_at(value, path, lambda holder: _without(holder, last))
        case ["cut", [*path], int(start), int(stop), new]:
            return _change_at(value, path, lambda old: old[:start] + new + old[stop:])
        case ["list", [*path], str(kind)]:
            return _change_at(value, path, lambda text: [{"type": kind, "text": text}])
        case ["text", [*path]]:
            return _change_at(value, path, lambda blocks: blocks[0]["text"])
    raise ValueError(f"{change!r:.60} is no change")


def _change_at(value: Any, path: Sequence[str | int], change: Callable[[Any], Any]) -> Any:
    if not path:
        return change(value)
    copy = _copy_holder(value, path[0])
    copy[path[0]] = _change_at(value[path[0]], path[1:], change)
    return copy


def _without(holder: Any, name: Any) -> Any:
    copy = _copy_holder(holder, name)
    del copy[name]
    return copy


def _copy_holder(holder: Any, name: object) -> Any:
    if isinstance(holder, dict) and isinstance(name, str):
        return {**holder}
    if isinstance(holder, list) and isinstance(name, int) and name >= 0:
        return [*holder]
    raise TypeError(f"{name!r:.40} is no place in {holder!r:.40}")
