"""Check that a conversation contains everything that was materialized.

The other conversation is a written session, or what a client sent of it. Answers, calls, user
messages and the results of each call are separate streams of texts, because runtimes place calls
differently among the texts of an answer. Each materialized text must occur in the same stream of
the other conversation, in order; a text at another position is reordered, not lost. Calls are
matched by their ids. Exceptions are listed in `harken.capture.resume.allowed_differences`. The
check does not depend on the writer.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher

import msgspec

from harken.capture.resume.allowed_differences import (
    BLOCKS,
    IMAGES,
    INSTRUCTED,
    THINKING,
    UNREAD,
    AllowedDifference,
)
from harken.core.messages import ImagePart, Part, TextPart, ThinkingPart, ToolCall, UnknownPart
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.normalize import is_client_instructions, is_unread
from harken.formats.runtimes.target import ID_LENGTH
from harken.formats.tool_calls import (
    iter_items,
    parse_json_object,
    replace_surrogates,
    sanitize_name,
)

ANSWERS, CALLS, USERS, RESULTS = "answers", "calls", "users", "results of call "
NO_CALL = f"{RESULTS}?"
_STREAMS_BY_TYPE: dict[type, tuple[str | None, AllowedDifference | None]] = {
    ThinkingPart: ("thinking", THINKING),
    ImagePart: ("images", IMAGES),
    UnknownPart: (None, BLOCKS),
    ToolCall: (CALLS, None),
}
"""Type of a part or call -> its stream, and the difference that allows its absence.

