"""What stands in the body of a request beside the conversation: what each server takes."""

from __future__ import annotations

import re
from typing import Any

import pytest

from harken.core.messages import (
    FunctionCall,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    UnknownPart,
)
from harken.llm import anthropic, openai
from harken.llm.http_model import ModelEndpoint
from harken.llm.providers import BUILT_IN
from harken.testing import request_of

MISTRAL = BUILT_IN["mistral"]
LIMIT = {"max_tokens": 9}


@pytest.mark.parametrize("body_of", [anthropic.build_request, openai.build_request])
def test_what_a_server_refuses_is_never_sent(body_of: Any) -> None:
    asked = request_of("Hi", parameters={"top_k": 1, "top_p": 0.5, "seed": None})
    sent = body_of("m", asked, ModelEndpoint(base_url="http://localhost/v1", omit=("top_k",)))
    assert sent["top_p"] == 0.5
    assert not {"top_k", "seed"} & sent.keys()


def test_mistral_is_not_asked_for_the_usage_that_it_gives_anyway() -> None:
    at = ModelEndpoint(base_url=MISTRAL.base_url, omit=MISTRAL.omit)
    assert "stream_options" not in openai.build_request("m", request_of("Hi"), at)
    assert openai.build_request("m", request_of("Hi"))["stream_options"] == {"include_usage": True}


def test_mistral_gets_ids_of_nine_letters_and_digits_the_same_each_time() -> None:
    """Ids of others, as a conversation with several models has, are refused."""
    raw = ["toolu_01ABC", "call_0", "D681PevKs", "call_0", "D681PevKs", "\ud800", ""]
    context = [Message("user", "Hi")]
    for id_ in raw:
        call = ToolCall(id_, FunctionCall("look", "{}"))
        context += [Message("assistant", None, [call]), Message("tool", "x", tool_call_id=id_)]
    at = ModelEndpoint(short_ids=MISTRAL.short_ids)
    for size in range(1, len(context) + 1, 2):
        messages = openai.build_request("m", request_of(*context[:size]), at)["messages"]
        ids = [call["id"] for m in messages for call in m.get("tool_calls", ())]
        assert ids == [m["tool_call_id"] for m in messages if m["role"] == "tool"]
    assert all(re.fullmatch("[a-zA-Z0-9]{9}", id_) for id_ in ids)
    assert len({*ids}) == len(raw)
    assert ids[2] == raw[2]


@pytest.mark.parametrize("url", [None, "https://api.openai.com/v1", "https://eu.api.openai.com/v1"])
def test_openai_gets_the_limit_by_its_new_name(url: str | None) -> None:
    """Its reasoning models refuse the old one; all others know no other."""
    sent = openai.build_request(
        "m", request_of("Hi", parameters=LIMIT), ModelEndpoint(base_url=url)
    )
    assert (sent.get("max_tokens"), sent["max_completion_tokens"]) == (None, 9)
    both = request_of("Hi", parameters={**LIMIT, "max_completion_tokens": 5})
    assert (
        openai.build_request("m", both, ModelEndpoint(base_url=url))["max_completion_tokens"] == 5
    )


@pytest.mark.parametrize("url", ["http://localhost:1/v1", "https://api.openai.com.example.org/v1"])
def test_others_get_the_limit_as_it_is(url: str) -> None:
    sent = openai.build_request(
        "m", request_of("Hi", parameters=LIMIT), ModelEndpoint(base_url=url)
    )
    assert (sent["max_tokens"], sent.get("max_completion_tokens")) == (9, None)


MANUAL = {"type": "enabled", "budget_tokens": 2000}
LOOK = ToolCall("c1", FunctionCall("look", "{}"))
SEEN = Message("tool", "Jill", tool_call_id="c1")


def acted(thinker: str | None, kind: str = "thinking") -> Message:
    """Return a call, after what a model has thought."""
    meta = {"signature": "s", "model": thinker}
    data = '{"type":"redacted_thinking","data":"x"}'
    part = (
        ThinkingPart("Hm.", meta)
        if kind == "thinking"
        else UnknownPart("redacted_thinking", data, meta)
    )
    return Message("assistant", [part] if thinker else [TextPart("I look.")], [LOOK])


@pytest.mark.parametrize(
    ("context", "thinks"),
    [
        pytest.param([], True, id="no calls"),
        pytest.param([acted("m"), SEEN], True, id="its own"),
        pytest.param([acted("m", "redacted"), SEEN], True, id="its own, redacted"),
        pytest.param([acted("m"), SEEN, acted(None), SEEN], True, id="it thought at first"),
        pytest.param([acted("m"), SEEN, acted("other"), SEEN], True, id="it thought before"),
        pytest.param([acted("other"), SEEN], False, id="another's"),
        pytest.param([acted("other"), SEEN, acted(None), SEEN], False, id="then its own calls"),
        pytest.param(
            [
                acted("m"),
                SEEN,
                Message("assistant", "So."),
                Message("user", "?"),
                acted(None),
                SEEN,
            ],
            False,
            id="it thought in another turn",
        ),
        pytest.param([acted("other"), SEEN, Message("assistant", "So.")], True, id="all is said"),
    ],
)
def test_thinking_with_a_budget_does_not_begin_among_the_calls_of_another_model(
    context: list[Message], thinks: bool
) -> None:
    """The API would refuse this request, and every later one."""
    asked = request_of("Who is it?", *context, parameters={"thinking": MANUAL})
    assert anthropic.build_request("m", asked).get("thinking") == (MANUAL if thinks else None)


@pytest.mark.parametrize("thinking", [{"type": "adaptive"}, {"type": "disabled"}, "odd"])
def test_thinking_without_a_budget_may_begin_anywhere(thinking: Any) -> None:
    asked = request_of("Who is it?", acted("other"), SEEN, parameters={"thinking": thinking})
    assert anthropic.build_request("m", asked)["thinking"] == thinking
