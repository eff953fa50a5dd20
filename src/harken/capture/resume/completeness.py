"""Whether a written conversation says all that was materialized.

One idea: what answers said, what they called, what users said, and what each call returned are
streams of texts: where a call stands among the words of its answer is not the same everywhere. Each
text of what was materialized must stand in the same stream of what was written, in its order; what
may be left out is in `harken.capture.resume.allowed_differences`. So a writer is not its own judge.
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
    THOUGHTS,
    UNREAD,
    AllowedDifference,
)
from harken.core.messages import ImagePart, Part, TextPart, ThinkingPart, ToolCall, UnknownPart
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.normalize import instructs, is_unread
from harken.formats.tool_calls import as_object, clean, in_order

ANSWERS, CALLS, USERS, RESULTS = "answers", "calls", "users", "results of call "
_PLACES: dict[type, tuple[str | None, AllowedDifference | None]] = {
    ThinkingPart: ("thoughts", THOUGHTS),
    ImagePart: ("images", IMAGES),
    UnknownPart: (None, BLOCKS),
    ToolCall: (CALLS, None),
}
"""The streams of parts and calls, and what allows to leave one out. A stream that is None is that
of their message."""


@dataclass(frozen=True, slots=True)
class MissingContent:
    """Something that was not written."""

    place: int
    """Of its message among those that were materialized, from 0."""
    role: str
    what: str


@dataclass(frozen=True, slots=True)
class Completeness:
    """What was written of a conversation."""

    lost: tuple[MissingContent, ...]
    left_out: tuple[AllowedDifference, ...]
    """What was found that may be left out."""
    absent: dict[int, AllowedDifference | None] = field(default_factory=dict)
    """The places of messages of which nothing was written, and why that may be; None: it may not.
    A message that says nothing is not absent."""


@dataclass(slots=True)
class _Said:
    """A stream of texts, and how far it was read."""

    texts: list[str] = field(default_factory=list)
    at: int = 0
    within: int = 0

    def has(self, text: str) -> bool:
        """Whether a text stands in it, from where it was read; it is read on to there."""
        for at in range(self.at, len(self.texts)):
            found = self.texts[at].find(text, self.within if at == self.at else 0)
            if found >= 0:
                self.at, self.within = at, found + len(text)
                return True
        return False


def wholeness(
    before: Sequence[ConversationEntry], written: Iterable[ConversationEntry]
) -> Completeness:
    """Return what a written conversation lacks of that which it is made of."""
    streams: defaultdict[str, _Said] = defaultdict(_Said)
    reader = _Reader()
    for entry in written:
        for stream, text, _ in reader.texts(entry):
            streams[stream].texts.append(text)
    lost: list[MissingContent] = []
    left_out: dict[AllowedDifference, None] = {}
    absent: dict[int, AllowedDifference | None] = {}
    present: set[int] = set()
    reader = _Reader()
    for place, entry in enumerate(before):
        for stream, text, allowed in reader.texts(entry):
            told = _Said(streams[USERS].texts)  # a result whose call is not there
            said = streams[stream]
            if allowed is BLOCKS:
                said = replace(said)  # what may not be there takes no place from what must be
            if said.has(text) or (stream.startswith(RESULTS) and told.has(text)):
                present.add(place)
                continue
            reason = allowed
            if is_unread(entry):
                reason = INSTRUCTED if instructs(entry) else UNREAD
            absent[place] = reason
            if reason is not None:
                left_out[reason] = None
            else:
                lost.append(MissingContent(place, entry.message.role, text))
    nothing = {place: why for place, why in absent.items() if place not in present}
    return Completeness(tuple(lost), tuple(left_out), nothing)


@dataclass(slots=True)
class _Reader:
    """Reads the texts of a conversation. Calls are known by their order: their ids may change."""

    calls: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Those without a result, by their ids."""
    count: int = 0

    def texts(
        self, entry: ConversationEntry
    ) -> Iterator[tuple[str, str, AllowedDifference | None]]:
        """Yield the texts of a message, where they stand, and what allows to leave one out."""
        message = entry.message
        own = ANSWERS if message.role == "assistant" else USERS
        if message.role == "tool":
            waiting = self.calls[message.tool_call_id or ""]
            own = f"{RESULTS}{waiting.pop(0) if waiting else '?'}"
        for item in in_order(message):
            if isinstance(item, ToolCall):
                if own != ANSWERS:
                    continue  # only models call tools
                self.count += 1
                self.calls[item.id].append(self.count)
            stream, allowed = _PLACES.get(type(item), (own, None))
            text = clean(_text(item))
            if text.strip():
                yield stream or own, text, allowed


def _text(item: Part | ToolCall) -> str:
    if isinstance(item, TextPart):
        return item.text.strip()
    if isinstance(item, ToolCall):
        arguments = as_object(item.function.arguments)
        if arguments is None:
            free = item.function.arguments
            return json.dumps({"input": clean(free)} if free.strip() else {})
        return json.dumps(arguments, sort_keys=True)
    if isinstance(item, ThinkingPart):
        return item.text
    if isinstance(item, ImagePart):
        return item.data or item.url or ""
    return item.data if isinstance(item, UnknownPart) else ""
