"""What was written says all that was materialized, but for what may be left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.capture.resume.clients import RUNTIMES
from harken.capture.resume.completeness import Completeness, MissingContent, check_completeness
from harken.core.messages import (
    ContentPart,
    FunctionCall,
    ImagePart,
    Message,
    TextPart,
    ToolCall,
    UnknownPart,
)
from harken.errors import FormatError
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.base import read_conversation
from harken.formats.runtimes.registry import find_runtime_format
from tests.unit.capture.talks import cafe, call, new
from tests.unit.formats.context_kit import ODD_CONTEXT, PNG


def entries(*messages: Message) -> list[ConversationEntry]:
    return [ConversationEntry(message) for message in messages]


def names(found: Completeness) -> list[str]:
    return [allowed.name for allowed in found.allowed]


def test_the_same_is_whole() -> None:
    found = check_completeness(cafe(), cafe())
    assert (found.lost, found.allowed) == ((), ())


@pytest.mark.parametrize("at", [0, 2, 3, 4, 5])
def test_a_message_that_is_not_there_is_lost(at: int) -> None:
    whole = cafe()
    (lost,) = check_completeness(whole, [*whole[:at], *whole[at + 1 :]]).lost
    assert (lost.place, lost.role) == (at, whole[at].message.role)
    assert lost.text == whole[at].message.content


def test_messages_of_one_side_that_changed_places_are_lost() -> None:
    whole = cafe()
    swapped = [*whole[:3], whole[5], whole[4], whole[3]]
    assert [lost.text for lost in check_completeness(whole, swapped).lost] == ["They do."]


def test_calls_count_by_their_arguments_not_by_how_they_are_written() -> None:
    def calls(arguments: str) -> list[ConversationEntry]:
        return entries(Message("assistant", None, [call("c", arguments=arguments)]))

    assert check_completeness(calls('{"a":1,"b":2}'), calls('{ "b": 2, "a": 1 }')).lost == ()
    assert check_completeness(calls("free text"), calls('{"input": "free text"}')).lost == ()
    assert len(check_completeness(calls('{"a":1}'), calls('{"a":2}')).lost) == 1


def test_a_result_may_be_told_by_a_user_and_an_answer_may_not() -> None:
    result = entries(Message("tool", "Open.", tool_call_id="x"))
    told = entries(Message("user", "[result of an earlier call]: Open."))
    assert check_completeness(result, told).lost == ()
    assert len(check_completeness(entries(Message("assistant", "Open.")), told).lost) == 1


def test_thoughts_pictures_and_blocks_of_others_may_be_left_out() -> None:
    odd: list[ContentPart] = [
        ImagePart("image/png", PNG),
        UnknownPart("document", "{}"),
        TextPart("Look."),
    ]
    before = [*cafe()[1:2], *entries(Message("user", odd))]
    after = entries(Message("assistant", "I look.", [call("c1")]), Message("user", "Look."))
    found = check_completeness(before, after)
    assert (found.lost, names(found)) == ((), ["thoughts", "images", "blocks"])


def test_where_a_call_stands_among_the_words_of_its_answer_may_change() -> None:
    before = entries(Message("assistant", "I look.", [call("c1")]), Message("assistant", "There."))
    after = entries(Message("assistant", "I look.There.", [call("c1")]))
    assert check_completeness(before, after).lost == ()


def test_what_may_be_left_out_takes_no_place_from_what_must_be_there() -> None:
    told = Message("user", [UnknownPart("reasoning", "tea"), TextPart("Look.")])
    before = entries(told, Message("user", "Is there tea?"))
    assert check_completeness(before, before[1:]).lost == (MissingContent(0, "user", "Look."),)
    assert check_completeness(before, entries(Message("user", "Look. Is there tea?"))).lost == ()


def test_an_error_that_a_client_wrote_may_be_left_out() -> None:
    error = ConversationEntry(Message("assistant", "API error"), source={"kind": "error"})
    found = check_completeness([error], [])
    assert (found.lost, names(found)) == ((), ["errors"])


def written(runtime: str, before: list[ConversationEntry]) -> list[ConversationEntry]:
    """Return what is read of a conversation that was written for a client."""
    native = find_runtime_format(runtime)
    assert native is not None
    assert native.writes is not None
    try:
        return read_conversation(native.steps, native.writes(before, new()))
    except FormatError:  # nothing is said
        return []


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_tidy_conversation_is_whole_in_every_client(runtime: str) -> None:
    before = [*cafe(), *entries(Message("assistant", None, [call("a"), call("b")]))]
    before += entries(*(Message("tool", f"of {id_}", tool_call_id=id_) for id_ in "ba"))
    assert check_completeness(before, written(runtime, before)).lost == ()


@pytest.mark.full
@pytest.mark.parametrize("runtime", RUNTIMES)
@given(context=ODD_CONTEXT)
def test_an_odd_conversation_is_whole_in_every_client(runtime: str, context: list[Message]) -> None:
    before = entries(*context)
    assert check_completeness(before, written(runtime, before)).lost == ()


def test_a_call_is_looked_for_as_a_whole() -> None:
    long = ToolCall("c", FunctionCall("look", '{"where":"' + "x" * 5000 + '"}'))
    before = entries(Message("assistant", None, [long]))
    assert check_completeness(before, before).lost == ()


@given(context=st.lists(st.sampled_from(cafe()), max_size=8))
def test_every_conversation_is_whole_in_itself(context: list[ConversationEntry]) -> None:
    assert check_completeness(context, context) == Completeness((), ())
