"""The ids of a session: `msg_001` for events, `agent_001` for agents.

Message ids share one space over all event types and grow by one; they compare as numbers
(`msg_1000` follows `msg_999`). Foreign ids (`agent_root`, `"0"`) are read and kept: they have
no number, so they never advance a counter.
"""

from __future__ import annotations

from typing import NewType

import msgspec

MessageId = NewType("MessageId", str)
"""The id of one event of one session, such as `msg_001`."""
AgentId = NewType("AgentId", str)
"""The id of one agent of one session, such as `agent_001`."""

_MAX_DIGITS = 18
"""An id with more digits was never allocated."""

USER = AgentId("user")
"""The id of the user, a participant without an `agent_created` event."""


def message_id(number: int) -> MessageId:
    """Return the id of the event with this number.

    >>> message_id(7), message_id(1000)
    ('msg_007', 'msg_1000')
    """
    return MessageId(f"msg_{number:03d}")


def agent_id(number: int) -> AgentId:
    """Return the id of the agent with this number.

    >>> agent_id(2)
    'agent_002'
    """
    return AgentId(f"agent_{number:03d}")


def parse_id_number(id_: str, prefix: str) -> int | None:
    """Return the number of an allocated id. Return None for a foreign id.

    >>> (
    ...     parse_id_number("msg_012", "msg_"),
    ...     parse_id_number("agent_root", "agent_"),
    ...     parse_id_number("0", "msg_"),
    ... )
    (12, None, None)
    """
    digits = id_.removeprefix(prefix)
    if digits == id_ or len(digits) > _MAX_DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits)


def reference_message_id(reference: str) -> MessageId:
    """Return the message id of a reference: a call is `msg_003` or `msg_003.call_abc`.

    >>> reference_message_id("msg_003.call_abc"), reference_message_id("msg_003")
    ('msg_003', 'msg_003')
    """
    return MessageId(reference.partition(".")[0])


def reference_number(reference: str) -> int:
    """Return the number of the message that a reference names. Return 0 for a foreign id.

    >>> reference_number("msg_012"), reference_number("msg_012.call_a"), reference_number("mine")
    (12, 12, 0)
    """
    return parse_id_number(reference_message_id(reference), "msg_") or 0


class Origin(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """The end of the lines that a branch has in common with another session."""

    session: str
    """The name of the other session: that of its log file, usually its id."""
    upto: MessageId
    """The last common event."""
    sum: str
    """The checksum of its line in the log of the other session."""
    changes: tuple[str, ...] = ()
    """The changes of the branch, for people. The events after `upto` are the changes."""

    def has_event(self, event_id: str) -> bool:
        """Whether the branch has this event in common with the other session."""
        number = parse_id_number(event_id, "msg_")
        return number is not None and number <= reference_number(self.upto)
