"""OpenAI Chat Completions: decoding of a streamed response into chunks.

Servers of this protocol differ most in the streaming of calls: with and without `index` and `id`,
in pieces and complete, the name once or in each piece. The decoder infers the meaning of each
event.

Source: docs/formats/openai-chat.md, "Streaming".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from harken.core import canonical
from harken.core.event_types.message_parser import MESSAGE_KEY, encode_extra
from harken.core.events import Usage
from harken.core.messages import ImagePart, UnknownPart
from harken.core.stream import (
    Chunk,
    ExtraDelta,
    Finish,
    PartDelta,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from harken.formats.json_records import check_text
from harken.formats.providers.openai_chat import (
    DETAILS_MEMBER,
    EXTRA_MEMBER,
    REASONING,
    parse_part,
    unknown_members,
)
from harken.formats.tool_calls import TOKEN_COUNT_LIMIT, CallPositions, parse_json_object

_STREAMED_MEMBERS = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""The types of thinking that OpenRouter streams in pieces, and the member that is continued."""
_CALL_MEMBERS = frozenset({"id", "index", "type", "function", "custom", EXTRA_MEMBER})
_FUNCTION_MEMBERS = {"function": {"name", "arguments"}, "custom": {"name", "input"}}
_WHOLE_TEXTS = frozenset({"id", "type"})
"""Texts that a server repeats and does not continue."""
DONE = "[DONE]"
"""The text in place of the last event."""


class _Call(msgspec.Struct):
    """A call during streaming."""

    index: int
    id: str
    """The id that the server sent, or an empty string."""
    name: str = ""
    arguments: list[str] = msgspec.field(default_factory=list)
    members: dict[str, Any] = msgspec.field(default_factory=dict)
    """The members that no field carries."""


