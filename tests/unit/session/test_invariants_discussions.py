"""Events of discussions that the writer refuses, and the step that is due."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from harken.core import events as ev
from harken.core.ids import USER, AgentId, MessageId
from harken.session.folds.discussions import (
    DueStep,
    find_due_step,
    find_end,
    find_verdict,
    least_heard_speaker,
)
from harken.session.session import Session
from harken.session.state import Round
from tests.session_kit import (
    assert_refused,
    create_agent,
    log_tool_calls,
    log_tool_result,
    log_user_message,
    new_session,
)

ROOT, ANN, BOB, JUDGE, NOBODY = (AgentId(f"agent_00{number}") for number in (1, 2, 3, 4, 9))
SAID = MessageId("msg_002")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A root agent with an open call `msg_006`, and three subagents."""
    with new_session(tmp_path) as session:
        log_user_message(session, create_agent(session))
        for _ in range(3):
            create_agent(session, cause="msg_001")
        log_tool_calls(session, ROOT, "a")
        yield session


def opening(**members: Any) -> ev.DiscussionOpened:
    return ev.DiscussionOpened(
        **{"agent_id": ROOT, "speakers": [ANN, BOB], "cause": "msg_006", **members}
    )


def spoken(speaker: AgentId, discussion: str = "msg_007", **members: Any) -> ev.DiscussionSpoken:
    facts = {"discussion": discussion, "speaker": speaker, "by": speaker, "said": SAID, **members}
    return ev.DiscussionSpoken(**{"agent_id": ROOT, **facts})


def chosen(speaker: AgentId | None, **members: Any) -> ev.DiscussionChosen:
    facts = {"discussion": "msg_007", "speaker": speaker, "by": JUDGE, "said": SAID, **members}
    return ev.DiscussionChosen(**{"agent_id": ROOT, **facts})


def judged(verdict: Any, **members: Any) -> ev.DiscussionJudged:
    facts = {"discussion": "msg_007", "verdict": verdict, "by": JUDGE, "said": SAID, **members}
    return ev.DiscussionJudged(**{"agent_id": ROOT, **facts})


@pytest.mark.parametrize(
    ("members", "because"),
    [
        ({"agent_id": NOBODY}, "agent_009 was not born"),
        ({"cause": None}, "needs a call in progress as its cause, not None"),
        ({"cause": "msg_002"}, "needs a call in progress as its cause, not msg_002"),
        ({"cause": ["msg_006"]}, "needs a call in progress as its cause"),
        ({"speakers": [ANN, NOBODY]}, "participant agent_009 was not born"),
        ({"listeners": [NOBODY]}, "participant agent_009 was not born"),
        ({"judge": NOBODY}, "participant agent_009 was not born"),
        ({"moderator": NOBODY}, "participant agent_009 was not born"),
        ({"judge": USER}, "participant user was not born"),
        ({"speakers": [ANN, USER], "moderator": USER}, "participant user was not born"),
        ({"speakers": [ANN, ANN]}, "a speaker of a discussion is named once"),
        ({"judge": ANN}, "is no judge or moderator"),
        ({"moderator": BOB}, "is no judge or moderator"),
        ({"rounds": 0}, "at least 1 round, not 0"),
        ({"seed": 0, "moderator": JUDGE}, "a seed or a moderator, not both"),
    ],
)
def test_discussion_is_refused(session: Session, members: dict[str, Any], because: str) -> None:
    assert_refused(session, opening(**members), because=because)


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"speakers": [USER, ANN]},
        {"speakers": [], "listeners": [USER, ANN]},
        {"rounds": 1, "seed": 0},
        {"judge": JUDGE, "moderator": JUDGE},
    ],
)
def test_call_opens_one_discussion(session: Session, members: dict[str, Any]) -> None:
    session.append(opening(**members))
    assert_refused(session, opening(**members), because="call msg_006 has opened a discussion")


