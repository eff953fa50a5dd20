"""Inputs that need no answer: comments of hooks, and reports of the user's commands."""

from __future__ import annotations

from harken.agents import texts
from harken.core.events import TranscriptEntry
from harken.core.messages import ChatMessage, text_of

NO_ANSWER_PREFIXES = (
    texts.prefix_of(texts.HOOK_MESSAGE),
    texts.prefix_of(texts.USER_ACTION),
)
"""The prefixes of user messages that need no answer. In messages loaded from a commit, only the
prefix marks them."""


def needs_no_answer(message: ChatMessage) -> bool:
    """Whether an input needs no answer: a hook's comment, or a report of the user's command."""
    if isinstance(message, TranscriptEntry):
        return message.purpose is not None
    return text_of(message.content).startswith(NO_ANSWER_PREFIXES)
