"""Forms: the difference of two JSON values as small JSON, and a value put back with it.

One idea: what a protocol would write plainly for some messages is nearly what stood on the wire. So
a form says only what to change, each change by the path to it; and where that is longer than the
value, the value. Values are equal as JSON, type by type: `1`, `1.0` and `true` are three things.

    form = {"as": manner, "change": [change, ...]} or {"whole": value}, or None: nothing to change

    ["set", path, value]              the member or the element is this
    ["drop", path]                    the member is not there
    ["cut", path, start, stop, what]  elements or characters from start to stop are these instead
    ["list", path, kind]              the text is a list of one block, {"type": kind, "text": text}
    ["text", path]                    the list of one block is its text

Source: docs/formats/wire.md, "Forms".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from harken.core import canonical
from harken.errors import FormatError

Path: TypeAlias = tuple[str | int, ...]
Change: TypeAlias = list[Any]

_DEPTH = 24
"""What differs further inside is set as a whole."""
_SHORT = 40
"""A text that is not longer is set as a whole, too."""
_STRIDE = 4096
"""How much is compared at once: texts may be long."""
_NAME = "form"


def same(one: object, other: object) -> bool:
    """Whether two JSON values are equal, type by type.

    >>> same({"a": 1, "b": 2}, {"b": 2, "a": 1}), same([1], [1.0]), same(1, True)
    (True, False, False)
    """
    return one == other and canonical.to_canonical_bytes(one) == canonical.to_canonical_bytes(other)


def form_of(plain: Any, value: Any, manner: str = "") -> Any:
    """Return the form with which a plain value becomes `value`; it says its manner, if any."""
    changes: list[Change] = []
    _differ(plain, value, (), changes)
    if not changes:
        return {"as": manner} if manner else None
    form = {"as": manner, "change": changes} if manner else {"change": changes}
    whole = {"whole": value}
    is_short = len(canonical.to_json_line(form)) <= len(canonical.to_json_line(whole))
    return form if is_short and same(changed(plain, form), value) else whole


def manner_of(form: object) -> str:
    """Return how the plain value of a form is to be written; empty: as usual."""
    manner = form.get("as") if isinstance(form, dict) else None
    return manner if isinstance(manner, str) else ""


def changed(plain: Any, form: Any) -> Any:
    """Return the value that a form makes of a plain one, which stays as it is.

    Raises FormatError for a form that is none, or of another value.
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
    """Return a value with this member or element; the value itself stays as it is.

    Raises LookupError or TypeError where there is no way to it.
    """
    if not path:
        return what

    def put(holder: Any) -> Any:
        copy = _copy(holder, path[-1])
        copy[path[-1]] = what
        return copy

    return _inside(value, path[:-1], put)


def _differ(plain: Any, value: Any, path: Path, changes: list[Change]) -> None:
    """Add what it takes to make `plain` of `value`; each change has its place to itself."""
    if isinstance(plain, dict) and isinstance(value, dict) and len(path) < _DEPTH:
        changes += [["drop", [*path, name]] for name in plain if name not in value]
        for name, inner in value.items():
            if name in plain:
                _differ(plain[name], inner, (*path, name), changes)
            else:
                changes.append(["set", [*path, name], inner])
    elif same(plain, value):
        return
    elif isinstance(plain, list) and isinstance(value, list) and len(path) < _DEPTH:
        if len(plain) == len(value):
            for at, inner in enumerate(value):
                _differ(plain[at], inner, (*path, at), changes)
        else:
            changes.append(_cut(plain, value, path))
    elif isinstance(plain, str) and (kind := _kind_of(value, plain)):
        changes.append(["list", [*path], kind])
    elif isinstance(value, str) and _kind_of(plain, value):
        changes.append(["text", [*path]])
    elif isinstance(plain, str) and isinstance(value, str) and len(value) > _SHORT:
        changes.append(_cut(plain, value, path))
    else:
        changes.append(["set", [*path], value])


def _cut(plain: Any, value: Any, path: Path) -> Change:
    """Return the change of what stands between a common beginning and a common end."""
    start = _common(plain, value)
    end = _common(plain[start:][::-1], value[start:][::-1])
    return ["cut", [*path], start, len(plain) - end, value[start : len(value) - end]]


def _common(one: Any, other: Any) -> int:
    """Return how long the common beginning of two lists or two texts is."""
    most, at = min(len(one), len(other)), 0
    alike = str.__eq__ if isinstance(one, str) else same
    while at + _STRIDE <= most and alike(one[at : at + _STRIDE], other[at : at + _STRIDE]):
        at += _STRIDE
    while at < most and alike(one[at], other[at]):
        at += 1
    return at


def _kind_of(value: object, text: str) -> str:
    """Return of which kind the one block with this text is that a list holds; empty: none."""
    match value:
        case [{"type": str(kind), "text": str(said), **rest}] if not rest and said == text:
            return kind
    return ""


def _apply(value: Any, change: Change) -> Any:
    match change:
        case ["set", [*path], what]:
            return with_set(value, path, what)
        case ["drop", [*path, last]]:
            return _inside(value, path, lambda holder: _without(holder, last))
        case ["cut", [*path], int(start), int(stop), what]:
            return _inside(value, path, lambda old: old[:start] + what + old[stop:])
        case ["list", [*path], str(kind)]:
            return _inside(value, path, lambda text: [{"type": kind, "text": text}])
        case ["text", [*path]]:
            return _inside(value, path, lambda blocks: blocks[0]["text"])
    raise ValueError(f"{change!r:.60} is no change")


def _inside(value: Any, path: Sequence[str | int], change: Callable[[Any], Any]) -> Any:
    if not path:
        return change(value)
    copy = _copy(value, path[0])
    copy[path[0]] = _inside(value[path[0]], path[1:], change)
    return copy


def _without(holder: Any, name: Any) -> Any:
    copy = _copy(holder, name)
    del copy[name]
    return copy


def _copy(holder: Any, name: object) -> Any:
    if isinstance(holder, dict) and isinstance(name, str):
        return {**holder}
    if isinstance(holder, list) and isinstance(name, int) and name >= 0:
        return [*holder]
    raise TypeError(f"{name!r:.40} is no place in {holder!r:.40}")
