"""Remove a new session in which nothing was said."""

from __future__ import annotations

from harken.chat.open_chat import OpenChat
from harken.chat.options import ChatOptions
from harken.core.ids import reference_number


def remove_unused_session(wish: ChatOptions, chat: OpenChat) -> bool:
    """Remove a new session without messages; return whether it was removed.

    A branch that was made in the chat is new, too.
    """
    is_new = wish.old is None or wish.is_branch
    if not is_new or not is_untouched(chat):
        return False
    chat.session.close()
    chat.session.path.unlink()
    return True


def is_untouched(chat: OpenChat) -> bool:
    """Whether a session got no message since it was opened."""
    transcripts = (chat.session.agent(id_).transcript for id_ in chat.session.agents)
    messages = (entry for entries in transcripts for entry in entries or ())
    first = chat.session.opened_at
    return all(
        entry.role == "system" or reference_number(entry.message_id) < first for entry in messages
    )
