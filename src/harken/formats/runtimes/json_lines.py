"""Read and write files of JSON objects: one per line, or one document."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from harken.core import canonical
from harken.core.clock import format_rfc3339
from harken.errors import FormatError
from harken.formats.json_records import Record
from harken.formats.runtimes import base as native
from harken.formats.runtimes.base import (
    BOM,
    LONGEST_LINE_BYTES,
    ReadReport,
    SessionFile,
    SourceLine,
)
from harken.formats.runtimes.joined_records import Part, split_records

_REASON_CHARACTERS = 120


def read_records(
    source: SessionFile, reading: ReadReport, decode: Callable[[bytes], Any] = canonical.from_json
) -> Iterator[tuple[SourceLine, Record]]:
    """Yield the records of a file, each an object; report what is none. Blank lines are counted.

    A record has the number of its line. Where a line before it held several records, the number is
    larger by so many as it held more than one: no two records share a number.

    decode: what reads a line, or so much of it as is wanted; raises ValueError.
    """
    more = 0
    for line in source.lines(reading):
        if not line.data or line.data.isspace():
            reading.keep("blank")
            continue
        try:
            value = _decoded(line.data, decode)
        except ValueError as error:
            parts = split_records(line, _no_json(error))
            reading.lines += len(parts) - 1
            yield from _records(parts, more, reading, decode)
            more += len(parts) - 1
            continue
        if not isinstance(value, dict):
            reading.refuse(line, "it is no JSON object")
        else:
            yield (SourceLine(line.number + more, line.start, line.data) if more else line), value


def _records(
    parts: Iterable[Part], more: int, reading: ReadReport, decode: Callable[[bytes], Any]
) -> Iterator[tuple[SourceLine, Record]]:
    """Yield the records of a line that is not one JSON value; report the rest of it."""
    for count, part in enumerate(parts):
        line, reason = part.line, part.reason
        value = None
        if not reason:
            try:
                value = _decoded(line.data, decode)
            except ValueError as error:
                reason = _no_json(error)
        if reason:
            reading.refuse(line, reason)
        elif isinstance(value, dict):
            yield SourceLine(line.number + more + count, line.start, line.data), value


def _no_json(error: ValueError) -> str:
    return f"it is no JSON ({error})"[:_REASON_CHARACTERS]


def to_line(record: Record) -> bytes:
    r"""Return an object as a line that any reader takes: a lone surrogate is a question mark.

    >>> to_line({"said": "\udc80 or é"}).decode()
    '{"said":"? or é"}\n'
    """
    written = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    return written.encode("utf-8", "replace") + b"\n"


def _decoded(data: bytes, decode: Callable[[bytes], Any]) -> Any:
    """Return what a line or a file says; in the place of bytes that are no UTF-8 stands U+FFFD.

    Raises ValueError.
    """
    try:
        return decode(data)
    except ValueError:
        mended = data.decode("utf-8", "replace").encode()
        if mended == data:
            raise
        return decode(mended)


def read_document(source: SessionFile, reading: ReadReport, name: str) -> Record:
    """Return a file that is one object, over however many lines. Raises FormatError."""
    held = bytearray()
    for chunk in source.chunks():
        held += chunk
        if len(held) > LONGEST_LINE_BYTES:
            raise FormatError(name, f"it is one document of more than {LONGEST_LINE_BYTES} bytes")
    data = bytes(held)
    try:
        value = _decoded(data.removeprefix(BOM), canonical.from_json)
    except ValueError as error:
        raise FormatError(name, _no_json(error)) from None
    if not isinstance(value, dict):
        raise FormatError(name, "it is no JSON object")
    reading.lines = data.count(b"\n") + (not data.endswith(b"\n"))
    return value


def time_of(value: object) -> str | None:
    """Return a time as Harken writes it: from RFC 3339, or from milliseconds since 1970.

    >>> time_of("2026-01-31T13:00:00+01:00"), time_of(1500), time_of("noon")
    ('2026-01-31T12:00:00.000000Z', '1970-01-01T00:00:01.500000Z', None)
    """
    if not isinstance(value, int | float) or isinstance(value, bool):
        return native.time_of(value)
    try:
        return format_rfc3339(round(value * 1000))
    except (ValueError, OverflowError):
        return None
