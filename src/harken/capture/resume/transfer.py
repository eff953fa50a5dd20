"""Count the messages that are transferred to another client, and the reasons for the others.

A message is not transferred if the summary of a compaction replaces it, or if none of its content
was written because the client cannot store it. The latter is determined from the written session,
not from the rules of the writer.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from harken.capture.resume.allowed_differences import AllowedDifference
from harken.capture.resume.completeness import Completeness
from harken.context.position import MessageCounts

CANNOT_HOLD = AllowedDifference(
    "what the client cannot hold", "it has no place for it in a session"
)


class Transfer(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of transferred, summarized and omitted messages of a conversation."""

    messages: int
    """All messages up to the position where the conversation continues."""
    go_over: int
    summarized: int
    """Messages that are replaced by the summary of a compaction."""
    unwritten: dict[AllowedDifference, int] = msgspec.field(default_factory=dict)
    """Messages of which nothing was written, by reason."""

    def as_json(self) -> dict[str, Any]:
        """Return the fields of a JSON object."""
        return {
            "messages": self.messages,
            "go_over": self.go_over,
            "summarized": self.summarized,
            "left_out": [
                {"messages": size, "what": reason.name, "why": reason.reason}
                for reason, size in self.unwritten.items()
            ],
        }


def count_transfer(said: MessageCounts, whole: Completeness) -> Transfer:
    """Count the transferred messages of a conversation.

    said: the messages up to the position where it continues; whole: the comparison of the written
    session with the context there.
    """
    reasons = Counter(
        reason or CANNOT_HOLD
        for place, reason in whole.absent.items()
        if place not in said.summaries
    )
    omitted = said.summarized + sum(reasons.values())
    return Transfer(
        messages=said.messages,
        go_over=max(said.messages - omitted, 0),
        summarized=said.summarized,
        unwritten=dict(reasons),
    )


def count_full_transfer(said: MessageCounts) -> Transfer:
    """Count the messages of a conversation that continues in Harken.

    All of its context is transferred.
    """
    return Transfer(
        messages=said.messages,
        go_over=said.messages - said.summarized,
        summarized=said.summarized,
    )
