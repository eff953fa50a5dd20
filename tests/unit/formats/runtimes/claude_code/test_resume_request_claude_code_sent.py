"""What Claude Code sends when it resumes: each rule was seen with the real client, 2.1.329."""

from __future__ import annotations

from typing import Any

import pytest

from harken.core.messages import Message, ThinkingPart
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.claude_code.resume_request import (
    INTERRUPTED,
    MISSING,
    NOTHING,
    ORPHANED,
    build_resume_request,
)
from tests.unit.formats.transcripts import Transcript, read, result, text, thought, use

PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}
UNANSWERED = {"role": "assistant", "content": [text("No response requested.")]}


def sent_of(made: Transcript) -> list[dict[str, Any]]:
    return build_resume_request(read(made).entries())


def short(made: Transcript) -> list[str]:
    """Return what is sent on a line each: who, and the texts or ids of blocks."""
    return [
        f"{message['role'][0]} " + " | ".join(_short(block) for block in message["content"])
        for message in sent_of(made)
    ]


def _short(block: dict[str, Any]) -> str:
    match block:
        case {"type": "text", "text": words}:
            return repr(words)
        case {"type": "tool_use", "id": id_}:
            return f"call {id_}"
        case {"type": "tool_result", "tool_use_id": id_, "content": str(words)}:
            return f"{id_}: {words}"
    return str(block["type"])


def asked() -> Transcript:
    made = Transcript()
    made.user("q")
    return made


def test_a_whole_turn_is_sent_as_it_was() -> None:
    made = asked()
    made.answer(thought("I look."), id="m1")
    made.answer(use("c1", command="ls"), id="m1")
    made.user([result("c1", [text("one"), PICTURE])])
    made.answer(text("Done."))
    assert sent_of(made) == [
        {"role": "user", "content": [text("q")]},
        {"role": "assistant", "content": [thought("I look."), use("c1", command="ls")]},
        {"role": "user", "content": [result("c1", [text("one"), PICTURE])]},
        {"role": "assistant", "content": [text("Done.")]},
    ]


def test_what_users_say_in_a_row_is_one_message_with_a_lines_end_between_texts() -> None:
    made = asked()
    made.user([text("a"), text("b")])
    made.user([PICTURE])
    made.user("c")
    made.answer(text("Done."))
    assert short(made)[0] == "u 'q\\n' | 'a' | 'b' | image | 'c'"


def test_answers_in_a_row_stay_apart() -> None:
    made = asked()
    made.answer(text("one"), id="m1")
    made.answer(text("two"), id="m2")
    assert short(made) == ["u 'q'", "a 'one'", "a 'two'"]


def test_a_conversation_that_ends_with_the_user_is_answered_for_the_model() -> None:
    made = asked()
    assert sent_of(made)[-1] == UNANSWERED


def test_what_a_user_did_beside_the_model_is_answered_by_nobody() -> None:
    made = asked()
    made.answer(text("a"))
    made.user("<local-command-caveat>Caveat</local-command-caveat>", isMeta=True)
    made.user("<command-name>/exit</command-name>")
    assert short(made)[-1].startswith("u '<local-command-caveat>")
    other = asked()
    other.answer(text("a"))
    other.add("system", subtype="local_command", content="<local-command-stdout>x")
    assert short(other)[-1] == "u '<local-command-stdout>x'"


def test_the_last_calls_are_closed_and_what_they_did_is_said_to_be_unknown() -> None:
    made = asked()
    made.answer(text("I look."), use("c1"), use("c2"))
    made.result("c2", "two")
    assert short(made) == [
        "u 'q'",
        "a 'I look.' | call c1 | call c2",
        f"u c2: two | c1: {INTERRUPTED}",
        "a 'No response requested.'",
    ]
    alone = asked()
    alone.answer(use("c1"))
    assert short(alone)[2:] == [f"u c1: {INTERRUPTED}", "a 'No response requested.'"]


