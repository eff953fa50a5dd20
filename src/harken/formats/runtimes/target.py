"""`TargetRules`: what a runtime takes of an entry that may be somebody else's, part by part.

One idea: what the target wrote itself stays as it is, and of all else only what everybody
understands goes on: texts, calls, images. Thoughts go, unless the target can verify them; a block
that only its own provider knows is told. How entries follow each other is
`harken.formats.runtimes.normalize`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from harken.core.messages import (
    Content,
    FunctionCall,
    ImagePart,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    UnknownPart,
)
from harken.formats.base import ConversationEntry
from harken.formats.images import sendable
from harken.formats.providers.alternation import NO_RESULT
from harken.formats.tool_calls import CallIds, Ids, clean, content_of, in_order, spoken, wire_call

ID_LENGTH = NAME_LENGTH = 64
"""What all providers take."""
MOST_TOLD = 2_000
"""How many characters of a block that only another provider knows are told."""
_HIDDEN = frozenset({"redacted_thinking", "reasoning"})
"""Kinds of blocks that are thoughts."""

Block: TypeAlias = ThinkingPart | UnknownPart


def _never(entry: ConversationEntry) -> bool:
    del entry
    return False


def _call_ids() -> Ids:
    return CallIds(ID_LENGTH)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRules:
    """What a target accepts."""

    owns: Callable[[ConversationEntry], bool]
    """Whether it wrote an entry itself: then parts keep what only it knows, also empty ones."""
    takes: Callable[[ConversationEntry, Block], bool] | None = None
    """Whether it takes a thought, or a block that Harken has no kind for, as it is.

    None: those of entries that it owns.
    """
    is_aside: Callable[[ConversationEntry], bool] = _never
    """Whether an entry is of its own that no provider reads: it stays, and counts as nothing."""
    ids: Callable[[], Ids] = _call_ids
    """Gives what names the calls of one conversation."""
    name_length: int = NAME_LENGTH
    has_system: bool = False
    """Whether it can say what the system said; else a user tells it."""
    has_free_calls: bool = False
    """Whether calls of type `custom` take free text; else that stands below `input`."""
    has_result_images: bool = True
    """Whether results may hold images; else a message of the user after them does."""
    has_error_images: bool = True
    """Whether so may results that are errors."""
    has_image_urls: bool = True
    """Whether it shows images that it must fetch; else their address is told."""
    has_answers_in_a_row: bool = False
    """Whether an answer may follow one that has no calls; else they become one."""
    has_calls_last: bool = False
    """Whether calls stand after all else in an answer that it did not write itself."""
    no_result: str = NO_RESULT
    """The result of a call that nobody answered; an error."""

    def items(self, entry: ConversationEntry, ids: Ids) -> list[Part | ToolCall]:
        """Return what becomes of the parts and calls of an answer, each call with a new id."""
        found: list[Part | ToolCall] = []
        for item in in_order(entry.message):
            if isinstance(item, ToolCall):
                found.append(self._call(entry, item, ids))
            else:
                found += self._part(entry, item)
        return found

    def answer(self, items: Sequence[Part | ToolCall]) -> Message:
        """Return an answer that others wrote, or several did."""
        if self.has_calls_last:
            return spoken(sorted(items, key=lambda item: isinstance(item, ToolCall)))
        return spoken(items)

    def content(self, entry: ConversationEntry) -> Content:
        """Return what becomes of the content of any other message; None: nothing is left."""
        before = message_parts(entry.message)
        parts = [kept for part in before for kept in self._part(entry, part)]
        return entry.message.content if parts and parts == before else content_of(parts)

    def _call(self, entry: ConversationEntry, call: ToolCall, ids: Ids) -> ToolCall:
        wire = wire_call(call, ids, self.name_length)
        meta = call.meta if self.owns(entry) else msgspec.UNSET
        if call.type == "custom" and self.has_free_calls:
            given = FunctionCall(wire.name, clean(call.function.arguments))
            return ToolCall(wire.id, given, "custom", meta)
        return ToolCall(wire.id, FunctionCall(wire.name, wire.text), meta=meta)

    def _part(self, entry: ConversationEntry, part: Part) -> list[Part]:
        """Return what becomes of a part: itself, another one, or nothing."""
        is_own = self.owns(entry)
        if isinstance(part, TextPart):
            kept = TextPart(clean(part.text), part.meta if is_own else None)
            return [kept] if is_own or part.text.strip() else []
        if isinstance(part, ImagePart):
            return [self._image(entry, part)]
        if is_own if self.takes is None else self.takes(entry, part):
            return [part]
        is_told = isinstance(part, UnknownPart) and part.kind not in _HIDDEN
        return [describe_foreign_block(part)] if isinstance(part, UnknownPart) and is_told else []

    def _image(self, entry: ConversationEntry, image: ImagePart) -> Part:
        shown = sendable(image)
        if isinstance(shown, TextPart):
            return shown
        is_fetched = shown.data is None
        if entry.message.role == "assistant" or (is_fetched and not self.has_image_urls):
            return TextPart(f"[an image: {shown.url if is_fetched else shown.media_type}]")
        return msgspec.structs.replace(shown, meta=image.meta) if self.owns(entry) else shown


def describe_foreign_block(part: UnknownPart) -> TextPart:
    """Return what is told of a block that only its own provider knows.

    >>> describe_foreign_block(UnknownPart("web_search_call", '{"query":"tea"}')).text
    '[web_search_call] {"query":"tea"}'
    """
    if len(part.data) <= MOST_TOLD and "encrypted" not in part.data:
        return TextPart(clean(f"[{part.kind}] {part.data}"))
    return TextPart(f"[a block of the kind {part.kind[:MOST_TOLD]!a} that cannot be shown]")


def has_own(entry: ConversationEntry, own: str) -> bool:
    """Whether something of an entry has a member that only one runtime writes."""
    metas = [item.meta for item in in_order(entry.message)]
    return any(isinstance(one, dict) and own in one for one in [entry.source, *metas])


def message_parts(message: Message) -> list[Part]:
    """Return the parts of a message, without its calls."""
    return [item for item in in_order(message) if not isinstance(item, ToolCall)]
