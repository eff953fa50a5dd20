"""What a span says of messages, tools and answers, in the words of the conventions.

One idea: everything that a person or a model wrote passes through `SpanAttributes`, and is redacted
there. A message stands in the context of many calls, so its JSON is made once.

Source: `harken.formats.providers.otel_attributes` and `gen_ai_messages`, with their version of the
conventions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Literal, TypeAlias

from harken.core import canonical
from harken.core.events import LlmRequest, LlmResponse, TranscriptEntry
from harken.core.messages import ChatMessage, Message
from harken.formats.providers import otel_attributes
from harken.formats.providers.otel_messages import instructions_json, json_of, tools_json
from harken.formats.tool_calls import clean
from harken.interactions.otel.span import Value
from harken.llm.providers import BUILT_IN

Much: TypeAlias = Literal["full", "new", "none"]
"""What a model call says of its context: all of it, what is new since the agent's call before, or
nothing at all, of answers and tools neither."""
Attributes: TypeAlias = dict[str, Value]
_PROTOCOLS: Mapping[str, str] = {
    "anthropic": "anthropic",
    "gemini": "gcp.gemini",
    "openai": "openai",
}
"""How the name of a wire protocol begins -> the provider."""
_FAMILIES: Mapping[str, str] = {"claude": "anthropic", "gpt": "openai", "gemini": "gcp.gemini"}
"""How the name of a model begins -> its provider, where nothing else says one."""
_OWN = "harken"
"""The provider of models that are none: scripted and replayed ones."""


@dataclass(slots=True)
class SpanAttributes:
    """Makes attributes of what was said."""

    redact: Callable[[str], str]
    """Returns a text without what shall not go out."""
    much: Much = "full"
    _known: dict[int, tuple[ChatMessage, str]] = field(default_factory=dict)
    """The `id` of a message -> the message, and its JSON."""

    def text(self, text: str) -> str:
        """Return a text that may go out."""
        return self.redact(clean(text))

    def line(self, text: str) -> str:
        """Return the beginning of a text, on one line."""
        return self.text(" ".join(text.split())[:300])

    def asked(self, request: LlmRequest, messages: Sequence[ChatMessage], new: int) -> Attributes:
        """Return what a request says, but its tools.

        new: how many of the messages, from the first, the call before had.
        """
        provider, model = provider_and_model(request)
        said: Attributes = {
            otel_attributes.OPERATION: otel_attributes.CHAT,
            otel_attributes.PROVIDER: provider,
            otel_attributes.REQUEST_MODEL: self.text(model),
            **self._parameters(request.parameters or {}),
        }
        if self.much == "none":
            return said
        if self.much == "new":
            messages = messages[new:]
        system = list(takewhile(lambda message: message.role == "system", messages))
        if system:
            said[otel_attributes.SYSTEM_INSTRUCTIONS] = self._json(instructions_json(system))
        said[otel_attributes.INPUT_MESSAGES] = self.messages(messages[len(system) :])
        return said

    def tools(self, tools: Iterable[Mapping[str, Any]]) -> Attributes:
        """Return what is said of the tools that a model could call."""
        if self.much == "none":
            return {}
        return {otel_attributes.TOOL_DEFINITIONS: self._json(tools_json(tools))}

    def answered(self, response: LlmResponse, entry: TranscriptEntry | None) -> Attributes:
        """Return what a response says, and the answer, as far as it came."""
        reason = otel_attributes.finish_of(response.stop_reason) if response.stop_reason else ""
        said: Attributes = {}
        if reason:
            said[otel_attributes.FINISH_REASONS] = [self.text(reason)]
        if response.model:
            said[otel_attributes.RESPONSE_MODEL] = self.text(response.model)
        for name, attribute in otel_attributes.USAGE.items():
            count = getattr(response.usage, name, None)
            if count is not None:
                said[attribute] = count
        if response.cost_usd is not None:
            said[otel_attributes.COST] = response.cost_usd
        if self.much == "none":
            return said
        answer: ChatMessage | None = entry
        if answer is None and response.partial:
            answer = Message("assistant", response.partial)
        if answer is not None:
            finish = reason or ("tool_call" if answer.tool_calls else "stop")
            said[otel_attributes.OUTPUT_MESSAGES] = self._json([json_of(answer, finish)])
        return said

    def messages(self, messages: Iterable[ChatMessage]) -> str:
        """Return messages as the JSON text of a list."""
        return f"[{','.join(map(self._message, messages))}]"

    def result(self, entry: TranscriptEntry) -> str:
        """Return what a tool gave back: its text, or the JSON text of its parts."""
        if isinstance(entry.content, str) or entry.content is None:
            return self.text(entry.content or "")
        return self._json(json_of(entry)["parts"][0]["response"])

    def _message(self, message: ChatMessage) -> str:
        known = self._known.get(id(message))
        if known is None:  # the message is kept beside its text: its `id` stays its own
            known = self._known[id(message)] = message, self._json(json_of(message))
        return known[1]

    def _json(self, value: object) -> str:
        return self.text(canonical.to_json_line(value).decode("utf-8", "surrogatepass"))

    def _parameters(self, parameters: Mapping[str, Any]) -> Attributes:
        said: Attributes = {}
        for name, attribute in otel_attributes.PARAMETERS.items():
            value = parameters.get(name)
            if isinstance(value, str):
                said[attribute] = self.text(value)
            elif isinstance(value, int | float):
                said[attribute] = value
            elif isinstance(value, list) and all(isinstance(one, str) for one in value):
                said[attribute] = [self.text(one) for one in value]
        return said


def provider_and_model(request: LlmRequest) -> tuple[str, str]:
    """Return what the conventions call the provider of a request, and the model by its own name.

    >>> provider_and_model(LlmRequest(context=[], count=0, context_hash="", model="xai/grok-4"))
    ('x_ai', 'grok-4')
    """
    model = request.model
    protocol = (request.wire or {}).get("protocol")
    named = _beginning(protocol, _PROTOCOLS) if isinstance(protocol, str) else None
    if named is None and "/" in model:
        head, _, tail = model.partition("/")
        if head in BUILT_IN:
            return otel_attributes.provider_of(head), tail
    return named or _beginning(model, _FAMILIES) or _OWN, model


def _beginning(name: str, table: Mapping[str, str]) -> str | None:
    return next((value for start, value in table.items() if name.startswith(start)), None)
