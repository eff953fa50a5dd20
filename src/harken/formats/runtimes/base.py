"""Files of other runtimes: what reading one gives, whoever wrote it.

One idea: a file is read into steps, and a step is what becomes one commit. Steps come while the
file is read, a parent before its children, so memory does not grow with the file. What cannot be
read is said, with its place, and everything else is read as if it were not there.

Source: docs/design/005-other-runtimes.md. Each format has a document in docs/formats/.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from harken.core.clock import normalize_rfc3339
from harken.core.commits import Checkpoint, CommitType
from harken.formats.base import ConversationEntry

BOM = b"\xef\xbb\xbf"
"""The byte order mark of UTF-8, with which some editors and shells begin a file."""
LONGEST_LINE_BYTES = 64 * 1024 * 1024
"""A longer line is a bad one: it is not held in memory."""
_MOST_KINDS, _KIND_CHARACTERS = 500, 60


class SourceLine(msgspec.Struct, frozen=True, gc=False):
    """A line of a file, without its end."""

    number: int
    """From 1."""
    start: int
    """Its first byte in the file."""
    data: bytes


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that could not be read, and why. Its bytes are in the raw artifact."""

    number: int
    start: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportStep:
    """What becomes one commit."""

    id: str
    """Its name inside the file; hostile until proven otherwise, and never a file name."""
    parent: str | None
    """The step before it, which came already; None: a conversation begins here."""
    agent: str = ""
    """Whose it is; empty: that of the main conversation."""
    type: CommitType = "delta"
    """`delta`: `entries` are what is new. Else they are all that is read from here on."""
    trigger: Checkpoint = "import"
    """`spawn` where a subagent begins, `compaction` at one."""
    entries: Sequence[ConversationEntry] = ()
    time: str | None = None
    """UTC, RFC 3339; None: that of the last entry that has one."""
    summary: str = ""


@dataclass(slots=True, kw_only=True)
class ReadReport:
    """What reading a file told beside its steps; it grows while they come."""

    session_id: str = ""
    title: str = ""
    folder: str = ""
    """Where the runtime worked."""
    version: str = ""
    """Of the runtime, as the file says last."""
    parent: str = ""
    """The session that spawned it, or that it was forked from, as the runtime names it."""
    lines: int = 0
    """A line that holds several records counts once for each."""
    at: int = 0
    """The first byte of the line that was read last: steps come as soon as they are whole."""
    used: int = 0
    """How many of them are in the entries of a step."""
    kept: Counter[str] = field(default_factory=Counter)
    """Those that are in none, by what they are: only the raw artifact has them. `lines` is the sum
    of `used`, `kept` and `bad`."""
    bad: list[BadLine] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What else a person should know: a line each."""
    tips: dict[str, str] = field(default_factory=dict)
    """Agent -> its last step, the main conversation first."""
    branches: list[tuple[str, str]] = field(default_factory=list)
    """Agents and steps where something else was once gone on with: the ends that are no tips."""
    spawned: dict[str, str] = field(default_factory=dict)
    """Agents whose conversations are in files of their own -> the step that spawned them. Such a
    file says the same `session_id`, and its first step has no parent."""

    def keep(self, kind: str) -> None:
        """Count a good line that is in no step. Kinds are named by the file: so many are told."""
        kind = kind[:_KIND_CHARACTERS]
        self.kept[kind if kind in self.kept or len(self.kept) < _MOST_KINDS else "other"] += 1

    def refuse(self, line: SourceLine, reason: str) -> None:
        """Say that a line cannot be read."""
        self.bad.append(BadLine(line.number, line.start, reason))


@dataclass(frozen=True, slots=True)
class SessionFile:
    """The bytes of a file, wherever they are: on disk, or in a store."""

    name: str
    """What people call it: a path, or `art-...`."""
    chunks: Callable[[], Iterable[bytes]]
    """Opens it anew each time."""
    is_held: bool = False
    """Whether its bytes are held in memory: then its lines may be, too."""

    def lines(self, reading: ReadReport) -> Iterator[SourceLine]:
        """Yield the lines; count them, and say which are too long. A last one may lack its end.

        A byte order mark before the first line belongs to no line.
        """
        start = 0
        for number, (data, size) in enumerate(_lines(self.chunks()), start=1):
            reading.lines += 1
            reading.at = start
            if data is None:
                reading.bad.append(BadLine(number, start, f"it has {size} bytes"))
            elif number == 1 and data.startswith(BOM):
                yield SourceLine(number, start + len(BOM), data[len(BOM) :])
            else:
                yield SourceLine(number, start, data)
            start += size


Steps: TypeAlias = Callable[[SessionFile, ReadReport], Iterator[ImportStep]]
"""Reads a file. Raises FormatError where nothing of it is of the format, and nothing else."""
Sent: TypeAlias = Callable[[Sequence[ConversationEntry]], list[dict[str, Any]]]
"""Returns the messages that the client would send to its provider when it resumes there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSessionInfo:
    """What a session that is written anew is called, and where it will go on."""

    id: str
    """A UUID, of the kind that the runtime uses."""
    folder: str
    """Absolute: where the runtime will work."""
    time: str
    """UTC, RFC 3339: when it is made; entries without a time get one from it."""
    title: str = ""
    model: str = ""
    """As the runtime calls it; empty: one that it knows, where it insists on one."""


