"""Turns: a context as every provider wants it, whatever the context is.

One idea: providers take a conversation in which two sides take turns, the user first; in which
each call is answered at once, just once; and in which nothing is empty. A context holds what
happened. It is brought into that shape here, so that a format only says how a part is written.

The invariant: what came before alone decides how a message is written. The turns of a longer
context begin with those of a shorter one, so what a provider has cached of them stays valid. What
a context lacks at its very end (results, a last word of the user) is added there, and stands in
a later request only where it still lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import msgspec

from harken.core.messages import (
    ChatMessage,
    Content,
    Part,
    TextPart,
    ToolCall,
    ToolCallSlot,
    text_of,
)
from harken.formats.tool_calls import EncodedToolCall, Ids, clean, in_order, wire_call

Block: TypeAlias = dict[str, Any]
Place: TypeAlias = Literal["user", "assistant", "result"]
"""Who says a part; a `result` is said by a tool."""
Write: TypeAlias = Callable[[Part | EncodedToolCall, Place], Block | None]
"""Writes one part, or one call of an assistant; None: it is left out."""

NOTHING = "[nothing was said here]"
"""A turn of the user that a provider demands and that nobody took."""
NO_RESULT = "[no result: this call was never answered]"
NO_OUTPUT = "[no output]"
SYSTEM = "[system]: "
"""Before a system message that comes after the beginning: the cached prefix stays as it is."""
LATE = "[result of an earlier call]: "
"""Before a result whose call is not there, or has one."""


@dataclass(slots=True)
class TurnToolResult:
    """The answer to a call."""

    id: str
    blocks: list[Block]
    is_error: bool


@dataclass(slots=True)
class Turn:
    """What one side says before the other; results stand before all else."""

    speaker: Literal["user", "assistant"]
    blocks: list[Block] = field(default_factory=list)
    results: list[TurnToolResult] = field(default_factory=list)


@dataclass(slots=True)
class AlternatingContext:
    """A context in turns: `take` all messages, then `close`."""

    write: Write
    ids: Ids
    name_length: int
    """How long the name of a tool may be."""
    system: list[str] = field(default_factory=list)
    """The system messages at the beginning."""
    turns: list[Turn] = field(default_factory=list)
    _open: list[tuple[str, EncodedToolCall]] = field(default_factory=list)
    """Calls without a result yet, with the ids that the context knows them by."""

    def take(self, messages: Iterable[ChatMessage]) -> None:
        """Take the next messages, oldest first."""
        for message in messages:
            match message.role:
                case "system":
                    self._instruct(clean(text_of(message.content)))
                case "assistant":
                    self._speak(message)
                case "tool":
                    self._answer(message)
                case "user":
                    self._say("user", self._written(_parts(message.content), "user"))

    def close(self) -> None:
        """Add what is lacking at the end: results, and a word of the user."""
        if self._open:
            self._close_calls()
        if not self.turns or self.turns[-1].speaker == "assistant":
            self._say("user", self._note(NOTHING))

    def _instruct(self, text: str) -> None:
        if not text.strip():
            return
        if self.turns:
            self._say("user", self._note(SYSTEM + text))
        else:
            self.system.append(text)

    def _speak(self, message: ChatMessage) -> None:
        made: list[tuple[str, EncodedToolCall]] = []
        items: list[Part | EncodedToolCall] = []
        for item in in_order(message):
            if isinstance(item, ToolCall):
                made.append((item.id, wire_call(item, self.ids, self.name_length)))
                items.append(made[-1][1])
            else:
                items.append(item)
        blocks = self._written(items, "assistant")
        if not blocks:
            return
        if not self.turns:
            self._say("user", self._note(NOTHING))
        elif self._open and self.turns[-1].speaker == "user":
            self._close_calls()
        self._say("assistant", blocks)
        self._open += made

    def _answer(self, message: ChatMessage) -> None:
        """Take a result; one without an open call is said by the user."""
        blocks = self._written(_parts(message.content), "result")
        for at, (raw, call) in enumerate(self._open):
            if raw == message.tool_call_id:
                del self._open[at]
                self._turn("user").results.append(
                    self._result(call, blocks, is_error=message.is_error)
                )
                return
        self._say("user", self._note(LATE) + (blocks or self._note(NO_OUTPUT)))

    def _close_calls(self) -> None:
        for _, call in self._open:
            result = self._result(call, self._note(NO_RESULT), is_error=True)
            self._turn("user").results.append(result)
        self._open.clear()

    def _result(
        self, call: EncodedToolCall, blocks: list[Block], *, is_error: bool
    ) -> TurnToolResult:
        return TurnToolResult(call.id, blocks or self._note(NO_OUTPUT), is_error)

    def _say(self, speaker: Literal["user", "assistant"], blocks: list[Block]) -> None:
        if blocks:
            self._turn(speaker).blocks += blocks

    def _turn(self, speaker: Literal["user", "assistant"]) -> Turn:
        if not self.turns or self.turns[-1].speaker != speaker:
            self.turns.append(Turn(speaker))
        return self.turns[-1]

    def _note(self, text: str) -> list[Block]:
        return self._written([TextPart(text)], "user")

    def _written(self, items: Iterable[Part | EncodedToolCall], place: Place) -> list[Block]:
        blocks = []
        for item in items:
            if isinstance(item, TextPart):
                if not item.text.strip():
                    continue
                item = msgspec.structs.replace(item, text=clean(item.text))
            block = self.write(item, place)
            if block is not None:
                blocks.append(block)
        return blocks


def _parts(content: Content) -> list[Part]:
    if isinstance(content, str):
        return [TextPart(content)]
    return [part for part in content or () if not isinstance(part, ToolCallSlot)]
