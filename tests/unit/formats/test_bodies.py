"""Properties of request bodies in both formats, checked with Hypothesis."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.core import canonical
from harken.core.messages import Message
from harken.formats.providers import anthropic, openai_chat
from harken.formats.providers.alternation import EMPTY_TURN_TEXT, AlternatingContext
from harken.formats.tool_calls import CallIds
from tests.provider import checks
from tests.unit.formats.context_kit import ODD_CONTEXT, flatten, tidy_contexts

TOOLS = [{"name": "look", "description": "Look.", "parameters": {"properties": {}}}]
STRICT = checks.shared("strict")
needs_shared = pytest.mark.skipif(STRICT is None, reason="the shared clients are not there")


@given(ODD_CONTEXT)
def test_any_context_becomes_a_valid_anthropic_body(context: list[Message]) -> None:
    body = anthropic.add_cache_breakpoints(anthropic.build_request_body(context, TOOLS))
    json.dumps(body, allow_nan=False, ensure_ascii=False).encode()
    checks.check_anthropic(body)
    assert anthropic.lacks_thinking(body) in (True, False)


@given(ODD_CONTEXT, st.booleans())
def test_any_context_becomes_a_valid_openai_body(context: list[Message], short: bool) -> None:
    body = openai_chat.build_request_body(context, TOOLS, model="m", short_ids=short)
    json.dumps(body, allow_nan=False, ensure_ascii=False).encode()
    checks.check_openai(body)


@needs_shared
@given(ODD_CONTEXT)
def test_strict_checks_of_real_clients_accept_the_bodies(context: list[Message]) -> None:
    assert STRICT is not None
    STRICT.check_anthropic(
        anthropic.add_cache_breakpoints(anthropic.build_request_body(context, TOOLS))
    )
    STRICT.check_chat(openai_chat.build_request_body(context, TOOLS))


@given(ODD_CONTEXT)
def test_equal_contexts_have_equal_bodies(context: list[Message]) -> None:
    for module in (anthropic, openai_chat):
        first, two = (
            canonical.to_json_line(module.build_request_body(context, TOOLS)) for _ in range(2)
        )
        assert first == two


@given(tidy_contexts())
def test_anthropic_body_has_the_content_of_the_context(context: list[Message]) -> None:
    decoded = anthropic.parse_request_messages(anthropic.build_request_body(context))
    assert flatten(decoded) == flatten(_with_user_turns(context))


@given(tidy_contexts(images=False, placed=False))
def test_openai_body_has_the_content_of_the_context(context: list[Message]) -> None:
    decoded = openai_chat.parse_request_messages(openai_chat.build_request_body(context))
    assert flatten(decoded) == flatten(_with_user_turns(context), with_thinking=False)


def _with_user_turns(context: list[Message]) -> list[Message]:
    """Add the user message that ends the body if the context has none."""
    is_heard = context[-1].role in ("user", "tool")
    return context if is_heard else [*context, Message("user", EMPTY_TURN_TEXT)]


@given(ODD_CONTEXT, st.data())
def test_longer_context_starts_with_the_blocks_of_a_shorter_one(
    context: list[Message], data: st.DataObject
) -> None:
    """For each position of a possible request, where no call is open."""
    size = data.draw(st.integers(0, len(context)))
    assert _is_beginning(_turns(context[:size]), _turns(context))


@given(tidy_contexts(), st.data())
def test_anthropic_cache_prefix_stays_valid(context: list[Message], data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(context)))
    if _turns(context[:size]) is None:
        return
    shorter, longer = (
        anthropic.build_request_body(part, TOOLS) for part in (context[:size], context)
    )
    assert _texts(longer)[: len(_texts(shorter))] == _texts(shorter)
    assert shorter["tools"] == longer["tools"]


def _texts(body: dict[str, Any]) -> list[str]:
    """Return all blocks of a body in order, each as JSON, without the closing user text."""
    blocks = [("system", block) for block in body.get("system", ())]
    blocks += [(m["role"], block) for m in body["messages"] for block in m["content"]]
    if blocks[-1] == ("user", {"type": "text", "text": EMPTY_TURN_TEXT}):
        blocks.pop()
    return [json.dumps(block) for block in blocks]


Flat = list[tuple[str, Any]]


def _turns(context: Sequence[Message]) -> Flat | None:
    """Return the items of the turns. Return None if a call is open."""
    conversation = AlternatingContext(lambda item, place: {"is": repr(item)}, CallIds(40), 64)
    conversation.add(context)
    if conversation._open_calls:
        return None
    items: Flat = [("system", text) for text in conversation.system]
    for turn in conversation.turns:
        items += [("result", (r.id, r.blocks, r.is_error)) for r in turn.results]
        items += [(turn.speaker, block) for block in turn.blocks]
    return items


def _is_beginning(shorter: Flat | None, longer: Flat | None) -> bool:
    return shorter is None or longer is None or longer[: len(shorter)] == shorter


@given(ODD_CONTEXT)
def test_breakpoints_change_only_themselves(context: list[Message]) -> None:
    body = anthropic.build_request_body(context, TOOLS)
    with_marks = anthropic.add_cache_breakpoints(body)
    assert _without_marks(with_marks) == body == anthropic.build_request_body(context, TOOLS)


@given(tidy_contexts(), st.data())
def test_each_request_has_a_breakpoint_at_the_end_of_the_previous_one(
    context: list[Message], data: st.DataObject
) -> None:
    """The provider therefore finds the cache entry of that request after any number of additions."""
    prompt = [index for index, message in enumerate(context) if message.role == "assistant"]
    if len(prompt) < 2:
        return
    before, after = (
        anthropic.add_cache_breakpoints(anthropic.build_request_body(context[:index], TOOLS))
        for index in prompt[-2:]
    )
    assert _marked_prefixes(before)[-1] in _marked_prefixes(after)


def _marked_prefixes(body: dict[str, Any]) -> list[str]:
    """Return the prefixes that a provider caches: one for each cache mark."""
    blocks = [*body["tools"], *body.get("system", ())]
    blocks += [block for message in body["messages"] for block in message["content"]]
    return [
        json.dumps(_without_marks(blocks[: index + 1]))
        for index, block in enumerate(blocks)
        if "cache_control" in block
    ]


def _without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_marks(v) for k, v in value.items() if k != "cache_control"}
    return [*map(_without_marks, value)] if isinstance(value, list) else value


JSON_ODDITY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["role", "content", "type", "text", "messages", "choices", "message", "tool_calls",
             "function", "id", "name", "input", "thinking", "image_url", "url", "source"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["messages", "system", "content", "choices"]), JSON_ODDITY))
@pytest.mark.parametrize(
    "parsed",
    [
        anthropic.parse_request_messages,
        anthropic.parse_response_message,
        openai_chat.parse_request_messages,
        openai_chat.parse_response_message,
    ],
)
def test_decoding_a_foreign_body_never_fails(
    parsed: Callable[[dict[str, Any]], Any], body: dict[str, Any]
) -> None:
    parsed(body)
