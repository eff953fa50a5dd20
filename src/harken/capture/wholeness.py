"""Whether a written conversation says all that was materialized.

One idea: what answers said and called, what users said, and what tools returned are streams of
texts. Each text of what was materialized must stand in the same stream of what was written, in its
order; what may be left out is in `harken.capture.allowed`. So a writer is not its own judge.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from harken.capture.allowed import BLOCKS, IMAGES, THOUGHTS, UNREAD, Allowed
from harken.core.messages import ImagePart, OtherPart, Part, TextPart, ThinkingPart, ToolCall
from harken.formats.base import WholeEntry
from harken.formats.calls import as_object, clean, in_order
from harken.formats.fitted import is_unread

Stream: TypeAlias = Literal["answers", "users", "results", "thoughts", "images"]
_PLACES: dict[type, tuple[Stream | None, Allowed]] = {
    ThinkingPart: ("thoughts", THOUGHTS),
    ImagePart: ("images", IMAGES),
    OtherPart: (None, BLOCKS),
}
"""The streams of parts that may be left out; None: that of their message."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Something that was not written."""

    place: int
    """Of its message among those that were materialized, from 0."""
    role: str
    what: str


@dataclass(frozen=True, slots=True)
class Wholeness:
    """What was written of a conversation."""

    lost: tuple[Lost, ...]
    left_out: tuple[Allowed, ...]
    """What was found that may be left out."""


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


def wholeness(before: Sequence[WholeEntry], written: Iterable[WholeEntry]) -> Wholeness:
    """Return what a written conversation lacks of that which it is made of."""
    streams: defaultdict[Stream, _Said] = defaultdict(_Said)
    for entry in written:
        for stream, text, _ in _texts(entry):
            streams[stream].texts.append(text)
    lost: list[Lost] = []
    left_out: dict[Allowed, None] = {}
    for place, entry in enumerate(before):
        for stream, text, allowed in _texts(entry):
            later = _Said(streams["users"].texts)  # a result whose call is not there is told
            if streams[stream].has(text) or (stream == "results" and later.has(text)):
                continue
            if is_unread(entry):
                left_out[UNREAD] = None
            elif allowed is not None:
                left_out[allowed] = None
            else:
                lost.append(Lost(place, entry.message.role, text))
    return Wholeness(tuple(lost), tuple(left_out))


def _texts(entry: WholeEntry) -> Iterator[tuple[Stream, str, Allowed | None]]:
    """Yield the texts of a message, where they stand, and what allows that one is left out."""
    streams: dict[str, Stream] = {"assistant": "answers", "tool": "results"}
    own = streams.get(entry.message.role, "users")
    for item in in_order(entry.message):
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
            return json.dumps({"input": item.function.arguments})
        return json.dumps(arguments, sort_keys=True)
    if isinstance(item, ThinkingPart):
        return item.text
    if isinstance(item, ImagePart):
        return item.data or item.url or ""
    return item.data if isinstance(item, OtherPart) else ""
