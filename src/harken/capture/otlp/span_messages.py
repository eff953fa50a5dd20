"""Read the input and output messages of a span, in any of the known conventions.

For each convention a function returns messages or nothing, and the first result counts: the current
conventions, the older ones (events), and the two families of libraries that write one attribute for
each member of each message.

Source: `harken.formats.providers.otel_attributes` names the conventions; OpenInference, "Messages
and Content"; OpenLLMetry, "GenAI Semantic Conventions".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

from harken.capture.otlp.span import Attributes, SpanEvent
from harken.core.messages import Message
from harken.formats.json_records import Record
from harken.formats.providers import otel_attributes
from harken.formats.providers.otel_messages import (
    instructions_from_otel,
    message_from_otel,
    messages_from_otel,
    parse_attribute_value,
    tools_from_otel,
)

_CHOICE = "gen_ai.choice"
_ROLES_OF_EVENTS: Mapping[str, str] = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_PROMPT_EVENT, _COMPLETION_EVENT = "gen_ai.content.prompt", "gen_ai.content.completion"
_FLAT_INPUT = ("gen_ai.prompt.", "llm.input_messages.")
_FLAT_OUTPUT = ("gen_ai.completion.", "llm.output_messages.")
_FLAT_TOOLS = ("llm.request.functions.", "llm.tools.", "gen_ai.request.tools.")
_MAX_DEPTH = 12
Messages: TypeAlias = list[Message]


@dataclass(frozen=True, slots=True)
class SpanMessages:
    """The messages of a request and of its response."""

    input_messages: Sequence[Message]
    """The input, oldest first, including system messages."""
    answers: Sequence[Message]
    """The output. Usually one message, several if several choices were requested."""
    tools: Sequence[Record]


def read_span_messages(attributes: Attributes, events: Sequence[SpanEvent]) -> SpanMessages:
    """Return the messages of a span. They are empty if its program does not capture content."""
    details = [event.attributes for event in events if event.name == otel_attributes.DETAILS_EVENT]
    sources = [attributes, *details]
    system = _first_value(sources, otel_attributes.SYSTEM_INSTRUCTIONS, instructions_from_otel)
    input_messages = (
        _first_value(sources, otel_attributes.INPUT_MESSAGES, messages_from_otel)
        or _messages_from_events(events)
        or _messages_from_attributes(attributes, _FLAT_INPUT, "user")
    )
    answers = (
        _first_value(sources, otel_attributes.OUTPUT_MESSAGES, _answers)
        or _answers_from_events(events)
        or _messages_from_attributes(attributes, _FLAT_OUTPUT, "assistant")
    )
    tools = _first_value(
        sources, otel_attributes.TOOL_DEFINITIONS, tools_from_otel
    ) or tools_from_otel(
        [
            _unwrap_tool(definition)
            for definition in chain.from_iterable(_iter_nested(attributes, p) for p in _FLAT_TOOLS)
        ]
    )
    return SpanMessages([*system, *input_messages], answers, tools)


def _first_value(sources: Iterable[Attributes], name: str, parse: Any) -> Any:
    """Return the first non-empty value of an attribute, from the span or its events."""
    for source in sources:
        value = parse(otel_attributes.get_attribute(source, name))
        if value:
            return value
    return []


def _answers(value: object) -> Messages:
    return messages_from_otel(value, "assistant")


def _messages_from_events(events: Iterable[SpanEvent]) -> Messages:
    """Return the messages of the older events, one for each message."""
    messages: Messages = []
    for event in events:
        role = _ROLES_OF_EVENTS.get(event.name)
        if role is not None:
            messages += message_from_otel(_event_record(event.attributes), role)
        elif event.name == _PROMPT_EVENT:
            messages += messages_from_otel(event.attributes.get("gen_ai.prompt"))
    return messages


def _answers_from_events(events: Iterable[SpanEvent]) -> Messages:
    messages: Messages = []
    for event in events:
        if event.name == _CHOICE:
            message = parse_attribute_value(event.attributes.get("message"))
            record = message if isinstance(message, dict) else _event_record(event.attributes)
            if not isinstance(message, dict) and message is not None:
                record = {"content": message}
            messages += message_from_otel(record, "assistant")
        elif event.name == _COMPLETION_EVENT:
            messages += _answers(event.attributes.get("gen_ai.completion"))
    return messages


def _event_record(attributes: Attributes) -> Record:
    """Return an event as a message. Its members may be JSON texts, or all be in one attribute."""
    content = parse_attribute_value(attributes.get("gen_ai.event.content"))
    members = content if isinstance(content, dict) else attributes
    calls = parse_attribute_value(members.get("tool_calls"))
    record = dict(members)
    if isinstance(calls, list):
        record["tool_calls"] = calls
    if "tool_call_id" not in record and isinstance(record.get("id"), str):
        record["tool_call_id"] = record["id"]
    return record


def _messages_from_attributes(
    attributes: Attributes, prefixes: Iterable[str], role: str
) -> Messages:
    for prefix in prefixes:
        message_lists = [
            message_from_otel(_unwrap_message(record), role)
            for record in _iter_nested(attributes, prefix)
        ]
        if message_lists:
            return [message for messages in message_lists for message in messages]
    return []


def _unwrap_message(wrapper: Any) -> Record:
    """Return a message without the wrapper objects of OpenInference."""
    inner = wrapper.get("message", wrapper)
    if not isinstance(inner, dict):
        return {}
    record = dict(inner)
    calls = record.get("tool_calls")
    if isinstance(calls, list):
        record["tool_calls"] = [
            call.get("tool_call", call) for call in calls if isinstance(call, dict)
        ]
    if isinstance(record.get("contents"), list):
        record["content"] = [_unwrap_content(wrapper) for wrapper in record.pop("contents")]
    return record


def _unwrap_content(wrapper: Any) -> Any:
    inner = wrapper.get("message_content", wrapper) if isinstance(wrapper, dict) else wrapper
    image = inner.get("image") if isinstance(inner, dict) else None
    if isinstance(image, dict):
        image = image.get("image", image)
        return {"type": "image_url", "image_url": image}
    return inner


def _unwrap_tool(definition: Any) -> Any:
    """Return a tool definition. OpenInference stores it as the JSON text of its schema."""
    inner = definition.get("tool", definition)
    schema = parse_attribute_value(inner.get("json_schema")) if isinstance(inner, dict) else None
    tool_definition = schema if isinstance(schema, dict) else inner
    if isinstance(tool_definition, dict) and "parameters" in tool_definition:
        return {
            **tool_definition,
            "parameters": parse_attribute_value(tool_definition["parameters"]),
        }
    return tool_definition


def _iter_nested(attributes: Attributes, prefix: str) -> Iterator[Record]:
    """Yield the objects that attributes such as `PREFIX0.role` spell out, by index."""
    tree: dict[str, Any] = {}
    for name, value in attributes.items():
        if name.startswith(prefix):
            path = name[len(prefix) :].split(".")
            if len(path) <= _MAX_DEPTH and path[0].isdecimal():
                _insert_path(tree, path, value)
    yield from (item for item in _as_list(tree, always=True) if isinstance(item, dict))


def _insert_path(tree: dict[str, Any], path: Sequence[str], value: Any) -> None:
    *parents, leaf = path
    for step in parents:
        child = tree.get(step)
        if not isinstance(child, dict):
            child = tree[step] = {}
        tree = child
    tree.setdefault(leaf, value)


def _as_list(tree: Any, *, always: bool = False) -> Any:
    """Return a tree with numeric names as a list, in numeric order."""
    if not isinstance(tree, dict):
        return tree
    if tree and all(name.isdecimal() and name.isascii() for name in tree):
        ordered = sorted(tree.items(), key=lambda pair: (len(pair[0]), pair[0]))
        return [_as_list(child) for _, child in ordered]
    return [] if always else {name: _as_list(child) for name, child in tree.items()}
