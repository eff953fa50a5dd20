"""Build span attributes for messages, tools and responses, by the semantic conventions.

All text written by users and models passes through `SpanAttributes`, which redacts it. A message
occurs in the context of many calls, so its JSON is cached.

Source: `harken.formats.providers.otel_attributes` and `gen_ai_messages`, with their version of the
conventions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, Literal, TypeAlias

import msgspec

from harken.core import canonical
from harken.core.events import LlmRequest, LlmResponse, TranscriptEntry
from harken.core.messages import ChatMessage, Message
from harken.formats.providers import otel_attributes
from harken.formats.providers.otel_writer import (
    instructions_to_otel,
    message_to_otel,
    tools_to_otel,
)
from harken.formats.tool_calls import replace_surrogates
from harken.interactions.otel.span import Value
from harken.llm.providers import BUILT_IN

ContextDetail: TypeAlias = Literal["full", "new", "none"]
"""Context attributes of a model call: all messages, those since the agent's last call, or none.

With "none", responses and tool content are omitted as well."""
Attributes: TypeAlias = dict[str, Value]
_PROTOCOLS: Mapping[str, str] = {
    "anthropic": "anthropic",
    "gemini": "gcp.gemini",
    "openai": "openai",
}
"""Prefix of a wire protocol name -> provider."""
_FAMILIES: Mapping[str, str] = {"claude": "anthropic", "gpt": "openai", "gemini": "gcp.gemini"}
"""Prefix of a model name -> provider, used if nothing else tells the provider."""
_LOCAL_PROVIDER = "harken"
"""Provider of scripted and replayed models."""


class SpanAttributes(msgspec.Struct):
    """Builds the attributes of spans."""

    redact: Callable[[str], str]
    """Returns the text with secrets redacted."""
    much: ContextDetail = "full"
    _json_by_id: dict[int, tuple[ChatMessage, str]] = msgspec.field(default_factory=dict)
    """`id` of a message -> the message and its JSON."""

    def text(self, text: str) -> str:
        """Redact a text and remove invalid characters."""
        return self.redact(replace_surrogates(text))

    def line(self, text: str) -> str:
        """Format the beginning of a text as one redacted line."""
        return self.text(" ".join(text.split())[:300])

    def asked(self, request: LlmRequest, messages: Sequence[ChatMessage], new: int) -> Attributes:
        """Return the attributes of a request, without its tools.

        `new` is the number of leading messages that the previous call already had.
        """
        provider, model = provider_and_model(request)
        attributes: Attributes = {
            otel_attributes.OPERATION: otel_attributes.CHAT,
            otel_attributes.PROVIDER: provider,
            otel_attributes.REQUEST_MODEL: self.text(model),
            **self._parameter_attributes(request.parameters or {}),
        }
        if request.evidence is not None:
            attributes[otel_attributes.EVIDENCE] = request.evidence
        if self.much == "none":
            return attributes
        if self.much == "new":
            messages = messages[new:]
        system = list(takewhile(lambda message: message.role == "system", messages))
        if system:
            attributes[otel_attributes.SYSTEM_INSTRUCTIONS] = self._json(
                instructions_to_otel(system)
            )
        attributes[otel_attributes.INPUT_MESSAGES] = self.messages(messages[len(system) :])
        return attributes

    def tools(self, tools: Iterable[Mapping[str, Any]]) -> Attributes:
        """Return the attributes of the tools that a model could call."""
        if self.much == "none":
            return {}
        return {otel_attributes.TOOL_DEFINITIONS: self._json(tools_to_otel(tools))}

    def answered(self, response: LlmResponse, entry: TranscriptEntry | None) -> Attributes:
        """Return the attributes of a response and of its message, if any."""
        reason = (
            otel_attributes.to_finish_reason(response.stop_reason) if response.stop_reason else ""
        )
        attributes: Attributes = {}
        if reason:
            attributes[otel_attributes.FINISH_REASONS] = [self.text(reason)]
        if response.model:
            attributes[otel_attributes.RESPONSE_MODEL] = self.text(response.model)
        for name, attribute in otel_attributes.USAGE.items():
            count = getattr(response.usage, name, None)
            if count is not None:
                attributes[attribute] = count
        if response.cost_usd is not None:
            attributes[otel_attributes.COST] = response.cost_usd
        if self.much == "none":
            return attributes
        answer: ChatMessage | None = entry
        if answer is None and response.partial:
            answer = Message("assistant", response.partial)
        if answer is not None:
            finish = reason or ("tool_call" if answer.tool_calls else "stop")
            attributes[otel_attributes.OUTPUT_MESSAGES] = self._json(
                [message_to_otel(answer, finish)]
            )
        return attributes

    def messages(self, messages: Iterable[ChatMessage]) -> str:
        """Encode messages as a JSON array."""
        return f"[{','.join(map(self._message_json, messages))}]"

    def result(self, entry: TranscriptEntry) -> str:
        """Return the result of a tool: its text, or its parts as JSON."""
        if isinstance(entry.content, str) or entry.content is None:
            return self.text(entry.content or "")
        return self._json(message_to_otel(entry)["parts"][0]["response"])

    def _message_json(self, message: ChatMessage) -> str:
        cached = self._json_by_id.get(id(message))
        if cached is None:  # Keeping the message alive keeps its `id` unique.
            cached = self._json_by_id[id(message)] = message, self._json(message_to_otel(message))
        return cached[1]

    def _json(self, value: object) -> str:
        return self.text(canonical.to_json_line(value).decode("utf-8", "surrogatepass"))

    def _parameter_attributes(self, parameters: Mapping[str, Any]) -> Attributes:
        attributes: Attributes = {}
        for name, attribute in otel_attributes.PARAMETERS.items():
            value = parameters.get(name)
            if isinstance(value, str):
                attributes[attribute] = self.text(value)
            elif isinstance(value, int | float):
                attributes[attribute] = value
            elif isinstance(value, list) and all(isinstance(item, str) for item in value):
                attributes[attribute] = [self.text(item) for item in value]
        return attributes


def provider_and_model(request: LlmRequest) -> tuple[str, str]:
    """Return the provider of a request in terms of the conventions, and the provider's model name.

    >>> provider_and_model(LlmRequest(context=[], count=0, context_hash="", model="xai/grok-4"))
    ('x_ai', 'grok-4')
    """
    model = request.model
    protocol = (request.wire or {}).get("protocol")
    provider = _find_by_prefix(protocol, _PROTOCOLS) if isinstance(protocol, str) else None
    if provider is None and "/" in model:
        head, _, tail = model.partition("/")
        if head in BUILT_IN:
            return otel_attributes.to_provider_name(head), tail
    return provider or _find_by_prefix(model, _FAMILIES) or _LOCAL_PROVIDER, model


def _find_by_prefix(name: str, table: Mapping[str, str]) -> str | None:
    return next((value for start, value in table.items() if name.startswith(start)), None)
