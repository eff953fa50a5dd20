"""A perspective: what one agent heard, thought, did and said, in order.

`[System]` its instructions, `[Heard]` a message to it, `[Thought]` what its model thought,
`[Action]` a tool call (name and arguments verbatim) and the text beside one, `[Received]` a
result, `[Said]` an utterance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from harken.core.events import Event, TranscriptEntry
from harken.core.ids import MessageId
from harken.core.messages import TextPart, ThinkingPart, ToolCall
from harken.core.record import SparseRecord
from harken.views.transcript import transcript
from harken.views.words import call_text, words
from harken.views.written import in_order

Label: TypeAlias = Literal["System", "Heard", "Thought", "Action", "Received", "Said"]

_RECEIVED: dict[str, Label] = {"system": "System", "user": "Heard", "tool": "Received"}


class Moment(SparseRecord, frozen=True, kw_only=True):
    """One thing that an agent heard, thought, did or said; an entry may hold several."""

    label: Label
    text: str
    message_id: MessageId
    time: str


def perspective(events: Iterable[Event], agent_id: str) -> list[Moment]:
    """Return the moments of an agent, oldest first; none for an agent that never was."""
    return [
        Moment(label=label, text=text, message_id=entry.message_id, time=entry.time)
        for entry in transcript(events, agent_id)
        for label, text in moments_of(entry)
    ]


def narrate(moments: Iterable[Moment]) -> str:
    """Write moments down, one after the other.

    >>> narrate([Moment(label="Heard", text="[Jack]: Hi", message_id=MessageId("0"), time="")])
    '[Heard]: [Jack]: Hi'
    """
    return "\n".join(f"[{moment.label}]: {moment.text}" for moment in moments)


def moments_of(entry: TranscriptEntry) -> Iterator[tuple[Label, str]]:
    """Yield label and text of what happened in an entry: at least one."""
    label = _RECEIVED.get(entry.role)
    if label is not None or entry.substance is not None:
        yield label or "Heard", words(entry.content)
        return
    spoken: Label = "Action" if entry.tool_calls else "Said"
    empty = TextPart("")  # some models write one beside their calls
    items = [item for item in in_order(entry) if item != empty]
    for item in items:
        if isinstance(item, ToolCall):
            yield "Action", call_text(item)
        elif isinstance(item, ThinkingPart):
            yield "Thought", item.text
        else:
            yield spoken, words([item])
    if not items:
        yield spoken, ""
