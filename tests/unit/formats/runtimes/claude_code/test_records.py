"""The author of a record with the role of the user: a person, a tool or the client."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.formats.transcript_kit import (
    Transcript,
    read_transcript,
    text_block,
    tool_result_block,
)

INJECTED = [
    "This session is being continued from a previous conversation that ran out of context.",
    "<task-notification>\n<task-id>a1</task-id></task-notification>",
    "Base directory for this skill: /home/jill/skill",
    '<teammate-message teammate_id="lead">Begin.</teammate-message>',
    "<local-command-caveat>Caveat</local-command-caveat>",
    "<local-command-stdout>out</local-command-stdout>",
    "<local-command-stderr>err</local-command-stderr>",
    "<command-name>/clear</command-name>",
    "<command-message>init</command-message>\n<command-name>/init</command-name>",
    "<bash-input>ls</bash-input>",
    "<bash-stdout>a</bash-stdout><bash-stderr></bash-stderr>",
    "<system-reminder>Be brief.</system-reminder>",
    "Continue from where you left off.",
    "[Request interrupted by user for tool use]",
    "  \n<bash-input>ls</bash-input>",
]
SAID = [
    "Is the cafe open?",
    "What does <command-name> mean?",
    "",
    "<b>bold</b>",
    "<bash-inputs> is no tag of the client's",
]


def record_kinds(content: Any, **options: Any) -> list[Any]:
    transcript = Transcript()
    transcript.user(content, **options)
    return [(entry.source or {})["kind"] for entry in read_transcript(transcript).entries()]


@pytest.mark.req("S2-72")
@pytest.mark.parametrize("words", INJECTED)
def test_text_that_the_client_writes_as_the_user_is_no_prompt(words: str) -> None:
    assert record_kinds(words) == ["system"]
    assert record_kinds([text_block(words)]) == ["system"]


@pytest.mark.req("S2-73")
@pytest.mark.parametrize("words", SAID)
def test_other_user_records_are_prompts(words: str) -> None:
    assert record_kinds(words) == ["prompt"]


@pytest.mark.req("S2-73")
def test_prompt_with_injected_text_is_a_prompt() -> None:
    assert record_kinds(
        [text_block("<system-reminder>x</system-reminder>"), text_block("Tea?")]
    ) == ["prompt"]


@pytest.mark.req("S2-71")
def test_record_with_only_results_becomes_one_result_each() -> None:
    assert record_kinds([tool_result_block("c1", "a"), tool_result_block("c2", "b")]) == [
        "tool_result",
        "tool_result",
    ]


def test_record_with_results_and_text_returns_both_in_order() -> None:
    content = [text_block("before"), tool_result_block("c1", "a"), text_block("after")]
    assert record_kinds(content) == ["prompt", "tool_result", "prompt"]


@pytest.mark.req("S2-75")
def test_meta_record_is_no_prompt_and_is_marked() -> None:
    transcript = Transcript()
    transcript.user("Some words", isMeta=True)
    (entry,) = read_transcript(transcript).entries()
    assert entry.source == {"kind": "system", "uuid": transcript.records[0]["uuid"], "meta": True}


def test_origin_other_than_a_person_is_no_prompt() -> None:
    assert record_kinds("Some words", origin={"kind": "task-notification"}) == ["notification"]
    assert record_kinds("Some words", origin={"kind": "user"}) == ["prompt"]


def test_recorded_origin_takes_precedence_over_the_text() -> None:
    pasted = "<task-notification>\nI pasted this."
    assert record_kinds(pasted, origin={"kind": "human"}) == ["prompt"]
    assert record_kinds(pasted) == ["system"]


def test_text_queued_while_the_model_ran_is_a_prompt() -> None:
    transcript = Transcript()
    transcript.add("attachment", attachment={"type": "queued_command", "prompt": "And cake!"})
    (entry,) = read_transcript(transcript).entries()
    assert (entry.message.content, (entry.source or {})["kind"]) == ("And cake!", "prompt")


@pytest.mark.req("S2-73")
def test_prompt_count_equals_the_manual_count() -> None:
    transcript = Transcript()
    for words in [*INJECTED, *SAID]:
        transcript.user(words)
    transcript.user([tool_result_block("c1", "a")])
    transcript.user("meta", isMeta=True)
    count = sum(
        (entry.source or {})["kind"] == "prompt" for entry in read_transcript(transcript).entries()
    )
    assert count == len(SAID)
