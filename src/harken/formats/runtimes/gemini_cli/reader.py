"""The reader of Gemini CLI chats: one JSON document (until 0.38), or lines that patch each other.

Lines are read twice. The first pass finds the last version of each message, and the rewinds; the
second pass creates entries of these versions, in the order of the messages' first appearance.

Source: docs/formats/gemini-cli.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from harken.errors import FormatError
from harken.formats.json_records import Record, get_object, get_objects, get_text
from harken.formats.runtimes.base import ImportStep, ReadReport, RuntimeFormat, SessionFile
from harken.formats.runtimes.gemini_cli.messages import AnsweredCalls, entries_from_message
from harken.formats.runtimes.gemini_cli.resume_request import build_resume_request
from harken.formats.runtimes.gemini_cli.writer import write_session
from harken.formats.runtimes.json_lines import read_document, read_records
from harken.formats.runtimes.new_session import build_format
from harken.formats.runtimes.steps import StepBuilder

NAME = "gemini-cli-v1"
_RESULTS_SUFFIX = "_response"
"""The suffix of the id of a message that repeats the results of another one's calls."""
_HEAD_MEMBERS = (b'"sessionId"', b'"projectHash"')


def is_session_file(path: str, head: bytes) -> bool:
    """Whether a file is a chat, by its first members, on one line or on several."""
    head = head.lstrip(b"\xef\xbb\xbf \r\n\t")
    return head.startswith(b"{") and all(name in head[:4096] for name in _HEAD_MEMBERS)


def iter_steps(source: SessionFile, report: ReadReport) -> Iterator[ImportStep]:
    """Yield the steps of a chat. Raises FormatError if the file is no chat."""
    chat = _build_outline(source)
    if chat is None:
        yield from _iter_document_steps(source, report)
        return
    builder = StepBuilder(report, {str(slot) for slot in chat.branching})
    answered_calls = AnsweredCalls()
    pending: dict[int, list[Record]] = {}
    slot_index = 0
    for line, record in read_records(source, report):
        slots = chat.last_in.get(line.number, ())
        _count_line(report, record, is_used=bool(slots))
        pending.update(zip(slots, _iter_slot_messages(record, chat, line.number), strict=True))
        while slot_index in pending:
            yield from _iter_steps(
                chat, slot_index, pending.pop(slot_index), builder, answered_calls
            )
            slot_index += 1
    chat.go_to_head(builder)
    yield from builder.end()


def _iter_document_steps(source: SessionFile, report: ReadReport) -> Iterator[ImportStep]:
    document = read_document(source, report, NAME)
    if not get_text(document, "sessionId") or not isinstance(document.get("messages"), list):
        raise FormatError(NAME, "it has no sessionId or no messages")
    _read_metadata(report, document)
    report.used_lines = report.lines
    builder, answered_calls = StepBuilder(report), AnsweredCalls()
    for index, message in enumerate(get_objects(document, "messages")):
        yield from builder.add(
            _message_id(message, index), builder.head, entries_from_message(message, answered_calls)
        )
    yield from builder.end()


@dataclass(slots=True)
class _Slot:
    """A message of a chat, or all messages of a compaction."""

    parent: int | None
    line: int
    """The number of the line with the last version."""
    index: int | None = None
    """The index of the message in that line. None for the line itself."""
    is_compaction: bool = False


