"""The request that Claude Code sends on resume. Each rule was observed with client 2.1.329."""

from __future__ import annotations

from typing import Any

import pytest

from harken.core.messages import Message, TextPart, ThinkingPart
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.base import ModelUse
from harken.formats.runtimes.claude_code.resume_request import (
    INTERRUPTED,
    MISSING,
    NOTHING,
    ORPHANED,
    build_resume_request,
)
from tests.unit.formats.transcript_kit import (
    Transcript,
    read_transcript,
    text_block,
    thinking_block,
    tool_result_block,
    tool_use_block,
)

PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}
UNANSWERED = {"role": "assistant", "content": [text_block("No response requested.")]}


def build_request(transcript: Transcript) -> list[dict[str, Any]]:
    return build_resume_request(read_transcript(transcript).entries())


def format_messages(transcript: Transcript) -> list[str]:
    """Return the request, one line per message: the role, and the texts or ids of its blocks."""
    return [
        f"{message['role'][0]} " + " | ".join(_format_block(block) for block in message["content"])
        for message in build_request(transcript)
    ]


def _format_block(block: dict[str, Any]) -> str:
    match block:
        case {"type": "text", "text": words}:
            return repr(words)
        case {"type": "tool_use", "id": id_}:
            return f"call {id_}"
        case {"type": "tool_result", "tool_use_id": id_, "content": str(words)}:
            return f"{id_}: {words}"
    return str(block["type"])


def user_message() -> Transcript:
    transcript = Transcript()
    transcript.user("q")
    return transcript


def test_complete_turn_is_sent_unchanged() -> None:
    transcript = user_message()
    transcript.answer(thinking_block("I look."), id="m1")
    transcript.answer(tool_use_block("c1", command="ls"), id="m1")
    transcript.user([tool_result_block("c1", [text_block("one"), PICTURE])])
    transcript.answer(text_block("Done."))
    assert build_request(transcript) == [
        {"role": "user", "content": [text_block("q")]},
        {
            "role": "assistant",
            "content": [thinking_block("I look."), tool_use_block("c1", command="ls")],
        },
        {"role": "user", "content": [tool_result_block("c1", [text_block("one"), PICTURE])]},
        {"role": "assistant", "content": [text_block("Done.")]},
    ]


def test_consecutive_user_texts_are_merged_with_a_line_break() -> None:
    transcript = user_message()
    transcript.user([text_block("a"), text_block("b")])
    transcript.user([PICTURE])
    transcript.user("c")
    transcript.answer(text_block("Done."))
    assert format_messages(transcript)[0] == "u 'q\\n' | 'a' | 'b' | image | 'c'"


def test_consecutive_answers_stay_separate() -> None:
    transcript = user_message()
    transcript.answer(text_block("one"), id="m1")
    transcript.answer(text_block("two"), id="m2")
    assert format_messages(transcript) == ["u 'q'", "a 'one'", "a 'two'"]


def test_conversation_that_ends_with_the_user_gets_a_synthetic_answer() -> None:
    transcript = user_message()
    assert build_request(transcript)[-1] == UNANSWERED


def test_local_command_of_the_user_gets_no_answer() -> None:
    transcript = user_message()
    transcript.answer(text_block("a"))
    transcript.user("<local-command-caveat>Caveat</local-command-caveat>", isMeta=True)
    transcript.user("<command-name>/exit</command-name>")
    assert format_messages(transcript)[-1].startswith("u '<local-command-caveat>")
    second = user_message()
    second.answer(text_block("a"))
    second.add("system", subtype="local_command", content="<local-command-stdout>x")
    assert format_messages(second)[-1] == "u '<local-command-stdout>x'"


def test_last_open_calls_are_closed_with_unknown_result() -> None:
    transcript = user_message()
    transcript.answer(text_block("I look."), tool_use_block("c1"), tool_use_block("c2"))
    transcript.result("c2", "two")
    assert format_messages(transcript) == [
        "u 'q'",
        "a 'I look.' | call c1 | call c2",
        f"u c2: two | c1: {INTERRUPTED}",
        "a 'No response requested.'",
    ]
    alone = user_message()
    alone.answer(tool_use_block("c1"))
    assert format_messages(alone)[2:] == [f"u c1: {INTERRUPTED}", "a 'No response requested.'"]


def test_earlier_record_with_only_open_calls_is_omitted() -> None:
    transcript = user_message()
    transcript.answer(text_block("I look."), id="m1")
    transcript.answer(tool_use_block("c1"), id="m1")
    transcript.user("next")
    transcript.answer(text_block("Yes?"))
    assert format_messages(transcript) == ["u 'q'", "a 'I look.'", "u 'next'", "a 'Yes?'"]
    full = user_message()
    full.answer(text_block("I look."), tool_use_block("c1"))
    full.user("next")
    full.answer(text_block("Yes?"))
    assert format_messages(full) == ["u 'q\\n' | 'next'", "a 'Yes?'"]


