"""Verification of a log line by line, beyond the first damaged line.

The reader stops at the first damage; this module continues. A line of a sealed log is *whole* if a
sum proves it: it follows the previous line, or another existing line. A sum covers the digits of
the previous line and not its content. So a wrong letter breaks one line only; wrong digits are
corrected by the next line; the line after a gap is unproven. A line that no sum proves is not
whole, even if it looks valid.

Nothing is written. The log is held in memory while it is examined.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from harken.core.events import Event, decode_event
from harken.core.ids import message_id, parse_id_number
from harken.errors import InvalidLog, LogCorrupted
from harken.session.log.checksum import (
    BODY,
    CLOSE,
    DIGITS,
    DIGITS_AT,
    HEAD,
    MORE,
    OPEN,
    checksum_line,
    has_sum,
    seems_sealed,
)
from harken.session.log.dialects import Dialect, dialect_of
from harken.session.log.reader import iter_events as events
from harken.session.log.reader import open_log

Kind: TypeAlias = Literal["torn", "damaged", "missing", "doubled", "moved", "unverified"]
"""An unfinished line; a changed line; a gap before a line; a repeated line or id; a line in the
wrong position; a log without sums."""


class LogFinding(msgspec.Struct, frozen=True):
    """A defect of a log and its position. `line` counts from 1, `byte` from 0."""

    line: int
    byte: int
    kind: Kind
    message: str


class LogLine(msgspec.Struct):
    """A line of a log (or a part of one, if a newline was lost), with its events and its defect."""

    number: int
    byte: int
    raw: bytes
    """The bytes in the file, with the newline if there is one."""
    events: list[Event] = msgspec.field(default_factory=list)
    """The decoded events, if the line can be decoded, even if it is not whole."""
    is_whole: bool = False
    finding: LogFinding | None = None

    @property
    def id_number(self) -> int:
        """The number of its message id, or -1 if it has none."""
        number = parse_id_number(self.events[-1].message_id, "msg_") if self.events else None
        return -1 if number is None else number

    def add_finding(self, kind: Kind, message: str) -> None:
        """Record a defect of the line. Only the first is kept."""
        self.finding = self.finding or LogFinding(self.number, self.byte, kind, message)


class SealedLine(LogLine):
    """A line with a sum, or a damaged one."""

    content: bytes = b""
    """The JSON object without its sum and closing brace, with `more`."""
    digits: bytes = b""
    is_framed: bool = True
    """Whether the bytes around the sum are correct."""

    @property
    def body(self) -> bytes:
        """The JSON object of the event."""
        return self.content.removesuffix(MORE) + b"}"

    @property
    def has_more(self) -> bool:
        """Whether the next line belongs to the same group."""
        return self.content.endswith(MORE)

    def sum_after(self, before: bytes) -> bytes:
        """Return the sum that the line has if it is whole and follows one with `before`."""
        return checksum_line(before, self.content + OPEN)


class LogExamination(msgspec.Struct, frozen=True):
    """The result of an examination of a log, line by line."""

    sealed: bool
    dialect: str | None
    """The older dialect of the log; None for the current one."""
    lines: Sequence[LogLine]
    in_order: bool = True
    """Whether the whole lines are in the order in which they were written."""

    @property
    def findings(self) -> list[LogFinding]:
        """The findings of all lines, in line order."""
        return [line.finding for line in self.lines if line.finding is not None]


def verify(path: str | Path) -> list[LogFinding]:
    """Return all findings on a log, in line order. Nothing is changed.

    Raises LogNotFound, InvalidLog, LogVersionUnsupported.
    """
    examined = examine(Path(path))
    if examined.sealed:
        return examined.findings
    message = (
        f"{examined.dialect or 'a log'} without checksums: readable, but changes are not detected"
    )
    return [LogFinding(1, 0, "unverified", message), *examined.findings]


def examine(path: Path) -> LogExamination:
    """Examine every line of a log. Raises LogNotFound, InvalidLog, LogVersionUnsupported.

    A log that is being written is read up to its current end.
    """
    with open_log(path) as file:
        raws = list(file)
    sealed = any(map(seems_sealed, raws))
    try:
        next(events(path), None)  # The first event shows whether it is a log of a known version.
    except LogCorrupted:
        pass
    except InvalidLog:
        if not sealed:
            raise
    return _examine_sealed(raws) if sealed else _examine_plain(raws)


def _examine_plain(raws: Sequence[bytes]) -> LogExamination:
    """Examine a log without sums. Blank lines are whole and have no event."""
    lines: list[LogLine] = []
    dialect: Dialect | None = None
    ids, byte = _Ids(), 0
    for number, raw in enumerate(raws, 1):
        lines.append(line := LogLine(number, byte, raw))
        byte += len(raw)
        text = raw.strip()
        try:
            if text:
                dialect = dialect or dialect_of(text)
                line.events = list(dialect.read(text))
        except ValueError as error:
            if raw[-1:] == b"\n":
                line.add_finding("damaged", str(error))
            else:
                line.add_finding("torn", _TORN)
        else:
            line.is_whole = True
            ids.check(line)
    return LogExamination(sealed=False, dialect=dialect.name if dialect else None, lines=lines)


def _examine_sealed(raws: Sequence[bytes]) -> LogExamination:
    lines: list[SealedLine] = []
    byte = 0
    for number, raw in enumerate(raws, 1):
        lines.append(_split_sealed_line(number, byte, raw))
        byte += len(raw)
    chain = _Chain(lines)
    for line in lines:
        chain.check_line(line)
    _reject_unfinished_group(chain.lines)
    _add_findings(chain.lines)
    return LogExamination(sealed=True, dialect=None, lines=chain.lines, in_order=chain.in_order)


def _split_sealed_line(number: int, byte: int, raw: bytes) -> SealedLine:
    """Split a line into content and sum. A missing newline after a sum is added."""
    text = raw if raw[-1:] == b"\n" or not has_sum(raw) else raw + b"\n"
    line = SealedLine(number, byte, raw, content=text[BODY], digits=text[DIGITS_AT])
    line.is_framed = text.endswith(CLOSE) and text[BODY.stop : HEAD.stop] == OPEN
    return _decode_line(line)


def _decode_line(line: SealedLine) -> SealedLine:
    with contextlib.suppress(ValueError):
        line.events = [decode_event(line.body)]
    return line


class _Ids:
    """The message ids of the whole lines so far, which must be unique and increasing."""

    def __init__(self) -> None:
        self._top = -1
        self._lines_by_id: dict[str, LogLine] = {}

    def check(self, line: LogLine) -> None:
        """Note the ids of a whole line. An exact copy of an earlier line is not whole."""
        for event in line.events:
            earlier = self._lines_by_id.setdefault(event.message_id, line)
            if earlier is not line:
                line.is_whole = line.raw != earlier.raw
                relation = f"has {event.message_id}, the id of" if line.is_whole else "is"
                line.add_finding("doubled", f"it {relation} line {earlier.number} once more")
            elif 0 <= line.id_number < self._top:
                line.add_finding("moved", f"{event.message_id} follows {message_id(self._top)}")
        self._top = max(self._top, line.id_number)


class _Chain:
    """Proves the lines of a sealed log, one after the other."""

    def __init__(self, all_lines: Sequence[SealedLine]) -> None:
        self.lines: list[SealedLine] = []
        """The lines that were judged so far; a line that lost its newline is split into two."""
        self.in_order = True
        """Whether every whole line follows the line that it was written after."""
        self._lines = all_lines
        self._ids = _Ids()
        self._sums: list[tuple[bytes, SealedLine | None]] = [(b"", None)]
        """The sums that the next line may follow: the digits of the last whole line and of the
        lines after it; and their correct sums, each with the line that has wrong digits then."""

    def check_line(self, line: SealedLine) -> None:
        """Judge the next line."""
        if self._follows(line):
            self._confirm_earlier(line)
            self._add_whole(line)
        elif line.sum_after(self._sum_by_id(line)) == line.digits:
            self._add_whole(line)
            self.in_order = self.in_order and not line.is_whole
        elif (front := self._find_front(line)) is not None:
            end = len(front.raw)
            self._add_whole(front)
            self.check_line(_split_sealed_line(line.number, line.byte + end, line.raw[end:]))
        else:
            self._add_unproven(line)

    def _follows(self, line: SealedLine) -> bool:
        return any(line.sum_after(before) == line.digits for before, _ in self._sums)

    def _confirm_earlier(self, line: SealedLine) -> None:
        """Mark an earlier line with wrong digits as whole if this line proves it."""
        for before, earlier in self._sums:
            if earlier is not None and earlier.events and line.sum_after(before) == line.digits:
                earlier.is_whole = True
                earlier.add_finding("damaged", "the checksum changed; the content is intact")
                self._ids.check(earlier)
                return

    def _add_whole(self, line: SealedLine) -> None:
        self.lines.append(line)
        self._sums = [(line.digits, None)]
        line.is_whole = bool(line.events)
        if not line.events:
            line.add_finding("damaged", "the checksum matches, but the line is not an event")
        if not line.is_framed:
            line.add_finding("damaged", "the end of the line changed; the content is intact")
        self._ids.check(line)

    def _add_unproven(self, line: SealedLine) -> None:
        self.lines.append(line)
        right = [
            (line.sum_after(before), line) for before, earlier in self._sums if earlier is None
        ]
        others = [*self._sums[1:], (line.digits, None), *right]
        self._sums = [self._sums[0], *others[-_MAX_SUMS:]]

    def _sum_by_id(self, line: SealedLine) -> bytes:
        """Return the digits of the line with the previous id, or b"" if there is none."""
        return self._digits_by_id.get(line.id_number - 1, b"") if line.id_number > 0 else b""

    @cached_property
    def _digits_by_id(self) -> dict[int, bytes]:
        return {line.id_number: line.digits for line in reversed(self._lines) if line.events}

    def _find_front(self, line: SealedLine) -> SealedLine | None:
        """Return the front of a line that lost its newline if a sum proves it, else None."""
        index = line.raw.find(OPEN)
        while index >= 0:
            close = index + len(OPEN) + DIGITS
            end = close + (2 if line.raw[close + 2 : close + 3] == b"{" else 3)
            front = SealedLine(line.number, line.byte, line.raw[:end], content=line.raw[:index])
            front.digits, front.is_framed = line.raw[close - DIGITS : close], False
            if end < len(line.raw) and self._follows(front):
                return _decode_line(front)
            index = line.raw.find(OPEN, index + 1)
        return None


def _reject_unfinished_group(lines: Sequence[SealedLine]) -> None:
    """Mark the lines of a last group without its end as torn: no reader uses them."""
    is_end_torn = bool(lines) and not lines[-1].is_whole
    for line in reversed(lines[:-1] if is_end_torn else lines):
        if not (line.is_whole and line.has_more):
            return
        line.is_whole = False
        line.add_finding("torn", "its group was never finished")


def _add_findings(lines: Sequence[SealedLine]) -> None:
    """Add a finding with the probable cause to every line that no sum proves."""
    top = -1  # of the whole lines so far
    before: SealedLine | None = None  # an unproven line just before
    for index, line in enumerate(lines):
        if line.is_whole or line.finding is not None:
            top, before = max(top, line.id_number if line.is_whole else -1), None
            continue
        after = lines[index + 1].id_number if index + 1 < len(lines) else line.id_number + 1
        if index + 1 == len(lines) and (line.raw[-1:] != b"\n" or not line.raw.strip(b"\x00\n")):
            line.add_finding("torn", _TORN)
        elif line.is_framed and line.id_number > top + 1 and after == line.id_number + 1:
            line.add_finding(
                "missing", "the previous line is missing, so the checksum cannot be verified"
            )
        elif before is None or before.is_framed or line.raw.startswith(b"{"):
            line.add_finding("damaged", "checksum mismatch" if line.is_framed else "no checksum")
        before = line  # No finding: the rest of the previous line, split by an inserted newline.


_MAX_SUMS = 16
"""Number of recent sums of unproven lines that the next line may follow; it limits the work."""
_TORN = "incomplete line"
