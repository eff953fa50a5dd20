"""Splitting of lines with more than one JSON record, or with a record and damage.

A client that is killed while it writes, or two clients that write to one file, leave lines such as
`{...}{...}`, `{...}{"type":"us`, `{"type":"us{...}`, and a power cut leaves NUL bytes. A line is
split only after it could not be decoded as one JSON value, so files without such lines have no
cost.

Every byte of a line belongs to exactly one part: a record, damage, or the filling between them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import msgspec

from harken.formats.runtimes.base import BOM, SourceLine

_FILLING_PATTERN = re.compile(r"(?:[ \t\r\n\0]|\xef\xbb\xbf)*")
"""Filling between two records: white space, NUL bytes, byte order marks (as Latin-1)."""
_RECORD_PATTERN = re.compile(
    r'\{\s*"(?:type|timestamp|uuid|parentUuid|sessionId|record_type|id|isSidechain)"\s*:'
)
"""Matches the beginning of a record, as opposed to an object inside a record."""
_CANDIDATE_PATTERN = re.compile(rb"\{\s*\"|\{\s*\}|\0")
"""Matches in every line with a record or NUL bytes."""
_MAX_ATTEMPTS = 16
"""The number of beginnings that are tried after a torn record. Each may cost the length of the
line."""


class LinePart(msgspec.Struct, frozen=True):
    """A part of a line: a record, or damage."""

    line: SourceLine
    """The number of the line, the first byte of the part in the file, and the bytes of the part."""
    reason: str = ""
    """The reason why the part cannot be read. Empty for a record."""


def split_records(line: SourceLine, reason: str) -> list[LinePart]:
    """Split a line that is not one JSON value into records and damage, in order.

    reason: why the complete line cannot be read. A line without any record is one part.
    """
    if not _CANDIDATE_PATTERN.search(line.data):
        return [LinePart(line, reason)]
    parts = [*_iter_parts(line, reason)]
    if any(not part.reason for part in parts) or len(parts) == 1:
        return parts
    return [LinePart(line, reason)]


def _iter_parts(line: SourceLine, reason: str) -> Iterator[LinePart]:
    # In Latin-1 a character is a byte, and JSON has its structure in ASCII: positions are exact.
    text = line.data.decode("latin-1")
    decoder = json.JSONDecoder(parse_int=_keep_digits, parse_float=_keep_digits)
    position = 0
    while position < len(text):
        filling = _FILLING_PATTERN.match(text, position)
        end = position if filling is None else filling.end()
        if nuls := text.count("\0", position, end):
            yield _build_part(line, position, end, f"it is {nuls} NUL bytes")
        position = end
        if position == len(text):
            return
        record_end = _find_object_end(decoder, text, position)
        end = _find_next_record(decoder, text, position) if record_end is None else record_end
        yield _build_part(line, position, end, reason if record_end is None else "")
        position = end


def _build_part(line: SourceLine, start: int, end: int, reason: str = "") -> LinePart:
    return LinePart(SourceLine(line.number, line.start + start, line.data[start:end]), reason)


def _find_object_end(decoder: json.JSONDecoder, text: str, start: int) -> int | None:
    """Return the end of the object that begins here. Return None if there is none."""
    if text[start] != "{":
        return None
    try:
        return decoder.raw_decode(text, start)[1]
    except (ValueError, RecursionError):
        return None


def _find_next_record(decoder: json.JSONDecoder, text: str, start: int) -> int:
    """Return the beginning of the record after a torn one, or the end of the line.

    An object inside the torn record does not match: the record has to reach the end of the line, or
    another record.
    """
    for attempt, match in enumerate(_RECORD_PATTERN.finditer(text, start + 1)):
        if attempt == _MAX_ATTEMPTS:
            break
        end = _find_object_end(decoder, text, match.start())
        if end is None:
            continue
        filling = _FILLING_PATTERN.match(text, end)
        next_position = end if filling is None else filling.end()
        if next_position == len(text) or _RECORD_PATTERN.match(text, next_position):
            return match.start()
    return len(text)


def _keep_digits(digits: str) -> str:
    """Return a number as its digits: only its end matters, and parsing a long one is slow."""
    return digits


def strip_byte_order_mark(data: bytes) -> bytes:
    """Strip a byte order mark and NUL bytes from the beginning of a file."""
    return data.lstrip(b"\0").removeprefix(BOM)
