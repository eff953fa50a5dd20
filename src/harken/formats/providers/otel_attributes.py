"""Attribute names of OpenTelemetry's conventions for generative AI.

One table for one version. Code that writes spans uses these names; code that reads spans also
accepts the names of other conventions and older versions. A newer version of the conventions is a
change of this file alone; `harken.formats.providers.otel_messages` encodes the messages.

Source: open-telemetry/semantic-conventions-genai, `model/gen-ai/registry.yaml` and `spans.yaml`,
schema `gen-ai-dev/1.42.0-dev` (Development; there is no release yet). OpenInference and OpenLLMetry
as of 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

SEMCONV: Final = "1.42.0-dev"
SCHEMA_URL: Final = f"https://opentelemetry.io/schemas/gen-ai-dev/{SEMCONV}"

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
CONVERSATION: Final = "gen_ai.conversation.id"
AGENT_ID: Final = "gen_ai.agent.id"
AGENT_NAME: Final = "gen_ai.agent.name"

INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"
TOOL_DEFINITIONS: Final = "gen_ai.tool.definitions"

REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_ID: Final = "gen_ai.response.id"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
"""A list of strings, one for each answer."""
FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
"""Seconds."""

INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
"""All of the input, cached parts included."""
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"

TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_CALL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_CALL_RESULT: Final = "gen_ai.tool.call.result"

ERROR_TYPE: Final = "error.type"

CHAT: Final = "chat"
GENERATE: Final = "generate_content"
COMPLETION: Final = "text_completion"
INVOKE_AGENT: Final = "invoke_agent"
EXECUTE_TOOL: Final = "execute_tool"
MODEL_CALLS: Final = frozenset({CHAT, GENERATE, COMPLETION})
"""The operations that request an answer of a model."""

DETAILS_EVENT: Final = "gen_ai.client.inference.operation.details"
"""The event that may carry the messages in place of the span."""

PARAMETERS: Final[Mapping[str, str]] = {
    "max_tokens": "gen_ai.request.max_tokens",
    "n": "gen_ai.request.choice.count",
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "top_k": "gen_ai.request.top_k",
    "stop": "gen_ai.request.stop_sequences",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
    "seed": "gen_ai.request.seed",
}
"""Attributes of request parameters by the clients' names."""

USAGE: Final[Mapping[str, str]] = {
    "input_tokens": INPUT_TOKENS,
    "output_tokens": OUTPUT_TOKENS,
    "cache_read_tokens": CACHE_READ_TOKENS,
    "cache_write_tokens": CACHE_WRITE_TOKENS,
}
"""Attributes by fields of `UsageStats`."""

FINISH: Final[Mapping[str, str]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "STOP": "stop",
    "tool_use": "tool_call",
    "tool_calls": "tool_call",
    "function_call": "tool_call",
    "max_tokens": "length",
    "MAX_TOKENS": "length",
    "max_output_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
    "SAFETY": "content_filter",
}
"""Finish reasons of the conventions by those of providers. Others stay unchanged."""

_PROVIDERS: Final[Mapping[str, str]] = {
    "gemini": "gcp.gemini",
    "google": "gcp.gemini",
    "vertex": "gcp.vertex_ai",
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "mistral": "mistral_ai",
    "xai": "x_ai",
    "moonshot": "moonshot_ai",
}

