"""What hooks have answered: their verdicts, read from their transcripts.

A question names what it is about as its cause. Code answers with the question as the cause of its
words; what a model says belongs to the question before it. What hooks of the hook's own say stands
in between, and is no end of it; whatever else it hears is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harken.agents.verdict import is_question
from harken.core.events import Reference, TranscriptEntry
from harken.core.ids import message_number
from harken.core.verdict_words import said_in
from harken.session.state import AgentState


@dataclass(frozen=True, slots=True)
class Reply:
    """A question, and the last that its hook said to it: a verdict, or that the hook failed."""

    subject: Reference
    """What was judged."""
    answer: TranscriptEntry


def replies(hook: AgentState, since: Reference = "") -> Iterator[Reply]:
    """Yield what a hook, in memory, was asked since a message and has answered, newest first."""
    begin = message_number(since)
    said: TranscriptEntry | None = None
    answers: dict[str, TranscriptEntry] = {}
    for entry in reversed(hook.transcript or ()):
        if message_number(entry.message_id) < begin:
            return
        if entry.role != "user":
            if isinstance(entry.cause, str):
                answers.setdefault(entry.cause, entry)
            elif entry.cause is None and said_in(entry) is not None:
                said = said or entry
        elif entry.cause is None:
            said = None
        elif is_question(entry):
            answer = answers.get(entry.message_id, said)
            if answer is not None and isinstance(entry.cause, str):
                yield Reply(entry.cause, answer)
            said = None


def reply_to(hook: AgentState, subject: Reference) -> TranscriptEntry | None:
    """Return what a hook, in memory, has said of this last, or that it failed; None: neither."""
    return next((one.answer for one in replies(hook, subject) if one.subject == subject), None)
