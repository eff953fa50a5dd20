"""What programs say messages with, as messages: dicts of the usual shape, plain texts, messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from harken.core.messages import ChatMessage, Message, Role, message_from

Spoken: TypeAlias = ChatMessage | Mapping[str, Any] | str
"""A dict has `role` and `content`, and may have `tool_calls`, `tool_call_id`, `name`."""
_SAME: dict[str, Role] = {"developer": "system", "function": "tool", "model": "assistant"}


def message_in(said: Spoken, role: Role = "user") -> Message:
    """Return a message. role: of a plain text. Raises ValueError for what is none.

    >>> message_in({"role": "developer", "content": "Be brief."}).role
    'system'
    """
    if isinstance(said, str):
        return Message(role, str(said))
    if isinstance(said, Mapping):
        known = said.get("role", role)
        same = _SAME.get(known, known) if isinstance(known, str) else known
        return message_from({**said, "role": same})
    return Message(
        role=said.role,
        content=said.content,
        tool_calls=said.tool_calls or None,
        tool_call_id=said.tool_call_id,
        name=said.name,
        is_error=said.is_error,
    )


def messages_in(said: Sequence[Spoken] | Spoken, role: Role = "user") -> list[Message]:
    """Return messages; a single one may stand for itself. As `message_in`."""
    if isinstance(said, str | Mapping) or not isinstance(said, Sequence):
        return [message_in(said, role)]
    return [message_in(one, role) for one in said]
