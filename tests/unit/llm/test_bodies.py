"""Request members beside the conversation, as each server accepts them."""

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
def test_parameters_that_a_server_rejects_are_not_sent(body_of: Any) -> None:
    model_request = request_of("Hi", parameters={"top_k": 1, "top_p": 0.5, "seed": None})
    body = body_of(
        "m", model_request, ModelEndpoint(base_url="http://localhost/v1", omit=("top_k",))
    )
    assert body["top_p"] == 0.5
    assert not {"top_k", "seed"} & body.keys()


def test_mistral_gets_no_stream_options() -> None:
    model_endpoint = ModelEndpoint(base_url=MISTRAL.base_url, omit=MISTRAL.omit)
    assert "stream_options" not in openai.build_request("m", request_of("Hi"), model_endpoint)
    assert openai.build_request("m", request_of("Hi"))["stream_options"] == {"include_usage": True}


def test_mistral_gets_stable_ids_of_nine_alphanumeric_characters() -> None:
    """It rejects foreign ids, which a conversation with several models contains."""
    raw = ["toolu_01ABC", "call_0", "D681PevKs", "call_0", "D681PevKs", "\ud800", ""]
    context = [Message("user", "Hi")]
    for id_ in raw:
        call = ToolCall(id_, FunctionCall("look", "{}"))
        context += [Message("assistant", None, [call]), Message("tool", "x", tool_call_id=id_)]
    model_endpoint = ModelEndpoint(short_ids=MISTRAL.short_ids)
    for size in range(1, len(context) + 1, 2):
        messages = openai.build_request("m", request_of(*context[:size]), model_endpoint)[
            "messages"
        ]
        ids = [call["id"] for m in messages for call in m.get("tool_calls", ())]
        assert ids == [m["tool_call_id"] for m in messages if m["role"] == "tool"]
    assert all(re.fullmatch("[a-zA-Z0-9]{9}", id_) for id_ in ids)
    assert len({*ids}) == len(raw)
    assert ids[2] == raw[2]


@pytest.mark.parametrize("url", [None, "https://api.openai.com/v1", "https://eu.api.openai.com/v1"])
def test_openai_gets_the_token_limit_under_its_new_name(url: str | None) -> None:
    """Its reasoning models reject the old name. All other servers know only the old one."""
    body = openai.build_request(
        "m", request_of("Hi", parameters=LIMIT), ModelEndpoint(base_url=url)
    )
    assert (body.get("max_tokens"), body["max_completion_tokens"]) == (None, 9)
    both = request_of("Hi", parameters={**LIMIT, "max_completion_tokens": 5})
    assert (
        openai.build_request("m", both, ModelEndpoint(base_url=url))["max_completion_tokens"] == 5
    )


@pytest.mark.parametrize("url", ["http://localhost:1/v1", "https://api.openai.com.example.org/v1"])
def test_other_servers_get_the_token_limit_unchanged(url: str) -> None:
    body = openai.build_request(
        "m", request_of("Hi", parameters=LIMIT), ModelEndpoint(base_url=url)
    )
    assert (body["max_tokens"], body.get("max_completion_tokens")) == (9, None)


MANUAL = {"type": "enabled", "budget_tokens": 2000}
LOOK = ToolCall("c1", FunctionCall("look", "{}"))
SEEN = Message("tool", "Jill", tool_call_id="c1")


def call_after_thinking(thinker: str | None, kind: str = "thinking") -> Message:
    """Return a call after thinking."""
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
        pytest.param([call_after_thinking("m"), SEEN], True, id="its own"),
        pytest.param([call_after_thinking("m", "redacted"), SEEN], True, id="its own, redacted"),
        pytest.param(
            [call_after_thinking("m"), SEEN, call_after_thinking(None), SEEN],
            True,
            id="it thought at first",
        ),
        pytest.param(
            [call_after_thinking("m"), SEEN, call_after_thinking("other"), SEEN],
            True,
            id="it thought before",
        ),
        pytest.param([call_after_thinking("other"), SEEN], False, id="another's"),
        pytest.param(
            [call_after_thinking("other"), SEEN, call_after_thinking(None), SEEN],
            False,
            id="then its own calls",
        ),
        pytest.param(
            [
                call_after_thinking("m"),
                SEEN,
                Message("assistant", "So."),
                Message("user", "?"),
                call_after_thinking(None),
                SEEN,
            ],
            False,
            id="it thought in another turn",
        ),
        pytest.param(
            [call_after_thinking("other"), SEEN, Message("assistant", "So.")],
            True,
            id="all is said",
        ),
    ],
)
def test_thinking_with_a_budget_does_not_start_among_calls_of_another_model(
    context: list[Message], thinks: bool
) -> None:
    """The API would reject this request and each later one."""
    model_request = request_of("Who is it?", *context, parameters={"thinking": MANUAL})
    assert anthropic.build_request("m", model_request).get("thinking") == (
        MANUAL if thinks else None
    )


@pytest.mark.parametrize("thinking", [{"type": "adaptive"}, {"type": "disabled"}, "odd"])
def test_thinking_without_a_budget_may_start_anywhere(thinking: Any) -> None:
    model_request = request_of(
        "Who is it?", call_after_thinking("other"), SEEN, parameters={"thinking": thinking}
    )
    assert anthropic.build_request("m", model_request)["thinking"] == thinking
