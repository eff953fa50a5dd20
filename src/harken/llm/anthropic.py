"""`AnthropicModel`: a client for Anthropic's Messages API and compatible servers."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

from harken.core.arguments import check_arguments
from harken.core.stream import Chunk
from harken.formats.providers import anthropic as messages
from harken.formats.providers.anthropic_stream import AnthropicStreamDecoder
from harken.llm.base import ModelRequest
from harken.llm.http_model import HttpModelClient, Import, ModelEndpoint, Vendor
from harken.llm.prices import Cost

MAX_TOKENS = 32_000
"""The default limit of an answer, because the provider requires one: the smallest limit of the
current models, and more than an agent's turn needs."""

_ANTHROPIC = Vendor(
    sdk="anthropic",
    client="AsyncAnthropic",
    base_url="https://api.anthropic.com",
    path="/v1/messages",
)


@check_arguments
class AnthropicModel:
    """A model that is called through the SDK of Anthropic.

    Parameters of a request are sent unchanged (`max_tokens`, `thinking`, `output_config`, ...),
    also ones that the SDK does not know; a parameter that is None is omitted. The prefix is cached
    in steps unless a parameter `cache_control` overrides it. Thinking with `budget_tokens` begins
    after the calls of another model: the API accepts no such thinking between them.
    """

    def __init__(
        self,
        name: str,
        model: str,
        *,
        endpoint: ModelEndpoint | None = None,
        cost: Cost | None = None,
        import_sdk: Import = importlib.import_module,
    ) -> None:
        """Create a model. `name` is its name in logs, `model` its name at the provider."""
        self.name, self.model = name, model
        self._service = HttpModelClient(
            _ANTHROPIC, endpoint or ModelEndpoint(), name, cost=cost, import_sdk=import_sdk
        )

    def warm_up(self) -> None:
        """Import the SDK ahead of the first request, from any thread. Raises ConfigError."""
        self._service.warm_up()

    def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Stream an answer. Raises ModelError, and ConfigError if the SDK is not installed."""
        body = build_request(self.model, request, self._service.endpoint)
        return self._service.answer(body, AnthropicStreamDecoder(model=self.model))


def build_request(
    model: str, request: ModelRequest, endpoint: ModelEndpoint | None = None
) -> dict[str, Any]:
    """Return the complete body of a request, with its cache breakpoints."""
    body: Mapping[str, Any] = messages.build_request_body(
        request.messages, request.tools, model=model
    )
    if "cache_control" not in request.parameters:
        body = messages.add_cache_breakpoints(body)
    parameters = {"max_tokens": MAX_TOKENS, **request.parameters}
    if _has_thinking_budget(parameters.get("thinking")) and messages.lacks_thinking(body):
        del parameters["thinking"]
    members = (endpoint or ModelEndpoint()).filter_parameters(parameters)
    return {**members, "model": model, **body, "stream": True}


def _has_thinking_budget(thinking: object) -> bool:
    return isinstance(thinking, Mapping) and "budget_tokens" in thinking
