"""The items of the messages that a program passes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from harken.core.messages import ContentPart, Message, TextPart
from harken.formats.client_messages import messages_in
from harken.recording.writer.item import Item
from harken.recording.writer.message_items import MessageItems


@dataclass
class ClientMessage:
    """A message as the object of a client."""

    role: str
    content: object


def user(text: object) -> dict[str, Any]:
    return {"role": "user", "content": text}


def parts(text: str, number: object) -> dict[str, Any]:
    return user([{"type": "text", "text": text, "cache_control": {"n": number}}])


def read_directly(values: list[Any]) -> list[Message]:
    return messages_in(values, report=lambda _: None)


def messages_of(items: MessageItems, values: list[Any]) -> list[Message]:
    return [message for item in items.find_items(values) for message in item.messages]


def count_shared(left: list[Item], right: list[Item]) -> int:
    return sum(a is b for a, b in zip(left, right, strict=False))


def test_only_new_values_are_read() -> None:
    items = MessageItems()
    objects = [user("one"), ClientMessage("assistant", "two"), Message("user", "three"), "four"]
    first = [*items.find_items(objects)]
    second = [*items.find_items([*objects, user("five")])]
    assert count_shared(first, second) == len(first) == 4
    assert [item.messages[0].content for item in second][-1] == "five"


def test_copies_of_values_are_not_read_again() -> None:
    items = MessageItems()
    values = [user("one"), parts("two", 1)]
    first, copies = [*items.find_items(values)], json.loads(json.dumps(values))
    assert count_shared(first, [*items.find_items(copies)]) == 2


def test_values_after_a_change_are_read_again() -> None:
    items = MessageItems()
    values = [user("one"), user("two"), user("three")]
    first = [*items.find_items(values)]
    values[1]["content"] = "other"  # As a program does that keeps one list.
    second = [*items.find_items(values)]
    assert count_shared(first, second) == 1
    assert [item.messages[0].content for item in second] == ["one", "other", "three"]


def test_objects_that_change_in_place_are_read_again() -> None:
    items = MessageItems()
    content: list[ContentPart] = [TextPart("one")]
    first, second = Message("user", content), ClientMessage("user", "two")
    items.find_items([first, second])
    content[0], second.content = TextPart("1"), "2"
    assert messages_of(items, [first, second]) == read_directly(
        [Message("user", [TextPart("1")]), ClientMessage("user", "2")]
    )


def test_equal_values_of_other_types_are_read_again() -> None:
    items = MessageItems()
    numbers = [parts("a", 1), parts("a", True), parts("a", 1.0)]
    message = Message("user", [TextPart("a")])
    for value in (*numbers, msgspec.to_builtins(message), message):
        read = messages_of(items, [value])
        assert repr(read) == repr(read_directly([value]))
        assert count_shared([*items.find_items([value])], [*items.find_items([value])]) == 1


def test_value_of_several_messages_is_one_change() -> None:
    items = MessageItems()
    body = {"model": "m", "messages": [user("one"), user("two")]}
    first = [*items.find_items([body, user("three")])]
    assert len(first) == 3
    assert count_shared(first, [*items.find_items([body, user("four")])]) == 2
    assert len(items.find_items([user("three")])) == 1


def test_values_without_known_content_are_read_each_time() -> None:
    items = MessageItems()
    values = [{"role": "user", "content": object()}]
    first, second = [*items.find_items(values)], [*items.find_items(values)]
    assert count_shared(first, second) == 0
    assert [item.key for item in first] == [item.key for item in second]


VALUES = st.one_of(
    st.sampled_from("abc").map(user),
    st.builds(parts, st.sampled_from("ab"), st.sampled_from([0, False, 1, True, 1.0])),
    st.sampled_from("abc").map(lambda text: Message("user", text)),
    st.sampled_from("abc").map(lambda text: ClientMessage("assistant", text)),
    st.sampled_from("ab").map(lambda text: {"messages": [user(text), user("x")]}),
    st.just({"role": "user", "content": {1, 2}}),
)


@given(st.lists(st.tuples(st.integers(0, 6), st.lists(VALUES, max_size=4)), max_size=6))
def test_items_are_those_of_the_messages(changes: list[tuple[int, list[Any]]]) -> None:
    items, values = MessageItems(), list[Any]()
    for count, new_values in changes:
        values = [*values[:count], *new_values]
        assert repr(messages_of(items, values)) == repr(read_directly(values))
