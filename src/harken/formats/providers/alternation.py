"""Conversion of a context into alternating turns that every provider accepts.

Providers require a conversation in which user and assistant alternate, the user first; in which
each call is answered at once and exactly once; and in which nothing is empty. A context holds what
happened. It is normalized here, so that a format only defines how a part is written.

The invariant: a message is written depending only on the messages before it. The turns of a longer
context begin with those of a shorter one, so the provider's cache of them stays valid. Data that a
context lacks at its very end (results, a last user message) is added there, and stands in a later
request only if it is still missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias

import msgspec

from harken.core import structs
from harken.core.messages import (
    ChatMessage,
    Part,
    TextPart,
    ToolCall,
    parts_of,
    text_of,
)
from harken.formats.tool_calls import (
    EncodedToolCall,
    Ids,
    encode_tool_call,
    iter_items,
    replace_surrogates,
)

Block: TypeAlias = dict[str, Any]
PartSpeaker: TypeAlias = Literal["user", "assistant", "result"]
"""The speaker of a part; a `result` is from a tool."""
PartWriter: TypeAlias = Callable[[Part | EncodedToolCall, PartSpeaker], Block | None]
"""Writes one part, or one call of an assistant. Returns None to omit it."""

EMPTY_TURN_TEXT = "[nothing was said here]"
"""The text of a user turn that a provider requires but the context does not have."""
NO_RESULT_TEXT = "[no result: this call was never answered]"
NO_OUTPUT_TEXT = "[no output]"
SYSTEM_PREFIX = "[system]: "
"""The prefix of a system message after the beginning; the cached prefix of the context stays
unchanged.
"""
LATE_RESULT_PREFIX = "[result of an earlier call]: "
"""The prefix of a result without an open call."""


class TurnToolResult(msgspec.Struct):
    """The result of a call."""

    id: str
    blocks: list[Block]
    is_error: bool


class Turn(msgspec.Struct):
    """The parts of one speaker before the other speaks. Results precede all other blocks."""

    speaker: Literal["user", "assistant"]
    blocks: list[Block] = msgspec.field(default_factory=list)
    results: list[TurnToolResult] = msgspec.field(default_factory=list)


class AlternatingContext(msgspec.Struct):
    """Builds the turns of a context: `add` all messages, then `close`."""

    write: PartWriter
    ids: Ids
    name_length: int
    """The maximum length of a tool name."""
    system: list[str] = msgspec.field(default_factory=list)
    """The system messages at the beginning."""
    turns: list[Turn] = msgspec.field(default_factory=list)
    _open_calls: list[tuple[str, EncodedToolCall]] = msgspec.field(default_factory=list)
    """Calls without a result yet, with their ids in the context."""

    def add(self, messages: Iterable[ChatMessage]) -> None:
        """Add the next messages, oldest first."""
        for message in messages:
            match message.role:
                case "system":
                    self._add_system(replace_surrogates(text_of(message.content)))
                case "assistant":
                    self._add_assistant(message)
                case "tool":
                    self._add_result(message)
                case "user":
                    self._append_blocks(
                        "user", self._write_blocks(parts_of(message.content), "user")
                    )

    def close(self) -> None:
        """Add the missing results and the missing user message at the end."""
        if self._open_calls:
            self._close_open_calls()
        if not self.turns or self.turns[-1].speaker == "assistant":
            self._append_blocks("user", self._note_blocks(EMPTY_TURN_TEXT))

    def _add_system(self, text: str) -> None:
        if not text.strip():
            return
        if self.turns:
            self._append_blocks("user", self._note_blocks(SYSTEM_PREFIX + text))
        else:
            self.system.append(text)

    def _add_assistant(self, message: ChatMessage) -> None:
        calls: list[tuple[str, EncodedToolCall]] = []
        items: list[Part | EncodedToolCall] = []
        for item in iter_items(message):
            if isinstance(item, ToolCall):
                calls.append((item.id, encode_tool_call(item, self.ids, self.name_length)))
                items.append(calls[-1][1])
            else:
                items.append(item)
        blocks = self._write_blocks(items, "assistant")
        if not blocks:
            return
        if not self.turns:
            self._append_blocks("user", self._note_blocks(EMPTY_TURN_TEXT))
        elif self._open_calls and self.turns[-1].speaker == "user":
            self._close_open_calls()
        self._append_blocks("assistant", blocks)
        self._open_calls += calls

    def _add_result(self, message: ChatMessage) -> None:
        """Add a result. A result without an open call becomes a user message."""
        blocks = self._write_blocks(parts_of(message.content), "result")
        for index, (raw, call) in enumerate(self._open_calls):
            if raw == message.tool_call_id:
                del self._open_calls[index]
                self._current_turn("user").results.append(
                    self._build_result(call, blocks, is_error=message.is_error)
                )
                return
        self._append_blocks(
            "user",
            self._note_blocks(LATE_RESULT_PREFIX) + (blocks or self._note_blocks(NO_OUTPUT_TEXT)),
        )

    def _close_open_calls(self) -> None:
        for _, call in self._open_calls:
            result = self._build_result(call, self._note_blocks(NO_RESULT_TEXT), is_error=True)
            self._current_turn("user").results.append(result)
        self._open_calls.clear()

    def _build_result(
        self, call: EncodedToolCall, blocks: list[Block], *, is_error: bool
    ) -> TurnToolResult:
        return TurnToolResult(call.id, blocks or self._note_blocks(NO_OUTPUT_TEXT), is_error)

    def _append_blocks(self, speaker: Literal["user", "assistant"], blocks: list[Block]) -> None:
        if blocks:
            self._current_turn(speaker).blocks += blocks

    def _current_turn(self, speaker: Literal["user", "assistant"]) -> Turn:
        if not self.turns or self.turns[-1].speaker != speaker:
            self.turns.append(Turn(speaker))
        return self.turns[-1]

    def _note_blocks(self, text: str) -> list[Block]:
        return self._write_blocks([TextPart(text)], "user")

    def _write_blocks(
        self, items: Iterable[Part | EncodedToolCall], place: PartSpeaker
    ) -> list[Block]:
        blocks = []
        for item in items:
            if isinstance(item, TextPart):
                if not item.text.strip():
                    continue
                item = structs.replace(item, text=replace_surrogates(item.text))
            block = self.write(item, place)
            if block is not None:
                blocks.append(block)
        return blocks
