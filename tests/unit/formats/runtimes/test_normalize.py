"""Conversations of any runtime, fitted to another one: every provider takes them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from harken.core.messages import (
    FunctionCall,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolCallSlot,
    UnknownPart,
    text_of,
)
from harken.formats.base import ConversationEntry
from harken.formats.providers.alternation import (
    EMPTY_TURN_TEXT,
    LATE_RESULT_PREFIX,
    NO_OUTPUT_TEXT,
    NO_RESULT_TEXT,
    SYSTEM_PREFIX,
)
from harken.formats.providers.openai_responses import build_instructions_entry
from harken.formats.runtimes.normalize import IMAGES, normalize_entries
from harken.formats.runtimes.target import TargetRules
from harken.testing import odd_conversation, plain_conversation
from tests.unit.formats.contexts import GIF, ODD_CONTEXT, PNG, flat, tidy_contexts

STRANGER = TargetRules(owns=lambda entry: False)
OWNER = TargetRules(owns=lambda entry: True, has_answers_in_a_row=True, has_system=True)


def whole(*messages: Message, **source: Any) -> list[ConversationEntry]:
    return [ConversationEntry(message, source=source or None) for message in messages]


def fit(*messages: Message, to: TargetRules = STRANGER, **source: Any) -> list[Message]:
    return [entry.message for entry in normalize_entries(whole(*messages, **source), to)]


def told(*messages: Message, to: TargetRules = STRANGER, **source: Any) -> list[str]:
    """Return what is said after fitting, as `role: text` with calls."""
    found = []
    for one in fit(*messages, to=to, **source):
        calls = "".join(f" [{call.id}]" for call in one.tool_calls or ())
        of = f" of {one.tool_call_id}" if one.tool_call_id else ""
        found.append(f"{one.role}{of}: {text_of(one.content)}{calls}")
    return found


def asks(*ids: str, says: str = "I look.") -> Message:
    return Message("assistant", says, [ToolCall(id_, FunctionCall("look", "{}")) for id_ in ids])


def gives(id_: str, content: Any = "seen") -> Message:
    return Message("tool", content, tool_call_id=id_)


def check(messages: list[Message]) -> None:
    """Check what all providers demand of a conversation."""
    assert not messages or messages[0].role == "user"
    waiting: set[str | None] = set()
    known: set[str] = set()
    last = ""
    for one in messages:
        json.dumps(text_of(one.content)).encode()
        if one.role == "tool":
            assert one.tool_call_id in waiting, "one result, right after its call"
            waiting.discard(one.tool_call_id)
            assert one.content, "nothing is empty"
        else:
            assert not waiting, "each call is answered before anybody speaks"
            assert one.role in ("user", "assistant")
            assert (one.role, last) != ("assistant", "assistant")
            assert one.content or one.tool_calls, "nothing is empty"
        ids = [call.id for call in one.tool_calls or ()]
        assert not known & {*ids}, "no id comes twice"
        assert len({*ids}) == len(ids)
        for call in one.tool_calls or ():
            assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", call.id)
            assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", call.function.name)
            assert isinstance(json.loads(call.function.arguments or "{}"), dict)
        known |= {*ids}
        waiting |= {*ids}
        last = one.role
    assert not waiting


@given(ODD_CONTEXT)
def test_whatever_was_said_it_is_said_such_that_providers_take_it(context: list[Message]) -> None:
    check(fit(*context))


@given(ODD_CONTEXT)
def test_what_is_fitted_is_fit(context: list[Message]) -> None:
    once = fit(*context)
    assert fit(*once) == once


@given(tidy_contexts())
def test_a_tidy_conversation_of_the_target_stays_as_it_is(context: list[Message]) -> None:
    assert fit(*context, to=OWNER) == context


@given(tidy_contexts())
def test_a_stranger_loses_thoughts_and_nothing_else(context: list[Message]) -> None:
    tidy = [message for message in context if message.role != "system"]
    assert flat(fit(*tidy)) == flat(tidy, with_thinking=False)


def test_odd_entries_are_fitted_with_their_times_and_sources() -> None:
    for entries in (plain_conversation(), odd_conversation()):
        found = normalize_entries(entries, STRANGER)
        check([entry.message for entry in found])
        assert {entry.time for entry in found} == {entry.time for entry in entries} & {
            entry.time for entry in found
        }
    assert normalize_entries(plain_conversation(), STRANGER) == plain_conversation()


def test_calls_get_their_results_though_they_were_told_one_by_one() -> None:
    found = told(Message("user", "Go"), asks("a"), asks("b", says=""), gives("b"), gives("a"))
    assert found == ["user: Go", "assistant: I look. [a] [b]", "tool of b: seen", "tool of a: seen"]


def test_a_word_between_a_call_and_its_result_comes_after_it() -> None:
    found = told(Message("user", "Go"), asks("a"), Message("user", "Wait"), gives("a"))
    assert found == ["user: Go", "assistant: I look. [a]", "tool of a: seen", "user: Wait"]


def test_calls_that_nobody_answered_get_a_result_that_says_so() -> None:
    found = told(Message("user", "Go"), asks("a", "b"), gives("b"), asks("c"))
    assert found[2:4] == ["tool of b: seen", f"tool of a: {NO_RESULT_TEXT}"]
    assert found[4:] == ["assistant: I look. [c]", f"tool of c: {NO_RESULT_TEXT}"]
    assert fit(Message("user", "Go"), asks("a"))[-1].is_error


def test_results_without_a_call_are_told_by_the_user() -> None:
    late = gives("a", [TextPart("again"), ImagePart("image/png", PNG)])
    found = fit(Message("user", "Go"), asks("a"), gives("a"), late, gives("zz", ""))
    assert found[3] == Message(
        "user", [TextPart(f"{LATE_RESULT_PREFIX}again"), ImagePart("image/png", PNG)]
    )
    assert found[4] == Message("user", LATE_RESULT_PREFIX + NO_OUTPUT_TEXT)


def test_calls_with_one_id_are_told_apart_and_so_are_their_results() -> None:
    found = told(Message("user", "Go"), asks("a"), gives("a", "1"), asks("a"), gives("a", "2"))
    assert found[1:3] == ["assistant: I look. [a]", "tool of a: 1"]
    assert found[3:] == ["assistant: I look. [a_2]", "tool of a_2: 2"]


def test_an_id_that_is_not_fit_is_changed_in_both_places() -> None:
    found = told(Message("user", "Go"), asks("call|fc/1"), gives("call|fc/1"))
    assert found[1:] == ["assistant: I look. [call_fc_1]", "tool of call_fc_1: seen"]


def call_in(message: Message) -> ToolCall:
    return (message.tool_calls or [])[0]


def test_free_text_of_a_call_stands_below_a_name_unless_the_target_takes_it() -> None:
    patch = Message("assistant", None, [ToolCall("a", FunctionCall("patch", "*** x"), "custom")])
    call = call_in(fit(Message("user", "Go"), patch)[1])
    assert (call.type, call.function.arguments) == ("function", '{"input":"*** x"}')
    free = replace(STRANGER, has_free_calls=True)
    call = call_in(fit(Message("user", "Go"), patch, to=free)[1])
    assert (call.type, call.function.arguments) == ("custom", "*** x")


def test_thoughts_of_others_go_and_own_ones_stay_with_their_signature() -> None:
    thought = ThinkingPart("Hm.", {"signature": "c2ln"})
    hidden = UnknownPart("redacted_thinking", '{"data":"x"}')
    said = Message("assistant", [thought, hidden, TextPart("Yes.", {"mark": 1})])
    assert fit(Message("user", "?"), said)[1] == Message("assistant", "Yes.")
    assert fit(Message("user", "?"), said, to=OWNER)[1] == said
    wise = replace(STRANGER, accepts=lambda entry, part: isinstance(part, ThinkingPart))
    assert fit(Message("user", "?"), said, to=wise)[1].content == [thought, TextPart("Yes.")]


def test_an_answer_of_thoughts_alone_goes() -> None:
    only = Message("assistant", [ThinkingPart("Hm.")])
    assert told(Message("user", "?"), only, Message("user", "!")) == ["user: ?", "user: !"]


def test_blocks_of_another_provider_are_told() -> None:
    search = UnknownPart("web_search_call", '{"query":"tea"}')
    secret = UnknownPart("compaction", '{"encrypted_content":"x"}')
    found = fit(Message("user", "?"), Message("assistant", [search, secret]))[1]
    assert [part.text for part in found.content or () if isinstance(part, TextPart)] == [
        '[web_search_call] {"query":"tea"}',
        "[a block of the kind 'compaction' that cannot be shown]",
    ]


def test_what_the_system_said_is_told_by_the_user_unless_the_target_can_say_it() -> None:
    context = [Message("system", "Be kind."), Message("user", "Hi")]
    assert told(*context) == [f"user: {SYSTEM_PREFIX}Be kind.", "user: Hi"]
    assert told(*context, to=OWNER) == ["system: Be kind.", "user: Hi"]


def test_who_begins_with_an_answer_is_given_a_question() -> None:
    assert told(Message("assistant", "Hello")) == [f"user: {EMPTY_TURN_TEXT}", "assistant: Hello"]


def test_images_are_shown_where_they_can_be_and_else_are_told() -> None:
    url = ImagePart(url="https://example.org/a.png")
    bad = ImagePart("image/png", "aGk=")
    shown = ImagePart("image/gif", GIF)
    plain = replace(STRANGER, has_image_urls=False, has_result_images=False)
    found = fit(Message("user", [url, bad]), asks("a"), gives("a", [shown]), to=plain)
    assert text_of(found[0].content) == (
        "[an image: https://example.org/a.png]\n\n[an image (image/png) that cannot be shown]"
    )
    assert found[2].content == "[images, shown after the results: 1]"
    assert found[3] == Message("user", [TextPart(IMAGES), shown])
    assert fit(asks("a"), gives("a", [shown]))[2].content == [shown]


def test_images_of_errors_are_shown_after_them_where_an_error_holds_none() -> None:
    plain = replace(STRANGER, has_error_images=False)
    shown = ImagePart("image/gif", GIF)
    failed = Message("tool", [TextPart("no"), shown], tool_call_id="a", is_error=True)
    found = fit(Message("user", "Go"), asks("a"), failed, to=plain)
    assert found[2].is_error
    assert text_of(found[2].content) == "no\n\n[images, shown after the results: 1]"
    assert found[3] == Message("user", [TextPart(IMAGES), shown])
    assert fit(asks("a"), gives("a", [shown]), to=plain)[2].content == [shown]


@pytest.mark.parametrize(
    "source", [{"kind": "error"}, {"pi": {"stopReason": "aborted"}}], ids=["claude", "pi"]
)
def test_what_no_model_read_goes_but_for_whose_it_is(source: dict[str, Any]) -> None:
    broken = ConversationEntry(Message("assistant", "API Error"), source=source)
    heard = whole(Message("user", "Hi"), Message("user", "Ho"))
    assert normalize_entries([heard[0], broken, heard[1]], STRANGER) == heard
    own = replace(STRANGER, is_aside=lambda entry: bool(entry.source))
    assert normalize_entries([heard[0], broken, heard[1]], own) == [heard[0], broken, heard[1]]


def test_what_stands_aside_stays_where_it_is_and_parts_no_answers() -> None:
    own = replace(STRANGER, is_aside=lambda entry: bool(entry.source))
    aside = ConversationEntry(Message("assistant", "API Error"), source={"kind": "error"})
    user, one, two, *heard = whole(Message("user", "Hi"), asks("a"), asks("b"), gives("a"))
    found = normalize_entries([user, one, aside, two, *heard], own)
    assert [text_of(entry.message.content) for entry in found] == [
        "Hi",
        "I look.\n\nI look.",
        "API Error",
        "seen",
        NO_RESULT_TEXT,
    ]


def test_a_call_that_is_never_answered_is_closed_before_the_next_answer() -> None:
    found = told(Message("user", "Go"), asks("a"), asks("b"), gives("b"))
    assert found[1:] == [
        "assistant: I look. [a]",
        f"tool of a: {NO_RESULT_TEXT}",
        "assistant: I look. [b]",
        "tool of b: seen",
    ]


def test_calls_of_others_stand_last_where_the_target_has_them_so() -> None:
    last = replace(STRANGER, has_calls_last=True)
    call = ToolCall("a", FunctionCall("look", "{}"))
    said = Message("assistant", [ToolCallSlot("a"), TextPart("So.")], [call])
    asked = Message("user", "Go")
    assert fit(asked, said, gives("a"), to=last)[1] == Message("assistant", "So.", [call])
    assert fit(asked, said, gives("a"))[1] == said


def test_instructions_about_another_runtime_go() -> None:
    entries = [build_instructions_entry("You are Codex.", None), *whole(Message("user", "Hi"))]
    assert normalize_entries(entries, STRANGER) == entries[1:]


def test_answers_in_a_row_stay_apart_where_the_target_says_them_so() -> None:
    apart = replace(STRANGER, has_answers_in_a_row=True)
    context = [Message("user", "Go"), asks("a"), Message("assistant", "So."), asks("b"), gives("b")]
    assert told(*context, to=apart) == [
        "user: Go",
        "assistant: I look. [a]",
        f"tool of a: {NO_RESULT_TEXT}",
        "assistant: So.",
        "assistant: I look. [b]",
        "tool of b: seen",
    ]
