"""The import of session files of other runtimes: steps, reports and the `RuntimeFormat`.

A file is read into steps, and a step becomes one commit. Steps are yielded while the file is read,
a parent before its children, so memory does not grow with the file. Unreadable lines are reported
with their position, and all others are read as if the unreadable ones were absent.

Source: docs/design/005-other-runtimes.md. Each format has a document in docs/formats/.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from harken.core import structs
from harken.core.clock import normalize_rfc3339
from harken.core.commits import Checkpoint, CommitType
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.evaluation import Label, Score
from harken.formats.runtimes.read_point import (
    MAX_BAD_LINES,
    BadLine,
    ReadPoint,
    ReadTotals,
    list_step_ids,
)
from harken.formats.runtimes.sent_requests import SentRequestReader

BOM = b"\xef\xbb\xbf"
"""The UTF-8 byte order mark, with which some editors and shells begin a file."""
MAX_LINE_BYTES = 64 * 1024 * 1024
"""A longer line is a bad line and is not held in memory."""
_MAX_KINDS, _MAX_KIND_CHARS = 500, 60


class SourceLine(msgspec.Struct, frozen=True, gc=False):
    """A line of a file, without its line end."""

    number: int
    """From 1."""
    start: int
    """The offset of its first byte in the file."""
    data: bytes


class ImportStep(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a conversation that becomes one commit."""

    id: str
    """The name inside the file. It is untrusted, and never used as a file name."""
    parent: str | None
    """The previous step, which was already yielded. None if a conversation begins here."""
    agent: str = ""
    """The agent of the step, or an empty string for the main conversation."""
    session: str = ""
    """The session of the step, if the file has several: an id in `ReadReport.sessions`."""
    type: CommitType = "delta"
    """For a `delta`, `entries` are the new entries. Otherwise they are the complete context from
    here on."""
    trigger: Checkpoint = "import"
    """`spawn` at the beginning of a subagent, `compaction` at a compaction."""
    entries: Sequence[ConversationEntry] = ()
    time: str | None = None
    """UTC, RFC 3339. None for the time of the last entry that has one."""
    summary: str = ""


