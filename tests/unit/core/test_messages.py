"""Messages: content is hashed, the members of an occurrence are not, and no member is lost."""

from typing import Any

import msgspec
import pytest

from harken.core.event_types.message_parser import parse_message
from harken.core.logged_string import LoggedString
from harken.core.messages import (
    Content,
    FunctionCall,
    ImagePart,
    Message,
    MessageContent,
    Occurrence,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolCallSlot,
    UnknownPart,
    extend_context_hash,
    join_occurrence,
    message_hash,
    split_occurrence,
    text_of,
)


def call(id_: str, arguments: str = "{}", **options: Any) -> ToolCall:
    return ToolCall(id_, FunctionCall("look", arguments), **options)


def assistant(content: Content, *calls: ToolCall) -> Message:
    return Message("assistant", content, list(calls) or None)


def result(content: Content, id_: str = "c1", *, is_error: bool = False) -> Message:
    return Message("tool", content, tool_call_id=id_, name="look", is_error=is_error)


def test_text_and_list_of_one_text_part_have_the_same_content_id() -> None:
    assert message_hash(Message("user", "Hi")) == message_hash(Message("user", [TextPart("Hi")]))


def test_ids_names_and_metas_do_not_change_the_content_id() -> None:
    item = assistant([ThinkingPart("hm", {"signature": "s1"})], call("c1"))
    second = assistant([ThinkingPart("hm")], call("c2", meta={"caller": "direct"}))
    assert message_hash(item) == message_hash(second)
    assert split_occurrence(item)[1] != split_occurrence(second)[1]


def test_equal_results_of_different_calls_have_one_content_id() -> None:
    renamed = msgspec.structs.replace(result("done", "c2"), name="glance")
    assert message_hash(result("done", "c1")) == message_hash(renamed)


@pytest.mark.parametrize(
    "second",
    [
        Message("system", "Hi"),
        Message("user", "hi"),
        Message("user", [ThinkingPart("Hi")]),
        Message("user", [TextPart("Hi"), TextPart("")]),
        Message("user", [UnknownPart("text", "Hi")]),
        Message("user", None),
        Message("user", ""),
        Message("tool", "Hi", tool_call_id="c1", name="look"),
    ],
)
def test_role_kind_and_text_change_the_content_id(second: Message) -> None:
    assert message_hash(Message("user", "Hi")) != message_hash(second)


def test_error_flag_changes_the_content_id() -> None:
    assert message_hash(result("no")) != message_hash(result("no", is_error=True))


def test_arguments_are_kept_and_hashed_verbatim() -> None:
    first, second = assistant(None, call("c1", '{"a": 1}')), assistant(None, call("c1", '{"a":1}'))
    assert message_hash(first) != message_hash(second)
    assert join_occurrence(*split_occurrence(first)) == first


def test_call_of_a_custom_tool_has_another_content_id() -> None:
    first, second = (
        assistant(None, call("c1", "x")),
        assistant(None, call("c1", "x", type="custom")),
    )
    assert message_hash(first) != message_hash(second)


def test_call_after_the_content_needs_no_slot() -> None:
    with_slot = assistant([TextPart("I look."), ToolCallSlot("c1")], call("c1"))
    plain = assistant([TextPart("I look.")], call("c1"))
    assert message_hash(with_slot) == message_hash(plain)
    assert join_occurrence(*split_occurrence(with_slot)) == with_slot
    assert join_occurrence(*split_occurrence(plain)) == plain


def test_slot_of_a_call_is_part_of_the_content() -> None:
    before = assistant([ToolCallSlot("c1"), TextPart("I looked.")], call("c1"))
    after = assistant([TextPart("I looked."), ToolCallSlot("c1")], call("c1"))
    assert message_hash(before) != message_hash(after)


def test_parts_round_trip_in_order() -> None:
    message = assistant(
        [
            ThinkingPart("a", {"signature": "s"}),
            ToolCallSlot("c1"),
            TextPart("b"),
            UnknownPart("server_tool", '{"id": 1}', {"cached": True}),
            ToolCallSlot("c2"),
            ImagePart("image/png", "AAAA", None, {"detail": "low"}),
        ],
        call("c1", meta={}),
        call("c2", " {} ", type="custom", meta={"status": "completed"}),
    )
    assert join_occurrence(*split_occurrence(message)) == message


def test_calls_round_trip_in_the_order_of_their_slots() -> None:
    message = assistant([ToolCallSlot("c2"), ToolCallSlot("c1")], call("c1"), call("c2"))
    assert join_occurrence(*split_occurrence(message)).tool_calls == [call("c2"), call("c1")]


def test_two_calls_with_the_same_id_are_both_kept() -> None:
    message = assistant("twice", call("c1", "1"), call("c1", "2"))
    assert join_occurrence(*split_occurrence(message)) == message


@pytest.mark.parametrize(
    ("places", "calls"),
    [
        (["c1"], ["c1", "c2"]),
        (["c1", "c2"], ["c1"]),
        (["c1", "c1"], ["c1"]),
        (["c1", "c1"], ["c1", "c1"]),
        (["c3"], ["c1"]),
        (["c1"], []),
    ],
)
def test_slots_without_matching_calls_are_rejected(places: list[str], calls: list[str]) -> None:
    message = assistant([ToolCallSlot(place) for place in places], *map(call, calls))
    with pytest.raises(ValueError, match="the content places calls"):
        split_occurrence(message)