OTHER_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    PROVIDER: ("gen_ai.system", "llm.provider", "llm.system"),
    REQUEST_MODEL: ("llm.model_name", "llm.request.model"),
    CONVERSATION: ("session.id", "gen_ai.thread.id", "gen_ai.session.id"),
    AGENT_NAME: ("agent.name", "agent_name", "graph.node.id"),
    INPUT_MESSAGES: ("gen_ai.prompt",),
    OUTPUT_MESSAGES: ("gen_ai.completion",),
    TOOL_DEFINITIONS: ("gen_ai.request.tools", "model_request_parameters.function_tools"),
    INPUT_TOKENS: ("gen_ai.usage.prompt_tokens", "llm.token_count.prompt"),
    OUTPUT_TOKENS: ("gen_ai.usage.completion_tokens", "llm.token_count.completion"),
    CACHE_READ_TOKENS: (
        "gen_ai.usage.cache_read_input_tokens",
        "gen_ai.usage.details.cache_read_tokens",
        "llm.token_count.prompt_details.cache_read",
    ),
    CACHE_WRITE_TOKENS: (
        "gen_ai.usage.cache_write.input_tokens",
        "gen_ai.usage.cache_creation_input_tokens",
        "gen_ai.usage.details.cache_write_tokens",
        "llm.token_count.prompt_details.cache_write",
    ),
    FINISH_REASONS: ("gen_ai.response.stop_reason", "llm.response.finish_reason"),
    TOOL_NAME: ("tool.name", "traceloop.entity.name"),
    TOOL_CALL_ID: ("tool_call.id",),
    TOOL_CALL_ARGUMENTS: ("input.value", "traceloop.entity.input"),
    TOOL_CALL_RESULT: ("output.value", "traceloop.entity.output"),
}
"""Names in older versions, OpenInference, OpenLLMetry and frameworks, by the current name."""

OPENINFERENCE_KIND: Final = "openinference.span.kind"
OPENINFERENCE_PARAMETERS: Final = "llm.invocation_parameters"
"""All parameters of a request, as a JSON object."""
COST: Final = "llm.cost.total"
"""US dollars. A name of OpenInference, because the conventions have none."""
EVIDENCE: Final = "harken.request.evidence"
"""Of Harken: how a request that was not recorded as it was made is known."""
TRACELOOP_KIND: Final = "traceloop.span.kind"
TRACELOOP_REQUEST: Final = "llm.request.type"
OTHER_KINDS: Final[Mapping[str, Mapping[str, str]]] = {
    OPENINFERENCE_KIND: {"LLM": CHAT, "AGENT": INVOKE_AGENT, "TOOL": EXECUTE_TOOL},
    TRACELOOP_KIND: {"agent": INVOKE_AGENT, "tool": EXECUTE_TOOL},
    TRACELOOP_REQUEST: {"chat": CHAT, "completion": COMPLETION},
}
"""Operations by attribute and value, for spans without the operation attribute."""


def get_attribute(attributes: Mapping[str, Any], name: str) -> Any:
    """Return the value of an attribute under any of its names. Return None if it is absent.

    >>> get_attribute({"gen_ai.system": "openai"}, PROVIDER)
    'openai'
    """
    for alias in (name, *OTHER_NAMES.get(name, ())):
        if attributes.get(alias) is not None:
            return attributes[alias]
    return None


def find_operation(attributes: Mapping[str, Any]) -> str:
    """Return the operation of a span, or an empty string if it is unknown.

    >>> find_operation({"openinference.span.kind": "LLM"})
    'chat'
    """
    operation = attributes.get(OPERATION)
    if isinstance(operation, str) and operation:
        return operation
    for attribute, operations in OTHER_KINDS.items():
        kind = attributes.get(attribute)
        if isinstance(kind, str) and kind in operations:
            return operations[kind]
    return ""


def to_provider_name(name: str) -> str:
    """Return the conventions' name of a provider. An unknown name stays unchanged.

    >>> to_provider_name("gemini"), to_provider_name("anthropic")
    ('gcp.gemini', 'anthropic')
    """
    return _PROVIDERS.get(name, name)


def to_finish_reason(stop_reason: str) -> str:
    """Return the conventions' name of a finish reason. An unknown reason stays unchanged.

    >>> to_finish_reason("tool_use"), to_finish_reason("pause_turn")
    ('tool_call', 'pause_turn')
    """
    return FINISH.get(stop_reason, stop_reason)
