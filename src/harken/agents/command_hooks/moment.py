"""`Moment`: what happens to an agent, as the event of Claude Code that a command is told of.

Beside questions: nobody waits for a verdict. The words of notifications are those of Claude Code,
which scripts compare with.

Source: what Claude Code 2.1.329 sends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from harken.agents.claude_tools import names_of
from harken.agents.happening import Compacted, Compacting, Happening, LeaveAsked, UserWanted

Names: TypeAlias = tuple[str, ...] | None
"""What a matcher is compared with; None: the event takes no matcher."""
WAITING = "Claude is waiting for your input"
WANTED = "Claude needs your permission to use {}"


@dataclass(frozen=True, slots=True)
class Moment:
    """An event."""

    event: str
    names: Names
    members: Mapping[str, Any] = field(default_factory=dict)
    """What a command hears of it, beside what it always hears."""


def moments_of(happening: Happening) -> Sequence[Moment]:
    """Return the events that it is, in order."""
    match happening:
        case Compacting(trigger=trigger, instructions=instructions):
            said = {"trigger": trigger, "custom_instructions": instructions or None}
            return [Moment("PreCompact", (trigger,), said)]
        case Compacted(trigger=trigger, summary=summary):
            said = {"trigger": trigger, "compact_summary": summary}
            return [begun("compact"), Moment("PostCompact", (trigger,), said)]
        case LeaveAsked(wanted=wanted):
            return [Moment("PermissionRequest", names_of(wanted.tool))]
        case UserWanted(kind=kind, tool=tool):
            message = WANTED.format(names_of(tool)[0]) if tool else WAITING
            said = {"message": message, "notification_type": kind}
            return [Moment("Notification", (kind,), said)]


def begun(source: str) -> Moment:
    """Return the beginning of a session, or of a part of it."""
    return Moment("SessionStart", (source,), {"source": source})


def ended(reason: str) -> Moment:
    """Return the end of a session."""
    return Moment("SessionEnd", (reason,), {"reason": reason})
