"""How much of a conversation goes over to another client, and why the rest does not.

Two things keep a message back: the summary of a compaction stands for it, or nothing of it is in
the session that was written, because the client cannot hold it. The second is read from what was
written, not from the rules by which it was.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from harken.capture.resume.allowed_differences import AllowedDifference
from harken.capture.resume.completeness import Completeness
from harken.context.position import Said

CANNOT_HOLD = AllowedDifference(
    "what the client cannot hold", "it has no place for it in a session"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """The messages of a conversation, by what becomes of them."""

    messages: int
    """All that were said, up to where the conversation goes on."""
    go_over: int
    summarized: int
    """Those for which the summary of a compaction goes over."""
    left_out: dict[AllowedDifference, int] = field(default_factory=dict)
    """Those of which nothing was written, by the reason."""

    def as_json(self) -> dict[str, Any]:
        """Return the fields of a JSON object."""
        return {
            "messages": self.messages,
            "go_over": self.go_over,
            "summarized": self.summarized,
            "left_out": [
                {"messages": size, "what": one.name, "why": one.why}
                for one, size in self.left_out.items()
            ],
        }


def transfer(said: Said, whole: Completeness) -> Transfer:
    """Return what becomes of a conversation.

    said: of where it goes on; whole: what was written of that which is read there.
    """
    reasons = Counter(
        reason or CANNOT_HOLD
        for place, reason in whole.absent.items()
        if place not in said.summaries
    )
    kept_back = said.summarized + sum(reasons.values())
    return Transfer(
        messages=said.messages,
        go_over=max(said.messages - kept_back, 0),
        summarized=said.summarized,
        left_out=dict(reasons),
    )


def whole_transfer(said: Said) -> Transfer:
    """Return what becomes of a conversation that goes on in Harken: all that is read goes over."""
    return Transfer(
        messages=said.messages,
        go_over=said.messages - said.summarized,
        summarized=said.summarized,
    )
