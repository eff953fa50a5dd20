"""`AnthropicModel`: models of Anthropic, and of all that speak its Messages protocol."""

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
"""How long an answer may be where the parameters do not say it, as the provider demands: what the
smallest limit of the current models allows, and more than an agent's turn needs."""

_ANTHROPIC = Vendor(
    sdk="anthropic",
    client="AsyncAnthropic",
    base_url="https://api.anthropic.com",
    path="/v1/messages",
)


@check_arguments
class AnthropicModel:
    """A model that is asked through the SDK of Anthropic.

    Parameters of a request are sent as they are (`max_tokens`, `thinking`, `output_config`, ...),
    also ones that the SDK does not know; one that is None is left out. The prefix is cached in
    steps unless a parameter `cache_control` says otherwise. Thinking with `budget_tokens` begins
    after the calls that another model has made: the API takes none in their midst.
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
        """Make a model. `name` is its name in logs, `model` its name at the provider."""
        self.name, self.model = name, model
        self._service = HttpModelClient(
            _ANTHROPIC, endpoint or ModelEndpoint(), name, cost=cost, import_sdk=import_sdk
        )

    def warm_up(self) -> None:
        """Import the SDK ahead of the first request, from any thread. Raises ConfigError."""
        self._service.warm_up()

    def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Answer. Raises ModelError; ConfigError where the SDK is not installed."""
        body = build_request(self.model, request, self._service.endpoint)
        return self._service.answer(body, AnthropicStreamDecoder(model=self.model))


def build_request(
    model: str, request: ModelRequest, endpoint: ModelEndpoint | None = None
) -> dict[str, Any]:
    """Return the whole body of a request, with its cache breakpoints."""
    body: Mapping[str, Any] = messages.build_request_body(
        request.messages, request.tools, model=model
    )
    if "cache_control" not in request.parameters:
        body = messages.marked(body)
    parameters = {"max_tokens": MAX_TOKENS, **request.parameters}
    if _is_manual(parameters.get("thinking")) and messages.lacks_thinking(body):
        del parameters["thinking"]
    sent = (endpoint or ModelEndpoint()).sent(parameters)
    return {**sent, "model": model, **body, "stream": True}


def _is_manual(thinking: object) -> bool:
    return isinstance(thinking, Mapping) and "budget_tokens" in thinking
