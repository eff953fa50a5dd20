"""A draft and `chunks_of` are inverse: what streams in equals what streamed out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.core.messages import (
    ContentPart,
    FunctionCall,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolCallSlot,
    UnknownPart,
    message_hash,
    split_occurrence,
)
from harken.core.stream import (
    PartDelta,
    StreamAccumulator,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    iter_chunks,
)

metas = st.none() | st.just({"signature": "c2ln"})
parts: st.SearchStrategy[ContentPart] = st.one_of(
    st.builds(TextPart, st.text(), metas),
    st.builds(ThinkingPart, st.text(), metas),
    st.builds(ImagePart, media_type=st.just("image/png"), data=st.just("AAAA"), meta=metas),
    st.builds(UnknownPart, st.just("redacted_thinking"), st.text()),
)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    content = draw(st.none() | st.text() | st.lists(parts))
    calls = [
        ToolCall(f"c{at}", FunctionCall(draw(st.text()), draw(st.text())), draw(kinds))
        for at in range(draw(st.integers(0, 3)))
    ]
    if isinstance(content, list) and draw(st.booleans()):
        for call in calls:
            content.insert(draw(st.integers(0, len(content))), ToolCallSlot(call.id))
    return Message("assistant", content, calls or None)


kinds = st.sampled_from(["function", "custom"])


def redrafted(message: Message) -> Message:
    draft = StreamAccumulator()
    for chunk in iter_chunks(message):
        draft.add(chunk)
    return draft.message()


@given(messages())
def test_a_streamed_message_has_the_same_identity(message: Message) -> None:
    assert message_hash(redrafted(message)) == message_hash(message)


@given(messages())
def test_a_streamed_message_keeps_call_ids_and_signatures(message: Message) -> None:
    _, before = split_occurrence(message)
    _, after = split_occurrence(redrafted(message))
    assert (after.calls, after.metas) == (before.calls, before.metas)


def test_a_call_keeps_its_own_meta() -> None:
    call = ToolCall("c1", FunctionCall("task", "{}"), meta={"signature": "c2ln"})
    assert redrafted(Message("assistant", None, [call])).tool_calls == [call]


def test_a_long_text_comes_in_words() -> None:
    words = [chunk.text for chunk in iter_chunks(Message("assistant", "Hi  Jill,\n\nit is me"))]  # type: ignore[union-attr]
    assert words == ["Hi  ", "Jill,\n\n", "it ", "is ", "me"]


def test_a_plain_text_stays_a_plain_text() -> None:
    assert redrafted(Message("assistant", "Hi Jill")).content == "Hi Jill"


def test_two_neighbouring_texts_stay_two() -> None:
    content: list[ContentPart] = [TextPart("a"), TextPart("b")]
    assert redrafted(Message("assistant", content)).content == content


def test_no_text_is_no_content() -> None:
    assert StreamAccumulator().message() == Message("assistant")


def test_an_empty_piece_is_no_part() -> None:
    draft = StreamAccumulator()
    for chunk in (ThinkingDelta("hm"), TextDelta("")):
        draft.add(chunk)
    assert draft.message().content == [ThinkingPart("hm")]


@pytest.mark.parametrize("placed", [False, True])
def test_a_cut_off_answer_can_be_kept_without_its_calls(placed: bool) -> None:
    draft = StreamAccumulator()
    draft.add(TextDelta("I will "))
    if placed:
        draft.add(PartDelta(ToolCallSlot("c1")))
    draft.add(ToolCallDelta(0, '{"na', "c1", "task"))
    assert draft.message(with_calls=False) == Message("assistant", "I will ")
    assert draft.text == "I will "
