"""OpenAI Chat Completions: the events of an answer that streams, as chunks.

Servers that speak this protocol differ most in how they stream calls: with and without `index`
and `id`, in pieces and whole, the name once or each time. Each event is read as what it can only
mean.

Source: docs/formats/openai-chat.md, "Streaming".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from harken.core import canonical
from harken.core.events import Usage
from harken.core.stream import Chunk, Finish, TextDelta, ThinkingDelta, ToolCallDelta
from harken.formats.providers.openai_chat import DETAILS, EXTRA, REASONING
from harken.formats.tool_calls import MAX_COUNT, CallPositions, as_object

_JOINED = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""The kinds of thinking that OpenRouter streams in pieces, and the member that goes on."""
DONE = "[DONE]"
"""What stands in the place of the last event."""


@dataclass(slots=True)
class _Call:
    """A call while it arrives."""

    index: int
    id: str
    """As the server gave it, empty where it did not."""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


@dataclass(slots=True)
class OpenAIStreamDecoder:
    """Turns the events of one answer into chunks, in their order."""

    model: str | None = None
    """Whom the request went to: thinking that its server wants back is marked with it."""
    ended: bool = False
    """Whether the answer said that it is at its end."""
    unusual: bool = False
    """Whether it was billed in a way that its usage does not tell: in another tier."""
    _places: CallPositions = field(default_factory=CallPositions)
    _calls: list[_Call] = field(default_factory=list)
    _at: dict[Any, _Call] = field(default_factory=dict)
    """The call that a server's `index` means now."""
    _thinking: str = ""
    """The member in which thinking is under way."""
    _details: list[dict[str, Any]] = field(default_factory=list)
    """What came in `reasoning_details`."""
    _text_last: bool = False
    """Whether the last part is a text that is not blank."""
    _usage: Mapping[str, Any] | None = None
    _usage_alone: bool = False
    _finish_reason: str | None = None
    _answering: str | None = None

    def chunks(self, event: Any) -> Iterator[Chunk]:
        """Yield the chunks of the next event, or of the text `[DONE]`.

        Raises ValueError for an event that is not of the shape of a chunk.
        """
        if event == DONE:
            self.ended = True
            yield from self._end()
            return
        try:
            if isinstance(event.get("model"), str) and event["model"]:
                self._answering = event["model"]
            tier = event.get("service_tier")
            self.unusual = self.unusual or tier not in (None, "", "auto", "default", "on_demand")
            choices = event.get("choices") or ()
            if event.get("usage"):
                self._usage, self._usage_alone = dict(event["usage"]), not choices
            for choice in choices:
                if not choice.get("index"):  # of several answers, the first
                    yield from self._choice(choice)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"an event without sense ({error!r})") from None

    def finish(self) -> Finish | None:
        """Return the end of the answer; None where it was cut off.

        It is whole where it says why it ended, or says `[DONE]`, or where the usage, which comes
        last, has come alone.
        """
        if self._finish_reason is None and not self.ended and not self._usage_alone:
            return None
        reason = self._finish_reason or ("tool_calls" if self._calls else "stop")
        return Finish(
            stop_reason=reason,
            usage=usage_of(self._usage),
            cost_usd=_amount((self._usage or {}).get("cost")),
            model=self._answering,
        )

    def _choice(self, choice: Mapping[str, Any]) -> Iterator[Chunk]:
        delta = choice.get("delta") or {}
        for detail in delta.get(DETAILS) or ():
            self._detail(dict(detail))
        for name in (REASONING, "reasoning"):
            if delta.get(name):
                yield from self._think(name, _text(delta[name]))
                break
        content = delta.get("content")
        if content:
            yield from self._say(content)
        if delta.get("refusal"):
            yield from self._say(delta["refusal"])
        for piece in delta.get("tool_calls") or ():
            yield from self._piece(piece)
        if delta.get("function_call"):
            yield from self._piece({"function": delta["function_call"]})
        reason = choice.get("finish_reason")
        if reason:
            yield from self._end()
            self._finish_reason = _text(reason)

    def _say(self, content: Any) -> Iterator[Chunk]:
        """Yield text; some servers send it in blocks, and thinking in the same list."""
        blocks: Any = [{"text": content}] if isinstance(content, str) else content
        for block in blocks:
            if block.get("thinking"):
                for inner in block["thinking"]:
                    yield from self._think("thinking", _text(inner["text"]))
            elif block.get("text"):
                yield from self._thought()
                yield from self._places.part()
                text = _text(block["text"])
                self._text_last = self._text_last or bool(text.strip())
                yield TextDelta(text)

    def _think(self, name: str, text: str) -> Iterator[Chunk]:
        if text:
            yield from self._places.part()
            self._thinking, self._text_last = name, False
            yield ThinkingDelta(text)

    def _thought(self) -> Iterator[Chunk]:
        """End thinking that is under way."""
        name, self._thinking = self._thinking, ""
        if name == REASONING and self.model is not None:
            yield ThinkingDelta("", {REASONING: self.model})

    def _detail(self, detail: dict[str, Any]) -> None:
        """Take a piece of `reasoning_details`: it goes on with the last, or is a new one.

        What is encrypted comes whole, also where several have one `index`.
        """
        last = self._details[-1] if self._details else {}
        name = _JOINED.get(_text(detail["type"]))
        same = all(last.get(key) == detail.get(key) for key in ("type", "index"))
        if name is None or not same or _differ(last.get("id"), detail.get("id")):
            self._details.append(detail)
            return
        text = (last.get(name) or "") + _text(detail.get(name) or "")
        last.update({key: value for key, value in detail.items() if value is not None})
        last[name] = text

    def _end(self) -> Iterator[Chunk]:
        """End what is under way; what the server wants back stands at the last part."""
        yield from self._thought()
        details, self._details = self._details, []
        if details and self.model is not None:
            meta = {DETAILS: {self.model: details}}
            yield TextDelta("", meta) if self._text_last else ThinkingDelta("", meta)

    def _piece(self, piece: Mapping[str, Any]) -> Iterator[Chunk]:
        """Yield the next piece of a call, whichever it belongs to."""
        custom = piece.get("custom")
        function = custom or piece.get("function") or {}
        name = _text(function.get("name") or "")
        id_, index = _text(piece.get("id") or ""), piece.get("index")
        call = self._meant(index, id_, name)
        if call is None:
            yield from self._thought()
            call = _Call(len(self._calls), id_, name)
            is_new = bool(id_) and all(other.id != id_ for other in self._calls)
            unique = id_ if is_new else f"call_{call.index}"
            self._calls.append(call)
            yield from self._places.call(unique)
            kind = "custom" if custom else "function"
            extra = {EXTRA: {self.model: piece[EXTRA]}} if piece.get(EXTRA) else None
            yield ToolCallDelta(call.index, "", unique, name, kind, extra if self.model else None)
        elif name and name != call.name:
            call.name += name
            yield ToolCallDelta(call.index, "", "", name)
        self._at[index] = self._at[None] = call
        arguments = function.get("input" if custom else "arguments")
        text = arguments if isinstance(arguments, str) else _as_json(arguments)
        if text:
            call.arguments.append(text)
            yield ToolCallDelta(call.index, text)

    def _meant(self, index: Any, id_: str, name: str) -> _Call | None:
        """Return the call that a piece goes on with; None where it begins a new one."""
        call = self._at.get(index)
        if call is None or not (id_ or name):
            return call
        if id_ and call.id:
            # older servers of vLLM give each piece an id of its own; a new call has a name, too
            return call if call.id == id_ or not name else None
        if call.name and (index is None or as_object("".join(call.arguments)) is not None):
            return None  # a name again, and the call is complete
        return call


