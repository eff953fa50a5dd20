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
from harken.formats.json_records import equal_json

Path: TypeAlias = tuple[str | int, ...]
Change: TypeAlias = list[Any]

_MAX_DEPTH = 24
"""Differences that are nested deeper are replaced by a change of the containing value."""
_SHORT_CHARS = 40
"""A text up to this length is replaced as a unit."""
_STRIDE = 4096
"""The number of elements compared at once, because texts may be long."""
_NAME = "form"


def build_form(built: Any, value: Any, manner: str = "") -> Any:
    """Return the form that turns a built value into `value`. It includes the manner, if any."""
    changes: list[Change] = []
    _append_changes(built, value, (), changes)
    if not changes:
        return {"as": manner} if manner else None
    form = {"as": manner, "change": changes} if manner else {"change": changes}
    full_form = {"whole": value}
    is_short = len(canonical.to_json_line(form)) <= len(canonical.to_json_line(full_form))
    return form if is_short and equal_json(apply_form(built, form), value) else full_form


def get_manner(form: object) -> str:
    """Return the manner stored in a form, or an empty string for the usual one."""
    manner = form.get("as") if isinstance(form, dict) else None
    return manner if isinstance(manner, str) else ""


def apply_form(built: Any, form: Any) -> Any:
    """Apply a form to a built value, without modifying it.

    Raises FormatError for an invalid form, or one of another value.
    """
    if form is None:
        return built
    if not isinstance(form, dict):
        raise FormatError(_NAME, f"{form!r:.60} is not an object")
    if "whole" in form:
        return form["whole"]
    try:
        for change in form.get("change", ()):
            built = _apply(built, change)
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise FormatError(_NAME, f"a change does not fit ({error!r:.100})") from None
    return built


def set_at_path(value: Any, path: Sequence[str | int], new: Any) -> Any:
    """Return a copy of a value in which a member or an element is set.

    Raises LookupError or TypeError if the path does not exist.
    """
    if not path:
        return new

    def put(holder: Any) -> Any:
        copy = _copy_holder(holder, path[-1])
        copy[path[-1]] = new
        return copy

    return _change_at(value, path[:-1], put)


def _append_changes(built: Any, value: Any, path: Path, changes: list[Change]) -> None:
    """Append the changes that turn `built` into `value`. No two changes overlap."""
    if isinstance(built, dict) and isinstance(value, dict) and len(path) < _MAX_DEPTH:
        # Sorted, since the order of members is no content, and leftovers are hashed.
        changes += [["drop", [*path, name]] for name in sorted(built) if name not in value]
        for name, inner in sorted(value.items()):
            if name in built:
                _append_changes(built[name], inner, (*path, name), changes)
            else:
                changes.append(["set", [*path, name], inner])
    elif equal_json(built, value):
        return
    elif isinstance(built, list) and isinstance(value, list) and len(path) < _MAX_DEPTH:
        if len(built) == len(value):
            for index, inner in enumerate(value):
                _append_changes(built[index], inner, (*path, index), changes)
        else:
            changes.append(_replace_range(built, value, path))
    elif isinstance(built, str) and (kind := _lone_block_type(value, built)):
        changes.append(["list", [*path], kind])
    elif isinstance(value, str) and _lone_block_type(built, value):
        changes.append(["text", [*path]])
    elif isinstance(built, str) and isinstance(value, str) and len(value) > _SHORT_CHARS:
        changes.append(_replace_range(built, value, path))
    else:
        changes.append(["set", [*path], value])


def _replace_range(built: Any, value: Any, path: Path) -> Change:
    """Return the change of the range between a common prefix and a common suffix."""
    start = _common_prefix_length(built, value)
    end = _common_prefix_length(built[start:][::-1], value[start:][::-1])
    return ["cut", [*path], start, len(built) - end, value[start : len(value) - end]]


def _common_prefix_length(left: Any, right: Any) -> int:
    """Return the length of the common prefix of two lists or two texts."""
    limit, length = min(len(left), len(right)), 0
    are_equal = str.__eq__ if isinstance(left, str) else equal_json
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
            return set_at_path(value, path, new)
        case ["drop", [*path, last]]:
            return _change_at(value, path, lambda holder: _without(holder, last))
        case ["cut", [*path], int(start), int(stop), new]:
            return _change_at(value, path, lambda old: old[:start] + new + old[stop:])
        case ["list", [*path], str(kind)]:
            return _change_at(value, path, lambda text: [{"type": kind, "text": text}])
        case ["text", [*path]]:
            return _change_at(value, path, lambda blocks: blocks[0]["text"])
    raise ValueError(f"{change!r:.60} is not a valid change")


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
    raise TypeError(f"{name!r:.40} is not a key or index of {holder!r:.40}")