class OpenAIStreamDecoder(msgspec.Struct):
    """Decodes the events of one response into chunks, in order."""

    model: str | None = None
    """The model of the request. Thinking that its server requires back is tagged with it."""
    is_ended: bool = False
    """Whether the end event was received."""
    is_unusual: bool = False
    """Whether the response was billed in a way that its usage does not show, in another tier."""
    _positions: CallPositions = msgspec.field(default_factory=CallPositions)
    _calls: list[_Call] = msgspec.field(default_factory=list)
    _calls_by_index: dict[Any, _Call] = msgspec.field(default_factory=dict)
    """The current call of each `index` of the server."""
    _thinking: str = ""
    """The member of the thinking in progress, or an empty string."""
    _details: list[dict[str, Any]] = msgspec.field(default_factory=list)
    """The received `reasoning_details`."""
    _members: dict[str, Any] = msgspec.field(default_factory=dict)
    """The members of the message that no part carries, such as annotations."""
    _is_text_last: bool = False
    """Whether the last part is a text that is not blank."""
    _usage: Mapping[str, Any] | None = None
    _is_usage_alone: bool = False
    _finish_reason: str | None = None
    _response_model: str | None = None

    def iter_chunks(self, event: Any) -> Iterator[Chunk]:
        """Yield the chunks of the next event, or of the text `[DONE]`.

        Raises ValueError for an event that does not have the shape of a chunk.
        """
        if event == DONE:
            self.is_ended = True
            yield from self._end_parts()
            return
        try:
            if isinstance(event.get("model"), str) and event["model"]:
                self._response_model = event["model"]
            tier = event.get("service_tier")
            self.is_unusual = self.is_unusual or tier not in (
                None,
                "",
                "auto",
                "default",
                "on_demand",
            )
            choices = event.get("choices") or ()
            if event.get("usage"):
                self._usage, self._is_usage_alone = dict(event["usage"]), not choices
            for choice in choices:
                if not choice.get("index"):  # Only the first choice is decoded.
                    yield from self._decode_choice(choice)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"an event without sense ({error!r})") from None

    def finish(self) -> Finish | None:
        """Return the end of the response. Return None if it was cut off.

        The response is complete if it has a finish reason or a `[DONE]`, or if the usage, which
        comes last, arrived in an event of its own.
        """
        if self._finish_reason is None and not self.is_ended and not self._is_usage_alone:
            return None
        reason = self._finish_reason or ("tool_calls" if self._calls else "stop")
        return Finish(
            stop_reason=reason,
            usage=build_usage(self._usage),
            cost_usd=_as_amount((self._usage or {}).get("cost")),
            model=self._response_model,
        )

    def _decode_choice(self, choice: Mapping[str, Any]) -> Iterator[Chunk]:
        delta = choice.get("delta") or {}
        for detail in delta.get(DETAILS_MEMBER) or ():
            self._add_detail(dict(detail))
        for name in (REASONING, "reasoning"):
            if delta.get(name):
                yield from self._add_thinking(name, check_text(delta[name]))
                break
        content = delta.get("content")
        if content:
            yield from self._add_content(content)
        if delta.get("refusal"):
            yield from self._add_content(delta["refusal"])
        for piece in delta.get("tool_calls") or ():
            yield from self._add_call_piece(piece)
        if delta.get("function_call"):
            yield from self._add_call_piece({"function": delta["function_call"]})
        if members := unknown_members(delta):
            self._members = merge_members(self._members, members)
            yield ExtraDelta({MESSAGE_KEY: self._members})
        reason = choice.get("finish_reason")
        if reason:
            yield from self._end_parts()
            self._finish_reason = check_text(reason)

    def _add_content(self, content: Any) -> Iterator[Chunk]:
        """Yield text. Some servers send it in blocks, with thinking in the same list."""
        blocks: Any = [{"text": content}] if isinstance(content, str) else content
        for block in blocks:
            if block.get("thinking"):
                for inner in block["thinking"]:
                    yield from self._add_thinking("thinking", check_text(inner["text"]))
            elif block.get("text"):
                yield from self._end_thinking()
                yield from self._positions.before_part()
                text = check_text(block["text"])
                self._is_text_last = self._is_text_last or bool(text.strip())
                yield TextDelta(text)
            elif isinstance(part := parse_part(block), UnknownPart | ImagePart):
                yield from self._end_thinking()
                yield from self._positions.before_part()
                yield PartDelta(part)

    def _add_thinking(self, name: str, text: str) -> Iterator[Chunk]:
        if text:
            yield from self._positions.before_part()
            self._thinking, self._is_text_last = name, False
            yield ThinkingDelta(text)

    def _end_thinking(self) -> Iterator[Chunk]:
        """End thinking that is in progress."""
        name, self._thinking = self._thinking, ""
        if name == REASONING and self.model is not None:
            yield ThinkingDelta("", {REASONING: self.model})

    def _add_detail(self, detail: dict[str, Any]) -> None:
        """Add a piece of `reasoning_details`. It extends the last detail, or is a new one.

        An encrypted detail comes complete, even if several share one `index`.
        """
        last = self._details[-1] if self._details else {}
        name = _STREAMED_MEMBERS.get(check_text(detail["type"]))
        is_same = all(last.get(key) == detail.get(key) for key in ("type", "index"))
        if name is None or not is_same or _are_different(last.get("id"), detail.get("id")):
            self._details.append(detail)
            return
        text = (last.get(name) or "") + check_text(detail.get(name) or "")
        last.update({key: value for key, value in detail.items() if value is not None})
        last[name] = text

    def _end_parts(self) -> Iterator[Chunk]:
        """End the thinking in progress.

        Data that the server requires back is attached to the last part.
        """
        yield from self._end_thinking()
        details, self._details = self._details, []
        if details and self.model is not None:
            meta = {DETAILS_MEMBER: {self.model: details}}
            yield TextDelta("", meta) if self._is_text_last else ThinkingDelta("", meta)

    def _add_call_piece(self, piece: Mapping[str, Any]) -> Iterator[Chunk]:
        """Yield the next piece of a call, and find the call that it belongs to."""
        custom = piece.get("custom")
        function = custom or piece.get("function") or {}
        name = check_text(function.get("name") or "")
        id_, index = check_text(piece.get("id") or ""), piece.get("index")
        call = self._find_call(index, id_, name)
        if call is None:
            yield from self._end_thinking()
            call = _Call(len(self._calls), id_, name)
            is_new = bool(id_) and all(other.id != id_ for other in self._calls)
            unique = id_ if is_new else f"call_{call.index}"
            self._calls.append(call)
            yield from self._positions.before_call(unique)
            kind = "custom" if custom else "function"
            extra = (
                {EXTRA_MEMBER: {self.model: piece[EXTRA_MEMBER]}}
                if piece.get(EXTRA_MEMBER)
                else None
            )
            yield ToolCallDelta(call.index, "", unique, name, kind, extra if self.model else None)
        elif name and name != call.name:
            call.name += name
            yield ToolCallDelta(call.index, "", "", name)
        if members := _unknown_call_members(piece, custom):
            call.members = merge_members(call.members, members)
            yield ToolCallDelta(call.index, extra=encode_extra(call.members))
        self._calls_by_index[index] = self._calls_by_index[None] = call
        arguments = function.get("input" if custom else "arguments")
        text = arguments if isinstance(arguments, str) else _as_json(arguments)
        if text:
            call.arguments.append(text)
            yield ToolCallDelta(call.index, text)

    def _find_call(self, index: Any, id_: str, name: str) -> _Call | None:
        """Return the call that a piece continues. Return None if it begins a new call."""
        call = self._calls_by_index.get(index)
        if call is None or not (id_ or name):
            return call
        if id_ and call.id:
            # Older vLLM servers send a new id with each piece; a new call also has a name.
            return call if call.id == id_ or not name else None
        if call.name and (index is None or parse_json_object("".join(call.arguments)) is not None):
            return None  # The name repeats, and the call is complete.
        return call


