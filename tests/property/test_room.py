"""Whatever gives way to a summary, a provider takes what is left: no call without its result."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.agents.turn.context_split import estimate_tokens, split_context, trim_to_tokens
from harken.core.messages import ChatMessage, ImagePart, Message, TextPart, ToolCall
from tests.agent_kit import call, check_context

texts = st.text(max_size=30) | st.integers(1, 5000).map(lambda n: "x" * n)


@st.composite
def contexts(draw: st.DrawFn) -> list[ChatMessage]:
    """Return a context whose calls all have their results."""
    messages: list[ChatMessage] = [Message("system", "You.")] * draw(st.integers(0, 2))
    for number in range(draw(st.integers(0, 8))):
        kind = draw(st.sampled_from(["user", "answer", "calls", "image"]))
        if kind == "calls":
            tool_calls: Sequence[ToolCall] = [
                call("look", f"c{number}_{index}") for index in range(draw(st.integers(1, 3)))
            ]
            messages.append(Message("assistant", draw(st.none() | texts), list(tool_calls)))
            messages += [
                Message("tool", draw(texts), tool_call_id=call.id, name="look")
                for call in tool_calls
            ]
        elif kind == "image":
            messages.append(Message("user", [TextPart("see"), ImagePart("image/png", "AAAA")]))
        else:
            role = "user" if kind == "user" else "assistant"
            messages.append(Message("user" if role == "user" else "assistant", draw(texts)))
    return messages


@pytest.mark.req("S2-25")
@given(contexts(), st.booleans(), st.integers(0, 3000))
def test_remaining_calls_have_results(
    context: list[ChatMessage], pending: bool, max_bytes: int
) -> None:
    split = split_context(context, pending=pending, most=max_bytes)
    request = [] if split.request is None else [context[split.request]]
    check_context(context[: split.retained_start])
    check_context(
        [
            *context[: split.summary_start],
            Message("user", "sum"),
            *request,
            *context[split.retained_start :],
        ]
    )
    assert split.summary_start <= split.retained_start <= len(context)
    assert all(message.role == "system" for message in context[: split.summary_start])
    if not pending:
        assert split.retained_start == len(context)
    requests = [index for index, message in enumerate(context) if message.role == "user"]
    if pending and requests:
        assert requests[-1] == split.request or requests[-1] >= split.retained_start


@given(contexts(), st.integers(1, 3000))
def test_truncated_context_is_valid(context: list[ChatMessage], most: int) -> None:
    begins = sum(message.role == "system" for message in context)
    short = trim_to_tokens(context, begins, most)
    check_context(short)
    assert estimate_tokens(short) <= estimate_tokens(context) + 30 * len(context)
    assert short[:begins] == context[:begins]
    parts = [part for message in short[begins:] for part in message.content or ()]
    assert not any(isinstance(part, ImagePart) for part in parts)
