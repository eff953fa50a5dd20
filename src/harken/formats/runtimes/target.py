"""`TargetRules`: the parts of entries of other runtimes that a runtime accepts.

Entries that the target wrote stay unchanged, and of all others only common parts remain: texts,
calls, images. Thoughts are dropped, unless the target can verify them; a block that only its own
provider knows is described. `harken.formats.runtimes.normalize` arranges the entries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from harken.core import structs
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
    parts_of,
)
from harken.formats.base import ConversationEntry
from harken.formats.images import to_sendable_image
from harken.formats.providers.alternation import NO_RESULT_TEXT
from harken.formats.tool_calls import (
    CallIds,
    Ids,
    build_assistant_message,
    encode_tool_call,
    iter_items,
    normalize_content,
    replace_surrogates,
)

ID_LENGTH = NAME_LENGTH = 64
"""The limit of all providers."""
MAX_FOREIGN_BLOCK_CHARS = 2_000
"""The maximum number of characters of a foreign block that are included."""
_THINKING_KINDS = frozenset({"redacted_thinking", "reasoning"})
"""Types of blocks that are thoughts."""

Block: TypeAlias = ThinkingPart | UnknownPart


def _is_never(entry: ConversationEntry) -> bool:
    del entry
    return False


def _create_call_ids() -> Ids:
    return CallIds(ID_LENGTH)


class TargetRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a target."""

    owns: Callable[[ConversationEntry], bool]
    """Whether the target wrote an entry itself: then parts keep their metadata and the members that
    no field carries, and empty parts stay."""
    accepts: Callable[[ConversationEntry, Block], bool] | None = None
    """Whether the target accepts a thought, or a block of an unknown type, unchanged.

    None for those of entries that it owns.
    """
    is_aside: Callable[[ConversationEntry], bool] = _is_never
    """Whether an entry of the target is not sent to providers: it stays, and is ignored in the
    order of turns."""
    ids: Callable[[], Ids] = _create_call_ids
    """Creates the assigner of call ids for one conversation."""
    name_length: int = NAME_LENGTH
    has_system: bool = False
    """Whether the target has system messages; else they become user messages."""
    has_notifications: bool = False
    """Whether the target marks notifications itself: its own ones then stay as they are."""
    has_free_calls: bool = False
    """Whether calls of type `custom` have free text; else the text is wrapped in `input`."""
    has_result_images: bool = True
    """Whether results may hold images; else a following user message holds them."""
    has_error_images: bool = True
    """Whether error results may hold images, too."""
    has_image_urls: bool = True
    """Whether images may be URLs; else the URL becomes a text."""
    has_answers_in_a_row: bool = False
    """Whether an answer may follow one without calls; else they are merged."""
    has_calls_last: bool = False
    """Whether calls must follow all other parts in an answer that the target did not write."""
    no_result: str = NO_RESULT_TEXT
    """The text of the error result of an open call."""

    def convert_items(self, entry: ConversationEntry, ids: Ids) -> list[Part | ToolCall]:
        """Return the converted parts and calls of an answer, each call with a new id."""
        items_: list[Part | ToolCall] = []
        for item in iter_items(entry.message):
            if isinstance(item, ToolCall):
                items_.append(self._convert_call(entry, item, ids))
            else:
                items_ += self._convert_part(entry, item)
        return items_

    def build_answer(self, items: Sequence[Part | ToolCall]) -> Message:
        """Return a message for a foreign or a merged answer."""
        if self.has_calls_last:
            return build_assistant_message(
                sorted(items, key=lambda item: isinstance(item, ToolCall))
            )
        return build_assistant_message(items)

    def convert_content(self, entry: ConversationEntry) -> Content:
        """Return the converted content of any other message. Return None if it is empty."""
        original = parts_of(entry.message.content)
        parts = [converted for part in original for converted in self._convert_part(entry, part)]
        return entry.message.content if parts and parts == original else normalize_content(parts)

    def _convert_call(self, entry: ConversationEntry, call: ToolCall, ids: Ids) -> ToolCall:
        wire = encode_tool_call(call, ids, self.name_length)
        kind, function = "function", FunctionCall(wire.name, wire.text)
        if call.type == "custom" and self.has_free_calls:
            function = FunctionCall(wire.name, replace_surrogates(call.function.arguments))
            kind = "custom"
        if not self.owns(entry):
            return ToolCall(wire.id, function, kind)
        return ToolCall(wire.id, function, kind, call.meta, call.extra)

    def _convert_part(self, entry: ConversationEntry, part: Part) -> list[Part]:
        """Return the converted part, or an empty list."""
        is_own = self.owns(entry)
        if isinstance(part, TextPart):
            text = replace_surrogates(part.text)
            if is_own:
                return [TextPart(text, part.meta, part.extra)]
            return [TextPart(text)] if part.text.strip() else []
        if isinstance(part, ImagePart):
            return [self._convert_image(entry, part)]
        if is_own if self.accepts is None else self.accepts(entry, part):
            return [part]
        is_described = isinstance(part, UnknownPart) and part.kind not in _THINKING_KINDS
        return (
            [describe_foreign_block(part)] if isinstance(part, UnknownPart) and is_described else []
        )

    def _convert_image(self, entry: ConversationEntry, image: ImagePart) -> Part:
        sendable_image = to_sendable_image(image)
        if isinstance(sendable_image, TextPart):
            return sendable_image
        is_fetched = sendable_image.data is None
        if entry.message.role == "assistant" or (is_fetched and not self.has_image_urls):
            return TextPart(
                f"[an image: {sendable_image.url if is_fetched else sendable_image.media_type}]"
            )
        return (
            structs.replace(sendable_image, meta=image.meta, extra=image.extra)
            if self.owns(entry)
            else sendable_image
        )


def describe_foreign_block(part: UnknownPart) -> TextPart:
    """Return a text for a block that only its own provider knows.

    >>> describe_foreign_block(UnknownPart("web_search_call", '{"query":"tea"}')).text
    '[web_search_call] {"query":"tea"}'
    """
    if len(part.data) <= MAX_FOREIGN_BLOCK_CHARS and "encrypted" not in part.data:
        return TextPart(replace_surrogates(f"[{part.kind}] {part.data}"))
    return TextPart(
        f"[a block of the kind {part.kind[:MAX_FOREIGN_BLOCK_CHARS]!a} that cannot be shown]"
    )


def has_metadata(entry: ConversationEntry, member: str) -> bool:
    """Whether an entry has metadata of one runtime."""
    metas = [item.meta for item in iter_items(entry.message)]
    return any(isinstance(meta, dict) and member in meta for meta in [entry.source, *metas])
