"""Check that a written conversation contains everything that was materialized.

Answers, calls, user messages and the results of each call are separate streams of texts, because
runtimes place calls differently among the texts of an answer. Each materialized text must occur in
the same stream of the written conversation, in order. Exceptions are listed in
`harken.capture.resume.allowed_differences`. The check does not depend on the writer.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

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
from harken.formats.tool_calls import iter_items, parse_json_object, replace_surrogates

ANSWERS, CALLS, USERS, RESULTS = "answers", "calls", "users", "results of call "
_STREAMS_BY_TYPE: dict[type, tuple[str | None, AllowedDifference | None]] = {
    ThinkingPart: ("thinking", THINKING),
    ImagePart: ("images", IMAGES),
    UnknownPart: (None, BLOCKS),
    ToolCall: (CALLS, None),
}
"""Type of a part or call -> its stream, and the difference that allows its absence.

The stream None is that of the message.
"""


@dataclass(frozen=True, slots=True)
class MissingContent:
    """A text that was not written."""

    place: int
    """The index of its message among the materialized ones, from 0."""
    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Completeness:
    """The comparison of a written conversation with the materialized one."""

    lost: tuple[MissingContent, ...]
    allowed: tuple[AllowedDifference, ...]
    """The allowed differences that occurred."""
    absent: dict[int, AllowedDifference | None] = field(default_factory=dict)
    """Indexes of messages of which no text was written, with the allowed difference.

    The difference is None if it is not allowed. A message without text is not absent.
    """


@dataclass(slots=True)
class _TextStream:
    """A stream of texts, with a read position."""

    texts: list[str] = field(default_factory=list)
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


def check_completeness(
    before: Sequence[ConversationEntry], written: Iterable[ConversationEntry]
) -> Completeness:
    """Compare a written conversation with the materialized one."""
    streams: defaultdict[str, _TextStream] = defaultdict(_TextStream)
    reader = _ConversationReader()
    for entry in written:
        for stream, text, _ in reader.texts(entry):
            streams[stream].texts.append(text)
    lost: list[MissingContent] = []
    left_out: dict[AllowedDifference, None] = {}
    absent: dict[int, AllowedDifference | None] = {}
    present: set[int] = set()
    reader = _ConversationReader()
    for index, entry in enumerate(before):
        for stream, text, allowed in reader.texts(entry):
            user_stream = _TextStream(
                streams[USERS].texts
            )  # The result of a missing call is written as a user message.
            stream_texts = streams[stream]
            if allowed is BLOCKS:
                stream_texts = replace(
                    stream_texts
                )  # An optional text must not move the position of required texts.
            if stream_texts.has(text) or (stream.startswith(RESULTS) and user_stream.has(text)):
                present.add(index)
                continue
            reason = allowed
            if is_unread(entry):
                reason = INSTRUCTED if is_client_instructions(entry) else UNREAD
            absent[index] = reason
            if reason is not None:
                left_out[reason] = None
            else:
                lost.append(MissingContent(index, entry.message.role, text))
    fully_absent = {
        index: allowed_reason for index, allowed_reason in absent.items() if index not in present
    }
    return Completeness(tuple(lost), tuple(left_out), fully_absent)


@dataclass(slots=True)
class _ConversationReader:
    """Read the texts of a conversation. Calls are numbered, because their ids may change."""

    calls: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """The numbers of calls without a result, by call id."""
    count: int = 0

    def texts(
        self, entry: ConversationEntry
    ) -> Iterator[tuple[str, str, AllowedDifference | None]]:
        """Yield the texts of a message.

        Each comes with its stream and the difference that allows its absence.
        """
        message = entry.message
        message_stream = ANSWERS if message.role == "assistant" else USERS
        if message.role == "tool":
            open_calls = self.calls[message.tool_call_id or ""]
            message_stream = f"{RESULTS}{open_calls.pop(0) if open_calls else '?'}"
        for item in iter_items(message):
            if isinstance(item, ToolCall):
                if message_stream != ANSWERS:
                    continue  # only models call tools
                self.count += 1
                self.calls[item.id].append(self.count)
            stream, allowed = _STREAMS_BY_TYPE.get(type(item), (message_stream, None))
            text = replace_surrogates(_item_text(item))
            if text.strip():
                yield stream or message_stream, text, allowed


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
