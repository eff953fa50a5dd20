"""Laws of `messages_in` and `messages_out`, for generated messages of each client.

A message is written back exactly. Two messages that differ anywhere have different ids, except in
the members that the format document names as data of an occurrence.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from harken.core.messages import message_hash
from harken.formats.client_messages import messages_in, messages_out
from harken.formats.json_records import equal_json

from .test_messages import JSON, STRING

OCCURRENCE = {
    "anthropic-messages": {"id", "tool_use_id", "signature", "caller", "cache_control"},
    "openai-chat": {
        "id",
        "tool_call_id",
        "signature",
        "extra_content",
        "data",
        "cache_control",
    },
    "openai-responses": {"id", "call_id", "status", "encrypted_content", "phase"},
    "gemini": {"id", "thoughtSignature"},
    "ollama": {"tool_name", "id"},
    "messages-v1": {"id", "tool_call_id", "meta", "name"},
}
"""The members that docs/formats/wire.md names, by protocol."""

WORD = st.sampled_from(["look", "f", "a b"])
NEW = st.dictionaries(st.sampled_from(["x_a", "x_b"]), JSON.filter(lambda v: v is not None))
OBJECT = st.dictionaries(STRING, JSON, max_size=2)


def shaped(
    required: dict[str, Any], optional: dict[str, Any] | None = None
) -> st.SearchStrategy[dict[str, Any]]:
    """Return objects with these members, and with unknown ones."""
    own = st.fixed_dictionaries(
        {
            name: value if isinstance(value, st.SearchStrategy) else st.just(value)
            for name, value in required.items()
        },
        optional=optional or {},
    )
    return st.builds(lambda known, new: {**new, **known}, own, st.just({}) | NEW)


def lists(*items: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.one_of(*items), max_size=4)


MARKED = {"cache_control": st.just({"type": "ephemeral"})}
A_TEXT = shaped({"type": "text", "text": STRING}, {"citations": st.lists(OBJECT), **MARKED})
A_IMAGE = shaped(
    {
        "type": "image",
        "source": shaped({"type": "base64", "media_type": STRING, "data": STRING})
        | shaped({"type": "url", "url": STRING}),
    },
    MARKED,
)
A_RESULT = shaped(
    {"type": "tool_result", "tool_use_id": STRING},
    {"content": STRING | lists(A_TEXT, A_IMAGE), "is_error": st.booleans()},
)
A_THINKING = shaped({"type": "thinking", "thinking": STRING}, {"signature": STRING})
A_CALL = shaped(
    {"type": "tool_use", "id": STRING, "name": WORD, "input": OBJECT}, {"caller": OBJECT}
)
A_OTHER = shaped({"type": "server_tool_use", "name": WORD, "input": OBJECT})
ANTHROPIC = (
    shaped({"role": "user", "content": STRING | lists(A_TEXT, A_IMAGE, A_RESULT, A_OTHER)})
    | shaped({"role": "assistant", "content": STRING | lists(A_TEXT, A_THINKING, A_CALL, A_OTHER)})
    | st.fixed_dictionaries({"system": STRING | st.lists(A_TEXT, min_size=1, max_size=1)})
)

FUNCTION = shaped({"name": WORD, "arguments": STRING})
C_TEXT = shaped({"type": "text", "text": STRING}, MARKED)
C_IMAGE = shaped(
    {"type": "image_url", "image_url": shaped({"url": STRING | st.just("data:a/b;base64,aGk=")})}
)
C_AUDIO = shaped({"type": "input_audio", "input_audio": OBJECT})
C_CALL = shaped({"id": STRING, "type": "function", "function": FUNCTION}) | shaped(
    {"id": STRING, "type": "custom", "custom": shaped({"name": WORD, "input": STRING})},
    {"extra_content": OBJECT},
)
CHAT = (
    shaped(
        {
            "role": st.sampled_from(["user", "system", "developer"]),
            "content": STRING | lists(C_TEXT, C_IMAGE, C_AUDIO),
        },
        {"name": WORD},
    )
    | shaped(
        {"role": "assistant"},
        {
            "content": st.none() | STRING | lists(C_TEXT),
            "reasoning_content": STRING,
            "reasoning": STRING,
            "reasoning_details": st.lists(OBJECT, max_size=2),
            "refusal": st.none() | STRING,
            "annotations": st.lists(OBJECT, max_size=2),
            "audio": st.none() | OBJECT,
            "tool_calls": lists(C_CALL),
            "function_call": FUNCTION,
        },
    )
    | shaped({"role": "tool", "tool_call_id": STRING, "content": STRING | lists(C_TEXT)})
    | shaped({"role": "function", "name": WORD, "content": STRING})
)

R_TEXT = shaped(
    {"type": st.sampled_from(["input_text", "output_text"]), "text": STRING},
    {"annotations": st.lists(OBJECT, max_size=1)},
)
R_IMAGE = shaped({"type": "input_image", "image_url": STRING}, {"detail": WORD})
RESPONSES = (
    shaped(
        {
            "type": "message",
            "role": st.sampled_from(["user", "system", "developer", "assistant"]),
            "content": STRING | lists(R_TEXT, R_IMAGE),
        },
        {"id": STRING, "status": WORD, "phase": WORD},
    )
    | shaped(
        {"type": "function_call", "call_id": STRING, "name": WORD, "arguments": STRING},
        {"id": STRING, "status": WORD},
    )
    | shaped(
        {
            "type": "function_call_output",
            "call_id": STRING,
            "output": STRING | lists(R_TEXT, R_IMAGE),
        }
    )
    | shaped(
        {
            "type": "reasoning",
            "summary": st.lists(shaped({"type": "summary_text", "text": STRING}), max_size=2),
        },
        {"id": STRING, "encrypted_content": st.none() | STRING, "content": st.none()},
    )
    | shaped({"type": "web_search_call", "action": OBJECT}, {"id": STRING, "status": WORD})
    | st.fixed_dictionaries({"instructions": STRING})
)

SIGNED = {"thoughtSignature": STRING}
G_TEXT = shaped({"text": STRING}, {"thought": st.booleans(), **SIGNED})
G_IMAGE = shaped(
    {"inlineData": shaped({"mimeType": STRING | st.just("image/png"), "data": STRING})}
)
G_CALL = shaped({"functionCall": shaped({"name": WORD, "args": OBJECT}, {"id": STRING})}, SIGNED)
G_RESULT = shaped(
    {
        "functionResponse": shaped(
            {"name": WORD, "response": OBJECT | st.fixed_dictionaries({"output": STRING})},
            {"id": STRING},
        )
    }
)
GEMINI = (
    shaped({"role": "user", "parts": lists(G_TEXT, G_IMAGE, G_RESULT)})
    | shaped({"role": "model", "parts": lists(G_TEXT, G_CALL)})
    | st.fixed_dictionaries({"systemInstruction": shaped({"parts": lists(G_TEXT)})})
)

O_CALL = shaped({"function": shaped({"name": WORD, "arguments": OBJECT})})
OLLAMA = (
    shaped({"role": "user", "content": STRING}, {"images": st.lists(STRING, max_size=2)})
    | shaped(
        {"role": "assistant", "content": STRING},
        {"thinking": STRING, "tool_calls": st.lists(O_CALL, max_size=2)},
    )
    | shaped({"role": "tool", "content": STRING, "tool_name": WORD})
)

OWN_META = {"meta": OBJECT}
OWN_PART = (
    shaped({"type": "text", "text": STRING}, OWN_META)
    | shaped({"type": "thinking", "text": STRING}, OWN_META)
    | shaped({"type": "image"}, {"data": STRING, "url": STRING, "media_type": STRING})
    | shaped({"type": "song", "bars": JSON.filter(lambda v: v is not None)})
)
OWN_CALL = shaped({"id": STRING, "type": "function", "function": FUNCTION}, OWN_META)
OWN = shaped(
    {"role": st.sampled_from(["user", "system"]), "content": STRING | lists(OWN_PART)},
    {"name": WORD},
) | shaped(
    {"role": "assistant"},
    {"content": STRING | lists(OWN_PART), "tool_calls": st.lists(OWN_CALL, max_size=2)},
)

VALUES = {
    "anthropic-messages": ANTHROPIC,
    "openai-chat": CHAT,
    "openai-responses": RESPONSES,
    "gemini": GEMINI,
    "ollama": OLLAMA,
    "messages-v1": OWN,
}
SHAPES = pytest.mark.parametrize("shape", [*VALUES])


def _hashes(value: Any, shape: str) -> list[str]:
    return [message_hash(message) for message in messages_in(value, shape=shape)]


def _iter_paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all objects and texts in a value."""
    if isinstance(value, dict | str):
        yield path
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for name, inner in items:
        yield from _iter_paths(inner, (*path, name))


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for name in path:
        value = value[name]
    return value


