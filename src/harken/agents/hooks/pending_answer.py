"""An answer that is still on its way through the hooks of the agent that gave it.

One idea: how far an answer has come stands in the log. Until its hooks have all said their word,
and what they said has come to something, nobody has heard it, and the agent owes it: so a turn
that was cut off there goes on there, and nobody is asked twice.
"""

from __future__ import annotations

import re

from harken.agents.agent import Agent, asks_nothing
from harken.agents.hooks.verdict_log import about, is_due, read_verdicts
from harken.core.events import TranscriptEntry
from harken.core.ids import AgentId, MessageId, reference_number
from harken.core.messages import ChatMessage, text_of
from harken.core.verdict import Deny, HookVerdict, Rewrite, is_question

MAX_DENIALS = 3
"""After so many denials of one response the user is told instead."""
BLOCKED = "Your response was blocked ({} of {}): {}"
"""What an agent hears of a denial: which one it is, of how many, and why."""
_BLOCKED = re.compile(r"\[hook .*?\]: Your response was blocked \((\d+) of \d+\): ", re.DOTALL)


def pending_answer(agent: Agent) -> TranscriptEntry | None:
    """Return the last answer of an agent, where hooks are still to be asked, or heeded."""
    entry, state = _last_answer(agent), agent.state
    if entry is None or state.request is None or entry.message_id not in state.new_entries[:1]:
        return None  # no model call of its own brought it
    question = about(agent, entry)
    given = read_verdicts(agent, question)
    verdicts = [opinion.verdict for opinion in given.values()]
    denied = _denial(given)
    if denied is not None:
        return None if _is_sent_back(agent, denied) else entry
    if is_due(agent, given, question):
        return entry
    is_rewritten = any(isinstance(verdict, Rewrite) for verdict in verdicts)
    return entry if is_rewritten and not _is_shown(agent, entry) else None


def was_blocked(agent: Agent) -> bool:
    """Whether an agent has heard that its last answer was blocked, and shall give another."""
    entry = _last_answer(agent)
    denied = None if entry is None else _denial(read_verdicts(agent, about(agent, entry)))
    return denied is not None and _is_sent_back(agent, denied) and denials(agent) > 0


def denials(agent: Agent) -> int:
    """Return how often answers of this turn were blocked; none where that has ended the turn.

    What a hook merely comments may read the same.
    """
    heard: dict[str, TranscriptEntry] = {}
    for entry in reversed(agent.state.transcript or ()):
        if entry.role == "user" and (entry.cause is None or is_question(entry)):
            return 0
        if entry.role == "user" and isinstance(entry.cause, str):
            heard[entry.cause] = entry
        elif entry.is_utterance:
            denied = _denial(read_verdicts(agent, about(agent, entry)))
            told = None if denied is None else heard.get(denied.message_id)
            said = None if told is None else _BLOCKED.match(text_of(told.content))
            if told is not None and said is not None:
                is_last = agent.session.state.last_id == told.message_id
                return int(said[1]) if int(said[1]) < MAX_DENIALS or is_last else 0
    return 0


def _last_answer(agent: Agent) -> TranscriptEntry | None:
    """Return what an agent said last, where it has heard nothing since but what hooks said.

    Not what it said before it came to stand where it does.
    """
    for message in reversed(agent.session.context(agent.agent_id)):
        if message.role == "user" and asks_nothing(message) and not _asks_hook(message):
            continue
        if not isinstance(message, TranscriptEntry) or _is_later(agent.state.placed, message):
            return None
        return message if message.is_utterance and message.cause is None else None
    return None


def _denial(given: dict[AgentId, HookVerdict]) -> HookVerdict | None:
    return next((one for one in given.values() if isinstance(one.verdict, Deny)), None)


def _is_sent_back(agent: Agent, denied: HookVerdict) -> bool:
    heard = (one for one in reversed(agent.state.transcript or ()) if one.role == "user")
    return any(one.cause == denied.message_id for one in heard)


def _is_shown(agent: Agent, entry: TranscriptEntry) -> bool:
    """Whether a user was shown what hooks made of an answer; others get it without a line."""
    shown = agent.session.state.last_shown_message
    return agent.state.place != "primary" or shown == entry.message_id or _is_later(shown, entry)


def _asks_hook(message: ChatMessage) -> bool:
    return isinstance(message, TranscriptEntry) and is_question(message)


def _is_later(id_: MessageId, entry: TranscriptEntry) -> bool:
    return reference_number(id_) > reference_number(entry.message_id)
