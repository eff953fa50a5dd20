"""Anthropic Messages: decoding of a streamed response into chunks.

Source: docs/formats/anthropic-messages.md, "Streaming".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from harken.core import canonical, structs
from harken.core.events import Usage
from harken.core.messages import Extra, ImagePart, Meta, UnknownPart
from harken.core.stream import Chunk, Finish, PartDelta, TextDelta, ThinkingDelta, ToolCallDelta
from harken.formats.json_records import check_text
from harken.formats.providers.anthropic import CITATIONS, THINKING_MODEL_KEY, parse_block
from harken.formats.tool_calls import TOKEN_COUNT_LIMIT, CallPositions, parse_json_object


class _Block(msgspec.Struct):
    """A content block during streaming."""

    start: dict[str, Any]
    call: int = -1
    """The index of the call in the response, or -1 if the block is no call."""
    arguments: list[str] = msgspec.field(default_factory=list)
    signature: str = ""
    citations: list[Any] = msgspec.field(default_factory=list)
    is_empty: bool = True

    def extra(self) -> Extra | None:
        """Return the `extra` of the part or call of the block, as in a complete response."""
        block = dict(self.start)
        if self.citations:
            block[CITATIONS] = [*(block.get(CITATIONS) or ()), *self.citations]
        return parse_block(block).extra or None


class AnthropicStreamDecoder(msgspec.Struct):
    """Decodes the events of one response into chunks, in order."""

    model: str | None = None
    """The model of the request. Its thinking is tagged with it, and sent back to it alone."""
    is_ended: bool = False
    """Whether the end event was received."""
    is_unusual: bool = False
    """Whether the response was billed in a way that its usage does not show: see `_is_unusual`."""
    _blocks: dict[Any, _Block] = msgspec.field(default_factory=dict)
    _positions: CallPositions = msgspec.field(default_factory=CallPositions)
    _call_count: int = 0
    _last_kind: str = ""
    _usage: dict[str, int] = msgspec.field(default_factory=dict)
    _stop_reason: str | None = None
    _response_model: str | None = None

    def iter_chunks(self, event: Any) -> Iterator[Chunk]:
        """Yield the chunks of the next event. Unknown events give none.

        Raises ValueError for an event that does not have the shape of its type. Events after the
        end (vLLM and others send `[DONE]`) are ignored.
        """
        if self.is_ended:
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
                    self._response_model = check_text(event["message"].get("model") or "") or None
                    self._update_usage(event["message"].get("usage"))
                case "message_delta":
                    self._stop_reason = check_text(event["delta"].get("stop_reason") or "") or None
                    self._update_usage(event.get("usage"))
                case "message_stop":
                    self.is_ended = True
                case _:
                    pass
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"an event without sense ({error!r})") from None

    def finish(self) -> Finish | None:
        """Return the end of the response. Return None if it was cut off."""
        if self._stop_reason is None and not self.is_ended:
            return None
        reason = self._stop_reason or ("tool_use" if self._call_count else "end_turn")
        return Finish(
            stop_reason=reason, usage=build_usage(self._usage), model=self._response_model
        )

    def _start(self, index: object, start: dict[str, Any]) -> Iterator[Chunk]:
        kind = check_text(start["type"])
        self._blocks[index] = block = _Block(start)
        if kind == "text" and self._last_kind == "text":
            yield TextDelta("", {})  # Two consecutive texts are two parts.
        self._last_kind = kind
        if kind == "tool_use":
            id_ = check_text(start.get("id") or "") or f"call_{self._call_count}"
            block.call, self._call_count = self._call_count, self._call_count + 1
            yield from self._positions.before_call(id_)
            yield ToolCallDelta(block.call, "", id_, check_text(start["name"]))
        elif kind in ("text", "thinking") and start.get(kind):
            delta = {"type": f"{kind}_delta", kind: start[kind]}
            yield from self._delta(block, delta)
        if kind == "thinking":
            block.signature = check_text(start.get("signature") or "")

    def _delta(self, block: _Block, delta: Mapping[str, Any]) -> Iterator[Chunk]:
        match delta["type"]:
            case "text_delta" | "thinking_delta" as kind:
                name = kind.removesuffix("_delta")
                text = check_text(delta[name])
                if text:
                    block.is_empty = False
                    yield from self._positions.before_part()
                    yield TextDelta(text) if name == "text" else ThinkingDelta(text)
            case "input_json_delta":
                piece = check_text(delta["partial_json"])
                block.arguments.append(piece)
                if piece and block.call >= 0:
                    yield ToolCallDelta(block.call, piece)
            case "signature_delta":
                block.signature += check_text(delta["signature"])
            case "citations_delta":
                block.citations.append(delta["citation"])

    def _stop(self, block: _Block) -> Iterator[Chunk]:
        match block.start["type"]:
            case "text":
                if extra := block.extra():
                    self._last_kind = ""  # The part has ended.
                    yield from self._positions.before_part()
                    yield TextDelta("", extra=extra)
            case "thinking":
                extra = block.extra()
                if block.signature or extra or not block.is_empty:
                    yield from self._positions.before_part()
                    yield ThinkingDelta("", self._signature_meta(block.signature), extra)
            case "tool_use":
                arguments = ""
                if not any(
                    block.arguments
                ):  # The start event has all arguments, or there are none.
                    arguments = canonical.to_json_line(block.start.get("input") or {}).decode()
                extra = block.extra()
                if arguments or extra:
                    yield ToolCallDelta(block.call, arguments, extra=extra)
            case _:
                if any(block.arguments):
                    block.start["input"] = parse_json_object("".join(block.arguments)) or {}
                part = parse_block(block.start)
                if isinstance(part, UnknownPart) and part.kind == "redacted_thinking":
                    part = structs.replace(part, meta=self._thinker)
                if isinstance(part, UnknownPart | ImagePart):
                    yield from self._positions.before_part()
                    yield PartDelta(part)

    @property
    def _thinker(self) -> Meta | None:
        return None if self.model is None else {THINKING_MODEL_KEY: self.model}

    def _signature_meta(self, signature: str) -> Meta:
        return {"signature": signature, **(self._thinker or {})} if signature else {}

    def _update_usage(self, usage: Any) -> None:
        """Update counts. They are totals, so later values replace earlier ones."""
        self.is_unusual = self.is_unusual or _is_unusual(usage or {})
        for name, count in (usage or {}).items():
            is_count = isinstance(count, int) and not isinstance(count, bool)
            if is_count and 0 <= count < TOKEN_COUNT_LIMIT:
                self._usage[name] = count


def _is_unusual(usage: Mapping[str, Any]) -> bool:
    """Whether more was billed than tokens at the usual rates, as far as the usage shows it.

    A cache of an hour costs more than one of five minutes, and so do other tiers, the fast mode,
    a fixed inference region, and tools that the provider runs.
    """
    cache_writes, tools = usage.get("cache_creation") or {}, usage.get("server_tool_use") or {}
    return bool(
        cache_writes.get("ephemeral_1h_input_tokens")
        or any(isinstance(count, int) and count > 0 for count in tools.values())
        or usage.get("service_tier") not in (None, "standard")
        or usage.get("speed") not in (None, "standard")
        or usage.get("inference_geo") not in (None, "", "global", "not_available")
    )


def build_usage(counts: Mapping[str, int]) -> Usage | None:
    """Return the token counts of a response. The input includes the cached part."""
    if not counts:
        return None
    cache_read, cache_write = (
        counts.get("cache_read_input_tokens"),
        counts.get("cache_creation_input_tokens"),
    )
    uncached = counts.get("input_tokens")
    return Usage(
        input_tokens=None
        if uncached is None
        else uncached + (cache_read or 0) + (cache_write or 0),
        output_tokens=counts.get("output_tokens"),
        cache_read_tokens=cache_read,
        cache_write_tokens=cache_write,
    )
