"""Messages: content has identity, what varies with the occurrence has none, nothing is lost."""

from typing import Any

import msgspec
import pytest

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
    parse_message,
    split_occurrence,
    text_of,
)


def call(id_: str, arguments: str = "{}", **more: Any) -> ToolCall:
    return ToolCall(id_, FunctionCall("look", arguments), **more)


def assistant(content: Content, *calls: ToolCall) -> Message:
    return Message("assistant", content, list(calls) or None)


def result(content: Content, id_: str = "c1", *, is_error: bool = False) -> Message:
    return Message("tool", content, tool_call_id=id_, name="look", is_error=is_error)


def test_a_text_is_the_same_content_as_a_list_of_one_text_part() -> None:
    assert message_hash(Message("user", "Hi")) == message_hash(Message("user", [TextPart("Hi")]))


def test_ids_names_and_metas_do_not_change_the_identity() -> None:
    one = assistant([ThinkingPart("hm", {"signature": "s1"})], call("c1"))
    other = assistant([ThinkingPart("hm")], call("c2", meta={"caller": "direct"}))
    assert message_hash(one) == message_hash(other)
    assert split_occurrence(one)[1] != split_occurrence(other)[1]


def test_equal_results_are_one_content_whatever_call_they_answer() -> None:
    renamed = msgspec.structs.replace(result("done", "c2"), name="glance")
    assert message_hash(result("done", "c1")) == message_hash(renamed)


@pytest.mark.parametrize(
    "other",
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
def test_role_kind_and_text_are_content(other: Message) -> None:
    assert message_hash(Message("user", "Hi")) != message_hash(other)


def test_a_failed_result_is_another_content() -> None:
    assert message_hash(result("no")) != message_hash(result("no", is_error=True))


def test_arguments_are_kept_verbatim_and_count_verbatim() -> None:
    one, other = assistant(None, call("c1", '{"a": 1}')), assistant(None, call("c1", '{"a":1}'))
    assert message_hash(one) != message_hash(other)
    assert join_occurrence(*split_occurrence(one)) == one


def test_a_call_of_a_free_text_tool_is_another_content() -> None:
    one, other = assistant(None, call("c1", "x")), assistant(None, call("c1", "x", type="custom"))
    assert message_hash(one) != message_hash(other)


def test_a_call_after_the_content_needs_no_place() -> None:
    placed = assistant([TextPart("I look."), ToolCallSlot("c1")], call("c1"))
    plain = assistant([TextPart("I look.")], call("c1"))
    assert message_hash(placed) == message_hash(plain)
    assert join_occurrence(*split_occurrence(placed)) == placed
    assert join_occurrence(*split_occurrence(plain)) == plain


def test_the_place_of_a_call_is_content() -> None:
    before = assistant([ToolCallSlot("c1"), TextPart("I looked.")], call("c1"))
    after = assistant([TextPart("I looked."), ToolCallSlot("c1")], call("c1"))
    assert message_hash(before) != message_hash(after)


def test_all_parts_come_back_in_their_order() -> None:
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


def test_calls_come_back_in_the_order_of_their_places() -> None:
    message = assistant([ToolCallSlot("c2"), ToolCallSlot("c1")], call("c1"), call("c2"))
    assert join_occurrence(*split_occurrence(message)).tool_calls == [call("c2"), call("c1")]


def test_two_calls_with_one_id_are_both_kept() -> None:
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
def test_places_that_are_not_those_of_the_calls_are_refused(
    places: list[str], calls: list[str]
) -> None:
    message = assistant([ToolCallSlot(place) for place in places], *map(call, calls))
    with pytest.raises(ValueError, match="the content places calls"):
        split_occurrence(message)


def test_an_empty_meta_is_not_no_meta() -> None:
    message = assistant([TextPart("a", {})], call("c1", meta={}))
    assert join_occurrence(*split_occurrence(message)) == message
    assert join_occurrence(*split_occurrence(assistant([TextPart("a")], call("c1")))) == assistant(
        [TextPart("a")], call("c1")
    )


@pytest.mark.parametrize(
    "content", [None, "", "a", [], [TextPart("")], [TextPart("a"), TextPart("b")]]
)
def test_the_shape_of_the_content_comes_back(content: Content) -> None:
    for message in (Message("user", content), result(content), result(content, is_error=True)):
        assert join_occurrence(*split_occurrence(message)) == message


def test_content_and_occurrence_are_plain_json() -> None:
    message = assistant([ThinkingPart("a", {"signature": "s"}), ToolCallSlot("c1")], call("c1"))
    pure, occurrence = split_occurrence(message)
    stored = msgspec.json.encode([pure, occurrence])
    again = msgspec.json.decode(stored, type=tuple[MessageContent, Occurrence])
    assert join_occurrence(*again) == message


def test_a_context_hash_covers_every_message_and_their_order() -> None:
    one, two = Message("user", "1"), Message("user", "2")
    forward = extend_context_hash(extend_context_hash("", one), two)
    back = extend_context_hash(extend_context_hash("", two), one)
    assert len({"", forward, back, extend_context_hash("", one), message_hash(one)}) == 5


def test_a_message_is_read_from_a_dict_with_more_in_it() -> None:
    data = {
        "role": "user",
        "content": "Hi",
        "message_id": "msg_002",
        "substance": None,
        "name": None,
    }
    assert parse_message(data) == Message("user", "Hi")


def test_a_logged_string_becomes_plain_content() -> None:
    message = parse_message({"role": "user", "content": LoggedString("Hi", "msg_001")})
    assert type(message.content) is str


def test_a_message_may_be_made_of_dicts_or_of_values() -> None:
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
def test_what_is_no_message_is_a_value_error(data: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        parse_message(data)


def test_a_part_of_an_unknown_kind_is_read_as_its_json() -> None:
    message = parse_message({"role": "user", "content": [{"type": "song", "bars": 12, "key": "é"}]})
    assert message.content == [UnknownPart("song", '{"type":"song","bars":12,"key":"é"}')]


def test_unknown_members_of_parts_and_calls_are_read_into_their_meta() -> None:
    part = {"type": "text", "text": "a", "cached": True, "meta": {"id": 1}}
    native = {"id": "c1", "index": 0, "function": {"name": "look", "arguments": "{}"}}
    message = parse_message({"role": "assistant", "content": [part], "tool_calls": [native]})
    assert message.content == [TextPart("a", {"cached": True, "id": 1})]
    assert message.tool_calls == [call("c1", meta={"index": 0})]


def test_the_text_of_a_message_is_its_text_parts() -> None:
    assert text_of(None) == ""
    assert text_of("Hi") == "Hi"
    assert (
        text_of([ThinkingPart("hm"), TextPart("a"), ToolCallSlot("c1"), TextPart("b")]) == "a\n\nb"
    )