Writes: TypeAlias = Callable[[Sequence[ConversationEntry], NewSessionInfo], bytes]
"""Writes a conversation as the file of a session that the runtime resumes: whatever runtime it came
from, it is turned into what this one accepts. The same bytes each time. Raises nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeFormat:
    """How some runtime keeps its conversations."""

    name: str
    """With the version: `claude-code-v1`. Also the name of the `Format` with the same bytes."""
    runtime: str
    """As users call it: `claude`."""
    looks: Callable[[str, bytes], bool]
    """Whether a file is of this kind: its path, and its first 64 KB."""
    steps: Steps
    sent: Sent | None = None
    writes: Writes | None = None
    """None: no session of it can be written."""
    settled: Callable[[Path, Path], Path] | None = None
    """Copies a file into a folder with what others still have beside it, and returns the copy.

    None: a file is all there is. Raises OSError, FormatError."""


def conversation(steps: Steps, data: bytes) -> list[ConversationEntry]:
    """Return what is read at the end of a file, or of a part of one. Raises FormatError."""
    reading = ReadReport()
    by_id = {step.id: step for step in steps(SessionFile("", lambda: [data]), reading)}
    found: list[ImportStep] = []
    at = next(iter(reading.tips.values()), None)
    while at is not None:
        found.append(by_id[at])
        at = by_id[at].parent if by_id[at].type == "delta" else None
    return [entry for step in reversed(found) for entry in step.entries]


def time_of(value: object) -> str | None:
    """Return a time of a file as entries have it; None: it is no time with a zone.

    >>> time_of("2026-11-21T19:02:55.005+01:00"), time_of("yesterday")
    ('2026-11-21T18:02:55.005000Z', None)
    """
    try:
        return normalize_rfc3339(value) if isinstance(value, str) else None
    except (ValueError, OverflowError):
        return None


def _lines(chunks: Iterable[bytes]) -> Iterator[tuple[bytes | None, int]]:
    """Yield each line without its end (None: too long), and its size with it."""
    waiting: list[bytes] = []
    size = 0
    for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        for piece in whole:
            if size or len(piece) >= LONGEST_LINE_BYTES:
                size += len(piece) + 1
                yield _joined(waiting, piece, size)
                waiting, size = [], 0
            else:
                yield piece.removesuffix(b"\r"), len(piece) + 1
        size += len(rest)
        if rest and size <= LONGEST_LINE_BYTES:
            waiting.append(rest)
        elif size > LONGEST_LINE_BYTES:
            waiting.clear()
    if size:
        yield _joined(waiting, b"", size)


def _joined(waiting: list[bytes], last: bytes, size: int) -> tuple[bytes | None, int]:
    if size > LONGEST_LINE_BYTES:
        return None, size
    return b"".join([*waiting, last]).removesuffix(b"\r"), size


PI_MEMBER = "pi"


BROKEN_OFF = frozenset({"error", "aborted"})
"""Reasons why an answer ended such that it is not sent again."""
