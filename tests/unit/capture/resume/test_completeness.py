"""A written session contains all materialized messages except the allowed losses."""

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
from tests.unit.formats.contexts import ODD_CONTEXT, PNG


def entries(*messages: Message) -> list[ConversationEntry]:
    return [ConversationEntry(message) for message in messages]


def names(found: Completeness) -> list[str]:
    return [allowed.name for allowed in found.allowed]


def test_equal_conversations_are_complete() -> None:
    found = check_completeness(cafe(), cafe())
    assert (found.lost, found.allowed) == ((), ())


@pytest.mark.parametrize("at", [0, 2, 3, 4, 5])
def test_missing_message_is_lost(at: int) -> None:
    whole = cafe()
    (lost,) = check_completeness(whole, [*whole[:at], *whole[at + 1 :]]).lost
    assert (lost.place, lost.role) == (at, whole[at].message.role)
    assert lost.text == whole[at].message.content


def test_reordered_messages_of_one_role_are_lost() -> None:
    whole = cafe()
    swapped = [*whole[:3], whole[5], whole[4], whole[3]]
    assert [lost.text for lost in check_completeness(whole, swapped).lost] == ["They do."]


def test_calls_are_compared_by_parsed_arguments() -> None:
    def calls(arguments: str) -> list[ConversationEntry]:
        return entries(Message("assistant", None, [call("c", arguments=arguments)]))

    assert check_completeness(calls('{"a":1,"b":2}'), calls('{ "b": 2, "a": 1 }')).lost == ()
    assert check_completeness(calls("free text"), calls('{"input": "free text"}')).lost == ()
    assert len(check_completeness(calls('{"a":1}'), calls('{"a":2}')).lost) == 1


def test_result_may_become_user_text_but_answer_may_not() -> None:
    result = entries(Message("tool", "Open.", tool_call_id="x"))
    told = entries(Message("user", "[result of an earlier call]: Open."))
    assert check_completeness(result, told).lost == ()
    assert len(check_completeness(entries(Message("assistant", "Open.")), told).lost) == 1


def test_thoughts_images_and_foreign_blocks_may_be_missing() -> None:
    odd: list[ContentPart] = [
        ImagePart("image/png", PNG),
        UnknownPart("document", "{}"),
        TextPart("Look."),
    ]
    before = [*cafe()[1:2], *entries(Message("user", odd))]
    after = entries(Message("assistant", "I look.", [call("c1")]), Message("user", "Look."))
    found = check_completeness(before, after)
    assert (found.lost, names(found)) == ((), ["thoughts", "images", "blocks"])


def test_position_of_a_call_within_its_answer_may_change() -> None:
    before = entries(Message("assistant", "I look.", [call("c1")]), Message("assistant", "There."))
    after = entries(Message("assistant", "I look.There.", [call("c1")]))
    assert check_completeness(before, after).lost == ()


def test_optional_parts_do_not_match_required_ones() -> None:
    told = Message("user", [UnknownPart("reasoning", "tea"), TextPart("Look.")])
    before = entries(told, Message("user", "Is there tea?"))
    assert check_completeness(before, before[1:]).lost == (MissingContent(0, "user", "Look."),)
    assert check_completeness(before, entries(Message("user", "Look. Is there tea?"))).lost == ()


def test_client_error_message_may_be_missing() -> None:
    error = ConversationEntry(Message("assistant", "API error"), source={"kind": "error"})
    found = check_completeness([error], [])
    assert (found.lost, names(found)) == ((), ["errors"])


def written(runtime: str, before: list[ConversationEntry]) -> list[ConversationEntry]:
    """Return the conversation read from a file that was written for a client."""
    native = find_runtime_format(runtime)
    assert native is not None
    assert native.writes is not None
    try:
        return read_conversation(native.steps, native.writes(before, new()))
    except FormatError:  # nothing is said
        return []


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_regular_conversation_is_complete_in_every_client(runtime: str) -> None:
    before = [*cafe(), *entries(Message("assistant", None, [call("a"), call("b")]))]
    before += entries(*(Message("tool", f"of {id_}", tool_call_id=id_) for id_ in "ba"))
    assert check_completeness(before, written(runtime, before)).lost == ()


@pytest.mark.full
@pytest.mark.parametrize("runtime", RUNTIMES)
@given(context=ODD_CONTEXT)
def test_irregular_conversation_is_complete_in_every_client(
    runtime: str, context: list[Message]
) -> None:
    before = entries(*context)
    assert check_completeness(before, written(runtime, before)).lost == ()


def test_call_is_matched_as_a_unit() -> None:
    long = ToolCall("c", FunctionCall("look", '{"where":"' + "x" * 5000 + '"}'))
    before = entries(Message("assistant", None, [long]))
    assert check_completeness(before, before).lost == ()


@given(context=st.lists(st.sampled_from(cafe()), max_size=8))
def test_every_conversation_is_complete_against_itself(context: list[ConversationEntry]) -> None:
    assert check_completeness(context, context) == Completeness((), ())
