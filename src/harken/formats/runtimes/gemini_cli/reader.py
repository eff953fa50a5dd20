"""Gemini CLI: its chats, as one JSON document (until 0.38) or as lines that patch each other.

One idea: lines are read twice. The first time tells which version of each message is the last one,
and what a rewind took back; the second one makes entries of these versions, in the order in which
the messages first came. A message says the same in each of the shapes that it may have.

Source: docs/formats/gemini-cli.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from harken.errors import FormatError
from harken.formats.json_records import Record, get_object, get_objects, get_text
from harken.formats.runtimes.base import ImportStep, ReadReport, RuntimeFormat, SessionFile
from harken.formats.runtimes.gemini_cli.messages import (
    AnsweredCalls,
    build_resume_request,
    entries_of,
)
from harken.formats.runtimes.gemini_cli.writer import writes
from harken.formats.runtimes.json_lines import read_document, read_records
from harken.formats.runtimes.new_session import format_of
from harken.formats.runtimes.steps import StepBuilder

NAME = "gemini-cli-v1"
_RESULTS = "_response"
"""What the id of a message ends with that says the results of another one's calls again."""
_HEAD_MEMBERS = (b'"sessionId"', b'"projectHash"')


def looks(path: str, head: bytes) -> bool:
    """Whether a file is a chat: by what it begins with, on one line or on several."""
    head = head.lstrip(b"\xef\xbb\xbf \r\n\t")
    return head.startswith(b"{") and all(name in head[:4096] for name in _HEAD_MEMBERS)


def steps(source: SessionFile, reading: ReadReport) -> Iterator[ImportStep]:
    """Read a chat. Raises FormatError where it is none."""
    chat = _outline(source)
    if chat is None:
        yield from _of_document(source, reading)
        return
    rounds = StepBuilder(reading, {str(slot) for slot in chat.branching})
    answered = AnsweredCalls()
    waiting: dict[int, list[Record]] = {}
    at = 0
    for line, record in read_records(source, reading):
        due = chat.last_in.get(line.number, ())
        _told(reading, record, is_used=bool(due))
        waiting.update(zip(due, _messages_in(record, chat, line.number), strict=True))
        while at in waiting:
            yield from _step(chat, at, waiting.pop(at), rounds, answered)
            at += 1
    chat.go_to_head(rounds)
    yield from rounds.end()


def _of_document(source: SessionFile, reading: ReadReport) -> Iterator[ImportStep]:
    whole = read_document(source, reading, NAME)
    if not get_text(whole, "sessionId") or not isinstance(whole.get("messages"), list):
        raise FormatError(NAME, "it has no sessionId or no messages")
    _describe(reading, whole)
    reading.used = reading.lines
    rounds, answered = StepBuilder(reading), AnsweredCalls()
    for at, message in enumerate(get_objects(whole, "messages")):
        yield from rounds.add(_id(message, at), rounds.head, entries_of(message, answered))
    yield from rounds.end()


@dataclass(slots=True)
class _Slot:
    """A message of a chat, or all that a compaction put in the place of what was before."""

    parent: int | None
    line: int
    """Where its last version stands."""
    index: int | None = None
    """Which of the messages in that line it is; None: the line itself."""
    is_compaction: bool = False


