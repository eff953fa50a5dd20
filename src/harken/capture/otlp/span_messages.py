"""Read the input and output messages of a span, in any of the known conventions.

For each convention a function returns records of messages or nothing, and the first result counts:
the current conventions, the older ones (events), and the two families of libraries that write one
attribute for each member of each message. A span may state its messages in several conventions:
what a further one states otherwise is content of the message at the same place, and other data that
no field carries is in `leftovers`.

Source: `harken.formats.providers.otel_attributes` names the conventions; OpenInference, "Messages
and Content"; OpenLLMetry, "GenAI Semantic Conventions".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from harken.capture.otlp.flat_attributes import (
    read_flat_records,
    unwrap,
    unwrap_message,
    unwrap_tool,
)
from harken.capture.otlp.span import Attributes, SpanEvent
from harken.core.messages import Message, message_hash
from harken.formats.json_records import Record, equal_json, to_safe_json
from harken.formats.providers import otel_attributes
from harken.formats.providers.otel_messages import (
    instructions_from_otel,
    messages_of_record,
    parse_attribute_value,
    records_of,
    tools_from_otel,
    with_members,
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
Messages: TypeAlias = list[Message]


class SpanMessages(msgspec.Struct, frozen=True):
    """The messages of a request and of its response."""

    input_messages: Sequence[Message]
    """The input, oldest first, including system messages."""
    answers: Sequence[Message]
    """The output. Usually one message, several if several choices were requested."""
    tools: Sequence[Record]
    leftovers: Record = msgspec.field(default_factory=dict)
    """Other values of the attributes that hold them, by attribute."""


class _Statement(msgspec.Struct, frozen=True):
    """A list of messages, as one convention states it."""

    source: str
    """The name of its attribute or event."""
    records: Sequence[Any]
    """One for each message. A record may also hold several results."""
    messages: Sequence[Messages]
    """The messages of each record."""


def read_span_messages(attributes: Attributes, events: Sequence[SpanEvent]) -> SpanMessages:
    """Return the messages of a span. They are empty if its program does not capture content."""
    details = [event.attributes for event in events if event.name == otel_attributes.DETAILS_EVENT]
    sources = [attributes, *details]
    leftovers: Record = {}
    system = _read_instructions(sources, leftovers)
    input_messages = _combine(
        [
            *_from_attributes(sources, otel_attributes.INPUT_MESSAGES, "user", leftovers),
            *_from_events(events, leftovers),
            *_from_flat_attributes(attributes, _FLAT_INPUT, "user"),
        ],
        leftovers,
        already=system,
    )
    answers = _combine(
        [
            *_from_attributes(sources, otel_attributes.OUTPUT_MESSAGES, "assistant", leftovers),
            *_answers_from_events(events, leftovers),
            *_from_flat_attributes(attributes, _FLAT_OUTPUT, "assistant"),
        ],
        leftovers,
    )
    tools = _read_tools(sources, attributes, leftovers)
    return SpanMessages([*system, *input_messages], answers, tools, to_safe_json(leftovers))


def _iter_values(sources: Iterable[Attributes], name: str) -> Iterator[tuple[str, Any]]:
    """Yield the values of an attribute under all of its names, from the span and its events."""
    for source in sources:
        for alias in (name, *otel_attributes.OTHER_NAMES.get(name, ())):
            if source.get(alias) is not None:
                yield alias, source[alias]


def _add_leftover(leftovers: Record, name: str, value: Any) -> None:
    """Add a value that no message carries. Several values of one name are a list."""
    if name not in leftovers:
        leftovers[name] = value
    elif not equal_json(leftovers[name], value):
        old = leftovers[name]
        leftovers[name] = [*old, value] if isinstance(old, list) else [old, value]


def _read_instructions(sources: Sequence[Attributes], leftovers: Record) -> Messages:
    system: Messages = []
    for name, value in _iter_values(sources, otel_attributes.SYSTEM_INSTRUCTIONS):
        messages = instructions_from_otel(value)
        if not system:
            system = messages
        elif _hashes(messages) != _hashes(system):
            _add_leftover(leftovers, name, value)
    return system


def _read_tools(
    sources: Sequence[Attributes], attributes: Attributes, leftovers: Record
) -> Sequence[Record]:
    """Return the tools of the first convention that has some."""
    statements: list[tuple[str, list[Any]]] = []
    for name, value in _iter_values(sources, otel_attributes.TOOL_DEFINITIONS):
        parsed = parse_attribute_value(value)
        statements.append((name, parsed if isinstance(parsed, list) else [parsed]))
    for prefix in _FLAT_TOOLS:
        records = read_flat_records(attributes, prefix)
        statements.append((prefix.rstrip("."), [unwrap_tool(record) for record in records]))
    tools: Sequence[Record] = []
    for name, definitions in statements:
        unread = [definition for definition in definitions if not isinstance(definition, dict)]
        parsed_tools = tools_from_otel(definitions)
        if not tools:
            tools = parsed_tools
        elif not equal_json(parsed_tools, tools):
            unread = definitions
        if unread:
            _add_leftover(leftovers, name, unread)
    return tools


def _state(source: str, records: Sequence[Any], roles: Sequence[str]) -> list[_Statement]:
    """Return the statement of these records, if there are any."""
    messages = [
        messages_of_record(record, role) for record, role in zip(records, roles, strict=True)
    ]
    return [_Statement(source, records, messages)] if records else []


def _from_attributes(
    sources: Iterable[Attributes], name: str, role: str, leftovers: Record
) -> Iterator[_Statement]:
    for alias, value in _iter_values(sources, name):
        records, members = records_of(value)
        if members:
            _add_leftover(leftovers, alias, members)
        yield from _state(alias, records, [role] * len(records))


def _from_events(events: Iterable[SpanEvent], leftovers: Record) -> Iterator[_Statement]:
    """Yield the messages of the older events, one for each message or all in one."""
    records: list[Any] = []
    roles: list[str] = []
    for event in events:
        role = _ROLES_OF_EVENTS.get(event.name)
        if role is not None:
            records.append(_event_record(event.attributes))
            roles.append(role)
        elif event.name == _PROMPT_EVENT:
            inner, members = records_of(event.attributes.get("gen_ai.prompt"))
            if members:
                _add_leftover(leftovers, event.name, members)
            records += inner
            roles += ["user"] * len(inner)
    yield from _state("events", records, roles)


def _answers_from_events(events: Iterable[SpanEvent], leftovers: Record) -> Iterator[_Statement]:
    records: list[Any] = []
    for event in events:
        if event.name == _CHOICE:
            records.append(_choice_record(event.attributes))
        elif event.name == _COMPLETION_EVENT:
            inner, members = records_of(event.attributes.get("gen_ai.completion"))
            if members:
                _add_leftover(leftovers, event.name, members)
            records += inner
    yield from _state("events", records, ["assistant"] * len(records))


def _choice_record(attributes: Attributes) -> Record:
    """Return an answer: its members are those of the event, or are in one of it."""
    message = parse_attribute_value(attributes.get("message"))
    if message is None:
        return _event_record(attributes)
    inner = message if isinstance(message, dict) else {"content": message}
    return _event_record(unwrap({**attributes, "message": inner}, "message"))


def _event_record(attributes: Attributes) -> Record:
    """Return an event as a message. Its members may be JSON texts, or all be in one attribute."""
    content = parse_attribute_value(attributes.get("gen_ai.event.content"))
    record = dict(attributes)
    if isinstance(content, dict):
        record = {**record, **content}
    elif content is not None:
        record.setdefault("content", content)
    calls = parse_attribute_value(record.get("tool_calls"))
    if isinstance(calls, list):
        record["tool_calls"] = calls
    if "tool_call_id" not in record and isinstance(record.get("id"), str):
        record["tool_call_id"] = record["id"]
    return record


def _from_flat_attributes(
    attributes: Attributes, prefixes: Iterable[str], role: str
) -> Iterator[_Statement]:
    for prefix in prefixes:
        records = [unwrap_message(record) for record in read_flat_records(attributes, prefix)]
        yield from _state(f"{prefix}*", records, [role] * len(records))


def _hashes(messages: Iterable[Message]) -> list[str]:
    return [message_hash(message) for message in messages]


def _combine(
    statements: Sequence[_Statement], leftovers: Record, already: Sequence[Message] = ()
) -> Messages:
    """Return the messages of the first statement, with the differing content of the others.

    A record of another statement belongs to the message at its place among those that both do not
    share. Without such a message, it is a leftover.

    already: messages that another statement may repeat.
    """
    if not statements:
        return []
    first, *others = statements
    known = {*_hashes(already), *_all_hashes(first)}
    beside: list[Record] = [{} for _ in first.messages]
    for statement in others:
        stated = _all_hashes(statement)
        places = [
            index
            for index, messages in enumerate(first.messages)
            if not stated.issuperset(_hashes(messages))
        ]
        differing = [
            record
            for record, messages in zip(statement.records, statement.messages, strict=True)
            if not known.issuperset(_hashes(messages))
        ]
        for number, record in enumerate(differing):
            target = beside[places[number]] if number < len(places) else leftovers
            _add_leftover(target, statement.source, record)
    groups = zip(first.messages, beside, strict=True)
    return [message for messages, more in groups for message in with_members(messages, more)]


def _all_hashes(statement: _Statement) -> set[str]:
    return {hash_ for messages in statement.messages for hash_ in _hashes(messages)}
