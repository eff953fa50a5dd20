"""The dialog of selected agents, with each content once, and the perspective of one agent.

A content is one substance: an utterance, or a text that came from outside or was created for
others. It is shown in the version of the first selected agent that wrote or received it, never in a
version that none of them had: a hook may have hidden that from all of them.

A perspective lists the input, thoughts, actions and answers of one agent, in order.

Labels: `[System]` its instructions, `[Heard]` a message to it, `[Thought]` a thought of its model,
`[Action]` a tool call (name and arguments verbatim) and the text beside it, `[Received]` a tool
result, `[Said]` an utterance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import msgspec

from harken.core.events import Event, PieceOfText, TranscriptEntry
from harken.core.ids import AgentId, MessageId
from harken.core.messages import TextPart, ThinkingPart, ToolCall
from harken.core.record import SparseRecord
from harken.views.filter import transcript
from harken.views.links import Links
from harken.views.message_text import call_text, has_same_text, iter_parts, readable_text

Label: TypeAlias = Literal["System", "Heard", "Thought", "Action", "Received", "Said"]
_INPUT_LABELS: dict[str, Label] = {"system": "System", "user": "Heard", "tool": "Received"}


class PerspectiveItem(SparseRecord, frozen=True, kw_only=True):
    """An input, thought, action or utterance of an agent. One entry may contain several."""

    label: Label
    text: str
    message_id: MessageId
    time: str


def perspective(events: Iterable[Event], agent_id: str) -> list[PerspectiveItem]:
    """Return the items of an agent, oldest first. Empty for an unknown agent."""
    return [
        PerspectiveItem(label=label, text=text, message_id=entry.message_id, time=entry.time)
        for entry in transcript(events, agent_id)
        for label, text in iter_items(entry)
    ]


def format_items(items: Iterable[PerspectiveItem]) -> str:
    """Format items as text, one after another.

    >>> format_items(
    ...     [PerspectiveItem(label="Heard", text="[Jack]: Hi", message_id=MessageId("0"), time="")]
    ... )
    '[Heard]: [Jack]: Hi'
    """
    return "\n".join(f"[{item.label}]: {item.text}" for item in items)


def iter_items(entry: TranscriptEntry) -> Iterator[tuple[Label, str]]:
    """Yield label and text of each item of an entry, at least one."""
    label = _INPUT_LABELS.get(entry.role)
    if label is not None or entry.substance is not None:
        yield label or "Heard", readable_text(entry.content)
        return
    text_label: Label = "Action" if entry.tool_calls else "Said"
    empty = TextPart("")  # Some models add an empty text to their calls.
    items = [item for item in iter_parts(entry) if item != empty]
    for item in items:
        if isinstance(item, ToolCall):
            yield "Action", call_text(item)
        elif isinstance(item, ThinkingPart):
            yield "Thought", item.text
        else:
            yield text_label, readable_text([item])
    if not items:
        yield text_label, ""


class Version(SparseRecord, frozen=True, kw_only=True):
    """The version of a content that a selected agent had, if it differs from the one shown."""

    message_id: MessageId
    agent_id: AgentId
    name: str | None
    content: str


class DialogItem(SparseRecord, frozen=True, kw_only=True):
    """A content of a dialog."""

    message_id: MessageId
    """Message id of the original."""
    agent_id: AgentId | None
    """The author: `user` for content from outside, None if unknown or if a trigger caused it."""
    name: str | None
    trigger: str | None = None
    """The trigger that caused the content, if it has no author."""
    content: str
    """The version of the first selected agent.

    If the author is selected and only the label differs, it is the author's original."""
    time: str
    """Time of its first occurrence at a selected agent."""
    differs: bool = False
    """Whether a selected agent received a different version."""
    versions: list[Version] = msgspec.field(default_factory=list)
    """The different versions."""


@dataclass(slots=True)
class _Content:
    """The versions of one content: entries and pieces of selected agents, oldest first."""

    versions: list[TranscriptEntry | PieceOfText] = field(default_factory=list)
    in_dialog: bool = False
    listed_versions: int | None = None
    """The number of different versions when it was listed; None if it was not."""


def dialog(events: Iterable[Event], agent_ids: Iterable[str]) -> list[DialogItem]:
    """Return the dialog of these agents, in the order of the first occurrences.

    The order of `agent_ids` decides which version is shown. Utterances and user messages form the
    dialog; a result or piece with the same substance is another version.
    """
    links = Links.of(events)
    return Dialog(links, agent_ids).add(links)


class Dialog:
    """The dialog of some agents in a session that may be running."""

    def __init__(self, links: Links, agent_ids: Iterable[str]) -> None:
        """`links` must contain all events that are added."""
        self._links = links
        agents = dict.fromkeys(agent_ids)
        self._rank = {AgentId(agent): index for index, agent in enumerate(agents)}
        self._contents: dict[MessageId, _Content] = {}

    def add(self, events: Iterable[Event]) -> list[DialogItem]:
        """Return the items of these later events, in the order of their first occurrences.

        An earlier item is returned again if a selected agent received another version of it.
        """
        changed: dict[MessageId, _Content] = {}
        for event in events:
            if event.agent_id in self._rank and isinstance(event, TranscriptEntry | PieceOfText):
                self._add_version(event, changed)
        items: list[DialogItem] = []
        for id_, content in changed.items():
            if content.in_dialog:
                item = _build_item(self._links, id_, content, self._rank)
                if content.listed_versions != len(item.versions):
                    items.append(item)
                content.listed_versions = len(item.versions)
        return items

    def _add_version(
        self, event: TranscriptEntry | PieceOfText, changed: dict[MessageId, _Content]
    ) -> None:
        in_dialog = isinstance(event, TranscriptEntry) and (
            event.role == "user" or event.is_utterance
        )
        is_version = isinstance(event, PieceOfText) or event.substance is not None
        if (in_dialog or is_version) and readable_text(event.content):
            original = self._links.original(event)
            content = self._contents.setdefault(original, _Content())
            content.versions.append(event)
            content.in_dialog = content.in_dialog or in_dialog
            changed[original] = content


def _build_item(
    links: Links, id_: MessageId, content: _Content, rank: dict[AgentId, int]
) -> DialogItem:
    original = links.get(id_)
    trigger = original.trigger if isinstance(original, PieceOfText) else None
    names, author = links.names, links.author(id_) if trigger is None else None
    shown = min(content.versions, key=lambda event: rank[event.agent_id or AgentId("")])
    first = content.versions[0]
    if first.message_id == id_ and has_same_text(
        first.content, shown.content, names.all_names(author)
    ):
        shown = first  # Only the label differs; the original has none.
    other_versions = [
        Version(
            message_id=event.message_id,
            agent_id=event.agent_id or AgentId(""),
            name=names.latest_name(event.agent_id),
            content=readable_text(event.content),
        )
        for event in content.versions
        if not has_same_text(shown.content, event.content, names.all_names(author))
    ]
    return DialogItem(
        message_id=id_,
        agent_id=author,
        name=names.latest_name(author),
        trigger=trigger,
        content=readable_text(shown.content),
        time=content.versions[0].time,
        differs=bool(other_versions),
        versions=other_versions,
    )