def _unknown_call_members(piece: Mapping[str, Any], custom: Any) -> dict[str, Any]:
    """Return the members of a piece of a call that its fields do not carry."""
    kind = "custom" if custom else "function"
    function = piece.get(kind) or {}
    inner = {n: v for n, v in function.items() if n not in _FUNCTION_MEMBERS[kind]}
    members = {n: v for n, v in piece.items() if n not in _CALL_MEMBERS and v is not None}
    return {**members, kind: inner} if inner else members


def merge_members(members: Mapping[str, Any], pieces: Mapping[str, Any]) -> dict[str, Any]:
    """Return streamed members with their next pieces: texts and lists are continued.

    >>> merge_members({"a": "x", "b": [1], "id": "c"}, {"a": "y", "b": [2], "id": "c"})
    {'a': 'xy', 'b': [1, 2], 'id': 'c'}
    """
    merged = dict(members)
    for name, piece in pieces.items():
        old = merged.get(name)
        if isinstance(old, dict) and isinstance(piece, dict):
            merged[name] = merge_members(old, piece)
        elif isinstance(old, list) and isinstance(piece, list):
            merged[name] = [*old, *piece]
        elif isinstance(old, str) and isinstance(piece, str) and name not in _WHOLE_TEXTS:
            merged[name] = old + piece
        elif piece is not None:
            merged[name] = piece
    return merged


def build_usage(counts: Mapping[str, Any] | None) -> Usage | None:
    """Return the token counts of a response. The input includes the cached part.

    The output includes thinking: xAI and Google count it beside `completion_tokens`, and only the
    total includes it.
    """
    if not counts:
        return None
    prompt, output = (
        _as_count(counts.get("prompt_tokens")),
        _as_count(counts.get("completion_tokens")),
    )
    total = _as_count(counts.get("total_tokens"))
    if total is not None and prompt is not None and output is not None:
        output = max(output, total - prompt)
    details = counts.get("prompt_tokens_details")
    details = details if isinstance(details, dict) else {}
    cached = _as_count(details.get("cached_tokens"))
    return Usage(
        input_tokens=prompt,
        output_tokens=output,
        cache_read_tokens=_as_count(counts.get("prompt_cache_hit_tokens"))
        if cached is None
        else cached,
        cache_write_tokens=_as_count(details.get("cache_write_tokens")),
    )


def _as_count(value: object) -> int | None:
    is_count = (
        isinstance(value, int) and not isinstance(value, bool) and 0 <= value < TOKEN_COUNT_LIMIT
    )
    return value if is_count else None  # type: ignore[return-value]


def _as_amount(value: object) -> float | None:
    is_amount = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e6
    return float(value) if is_amount else None  # type: ignore[arg-type]


def _are_different(first: object, second: object) -> bool:
    return first is not None and second is not None and first != second


def _as_json(arguments: Any) -> str:
    return "" if arguments is None else canonical.to_json_line(arguments).decode()
