"""The duty of a hook: the message that tells a model when it is asked, and how it answers.

It is an entry of its own after the system prompt, not a part of it, because an agent can become a
hook by a move, and cease to be one. Its context has the duty exactly as long as it is a hook that
is asked anything. Its instructions stay: they say who the agent is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile

from harken.agents import texts
from harken.agents.agent import Agent
from harken.core.events import Segment, TranscriptEdited, TranscriptEntry
from harken.core.messages import ChatMessage, text_of
from harken.core.verdict import ALLOWED_VERDICTS, BLOCKING_POINTS, VERDICT_FORMS

DUTY_CHANGED = "duty changed"
"""The reason of the edit that adds or removes a duty in the middle of a context."""


def set_duty(hook: Agent, duty: str | None) -> bool:
    """Put a duty in the place of the present one in an agent's context, or remove it (None).

    Return whether it changed.
    """
    context = [*hook.session.context(hook.agent_id)]
    present = [position for position, message in enumerate(context) if is_duty(message)]
    if [text_of(context[position].content) for position in present] == (
        [] if duty is None else [duty]
    ):
        return False
    first = sum(1 for _ in takewhile(_is_instruction, context))
    with hook.session.group():
        added = [] if duty is None else [hook.session.append(_duty_entry(hook, duty))]
        if present or first < len(context):
            head = as_segments(p for p in range(first) if p not in present)
            tail = as_segments(p for p in range(first, len(context)) if p not in present)
            duties = [Segment(entries=added)] if added else []
            edit = TranscriptEdited(
                agent_id=hook.agent_id, segments=[*head, *duties, *tail], reason=DUTY_CHANGED
            )
            hook.session.append(edit)
    return True


def _duty_entry(hook: Agent, duty: str) -> TranscriptEntry:
    return TranscriptEntry(agent_id=hook.agent_id, role="system", content=duty, purpose="duty")


def is_duty(message: ChatMessage) -> bool:
    """Whether a message of a context is the duty of a hook."""
    return isinstance(message, TranscriptEntry) and message.purpose == "duty"


def _is_instruction(message: ChatMessage) -> bool:
    return message.role == "system"


def as_segments(positions: Iterable[int]) -> list[Segment]:
    """Return increasing positions of a context as segments."""
    ranges: list[tuple[int, int]] = []
    for position in positions:
        if ranges and ranges[-1][1] == position:
            ranges[-1] = (ranges[-1][0], position + 1)
        else:
            ranges.append((position, position + 1))
    return [Segment(start=start, stop=stop) for start, stop in ranges]


def format_duty(points: Sequence[str] | None, keeps: str = "notes") -> str:
    """Format the duty of a smart hook that is asked at these points, by default at all."""
    asked_points = [point for point in ALLOWED_VERDICTS if points is None or point in points]
    guarded = [point for point in asked_points if point in BLOCKING_POINTS]
    restriction = ""
    if guarded and guarded != asked_points:
        names = texts.HOOK_POINT_CONJUNCTION.join(guarded)
        restriction = texts.HOOK_POINT_RESTRICTION.format(names)
    lines = [
        form + ("" if kind in ALLOWED_VERDICTS["input"] else restriction)
        for kind, form in VERDICT_FORMS.items()
        if any(kind in ALLOWED_VERDICTS[point] for point in asked_points)
    ]
    notes = {"notes": texts.HOOK_KEEPS_NOTES, "all": texts.HOOK_KEEPS_ALL}[keeps]
    return texts.HOOK_DUTY.format(
        points=", ".join(asked_points), answers="\n".join(lines), notes=notes
    )
