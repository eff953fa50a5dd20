"""Conversations of any runtime, normalized for another runtime: every provider accepts them."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
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
from tests.unit.formats.context_kit import GIF, ODD_CONTEXT, PNG, flatten, tidy_contexts

STRANGER = TargetRules(owns=lambda entry: False)
OWNER = TargetRules(owns=lambda entry: True, has_answers_in_a_row=True, has_system=True)


def full_context(*messages: Message, **source: Any) -> list[ConversationEntry]:
    return [ConversationEntry(message, source=source or None) for message in messages]


def normalize(*messages: Message, to: TargetRules = STRANGER, **source: Any) -> list[Message]:
    return [entry.message for entry in normalize_entries(full_context(*messages, **source), to)]


def format_messages(*messages: Message, to: TargetRules = STRANGER, **source: Any) -> list[str]:
    """Return the normalized messages as `role: text` with calls."""
    collected = []
    for item in normalize(*messages, to=to, **source):
        calls = "".join(f" [{call.id}]" for call in item.tool_calls or ())
        of = f" of {item.tool_call_id}" if item.tool_call_id else ""
        collected.append(f"{item.role}{of}: {text_of(item.content)}{calls}")
    return collected


def call_message(*ids: str, says: str = "I look.") -> Message:
    return Message("assistant", says, [ToolCall(id_, FunctionCall("look", "{}")) for id_ in ids])


def result_message(id_: str, content: Any = "seen") -> Message:
    return Message("tool", content, tool_call_id=id_)


def check(messages: list[Message]) -> None:
    """Check the rules that all providers have for conversations."""
    assert not messages or messages[0].role == "user"
    waiting: set[str | None] = set()
    visited: set[str] = set()
    last = ""
    for message in messages:
        json.dumps(text_of(message.content)).encode()
        if message.role == "tool":
            assert message.tool_call_id in waiting, "one result, right after its call"
            waiting.discard(message.tool_call_id)
            assert message.content, "nothing is empty"
        else:
            assert not waiting, "each call is answered before anybody speaks"
            assert message.role in ("user", "assistant")
            assert (message.role, last) != ("assistant", "assistant")
            assert message.content or message.tool_calls, "nothing is empty"
        ids = [call.id for call in message.tool_calls or ()]
        assert not visited & {*ids}, "no id comes twice"
        assert len({*ids}) == len(ids)
        for call in message.tool_calls or ():
            assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", call.id)
            assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", call.function.name)
            assert isinstance(json.loads(call.function.arguments or "{}"), dict)
        visited |= {*ids}
        waiting |= {*ids}
        last = message.role
    assert not waiting


@given(ODD_CONTEXT)
def test_any_conversation_is_normalized_for_all_providers(context: list[Message]) -> None:
    check(normalize(*context))


@given(ODD_CONTEXT)
def test_normalizing_is_idempotent(context: list[Message]) -> None:
    once = normalize(*context)
    assert normalize(*once) == once


@given(tidy_contexts())
def test_tidy_conversation_of_the_target_is_unchanged(context: list[Message]) -> None:
    assert normalize(*context, to=OWNER) == context


@given(tidy_contexts())
def test_foreign_conversation_loses_only_its_thinking(context: list[Message]) -> None:
    tidy = [message for message in context if message.role != "system"]
    assert flatten(normalize(*tidy)) == flatten(tidy, with_thinking=False)


def test_odd_entries_keep_their_times_and_sources() -> None:
    for entries in (plain_conversation(), odd_conversation()):
        request_items = normalize_entries(entries, STRANGER)
        check([entry.message for entry in request_items])
        assert {entry.time for entry in request_items} == {entry.time for entry in entries} & {
            entry.time for entry in request_items
        }
    assert normalize_entries(plain_conversation(), STRANGER) == plain_conversation()


def test_consecutive_calls_get_their_results() -> None:
    result = format_messages(
        Message("user", "Go"),
        call_message("a"),
        call_message("b", says=""),
        result_message("b"),
        result_message("a"),
    )
    assert result == [
        "user: Go",
        "assistant: I look. [a] [b]",
        "tool of b: seen",
        "tool of a: seen",
    ]


def test_text_between_a_call_and_its_result_moves_after_it() -> None:
    result = format_messages(
        Message("user", "Go"), call_message("a"), Message("user", "Wait"), result_message("a")
    )
    assert result == ["user: Go", "assistant: I look. [a]", "tool of a: seen", "user: Wait"]


def test_unanswered_calls_get_a_result() -> None:
    result = format_messages(
        Message("user", "Go"), call_message("a", "b"), result_message("b"), call_message("c")
    )
    assert result[2:4] == ["tool of b: seen", f"tool of a: {NO_RESULT_TEXT}"]
    assert result[4:] == ["assistant: I look. [c]", f"tool of c: {NO_RESULT_TEXT}"]
    assert normalize(Message("user", "Go"), call_message("a"))[-1].is_error


def test_orphan_results_become_user_text() -> None:
    late = result_message("a", [TextPart("again"), ImagePart("image/png", PNG)])
    request_items = normalize(
        Message("user", "Go"),
        call_message("a"),
        result_message("a"),
        late,
        result_message("zz", ""),
    )
    assert request_items[3] == Message(
        "user", [TextPart(f"{LATE_RESULT_PREFIX}again"), ImagePart("image/png", PNG)]
    )
    assert request_items[4] == Message("user", LATE_RESULT_PREFIX + NO_OUTPUT_TEXT)


def test_duplicate_call_ids_and_their_results_are_made_distinct() -> None:
    result = format_messages(
        Message("user", "Go"),
        call_message("a"),
        result_message("a", "1"),
        call_message("a"),
        result_message("a", "2"),
    )
    assert result[1:3] == ["assistant: I look. [a]", "tool of a: 1"]
    assert result[3:] == ["assistant: I look. [a_2]", "tool of a_2: 2"]


def test_invalid_id_is_changed_in_call_and_result() -> None:
    result = format_messages(
        Message("user", "Go"), call_message("call|fc/1"), result_message("call|fc/1")
    )
    assert result[1:] == ["assistant: I look. [call_fc_1]", "tool of call_fc_1: seen"]


def find_call(message: Message) -> ToolCall:
    return (message.tool_calls or [])[0]


def test_custom_call_input_is_wrapped_unless_the_target_supports_it() -> None:
    patch = Message("assistant", None, [ToolCall("a", FunctionCall("patch", "*** x"), "custom")])
    call = find_call(normalize(Message("user", "Go"), patch)[1])
    assert (call.type, call.function.arguments) == ("function", '{"input":"*** x"}')
    free = msgspec.structs.replace(STRANGER, has_free_calls=True)
    call = find_call(normalize(Message("user", "Go"), patch, to=free)[1])
    assert (call.type, call.function.arguments) == ("custom", "*** x")


def test_foreign_thinking_is_removed_and_own_thinking_keeps_its_signature() -> None:
    thought = ThinkingPart("Hm.", {"signature": "c2ln"})
    hidden = UnknownPart("redacted_thinking", '{"data":"x"}')
    message = Message("assistant", [thought, hidden, TextPart("Yes.", {"mark": 1})])
    assert normalize(Message("user", "?"), message)[1] == Message("assistant", "Yes.")
    assert normalize(Message("user", "?"), message, to=OWNER)[1] == message
    wise = msgspec.structs.replace(
        STRANGER, accepts=lambda entry, part: isinstance(part, ThinkingPart)
    )
    assert normalize(Message("user", "?"), message, to=wise)[1].content == [
        thought,
        TextPart("Yes."),
    ]


def test_answer_with_only_thinking_is_removed() -> None:
    only = Message("assistant", [ThinkingPart("Hm.")])
    assert format_messages(Message("user", "?"), only, Message("user", "!")) == [
        "user: ?",
        "user: !",
    ]


def test_blocks_of_another_provider_become_text() -> None:
    search = UnknownPart("web_search_call", '{"query":"tea"}')
    secret = UnknownPart("compaction", '{"encrypted_content":"x"}')
    request_items = normalize(Message("user", "?"), Message("assistant", [search, secret]))[1]
    assert [part.text for part in request_items.content or () if isinstance(part, TextPart)] == [
        '[web_search_call] {"query":"tea"}',
        "[a block of the kind 'compaction' that cannot be shown]",
    ]


def test_system_text_becomes_user_text_unless_the_target_supports_it() -> None:
    context = [Message("system", "Be kind."), Message("user", "Hi")]
    assert format_messages(*context) == [f"user: {SYSTEM_PREFIX}Be kind.", "user: Hi"]
    assert format_messages(*context, to=OWNER) == ["system: Be kind.", "user: Hi"]


def test_leading_answer_gets_a_user_message() -> None:
    assert format_messages(Message("assistant", "Hello")) == [
        f"user: {EMPTY_TURN_TEXT}",
        "assistant: Hello",
    ]


def test_images_are_kept_where_supported_and_else_become_text() -> None:
    url = ImagePart(url="https://example.org/a.png")
    bad = ImagePart("image/png", "aGk=")
    image = ImagePart("image/gif", GIF)
    plain = msgspec.structs.replace(STRANGER, has_image_urls=False, has_result_images=False)
    request_items = normalize(
        Message("user", [url, bad]), call_message("a"), result_message("a", [image]), to=plain
    )
    assert text_of(request_items[0].content) == (
        "[an image: https://example.org/a.png]\n\n[an image (image/png) that cannot be shown]"
    )
    assert request_items[2].content == "[images, shown after the results: 1]"
    assert request_items[3] == Message("user", [TextPart(IMAGES), image])
    assert normalize(call_message("a"), result_message("a", [image]))[2].content == [image]


def test_images_of_errors_follow_them_where_errors_have_no_images() -> None:
    plain = msgspec.structs.replace(STRANGER, has_error_images=False)
    image = ImagePart("image/gif", GIF)
    failed = Message("tool", [TextPart("no"), image], tool_call_id="a", is_error=True)
    request_items = normalize(Message("user", "Go"), call_message("a"), failed, to=plain)
    assert request_items[2].is_error
    assert text_of(request_items[2].content) == "no\n\n[images, shown after the results: 1]"
    assert request_items[3] == Message("user", [TextPart(IMAGES), image])
    assert normalize(call_message("a"), result_message("a", [image]), to=plain)[2].content == [
        image
    ]


@pytest.mark.parametrize(
    "source", [{"kind": "error"}, {"pi": {"stopReason": "aborted"}}], ids=["claude", "pi"]
)
def test_entries_outside_the_model_context_are_removed_unless_native(
    source: dict[str, Any],
) -> None:
    broken = ConversationEntry(Message("assistant", "API Error"), source=source)
    user_message = full_context(Message("user", "Hi"), Message("user", "Ho"))
    assert normalize_entries([user_message[0], broken, user_message[1]], STRANGER) == user_message
    custom = msgspec.structs.replace(STRANGER, is_aside=lambda entry: bool(entry.source))
    assert normalize_entries([user_message[0], broken, user_message[1]], custom) == [
        user_message[0],
        broken,
        user_message[1],
    ]


def test_side_entries_stay_in_place_and_do_not_split_answers() -> None:
    custom = msgspec.structs.replace(STRANGER, is_aside=lambda entry: bool(entry.source))
    aside = ConversationEntry(Message("assistant", "API Error"), source={"kind": "error"})
    user, first, two, *user_message = full_context(
        Message("user", "Hi"), call_message("a"), call_message("b"), result_message("a")
    )
    request_items = normalize_entries([user, first, aside, two, *user_message], custom)
    assert [text_of(entry.message.content) for entry in request_items] == [
        "Hi",
        "I look.\n\nI look.",
        "API Error",
        "seen",
        NO_RESULT_TEXT,
    ]


def test_open_call_is_closed_before_the_next_answer() -> None:
    result = format_messages(
        Message("user", "Go"), call_message("a"), call_message("b"), result_message("b")
    )
    assert result[1:] == [
        "assistant: I look. [a]",
        f"tool of a: {NO_RESULT_TEXT}",
        "assistant: I look. [b]",
        "tool of b: seen",
    ]


def test_foreign_calls_come_last_where_the_target_requires_it() -> None:
    last = msgspec.structs.replace(STRANGER, has_calls_last=True)
    call = ToolCall("a", FunctionCall("look", "{}"))
    message = Message("assistant", [ToolCallSlot("a"), TextPart("So.")], [call])
    prompt = Message("user", "Go")
    assert normalize(prompt, message, result_message("a"), to=last)[1] == Message(
        "assistant", "So.", [call]
    )
    assert normalize(prompt, message, result_message("a"))[1] == message


def test_instructions_of_another_runtime_are_removed() -> None:
    entries = [
        build_instructions_entry("You are Codex.", None),
        *full_context(Message("user", "Hi")),
    ]
    assert normalize_entries(entries, STRANGER) == entries[1:]


def test_consecutive_answers_stay_separate_where_the_target_supports_it() -> None:
    apart = msgspec.structs.replace(STRANGER, has_answers_in_a_row=True)
    context = [
        Message("user", "Go"),
        call_message("a"),
        Message("assistant", "So."),
        call_message("b"),
        result_message("b"),
    ]
    assert format_messages(*context, to=apart) == [
        "user: Go",
        "assistant: I look. [a]",
        f"tool of a: {NO_RESULT_TEXT}",
        "assistant: So.",
        "assistant: I look. [b]",
        "tool of b: seen",
    ]


def test_result_belongs_to_the_last_of_several_calls_with_its_id() -> None:
    """A regression: merged answers gave the result to the first call, so the last one lost it."""
    first, second = (ToolCall("a", FunctionCall("look", text)) for text in ('{"a":1}', '{"a":2}'))
    messages = normalize(
        Message("user", "q"),
        Message("assistant", None, [first]),
        Message("assistant", None, [second]),
        Message("tool", "of the second", tool_call_id="a"),
    )
    calls = {call.id: call.function.arguments for m in messages for call in m.tool_calls or ()}
    results = {m.tool_call_id: m.content for m in messages if m.role == "tool"}
    assert [results[id_] for id_, text in calls.items() if text == '{"a":2}'] == ["of the second"]
    assert len(results) == len(calls) == 2
