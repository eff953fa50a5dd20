"""Laws of request bodies of both formats, on whatever Hypothesis can think of."""

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
from tests.unit.formats.contexts import ODD_CONTEXT, flat, tidy_contexts

TOOLS = [{"name": "look", "description": "Look.", "parameters": {"properties": {}}}]
STRICT = checks.shared("strict")
needs_shared = pytest.mark.skipif(STRICT is None, reason="the shared clients are not there")


@given(ODD_CONTEXT)
def test_whatever_the_context_anthropic_takes_the_body(context: list[Message]) -> None:
    body = anthropic.add_cache_breakpoints(anthropic.build_request_body(context, TOOLS))
    json.dumps(body, allow_nan=False, ensure_ascii=False).encode()
    checks.check_anthropic(body)
    assert anthropic.lacks_thinking(body) in (True, False)


@given(ODD_CONTEXT, st.booleans())
def test_whatever_the_context_openai_takes_the_body(context: list[Message], short: bool) -> None:
    body = openai_chat.build_request_body(context, TOOLS, model="m", short_ids=short)
    json.dumps(body, allow_nan=False, ensure_ascii=False).encode()
    checks.check_openai(body)


@needs_shared
@given(ODD_CONTEXT)
def test_the_strict_checks_of_real_clients_find_nothing_to_refuse(context: list[Message]) -> None:
    assert STRICT is not None
    STRICT.check_anthropic(
        anthropic.add_cache_breakpoints(anthropic.build_request_body(context, TOOLS))
    )
    STRICT.check_chat(openai_chat.build_request_body(context, TOOLS))


@given(ODD_CONTEXT)
def test_equal_contexts_have_equal_bodies(context: list[Message]) -> None:
    for module in (anthropic, openai_chat):
        one, two = (
            canonical.to_json_line(module.build_request_body(context, TOOLS)) for _ in range(2)
        )
        assert one == two


@given(tidy_contexts())
def test_what_a_body_of_anthropic_says_is_what_the_context_says(context: list[Message]) -> None:
    read = anthropic.parse_request_messages(anthropic.build_request_body(context))
    assert flat(read) == flat(_begun_and_heard(context))


@given(tidy_contexts(images=False, placed=False))
def test_what_a_body_of_openai_says_is_what_the_context_says(context: list[Message]) -> None:
    read = openai_chat.parse_request_messages(openai_chat.build_request_body(context))
    assert flat(read) == flat(_begun_and_heard(context), with_thinking=False)


def _begun_and_heard(context: list[Message]) -> list[Message]:
    """Add the word of the user that a body ends with where the context has none."""
    is_heard = context[-1].role in ("user", "tool")
    return context if is_heard else [*context, Message("user", EMPTY_TURN_TEXT)]


@given(ODD_CONTEXT, st.data())
def test_a_longer_context_begins_with_the_blocks_of_a_shorter_one(
    context: list[Message], data: st.DataObject
) -> None:
    """Wherever a request can be made: no call is without its result there."""
    size = data.draw(st.integers(0, len(context)))
    assert _is_beginning(_turns(context[:size]), _turns(context))


@given(tidy_contexts(), st.data())
def test_what_anthropic_has_cached_stays_valid(context: list[Message], data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(context)))
    if _turns(context[:size]) is None:
        return
    shorter, longer = (
        anthropic.build_request_body(part, TOOLS) for part in (context[:size], context)
    )
    assert _texts(longer)[: len(_texts(shorter))] == _texts(shorter)
    assert shorter["tools"] == longer["tools"]


def _texts(body: dict[str, Any]) -> list[str]:
    """Return all blocks of a body in order, each as JSON, without a closing word."""
    blocks = [("system", block) for block in body.get("system", ())]
    blocks += [(m["role"], block) for m in body["messages"] for block in m["content"]]
    if blocks[-1] == ("user", {"type": "text", "text": EMPTY_TURN_TEXT}):
        blocks.pop()
    return [json.dumps(block) for block in blocks]


Flat = list[tuple[str, Any]]


def _turns(context: Sequence[Message]) -> Flat | None:
    """Return the items of the turns; None where a call is open."""
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
def test_breakpoints_change_nothing_but_themselves(context: list[Message]) -> None:
    body = anthropic.build_request_body(context, TOOLS)
    marked = anthropic.add_cache_breakpoints(body)
    assert _without_marks(marked) == body == anthropic.build_request_body(context, TOOLS)


@given(tidy_contexts(), st.data())
def test_each_request_has_a_breakpoint_where_the_one_before_it_ended(
    context: list[Message], data: st.DataObject
) -> None:
    """So what that request wrote into the cache is found, however much was added."""
    asked = [at for at, message in enumerate(context) if message.role == "assistant"]
    if len(asked) < 2:
        return
    before, after = (
        anthropic.add_cache_breakpoints(anthropic.build_request_body(context[:at], TOOLS))
        for at in asked[-2:]
    )
    assert _marked_prefixes(before)[-1] in _marked_prefixes(after)


def _marked_prefixes(body: dict[str, Any]) -> list[str]:
    """Return what a provider caches: all before a mark, for each mark."""
    blocks = [*body["tools"], *body.get("system", ())]
    blocks += [block for message in body["messages"] for block in message["content"]]
    return [
        json.dumps(_without_marks(blocks[: at + 1]))
        for at, block in enumerate(blocks)
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
    "read",
    [
        anthropic.parse_request_messages,
        anthropic.parse_response_message,
        openai_chat.parse_request_messages,
        openai_chat.parse_response_message,
    ],
)
def test_reading_never_fails_on_what_others_wrote(
    read: Callable[[dict[str, Any]], Any], body: dict[str, Any]
) -> None:
    read(body)