def test_a_record_whose_calls_nobody_answered_is_left_out_where_it_is_not_the_last() -> None:
    made = asked()
    made.answer(text("I look."), id="m1")
    made.answer(use("c1"), id="m1")
    made.user("next")
    made.answer(text("Yes?"))
    assert short(made) == ["u 'q'", "a 'I look.'", "u 'next'", "a 'Yes?'"]
    whole = asked()
    whole.answer(text("I look."), use("c1"))
    whole.user("next")
    whole.answer(text("Yes?"))
    assert short(whole) == ["u 'q\\n' | 'next'", "a 'Yes?'"]


def test_a_call_beside_one_that_was_answered_is_closed() -> None:
    made = asked()
    made.answer(use("c1"), use("c2"))
    made.result("c2", "two")
    made.user("next")
    made.answer(text("Yes?"))
    assert short(made)[2] == f"u c1: {MISSING} | c2: two | 'next'"


def test_a_second_result_and_one_without_a_call_are_left_out() -> None:
    made = asked()
    made.answer(use("c1"))
    made.result("c1", "one")
    made.result("c1", "again")
    made.result("c9", "whose?")
    made.answer(text("Done."))
    assert short(made)[2] == "u c1: one"


def test_what_is_left_empty_says_so() -> None:
    made = Transcript()
    made.result("c0", "of a call that is not here")
    made.answer(text("a"))
    made.result("c9", "whose?")
    made.answer(text("b"))
    made.user([text("")])
    made.answer()
    assert short(made) == [
        f"u {ORPHANED!r}",
        "a 'a'",
        f"u {NOTHING!r}",
        "a 'b'",
        f"u {NOTHING!r}",
        f"a {NOTHING!r}",
    ]


def test_a_blank_record_is_left_out_and_a_blank_text_among_others_is_not() -> None:
    made = asked()
    made.answer(text("\n\n"), id="m1")
    made.answer(text("a"), id="m1")
    made.user([text("b"), text("  ")])
    made.answer(text("  "), text("c"))
    assert short(made) == ["u 'q'", "a 'a'", "u 'b'", "a '  ' | 'c'"]


def test_an_answer_that_only_thinks_is_left_out() -> None:
    made = asked()
    made.answer(thought("Hm."))
    made.user("and?")
    made.answer(text("a"))
    assert short(made) == ["u 'q\\n' | 'and?'", "a 'a'"]


def test_an_error_of_the_api_is_left_out_and_what_the_client_answered_is_not() -> None:
    made = asked()
    made.answer(text("API Error: 500"), model="<synthetic>", isApiErrorMessage=True)
    made.user("again")
    made.answer(text("No response requested."), model="<synthetic>")
    assert short(made) == ["u 'q\\n' | 'again'", "a 'No response requested.'"]


@pytest.mark.parametrize(
    ("last", "kept"),
    [
        ("claude-opus-4-5-20251101", ["claude-opus-4-5-20251101", "claude-opus-4-5"]),
        ("claude-opus-4-5", ["claude-opus-4-5-20251101", "claude-opus-4-5"]),
        ("claude-sonnet-4-20250514", ["claude-opus-5-5"]),
        ("gpt-5", ["claude-opus-5-5"]),
    ],
)
def test_only_thoughts_of_the_model_that_goes_on_are_sent(last: str, kept: list[str]) -> None:
    models = ["claude-opus-4-5-20251101", "claude-opus-4-5", "claude-opus-5-5", last]
    made = Transcript()
    for model in models:
        made.user("q")
        made.answer(thought(model), text("a"), model=model)
    thoughts = [block for message in sent_of(made) for block in message["content"]]
    found = [block["thinking"] for block in thoughts if block["type"] == "thinking"]
    assert {*found} == {*kept}


def test_thoughts_of_another_runtime_are_not_sent() -> None:
    answer = Message("assistant", [ThinkingPart("Hm.", {"encrypted": "x"})])
    entries = [ConversationEntry(Message("user", "q")), ConversationEntry(answer)]
    assert build_resume_request(entries) == [{"role": "user", "content": [text("q")]}, UNANSWERED]


def test_a_tool_has_the_name_that_it_has_now_and_its_call_keeps_what_it_says() -> None:
    made = asked()
    made.answer({**use("c1", "Task"), "caller": {"type": "direct"}})
    assert sent_of(made)[1]["content"] == [{**use("c1", "Agent"), "caller": {"type": "direct"}}]


