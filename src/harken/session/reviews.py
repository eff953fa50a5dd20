"""The fold of hooks' questions and verdicts.

A review holds the verdicts on one message or call until the next model call of the watched agent;
that of an answer also ends when the answer is returned to the agent, or the agent gets an input. A
comment is owed until an entry of the watched agent names it as its cause.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harken.core import events as ev
from harken.core.event_types.spec import HookPoint
from harken.session.state import AgentState, Review, SessionState, StoppedTurn


def fold_verdict(state: SessionState, event: ev.HookVerdict) -> None:
    """Add a verdict to the review of its subject. A comment is owed to the watched agent."""
    review = state.reviews.get(event.subject)
    if review is None:
        review = state.reviews[event.subject] = Review(event.watched, event.point)
    review.given.append(event)
    hook = state.agents.get(event.agent_id) if event.agent_id is not None else None
    if hook is not None:
        end_questions(hook)  # a hook has one open question at a time
    watched = state.agents.get(event.watched)
    if watched is not None and event.verdict == "comment":
        watched.owed_comments.append(event)


def end_questions(hook: AgentState) -> None:
    """End the open questions of a hook, and its notes for the next verdict."""
    hook.questions, hook.notes, hook.leaving = {}, [], None


def fold_note(state: SessionState, event: ev.NoteKept) -> None:
    """Keep a note of a hook until its next verdict."""
    hook = state.agents.get(event.agent_id) if event.agent_id is not None else None
    if hook is not None:
        hook.notes = [*hook.notes, event]


def fold_leaving(state: SessionState, event: ev.HookLeaving) -> None:
    """Note that a hook ends its watch with its next verdict."""
    hook = state.agents.get(event.agent_id) if event.agent_id is not None else None
    if hook is not None:
        hook.leaving = event


def fold_message(state: SessionState, agent: AgentState, event: ev.TranscriptEntry) -> None:
    """Note what a `user` message to an agent does to its turn, reviews, comments and questions."""
    if event.purpose in (None, "question"):
        agent.denials, agent.stop = 0, None
    if event.purpose is None:
        if state.reviews:
            end_reviews(state, agent, "response")
    elif event.purpose == "question":
        if isinstance(event.cause, str):
            agent.questions[event.cause] = event.message_id
    elif event.purpose == "comment":
        agent.owed_comments = [v for v in agent.owed_comments if v.message_id != event.cause]
    elif event.purpose == "returned":
        agent.denials += 1
        end_reviews(state, agent, "response")


def fold_answer_given(state: SessionState, event: ev.AnswerGiven) -> None:
    """End the turn of an agent with an answer."""
    agent = state.agents.get(event.agent_id) if event.agent_id is not None else None
    if agent is not None:
        agent.given_answer, agent.denials = event.answer, 0


def fold_turn_stop(state: SessionState, event: ev.TurnStop) -> None:
    """End the turn of an agent without an answer."""
    agent = state.agents.get(event.agent_id) if event.agent_id is not None else None
    if agent is not None:
        agent.denials = 0
        text = agent.last_piece[1] if agent.last_piece else ""
        agent.stop = StoppedTurn(event, text)
        end_reviews(state, agent, "response")
        for review in state.reviews.values():
            review.has_stopped = review.has_stopped or review.watched == agent.id


def end_calls(state: SessionState, agent: AgentState) -> None:
    """End the reviews of an agent's earlier calls and results: it makes other calls now."""
    ended_subjects = [
        subject
        for subject, review in state.reviews.items()
        if review.watched == agent.id
        and review.point in ("action", "result")
        and subject not in state.open_references
    ]
    for subject in ended_subjects:
        del state.reviews[subject]


def end_reviews(state: SessionState, agent: AgentState, point: HookPoint | None = None) -> None:
    """End the reviews of an agent's messages and calls, of all points or of one."""
    subjects = [
        subject
        for subject, review in state.reviews.items()
        if review.watched == agent.id and point in (None, review.point)
    ]
    for subject in subjects:
        del state.reviews[subject]


DECISION_HANDLERS: dict[type, Callable[[SessionState, Any], None]] = {
    ev.HookVerdict: fold_verdict,
    ev.NoteKept: fold_note,
    ev.HookLeaving: fold_leaving,
    ev.AnswerGiven: fold_answer_given,
    ev.TurnStop: fold_turn_stop,
}
"""The fold of each type of event that is a decision."""
