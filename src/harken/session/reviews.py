"""The fold of hooks' questions and verdicts.

A review holds the verdicts on one message or call until they have had their effect: a call until
its result, an input or a result until the next model call of the agent, an answer until it is
returned to the agent, or the agent gets its next input or makes its next model call. A comment is
owed until an entry of the watched agent names it as its cause.
"""

from __future__ import annotations

from harken.core import events as ev
from harken.session.state import AgentState, Review, SessionState


def fold_verdict(state: SessionState, event: ev.HookVerdict) -> None:
    """Add a verdict to the review of its subject. A comment is owed to the watched agent."""
    review = state.reviews.get(event.subject)
    if review is None:
        review = state.reviews[event.subject] = Review(event.watched, event.point)
    review.given.append(event)
    hook = state.agents.get(event.agent_id) if event.agent_id is not None else None
    if hook is not None:
        hook.questions.pop(event.subject, None)
    watched = state.agents.get(event.watched)
    if watched is not None and event.verdict == "comment":
        watched.owed_comments.append(event)


def fold_message(state: SessionState, agent: AgentState, event: ev.TranscriptEntry) -> None:
    """Note what a `user` message to an agent does to reviews, owed comments and questions."""
    if event.purpose is None:
        if state.reviews:
            end_reviews(state, agent, points=("response",))
    elif event.purpose == "question":
        if isinstance(event.cause, str):
            agent.questions[event.cause] = event.message_id
    elif event.purpose == "comment":
        agent.owed_comments = [v for v in agent.owed_comments if v.message_id != event.cause]
    elif event.purpose == "returned":
        end_reviews(state, agent, points=("response",))


def end_reviews(
    state: SessionState, agent: AgentState, *, points: tuple[ev.HookPoint, ...]
) -> None:
    """End the reviews of an agent's messages at some points."""
    ended = [
        subject
        for subject, review in state.reviews.items()
        if review.watched == agent.id and review.point in points
    ]
    for subject in ended:
        del state.reviews[subject]
