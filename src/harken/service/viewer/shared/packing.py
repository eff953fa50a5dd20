"""Packing: JSON values in which equal texts and equal objects are stored once.

The answers for a session repeat their content: a message is in the context of each later model
call. Packed, its text and its object are stored once, and a list of objects that were packed one
after another is a range. So the packed answers of a session grow with the session, not with the
square of its model calls.

A packed value is a plain JSON value, or a list:

- `[n]`: the text number n
- `[table, row]`: an object. A table has the objects with the same members, by columns
- `[-1, value, ...]`: a list of packed values
- `[-2, table, first, count, ...]`: a list of objects, as ranges of rows

`web/src/lib/packing.ts` unpacks them.
"""

from __future__ import annotations

import marshal
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

Packed: TypeAlias = bool | int | float | str | list[Any] | None

MIN_TEXT_CHARS = 16
"""Shorter texts are not stored apart: their number would be as long."""
_LIST, _RANGES = -1, -2
_MARSHAL_VERSION = 2
"""The last version whose output depends on nothing but the value."""


class _Table(msgspec.Struct):
    """The packed objects with the same members."""

    number: int
    columns: list[list[Packed]]
    rows: dict[bytes, int] = msgspec.field(default_factory=dict)
    """Packed members -> number of the row."""


class Packer:
    """Packs JSON values."""

    def __init__(self) -> None:
        self._texts: dict[str, int] = {}
        self._tables: dict[tuple[str, ...], _Table] = {}

    def pack(self, value: Any) -> Packed:
        """Pack a JSON value, or rows that can be converted to one."""
        # The types of JSON are looked up first: patterns are slow, and most values are texts.
        kind = type(value)
        if kind is str:
            return self._pack_text(value)
        if kind is dict:
            return self._pack_object(value)
        if kind is list:
            return pack_list([self.pack(item) for item in value])
        match value:
            case None | bool() | int() | float():
                return value
            case str():
                return self._pack_text(value)
            case Mapping():
                return self._pack_object(value)
            case list() | tuple():
                return pack_list([self.pack(item) for item in value])
            case _:
                return self.pack(msgspec.to_builtins(value))

    def pack_members(self, packed: Mapping[str, Packed]) -> Packed:
        """Return an object of which the members are packed."""
        members, names = [*packed.values()], tuple(packed)
        table = self._tables.get(names)
        if table is None:
            table = _Table(len(self._tables), [[] for _ in names])
            self._tables[names] = table
        key = marshal.dumps(members, _MARSHAL_VERSION)
        row = table.rows.get(key)
        if row is None:
            row = table.rows[key] = len(table.rows)
            for column, member in zip(table.columns, members, strict=True):
                column.append(member)
        return [table.number, row]

    def as_json(self, root: Packed) -> dict[str, Any]:
        """Return all that was packed, and the value to begin with."""
        tables = [
            {"names": list(names), "columns": table.columns}
            for names, table in self._tables.items()
        ]
        return {"texts": list(self._texts), "tables": tables, "root": root}

    def _pack_object(self, value: Mapping[str, Any]) -> Packed:
        return self.pack_members({name: self.pack(member) for name, member in value.items()})

    def _pack_text(self, text: str) -> Packed:
        if len(text) < MIN_TEXT_CHARS:
            return str(text)
        return [self._texts.setdefault(str(text), len(self._texts))]


def pack_list(items: Sequence[Packed]) -> list[Any]:
    """Return a list of packed values, as ranges if they are objects."""
    return extend_list([_LIST], items)


def extend_list(packed: Sequence[Any], items: Sequence[Packed]) -> list[Any]:
    """Return a packed list of objects with further packed values, as `pack_list` of all of them.

    A list of other values can be extended only if it is empty.
    """
    ranges: list[int] = [*packed[1:]]
    table, end = (ranges[-3], ranges[-2] + ranges[-1]) if ranges else (-1, -1)
    for item in items:
        if not isinstance(item, list) or len(item) != 2 or item[0] < 0:
            assert len(packed) == 1
            return [_LIST, *items]
        if item[1] == end and item[0] == table:
            ranges[-1] += 1
        else:
            ranges += [item[0], item[1], 1]
            table = item[0]
        end = item[1] + 1
    return [_RANGES, *ranges] if ranges else [_LIST]
