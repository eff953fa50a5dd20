"""The dialog of selected agents, with each content once.

A content is one substance: an utterance, or a text that came from outside or was created for
others. It is shown in the version of the first selected agent that wrote or received it, never in a
version that none of them had: a hook may have hidden that from all of them.

A dialog is what was heard. A draft, that is an answer that hooks denied or that was given up, is
left out unless it is asked for; an answer that hooks have yet to judge is marked as pending, and of
an answer that a hook rewrote, the text is shown that others received. A verdict of a hook is one
item, whether the hook is selected or the agent that received it: the question, the words of the
hook and the comment are folded into it. An OK is no item. A stopped turn is marked as such.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import TypeAlias

import msgspec

from harken.core.event_types.spec import HookPoint
from harken.core.events import (
    AgentCreated,
    AgentMoved,
    Event,
    HookVerdict,
    PieceOfText,
    Reference,
    TranscriptEntry,
    TurnStop,
)
from harken.core.ids import AgentId, MessageId
from harken.core.record import SparseRecord
from harken.errors import StopReason
from harken.views.dialogs.answers import Answers, AnswerStatus
from harken.views.links import Links, causes_of
from harken.views.message_text import has_same_text, readable_text
from harken.views.verdicts import VerdictKind, verdict_kind

_NOT_SAID = frozenset({"question", "again", "told", "note", "cut_off", "summary", "duty"})
"""Purposes of messages that Harken wrote for their reader, and that no agent said."""
_OF_VERDICTS = frozenset({"comment", "returned"})
"""Purposes of messages with the verdict of a hook."""


class Version(SparseRecord, frozen=True, kw_only=True):
    """The version of a content that a selected agent had, if it differs from the one shown."""

    message_id: MessageId
    agent_id: AgentId
    name: str | None
    content: str


class VerdictItem(SparseRecord, frozen=True, kw_only=True):
    """The verdict that an item of a dialog is about."""

    kind: VerdictKind
    point: HookPoint
    subject: Reference
    """The message or call that was judged."""
    agent_id: AgentId
    """The watched agent."""
    name: str | None


class DialogItem(SparseRecord, frozen=True, kw_only=True):
    """A content of a dialog."""

    message_id: MessageId
    """Message id of the original; of a verdict, the `hook_verdict`."""
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
    status: AnswerStatus | None = None
    """The outcome of an answer that others did not receive as its author wrote it."""
    hook: AgentId | None = None
    """The hook that denied, stopped or rewrote the answer."""
    hook_name: str | None = None
    draft: str | None = None
    """The author's own text of a rewritten answer, if drafts were asked for."""
    verdict: VerdictItem | None = None
    """Set if the content is the verdict of a hook: a comment, a reason, an error."""
    stop: StopReason | None = None
    """Set if the content stands in place of an answer: why the turn was stopped."""
    differs: bool = False
    """Whether a selected agent received a different version."""
    versions: list[Version] = msgspec.field(default_factory=list)
    """The different versions."""


_Event: TypeAlias = TranscriptEntry | PieceOfText


class _Content(msgspec.Struct):
    """The versions of one content: entries and pieces of selected agents, oldest first."""

    versions: list[_Event] = msgspec.field(default_factory=list)
    in_dialog: bool = False
    listed: tuple[int, AnswerStatus | None] | None = None
    """The number of different versions and the status when it was listed; None if it was not."""


def dialog(
    events: Iterable[Event], agent_ids: Iterable[str], *, drafts: bool = False
) -> list[DialogItem]:
    """Return the dialog of these agents, in the order of the first occurrences.

    The order of `agent_ids` decides which version is shown. Utterances and user messages form the
    dialog; a result or piece with the same substance is another version. `drafts` includes answers
    that no other agent received.
    """
    links = Links.of(events)
    return Dialog(links, agent_ids, drafts=drafts).add(links)


def find_primary_agents(events: Iterable[Event]) -> list[AgentId]:
    """Return the agents that the user talked with, in the order in which they became primary.

    Older logs state no relation: there it is the first agent.
    """
    agents: dict[AgentId, None] = {}
    first: AgentId | None = None
    for event in events:
        if not isinstance(event, AgentCreated | AgentMoved) or event.agent_id is None:
            continue
        first = first or event.agent_id
        place = event.relation if isinstance(event, AgentCreated) else event.place
        if place == "primary":
            agents[event.agent_id] = None
    return [*agents] or ([] if first is None else [first])