class ReadReport(msgspec.Struct, kw_only=True):
    """The metadata and statistics of reading a file, updated while steps are yielded."""

    session_id: str = ""
    title: str = ""
    folder: str = ""
    """The working directory of the runtime."""
    version: str = ""
    """The version of the runtime, the last one in the file."""
    outcome: str = ""
    """How the session ended, as the runtime reports it: `success`, `error_max_turns`, ..."""
    end_time: str = ""
    """The time of that report, in the form of commits."""
    parent: str = ""
    """The runtime's name of the session that spawned this one, or that it was forked from."""
    lines: int = 0
    """The number of lines. A line with several records counts once for each."""
    offset: int = 0
    """The offset of the last line that was read. Steps are yielded as soon as they are complete."""
    used_lines: int = 0
    """The number of lines that are in the entries of a step."""
    uninterpreted: Counter[str] = msgspec.field(default_factory=Counter)
    """The number of lines that are in no step, by kind: only the raw artifact has them. `lines` is
    the sum of `used_lines`, `uninterpreted` and `bad`."""
    bad: list[BadLine] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)
    """Further notes for the user, a line each."""
    tips: dict[str, str] = msgspec.field(default_factory=dict)
    """The last step of each agent, the main conversation first."""
    branches: list[tuple[str, str]] = msgspec.field(default_factory=list)
    """Agents and steps at the ends of abandoned branches, which are not tips."""
    spawned: dict[str, str] = msgspec.field(default_factory=dict)
    """The spawning step of each agent with a file of its own. Such a file has the same
    `session_id`, and its first step has no parent."""
    scores: list[Score] = msgspec.field(default_factory=list)
    labels: list[Label] = msgspec.field(default_factory=list)
    sessions: list[ReadReport] = msgspec.field(default_factory=list)
    """The sessions of a file that has several. Each has its own id, title, outcome, tips, branches,
    scores and labels; lines are counted for the file."""
    extra: int = 0
    """The number of additional records in earlier lines, which are not one record each."""
    is_joined: bool = False
    """Whether the current line is not one record. No read point is set there."""
    size_bytes: int | None = None
    """The size of a file that may grow. None if no read point is needed."""
    point: ReadPoint | None = None
    """The last read point. None if the file has to be read from its beginning."""

    def count_uninterpreted(self, kind: str) -> str:
        """Count a valid line that is in no step. Return the kind under which it is counted.

        The number of kinds is limited, because the file names them.
        """
        kind = kind[:_MAX_KIND_CHARS].encode("utf-8", "replace").decode()
        if kind not in self.uninterpreted and len(self.uninterpreted) >= _MAX_KINDS:
            kind = "other"
        self.uninterpreted[kind] += 1
        return kind

    def report_bad(self, line: SourceLine, reason: str) -> None:
        """Report a line that cannot be read."""
        self.bad.append(BadLine(line.number, line.start, reason))

    def needs_point(self, start: int) -> bool:
        """Whether a read point is needed at this offset.

        A point halves the rest of the file at least, so there are few of them.
        """
        if self.size_bytes is None or self.is_joined or len(self.bad) > MAX_BAD_LINES:
            return False
        if self.sessions:  # A file with several sessions is read from its beginning.
            return False
        return start >= (self.size_bytes + (self.point.start if self.point else 0)) // 2

    def copy_totals(self, *, lines: int, used_lines: int) -> ReadTotals:
        """Return a copy of the totals, with these numbers of lines."""
        return ReadTotals(
            session_id=self.session_id,
            title=self.title,
            folder=self.folder,
            version=self.version,
            outcome=self.outcome,
            end_time=self.end_time,
            parent=self.parent,
            lines=lines,
            used_lines=used_lines,
            uninterpreted=dict(self.uninterpreted),
            bad=[*self.bad],
            notes=[*self.notes],
            tips=dict(self.tips),
            branches=[*self.branches],
            spawned=dict(self.spawned),
            scores=[*self.scores],
            labels=[*self.labels],
        )

    def set_point(
        self,
        line: SourceLine,
        state: bytes | None,
        totals: ReadTotals,
        steps: Iterable[str | None] = (),
    ) -> None:
        """Set the read point to the beginning of a line. `line` has the number of its record.

        steps: those that a later step may follow, without tips and branches.
        """
        if state is not None:
            number, step_ids = line.number - self.extra, list_step_ids(totals, [*steps])
            self.point = ReadPoint(line.start, number, self.extra, state, step_ids, totals)

    @classmethod
    def from_point(cls, point: ReadPoint) -> ReadReport:
        """Return the report of the lines before a read point."""
        totals = point.totals
        return cls(
            session_id=totals.session_id,
            title=totals.title,
            folder=totals.folder,
            version=totals.version,
            outcome=totals.outcome,
            end_time=totals.end_time,
            parent=totals.parent,
            lines=totals.lines,
            used_lines=totals.used_lines,
            uninterpreted=Counter(totals.uninterpreted),
            bad=[*totals.bad],
            notes=[*totals.notes],
            tips=dict(totals.tips),
            branches=[*totals.branches],
            spawned=dict(totals.spawned),
            scores=[*totals.scores],
            labels=[*totals.labels],
            extra=point.extra,
            point=structs.replace(point, steps=0),
        )


class SessionFile(msgspec.Struct, frozen=True):
    """The bytes of a session file, on disk or in a store."""

    name: str
    """The name for people: a path, or `art-...`."""
    chunks: Callable[[], Iterable[bytes]]
    """Opens the file anew with each call."""
    is_in_memory: bool = False
    """Whether the bytes are in memory, so that their lines may be buffered, too."""
    point: ReadPoint | None = None
    """The read point at which the bytes begin. None for the beginning of the file."""

    def lines(self, report: ReadReport) -> Iterator[SourceLine]:
        """Yield and count the lines, and report those that are too long.

        The last line may lack its end.

        A byte order mark before the first line belongs to no line.
        """
        start, first = (self.point.start, self.point.line) if self.point else (0, 1)
        for number, (data, size) in enumerate(_split_lines(self.chunks()), start=first):
            report.lines += 1
            report.offset = start
            if data is None:
                report.bad.append(BadLine(number, start, f"it has {size} bytes"))
            elif number == 1 and data.startswith(BOM):
                yield SourceLine(number, start + len(BOM), data[len(BOM) :])
            else:
                yield SourceLine(number, start, data)
            start += size


StepReader: TypeAlias = Callable[[SessionFile, ReadReport], Iterator[ImportStep]]
"""Reads a file. Raises FormatError if no part of it is of the format. A reader that sets read
points continues from that of its source, and raises EarlierStepChanged if it cannot."""
ResumeRequestBuilder: TypeAlias = Callable[[Sequence[ConversationEntry]], list[dict[str, Any]]]
"""Returns the messages that the client would send to its provider when it resumes there."""