def test_open_call_beside_an_answered_one_is_closed() -> None:
    transcript = user_message()
    transcript.answer(tool_use_block("c1"), tool_use_block("c2"))
    transcript.result("c2", "two")
    transcript.user("next")
    transcript.answer(text_block("Yes?"))
    assert format_messages(transcript)[2] == f"u c1: {MISSING} | c2: two | 'next'"


def test_second_result_and_orphan_result_are_omitted() -> None:
    transcript = user_message()
    transcript.answer(tool_use_block("c1"))
    transcript.result("c1", "one")
    transcript.result("c1", "again")
    transcript.result("c9", "whose?")
    transcript.answer(text_block("Done."))
    assert format_messages(transcript)[2] == "u c1: one"


def test_empty_message_gets_a_placeholder() -> None:
    transcript = Transcript()
    transcript.result("c0", "of a call that is not here")
    transcript.answer(text_block("a"))
    transcript.result("c9", "whose?")
    transcript.answer(text_block("b"))
    transcript.user([text_block("")])
    transcript.answer()
    assert format_messages(transcript) == [
        f"u {ORPHANED!r}",
        "a 'a'",
        f"u {NOTHING!r}",
        "a 'b'",
        f"u {NOTHING!r}",
        f"a {NOTHING!r}",
    ]


def test_blank_record_is_omitted_and_a_blank_text_among_others_is_kept() -> None:
    transcript = user_message()
    transcript.answer(text_block("\n\n"), id="m1")
    transcript.answer(text_block("a"), id="m1")
    transcript.user([text_block("b"), text_block("  ")])
    transcript.answer(text_block("  "), text_block("c"))
    assert format_messages(transcript) == ["u 'q'", "a 'a'", "u 'b'", "a '  ' | 'c'"]


def test_answer_with_only_thinking_is_omitted() -> None:
    transcript = user_message()
    transcript.answer(thinking_block("Hm."))
    transcript.user("and?")
    transcript.answer(text_block("a"))
    assert format_messages(transcript) == ["u 'q\\n' | 'and?'", "a 'a'"]


def test_api_error_is_omitted_and_the_synthetic_answer_is_kept() -> None:
    transcript = user_message()
    transcript.answer(text_block("API Error: 500"), model="<synthetic>", isApiErrorMessage=True)
    transcript.user("again")
    transcript.answer(text_block("No response requested."), model="<synthetic>")
    assert format_messages(transcript) == ["u 'q\\n' | 'again'", "a 'No response requested.'"]


@pytest.mark.parametrize(
    ("last", "retained"),
    [
        ("claude-opus-4-5-20251101", ["claude-opus-4-5-20251101", "claude-opus-4-5"]),
        ("claude-opus-4-5", ["claude-opus-4-5-20251101", "claude-opus-4-5"]),
        ("claude-sonnet-4-20250514", ["claude-sonnet-4-20250514"]),
        ("us.anthropic.claude-opus-5-5-20260101-v1:0", ["claude-opus-5-5", "us."]),
        ("claude-of-next-year", ["claude-of-next-year"]),
    ],
)
def test_only_thinking_of_the_last_model_is_sent(last: str, retained: list[str]) -> None:
    models = ["claude-opus-4-5-20251101", "claude-opus-4-5", "claude-opus-5-5", last]
    transcript = Transcript()
    for model in models:
        transcript.user("q")
        transcript.answer(thinking_block(model), text_block("a"), model=model)
    thoughts = [block for message in build_request(transcript) for block in message["content"]]
    result = [block["thinking"] for block in thoughts if block["type"] == "thinking"]
    assert {*result} == {last if name == "us." else name for name in retained}


def test_thinking_is_omitted_if_the_client_continues_with_another_model() -> None:
    transcript = user_message()
    transcript.answer(thinking_block("Hm."), text_block("a"), model="claude-sonnet-4-20250514")
    entries = read_transcript(transcript).entries()
    kinds = [
        [
            block["type"]
            for block in build_resume_request(entries, ModelUse(model=model))[1]["content"]
        ]
        for model in ("claude-opus-5-5", "claude-sonnet-4")
    ]
    assert kinds == [["text"], ["thinking", "text"]]


def test_thinking_of_another_runtime_is_not_sent() -> None:
    answer = Message("assistant", [ThinkingPart("Hm.", {"encrypted": "x"}), TextPart("a")])
    entries = [ConversationEntry(Message("user", "q")), ConversationEntry(answer)]
    assert build_resume_request(entries) == [
        {"role": "user", "content": [text_block("q")]},
        {"role": "assistant", "content": [text_block("a")]},
    ]


