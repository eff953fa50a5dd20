"""The perspective of one agent: its input, thoughts, actions and answers, in order.

Labels: `[System]` its instructions, `[Heard]` a message to it, `[Thought]` a thought of its model,
`[Action]` a tool call (name and arguments verbatim) and the text beside it, `[Received]` a tool
result, `[Said]` an utterance, `[Draft]` an answer that no other agent received as it is,
`[Verdict]` the judgment of a hook, `[Stopped]` the text that others read in place of an answer.

A label may have a note, such as `[Draft, denied by Guard]`. All notes come from events and their
members: see `harken.views.dialogs.answers`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from harken.core.events import Event, HookVerdict, PieceOfText, TranscriptEntry, TurnStop
from harken.core.ids import AgentId, MessageId
from harken.core.messages import ThinkingPart, ToolCall
from harken.core.record import SparseRecord
from harken.views.dialogs.answers import Answers
from harken.views.dialogs.hook_messages import HookMessages
from harken.views.dialogs.labels import (
    Label,
    decide_label,
    describe_subject,
    empty_label,
    format_verdict_text,
    input_label,
    iter_labeled_parts,
)
from harken.views.links import Links
from harken.views.message_text import call_text, readable_text


class PerspectiveItem(SparseRecord, frozen=True, kw_only=True):
    """An input, thought, action or utterance of an agent. One entry may contain several."""

    label: Label
    note: str | None = None
    """Details of the label: the outcome of a draft, the reason of a missing result."""
    text: str
    message_id: MessageId
    time: str


def perspective(events: Iterable[Event], agent_id: str) -> list[PerspectiveItem]:
    """Return the items of an agent, oldest first. Empty for an unknown agent."""
    links = Links.of(events)
    return Perspective(links, agent_id).add(links)


def format_items(items: Iterable[PerspectiveItem]) -> str:
    """Format items as text, one after another.

    >>> format_items(
    ...     [PerspectiveItem(label="Heard", text="[Jack]: Hi", message_id=MessageId("0"), time="")]
    ... )
    '[Heard]: [Jack]: Hi'
    """
    return "\n".join(f"[{_format_label(item)}]: {item.text}" for item in items)


def _format_label(item: PerspectiveItem) -> str:
    return item.label if item.note is None else f"{item.label}, {item.note}"


class Perspective:
    """The perspective of an agent in a session that may be running."""

    def __init__(self, links: Links, agent_id: str, *, holds_back: bool = False) -> None:
        """`links` must contain all events that are added.

        holds_back: return a pending answer only when it is decided, and no note on open calls.
        """
        self._links, self._agent_id, self._holds_back = links, AgentId(agent_id), holds_back
        self._answers = Answers()
        self._hook_messages = HookMessages(links)
        self._held: list[TranscriptEntry] = []
        """Pending answers that were not returned yet."""

    def add(self, events: Iterable[Event]) -> list[PerspectiveItem]:
        """Return the items of these later events, oldest first."""
        new_events = list(events)
        self._answers.add(new_events)
        pending_entries, self._held = self._held, []
        own_events = [event for event in new_events if event.agent_id == self._agent_id]
        verdicts = {event.message_id for event in own_events if isinstance(event, HookVerdict)}
        agent_events = [
            event
            for event in self._hook_messages.insert_into(own_events)
            if not isinstance(event, TranscriptEntry) or event.message_id not in verdicts
        ]
        open_calls = set() if self._holds_back else _find_open_calls(agent_events)
        return [
            item
            for event in (*pending_entries, *agent_events)
            for item in self._iter_event_items(event, open_calls)
        ]

    def _iter_event_items(
        self, event: Event, open_calls: set[tuple[MessageId, str]]
    ) -> Iterator[PerspectiveItem]:
        for label, label_note, text in self._iter_texts(event, open_calls):
            yield PerspectiveItem(
                label=label,
                note=label_note,
                text=text,
                message_id=event.message_id,
                time=event.time,
            )

    def _iter_texts(
        self, event: Event, open_calls: set[tuple[MessageId, str]]
    ) -> Iterator[tuple[Label, str | None, str]]:
        """Yield label, note and text of each item of an event."""
        if isinstance(event, HookVerdict):
            if event.said is None:  # The verdict of code, which wrote no message.
                names = self._links.names
                yield "Verdict", describe_subject(event, names), format_verdict_text(event)
        elif isinstance(event, TurnStop) and event.reason != "moved":
            piece = self._links.get(event.piece)
            yield "Stopped", event.reason, piece.content if isinstance(piece, PieceOfText) else ""
        elif isinstance(event, TranscriptEntry):
            outcome = self._answers.outcomes.get(event.message_id)
            if self._holds_back and outcome is not None and outcome.status == "pending":
                self._held.append(event)
                return
            for label, part, text in _iter_items(event):
                yield self._build_text(event, label, part, text, open_calls)
            if outcome is not None and outcome.status == "rewritten":
                is_verdict = event.message_id in self._answers.words_of_hooks
                yield "Verdict" if is_verdict else "Said", None, outcome.text

    def _build_text(
        self,
        entry: TranscriptEntry,
        label: Label,
        call: ToolCall | None,
        text: str,
        open_calls: set[tuple[MessageId, str]],
    ) -> tuple[Label, str | None, str]:
        """Return an item of an entry with its note."""
        if call is not None and (entry.message_id, call.id) in open_calls:
            return label, "no result yet", text
        return *decide_label(entry, label, self._answers, self._links.names), text


def _iter_items(entry: TranscriptEntry) -> Iterator[tuple[Label, ToolCall | None, str]]:
    """Yield label, call and text of each item of an entry, at least one."""
    label = input_label(entry)
    if label is not None:
        yield label, None, readable_text(entry.content)
        return
    is_empty = True
    for label, _, part in iter_labeled_parts(entry):
        is_empty = False
        if isinstance(part, ToolCall):
            yield label, part, call_text(part)
        elif isinstance(part, ThinkingPart):
            yield label, None, part.text
        else:
            yield label, None, readable_text([part])
    if is_empty:
        yield empty_label(entry), None, ""


def _find_open_calls(events: Sequence[Event]) -> set[tuple[MessageId, str]]:
    """Return the calls of an agent without a result, as entry and call id.

    A call before a later answer is not open: the log is an excerpt, or of another program.
    """
    open_calls: dict[str, MessageId] = {}
    for event in events:
        if isinstance(event, TranscriptEntry):
            if event.is_utterance:
                open_calls.clear()
            for call in event.tool_calls or ():
                open_calls[call.id] = event.message_id
            if event.role == "tool":
                open_calls.pop(event.tool_call_id or "", None)
    return {(message_id, call_id) for call_id, message_id in open_calls.items()}
