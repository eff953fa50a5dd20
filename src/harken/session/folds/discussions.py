"""The fold of discussions, and which step of a discussion is due.

`find_due_step` is a function of the round alone: a discussion that a crash or a failed model call
interrupted goes on with the same step, and the invariants refuse any other. A random order is
derived from the seed in the log, by SHA-256, so that it does not depend on a library.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Literal, TypeAlias

import msgspec

from harken.core import events as ev
from harken.core.ids import AgentId
from harken.session.state import Round, SessionState

StepKind: TypeAlias = Literal["speak", "choose", "judge"]
DiscussionEnd: TypeAlias = Literal["rounds", "until", "judge", "stopped"]
"""Why a discussion is over: all rounds were held; an answer has the phrase of `until`; the judge
said so; every turn of a round was stopped, so that nobody answers any more."""


class DueStep(msgspec.Struct, frozen=True):
    """The next step of a discussion, and the participant that is asked."""

    kind: StepKind
    agent_id: AgentId
    """The id as in `discussion_opened`."""


def fold_opened(state: SessionState, event: ev.DiscussionOpened) -> None:
    """Open the round of a call."""
    if isinstance(event.cause, str):
        state.rounds[event.cause] = Round(event)


def fold_step(
    state: SessionState, event: ev.DiscussionSpoken | ev.DiscussionChosen | ev.DiscussionJudged
) -> None:
    """Add a step to its round."""
    for current in state.rounds.values():
        if current.opened == event.discussion:
            current.steps.append(event)
            current.user_question, current.user_answer = None, None


def fold_user_message(state: SessionState, event: ev.TranscriptEntry) -> None:
    """Keep the answer of a user whose turn it is in a discussion, until it is a step."""
    for call, current in state.rounds.items():
        if event.role == "user" and event.cause == call:
            current.user_question, current.user_answer = event.message_id, None
        elif event.role == "assistant" and event.cause == current.user_question:
            current.user_answer = event


def find_due_step(current: Round) -> DueStep | None:
    """Return the next step of a discussion, or None if it is over."""
    opening = current.opening
    if find_end(current) is not None:
        return None
    if _is_round_over(current) and opening.judge is not None and find_verdict(current) is None:
        return DueStep("judge", opening.judge)
    if opening.moderator is None:
        return DueStep("speak", _ordered_speaker(opening, len(current.spoken)))
    choices = [step.speaker for step in current.open_steps if isinstance(step, ev.DiscussionChosen)]
    speaker = next((agent_id for agent_id in choices if agent_id is not None), None)
    if speaker is None:
        return DueStep("choose", opening.moderator)
    return DueStep("speak", speaker)


def find_end(current: Round) -> DiscussionEnd | None:
    """Return why a discussion is over, or None if it is not."""
    opening, spoken = current.opening, current.spoken
    size = len(opening.speakers)
    if not size:
        return "rounds"
    if spoken and spoken[-1].ends:
        return "until"
    if not _is_round_over(current):
        return None
    if all(event.stopped for event in spoken[-size:]):
        return "stopped"
    if opening.judge is not None:
        verdict = find_verdict(current)
        if verdict is None:
            return None
        if verdict.verdict == "done":
            return "judge"
    return "rounds" if len(spoken) >= size * opening.rounds else None


def find_verdict(current: Round) -> ev.DiscussionJudged | None:
    """Return the verdict of the judge on the round that has ended, or None if it is due."""
    judged = [step for step in current.open_steps if isinstance(step, ev.DiscussionJudged)]
    return next((step for step in judged if step.verdict is not None), None)


def least_heard_speaker(current: Round) -> AgentId:
    """Return the speaker that has had the fewest turns, the first of them in the given order."""
    turns = [event.speaker for event in current.spoken]
    return min(current.opening.speakers, key=turns.count)


def _is_round_over(current: Round) -> bool:
    turns = len(current.spoken)
    return turns > 0 and turns % len(current.opening.speakers) == 0


def _ordered_speaker(opening: ev.DiscussionOpened, turn: int) -> AgentId:
    """Return the speaker of a turn in the given or the random order; turns count from 0."""
    number, position = divmod(turn, len(opening.speakers))
    if opening.seed is None:
        return opening.speakers[position]
    return _shuffled_speakers(opening.speakers, opening.seed, number)[position]


def _shuffled_speakers(speakers: Sequence[AgentId], seed: int, number: int) -> list[AgentId]:
    """Return the order of a round: by the SHA-256 of `SEED ROUND AGENT`.

    Nobody speaks twice in a row: a first speaker that was the last of the round before is swapped
    with the second. Rounds count from 0.
    """
    order = sorted(speakers, key=lambda id_: sha256(f"{seed} {number} {id_}".encode()).digest())
    if number and len(order) > 1:
        last = _shuffled_speakers(speakers, seed, number - 1)[-1]
        if order[0] == last:
            order[0], order[1] = order[1], order[0]
    return order
