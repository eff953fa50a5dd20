"""The base class of events, and the types of members that many events have."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from harken.core.ids import AgentId, MessageId

Json: TypeAlias = Any
Reference: TypeAlias = str
"""A message (`msg_003`), or one of several calls of a message (`msg_003.call_abc`)."""
Cause: TypeAlias = Reference | list[Reference] | None


class EventBase(
    msgspec.Struct,
    tag_field="event_type",
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,
):
    """The members that all events have. The writer fills in `message_id` and `time`."""

    message_id: MessageId = MessageId("")
    time: str = ""
    """UTC, RFC 3339, microseconds: `2026-01-31T12:00:00.000000Z`."""
    agent_id: AgentId | None = None
    """The agent that the event is about; None for session-level events."""
    unknown: dict[str, Json] | None = msgspec.field(default=None, name="~unknown")
    """Members that this version does not know, as they were read; they are written back."""
