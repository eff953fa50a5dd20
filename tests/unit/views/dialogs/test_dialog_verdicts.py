"""Dialogs of agents with hooks: what was heard, and by which verdicts it came about."""

from __future__ import annotations

from typing import Any

import pytest

from harken.core import events as ev
from harken.core.ids import AgentId, MessageId
from harken.views.dialogs.dialog import Dialog, DialogItem
from tests.unit.views.log_builder import LogBuilder

SECRET = "the password is 1234"


@pytest.fixture
def guard(play: LogBuilder) -> AgentId:
    return play.create_agent("Guard", by=play.root, relation="hook")


def items(play: LogBuilder, *agents: str, drafts: bool = False) -> list[dict[str, Any]]:
    return play.viewer().extract_dialog(agents, drafts=drafts)


def texts(play: LogBuilder, *agents: str, drafts: bool = False) -> list[tuple[str, str]]:
    return [(item["name"], item["content"]) for item in items(play, *agents, drafts=drafts)]


def deny(play: LogBuilder, guard: AgentId) -> MessageId:
    """Log an answer that a hook denied. Return the verdict."""
    verdict = play.judges(guard, "response", play.says(play.root, SECRET), "DENY: no passwords")
    play.receives(play.root, "Your response was blocked: no passwords", "returned", verdict)
    return verdict


@pytest.mark.req("S0-44")
@pytest.mark.parametrize("agents", [["Root"], ["Guard"], ["Root", "Guard"], ["Guard", "Root"]])
def test_denied_answer_is_left_out_and_its_denial_is_one_item(
    play: LogBuilder, guard: AgentId, agents: list[str]
) -> None:
    verdict = deny(play, guard)
    play.says(play.root, "I may not say.")
    denial, *later = items(play, *agents)
    assert SECRET not in str([denial, *later])
    assert [item["content"] for item in later] == ["I may not say."] * ("Root" in agents)
    assert denial == {
        "message_id": verdict,
        "agent_id": guard,
        "name": "Guard",
        "content": "no passwords",
        "time": denial["time"],
        "verdict": {
            "kind": "denial",
            "point": "response",
            "subject": denial["verdict"]["subject"],
            "agent_id": play.root,
            "name": "Root",
        },
    }


@pytest.mark.req("S0-44")
def test_denied_answer_is_a_marked_draft_if_drafts_are_asked_for(
    play: LogBuilder, guard: AgentId
) -> None:
    deny(play, guard)
    draft, denial = items(play, "Root", drafts=True)
    assert (draft["content"], draft["status"], draft["hook_name"]) == (SECRET, "denied", "Guard")
    assert denial["content"] == "no passwords"


@pytest.mark.req("S0-44")
def test_answers_and_verdicts_are_not_in_the_dialog_of_other_agents(
    play: LogBuilder, guard: AgentId
) -> None:
    jill = play.create_agent("Jill", by=play.root)
    deny(play, guard)
    answer = play.says(play.root, "I may not say.")
    play.hears(jill, "[Root]: I may not say.", answer)
    assert texts(play, "Jill", drafts=True) == [("Root", "[Root]: I may not say.")]


@pytest.mark.parametrize("writes_words", [True, False])
@pytest.mark.parametrize("agents", [["Root"], ["Root", "Guard"], ["Guard", "Root"]])
def test_comment_is_one_item(
    play: LogBuilder, guard: AgentId, agents: list[str], *, writes_words: bool
) -> None:
    """With or without the question and the words in the transcript of the hook."""
    input_id = play.hears(play.root, "Hi")
    give = play.judges if writes_words else play.gives_verdict
    verdict = give(guard, "input", input_id, "COMMENT: be brief")
    play.receives(play.root, "[hook Guard]: be brief", "comment", verdict)
    assert sorted(texts(play, *agents)) == [("Guard", "be brief"), ("user", "Hi")]


def test_ok_is_no_item(play: LogBuilder, guard: AgentId) -> None:
    play.judges(guard, "input", play.hears(play.root, "Hi"), "OK")
    assert texts(play, "Root", "Guard") == [("user", "Hi")]


def test_denied_call_is_one_item_of_the_hook(play: LogBuilder, guard: AgentId) -> None:
    call = play.calls(play.root, ("rm", "/"))
    play.judges(guard, "action", call, "DENY: no")
    play.result(play.root, call, "Error: blocked")
    assert texts(play, "Root", "Guard") == [("Guard", "no")]
    assert texts(play, "Root") == []