@dataclass(slots=True)
class _Chat:
    """What the lines of a chat tell about each other."""

    slots: list[_Slot] = field(default_factory=list)
    named: dict[str, int] = field(default_factory=dict)
    """The messages that are live, by their ids, and the slots that they are in."""
    known: dict[str, int] = field(default_factory=dict)
    """All that ever were."""
    head: int | None = None
    branching: set[int] = field(default_factory=set)
    last_in: dict[int, list[int]] = field(default_factory=dict)
    """Line -> the slots whose last version is there."""

    def put(self, id_: str, line: int) -> None:
        """Take a line that is a message: a new one, or a new version."""
        at = self.named.get(id_)
        if at is None:
            self._append(id_, line, None)
        elif self.slots[at].index is None:
            self.slots[at].line = line

    def rewind(self, id_: str) -> None:
        """Take back a message and all after it; all, where it is unknown."""
        at = self.named.get(id_)
        kept = list(self.named)[: list(self.named).index(id_)] if at is not None else []
        self.named = {name: self.named[name] for name in kept}
        self._go_back(self.named[kept[-1]] if kept else None)

    def replace(self, ids: list[str], line: int) -> None:
        """Take a list of all messages: it goes on, or back, or sums up what was before."""
        came_from, head = self.head, None
        live, new = dict[str, int](), list[tuple[int, str]]()
        for index, id_ in enumerate(ids):
            at = self.known.get(id_)
            if not new and at is not None and (self.slots[at].parent == head or at == head):
                head = live[id_] = at
            elif id_.removesuffix(_RESULTS) not in self.known or id_ in self.known:
                new.append((index, id_))  # else it repeats results that their calls have
        if new and head != came_from:
            self._append(ids[0], line, 0, is_all=True)
            self.named = dict.fromkeys(ids, len(self.slots) - 1)
            self.known |= self.named
            return
        self.named = live
        self._go_back(head)
        for index, id_ in new:
            self._append(id_, line, index)

    def _go_back(self, head: int | None) -> None:
        if head is not None and head != self.head:
            self.branching.add(head)
        self.head = head

    def _append(self, id_: str, line: int, index: int | None, *, is_all: bool = False) -> None:
        at = len(self.slots)
        self.slots.append(_Slot(self.head, line, index, is_all))
        self.named[id_] = self.known[id_] = self.head = at

    def settle(self) -> None:
        """Say where the last versions are; no line is taken after that."""
        for at, slot in enumerate(self.slots):
            self.last_in.setdefault(slot.line, []).append(at)

    def go_to_head(self, rounds: StepBuilder) -> None:
        """Say where the conversation is, which a rewind may have changed last."""
        rounds.head = None if self.head is None else str(self.head)


def _outline(source: SessionFile) -> _Chat | None:
    """Read what the lines are like; None: it is one document on several lines."""
    chat, aside = _Chat(), ReadReport()
    is_one = False
    for line, record in read_records(source, aside):
        is_one = is_one or bool(get_text(record, "sessionId"))
        back = get_text(record, "$rewindTo")
        if back:
            chat.rewind(back)
        elif get_text(record, "id"):
            chat.put(get_text(record, "id"), line.number)
        else:
            listed = _listed(record)
            if listed is not None:
                chat.replace([_id(one, at) for at, one in enumerate(listed)], line.number)
    if not is_one:
        return None
    chat.settle()
    return chat


def _listed(record: Record) -> list[Record] | None:
    """Return the messages that a line says are all; None: it says nothing of them."""
    holder = get_object(record, "$set") if "$set" in record else record
    return get_objects(holder, "messages") if isinstance(holder.get("messages"), list) else None


def _id(message: Record, at: int) -> str:
    return get_text(message, "id") or f"message {at}"


def _messages_in(record: Record, chat: _Chat, line: int) -> Iterator[list[Record]]:
    """Yield, for each slot whose last version is in this line, the messages that it holds."""
    listed = _listed(record) or []
    for at in chat.last_in.get(line, ()):
        slot = chat.slots[at]
        if slot.is_compaction:
            yield listed
        else:
            yield [record if slot.index is None else listed[slot.index]]


def _step(
    chat: _Chat, at: int, messages: list[Record], rounds: StepBuilder, answered: AnsweredCalls
) -> Iterator[ImportStep]:
    slot = chat.slots[at]
    parent = None if slot.parent is None else str(slot.parent)
    entries = [entry for message in messages for entry in entries_of(message, answered)]
    if slot.is_compaction:
        yield from rounds.compact(str(at), parent, "", entries)
    else:
        yield from rounds.add(str(at), parent, entries)


def _told(reading: ReadReport, record: Record, *, is_used: bool) -> None:
    """Count a line, and keep what it says about the chat."""
    _describe(reading, get_object(record, "$set") or record)
    if is_used:
        reading.used += 1
    elif get_text(record, "id"):
        reading.keep(f"older version/{get_text(record, 'type')}")
    else:
        reading.keep(next(iter(record), "empty"))


def _describe(reading: ReadReport, told: Record) -> None:
    reading.session_id = reading.session_id or get_text(told, "sessionId")


NATIVE = RuntimeFormat(
    name=NAME, runtime="gemini", looks=looks, steps=steps, sent=build_resume_request, writes=writes
)
FORMAT = format_of(NATIVE, "application/jsonl")