def test_a_result_that_failed_holds_texts_only() -> None:
    made = asked()
    made.answer(use("c1"))
    made.user([result("c1", [text("no"), PICTURE], is_error=True)])
    made.answer(text("a"))
    assert sent_of(made)[2]["content"] == [result("c1", [text("no")], is_error=True)]


def test_a_result_without_content_has_none_and_one_that_says_it_is_no_error_says_so() -> None:
    made = asked()
    made.answer(use("c1"), use("c2"), use("c3"))
    none = {"type": "tool_result", "tool_use_id": "c1"}
    blocks = [none, result("c2", "", is_error=False), result("c3", [])]
    made.user(blocks)
    made.answer(text("a"))
    assert sent_of(made)[2]["content"] == blocks


def test_after_a_tool_that_was_loaded_it_is_said_so() -> None:
    made = asked()
    made.answer(use("c1", "ToolSearch"))
    made.result("c1", [{"type": "tool_reference", "tool_name": "Send"}])
    made.answer(text("a"))
    assert short(made)[2] == "u tool_result | 'Tool loaded.'"


def test_results_stand_before_all_that_is_said_beside_them() -> None:
    made = asked()
    made.answer(use("c1", "ToolSearch"), use("c2"))
    made.result("c1", [{"type": "tool_reference", "tool_name": "Send"}])
    made.result("c2", "two")
    made.answer(text("a"))
    assert short(made)[2] == "u tool_result | c2: two | 'Tool loaded.'"


def test_what_was_said_while_the_model_was_at_work_says_so() -> None:
    made = asked()
    made.answer(use("c1"))
    made.result("c1", "one")
    made.add("attachment", attachment={"type": "queued_command", "prompt": "And {cake}!"})
    made.answer(text("a"))
    words = sent_of(made)[2]["content"][1]["text"]
    assert words.startswith("<system-reminder>\nThe user sent a new message while you were")
    assert "And {cake}!" in words


def test_blocks_of_the_server_come_back_as_they_were() -> None:
    blocks: list[dict[str, Any]] = [
        {"type": "redacted_thinking", "data": "abc"},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
        text("x"),
    ]
    made = asked()
    made.answer(*blocks)
    assert sent_of(made)[1]["content"] == blocks


def test_after_a_compaction_the_summary_and_what_stays_come_first() -> None:
    made = asked()
    prompt = made.user("q2")
    tea = made.answer(text("Tea."))
    made.boundary(tea, kept=[prompt, tea])
    made.summary("SUMMARY")
    made.user("q3")
    made.answer(text("a3"))
    compaction = next(at for at, step in enumerate(read(made).path()) if step.type != "delta")
    entries = [entry for step in read(made).path()[compaction:] for entry in step.entries]
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


def test_nothing_is_sent_of_nothing() -> None:
    assert build_resume_request([]) == []


def test_results_are_sent_before_all_else_that_is_heard_with_them() -> None:
    made = asked()
    made.answer(use("c1"), use("c2"), id="m1")
    made.result("c1", [{"type": "tool_reference", "tool_name": "Web"}])
    made.result("c2", "two")
    made.user("Stop")
    made.answer(text("Well."))
    assert short(made)[2] == "u tool_result | c2: two | 'Tool loaded.\\n' | 'Stop'"


@pytest.mark.parametrize(
    ("said", "sent_as"),
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
def test_calls_are_sent_last_unless_they_stand_right_between_thoughts(
    said: str, sent_as: str
) -> None:
    made = asked()
    blocks = {"t": thought("Hm."), **{letter: text(letter) for letter in "ABC"}}
    calls = [use(f"c{at}") if letter == "c" else blocks[letter] for at, letter in enumerate(said)]
    made.answer(*calls, id="m1")
    for at, letter in enumerate(said):
        if letter == "c":
            made.result(f"c{at}", "x")
    made.answer(text("Well."))
    letters = {"thinking": "t", "tool_use": "c"}
    content = sent_of(made)[1]["content"]
    assert "".join(letters.get(b["type"], b.get("text", "")) for b in content) == sent_as
