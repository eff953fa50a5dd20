"""Pending answers: answers that hooks of the agent have yet to judge.

Until all hooks have judged an answer and their verdicts took effect, no other agent receives it,
and the agent owes it. A turn that was interrupted there continues there, and no hook is asked
twice.
"""

from __future__ import annotations

from harken.agents.agent import Agent
from harken.agents.hooks.review import answer_question, is_unjudged
from harken.agents.structure import is_code_call
from harken.agents.unanswered_input import needs_no_answer
from harken.core.events import TranscriptEntry
from harken.core.ids import MessageId, reference_number
from harken.core.messages import ChatMessage
from harken.core.verdict import is_question

MAX_DENIALS = 3
"""After this number of denials of a response the user is told instead."""


def pending_answer(agent: Agent) -> TranscriptEntry | None:
    """Return an agent's last answer if its hooks or their verdicts are still pending."""
    entry, is_returned = _last_answer(agent)
    state = agent.state
    if entry is None or is_returned or state.request is None:
        return None
    if entry.message_id not in state.new_entries[:1]:
        return None  # no model call of its own brought it
    if entry.message_id == state.given_answer:
        return None
    is_judged = entry.message_id in agent.session.state.reviews
    return entry if is_judged or is_unjudged(agent, answer_question(agent, entry)) else None


def given_answer(agent: Agent) -> TranscriptEntry | None:
    """Return an agent's last answer if hooks let it through and only their comments followed."""
    entry, is_returned = _last_answer(agent)
    is_given = entry is not None and entry.message_id == agent.state.given_answer
    return entry if is_given and not is_returned else None


def was_blocked(agent: Agent) -> bool:
    """Whether an agent was told that its last answer was blocked and must give another."""
    entry, is_returned = _last_answer(agent)
    return entry is not None and is_returned and agent.state.denials > 0


def _last_answer(agent: Agent) -> tuple[TranscriptEntry | None, bool]:
    """Return the agent's last message if only messages of hooks followed it.

    Also return whether the message was returned to the agent. Messages from before the agent got
    its place do not count.
    """
    is_returned = False
    for message in reversed(agent.session.context(agent.agent_id)):
        if is_code_call(message):
            continue
        if message.role == "user" and needs_no_answer(message) and not _asks_hook(message):
            purpose = message.purpose if isinstance(message, TranscriptEntry) else None
            is_returned = is_returned or purpose == "returned"
            continue
        if not isinstance(message, TranscriptEntry) or _is_later(agent.state.placed_by, message):
            return None, False
        is_answer = message.is_utterance and message.cause is None
        return (message, is_returned) if is_answer else (None, False)
    return None, False


def _asks_hook(message: ChatMessage) -> bool:
    return isinstance(message, TranscriptEntry) and is_question(message)


def _is_later(id_: MessageId, entry: TranscriptEntry) -> bool:
    return reference_number(id_) > reference_number(entry.message_id)
