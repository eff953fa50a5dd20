"""Lines that hold more than one JSON record, or a record and something else.

A client that is killed while it writes, or two clients that write to one file, leave lines such as
`{...}{...}`, `{...}{"type":"us`, `{"type":"us{...}`, and a power cut leaves NUL bytes. A line is
split here only after it could not be decoded as one JSON value, so files without such lines pay
nothing.

Every byte of a line belongs to exactly one part: a record, damage, or the filling between them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from harken.formats.runtimes.base import BOM, SourceLine

_FILLING = re.compile(r"(?:[ \t\r\n\0]|\xef\xbb\xbf)*")
"""What may stand between two records: white space, NUL bytes, byte order marks (as Latin-1)."""
_RECORD = re.compile(
    r'\{\s*"(?:type|timestamp|uuid|parentUuid|sessionId|record_type|id|isSidechain)"\s*:'
)
"""How a record begins, as opposed to an object inside one."""
_MAY_HOLD = re.compile(rb"\{\s*\"|\{\s*\}|\0")
"""What stands in every line that holds a record, or NUL bytes."""
_MOST_ATTEMPTS = 16
"""How many beginnings are tried after a torn record; each may cost the length of the line."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a line: a record, or damage."""

    line: SourceLine
    """The number of the line, the first byte of the part in the file, and the bytes of the part."""
    reason: str = ""
    """Why the part cannot be read. Empty: it is a record."""


def split_records(line: SourceLine, reason: str) -> list[Part]:
    """Split a line that is not one JSON value into records and damage, in order.

    reason: why the line as a whole cannot be read. A line in which no record is found is one part.
    """
    if not _MAY_HOLD.search(line.data):
        return [Part(line, reason)]
    found = [*_split(line, reason)]
    if any(not part.reason for part in found) or len(found) == 1:
        return found
    return [Part(line, reason)]


def _split(line: SourceLine, reason: str) -> Iterator[Part]:
    # In Latin-1 a character is a byte, and JSON has its structure in ASCII: positions are exact.
    text = line.data.decode("latin-1")
    decoder = json.JSONDecoder(parse_int=_any, parse_float=_any)
    at = 0
    while at < len(text):
        filled = _FILLING.match(text, at)
        end = at if filled is None else filled.end()
        if nuls := text.count("\0", at, end):
            yield _part(line, at, end, f"it is {nuls} NUL bytes")
        at = end
        if at == len(text):
            return
        record_end = _end(decoder, text, at)
        end = _next_record(decoder, text, at) if record_end is None else record_end
        yield _part(line, at, end, reason if record_end is None else "")
        at = end


def _part(line: SourceLine, start: int, end: int, reason: str = "") -> Part:
    return Part(SourceLine(line.number, line.start + start, line.data[start:end]), reason)


def _end(decoder: json.JSONDecoder, text: str, at: int) -> int | None:
    """Return where the object that begins here ends. Return None if none does."""
    if text[at] != "{":
        return None
    try:
        return decoder.raw_decode(text, at)[1]
    except (ValueError, RecursionError):
        return None


def _next_record(decoder: json.JSONDecoder, text: str, at: int) -> int:
    """Return where the record after a torn one begins, or the end of the line.

    An object inside the torn record is not taken for one: the record has to reach the end of the
    line, or another record.
    """
    for attempt, found in enumerate(_RECORD.finditer(text, at + 1)):
        if attempt == _MOST_ATTEMPTS:
            break
        end = _end(decoder, text, found.start())
        if end is None:
            continue
        filled = _FILLING.match(text, end)
        after = end if filled is None else filled.end()
        if after == len(text) or _RECORD.match(text, after):
            return found.start()
    return len(text)


def _any(digits: str) -> str:
    """Return a number as its digits: only where it ends matters, and a long one takes long."""
    return digits


def without_mark(data: bytes) -> bytes:
    """Return the beginning of a file without a byte order mark and NUL bytes before its text."""
    return data.lstrip(b"\0").removeprefix(BOM)
