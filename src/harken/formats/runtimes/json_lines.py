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
from harken.formats.runtimes.base import BOM, MAX_LINE_BYTES, ReadReport, SessionFile, SourceLine
from harken.formats.runtimes.joined_records import LinePart, split_records

_MAX_REASON_CHARS = 120


def read_records(
    source: SessionFile, reading: ReadReport, decode: Callable[[bytes], Any] = canonical.from_json
) -> Iterator[tuple[SourceLine, Record]]:
    """Yield the records of a file, each an object; report invalid lines, and count blank ones.

    A record has the number of its line, plus the number of additional records of earlier lines: no
    two records share a number.

    decode: parses a line, or the required part of it; raises ValueError.
    """
    extra = reading.extra
    for line in source.lines(reading):
        reading.extra, reading.is_joined = extra, False
        if not line.data or line.data.isspace():
            reading.count_uninterpreted("blank")
            continue
        try:
            value = _decode_leniently(line.data, decode)
        except ValueError as error:
            parts = split_records(line, _format_reason(error))
            reading.lines += len(parts) - 1
            reading.is_joined = True
            yield from _iter_part_records(parts, extra, reading, decode)
            extra += len(parts) - 1
            continue
        if not isinstance(value, dict):
            reading.report_bad(line, "it is not a JSON object")
        else:
            yield (SourceLine(line.number + extra, line.start, line.data) if extra else line), value


def _iter_part_records(
    parts: Iterable[LinePart], extra: int, reading: ReadReport, decode: Callable[[bytes], Any]
) -> Iterator[tuple[SourceLine, Record]]:
    """Yield the records of a line that is not one JSON value, and report the other parts."""
    for count, part in enumerate(parts):
        line, reason = part.line, part.reason
        value = None
        if not reason:
            try:
                value = _decode_leniently(line.data, decode)
            except ValueError as error:
                reason = _format_reason(error)
        if reason:
            reading.report_bad(line, reason)
        elif isinstance(value, dict):
            yield SourceLine(line.number + extra + count, line.start, line.data), value


def _format_reason(error: ValueError) -> str:
    return f"invalid JSON ({error})"[:_MAX_REASON_CHARS]


def to_line(record: Record) -> bytes:
    r"""Encode an object as a line. A lone surrogate becomes a question mark.

    >>> to_line({"said": "\udc80 or é"}).decode()
    '{"said":"? or é"}\n'
    """
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace") + b"\n"


def _decode_leniently(data: bytes, decode: Callable[[bytes], Any]) -> Any:
    """Decode a line or a file. Bytes that are not UTF-8 are replaced by U+FFFD.

    Raises ValueError.
    """
    try:
        return decode(data)
    except ValueError:
        repaired = data.decode("utf-8", "replace").encode()
        if repaired == data:
            raise
        return decode(repaired)


def read_document(source: SessionFile, reading: ReadReport, name: str) -> Record:
    """Parse a file that is one object on any number of lines. Raises FormatError."""
    data = read_bytes(source, name)
    value = _decode_bytes(data, name)
    if not isinstance(value, dict):
        raise FormatError(name, "it is not a JSON object")
    reading.lines = data.count(b"\n") + (not data.endswith(b"\n"))
    return value


def read_json(source: SessionFile, name: str) -> Any:
    """Parse a file that is one JSON value of any type. Raises FormatError."""
    return _decode_bytes(read_bytes(source, name), name)


def read_bytes(source: SessionFile, name: str) -> bytes:
    """Return the bytes of a file that is one document. Raises FormatError if it is too large."""
    buffer = bytearray()
    for chunk in source.chunks():
        buffer += chunk
        if len(buffer) > MAX_LINE_BYTES:
            raise FormatError(name, f"it is one document of more than {MAX_LINE_BYTES} bytes")
    return bytes(buffer)


def _decode_bytes(data: bytes, name: str) -> Any:
    try:
        return _decode_leniently(data.removeprefix(BOM), canonical.from_json)
    except ValueError as error:
        raise FormatError(name, _format_reason(error)) from None


def normalize_time(value: object) -> str | None:
    """Normalize a time in RFC 3339 or in milliseconds since 1970. Return None for other values.

    >>> normalize_time("2026-01-31T13:00:00+01:00"), normalize_time(1500), normalize_time("noon")
    ('2026-01-31T12:00:00.000000Z', '1970-01-01T00:00:01.500000Z', None)
    """
    if not isinstance(value, int | float) or isinstance(value, bool):
        return native.parse_time(value)
    try:
        return format_rfc3339(round(value * 1000))
    except (ValueError, OverflowError):
        return None
