"""Anthropic Messages: the events of an answer that streams, as chunks.

Source: docs/formats/anthropic-messages.md, "Streaming".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from harken.core import canonical
from harken.core.events import Usage
from harken.core.messages import ImagePart, Meta, UnknownPart
from harken.core.stream import Chunk, Finish, PartDelta, TextDelta, ThinkingDelta, ToolCallDelta
from harken.formats.providers.anthropic import THINKER, read_block
from harken.formats.tool_calls import MAX_COUNT, CallPositions, as_object


@dataclass(slots=True)
class _Block:
    """A content block while it arrives."""

    start: dict[str, Any]
    call: int = -1
    """Which call of the answer it is, from 0."""
    arguments: list[str] = field(default_factory=list)
    signature: str = ""
    citations: list[Any] = field(default_factory=list)
    is_empty: bool = True


@dataclass(slots=True)
class AnthropicStreamDecoder:
    """Turns the events of one answer into chunks, in their order."""

    model: str | None = None
    """Whom the request went to: what it thinks is marked with it, and goes back to it alone."""
    ended: bool = False
    """Whether the answer said that it is at its end."""
    unusual: bool = False
    """Whether it was billed in a way that its usage does not tell: see `_is_unusual`."""
    _blocks: dict[Any, _Block] = field(default_factory=dict)
    _places: CallPositions = field(default_factory=CallPositions)
    _calls: int = 0
    _last_kind: str = ""
    _usage: dict[str, int] = field(default_factory=dict)
    _stop_reason: str | None = None
    _answering: str | None = None

    def chunks(self, event: Any) -> Iterator[Chunk]:
        """Yield the chunks of the next event; unknown events have none.

        Raises ValueError for an event that is not of the shape that its type has. What comes after
        the end (vLLM and others say `[DONE]`) is no part of the answer.
        """
        if self.ended:
            return
        try:
            match event["type"]:
                case "content_block_delta":
                    yield from self._delta(self._blocks[event.get("index")], event["delta"])
                case "content_block_start":
                    yield from self._start(event.get("index"), dict(event["content_block"]))
                case "content_block_stop":
                    yield from self._stop(self._blocks.pop(event.get("index")))
                case "message_start":
                    self._answering = _text(event["message"].get("model") or "") or None
                    self._count(event["message"].get("usage"))
                case "message_delta":
                    self._stop_reason = _text(event["delta"].get("stop_reason") or "") or None
                    self._count(event.get("usage"))
                case "message_stop":
                    self.ended = True
                case _:
                    pass
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"an event without sense ({error!r})") from None

    def finish(self) -> Finish | None:
        """Return the end of the answer; None where it was cut off."""
        if self._stop_reason is None and not self.ended:
            return None
        reason = self._stop_reason or ("tool_use" if self._calls else "end_turn")
        return Finish(stop_reason=reason, usage=usage_of(self._usage), model=self._answering)

    def _start(self, index: object, start: dict[str, Any]) -> Iterator[Chunk]:
        kind = _text(start["type"])
        self._blocks[index] = block = _Block(start)
        if kind == "text" and self._last_kind == "text":
            yield TextDelta("", {})  # two texts in a row are two parts
        self._last_kind = kind
        if kind == "tool_use":
            id_ = _text(start.get("id") or "") or f"call_{self._calls}"
            block.call, self._calls = self._calls, self._calls + 1
            yield from self._places.call(id_)
            yield ToolCallDelta(block.call, "", id_, _text(start["name"]))
        elif kind in ("text", "thinking") and start.get(kind):
            delta = {"type": f"{kind}_delta", kind: start[kind]}
            yield from self._delta(block, delta)
        if kind == "thinking":
            block.signature = _text(start.get("signature") or "")

    def _delta(self, block: _Block, delta: Mapping[str, Any]) -> Iterator[Chunk]:
        match delta["type"]:
            case "text_delta" | "thinking_delta" as kind:
                name = kind.removesuffix("_delta")
                text = _text(delta[name])
                if text:
                    block.is_empty = False
                    yield from self._places.part()
                    yield TextDelta(text) if name == "text" else ThinkingDelta(text)
            case "input_json_delta":
                piece = _text(delta["partial_json"])
                block.arguments.append(piece)
                if piece and block.call >= 0:
                    yield ToolCallDelta(block.call, piece)
            case "signature_delta":
                block.signature += _text(delta["signature"])
            case "citations_delta":
                block.citations.append(delta["citation"])

    def _stop(self, block: _Block) -> Iterator[Chunk]:
        match block.start["type"]:
            case "text":
                if block.citations and not block.is_empty:
                    yield TextDelta("", {"citations": block.citations})
            case "thinking":
                if block.signature or not block.is_empty:
                    yield from self._places.part()
                    yield ThinkingDelta("", self._signed(block.signature))
            case "tool_use":
                if not any(block.arguments):  # whole at its start, or none at all
                    arguments = canonical.to_json_line(block.start.get("input") or {}).decode()
                    yield ToolCallDelta(block.call, arguments)
            case _:
                if any(block.arguments):
                    block.start["input"] = as_object("".join(block.arguments)) or {}
                part = read_block(block.start)
                if isinstance(part, UnknownPart) and part.kind == "redacted_thinking":
                    part = msgspec.structs.replace(part, meta=self._thinker)
                if isinstance(part, UnknownPart | ImagePart):
                    yield from self._places.part()
                    yield PartDelta(part)

    @property
    def _thinker(self) -> Meta | None:
        return None if self.model is None else {THINKER: self.model}

    def _signed(self, signature: str) -> Meta:
        return {"signature": signature, **(self._thinker or {})} if signature else {}

    def _count(self, usage: Any) -> None:
        """Take counts; they are totals, so later ones stand for earlier ones."""
        self.unusual = self.unusual or _is_unusual(usage or {})
        for name, count in (usage or {}).items():
            is_count = isinstance(count, int) and not isinstance(count, bool)
            if is_count and 0 <= count < MAX_COUNT:
                self._usage[name] = count


def _is_unusual(usage: Mapping[str, Any]) -> bool:
    """Whether more was billed than tokens at the usual rates, as far as it is said.

    A cache of an hour costs more than one of five minutes, and so do other tiers, the fast mode,
    one place for the inference, and tools that the provider runs.
    """
    written, tools = usage.get("cache_creation") or {}, usage.get("server_tool_use") or {}
    return bool(
        written.get("ephemeral_1h_input_tokens")
        or any(isinstance(count, int) and count > 0 for count in tools.values())
        or usage.get("service_tier") not in (None, "standard")
        or usage.get("speed") not in (None, "standard")
        or usage.get("inference_geo") not in (None, "", "global", "not_available")
    )


def usage_of(counts: Mapping[str, int]) -> Usage | None:
    """Return the counts of an answer: its input is all of it, the cached part included."""
    if not counts:
        return None
    read, written = (
        counts.get("cache_read_input_tokens"),
        counts.get("cache_creation_input_tokens"),
    )
    fresh = counts.get("input_tokens")
    return Usage(
        input_tokens=None if fresh is None else fresh + (read or 0) + (written or 0),
        output_tokens=counts.get("output_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.60} is no text")
    return value
