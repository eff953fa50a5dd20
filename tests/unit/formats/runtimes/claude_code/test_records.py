"""Who says what stands in a user's place: people, tools, or the client."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.formats.transcripts import Transcript, read, result, text

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


def kinds(content: Any, **more: Any) -> list[Any]:
    made = Transcript()
    made.user(content, **more)
    return [(entry.source or {})["kind"] for entry in read(made).entries()]


@pytest.mark.req("S2-72")
@pytest.mark.parametrize("words", INJECTED)
def test_what_the_client_writes_in_a_users_name_is_no_prompt(words: str) -> None:
    assert kinds(words) == ["system"]
    assert kinds([text(words)]) == ["system"]


@pytest.mark.req("S2-73")
@pytest.mark.parametrize("words", SAID)
def test_everything_else_is_a_prompt(words: str) -> None:
    assert kinds(words) == ["prompt"]


@pytest.mark.req("S2-73")
def test_a_prompt_with_something_injected_beside_it_is_a_prompt() -> None:
    assert kinds([text("<system-reminder>x</system-reminder>"), text("Tea?")]) == ["prompt"]


@pytest.mark.req("S2-71")
def test_a_record_that_only_holds_results_is_one_result_each() -> None:
    assert kinds([result("c1", "a"), result("c2", "b")]) == ["tool_result", "tool_result"]


def test_a_record_with_results_and_text_gives_both_in_their_order() -> None:
    content = [text("before"), result("c1", "a"), text("after")]
    assert kinds(content) == ["prompt", "tool_result", "prompt"]


@pytest.mark.req("S2-75")
def test_a_meta_record_is_no_prompt_and_says_so() -> None:
    made = Transcript()
    made.user("Some words", isMeta=True)
    (entry,) = read(made).entries()
    assert entry.source == {"kind": "system", "uuid": made.records[0]["uuid"], "meta": True}


def test_an_origin_that_is_no_person_makes_it_no_prompt() -> None:
    assert kinds("Some words", origin={"kind": "task-notification"}) == ["system"]
    assert kinds("Some words", origin={"kind": "user"}) == ["prompt"]


def test_what_was_said_while_the_model_was_at_work_is_a_prompt() -> None:
    made = Transcript()
    made.add("attachment", attachment={"type": "queued_command", "prompt": "And cake!"})
    (entry,) = read(made).entries()
    assert (entry.message.content, (entry.source or {})["kind"]) == ("And cake!", "prompt")


@pytest.mark.req("S2-73")
def test_prompts_counted_by_hand_are_the_prompts_that_are_counted() -> None:
    made = Transcript()
    for words in [*INJECTED, *SAID]:
        made.user(words)
    made.user([result("c1", "a")])
    made.user("meta", isMeta=True)
    counted = sum((entry.source or {})["kind"] == "prompt" for entry in read(made).entries())
    assert counted == len(SAID)
