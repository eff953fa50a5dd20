"""An answer that is still on its way through the hooks of the agent that gave it.

One idea: how far an answer has come stands in the log. Until its hooks have all said their word,
and what they said has come to something, nobody has heard it, and the agent owes it: so a turn
that was cut off there goes on there, and nobody is asked twice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from harken.agents.base import Agent, asks_nothing
from harken.agents.hook import is_concerned, opinion_on
from harken.agents.verdict import Deny, Opinion, Question, Rewrite
from harken.core.events import TranscriptEntry
from harken.core.ids import AgentId, MessageId, number_of
from harken.core.messages import text_of
from harken.errors import UnknownName
from harken.session.state import AgentState

MAX_DENIALS = 3
"""After so many denials of one response the user is told instead."""
BLOCKED = "Your response was blocked ({} of {}): {}"
"""What an agent hears of a denial: which one it is, of how many, and why."""
_BLOCKED = re.compile(r"\[hook .*?\]: Your response was blocked \((\d+) of \d+\): ", re.DOTALL)


def about(agent: Agent, entry: TranscriptEntry) -> Question:
    """Return what hooks are asked about an answer."""
    return Question("response", agent.name, entry.message_id, text_of(entry.content))


def unjudged(agent: Agent) -> TranscriptEntry | None:
    """Return the last answer of an agent, where hooks are still to be asked, or heeded."""
    entry, state = _last_answer(agent), agent.state
    if entry is None or state.request is None or entry.message_id not in state.fresh[:1]:
        return None  # no model call of its own brought it
    given = opinions(agent, entry)
    verdicts = [opinion.verdict for opinion in given.values()]
    denied = _denial(given)
    if denied is not None:
        return None if _is_sent_back(agent, denied) else entry
    if any(_is_due(agent, id_, entry) for id_ in to_ask(agent, given)):
        return entry
    is_rewritten = any(isinstance(verdict, Rewrite) for verdict in verdicts)
    return entry if is_rewritten and not _is_shown(agent, entry) else None


def is_sent_back(agent: Agent) -> bool:
    """Whether an agent has heard that its last answer was blocked, and shall give another."""
    entry = _last_answer(agent)
    denied = None if entry is None else _denial(opinions(agent, entry))
    return denied is not None and _is_sent_back(agent, denied) and denials(agent) > 0


def denials(agent: Agent) -> int:
    """Return how often answers of this turn were blocked; none where that has ended the turn."""
    for entry in reversed(agent.state.transcript or ()):
        if entry.role == "user" and entry.cause is None:
            return 0
        told = _BLOCKED.match(text_of(entry.content)) if entry.role == "user" else None
        if told is not None:
            count = int(told[1])
            is_last = agent.session.state.last_id == entry.message_id
            return count if count < MAX_DENIALS or is_last else 0
    return 0


def opinions(agent: Agent, entry: TranscriptEntry) -> dict[AgentId, Opinion]:
    """Return what hooks have said of an answer, also those that left with it, in order."""
    agents = agent.session.agents.values()
    left = [one.id for one in agents if _has_left(one, agent) and _is_later(one.placed, entry)]
    found = ((id_, opinion_on(agent.session.agent(id_), entry)) for id_ in [*left, *agent.hook_ids])
    return {id_: opinion for id_, opinion in found if opinion is not None}


def to_ask(agent: Agent, given: dict[AgentId, Opinion]) -> Sequence[AgentId]:
    """Return the hooks after the last that has spoken: one before it had nothing to say."""
    ids = agent.hook_ids
    spoken = [at for at, id_ in enumerate(ids) if id_ in given]
    return ids[spoken[-1] + 1 :] if spoken else ids


def _last_answer(agent: Agent) -> TranscriptEntry | None:
    """Return what an agent said last, where it has heard nothing since but what hooks said.

    Not what it said before it came to stand where it does.
    """
    for message in reversed(agent.session.context(agent.agent_id)):
        if message.role == "user" and asks_nothing(message):
            continue
        if not isinstance(message, TranscriptEntry) or _is_later(agent.state.placed, message):
            return None
        return message if message.is_utterance and message.cause is None else None
    return None


def _has_left(state: AgentState, agent: Agent) -> bool:
    return state.place == "gone" and state.parent == agent.agent_id


def _denial(given: dict[AgentId, Opinion]) -> Opinion | None:
    return next((one for one in given.values() if isinstance(one.verdict, Deny)), None)


def _is_sent_back(agent: Agent, denied: Opinion) -> bool:
    heard = (one for one in reversed(agent.state.transcript or ()) if one.role == "user")
    return any(one.cause == denied.message_id for one in heard)


def _is_due(agent: Agent, hook_id: AgentId, entry: TranscriptEntry) -> bool:
    """Whether a hook that was there when an answer was given is to be asked about it."""
    if _is_later(agent.session.agents[hook_id].placed, entry):
        return False
    try:
        hook = agent.sibling(hook_id)
    except UnknownName:
        return True  # nobody passes a guard that is not here
    return "response" in hook.asked_at and is_concerned(hook, about(agent, entry))


def _is_shown(agent: Agent, entry: TranscriptEntry) -> bool:
    """Whether a user was shown what hooks made of an answer; others get it without a line."""
    shown = agent.session.state.shown
    return agent.state.place != "primary" or shown == entry.message_id or _is_later(shown, entry)


def _is_later(id_: MessageId, entry: TranscriptEntry) -> bool:
    return (number_of(id_, "msg_") or 0) > (number_of(entry.message_id, "msg_") or 0)
