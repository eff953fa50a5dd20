"""Records: the JSON objects of which most files of other runtimes consist, one in a line.

One idea: whatever stands in a record is foreign. So a member is read as the type that it should
have, or it is not there; and what is kept as it is, is kept such that every writer can say it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from harken.core import codec
from harken.core.clock import rfc3339
from harken.errors import FormatError
from harken.formats import native
from harken.formats.native import LONGEST_LINE_BYTES, Line, Reading, Source

Record: TypeAlias = dict[str, Any]

_BOM = b"\xef\xbb\xbf"
_DEPTH = 32
"""What is nested deeper is kept as text: those who write it have limits, too."""
_INTEGERS = range(-(2**63), 2**64)
_REASON_CHARACTERS, _TITLE_CHARACTERS = 120, 80


def records(
    source: Source, reading: Reading, decode: Callable[[bytes], Any] = codec.decode
) -> Iterator[tuple[Line, Record]]:
    """Yield the lines that hold an object; say which do not. Blank ones are counted.

    decode: what reads a line, or so much of it as is wanted; raises ValueError.
    """
    for line in source.lines(reading):
        data = line.data.removeprefix(_BOM) if line.number == 1 else line.data
        if not data or data.isspace():
            reading.keep("blank")
            continue
        try:
            value = _decoded(data, decode)
        except ValueError as error:
            reading.refuse(line, f"it is no JSON ({error})"[:_REASON_CHARACTERS])
            continue
        if isinstance(value, dict):
            yield line, value
        else:
            reading.refuse(line, "it is no JSON object")


def line_of(record: Record) -> bytes:
    r"""Return an object as a line that any reader takes: a lone surrogate is a question mark.

    >>> line_of({"said": "\udc80 or é"}).decode()
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


def document(source: Source, reading: Reading, name: str) -> Record:
    """Return a file that is one object, over however many lines. Raises FormatError."""
    held = bytearray()
    for chunk in source.chunks():
        held += chunk
        if len(held) > LONGEST_LINE_BYTES:
            raise FormatError(name, f"it is one document of more than {LONGEST_LINE_BYTES} bytes")
    data = bytes(held)
    try:
        value = _decoded(data.removeprefix(_BOM), codec.decode)
    except ValueError as error:
        raise FormatError(name, f"it is no JSON ({error})"[:_REASON_CHARACTERS]) from None
    if not isinstance(value, dict):
        raise FormatError(name, "it is no JSON object")
    reading.lines = data.count(b"\n") + (not data.endswith(b"\n"))
    return value


def text(record: Record, name: str) -> str:
    """Return a member that is a text; empty: it is none.

    >>> text({"id": 5, "name": "Jill"}, "name")
    'Jill'
    """
    value = record.get(name)
    return value if isinstance(value, str) else ""


def inner(record: Record, name: str) -> Record:
    """Return a member that is an object; empty: it is none."""
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def items(record: Record, name: str) -> list[Record]:
    """Return the objects of a member that is a list; empty: it is none."""
    value = record.get(name)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def count(record: Record, name: str) -> int | None:
    """Return a member that is a count; None: it is none."""
    value = record.get(name)
    is_one = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 40
    return value if is_one else None


def time_of(value: object) -> str | None:
    """Return a time as Harken writes it: from RFC 3339, or from milliseconds since 1970.

    >>> time_of("2026-01-31T13:00:00+01:00"), time_of(1500), time_of("noon")
    ('2026-01-31T12:00:00.000000Z', '1970-01-01T00:00:01.500000Z', None)
    """
    if not isinstance(value, int | float) or isinstance(value, bool):
        return native.time_of(value)
    try:
        return rfc3339(round(value * 1000))
    except (ValueError, OverflowError):
        return None


def title_of(prompt: str) -> str:
    """Return the beginning of a prompt, on one line."""
    return " ".join(prompt[: 8 * _TITLE_CHARACTERS].split())[:_TITLE_CHARACTERS]


def plain(value: Any, levels: int = _DEPTH) -> Any:
    """Return a JSON value that every writer can say: not too deep, with numbers that all know."""
    if isinstance(value, dict | list) and levels == 0:
        return _written(value)
    if isinstance(value, dict):
        return {name: plain(item, levels - 1) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item, levels - 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and value not in _INTEGERS:
        return str(value)
    return value


def unsaid(whole: Record, said: Record) -> Record:
    """Return the members of `whole` that `said` does not have so: what it takes to restore it."""
    return {
        name: plain(value)
        for name, value in whole.items()
        if name not in said or (said[name] is not value and said[name] != value)
    }


def _written(value: object) -> str:
    try:
        return codec.encode(value).decode()
    except (ValueError, RecursionError):
        return "..."