class ModelUse(msgspec.Struct, frozen=True, kw_only=True):
    """The model that continues a session, which the session alone does not determine."""

    model: str = ""
    """The model that the client selected. If empty, it is the one that answered last."""
    has_system_messages: bool = True
    """Whether the client sends system messages between other messages to this model."""


class NewSessionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The name and the environment of a session to write."""

    id: str
    """A UUID of the version that the runtime uses."""
    folder: str
    """The absolute working directory of the runtime."""
    time: str
    """The creation time in UTC, RFC 3339. Entries without a time get one from it."""
    title: str = ""
    model: str = ""
    """The runtime's name of the model. If empty, a known model is written where the runtime
    requires one."""


SessionWriter: TypeAlias = Callable[[Sequence[ConversationEntry], NewSessionInfo], bytes]
"""Writes a conversation, deterministically, as a session file that the runtime resumes. Entries of
other runtimes are converted to what this one accepts. Raises nothing."""


class RuntimeFormat(msgspec.Struct, frozen=True, kw_only=True):
    """The session file format of a runtime."""

    name: str
    """The name with the version, such as `claude-code-v1`. Also the name of the `Format` of the
    same bytes."""
    runtime: str
    """The users' name of the runtime: `claude`."""
    is_session_file: Callable[[str, bytes], bool]
    """Whether a file is of this format, by its path and its first 64 KB."""
    steps: StepReader
    build_resume_request: ResumeRequestBuilder | None = None
    build_request_for_model: (
        Callable[[Sequence[ConversationEntry], ModelUse], list[dict[str, Any]]] | None
    ) = None
    """As `build_resume_request`, for a given model. None if the model does not matter."""
    writes: SessionWriter | None = None
    """None if sessions of this format cannot be written."""
    copy_merged: Callable[[Path, Path], Path] | None = None
    """Copies a file and its sidecar files into a folder, merged, and returns the copy.

    None if sessions have no other files. Raises OSError, FormatError.
    """
    copies_histories: bool = True
    """Whether the runtime copies the beginning of a session into others, so that equal messages
    after an equal beginning are the same history. False for independent runs of one task."""
    sent_requests: SentRequestReader | None = None
    """None if transcripts of the runtime have no requests."""


def read_conversation(steps: StepReader, data: bytes) -> list[ConversationEntry]:
    """Return the entries of the conversation at the end of a file or of a part of one.

    Raises FormatError.
    """
    report = ReadReport()
    by_id = {step.id: step for step in steps(SessionFile("", lambda: [data]), report)}
    steps_: list[ImportStep] = []
    step_id = next(iter(report.tips.values()), None)
    while step_id is not None:
        steps_.append(by_id[step_id])
        step_id = by_id[step_id].parent if by_id[step_id].type == "delta" else None
    return [entry for step in reversed(steps_) for entry in step.entries]


def parse_time(value: object) -> str | None:
    """Return a time of a file in the form of entries. Return None if it is no time with a zone.

    >>> parse_time("2026-11-21T19:02:55.005+01:00"), parse_time("yesterday")
    ('2026-11-21T18:02:55.005000Z', None)
    """
    try:
        return normalize_rfc3339(value) if isinstance(value, str) else None
    except (ValueError, OverflowError):
        return None


def _split_lines(chunks: Iterable[bytes]) -> Iterator[tuple[bytes | None, int]]:
    """Yield each line without its end, and its size with it. A line that is too long is None."""
    pending: list[bytes] = []
    size = 0
    for chunk in chunks:
        *complete, partial = chunk.split(b"\n")
        for piece in complete:
            if size or len(piece) >= MAX_LINE_BYTES:
                size += len(piece) + 1
                yield _join_line(pending, piece, size)
                pending, size = [], 0
            else:
                yield piece.removesuffix(b"\r"), len(piece) + 1
        size += len(partial)
        if partial and size <= MAX_LINE_BYTES:
            pending.append(partial)
        elif size > MAX_LINE_BYTES:
            pending.clear()
    if size:
        yield _join_line(pending, b"", size)


def _join_line(pending: list[bytes], last: bytes, size: int) -> tuple[bytes | None, int]:
    if size > MAX_LINE_BYTES:
        return None, size
    return b"".join([*pending, last]).removesuffix(b"\r"), size


PI_MEMBER = "pi"
INCOMPLETE_STOP_REASONS = frozenset({"error", "aborted"})
"""Stop reasons of answers that are not sent again."""
