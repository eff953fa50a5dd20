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
from tests.unit.capture.conversation_kit import cafe, call, new
from tests.unit.formats.context_kit import ODD_CONTEXT, PNG


def entries(*messages: Message) -> list[ConversationEntry]:
    return [ConversationEntry(message) for message in messages]


def names(result: Completeness) -> list[str]:
    return [allowed.name for allowed in result.allowed]


def test_equal_conversations_are_complete() -> None:
    result = check_completeness(cafe(), cafe())
    assert (result.lost, result.allowed) == ((), ())


@pytest.mark.parametrize("index", [0, 2, 3, 4, 5])
def test_missing_message_is_lost(index: int) -> None:
    conversation = cafe()
    (missing,) = check_completeness(
        conversation, [*conversation[:index], *conversation[index + 1 :]]
    ).lost
    assert (missing.place, missing.role) == (index, conversation[index].message.role)
    assert missing.text == conversation[index].message.content


def test_reordered_messages_of_one_role_are_told_from_lost_ones() -> None:
    conversation = cafe()
    swapped = [*conversation[:3], conversation[5], conversation[4], conversation[3]]
    result = check_completeness(conversation, swapped)
    assert result.lost == ()
    assert len(result.reordered) == 1
    assert result.reordered[0].text in ("They do.", conversation[3].message.content)


def test_one_missing_text_does_not_move_the_equal_ones_behind_it() -> None:
    before = entries(*(Message("user", text) for text in ("ok", "tea", "ok", "cake", "ok")))
    result = check_completeness(before, before[1:])
    assert ([missing.text for missing in result.lost], result.reordered) == (["ok"], ())


def test_calls_are_matched_by_id_and_not_by_their_count() -> None:
    aborted = ConversationEntry(
        Message("assistant", "I lo", [call("c1", arguments='{"a":1}')]), source={"kind": "error"}
    )
    later = entries(
        Message("assistant", None, [call("c2", arguments='{"a":2}')]),
        Message("tool", "Open.", tool_call_id="c2"),
        Message("assistant", None, [call("c3", arguments='{"a":2}')]),
        Message("tool", "Closed.", tool_call_id="c3"),
    )
    result = check_completeness([aborted, *later], later)
    assert (result.lost, result.reordered, names(result)) == ((), (), ["errors"])
    assert len(check_completeness([aborted, *later], later[:-1]).lost) == 1


def test_results_of_calls_with_exchanged_ids_are_lost() -> None:
    calls = Message("assistant", None, [call("a", arguments="{}"), call("b", arguments="{}")])
    results = [Message("tool", f"of {id_}", tool_call_id=id_) for id_ in "ab"]
    exchanged = [Message("tool", f"of {id_}", tool_call_id=new) for id_, new in ("ab", "ba")]
    result = check_completeness(entries(calls, *results), entries(calls, *exchanged))
    assert [missing.text for missing in result.lost] == ["of a", "of b"]


def test_call_with_a_new_id_is_matched_by_its_arguments() -> None:
    before = entries(
        Message("assistant", None, [call("odd id!", arguments='{"a":1}')]),
        Message("tool", "Open.", tool_call_id="odd id!"),
    )
    after = entries(
        Message("assistant", None, [call("toolu_1", arguments='{"a": 1}')]),
        Message("tool", "Open.", tool_call_id="toolu_1"),
    )
    assert check_completeness(before, after) == Completeness((), ())


def test_second_call_with_the_same_id_has_its_own_result() -> None:
    repeated = Message("assistant", None, [call("c", arguments="{}")])
    before = entries(repeated, repeated, Message("tool", "Open.", tool_call_id="c"))
    assert check_completeness(before, before).lost == ()


def test_calls_are_compared_by_parsed_arguments() -> None:
    def calls(arguments: str) -> list[ConversationEntry]:
        return entries(Message("assistant", None, [call("c", arguments=arguments)]))

    assert check_completeness(calls('{"a":1,"b":2}'), calls('{ "b": 2, "a": 1 }')).lost == ()
    assert check_completeness(calls("free text"), calls('{"input": "free text"}')).lost == ()
    assert len(check_completeness(calls('{"a":1}'), calls('{"a":2}')).lost) == 1


def test_result_may_become_user_text_but_answer_may_not() -> None:
    result = entries(Message("tool", "Open.", tool_call_id="x"))
    as_text = entries(Message("user", "[result of an earlier call]: Open."))
    assert check_completeness(result, as_text).lost == ()
    assert len(check_completeness(entries(Message("assistant", "Open.")), as_text).lost) == 1


def test_thoughts_images_and_foreign_blocks_may_be_missing() -> None:
    other_parts: list[ContentPart] = [
        ImagePart("image/png", PNG),
        UnknownPart("document", "{}"),
        TextPart("Look."),
    ]
    before = [*cafe()[1:2], *entries(Message("user", other_parts))]
    after = entries(Message("assistant", "I look.", [call("c1")]), Message("user", "Look."))
    result = check_completeness(before, after)
    assert (result.lost, names(result)) == ((), ["thinking", "images", "blocks"])


def test_position_of_a_call_within_its_answer_may_change() -> None:
    before = entries(Message("assistant", "I look.", [call("c1")]), Message("assistant", "There."))
    after = entries(Message("assistant", "I look.There.", [call("c1")]))
    assert check_completeness(before, after).lost == ()


def test_optional_parts_do_not_match_required_ones() -> None:
    as_user = Message("user", [UnknownPart("reasoning", "tea"), TextPart("Look.")])
    before = entries(as_user, Message("user", "Is there tea?"))
    assert check_completeness(before, before[1:]).lost == (MissingContent(0, "user", "Look."),)
    assert check_completeness(before, entries(Message("user", "Look. Is there tea?"))).lost == ()


def test_client_error_message_may_be_missing() -> None:
    error = ConversationEntry(Message("assistant", "API error"), source={"kind": "error"})
    result = check_completeness([error], [])
    assert (result.lost, names(result)) == ((), ["errors"])


def write_and_read(runtime: str, before: list[ConversationEntry]) -> list[ConversationEntry]:
    """Return the conversation read from a file that was written for a client."""
    native = find_runtime_format(runtime)
    assert native is not None
    assert native.writes is not None
    try:
        return read_conversation(native.steps, native.writes(before, new()))
    except FormatError:  # no content
        return []


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_regular_conversation_is_complete_in_every_client(runtime: str) -> None:
    before = [*cafe(), *entries(Message("assistant", None, [call("a"), call("b")]))]
    before += entries(*(Message("tool", f"of {id_}", tool_call_id=id_) for id_ in "ba"))
    assert check_completeness(before, write_and_read(runtime, before)).lost == ()


@pytest.mark.full
@pytest.mark.parametrize("runtime", RUNTIMES)
@given(context=ODD_CONTEXT)
def test_irregular_conversation_is_complete_in_every_client(
    runtime: str, context: list[Message]
) -> None:
    before = entries(*context)
    assert check_completeness(before, write_and_read(runtime, before)).lost == ()


def test_call_is_matched_as_a_unit() -> None:
    long = ToolCall("c", FunctionCall("look", '{"where":"' + "x" * 5000 + '"}'))
    before = entries(Message("assistant", None, [long]))
    assert check_completeness(before, before).lost == ()


@given(context=st.lists(st.sampled_from(cafe()), max_size=8))
def test_every_conversation_is_complete_against_itself(context: list[ConversationEntry]) -> None:
    assert check_completeness(context, context) == Completeness((), ())
