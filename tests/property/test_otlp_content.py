"""No text of a span's messages is lost, in whatever members its program states it.

Each text in the attributes is a word of its own. All of them are in the messages that are read, or
in the values that no message carries.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.capture.otlp.span import SpanEvent
from harken.capture.otlp.span_messages import read_span_messages

PART_TYPES = st.sampled_from(
    [
        "text",
        "output_text",
        "reasoning",
        "tool_call",
        "function",
        "tool_call_response",
        "tool_result",
        "image_url",
        "uri",
        "blob",
        "of-tomorrow",
    ]
)
NAMES = ["content", "text", "thinking", "name", "arguments", "input", "response", "result"]
IMAGE_NAMES = ["uri", "url", "image_url", "data", "content", "x_new"]
ROLES = st.sampled_from(["user", "assistant", "tool", "system", "model", "critic"])
WORD = st.just("WORD")
"""A text. Each one is replaced by a word of its own."""
INNER = st.dictionaries(st.sampled_from([*NAMES, "url", "detail", "strict"]), WORD, max_size=3)
VALUE = WORD | st.lists(WORD, max_size=2) | INNER


def records(names: list[str], **members: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return objects with some of these members, and with values of any shape."""
    own = st.dictionaries(st.sampled_from([*names, "x_new"]), VALUE, max_size=5)
    return st.builds(
        lambda record, known: {**record, **known}, own, st.fixed_dictionaries({}, optional=members)
    )


PART = records(NAMES, type=PART_TYPES, function=INNER) | records(
    IMAGE_NAMES, type=PART_TYPES, modality=st.just("image")
)
CALL = records(NAMES, type=st.just("function"), function=INNER)
MESSAGE = records(
    NAMES,
    role=ROLES,
    parts=st.lists(PART | WORD, max_size=3) | VALUE,
    content=st.lists(PART | WORD, max_size=2) | VALUE,
    tool_calls=st.lists(CALL | WORD, max_size=2) | VALUE,
)
MESSAGES = st.lists(MESSAGE | WORD, min_size=1, max_size=3)
TOOL = records(["name", "description", "parameters", "input_schema"], function=INNER)
AS_TEXT = st.booleans()


def flat(prefix: str, messages: list[Any]) -> Iterator[tuple[str, Any]]:
    """Yield attributes that spell out messages."""
    for index, message in enumerate(messages):
        yield from spell_out(f"{prefix}{index}", message)


def spell_out(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    inner: Any = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    else:
        yield name, value
    for key, item in inner:
        yield from spell_out(f"{name}.{key}", item)


def numbered(value: Any, words: list[str]) -> Any:
    """Return a value with a word of its own in place of each text."""
    if value == "WORD":
        words.append(f"word{len(words)}x")
        return words[-1]
    if isinstance(value, dict):
        return {name: numbered(inner, words) for name, inner in value.items()}
    if isinstance(value, list):
        return [numbered(inner, words) for inner in value]
    return value


ATTRIBUTES = st.fixed_dictionaries(
    {},
    optional={
        "gen_ai.input.messages": MESSAGES,
        "gen_ai.prompt": MESSAGES | st.builds(lambda m: {"messages": m, "x_new": "WORD"}, MESSAGES),
        "gen_ai.output.messages": MESSAGES,
        "gen_ai.completion": MESSAGES,
        "gen_ai.system_instructions": st.lists(PART | WORD, min_size=1, max_size=2),
        "gen_ai.tool.definitions": st.lists(TOOL | WORD, min_size=1, max_size=2),
        "gen_ai.request.tools": st.lists(TOOL, min_size=1, max_size=2),
    },
)
FLAT = st.fixed_dictionaries(
    {},
    optional={
        "gen_ai.prompt.": MESSAGES,
        "llm.input_messages.": st.lists(
            st.builds(lambda m: {"message": m, "x_new": "WORD"}, MESSAGE), min_size=1, max_size=2
        ),
        "gen_ai.completion.": MESSAGES,
        "llm.tools.": st.lists(st.builds(lambda tool: {"tool": tool}, TOOL), max_size=2),
    },
)
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["gen_ai.user.message", "gen_ai.tool.message", "gen_ai.choice"]),
        MESSAGE | st.builds(lambda m, beside: {**beside, "message": m}, MESSAGE | WORD, MESSAGE),
    ),
    max_size=2,
)


def assert_complete(
    attributes: Mapping[str, Any], events: list[tuple[str, Any]], words: list[str]
) -> None:
    read = read_span_messages(attributes, [SpanEvent(name, value) for name, value in events])
    messages = msgspec.to_builtins([*read.input_messages, *read.answers])
    text = json.dumps([messages, [*read.tools], read.leftovers])
    missing = [word for word in words if word not in text]
    assert missing == [], json.dumps([attributes, events])


@given(ATTRIBUTES, FLAT, EVENTS, AS_TEXT)
def test_every_text_is_read_or_left(
    attributes: Any, flat_records: Any, events: Any, is_text: bool
) -> None:
    words: list[str] = []
    attributes = numbered(attributes, words)
    if is_text:
        attributes = {name: json.dumps(value) for name, value in attributes.items()}
    for prefix, records_ in numbered(flat_records, words).items():
        attributes |= flat(prefix, records_)
    assert_complete(attributes, numbered([[*event] for event in events], words), words)


@pytest.mark.parametrize(
    "text",
    [
        '[{"role":"user","content":"one","content":"two"}]',
        '[{"role":"user","parts":[{"type":"text","content":"one","content":"two"}]}]',
        '[{"role":"assistant","parts":[{"type":"tool_call","arguments":{"a":"one","a":"two"}}]}]',
        '[{"role":"assistant","tool_calls":[{"function":{"name":"one","name":"two"}}]}]',
        '[{"role":"user","parts":[{"type":"text","content":"one","text":"two"}]}]',
        '[{"role":"user","content":[{"type":"image","image_url":{"url":"one","detail":"two"}}]}]',
        '[{"role":"tool","parts":[{"type":"tool_result","id":"one","tool_use_id":"two"}]}]',
    ],
)
def test_second_value_of_a_member_is_not_lost(text: str) -> None:
    assert_complete({"gen_ai.input.messages": text}, [], ["one", "two"])