class Dialog:
    """The dialog of some agents in a session that may be running."""

    def __init__(
        self,
        links: Links,
        agent_ids: Iterable[str],
        *,
        drafts: bool = False,
        answers: Answers | None = None,
    ) -> None:
        """`links` must contain all added events. `answers` may be those of several dialogs."""
        self._links, self._has_drafts = links, drafts
        agents = dict.fromkeys(agent_ids)
        self._rank = {AgentId(agent): index for index, agent in enumerate(agents)}
        self._contents: dict[MessageId, _Content] = {}
        self._answers = Answers() if answers is None else answers
        self._stops: dict[MessageId, StopReason] = {}
        """Piece in place of an answer -> why the turn was stopped."""
        self._verdicts: set[MessageId] = set()
        """The verdicts that were listed."""

    def add(self, events: Iterable[Event]) -> list[DialogItem]:
        """Return the items of these later events, in the order of their first occurrences.

        An earlier item is returned again if a selected agent received another version of it, or
        if hooks have decided about it.
        """
        events = list(events)
        return self.add_decided(events, self._answers.add(events))

    def add_decided(
        self, events: Iterable[Event], decided: AbstractSet[MessageId]
    ) -> list[DialogItem]:
        """Return the items of later events that were added to the answers already.

        `decided`: the answers to which these events gave another outcome.
        """
        items_by_id: dict[MessageId, DialogItem | None] = {
            id_: None for id_ in decided if id_ in self._contents
        }
        for event in events:
            if isinstance(event, TurnStop):
                self._add_stop(event, items_by_id)
            elif isinstance(event, HookVerdict) and event.agent_id in self._rank:
                self._add_verdict(event, items_by_id)
            elif event.agent_id in self._rank and isinstance(event, _Event):
                self._add_text(event, items_by_id)
        items = (item or self._list_content(id_) for id_, item in items_by_id.items())
        return [item for item in items if item is not None]

    def _add_text(self, event: _Event, items_by_id: dict[MessageId, DialogItem | None]) -> None:
        """Add an entry or a piece, unless no agent said it."""
        if isinstance(event, TranscriptEntry):
            if event.purpose in _OF_VERDICTS:
                for reference in causes_of(event):
                    verdict = self._links.get(reference)
                    if isinstance(verdict, HookVerdict):
                        self._add_verdict(verdict, items_by_id)
                        return
            if event.purpose in _NOT_SAID or event.message_id in self._answers.words_of_hooks:
                return
        in_dialog = isinstance(event, TranscriptEntry) and (
            event.role == "user" or event.is_utterance
        )
        is_version = isinstance(event, PieceOfText) or event.substance is not None
        if (in_dialog or is_version) and readable_text(event.content):
            original = self._links.original(event)
            content = self._contents.setdefault(original, _Content())
            content.versions.append(event)
            content.in_dialog = content.in_dialog or in_dialog
            items_by_id[original] = None

    def _add_stop(self, event: TurnStop, items_by_id: dict[MessageId, DialogItem | None]) -> None:
        self._stops[event.piece] = event.reason
        content = self._contents.get(event.piece)
        if content is not None and event.reason != "moved":
            content.in_dialog = True
            items_by_id[event.piece] = None

    def _add_verdict(
        self, event: HookVerdict, items_by_id: dict[MessageId, DialogItem | None]
    ) -> None:
        """Add the item of a verdict, once. A rewritten answer is an item of its author."""
        kind = verdict_kind(event)
        is_shown = kind != "ok" and (kind != "rewrite" or event.point == "action")
        if not is_shown or event.message_id in self._verdicts:
            return
        self._verdicts.add(event.message_id)
        names = self._links.names
        items_by_id[event.message_id] = DialogItem(
            message_id=event.message_id,
            agent_id=event.agent_id,
            name=names.latest_name(event.agent_id),
            content=event.failed or event.text or "",
            time=event.time,
            verdict=VerdictItem(
                kind=kind,
                point=event.point,
                subject=event.subject,
                agent_id=event.watched,
                name=names.latest_name(event.watched),
            ),
        )

    def _list_content(self, id_: MessageId) -> DialogItem | None:
        """Return the item of a content. Return None if it is not shown, or was listed like this."""
        content = self._contents[id_]
        is_hidden = self._answers.is_draft(id_) and not self._is_shown(id_)
        if not content.in_dialog or (is_hidden and content.listed is None):
            return None
        item = self._build_item(id_, content)
        state = len(item.versions), item.status
        if content.listed == state:
            return None
        content.listed = state
        return item

    def _is_shown(self, draft: MessageId) -> bool:
        return self._has_drafts or self._answers.outcomes[draft].status == "pending"

    def _build_item(self, id_: MessageId, content: _Content) -> DialogItem:
        original = self._links.get(id_)
        trigger = original.trigger if isinstance(original, PieceOfText) else None
        names = self._links.names
        author = self._links.author(id_) if trigger is None else None
        outcome, labels = self._answers.outcomes.get(id_), names.all_names(author)
        rank = self._rank
        version = min(content.versions, key=lambda event: rank[event.agent_id or AgentId("")])
        first = content.versions[0]
        if first.message_id == id_ and has_same_text(first.content, version.content, labels):
            version = first  # Only the label differs; the original has none.
        text, own_text, versions = version.content, None, content.versions
        if outcome is not None and outcome.status == "rewritten" and first.message_id == id_:
            own_text = readable_text(first.content)
            text = outcome.text if version is first else text
            versions = versions[1:]  # Nobody received the author's own text.
        other_versions = [
            Version(
                message_id=event.message_id,
                agent_id=event.agent_id or AgentId(""),
                name=names.latest_name(event.agent_id),
                content=readable_text(event.content),
            )
            for event in versions
            if event is not version and not has_same_text(text, event.content, labels)
        ]
        return DialogItem(
            message_id=id_,
            agent_id=author,
            name=names.latest_name(author),
            trigger=trigger,
            content=readable_text(text),
            time=first.time,
            status=None if outcome is None else outcome.status,
            hook=None if outcome is None else outcome.hook,
            hook_name=None if outcome is None else names.latest_name(outcome.hook),
            draft=own_text if self._has_drafts else None,
            stop=self._stops.get(id_),
            differs=bool(other_versions),
            versions=other_versions,
        )
