"""The reader of Gemini CLI chats: one JSON document (until 0.38), or lines that patch each other.

Lines are read twice. The first pass finds the last version of each message, and the rewinds; the
second pass creates entries of these versions, in the order of the messages' first appearance.

Source: docs/formats/gemini-cli.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from harken.errors import FormatError
from harken.formats.json_records import Record, get_object, get_objects, get_text
from harken.formats.runtimes.base import (
    ImportStep,
    ReadReport,
    RuntimeFormat,
    SessionFile,
    SourceLine,
)
from harken.formats.runtimes.gemini_cli.chat_outline import (
    ChatOutline,
    SavedOutline,
    name_message,
    parse_slot_messages,
)
from harken.formats.runtimes.gemini_cli.earlier_ids import AnsweredCalls, SavedResults
from harken.formats.runtimes.gemini_cli.messages import entries_from_message
from harken.formats.runtimes.gemini_cli.resume_request import build_resume_request
from harken.formats.runtimes.gemini_cli.writer import write_session
from harken.formats.runtimes.json_lines import read_document, read_records
from harken.formats.runtimes.new_session import build_format
from harken.formats.runtimes.read_point import (
    ReadPoint,
    decode_state,
    encode_state,
    list_step_ids,
)
from harken.formats.runtimes.step_state import BuilderState, build_totals
from harken.formats.runtimes.steps import StepBuilder, StepNumbers, can_save

NAME = "gemini-cli-v1"
_MESSAGE_TYPES = ("user", "gemini")
"""The types of messages that the model reads."""
_HEAD_MEMBERS = (b'"sessionId"', b'"projectHash"')


def is_session_file(path: str, head: bytes) -> bool:
    """Whether a file is a chat, by its first members, on one line or on several."""
    head = head.lstrip(b"\xef\xbb\xbf \r\n\t")
    return head.startswith(b"{") and all(name in head[:4096] for name in _HEAD_MEMBERS)


def iter_steps(source: SessionFile, report: ReadReport) -> Iterator[ImportStep]:
    """Yield the steps of a chat. Raises FormatError if the file is no chat."""
    saved = None if source.point is None else decode_state(source.point, ChatState)
    outline = _create_outline(saved)
    for line, record in read_records(source, ReadReport(extra=report.extra)):
        outline.add(record, line.number)
    if outline.is_chat:
        yield from _ChatReader(report, outline, saved).steps(source)
    else:
        yield from _iter_document_steps(source, report)


def _iter_document_steps(source: SessionFile, report: ReadReport) -> Iterator[ImportStep]:
    document = read_document(source, report, NAME)
    if not get_text(document, "sessionId") or not isinstance(document.get("messages"), list):
        raise FormatError(NAME, "it has no sessionId or no messages")
    _read_metadata(report, document)
    report.used_lines = report.lines
    builder, answered_calls = StepBuilder(report), AnsweredCalls()
    for index, message in enumerate(get_objects(document, "messages")):
        entries = entries_from_message(message, answered_calls)
        yield from builder.add(name_message(message, index), builder.head, entries)
    yield from builder.end()


class ChatState(msgspec.Struct, array_like=True):
    """The messages and the steps before a read point."""

    outline: SavedOutline
    answered: SavedResults
    steps: int
    builder: BuilderState


def _create_outline(saved: ChatState | None) -> ChatOutline:
    return ChatOutline() if saved is None else ChatOutline.restore(saved.outline)


class _Candidate(NamedTuple):
    """The first line of a message, at which a read point is set if a step begins there."""

    slot: int
    line: SourceLine
    extra: int
    lines: int
    used_lines: int
    uninterpreted: Counter[str]
    bad: int
    """The number of bad lines."""
    outline: SavedOutline


class _ChatReader:
    """The second pass, which reads the last version of each message."""

    def __init__(self, report: ReadReport, outline: ChatOutline, saved: ChatState | None) -> None:
        """Begin. Raises EarlierStepChanged if a message before the read point has a new branch."""
        self._report, self._outline = report, outline
        self._progress = _create_outline(saved)
        """The outline of the lines before the current one."""
        self._next_slot = outline.first_slot
        self._candidate: _Candidate | None = None
        branching = {str(slot) for slot in outline.branching}
        if saved is None:
            self._builder, self._answered_calls = StepBuilder(report, branching), AnsweredCalls()
        else:
            numbers = StepNumbers(saved.steps)
            report.tips, report.branches = {}, []
            self._builder = StepBuilder.restore(saved.builder, report, numbers, branching)
            self._answered_calls = AnsweredCalls.restore(saved.answered)

    def steps(self, source: SessionFile) -> Iterator[ImportStep]:
        """Yield the steps, in the order of the first appearance of their messages."""
        outline, slots_by_line = self._outline, self._outline.index_lines()
        pending: dict[int, list[Record]] = {}
        for line, record in read_records(source, self._report):
            self._note_candidate(line, record)
            numbers = slots_by_line.get(line.number, ())
            _count_line(self._report, record, is_used=bool(numbers))
            messages = parse_slot_messages(record, [outline.slots[number] for number in numbers])
            pending.update(zip(numbers, messages, strict=True))
            self._progress.add(record, line.number)
            while self._next_slot in pending:
                yield from self._read_slot(pending.pop(self._next_slot))
                self._next_slot += 1
        # A rewind may have changed the head last.
        self._builder.head = None if outline.head is None else str(outline.head)
        yield from self._builder.end()

    def _read_slot(self, messages: Sequence[Record]) -> Iterator[ImportStep]:
        """Add the entries of the next slot."""
        slot, node, builder = self._outline.slots[self._next_slot], self._next_slot, self._builder
        parent = None if slot.parent is None else str(slot.parent)
        calls = self._answered_calls
        call_count, second_results = len(calls.responses), calls.second_results
        entries = [entry for message in messages for entry in entries_from_message(message, calls)]
        if slot.is_compaction:
            yield from builder.compact(str(node), parent, "", entries)
            return
        candidate, self._candidate = self._candidate, None
        is_unchanged = calls.second_results == second_results
        begins_step = is_unchanged and builder.begins_step(parent, entries)
        if candidate and candidate.slot == node and begins_step:
            yield from builder.pause()
            self._set_point(candidate, call_count)
        yield from builder.add(str(node), parent, entries)

    def _note_candidate(self, line: SourceLine, record: Record) -> None:
        """Remember the state before a line, if it has the first version of the next message."""
        report, slot = self._report, self._outline.slots.get(self._next_slot)
        if get_text(record, "type") not in _MESSAGE_TYPES or not report.needs_point(line.start):
            return
        if slot is not None and slot.first_line == line.number:
            self._candidate = _Candidate(
                self._next_slot,
                line,
                report.extra,
                report.lines - 1,
                report.used_lines,
                Counter(report.uninterpreted),
                len(report.bad),
                self._progress.save(),
            )

    def _set_point(self, candidate: _Candidate, call_count: int) -> None:
        """Set the read point to a line at which a step begins.

        call_count: the number of calls with a result before it.
        """
        report, builder = self._report, self._builder
        outline = self._progress.hash_ids(candidate.outline)
        calls = self._answered_calls.save(call_count)
        if outline is None or calls is None or not can_save([builder]):
            return
        state = builder.save()
        data = encode_state(ChatState(outline, calls, builder.numbers.last, state))
        totals = build_totals(
            report, [state], lines=candidate.lines, used_lines=candidate.used_lines
        )
        totals.uninterpreted = dict(candidate.uninterpreted)
        totals.bad = report.bad[: candidate.bad]
        if data is not None:
            line, extra = candidate.line, candidate.extra
            step_ids = list_step_ids(totals, state.list_steps())
            report.point = ReadPoint(line.start, line.number - extra, extra, data, step_ids, totals)


def _count_line(report: ReadReport, record: Record, *, is_used: bool) -> None:
    """Count a line, and read its metadata."""
    _read_metadata(report, get_object(record, "$set") or record)
    if is_used:
        report.used_lines += 1
    elif get_text(record, "id"):
        report.count_uninterpreted(f"older version/{get_text(record, 'type')}")
    else:
        report.count_uninterpreted(next(iter(record), "empty"))


def _read_metadata(report: ReadReport, record: Record) -> None:
    report.session_id = report.session_id or get_text(record, "sessionId")


NATIVE = RuntimeFormat(
    name=NAME,
    runtime="gemini",
    is_session_file=is_session_file,
    steps=iter_steps,
    build_resume_request=build_resume_request,
    writes=write_session,
)
FORMAT = build_format(NATIVE, "application/jsonl")
