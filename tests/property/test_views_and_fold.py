"""Views and the folded state agree about every prefix of a log that ends with a group.

The logs are those of the examples, and of random sessions with hooks. The fold knows what is open
at the end of a prefix; the views find it in the events themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.__main__ import folders
from harken.core import events as ev
from harken.core.ids import AgentId, MessageId, reference_message_id, reference_number
from harken.session.fold import fold
from harken.session.log.checksum import has_more
from harken.session.state import AgentState, SessionState
from harken.views.dialogs.answers import AnswerOutcome, Answers
from harken.views.dialogs.perspective import perspective
from harken.views.links import Links
from harken.views.model_calls import placeholders
from harken.views.tree import tree
from tests.acceptance.test_use_cases import played
from tests.property.hooked_sessions import Course

JUDGED = {
    "steel-man": {"asked", "denied", "pending", "given"},
    "hook-maker": {"asked", "pending", "rewritten"},
}
"""Example -> the statuses that an answer has in some prefix."""
MAX_CUTS = 60
"""The number of prefixes of a log of which everything is compared in the short form."""


def iter_prefixes(log: Path, step: int = 1) -> Iterator[tuple[SessionState, Links]]:
    """Yield the state and the events of prefixes of a log that end with a group."""
    state, events = SessionState(), []
    for number, line in enumerate(log.read_bytes().splitlines(keepends=True)):
        event = ev.decode_event(line)
        assert not isinstance(event, ev.UnknownEvent)
        events.append(event)
        fold(state, event, placeholders)
        if not has_more(line) and number % step == 0:
            yield state, Links(list(events))


def last_answer(agent: AgentState) -> ev.TranscriptEntry | None:
    """Return the agent's last entry before messages of hooks, if it is an answer."""
    for entry in reversed(agent.transcript or ()):
        if entry.purpose is None:
            return entry if entry.is_utterance and entry.substance is None else None
        if entry.purpose == "question":
            return None
    return None


def may_be_asked(state: SessionState, agent: AgentState) -> bool:
    """Whether an agent has a smart hook at `response`."""
    specs = [state.agents[hook].spec for hook in agent.hooks]
    points = [spec.standing.points for spec in specs if spec.kind == "smart"]
    return agent.spec.kind == "smart" and any(p is None or "response" in p for p in points)


def check_answers(state: SessionState, outcomes: dict[MessageId, AnswerOutcome]) -> set[str]:
    """Compare pending, denied and given answers. Return the statuses that were compared."""
    statuses = set()
    pending = {id_ for id_, outcome in outcomes.items() if outcome.status == "pending"}
    asked = {subject for agent in state.agents.values() for subject in agent.questions}
    heard_ids = {agent.given_answer for agent in state.agents.values()}
    for subject, review in state.reviews.items():
        outcome = outcomes.get(MessageId(subject))
        if review.point != "response" or not state.is_live(review.watched):
            continue
        if review.denial is not None:
            assert outcome is not None
            assert (outcome.status, outcome.hook) == ("denied", review.denial.agent_id)
            statuses.add("denied")
        elif review.given and subject in heard_ids and review.replacement is not None:
            assert outcome is not None
            assert (outcome.status, outcome.text) == ("rewritten", review.replacement.text)
            statuses.add("rewritten")
        elif subject in heard_ids:
            assert outcome is None
            statuses.add("given")
        elif reference_number(state.agents[review.watched].placed_by) > reference_number(subject):
            assert outcome is not None
            assert outcome.status == "dropped"  # A move ended the turn.
            statuses.add("dropped")
        elif not any(verdict.verdict == "stop" for verdict in review.given):
            assert subject in pending
            statuses.add("pending")
    for id_ in pending:
        agent = next(a for a in state.agents.values() if _wrote(a, id_))
        answer = last_answer(agent)
        assert answer is not None
        assert answer.message_id == id_ not in heard_ids
        assert id_ in state.reviews or id_ in asked or may_be_asked(state, agent)
    for agent in state.agents.values():
        answer = last_answer(agent)
        if answer is not None and answer.message_id in asked:
            assert answer.message_id in pending
            statuses.add("asked")
    return statuses


def _wrote(agent: AgentState, id_: MessageId) -> bool:
    return any(entry.message_id == id_ for entry in reversed(agent.transcript or ()))


def open_calls(links: Links, agent_id: AgentId) -> list[tuple[str, str]]:
    """Return message and text of the calls that a perspective shows as open."""
    items = perspective(links, agent_id)
    return [(item.message_id, item.text) for item in items if item.note == "no result yet"]


def check_places(state: SessionState, links: Links) -> None:
    for row in tree(links):
        agent = state.agents[row.agent_id]
        assert row.gone == (not state.is_live(row.agent_id))
        assert row.parent == agent.parent
        assert agent.place in (row.place, "gone")


def check_prefixes(log: Path, step: int = 1) -> set[str]:
    statuses = set()
    for state, links in iter_prefixes(log, step):
        statuses |= check_answers(state, Answers.of(links).outcomes)
        check_places(state, links)
        for agent in state.agents.values():
            calls = agent.open_calls.values()
            assert open_calls(links, agent.id) == [
                (reference_message_id(call.reference), f"{call.name} {call.arguments}")
                for call in calls
            ]
    return statuses


@pytest.mark.req("S0-44", "S1-13")
@pytest.mark.parametrize("name", folders())
def test_views_of_an_example_equal_the_fold_of_every_prefix(name: str, tmp_path: Path) -> None:
    statuses = check_prefixes(played(name, tmp_path).path)
    assert statuses >= JUDGED.get(name, set())


SEEDS = [
    *range(4),
    *(pytest.param(seed, marks=pytest.mark.full) for seed in range(4, 100)),
]


@pytest.mark.req("S0-44")
@pytest.mark.parametrize("seed", SEEDS)
def test_views_of_a_session_with_hooks_equal_the_fold(seed: int, tmp_path: Path) -> None:
    stage, _ = Course.of(seed).played(tmp_path)
    stage.session.close()
    length = len(list(stage.log.read_bytes().splitlines()))
    check_prefixes(stage.log, max(1, length // MAX_CUTS))