def test_second_question_to_an_unclear_hook_is_folded(play: LogBuilder, guard: AgentId) -> None:
    input_id = play.hears(play.root, "Hi")
    play.asks_hook(guard, "input", input_id)
    unclear = play.says(guard, "Hm.")
    play.receives(guard, "That is no verdict.", "again", unclear)
    play.gives_verdict(guard, "input", input_id, "COMMENT: well", play.says(guard, "COMMENT: well"))
    assert texts(play, "Root", "Guard") == [("user", "Hi"), ("Guard", "well")]


def test_answer_that_waits_for_a_verdict_is_pending(play: LogBuilder, guard: AgentId) -> None:
    other = play.create_agent("Other", by=play.root, relation="hook")
    answer = play.says(play.root, SECRET)
    play.judges(guard, "response", answer, "OK")
    [item] = items(play, "Root")
    assert (item["content"], item["status"]) == (SECRET, "pending")
    play.judges(other, "response", answer, "OK")
    play.gives_answer(play.root, answer)
    [item] = items(play, "Root")
    assert "status" not in item


def test_answer_is_pending_from_the_question_on(play: LogBuilder, guard: AgentId) -> None:
    play.asks_hook(guard, "response", play.says(play.root, SECRET))
    [item] = items(play, "Root", "Guard")
    assert item["status"] == "pending"


def test_answer_without_decision_is_dropped_by_the_next_input(
    play: LogBuilder, guard: AgentId
) -> None:
    play.judges(guard, "response", play.says(play.root, SECRET), "OK")
    play.hears(play.root, "Never mind.")
    assert texts(play, "Root") == [("user", "Never mind.")]
    draft, _ = items(play, "Root", drafts=True)
    assert (draft["content"], draft["status"]) == (SECRET, "dropped")


def test_rewritten_answer_has_the_text_that_others_received(
    play: LogBuilder, guard: AgentId
) -> None:
    answer = play.says(play.root, SECRET)
    play.judges(guard, "response", answer, "REWRITE: ****")
    play.hears("user", "****", answer)
    play.gives_answer(play.root, answer)
    for agents in (["Root"], ["Root", "Guard"], ["user", "Root"], ["Root", "user"]):
        [item] = items(play, *agents)
        assert (item["content"], item["status"], item["hook_name"]) == (
            "****",
            "rewritten",
            "Guard",
        )
        assert SECRET not in str(item)
    [item] = items(play, "Root", drafts=True)
    assert (item["content"], item["draft"]) == ("****", SECRET)


def test_stopped_turn_is_marked_with_its_reason(play: LogBuilder, guard: AgentId) -> None:
    denial = play.judges(guard, "response", play.says(play.root, SECRET), "DENY: no")
    piece = play.stops_turn(play.root, "denials", "[stopped] hooks blocked the answer 3 times")
    [item] = items(play, "Root")
    assert (item["message_id"], item["stop"]) == (piece, "denials")
    assert [i["message_id"] for i in items(play, "Root", "Guard")] == [denial, piece]


def test_text_in_place_of_an_answer_is_marked_for_its_listener(play: LogBuilder) -> None:
    jack = play.create_agent("Jack", by=play.root)
    piece = play.stops_turn(jack, "budget", "[stopped] out of tokens")
    play.hears(play.root, "[Jack]: [stopped] out of tokens", piece)
    assert [item["stop"] for item in items(play, "Root")] == ["budget"]


@pytest.mark.parametrize("purpose", ["note", "cut_off", "summary"])
def test_messages_that_no_agent_said_are_left_out(play: LogBuilder, purpose: ev.Purpose) -> None:
    play.receives(play.root, "by Harken", purpose, play.hears(play.root, "Hi"))
    assert texts(play, "Root") == [("user", "Hi")]


def test_follower_gets_an_item_again_when_hooks_have_decided(
    play: LogBuilder, guard: AgentId
) -> None:
    links = play.viewer().events
    conversation = Dialog(links, [play.root])
    conversation.add(links.events)

    def add() -> list[DialogItem]:
        new = play.viewer().events.events[len(links) :]
        links.extend(new)
        return conversation.add(new)

    answer = play.says(play.root, SECRET)
    assert [(item.content, item.status) for item in add()] == [(SECRET, None)]
    play.gives_verdict(guard, "response", answer, "DENY: no")
    assert [(item.content, item.status) for item in add()] == [(SECRET, "denied")]
