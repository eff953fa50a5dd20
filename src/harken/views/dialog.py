"""A dialog: what chosen agents said and heard, each content once.

A content is one substance: an utterance, or a text that came from outside or was made for
others. It shows in the words of the first chosen agent that said or heard it, never in words
that none of them said or heard: a hook may have kept those from all of them.

A perspective: what one agent heard, thought, did and said, in order.

`[System]` its instructions, `[Heard]` a message to it, `[Thought]` what its model thought,
`[Action]` a tool call (name and arguments verbatim) and the text beside one, `[Received]` a
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
from harken.views.message_text import call_text, in_order, readable_text, same_words

Label: TypeAlias = Literal["System", "Heard", "Thought", "Action", "Received", "Said"]


_RECEIVED: dict[str, Label] = {"system": "System", "user": "Heard", "tool": "Received"}


class PerspectiveItem(SparseRecord, frozen=True, kw_only=True):
    """One thing that an agent heard, thought, did or said; an entry may hold several."""

    label: Label
    text: str
    message_id: MessageId
    time: str


def perspective(events: Iterable[Event], agent_id: str) -> list[PerspectiveItem]:
    """Return the moments of an agent, oldest first; none for an agent that never was."""
    return [
        PerspectiveItem(label=label, text=text, message_id=entry.message_id, time=entry.time)
        for entry in transcript(events, agent_id)
        for label, text in moments_of(entry)
    ]


def narrate(moments: Iterable[PerspectiveItem]) -> str:
    """Write moments down, one after the other.

    >>> narrate(
    ...     [PerspectiveItem(label="Heard", text="[Jack]: Hi", message_id=MessageId("0"), time="")]
    ... )
    '[Heard]: [Jack]: Hi'
    """
    return "\n".join(f"[{moment.label}]: {moment.text}" for moment in moments)


def moments_of(entry: TranscriptEntry) -> Iterator[tuple[Label, str]]:
    """Yield label and text of what happened in an entry: at least one."""
    label = _RECEIVED.get(entry.role)
    if label is not None or entry.substance is not None:
        yield label or "Heard", readable_text(entry.content)
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
            yield spoken, readable_text([item])
    if not items:
        yield spoken, ""


class Version(SparseRecord, frozen=True, kw_only=True):
    """How a chosen agent said or heard a content, where that is not what is shown."""

    message_id: MessageId
    agent_id: AgentId
    name: str | None
    content: str


class DialogItem(SparseRecord, frozen=True, kw_only=True):
    """One content of a dialog."""

    message_id: MessageId
    """Of the original."""
    agent_id: AgentId | None
    """Who said it: `user` for what came from outside; None where the log does not tell, and of what
    happened."""
    name: str | None
    trigger: str | None = None
    """Of what happened, and nobody said: which trigger of the agent that heard it told."""
    content: str
    """As the first chosen agent said or heard it; the author's own words, where the author is
    chosen and only the label differs."""
    time: str
    """When a chosen agent first said or heard it."""
    differs: bool = False
    """Whether a chosen agent heard it differently."""
    versions: list[Version] = msgspec.field(default_factory=list)
    """Those who did, and what they heard."""


@dataclass(slots=True)
class _Gathered:
    """The versions of one content: entries and pieces of chosen agents, oldest first."""

    versions: list[TranscriptEntry | PieceOfText] = field(default_factory=list)
    in_dialog: bool = False


def dialog(events: Iterable[Event], agent_ids: Iterable[str]) -> list[DialogItem]:
    """Return the dialog of these agents, in the order of first happening.

    The order of `agent_ids` decides whose words are shown. Utterances and received user messages
    make a dialog; a result or piece with the same substance is a further version of one.
    """
    links = Links.of(events)
    rank = {AgentId(agent): n for n, agent in enumerate(dict.fromkeys(agent_ids))}
    gathered: dict[MessageId, _Gathered] = {}
    for event in links:
        if event.agent_id in rank and isinstance(event, TranscriptEntry | PieceOfText):
            _gather(links, event, gathered)
    return [
        _item(links, id_, content, rank) for id_, content in gathered.items() if content.in_dialog
    ]


def _gather(
    links: Links, event: TranscriptEntry | PieceOfText, gathered: dict[MessageId, _Gathered]
) -> None:
    in_dialog = isinstance(event, TranscriptEntry) and (event.role == "user" or event.is_utterance)
    is_version = isinstance(event, PieceOfText) or event.substance is not None
    if (in_dialog or is_version) and readable_text(event.content):
        content = gathered.setdefault(links.original(event), _Gathered())
        content.versions.append(event)
        content.in_dialog = content.in_dialog or in_dialog


def _item(links: Links, id_: MessageId, content: _Gathered, rank: dict[AgentId, int]) -> DialogItem:
    original = links.get(id_)
    trigger = original.trigger if isinstance(original, PieceOfText) else None
    names, author = links.names, links.author(id_) if trigger is None else None
    shown = min(content.versions, key=lambda event: rank[event.agent_id or AgentId("")])
    first = content.versions[0]
    if first.message_id == id_ and same_words(first.content, shown.content, names.ever(author)):
        shown = first  # only the label differs: the author's own words read better
    others = [
        Version(
            message_id=event.message_id,
            agent_id=event.agent_id or AgentId(""),
            name=names.of(event.agent_id),
            content=readable_text(event.content),
        )
        for event in content.versions
        if not same_words(shown.content, event.content, names.ever(author))
    ]
    return DialogItem(
        message_id=id_,
        agent_id=author,
        name=names.of(author),
        trigger=trigger,
        content=readable_text(shown.content),
        time=content.versions[0].time,
        differs=bool(others),
        versions=others,
    )