def _changed(value: Any, path: tuple[Any, ...]) -> Any:
    """Return a copy in which an object has one more member, or a text one more letter."""
    value = copy.deepcopy(value)
    target = _at(value, path)
    if isinstance(target, dict):
        target["x_new"] = "x"
    else:
        _at(value, path[:-1])[path[-1]] = target + "x"
    return value


@SHAPES
@given(data=st.data())
def test_a_message_is_written_back_exactly(shape: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(VALUES[shape], max_size=3))
    messages = messages_in(values, shape=shape, report=lambda _: None)
    assert equal_json(messages_out(messages, shape), values)


@SHAPES
@given(data=st.data())
def test_a_change_anywhere_gives_another_id(shape: str, data: st.DataObject) -> None:
    value = data.draw(VALUES[shape])
    path = data.draw(st.sampled_from([*_iter_paths(value)]))
    assume(OCCURRENCE[shape].isdisjoint(path))
    assume(not (shape == "gemini" and path[-2:] == ("functionResponse", "name")))
    assume(not (value.get("role") == "function" and path == ("name",)))
    changed = _changed(value, path)
    assert _hashes(value, shape) != _hashes(changed, shape)


@given(value=ANTHROPIC | CHAT, id_=STRING)
def test_an_id_of_the_provider_does_not_change_the_id_of_a_message(value: Any, id_: str) -> None:
    assume("role" in value)
    assert _hashes(value, "") == _hashes({**value, "id": id_}, "")


@given(JSON | VALUES["openai-chat"] | VALUES["anthropic-messages"] | VALUES["messages-v1"])
def test_any_json_gives_messages_that_can_be_hashed(value: Any) -> None:
    for message in messages_in([value], report=lambda _: None):
        message_hash(message)