def test_speakers_answer_in_their_order(session: Session) -> None:
    discussion = session.append(opening(rounds=2))
    assert discussion == "msg_007"
    for speaker, other in ((ANN, BOB), (BOB, ANN), (ANN, BOB), (BOB, ANN)):
        assert_refused(session, spoken(other), because="is not the speaker whose turn it is")
        assert_refused(session, judged("done"), because="discussion_judged is not due")
        assert_refused(session, chosen(speaker), because="discussion_chosen is not due")
        session.append(spoken(speaker))
    for event in (spoken(ANN), judged("done"), chosen(ANN)):
        assert_refused(session, event, because="turn it is|is not due")


@pytest.mark.parametrize(
    ("members", "because"),
    [
        ({"discussion": "msg_002"}, "discussion msg_002: no such discussion in progress"),
        ({"said": "msg_099"}, "said msg_099"),
        ({"agent_id": NOBODY}, "agent_009 was not born"),
    ],
)
def test_step_is_refused(session: Session, members: dict[str, Any], because: str) -> None:
    session.append(opening())
    assert_refused(session, spoken(ANN, **members), because=because)


def test_discussion_ends_with_the_result_of_its_call(session: Session) -> None:
    session.append(opening())
    log_tool_result(session, ROOT, "a")
    assert_refused(session, spoken(ANN), because="no such discussion in progress")


def test_moderator_chooses_among_the_speakers(session: Session) -> None:
    session.append(opening(moderator=JUDGE))
    assert_refused(session, spoken(ANN), because="is not the speaker whose turn it is")
    assert_refused(session, chosen(JUDGE), because="agent_004 is no speaker of msg_007")
    session.append(chosen(None))  # The answer names no speaker: the moderator is asked again.
    session.append(chosen(BOB))
    assert_refused(session, chosen(ANN), because="discussion_chosen is not due")
    session.append(spoken(BOB))
    session.append(chosen(BOB))


def test_judge_decides_after_each_round(session: Session) -> None:
    session.append(opening(judge=JUDGE, rounds=3))
    for speaker in (ANN, BOB):
        assert_refused(session, judged("done"), because="discussion_judged is not due")
        session.append(spoken(speaker))
    assert_refused(session, spoken(ANN), because="is not the speaker whose turn it is")
    session.append(judged(None))
    session.append(judged("continue"))
    session.append(spoken(ANN))
    session.append(spoken(BOB))
    session.append(judged("done"))
    assert_refused(session, spoken(ANN), because="is not the speaker whose turn it is")


def round_of(*steps: Any, **members: Any) -> Round:
    return Round(opening(**members), [*steps])


def speak(speaker: AgentId) -> DueStep:
    return DueStep("speak", speaker)


A, B = spoken(ANN), spoken(BOB)
A_STOPPED, B_STOPPED = spoken(ANN, stopped="budget"), spoken(BOB, stopped="budget")


