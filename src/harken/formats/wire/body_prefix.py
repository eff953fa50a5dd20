"""The beginning of a body. Its elements need not be read again.

A client sends its conversation with each request, with a few elements more. A body that begins with
the same bytes as an earlier one has the same elements there. So its other elements are read from a
short body, in which a placeholder, a random text, stands for the known elements. The short body is
valid exactly if the body is: a parser has the same state after the known elements as after the
placeholder. If the placeholder is not where it is expected, the complete body is read.

The last elements are never part of a prefix: clients move marks between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import TypeAlias, overload

import msgspec

from harken.formats.shared_list import SharedList
from harken.formats.wire.base import BodyPrefix, Mark, Piece

Text: TypeAlias = bytes | msgspec.Raw
_OPENING = b'["%b"' % token_hex(16).encode()
"""The beginning of an array in a short body."""
_SPACE, _LAST_BYTES = b" \t\r\n", b'}]"'
"""White space, and the last bytes of elements that are no numbers: a number may continue."""
_LAST_ELEMENTS = 4
"""The number of elements at the end that are read again with the next request."""
MIN_ELEMENTS = 16
"""A shorter prefix is not worth it."""


def begins_with(body: bytes, prefix: BodyPrefix) -> bool:
    """Whether a body begins with a prefix. Neither is copied."""
    return body.startswith(memoryview(prefix.body)[: prefix.end])


def shorten_body(body: bytes, prefix: BodyPrefix) -> bytes:
    """Return a body with a placeholder for the elements that it shares with a prefix."""
    return b"".join((body[: prefix.start], _OPENING, memoryview(body)[prefix.end :]))


def has_placeholder(array: Text | None) -> bool:
    """Whether a member of a short body is the array with the placeholder."""
    return array is not None and bytes(memoryview(array)[: len(_OPENING)]) == _OPENING


def find_array_end(array: Text, prefix: BodyPrefix) -> int:
    """Return the offset in the body at which an array of the short body ends."""
    return prefix.end + len(memoryview(array)) - len(_OPENING)


@dataclass(frozen=True, slots=True, eq=False)
class ArrayElements(Sequence[Text]):
    """The elements of an array of a body, and its place in the body."""

    name: str
    known: SharedList[bytes]
    """The first elements, if they are those of a prefix."""
    new: Sequence[Text]
    """The other elements."""
    start: int
    end: int

    def __len__(self) -> int:
        return len(self.known) + len(self.new)

    @overload
    def __getitem__(self, index: int) -> Text: ...
    @overload
    def __getitem__(self, index: slice) -> list[Text]: ...
    def __getitem__(self, index: int | slice) -> Text | list[Text]:
        count = len(self.known)
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        index = index if index >= 0 else len(self) + index
        if index < 0:
            raise IndexError(index)
        return self.known[index] if index < count else self.new[index - count]


def find_array(body: bytes, name: str, array: Text) -> int | None:
    """Return the offset of a member that is an array, or None if it is not written as usual."""
    key, text = b'"%b"' % name.encode(), bytes(array)
    start = body.find(key)
    while start >= 0:
        start += len(key)
        offset = _skip_space(body, start)
        if body[offset : offset + 1] == b":":
            offset = _skip_space(body, offset + 1)
            if body.startswith(text, offset):
                return offset
        start = body.find(key, start)
    return None


def build_prefix(
    body: bytes, array: ArrayElements, pieces: SharedList[Piece], marks: Sequence[Mark]
) -> BodyPrefix | None:
    """Return the prefix of a body without the last elements of an array, or None.

    pieces, marks: of this body, those of the array last.
    """
    count = len(array) - _LAST_ELEMENTS
    new_count = count - len(array.known)
    if count < MIN_ELEMENTS or new_count < 0:
        return None
    end = _find_tail(body, array.end - 1, [b"", *map(bytes, array.new[new_count:])])
    if end is None or end <= array.start or body[end - 1] not in _LAST_BYTES:
        return None
    piece_count = len(pieces) - _LAST_ELEMENTS
    new_pieces = pieces[piece_count - new_count : piece_count]
    pairs = zip(map(bytes, array.new[:new_count]), new_pieces, strict=True)
    new_texts = [piece.data if piece.data == text else text for text, piece in pairs]
    return BodyPrefix(
        body=body,
        end=end,
        name=array.name,
        start=array.start,
        texts=array.known.with_end(new_texts).with_shared(count),
        pieces=pieces.with_shared(piece_count).first(piece_count),
        marks=[mark for mark in marks if _is_before(mark, array.name, count)],
    )


def _find_tail(body: bytes, end: int, elements: Sequence[bytes]) -> int | None:
    """Return the offset at which the last elements of an array begin, or None.

    end: the offset behind the last one. The elements of an indented body are not recognized, so
    such a body is read in full each time.
    """
    for separator in (b",", b", "):
        tail = separator.join(elements)
        start = end - len(tail)
        if start > 0 and body.startswith(tail, start):
            return start
    return None


def _is_before(mark: Mark, name: str, count: int) -> bool:
    """Whether a mark is in one of the first elements of an array."""
    path, _ = mark
    return path[0] == name and isinstance(path[1], int) and path[1] < count


def _skip_space(body: bytes, offset: int) -> int:
    while body[offset : offset + 1] and body[offset] in _SPACE:
        offset += 1
    return offset
