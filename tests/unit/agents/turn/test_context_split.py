"""How full a context is, and what of it a reader is given who cannot be given all."""

from __future__ import annotations

from harken.agents.turn.context_split import (
    IMAGE_TOKENS,
    ContextSplit,
    count_context_tokens,
    estimate_tokens,
    split_context,
    trim_to_tokens,
)
from harken.core.messages import (
    ContentPart,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    UnknownPart,
    text_of,
)
from harken.session.state import ContextTokens
from tests.agent_kit import call, call_message

SYSTEM = Message("system", "You.")


def results(*texts: str) -> list[Message]:
    """Return a step: calls with these results."""
    made = [call("look", f"c{at}") for at in range(len(texts))]
    answers = [
        Message("tool", text, tool_call_id=f"c{at}", name="look") for at, text in enumerate(texts)
    ]
    return [call_message(*made), *answers]


def test_what_was_counted_is_not_estimated() -> None:
    context = [SYSTEM, Message("user", "x" * 4000), Message("assistant", "y" * 400)]
    assert count_context_tokens(context, None, []) == 1 + 1000 + 100
    assert count_context_tokens(context, ContextTokens(2, 7000), []) == 7000 + 100
    assert count_context_tokens(context, ContextTokens(3, 7000), [{"name": "look"}]) == 7000
    assert count_context_tokens([], None, [{"name": "x" * 400}]) > 100


def test_images_thoughts_and_native_blocks_take_room_too() -> None:
    parts: list[ContentPart] = [
        ImagePart("image/png", "A" * 10**6),
        ThinkingPart("t" * 400),
        UnknownPart("k", "d" * 400),
    ]
    assert estimate_tokens([Message("user", [*parts, TextPart("x" * 40)])]) == IMAGE_TOKENS + 210


def test_all_that_was_heard_since_the_last_answer_stays() -> None:
    heard = [Message("user", "[Jack]: hi"), Message("user", "[Jill]: ho")]
    context = [SYSTEM, Message("user", "a"), Message("assistant", "b"), *heard]
    assert split_context(context, pending=True, most=0) == ContextSplit(1, 3)
    assert split_context(context, pending=False, most=0) == ContextSplit(1, 5)


def test_the_last_step_stays_where_there_is_room_for_it() -> None:
    context = [SYSTEM, Message("user", "go"), *results("one"), *results("x" * 400)]
    assert split_context(context, pending=True, most=200) == ContextSplit(1, 4, 1)
    assert split_context(context, pending=True, most=50) == ContextSplit(1, 6, 1)


def test_a_long_text_is_cut_in_its_middle_and_an_image_goes() -> None:
    long = Message("user", [TextPart("a" * 9000 + "b" * 9000), ImagePart("image/png", "AAAA")])
    same = Message("user", "short")
    short, kept = trim_to_tokens([long, same], 0, 4000)
    text = text_of(short.content)
    assert text.startswith("a" * 2000)
    assert "characters were left out here" in text
    assert "an image was left out here" in text
    assert kept is same


def test_the_oldest_go_first_but_what_it_all_began_with_stays() -> None:
    context = [SYSTEM, Message("user", "the task"), *results("1" * 4000), *results("2" * 400)]
    short = trim_to_tokens(context, 1, 150)
    assert [text_of(message.content)[:12] for message in short] == [
        "You.",
        "the task",
        "[2 messages ",
        "",
        "222222222222",
    ]
