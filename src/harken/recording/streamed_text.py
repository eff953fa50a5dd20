"""Redact a response that was streamed as server-sent events, also a credential in several events.

The pieces of a text are the strings at the same place of the JSON in several events. They are
joined and searched; the first piece of a credential gets the placeholder, and the others lose it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

from harken.core.secrets.redaction import Credentials, find_credentials

_DATA = b"data:"
_PIECE_MEMBERS = frozenset(
    {"text", "content", "partial_json", "arguments", "thinking", "delta", "input", "refusal"}
    | {"reasoning", "reasoning_content", "transcript", "code"}
)
"""The members that contain pieces of a text."""
_PLACE_MEMBERS = ("index", "output_index", "content_index", "summary_index", "item_id")
"""The members that tell to which text a piece belongs."""
_Place: TypeAlias = tuple[object, ...]


class _Piece(msgspec.Struct):
    """A string in an event, and the object or list that contains it."""

    line: int
    holder: Any
    key: str | int
    start: int
    """Its position in the joined text."""

    @property
    def text(self) -> str:
        return str(self.holder[self.key])

    def overlaps(self, start: int, end: int) -> bool:
        return self.start < end and start < self.start + len(self.text)


class _Text(msgspec.Struct):
    """The pieces of a text, in order."""

    pieces: list[_Piece] = msgspec.field(default_factory=list)
    size: int = 0

    def add(self, line: int, holder: Any, key: str | int) -> None:
        self.pieces.append(_Piece(line, holder, key, self.size))
        self.size += len(holder[key])

    def redact(self, credentials: Credentials) -> Iterator[int]:
        """Remove credentials that are in several pieces. Yield the lines that were changed."""
        joined = "".join(piece.text for piece in self.pieces)
        for match in reversed(find_credentials(joined)):
            pieces = [piece for piece in self.pieces if piece.overlaps(match.start, match.end)]
            if len(pieces) < 2:  # A credential in one event is found in the bytes.
                continue
            credentials.count(match.kind, joined[match.start : match.end])
            replacement = f"[redacted {match.kind}]"
            for piece in pieces:
                begin, end = max(match.start - piece.start, 0), match.end - piece.start
                piece.holder[piece.key] = piece.text[:begin] + replacement + piece.text[end:]
                replacement = ""
                yield piece.line


def redact_body(data: bytes, credentials: Credentials) -> bytes:
    """Return a decompressed body of a request or a response without credentials."""
    return credentials.replace_in_bytes(redact_streamed(data, credentials))


def redact_streamed(data: bytes, credentials: Credentials) -> bytes:
    """Return server-sent events without the credentials that are in several of them.

    Other data is returned unchanged.
    """
    lines = data.split(b"\n")
    texts: dict[_Place, _Text] = {}
    events: dict[int, Any] = {}
    for number, line in enumerate(lines):
        if not line.startswith(_DATA):
            continue
        try:
            event = json.loads(line.removeprefix(_DATA))
        except (ValueError, RecursionError):
            continue
        events[number] = event
        for place, holder, key in _iter_strings(event, ()):
            texts.setdefault(place, _Text()).add(number, holder, key)
    changed = {number for text in texts.values() for number in text.redact(credentials)}
    for number in changed:
        end = b"\r" if lines[number].endswith(b"\r") else b""
        encoded = json.dumps(events[number], ensure_ascii=False, separators=(",", ":"))
        lines[number] = b"data: " + encoded.encode("utf-8", "surrogatepass") + end
    return b"\n".join(lines) if changed else data


def _iter_strings(value: Any, place: _Place) -> Iterator[tuple[_Place, Any, str | int]]:
    """Yield the place, the holder and the key of each piece of a text."""
    if isinstance(value, dict):
        place = (*place, *(value.get(name) for name in _PLACE_MEMBERS if _is_plain(value, name)))
        for key, member in value.items():
            if isinstance(member, str):
                if key in _PIECE_MEMBERS:
                    yield (*place, key), value, key
            else:
                yield from _iter_strings(member, (*place, key))
    elif isinstance(value, list):
        for number, member in enumerate(value):
            yield from _iter_strings(member, (*place, number))


def _is_plain(value: dict[str, Any], name: str) -> bool:
    return isinstance(value.get(name), str | int)
