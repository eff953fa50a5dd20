"""`OpenAIModel`: a client for OpenAI's Chat Completions API and compatible servers."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from typing import Any

from harken.core.arguments import check_arguments
from harken.core.stream import Chunk
from harken.formats.providers import openai_chat as messages
from harken.formats.providers.openai_chat_stream import OpenAIStreamDecoder
from harken.llm.base import ModelRequest
from harken.llm.http_model import HttpModelClient, Import, ModelEndpoint, Vendor, parse_host
from harken.llm.prices import Cost

_OPENAI = Vendor(
    sdk="openai",
    client="AsyncOpenAI",
    base_url="https://api.openai.com/v1",
    path="/chat/completions",
)


@check_arguments
class OpenAIModel:
    """A model that is called through the SDK of OpenAI: Ollama, vLLM, OpenRouter, ... by base URL.

    Parameters of a request are sent unchanged (`max_completion_tokens`, `reasoning_effort`, ...),
    also ones that the SDK does not know; a parameter that is None is omitted. For OpenAI itself
    `max_tokens` is renamed to `max_completion_tokens`, the only name that its reasoning models
    accept.
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
            _OPENAI, endpoint or ModelEndpoint(), name, cost=cost, import_sdk=import_sdk
        )

    def warm_up(self) -> None:
        """Import the SDK ahead of the first request, from any thread. Raises ConfigError."""
        self._service.warm_up()

    def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Stream an answer. Raises ModelError, and ConfigError if the SDK is not installed."""
        body = build_request(self.model, request, self._service.endpoint)
        return self._service.answer(body, OpenAIStreamDecoder(model=self.model))


def build_request(
    model: str, request: ModelRequest, endpoint: ModelEndpoint | None = None
) -> dict[str, Any]:
    """Return the complete body of a request, with usage at the end of the stream."""
    endpoint = endpoint or ModelEndpoint()
    body = messages.build_request_body(
        request.messages, request.tools, model=model, short_ids=endpoint.short_ids
    )
    usage = {"include_usage": True}
    parameters = {"stream_options": usage, **request.parameters}
    if _is_openai(endpoint) and "max_tokens" in parameters:
        limit = parameters.pop("max_tokens")
        parameters.setdefault("max_completion_tokens", limit)
    members = endpoint.filter_parameters(parameters)
    return {**members, "model": model, **body, "stream": True}


def _is_openai(endpoint: ModelEndpoint) -> bool:
    """Whether the endpoint is OpenAI itself, which requires the new name of a parameter."""
    host = parse_host(endpoint.base_url or _OPENAI.base_url)
    return host == "api.openai.com" or host.endswith(".api.openai.com")