def usage_of(counts: Mapping[str, Any] | None) -> Usage | None:
    """Return the counts of an answer: its input is all of it, the cached part included.

    Its output is all of it, too: xAI and Google count thinking beside `completion_tokens`, and
    only the total tells.
    """
    if not counts:
        return None
    prompt, written = _count(counts.get("prompt_tokens")), _count(counts.get("completion_tokens"))
    total = _count(counts.get("total_tokens"))
    if total is not None and prompt is not None and written is not None:
        written = max(written, total - prompt)
    details = counts.get("prompt_tokens_details")
    details = details if isinstance(details, dict) else {}
    read = _count(details.get("cached_tokens"))
    return Usage(
        input_tokens=prompt,
        output_tokens=written,
        cache_read_tokens=_count(counts.get("prompt_cache_hit_tokens")) if read is None else read,
        cache_write_tokens=_count(details.get("cache_write_tokens")),
    )


def _count(value: object) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_COUNT
    return value if is_count else None  # type: ignore[return-value]


def _amount(value: object) -> float | None:
    is_amount = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e6
    return float(value) if is_amount else None  # type: ignore[arg-type]


def _differ(one: object, other: object) -> bool:
    return one is not None and other is not None and one != other


def _as_json(arguments: Any) -> str:
    return "" if arguments is None else canonical.to_json_line(arguments).decode()


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.60} is no text")
    return value
