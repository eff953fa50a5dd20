"""Units: the parts of a message that have their own position and id."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.core import messages as ms
from harken.core.messages import Message, message_hash
from harken.errors import FormatError
from harken.interactions.records import LoggedMessage, MessageMetadata, MessageRole
from harken.interactions.unit import split_message, to_message
from tests.unit.interactions.kit import ROLE, message_record

CALL = ms.ToolCall("c1", ms.FunctionCall("look", '{"at": "door"}'))
GOLDEN = [
    (
        message_record(ROLE.USER, "Hi"),
        "c425f6bdc4458c9926666c202a662824ffe87d2a211fec01de7cfdb5ac8c8a19",
    ),
    (
        message_record(ROLE.SYSTEM, "You are Jack."),
        "17886dedf790d5380a0091a719d50004f006996fa136a9160657b294788494ba",
    ),
    (
        message_record(ROLE.TOOL_RESULT, "a door", tool_name="look"),
        "2da9059c80146364392edaef3e865e09dad1371e516215038c98a76c8f48b782",
    ),
    (
        message_record(ROLE.TOOL_CALL, '{"at": "door"}', tool_name="look"),
        "925b5600b28d1507dbc3c05fce1affb554f2eb9842647a41e1ac8acaf07095cb",
    ),
    (
        message_record(ROLE.ASSISTANT, "I look.", thinking_content="Hm."),
        "0cb3fce5fe7a1628a453f17303af2ae91a3b66cbedb618e49118e2694f87e082",
    ),
]


@pytest.mark.req("S3-10")
@pytest.mark.parametrize(("record", "id_"), GOLDEN, ids=lambda record_value: str(record_value)[:24])
def test_id_of_a_fixed_record_is_frozen(record: LoggedMessage, id_: str) -> None:
    """A changed id is a change of format (docs/formats/interactions.md)."""
    assert message_hash(to_message(record)) == id_


@pytest.mark.req("S3-09")
def test_assistant_message_with_calls_is_several_units() -> None:
    custom_call = ms.ToolCall("c2", ms.FunctionCall("ask", "why?"), "custom")
    units_found = split_message(Message("assistant", "I look.", [CALL, custom_call]))
    assert [(unit.role, unit.content, unit.tool_name) for unit in units_found] == [
        (ROLE.ASSISTANT, "I look.", None),
        (ROLE.TOOL_CALL, '{"at": "door"}', "look"),
        (ROLE.TOOL_CALL, "why?", "ask"),
    ]


@pytest.mark.parametrize("content", [None, "", []])
def test_calls_without_text_are_only_calls(content: ms.Content) -> None:
    [unit] = split_message(Message("assistant", content, [CALL]))
    assert unit.role is ROLE.TOOL_CALL


def test_units_are_in_the_order_of_the_parts() -> None:
    parts: list[ms.ContentPart] = [ms.ToolCallSlot("c1"), ms.TextPart("Done."), ms.TextPart("Bye.")]
    units_found = split_message(Message("assistant", parts, [CALL]))
    assert [unit.content for unit in units_found] == ['{"at": "door"}', "Done.", "Bye."]


def test_thought_belongs_to_the_following_text_else_is_separate() -> None:
    parts: list[ms.ContentPart] = [
        ms.ThinkingPart("Hm."),
        ms.ThinkingPart("Ah."),
        ms.TextPart("I look."),
        ms.ThinkingPart("Now."),
    ]
    units_found = split_message(Message("assistant", parts, [CALL]))
    assert [(unit.content, unit.thinking) for unit in units_found] == [
        ("", "Hm."),
        ("I look.", "Ah."),
        ("", "Now."),
        ('{"at": "door"}', None),
    ]


def test_empty_message_is_one_unit() -> None:
    for message in (Message("assistant"), Message("user", ""), Message("user", [])):
        [unit] = split_message(message)
        assert unit.content == ""


def test_most_unit_ids_equal_the_store_names() -> None:
    for message in (
        Message("user", "Hi"),
        Message("tool", "no door", tool_call_id="c1", name="look", is_error=True),
        Message("assistant", None, [CALL]),
        Message("user", [ms.ImagePart("image/png", "aGk=")]),
    ):
        assert [unit.id for unit in split_message(message)] == [message_hash(message)]


EXTRA = st.sampled_from([None, '{"a":1}'])
PARTS = st.one_of(
    st.builds(ms.TextPart, st.text(max_size=8), extra=EXTRA),
    st.builds(ms.ThinkingPart, st.text(max_size=8), extra=EXTRA),
    st.builds(ms.ImagePart, st.sampled_from(["image/png", None]), st.text(max_size=4)),
    st.builds(ms.UnknownPart, st.text(max_size=4), st.sampled_from(["{}", "[1]", "x"])),
)
CALLS = st.builds(
    ms.ToolCall,
    st.uuids().map(str),
    st.builds(ms.FunctionCall, st.text(max_size=6), st.sampled_from(["{}", "no JSON", '{"a":1}'])),
    st.sampled_from(["function", "custom"]),
    extra=st.sampled_from([msgspec.UNSET, '{"a":1}']),
)
CONTENT = st.one_of(
    st.none(),
    st.text(max_size=8),
    st.sampled_from(["{}", "[]", "[1]"]),
    st.lists(PARTS, max_size=4),
)
MESSAGES = st.one_of(
    st.builds(Message, st.sampled_from(["user", "system", "assistant"]), CONTENT),
    st.builds(Message, st.just("assistant"), CONTENT, st.lists(CALLS, min_size=1, max_size=3)),
    st.builds(
        Message,
        st.just("tool"),
        CONTENT,
        tool_call_id=st.just("c1"),
        name=st.text(min_size=1, max_size=6),
        is_error=st.booleans(),
    ),
)


@given(MESSAGES)
def test_every_unit_is_a_message_with_its_id(message: Message) -> None:
    """Other parts are JSON, and a text that looks like JSON stays a text."""
    for unit in split_message(message):
        record = unit.logged("2026-01-31T12:00:00Z", "m")
        message_again = to_message(record)
        assert message_hash(message_again) == unit.id
        assert [unit_again.id for unit_again in split_message(message_again)] == [unit.id]
        [once_more] = split_message(message_again)
        assert once_more.content == unit.content
        assert (record.role, unit.thinking) == (once_more.role, once_more.thinking)


def test_record_with_a_wrong_id_is_invalid() -> None:
    wrong_record = LoggedMessage(id="0" * 64, role=MessageRole.USER, content="Hi")
    with pytest.raises(FormatError, match="its id '0000"):
        to_message(wrong_record)


def test_varying_metadata_is_no_part_of_the_id() -> None:
    """S3-11: two models, one message."""
    records = [
        LoggedMessage(role=ROLE.ASSISTANT, content="Hi", metadata=MessageMetadata(model=model))
        for model in ("one", "other")
    ]
    assert len({message_hash(to_message(record_value)) for record_value in records}) == 1
