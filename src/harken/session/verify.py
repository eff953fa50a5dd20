"""Looking at a log line by line: what is whole, what is not, and how one knows.

The reader stops at the first damage; this goes on. A line of a sealed log is *whole* where a sum
proves it: it follows the line before it, or another one that is there. A sum covers the digits of
the line before and not its content. So a wrong letter breaks one line only; wrong digits are set
right by the next line; the line after a gap is left unproven. Nothing is guessed: what no sum
proves is not whole, however well it looks.

Nothing is written. The log is held in memory while it is examined.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias

from harken.core.events import Event, decode_event
from harken.core.ids import message_id, parse_id_number
from harken.errors import InvalidLog, LogCorrupted
from harken.session.log.checksum import (
    BODY,
    CLOSE,
    DIGITS,
    DIGITS_AT,
    HEAD,
    OPEN,
    has_sum,
    seems_sealed,
    sum_of,
)
from harken.session.log.dialects import Dialect, dialect_of
from harken.session.log.reader import events, open_log

Kind: TypeAlias = Literal["torn", "damaged", "missing", "doubled", "moved", "unverified"]
"""A line that was never finished; one that is not as it was written; a gap before a line; a line
or id that was there before; a line in the wrong place; a log without sums, as a whole."""


@dataclass(frozen=True, slots=True)
class LogFinding:
    """Something that is wrong with a log, and where. `line` counts from 1, `byte` from 0."""

    line: int
    byte: int
    kind: Kind
    message: str


@dataclass(slots=True)
class LogLine:
    """A line of a log (a part of one, where a newline was lost), and what is known of it."""

    number: int
    byte: int
    raw: bytes
    """As it stands in the file, with its newline where it has one."""
    events: list[Event] = field(default_factory=list)
    """What it says, where that can be read, whole or not."""
    whole: bool = False
    finding: LogFinding | None = None

    @property
    def id_number(self) -> int:
        """The number of its message id, -1 where it has none."""
        number = parse_id_number(self.events[-1].message_id, "msg_") if self.events else None
        return -1 if number is None else number

    def found(self, kind: Kind, message: str) -> None:
        """Say what is wrong with it; the first finding stands."""
        self.finding = self.finding or LogFinding(self.number, self.byte, kind, message)


@dataclass(slots=True)
class SealedLine(LogLine):
    """A line with a sum, or what is left of one."""

    content: bytes = b""
    """The JSON object without its sum and closing brace."""
    digits: bytes = b""
    is_framed: bool = True
    """Whether the sum stands in the line as it should."""

    @property
    def body(self) -> bytes:
        """The JSON object of the event, as it was written."""
        return self.content + b"}"

    def sum_after(self, before: bytes) -> bytes:
        """Return the sum that the line has if it is whole and follows one with `before`."""
        return sum_of(before, self.content + OPEN)


@dataclass(frozen=True, slots=True)
class LogExamination:
    """A log that was looked at line by line."""

    sealed: bool
    dialect: str | None
    """The older dialect that it is written in; None for the current one."""
    lines: Sequence[LogLine]
    in_order: bool = True
    """Whether the whole lines stand in the order in which they were written."""

    @property
    def findings(self) -> list[LogFinding]:
        """All that is wrong with lines, by place."""
        return [line.finding for line in self.lines if line.finding is not None]


def verify(path: str | Path) -> list[LogFinding]:
    """Return all that is wrong with a log, by place; nothing is changed.

    Raises LogNotFound, InvalidLog, LogVersionUnsupported.
    """
    examined = examine(Path(path))
    if examined.sealed:
        return examined.findings
    message = f"{examined.dialect or 'a log'} without sums: readable, but changes cannot be seen"
    return [LogFinding(1, 0, "unverified", message), *examined.findings]


def examine(path: Path) -> LogExamination:
    """Look at every line of a log. Raises LogNotFound, InvalidLog, LogVersionUnsupported.

    Of a log that is being written, that is what is there by now.
    """
    with open_log(path) as file:
        raws = list(file)
    sealed = any(map(seems_sealed, raws))
    try:
        next(events(path), None)  # the first says whether it is a log at all, and not too new
    except LogCorrupted:
        pass
    except InvalidLog:
        if not sealed:
            raise
    return _examine_sealed(raws) if sealed else _examine_plain(raws)


def _examine_plain(raws: Sequence[bytes]) -> LogExamination:
    """Read the lines that can be read; blank ones are whole, and no event."""
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
                line.found("damaged", str(error))
            else:
                line.found("torn", _TORN)
        else:
            line.whole = True
            ids.check(line)
    return LogExamination(sealed=False, dialect=dialect.name if dialect else None, lines=lines)


def _examine_sealed(raws: Sequence[bytes]) -> LogExamination:
    lines: list[SealedLine] = []
    byte = 0
    for number, raw in enumerate(raws, 1):
        lines.append(_sealed_line(number, byte, raw))
        byte += len(raw)
    chain = _Chain(lines)
    for line in lines:
        chain.take(line)
    _explain(chain.lines)
    return LogExamination(sealed=True, dialect=None, lines=chain.lines, in_order=chain.in_order)


def _sealed_line(number: int, byte: int, raw: bytes) -> SealedLine:
    """Take a line apart; where only its newline is missing, as if that were there."""
    text = raw if raw[-1:] == b"\n" or not has_sum(raw) else raw + b"\n"
    line = SealedLine(number, byte, raw, content=text[BODY], digits=text[DIGITS_AT])
    line.is_framed = text.endswith(CLOSE) and text[BODY.stop : HEAD.stop] == OPEN
    return _decoded(line)


def _decoded(line: SealedLine) -> SealedLine:
    with contextlib.suppress(ValueError):
        line.events = [decode_event(line.body)]
    return line


class _Ids:
    """The message ids of the whole lines so far: they grow, and none comes twice."""

    def __init__(self) -> None:
        self._top = -1
        self._seen: dict[str, LogLine] = {}

    def check(self, line: LogLine) -> None:
        """Note the ids of a whole line. An exact copy of an earlier line is not whole."""
        for event in line.events:
            earlier = self._seen.setdefault(event.message_id, line)
            if earlier is not line:
                line.whole = line.raw != earlier.raw
                what = f"has {event.message_id}, the id of" if line.whole else "is"
                line.found("doubled", f"it {what} line {earlier.number} once more")
            elif 0 <= line.id_number < self._top:
                line.found("moved", f"{event.message_id} stands after {message_id(self._top)}")
        self._top = max(self._top, line.id_number)


class _Chain:
    """Proves the lines of a sealed log, one after the other."""

    def __init__(self, all_lines: Sequence[SealedLine]) -> None:
        self.lines: list[SealedLine] = []
        """What was taken so far; a line that lost its newline is two."""
        self.in_order = True
        """Whether every whole line stands after the one that it was written after."""
        self._all = all_lines
        self._ids = _Ids()
        self._sums: list[tuple[bytes, SealedLine | None]] = [(b"", None)]
        """What the next line may follow: the digits of the last whole line and of those after
        it; and their sums as they should be, with the line whose digits are wrong in that case."""

    def take(self, line: SealedLine) -> None:
        """Judge the next line."""
        if self._follows(line):
            self._set_right(line)
            self._whole(line)
        elif line.sum_after(self._sum_by_id(line)) == line.digits:
            self._whole(line)
            self.in_order = self.in_order and not line.whole
        elif (front := self._front_of(line)) is not None:
            end = len(front.raw)
            self._whole(front)
            self.take(_sealed_line(line.number, line.byte + end, line.raw[end:]))
        else:
            self._unproven(line)

    def _follows(self, line: SealedLine) -> bool:
        return any(line.sum_after(before) == line.digits for before, _ in self._sums)

    def _set_right(self, line: SealedLine) -> None:
        """Where the line proves an earlier one whose digits are wrong, that one is whole."""
        for before, earlier in self._sums:
            if earlier is not None and earlier.events and line.sum_after(before) == line.digits:
                earlier.whole = True
                earlier.found("damaged", "its sum is not as it was written, its content is")
                self._ids.check(earlier)
                return

    def _whole(self, line: SealedLine) -> None:
        self.lines.append(line)
        self._sums = [(line.digits, None)]
        line.whole = bool(line.events)
        if not line.events:
            line.found("damaged", "its sum fits, but it is no event")
        if not line.is_framed:
            line.found("damaged", "its end is not as it was written, its content is")
        self._ids.check(line)

    def _unproven(self, line: SealedLine) -> None:
        self.lines.append(line)
        right = [(line.sum_after(before), line) for before, wrong in self._sums if wrong is None]
        others = [*self._sums[1:], (line.digits, None), *right]
        self._sums = [self._sums[0], *others[-_REMEMBERED:]]

    def _sum_by_id(self, line: SealedLine) -> bytes:
        """Return the digits of the line that one with this id is written after, if it is there."""
        return self._digits_by_id.get(line.id_number - 1, b"") if line.id_number > 0 else b""

    @cached_property
    def _digits_by_id(self) -> dict[int, bytes]:
        return {line.id_number: line.digits for line in reversed(self._all) if line.events}

    def _front_of(self, line: SealedLine) -> SealedLine | None:
        """Return the front of a line that lost its newline, where the front proves to be whole."""
        at = line.raw.find(OPEN)
        while at >= 0:
            close = at + len(OPEN) + DIGITS
            end = close + (2 if line.raw[close + 2 : close + 3] == b"{" else 3)
            front = SealedLine(line.number, line.byte, line.raw[:end], content=line.raw[:at])
            front.digits, front.is_framed = line.raw[close - DIGITS : close], False
            if end < len(line.raw) and self._follows(front):
                return _decoded(front)
            at = line.raw.find(OPEN, at + 1)
        return None


def _explain(lines: Sequence[SealedLine]) -> None:
    """Say of every line that no sum proves what seems to have happened to it."""
    top = -1  # of the whole lines so far
    before: SealedLine | None = None  # an unproven line just before
    for at, line in enumerate(lines):
        if line.whole or line.finding is not None:
            top, before = max(top, line.id_number if line.whole else -1), None
            continue
        after = lines[at + 1].id_number if at + 1 < len(lines) else line.id_number + 1
        if at + 1 == len(lines) and (line.raw[-1:] != b"\n" or not line.raw.strip(b"\x00\n")):
            line.found("torn", _TORN)
        elif line.is_framed and line.id_number > top + 1 and after == line.id_number + 1:
            line.found("missing", "the line that it was written after is gone: nothing proves it")
        elif before is None or before.is_framed or line.raw.startswith(b"{"):
            line.found("damaged", "its sum does not fit" if line.is_framed else "it has no sum")
        before = line  # no finding: the end of the line before, after a newline that came in


_REMEMBERED = 16
"""How many sums of unproven lines the next one may follow; a bound on the work, not on damage."""
_TORN = "it was never finished"