The stream None is that of the message.
"""


class MissingContent(msgspec.Struct, frozen=True):
    """A text that is missing, or stands at another position."""

    place: int
    """The index of its message among the materialized ones, from 0."""
    role: str
    text: str


class Completeness(msgspec.Struct, frozen=True):
    """The comparison of another conversation with the materialized one."""

    lost: tuple[MissingContent, ...]
    allowed: tuple[AllowedDifference, ...]
    """The allowed differences that occurred."""
    absent: dict[int, AllowedDifference | None] = msgspec.field(default_factory=dict)
    """Indexes of messages of which no text was written, with the allowed difference.

    The difference is None if it is not allowed. A message without text is not absent.
    """
    reordered: tuple[MissingContent, ...] = ()
    """Texts that the other conversation contains at another position of their stream."""


class _Call(msgspec.Struct, frozen=True):
    """A call, by its number among all calls of a conversation."""

    number: int
    id: str
    arguments: str
    is_read: bool


class _StreamText(msgspec.Struct, frozen=True):
    """A text of a message, in its stream."""

    place: int
    stream: str
    text: str
    allowed: AllowedDifference | None


def check_completeness(
    before: Sequence[ConversationEntry], after: Iterable[ConversationEntry]
) -> Completeness:
    """Compare another conversation with the materialized one."""
    reader, other_reader = _ConversationReader(), _ConversationReader()
    texts = [text for place, entry in enumerate(before) for text in reader.texts(place, entry)]
    other_texts = [text for entry in after for text in other_reader.texts(0, entry)]
    numbers = _match_calls(reader.calls, other_reader.calls)
    streams: defaultdict[str, list[str]] = defaultdict(list)
    for text in other_texts:
        streams[_renumber(text.stream, numbers)].append(text.text)
    states = _find_texts(texts, streams)
    lost_texts: list[MissingContent] = []
    reordered: list[MissingContent] = []
    allowed: dict[AllowedDifference, None] = {}
    absent: dict[int, AllowedDifference | None] = {}
    for text, state in zip(texts, states, strict=True):
        entry, reason = before[text.place], text.allowed
        missing = MissingContent(text.place, entry.message.role, text.text)
        if is_unread(entry):
            reason = INSTRUCTED if is_client_instructions(entry) else UNREAD
        if state == "lost":
            absent[text.place] = reason
        if state == "lost" and reason is not None:
            allowed[reason] = None
        elif state == "lost":
            lost_texts.append(missing)
        elif state == "reordered" and reason is None:
            reordered.append(missing)
    present = {text.place for text, state in zip(texts, states, strict=True) if state != "lost"}
    fully_absent = {place: reason for place, reason in absent.items() if place not in present}
    return Completeness(tuple(lost_texts), tuple(allowed), fully_absent, tuple(reordered))


def _find_texts(texts: Sequence[_StreamText], streams: Mapping[str, list[str]]) -> list[str]:
    """Return whether each text is `present`, `reordered` or `lost`."""
    states = ["lost"] * len(texts)
    by_stream: defaultdict[str, list[int]] = defaultdict(list)
    for index, text in enumerate(texts):
        if text.allowed is BLOCKS:  # An optional text must not take the place of a required one.
            is_present = any(text.text in candidate for candidate in streams.get(text.stream, ()))
            states[index] = "present" if is_present else "lost"
        else:
            by_stream[text.stream].append(index)
    for stream, indexes in by_stream.items():
        aligned = _align([texts[index].text for index in indexes], streams.get(stream, []))
        for index, state in zip(indexes, aligned, strict=True):
            late = _late_results(stream, streams) if state == "lost" else ()
            states[index] = "present" if any(texts[index].text in t for t in late) else state
    return states


def _late_results(stream: str, streams: Mapping[str, list[str]]) -> list[str]:
    """Return the texts in which a result of a stream may stand instead.

    The result of a missing call is written as a user message, or stands alone. A second result, or
    one without a call, may be that of another call with the same id.
    """
    if not stream.startswith(RESULTS):
        return []
    is_without_call = stream == NO_CALL
    names = [name for name in streams if name == USERS or name.startswith(RESULTS)]
    return [
        text
        for name in names
        if is_without_call or not name.removeprefix(RESULTS).isdecimal()
        for text in streams[name]
    ]


def _align(texts: Sequence[str], candidates: Sequence[str]) -> list[str]:
    """Return the states of the texts of a stream. Several may be joined in one candidate.

    If a text is not found in order, equal texts are aligned first, so that one missing text does
    not move the following ones.
    """
    stream = _TextStream(list(candidates))
    missing = [not stream.has(text) for text in texts]
    if not any(missing):
        return ["present"] * len(texts)
    aligned = _align_equal(texts, candidates)
    if sum(missing) < sum(state != "present" for state in aligned):
        return ["lost" if is_missing else "present" for is_missing in missing]
    return aligned


def _align_equal(texts: Sequence[str], candidates: Sequence[str]) -> list[str]:
    states, free = ["present"] * len(texts), dict.fromkeys(range(len(candidates)))
    gaps: list[tuple[range, range]] = []
    matcher = SequenceMatcher(None, texts, candidates, autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            for index in range(j1, j2):
                del free[index]
        elif i1 < i2:
            gaps.append((range(i1, i2), range(j1, j2)))
    for indexes, places in gaps:
        stream = _TextStream([candidates[place] for place in places])
        for index in indexes:
            if not stream.has(texts[index]):
                is_elsewhere = any(texts[index] in candidates[place] for place in free)
                states[index] = "reordered" if is_elsewhere else "lost"
    return states


class _TextStream(msgspec.Struct):
    """A part of a stream of texts, with a read position."""

    texts: list[str]
    position: int = 0
    within: int = 0

    def has(self, text: str) -> bool:
        """Whether a text occurs after the read position. If so, the position moves behind it."""
        for index in range(self.position, len(self.texts)):
            offset = self.texts[index].find(text, self.within if index == self.position else 0)
            if offset >= 0:
                self.position, self.within = index, offset + len(text)
                return True
        return False


class _ConversationReader(msgspec.Struct):
    """Reads the texts of a conversation. Calls are numbered, because ids may occur twice."""

    calls: list[_Call] = msgspec.field(default_factory=list)
    _open: dict[str, list[int]] = msgspec.field(default_factory=dict)
    """The numbers of calls without a result, by call id."""

    def texts(self, place: int, entry: ConversationEntry) -> Iterator[_StreamText]:
        """Yield the texts of a message, with their streams."""
        message = entry.message
        message_stream = ANSWERS if message.role == "assistant" else USERS
        if message.role == "tool":
            numbers = self._open.get(message.tool_call_id or "", [])
            message_stream = f"{RESULTS}{numbers.pop(0)}" if numbers else NO_CALL
        answer_calls: dict[str, list[int]] = {}
        for item in iter_items(message):
            text = replace_surrogates(_item_text(item))
            if isinstance(item, ToolCall):
                if message_stream != ANSWERS:
                    continue  # Only models call tools.
                number = len(self.calls)
                self.calls.append(_Call(number, item.id, text, not is_unread(entry)))
                answer_calls.setdefault(item.id, []).append(number)
            stream, allowed = _STREAMS_BY_TYPE.get(type(item), (message_stream, None))
            if text.strip():
                yield _StreamText(place, stream or message_stream, text, allowed)
        self._open |= answer_calls  # A later call with the same id closes the earlier one.


def _match_calls(calls: Sequence[_Call], others: Sequence[_Call]) -> dict[str, str]:
    """Return the number of each call of the other conversation in the materialized one.

    Calls are matched by their ids, then by their arguments, in order. Calls that no model read,
    such as those of an aborted answer, are matched last.
    """
    numbers: dict[str, str] = {}
    remaining = sorted(calls, key=lambda call: not call.is_read)
    matched_numbers: set[int] = set()
    for key in (_id_key, _arguments_key):
        free: defaultdict[str, deque[int]] = defaultdict(deque)
        for candidate in others:
            if candidate.number not in matched_numbers:
                free[key(candidate)].append(candidate.number)
        unmatched = []
        for call in remaining:
            if free[key(call)]:
                number = free[key(call)].popleft()
                matched_numbers.add(number)
                numbers[str(number)] = str(call.number)
            else:
                unmatched.append(call)
        remaining = unmatched
    return numbers


def _id_key(call: _Call) -> str:
    return sanitize_name(call.id, ID_LENGTH)


def _arguments_key(call: _Call) -> str:
    return call.arguments


def _renumber(stream: str, numbers: Mapping[str, str]) -> str:
    if not stream.startswith(RESULTS) or stream == NO_CALL:
        return stream
    number = stream.removeprefix(RESULTS)
    return RESULTS + numbers.get(number, f"other {number}")


def _item_text(item: Part | ToolCall) -> str:
    if isinstance(item, TextPart):
        return item.text.strip()
    if isinstance(item, ToolCall):
        arguments = parse_json_object(item.function.arguments)
        if arguments is None:
            raw_arguments = item.function.arguments
            return json.dumps(
                {"input": replace_surrogates(raw_arguments)} if raw_arguments.strip() else {}
            )
        return json.dumps(arguments, sort_keys=True)
    if isinstance(item, ThinkingPart):
        return item.text
    if isinstance(item, ImagePart):
        return item.data or item.url or ""
    return item.data if isinstance(item, UnknownPart) else ""
