"""What a span says that a model was told, and answered, in whichever of the ways to write it.

One idea: each way is a function that finds messages or nothing, and the first that finds some
counts: the conventions as they are, as they were (events), and the two families of libraries that
write one attribute for each member of each message.

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
    instructions_of,
    message_of,
    messages_of,
    tools_of,
    value_of,
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
_DEPTH = 12
Messages: TypeAlias = list[Message]


@dataclass(frozen=True, slots=True)
class SpanMessages:
    """A request and its answer."""

    asked: Sequence[Message]
    """Oldest first, system messages included."""
    answers: Sequence[Message]
    """Mostly one; several, where several were asked for."""
    tools: Sequence[Record]


def read_span_messages(attributes: Attributes, events: Sequence[SpanEvent]) -> SpanMessages:
    """Return what a span says; nothing where its program does not capture what is said."""
    details = [event.attributes for event in events if event.name == otel_attributes.DETAILS_EVENT]
    sources = [attributes, *details]
    system = _first(sources, otel_attributes.SYSTEM_INSTRUCTIONS, instructions_of)
    asked = (
        _first(sources, otel_attributes.INPUT_MESSAGES, messages_of)
        or _of_events(events)
        or _flat(attributes, _FLAT_INPUT, "user")
    )
    answers = (
        _first(sources, otel_attributes.OUTPUT_MESSAGES, _answers)
        or _of_choices(events)
        or _flat(attributes, _FLAT_OUTPUT, "assistant")
    )
    tools = _first(sources, otel_attributes.TOOL_DEFINITIONS, tools_of) or tools_of(
        [_tool(one) for one in chain.from_iterable(_nested(attributes, p) for p in _FLAT_TOOLS)]
    )
    return SpanMessages([*system, *asked], answers, tools)


def _first(sources: Iterable[Attributes], name: str, read: Any) -> Any:
    """Return what is found first under a name, in the span or in one of its events."""
    for source in sources:
        found = read(otel_attributes.get_attribute(source, name))
        if found:
            return found
    return []


def _answers(value: object) -> Messages:
    return messages_of(value, "assistant")


def _of_events(events: Iterable[SpanEvent]) -> Messages:
    """Return what the older events say, one for each message."""
    found: Messages = []
    for event in events:
        role = _ROLES_OF_EVENTS.get(event.name)
        if role is not None:
            found += message_of(_record(event.attributes), role)
        elif event.name == _PROMPT_EVENT:
            found += messages_of(event.attributes.get("gen_ai.prompt"))
    return found


def _of_choices(events: Iterable[SpanEvent]) -> Messages:
    found: Messages = []
    for event in events:
        if event.name == _CHOICE:
            message = value_of(event.attributes.get("message"))
            record = message if isinstance(message, dict) else _record(event.attributes)
            if not isinstance(message, dict) and message is not None:
                record = {"content": message}
            found += message_of(record, "assistant")
        elif event.name == _COMPLETION_EVENT:
            found += _answers(event.attributes.get("gen_ai.completion"))
    return found


def _record(attributes: Attributes) -> Record:
    """Return an event as a message: its members may be JSON in texts, or all in one of them."""
    whole = value_of(attributes.get("gen_ai.event.content"))
    told = whole if isinstance(whole, dict) else attributes
    calls = value_of(told.get("tool_calls"))
    record = dict(told)
    if isinstance(calls, list):
        record["tool_calls"] = calls
    if "tool_call_id" not in record and isinstance(record.get("id"), str):
        record["tool_call_id"] = record["id"]
    return record


def _flat(attributes: Attributes, prefixes: Iterable[str], role: str) -> Messages:
    for prefix in prefixes:
        found = [message_of(_unwrapped(one), role) for one in _nested(attributes, prefix)]
        if found:
            return [message for messages in found for message in messages]
    return []


def _unwrapped(one: Any) -> Record:
    """Return a message without the names that OpenInference puts around each object."""
    told = one.get("message", one)
    if not isinstance(told, dict):
        return {}
    record = dict(told)
    calls = record.get("tool_calls")
    if isinstance(calls, list):
        record["tool_calls"] = [
            call.get("tool_call", call) for call in calls if isinstance(call, dict)
        ]
    if isinstance(record.get("contents"), list):
        record["content"] = [_content(one) for one in record["contents"]]
    return record


def _content(one: Any) -> Any:
    inner = one.get("message_content", one) if isinstance(one, dict) else one
    image = inner.get("image") if isinstance(inner, dict) else None
    if isinstance(image, dict):
        image = image.get("image", image)
        return {"type": "image_url", "image_url": image}
    return inner


def _tool(one: Any) -> Any:
    """Return a definition of a tool, which OpenInference has as the JSON text of its schema."""
    inner = one.get("tool", one)
    schema = value_of(inner.get("json_schema")) if isinstance(inner, dict) else None
    told = schema if isinstance(schema, dict) else inner
    if isinstance(told, dict) and "parameters" in told:
        return {**told, "parameters": value_of(told["parameters"])}
    return told


def _nested(attributes: Attributes, prefix: str) -> Iterator[Record]:
    """Yield the objects that attributes spell out, as in `PREFIX0.role`, by their number."""
    tree: dict[str, Any] = {}
    for name, value in attributes.items():
        if name.startswith(prefix):
            path = name[len(prefix) :].split(".")
            if len(path) <= _DEPTH and path[0].isdecimal():
                _plant(tree, path, value)
    yield from (one for one in _listed(tree, always=True) if isinstance(one, dict))


def _plant(tree: dict[str, Any], path: Sequence[str], value: Any) -> None:
    *way, last = path
    for step in way:
        below = tree.get(step)
        if not isinstance(below, dict):
            below = tree[step] = {}
        tree = below
    tree.setdefault(last, value)


def _listed(tree: Any, *, always: bool = False) -> Any:
    """Return a tree whose names are numbers as a list, in their order."""
    if not isinstance(tree, dict):
        return tree
    if tree and all(name.isdecimal() and name.isascii() for name in tree):
        ordered = sorted(tree.items(), key=lambda pair: (len(pair[0]), pair[0]))
        return [_listed(one) for _, one in ordered]
    return [] if always else {name: _listed(one) for name, one in tree.items()}