def test_empty_meta_differs_from_no_meta() -> None:
    message = assistant([TextPart("a", {})], call("c1", meta={}))
    assert join_occurrence(*split_occurrence(message)) == message
    assert join_occurrence(*split_occurrence(assistant([TextPart("a")], call("c1")))) == assistant(
        [TextPart("a")], call("c1")
    )


@pytest.mark.parametrize(
    "content", [None, "", "a", [], [TextPart("")], [TextPart("a"), TextPart("b")]]
)
def test_content_round_trips_as_string_or_list(content: Content) -> None:
    for message in (Message("user", content), result(content), result(content, is_error=True)):
        assert join_occurrence(*split_occurrence(message)) == message


def test_content_and_occurrence_are_plain_json() -> None:
    message = assistant([ThinkingPart("a", {"signature": "s"}), ToolCallSlot("c1")], call("c1"))
    pure, occurrence = split_occurrence(message)
    stored = msgspec.json.encode([pure, occurrence])
    repeated = msgspec.json.decode(stored, type=tuple[MessageContent, Occurrence])
    assert join_occurrence(*repeated) == message


def test_context_hash_covers_all_messages_and_their_order() -> None:
    first, two = Message("user", "1"), Message("user", "2")
    forward = extend_context_hash(extend_context_hash("", first), two)
    back = extend_context_hash(extend_context_hash("", two), first)
    assert len({"", forward, back, extend_context_hash("", first), message_hash(first)}) == 5


def test_message_is_read_from_a_dict_with_additional_members() -> None:
    data = {
        "role": "user",
        "content": "Hi",
        "message_id": "msg_002",
        "substance": None,
        "name": None,
    }
    assert parse_message(data) == Message("user", "Hi")


def test_logged_string_becomes_plain_content() -> None:
    message = parse_message({"role": "user", "content": LoggedString("Hi", "msg_001")})
    assert type(message.content) is str


def test_message_accepts_dicts_or_objects() -> None:
    as_values = {"role": "assistant", "content": [TextPart("a")], "tool_calls": [call("c1")]}
    as_dicts = {
        "role": "assistant",
        "content": [{"type": "text", "text": "a"}],
        "tool_calls": [{"id": "c1", "function": {"name": "look", "arguments": "{}"}}],
    }
    assert (
        parse_message(as_values)
        == parse_message(as_dicts)
        == assistant([TextPart("a")], call("c1"))
    )


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"content": "Hi"},
        {"role": "king", "content": "Hi"},
        {"role": "user", "content": 1},
        {"role": "user", "content": [{"text": "no type"}]},
        {"role": "assistant", "tool_calls": [{"id": "c1"}]},
        {
            "role": "assistant",
            "tool_calls": [{"id": "c1", "function": {"name": "look", "arguments": {}}}],
        },
    ],
)
def test_invalid_message_raises_value_error(data: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        parse_message(data)


def test_part_of_unknown_kind_is_read_as_its_json() -> None:
    message = parse_message({"role": "user", "content": [{"type": "song", "bars": 12, "key": "é"}]})
    assert message.content == [UnknownPart("song", '{"type":"song","bars":12,"key":"é"}')]


def test_unknown_members_of_parts_and_calls_are_kept_and_hashed() -> None:
    part = {"type": "text", "text": "a", "cited": True, "meta": {"id": 1}}
    function = {"name": "look", "arguments": "{}", "strict": True}
    native = {"id": "c1", "index": 0, "function": function}
    message = parse_message({"role": "assistant", "content": [part], "tool_calls": [native]})
    assert message.content == [TextPart("a", {"id": 1}, '{"cited":true}')]
    assert message.tool_calls == [call("c1", extra='{"function":{"strict":true},"index":0}')]
    assert parse_message(msgspec.to_builtins(message)) == message
    assert join_occurrence(*split_occurrence(message)) == message
    assert message_hash(message) != message_hash(assistant("a", call("c1")))


def test_two_images_of_a_shape_that_is_not_known_have_different_ids() -> None:
    ids = {
        message_hash(
            parse_message({"role": "user", "content": [{"type": "image", "source": data}]})
        )
        for data in ({"data": "aGk="}, {"data": "aG8="})
    }
    assert len(ids) == 2


def test_order_of_unknown_members_does_not_change_the_id() -> None:
    first, second = (
        parse_message({"role": "user", "content": [{"type": "text", "text": "a", **members}]})
        for members in ({"b": 1, "c": {"d": 1, "e": 2}}, {"c": {"e": 2, "d": 1}, "b": 1})
    )
    assert message_hash(first) == message_hash(second)


def test_text_of_a_message_is_the_text_of_its_text_parts() -> None:
    assert text_of(None) == ""
    assert text_of("Hi") == "Hi"
    assert (
        text_of([ThinkingPart("hm"), TextPart("a"), ToolCallSlot("c1"), TextPart("b")]) == "a\n\nb"
    )
