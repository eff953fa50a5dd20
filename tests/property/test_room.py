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
            made: Sequence[ToolCall] = [
                call("look", f"c{number}_{at}") for at in range(draw(st.integers(1, 3)))
            ]
            messages.append(Message("assistant", draw(st.none() | texts), list(made)))
            messages += [
                Message("tool", draw(texts), tool_call_id=one.id, name="look") for one in made
            ]
        elif kind == "image":
            messages.append(Message("user", [TextPart("see"), ImagePart("image/png", "AAAA")]))
        else:
            role = "user" if kind == "user" else "assistant"
            messages.append(Message("user" if role == "user" else "assistant", draw(texts)))
    return messages


@pytest.mark.req("S2-25")
@given(contexts(), st.booleans(), st.integers(0, 3000))
def test_no_call_that_stays_is_without_its_result(
    context: list[ChatMessage], pending: bool, most: int
) -> None:
    cut = split_context(context, pending=pending, most=most)
    kept = [] if cut.request is None else [context[cut.request]]
    check_context(context[: cut.retained_start])
    check_context(
        [
            *context[: cut.summary_start],
            Message("user", "sum"),
            *kept,
            *context[cut.retained_start :],
        ]
    )
    assert cut.summary_start <= cut.retained_start <= len(context)
    assert all(message.role == "system" for message in context[: cut.summary_start])
    if not pending:
        assert cut.retained_start == len(context)
    asked = [at for at, message in enumerate(context) if message.role == "user"]
    if pending and asked:
        assert asked[-1] == cut.request or asked[-1] >= cut.retained_start


@given(contexts(), st.integers(1, 3000))
def test_what_is_made_to_fit_can_be_read(context: list[ChatMessage], most: int) -> None:
    begins = sum(message.role == "system" for message in context)
    short = trim_to_tokens(context, begins, most)
    check_context(short)
    assert estimate_tokens(short) <= estimate_tokens(context) + 30 * len(context)
    assert short[:begins] == context[:begins]
    parts = [part for message in short[begins:] for part in message.content or ()]
    assert not any(isinstance(part, ImagePart) for part in parts)