def test_tool_has_its_current_name_and_its_call_keeps_its_input() -> None:
    transcript = user_message()
    transcript.answer({**tool_use_block("c1", "Task"), "caller": {"type": "direct"}})
    assert build_request(transcript)[1]["content"] == [
        {**tool_use_block("c1", "Agent"), "caller": {"type": "direct"}}
    ]


def test_failed_result_contains_only_texts() -> None:
    transcript = user_message()
    transcript.answer(tool_use_block("c1"))
    transcript.user([tool_result_block("c1", [text_block("no"), PICTURE], is_error=True)])
    transcript.answer(text_block("a"))
    assert build_request(transcript)[2]["content"] == [
        tool_result_block("c1", [text_block("no")], is_error=True)
    ]


def test_result_keeps_missing_content_and_explicit_error_flag() -> None:
    transcript = user_message()
    transcript.answer(tool_use_block("c1"), tool_use_block("c2"), tool_use_block("c3"))
    none = {"type": "tool_result", "tool_use_id": "c1"}
    blocks = [none, tool_result_block("c2", "", is_error=False), tool_result_block("c3", [])]
    transcript.user(blocks)
    transcript.answer(text_block("a"))
    assert build_request(transcript)[2]["content"] == blocks


def test_loaded_tool_is_announced() -> None:
    transcript = user_message()
    transcript.answer(tool_use_block("c1", "ToolSearch"))
    transcript.result("c1", [{"type": "tool_reference", "tool_name": "Send"}])
    transcript.answer(text_block("a"))
    assert format_messages(transcript)[2] == "u tool_result | 'Tool loaded.'"


def test_results_precede_other_content_of_their_message() -> None:
    transcript = user_message()
    transcript.answer(tool_use_block("c1", "ToolSearch"), tool_use_block("c2"))
    transcript.result("c1", [{"type": "tool_reference", "tool_name": "Send"}])
    transcript.result("c2", "two")
    transcript.answer(text_block("a"))
    assert format_messages(transcript)[2] == "u tool_result | c2: two | 'Tool loaded.'"


def test_server_blocks_are_sent_back_unchanged() -> None:
    blocks: list[dict[str, Any]] = [
        {"type": "redacted_thinking", "data": "abc"},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
        text_block("x"),
    ]
    transcript = user_message()
    transcript.answer(*blocks)
    assert build_request(transcript)[1]["content"] == blocks


def test_summary_and_retained_messages_come_first_after_a_compaction() -> None:
    transcript = user_message()
    prompt = transcript.user("q2")
    tea = transcript.answer(text_block("Tea."))
    transcript.boundary(tea, kept=[prompt, tea])
    transcript.summary("SUMMARY")
    transcript.user("q3")
    transcript.answer(text_block("a3"))
    compaction = next(
        index
        for index, step in enumerate(read_transcript(transcript).path())
        if step.type != "delta"
    )
    entries = [
        entry for step in read_transcript(transcript).path()[compaction:] for entry in step.entries
    ]
    assert [
        block["text"][-8:]
        for message in build_resume_request(entries)
        for block in message["content"]
    ] == [
        "SUMMARY\n",
        "q2",
        "Tea.",
        "q3",
        "a3",
    ]


def test_empty_conversation_sends_no_messages() -> None:
    assert build_resume_request([]) == []


def test_results_precede_other_user_content() -> None:
    transcript = user_message()
    transcript.answer(tool_use_block("c1"), tool_use_block("c2"), id="m1")
    transcript.result("c1", [{"type": "tool_reference", "tool_name": "Web"}])
    transcript.result("c2", "two")
    transcript.user("Stop")
    transcript.answer(text_block("Well."))
    assert format_messages(transcript)[2] == "u tool_result | c2: two | 'Tool loaded.\\n' | 'Stop'"


@pytest.mark.parametrize(
    ("expected", "sent_as"),
    [
        ("cB", "Bc"),
        ("AcBcC", "ABCcc"),
        ("tcB", "tBc"),
        ("ctB", "tBc"),
        ("tcBt", "tBtc"),
        ("tActB", "tAtBc"),
        ("tctB", "tctB"),
        ("tcctBc", "tcctBc"),
    ],
)
def test_calls_are_sent_last_unless_between_thinking_blocks(expected: str, sent_as: str) -> None:
    transcript = user_message()
    blocks = {"t": thinking_block("Hm."), **{letter: text_block(letter) for letter in "ABC"}}
    calls = [
        tool_use_block(f"c{index}") if letter == "c" else blocks[letter]
        for index, letter in enumerate(expected)
    ]
    transcript.answer(*calls, id="m1")
    for index, letter in enumerate(expected):
        if letter == "c":
            transcript.result(f"c{index}", "x")
    transcript.answer(text_block("Well."))
    letters = {"thinking": "t", "tool_use": "c"}
    content = build_request(transcript)[1]["content"]
    assert "".join(letters.get(b["type"], b.get("text", "")) for b in content) == sent_as
