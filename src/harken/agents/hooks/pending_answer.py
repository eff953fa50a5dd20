"""Pending answers: answers that hooks of the agent have yet to judge.

The progress of an answer is derived from the log. Until all hooks have judged it and their verdicts
took effect, no other agent receives it, and the agent owes it. A turn that was interrupted there
continues there, and no hook is asked twice.
"""

from __future__ import annotations

from harken.agents.agent import Agent
from harken.agents.hooks.verdict_log import answer_question, is_unjudged, read_verdicts
from harken.agents.structure import is_code_call
from harken.agents.unanswered_input import needs_no_answer
from harken.core.events import TranscriptEntry
from harken.core.ids import AgentId, MessageId, reference_number
from harken.core.messages import ChatMessage
from harken.core.verdict import Deny, Rewrite, SpokenVerdict, is_question

MAX_DENIALS = 3
"""After this number of denials of a response the user is told instead."""


def pending_answer(agent: Agent) -> TranscriptEntry | None:
    """Return an agent's last answer if its hooks or their verdicts are still pending."""
    entry, state = _last_answer(agent), agent.state
    if entry is None or state.request is None or entry.message_id not in state.new_entries[:1]:
        return None  # no model call of its own brought it
    question = answer_question(agent, entry)
    verdicts_by_hook = read_verdicts(agent, question)
    verdicts = [opinion.verdict for opinion in verdicts_by_hook.values()]
    denial = _find_denial(verdicts_by_hook)
    if denial is not None:
        return None if _is_sent_back(agent, denial) else entry
    if is_unjudged(agent, verdicts_by_hook, question):
        return entry
    is_rewritten = any(isinstance(verdict, Rewrite) for verdict in verdicts)
    return entry if is_rewritten and not _is_shown(agent, entry) else None


def was_blocked(agent: Agent) -> bool:
    """Whether an agent was told that its last answer was blocked and must give another."""
    entry = _last_answer(agent)
    denial = (
        None if entry is None else _find_denial(read_verdicts(agent, answer_question(agent, entry)))
    )
    return denial is not None and _is_sent_back(agent, denial) and denials(agent) > 0


def denials(agent: Agent) -> int:
    """Return how many answers of this turn were returned, or 0 if that has ended the turn."""
    returned: list[TranscriptEntry] = []
    for entry in reversed(agent.state.transcript or ()):
        if entry.role == "user" and entry.purpose in (None, "question"):
            break
        if entry.purpose == "returned":
            returned.append(entry)
    count = len(returned)
    is_last = count > 0 and agent.session.state.last_id == returned[0].message_id
    return count if count < MAX_DENIALS or is_last else 0


def _last_answer(agent: Agent) -> TranscriptEntry | None:
    """Return the agent's last message if only comments of hooks and calls of code followed it.

    Messages from before the agent got its place do not count.
    """
    for message in reversed(agent.session.context(agent.agent_id)):
        if is_code_call(message):
            continue
        if message.role == "user" and needs_no_answer(message) and not _asks_hook(message):
            continue
        if not isinstance(message, TranscriptEntry) or _is_later(agent.state.placed_by, message):
            return None
        return message if message.is_utterance and message.cause is None else None
    return None


def _find_denial(verdicts: dict[AgentId, SpokenVerdict]) -> SpokenVerdict | None:
    return next(
        (verdict for verdict in verdicts.values() if isinstance(verdict.verdict, Deny)), None
    )


def _is_sent_back(agent: Agent, denied: SpokenVerdict) -> bool:
    inputs = (entry for entry in reversed(agent.state.transcript or ()) if entry.role == "user")
    return any(entry.cause == denied.message_id for entry in inputs)


def _is_shown(agent: Agent, entry: TranscriptEntry) -> bool:
    """Whether the rewritten answer was logged for the user; no line is logged for other readers."""
    shown_id = agent.session.state.last_shown_message
    return (
        agent.state.place != "primary" or shown_id == entry.message_id or _is_later(shown_id, entry)
    )


def _asks_hook(message: ChatMessage) -> bool:
    return isinstance(message, TranscriptEntry) and is_question(message)


def _is_later(id_: MessageId, entry: TranscriptEntry) -> bool:
    return reference_number(id_) > reference_number(entry.message_id)
