"""`StreamAccumulator` and `chunks_of` are inverse: a streamed message equals its original."""

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
        ToolCall(f"c{index}", FunctionCall(draw(st.text()), draw(st.text())), draw(kinds))
        for index in range(draw(st.integers(0, 3)))
    ]
    if isinstance(content, list) and draw(st.booleans()):
        for call in calls:
            content.insert(draw(st.integers(0, len(content))), ToolCallSlot(call.id))
    return Message("assistant", content, calls or None)


kinds = st.sampled_from(["function", "custom"])


def accumulate(message: Message) -> Message:
    draft = StreamAccumulator()
    for chunk in iter_chunks(message):
        draft.add(chunk)
    return draft.message()


@given(messages())
def test_streamed_message_has_the_same_content_id(message: Message) -> None:
    assert message_hash(accumulate(message)) == message_hash(message)


@given(messages())
def test_streamed_message_keeps_call_ids_and_signatures(message: Message) -> None:
    _, before = split_occurrence(message)
    _, after = split_occurrence(accumulate(message))
    assert (after.calls, after.metas) == (before.calls, before.metas)


def test_tool_call_keeps_its_meta() -> None:
    call = ToolCall("c1", FunctionCall("task", "{}"), meta={"signature": "c2ln"})
    assert accumulate(Message("assistant", None, [call])).tool_calls == [call]


def test_long_text_streams_word_by_word() -> None:
    words = [chunk.text for chunk in iter_chunks(Message("assistant", "Hi  Jill,\n\nit is me"))]  # type: ignore[union-attr]
    assert words == ["Hi  ", "Jill,\n\n", "it ", "is ", "me"]


def test_plain_text_stays_a_string() -> None:
    assert accumulate(Message("assistant", "Hi Jill")).content == "Hi Jill"


def test_two_adjacent_text_parts_stay_separate() -> None:
    content: list[ContentPart] = [TextPart("a"), TextPart("b")]
    assert accumulate(Message("assistant", content)).content == content


def test_message_without_text_has_no_content() -> None:
    assert StreamAccumulator().message() == Message("assistant")


def test_empty_chunk_adds_no_part() -> None:
    draft = StreamAccumulator()
    for chunk in (ThinkingDelta("hm"), TextDelta("")):
        draft.add(chunk)
    assert draft.message().content == [ThinkingPart("hm")]


@pytest.mark.parametrize("with_slots", [False, True])
def test_partial_message_can_omit_its_calls(with_slots: bool) -> None:
    draft = StreamAccumulator()
    draft.add(TextDelta("I will "))
    if with_slots:
        draft.add(PartDelta(ToolCallSlot("c1")))
    draft.add(ToolCallDelta(0, '{"na', "c1", "task"))
    assert draft.message(with_calls=False) == Message("assistant", "I will ")
    assert draft.text == "I will "