@dataclass(slots=True)
class _Chat:
    """The structure of a chat, from the first pass."""

    slots: list[_Slot] = field(default_factory=list)
    live_slots: dict[str, int] = field(default_factory=dict)
    """The slots of the live messages, by id."""
    all_slots: dict[str, int] = field(default_factory=dict)
    """The slots of all messages that ever existed, by id."""
    head: int | None = None
    branching: set[int] = field(default_factory=set)
    last_in: dict[int, list[int]] = field(default_factory=dict)
    """The slots whose last version is in a line, by line number."""

    def put(self, id_: str, line: int) -> None:
        """Add a line that is a message: a new one, or a new version."""
        slot_index = self.live_slots.get(id_)
        if slot_index is None:
            self._append_slot(id_, line, None)
        elif self.slots[slot_index].index is None:
            self.slots[slot_index].line = line

    def rewind(self, id_: str) -> None:
        """Remove a message and all after it. An unknown message removes all."""
        slot_index = self.live_slots.get(id_)
        remaining_ids = (
            list(self.live_slots)[: list(self.live_slots).index(id_)]
            if slot_index is not None
            else []
        )
        self.live_slots = {name: self.live_slots[name] for name in remaining_ids}
        self._set_head(self.live_slots[remaining_ids[-1]] if remaining_ids else None)

    def replace(self, ids: list[str], line: int) -> None:
        """Apply a list of all messages: it continues, rewinds or compacts the previous ones."""
        previous_head, head = self.head, None
        live, new = dict[str, int](), list[tuple[int, str]]()
        for index, id_ in enumerate(ids):
            slot_index = self.all_slots.get(id_)
            if (
                not new
                and slot_index is not None
                and (self.slots[slot_index].parent == head or slot_index == head)
            ):
                head = live[id_] = slot_index
            elif id_.removesuffix(_RESULTS_SUFFIX) not in self.all_slots or id_ in self.all_slots:
                new.append((index, id_))  # Other ids repeat results that their calls have.
        if new and head != previous_head:
            self._append_slot(ids[0], line, 0, is_all=True)
            self.live_slots = dict.fromkeys(ids, len(self.slots) - 1)
            self.all_slots |= self.live_slots
            return
        self.live_slots = live
        self._set_head(head)
        for index, id_ in new:
            self._append_slot(id_, line, index)

    def _set_head(self, head: int | None) -> None:
        if head is not None and head != self.head:
            self.branching.add(head)
        self.head = head

    def _append_slot(self, id_: str, line: int, index: int | None, *, is_all: bool = False) -> None:
        slot_index = len(self.slots)
        self.slots.append(_Slot(self.head, line, index, is_all))
        self.live_slots[id_] = self.all_slots[id_] = self.head = slot_index

    def build_index(self) -> None:
        """Index the last versions by line. No line may be added afterwards."""
        for slot_index, slot in enumerate(self.slots):
            self.last_in.setdefault(slot.line, []).append(slot_index)

    def go_to_head(self, builder: StepBuilder) -> None:
        """Move the builder to the head, which a rewind may have changed last."""
        builder.head = None if self.head is None else str(self.head)


def _build_outline(source: SessionFile) -> _Chat | None:
    """Run the first pass. Return None if the file is one document on several lines."""
    chat, report = _Chat(), ReadReport()
    is_chat = False
    for line, record in read_records(source, report):
        is_chat = is_chat or bool(get_text(record, "sessionId"))
        rewind_id = get_text(record, "$rewindTo")
        if rewind_id:
            chat.rewind(rewind_id)
        elif get_text(record, "id"):
            chat.put(get_text(record, "id"), line.number)
        else:
            messages = _message_list(record)
            if messages is not None:
                chat.replace(
                    [_message_id(message, index) for index, message in enumerate(messages)],
                    line.number,
                )
    if not is_chat:
        return None
    chat.build_index()
    return chat


def _message_list(record: Record) -> list[Record] | None:
    """Return the complete message list of a line. Return None if it has none."""
    holder = get_object(record, "$set") if "$set" in record else record
    return get_objects(holder, "messages") if isinstance(holder.get("messages"), list) else None


def _message_id(message: Record, index: int) -> str:
    return get_text(message, "id") or f"message {index}"


def _iter_slot_messages(record: Record, chat: _Chat, line: int) -> Iterator[list[Record]]:
    """Yield the messages of each slot whose last version is in this line."""
    messages = _message_list(record) or []
    for slot_index in chat.last_in.get(line, ()):
        slot = chat.slots[slot_index]
        if slot.is_compaction:
            yield messages
        else:
            yield [record if slot.index is None else messages[slot.index]]


def _iter_steps(
    chat: _Chat,
    slot_index: int,
    messages: list[Record],
    builder: StepBuilder,
    answered_calls: AnsweredCalls,
) -> Iterator[ImportStep]:
    slot = chat.slots[slot_index]
    parent = None if slot.parent is None else str(slot.parent)
    entries = [
        entry for message in messages for entry in entries_from_message(message, answered_calls)
    ]
    if slot.is_compaction:
        yield from builder.compact(str(slot_index), parent, "", entries)
    else:
        yield from builder.add(str(slot_index), parent, entries)


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