@pytest.mark.parametrize(
    ("steps", "members", "due", "end"),
    [
        ([], {}, speak(ANN), None),
        ([A], {}, speak(BOB), None),
        ([A, B], {}, None, "rounds"),
        ([A, B], {"rounds": 2}, speak(ANN), None),
        ([A, B, A, B], {"rounds": 2}, None, "rounds"),
        ([], {"speakers": []}, None, "rounds"),
        ([spoken(ANN, ends=True)], {"rounds": 2}, None, "until"),
        ([spoken(ANN, ends=True), B], {"rounds": 2}, speak(ANN), None),
        ([A_STOPPED], {"rounds": 2}, speak(BOB), None),
        ([A_STOPPED, B], {"rounds": 2}, speak(ANN), None),
        ([A_STOPPED, B_STOPPED], {"rounds": 2}, None, "stopped"),
        ([A, B_STOPPED, A_STOPPED], {"rounds": 3}, speak(BOB), None),
        ([A, B], {"judge": JUDGE}, DueStep("judge", JUDGE), None),
        ([A, B, judged(None)], {"judge": JUDGE}, DueStep("judge", JUDGE), None),
        ([A, B, judged("done")], {"judge": JUDGE, "rounds": 3}, None, "judge"),
        ([A, B, judged(None), judged("done")], {"judge": JUDGE, "rounds": 3}, None, "judge"),
        ([A, B, judged("continue")], {"judge": JUDGE, "rounds": 3}, speak(ANN), None),
        ([A, B, judged("continue")], {"judge": JUDGE, "rounds": 1}, None, "rounds"),
        (
            [A, B, judged("continue"), A, B],
            {"judge": JUDGE, "rounds": 2},
            DueStep("judge", JUDGE),
            None,
        ),
        ([A_STOPPED, B_STOPPED], {"judge": JUDGE, "rounds": 3}, None, "stopped"),
        ([], {"moderator": JUDGE}, DueStep("choose", JUDGE), None),
        ([chosen(None)], {"moderator": JUDGE}, DueStep("choose", JUDGE), None),
        ([chosen(BOB)], {"moderator": JUDGE}, speak(BOB), None),
        ([chosen(None), chosen(BOB)], {"moderator": JUDGE}, speak(BOB), None),
        ([chosen(BOB), B], {"moderator": JUDGE}, DueStep("choose", JUDGE), None),
        ([chosen(BOB), B, chosen(BOB), B], {"moderator": JUDGE}, None, "rounds"),
    ],
)
def test_due_step_follows_from_the_steps_so_far(
    steps: list[Any], members: dict[str, Any], due: DueStep | None, end: str | None
) -> None:
    current = round_of(*steps, **members)
    assert (find_due_step(current), find_end(current)) == (due, end)


def test_verdict_is_that_of_the_last_round() -> None:
    first, last = judged("continue"), judged("done")
    assert find_verdict(round_of(A, B, first)) is first
    assert find_verdict(round_of(A, B, first, A, B)) is None
    assert find_verdict(round_of(A, B, first, A, B, judged(None), last)) is last


def test_random_order_depends_on_the_seed_and_repeats_nobody() -> None:
    speakers = [AgentId(f"agent_{number:03}") for number in range(2, 7)]
    orders: list[list[AgentId]] = []
    for seed in range(6):
        steps: list[ev.DiscussionSpoken] = []
        for _ in range(20):
            due = find_due_step(round_of(*steps, speakers=speakers, seed=seed, rounds=4))
            assert due is not None
            steps.append(spoken(due.agent_id))
        order = [step.speaker for step in steps]
        orders.append(order)
        for start in range(0, 20, 5):
            assert {*order[start : start + 5]} == {*speakers}
        assert all(first != second for first, second in pairwise(order))
    assert len({tuple(order) for order in orders}) == 6
    # By the SHA-256 of `SEED ROUND AGENT`: with another order, a resume would ask another speaker.
    assert "".join(speaker[-1] for speaker in orders[1]) == "35246356243526456432"


def test_least_heard_speaker_is_the_first_with_the_fewest_turns() -> None:
    assert least_heard_speaker(round_of()) == ANN
    assert least_heard_speaker(round_of(A)) == BOB
    assert least_heard_speaker(round_of(A, B)) == ANN


def test_answer_of_the_user_is_kept_until_it_is_a_step(session: Session) -> None:
    session.append(opening(speakers=[USER, ANN]))
    opened = session.state.rounds["msg_006"].opening
    question = session.log_transcript_entry(
        USER, {"role": "user", "content": "Tea?"}, cause="msg_006"
    )
    assert session.state.rounds["msg_006"] == Round(opened, user_question=question)
    answer = session.log_transcript_entry(
        USER, {"role": "assistant", "content": "Yes."}, cause=question
    )
    user_answer = session.state.rounds["msg_006"].user_answer
    assert user_answer is not None
    assert user_answer.message_id == answer
    session.append(spoken(USER, said=answer))
    assert not session.state.rounds["msg_006"].user_question
    assert session.state.rounds["msg_006"].user_answer is None
