"""Verdicts of hooks: their subjects and effects.

Watches: when a hook was installed on an agent, by which agent, and when it was removed.

Watches are found by folding creation and move events: a hook is installed or removed if it watches
an agent only after, or only before, an event.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from harken.core.events import (
    ActionRewritten,
    AgentCreated,
    AgentMoved,
    Event,
    HookVerdict,
    PieceOfText,
    Reference,
    TranscriptEdited,
    TranscriptEntry,
)
from harken.core.ids import AgentId, MessageId
from harken.core.record import SparseRecord
from harken.session.fold import fold
from harken.session.state import SessionState
from harken.views.interventions import Intervention, interventions
from harken.views.links import Links, causes_of
from harken.views.message_text import call_text
from harken.views.message_text import readable_text as words

How: TypeAlias = Literal["begun", "made", "copied", "moved", "quit", "ended"]


class Watch(SparseRecord, frozen=True, kw_only=True):
    """The installation or removal of a hook."""

    kind: Literal["installed", "left"]
    how: How
    """The way in which the hook was installed or removed.

    `begun`: by the code that created the agent; `made`: `by` called `hook`; `copied`: a copy of a
    hook of the parent agent; `moved`: an agent was moved; `quit`: the hook removed itself;
    `ended`: another agent removed it.
    """
    message_id: MessageId
    hook: AgentId
    hook_name: str | None
    agent_id: AgentId
    """The watched agent."""
    name: str | None
    by: AgentId | None = None
    """The agent that installed or removed the hook, or None if the log does not name it."""
    by_name: str | None = None
    cause: Reference | None = None
    """The event that caused it."""
    instructions: str | None = None
    """The initial instructions of a smart hook, which explain its purpose."""
    time: str


def watches(events: Iterable[Event]) -> list[Watch]:
    """Return all installations and removals of hooks, oldest first."""
    return list(_iter_watches(Links.of(events)))


def _iter_watches(links: Links) -> Iterator[Watch]:
    state = SessionState()
    for event in links:
        if isinstance(event, TranscriptEntry):
            fold(state, event)  # Creation events refer to calls by their entries.
        if not isinstance(event, AgentCreated | AgentMoved):
            continue
        moved_ids = [event.agent_id, getattr(event, "replaces", None)]
        hooks = [id_ for id_ in moved_ids if id_ is not None]
        before = [_find_watched(state, hook) for hook in hooks]
        fold(state, event)
        for hook, old_target in zip(hooks, before, strict=True):
            new_target = _find_watched(state, hook)
            if old_target == new_target:
                continue
            if old_target is not None:
                yield _build_watch(
                    links, event, (hook, old_target), "left", _removal_kind(links, event, hook)
                )
            if new_target is not None:
                how = _installation_kind(state, event, hook)
                yield _build_watch(links, event, (hook, new_target), "installed", how)


def _find_watched(state: SessionState, hook: AgentId) -> AgentId | None:
    """Return the agent that a hook watches, or None if it is not a hook."""
    agent = state.agents.get(hook)
    return agent.parent if agent is not None and agent.place == "hook" else None


def _installation_kind(state: SessionState, event: AgentCreated | AgentMoved, hook: AgentId) -> How:
    if isinstance(event, AgentMoved):
        return "moved"
    if len(causes_of(event)) > 1:
        return "made"
    watched = state.agents[hook].parent
    parent = None if watched is None else state.agents[watched].parent
    hooks = state.agents[parent].hooks if parent is not None else []
    # A copy may have a suffix in its name.
    original_name = re.sub(r" \(\d+\)$", "", event.name or "")
    names = [state.agents[hook_id].name for hook_id in hooks]
    return "copied" if original_name in names or event.name in names else "begun"


def _removal_kind(links: Links, event: AgentCreated | AgentMoved, hook: AgentId) -> How:
    if getattr(event, "place", None) != "gone":
        return "moved"
    return "quit" if _find_author(links, event) == hook else "ended"


def _find_author(links: Links, event: Event) -> AgentId | None:
    """Return the author of an event's last cause; for a creation event, the caller of `hook`."""
    causes = causes_of(event)
    return links.author(links.target(causes[-1])) if causes else None


def _system_prompt(links: Links, birth: AgentCreated) -> str | None:
    """Return the system prompt that follows an agent's creation event, or None."""
    next_events = links.events[links.positions[birth.message_id] + 1 :][:1]
    for entry in next_events:
        if isinstance(entry, TranscriptEntry) and entry.agent_id == birth.agent_id:
            return words(entry.content) if entry.role == "system" else None
    return None


def _build_watch(
    links: Links,
    event: AgentCreated | AgentMoved,
    pair: tuple[AgentId, AgentId],
    kind: Literal["installed", "left"],
    how: How,
) -> Watch:
    has_author = how in ("made", "moved", "quit", "ended")
    by = _find_author(links, event) if has_author else None
    hook, watched = pair
    return Watch(
        kind=kind,
        how=how,
        message_id=event.message_id,
        hook=hook,
        hook_name=links.names.latest_name(hook),
        agent_id=watched,
        name=links.names.latest_name(watched),
        by=by,
        by_name=links.names.latest_name(by) if by is not None else None,
        cause=causes_of(event)[-1] if has_author and causes_of(event) else None,
        instructions=_system_prompt(links, event) if isinstance(event, AgentCreated) else None,
        time=event.time,
    )


VerdictKind: TypeAlias = Literal["ok", "comment", "denial", "rewrite", "failure"]
Point: TypeAlias = Literal["input", "action", "result", "response"]

_KINDS: dict[str, VerdictKind] = {
    "ok": "ok",
    "comment": "comment",
    "deny": "denial",
    "rewrite": "rewrite",
    "stop": "denial",
}


class VerdictEffect(SparseRecord, frozen=True, kw_only=True):
    """The effect of a verdict on an agent: a comment, a refusal, or another text or call."""

    message_id: MessageId
    agent_id: AgentId | None
    name: str | None
    text: str


class VerdictRow(SparseRecord, frozen=True, kw_only=True):
    """A verdict of a hook."""

    kind: VerdictKind
    point: Point
    """The kind of subject."""
    message_id: MessageId
    """Id of the verdict in the hook's transcript, or of the event if the hook wrote no message."""
    hook: AgentId
    hook_name: str | None
    text: str
    """The comment, the reason, the replacement, or the error."""
    question: MessageId
    """Id of the question in the hook's transcript, or else `message_id`. Earlier hooks may have
    rewritten its text.
    """
    subject: Reference
    """The message or call that was judged."""
    agent_id: AgentId | None
    """The watched agent, which the subject belongs to."""
    name: str | None
    proposed: str
    """The subject: a message text, or a call verbatim."""
    outcomes: list[VerdictEffect] = msgspec.field(default_factory=list)
    """Effects of the verdict, oldest first.

    Empty if a later verdict denied the subject. Each of several consecutive rewrites has the final
    text.
    """
    time: str


def verdicts(events: Iterable[Event]) -> list[VerdictRow]:
    """Return the verdicts of all hooks, oldest first."""
    links = Links.of(events)
    rewritten: dict[MessageId, list[Intervention]] = {}
    for row in interventions(links):
        if row.kind == "message":
            rewritten.setdefault(row.message_id, []).append(row)
    reader = _Reader(links, rewritten)
    return list(reader.iter_rows())


HookRow: TypeAlias = Watch | VerdictRow | Intervention


def hook_rows(events: Iterable[Event]) -> list[HookRow]:
    """Return the watches, verdicts and interventions of a session, in the order of the log."""
    links = Links.of(events)
    rows_by_id: list[tuple[MessageId, HookRow]] = [
        *((row.message_id, row) for row in watches(links)),
        *((row.message_id, row) for row in verdicts(links)),
        *((row.became_id, row) for row in interventions(links)),
    ]
    return [row for _, row in sorted(rows_by_id, key=lambda pair: links.positions[pair[0]])]


def verdict_kind(event: HookVerdict) -> VerdictKind:
    """Return the kind of a verdict."""
    return "failure" if event.failed is not None else _KINDS[event.verdict]


class _Reader(msgspec.Struct, frozen=True):
    """Builds rows of judgements."""

    links: Links
    rewritten: Mapping[MessageId, Sequence[Intervention]]
    """Original message -> its changed versions."""

    def iter_rows(self) -> Iterator[VerdictRow]:
        """Yield the rows of all verdicts."""
        questions: dict[tuple[AgentId | None, Reference], MessageId] = {}
        for event in self.links:
            if isinstance(event, TranscriptEntry) and event.purpose == "question":
                for subject in causes_of(event):
                    questions[event.agent_id, subject] = event.message_id
            elif isinstance(event, HookVerdict):
                yield self._row(event, questions.get((event.agent_id, event.subject)))

    def _row(self, event: HookVerdict, question: MessageId | None) -> VerdictRow:
        """Return the row of a verdict."""
        subject, call = (
            self.links.get(self.links.target(event.subject)),
            self.links.find_call(event.subject),
        )
        statement = self.links.get(event.said)
        id_ = event.message_id if statement is None else statement.message_id
        kind = verdict_kind(event)
        return VerdictRow(
            kind=kind,
            point=event.point,
            message_id=id_,
            hook=event.agent_id or AgentId(""),
            hook_name=self.links.names.latest_name(event.agent_id),
            text=event.failed or event.text or "",
            question=question or id_,
            subject=event.subject,
            agent_id=event.watched,
            name=self.links.names.latest_name(event.watched),
            proposed=_event_text(subject) if call is None else call_text(call),
            outcomes=list(self._iter_effects(event, kind)),
            time=event.time,
        )

    def _iter_effects(self, event: HookVerdict, kind: VerdictKind) -> Iterator[VerdictEffect]:
        """Yield the events that the verdict caused, or else the outcome of its subject."""
        subject = event.subject
        caused = self._find_caused(event.message_id)
        if caused or kind in ("ok", "comment"):
            yield from map(self._build_effect, caused)
        elif event.point == "action":
            yield from map(self._build_effect, self._find_call_outcome(subject))
        elif event.point == "response" and kind == "rewrite":
            for intervention in self.rewritten.get(self.links.target(subject), ()):
                yield _create_effect(
                    intervention.became_id,
                    intervention.heard_by,
                    intervention.heard_by_name,
                    intervention.became,
                )
            for verdict in self._find_stated(subject):
                yield from map(self._build_effect, self._find_caused(verdict.message_id))

    def _find_stated(self, answer: Reference) -> list[HookVerdict]:
        """Return the verdicts that the answer of a hook states."""
        events = self.links.events_to(self.links.target(answer))
        return [
            event for event in events if isinstance(event, HookVerdict) and event.said == answer
        ]

    def _find_caused(self, message_id: MessageId) -> list[Event]:
        """Return the events that name a verdict as their cause.

        These are messages to the watched agent, rewritten calls, and the edit that removed an input
        from its context.
        """
        return [
            event
            for event in self.links.events_to(message_id)
            if isinstance(event, TranscriptEntry | ActionRewritten | TranscriptEdited)
            and message_id in causes_of(event)
        ]

    def _find_call_outcome(self, call: Reference) -> Sequence[Event]:
        """Return the later rewrites of a call, or else its result."""
        answers = [
            event
            for event in self.links.events_to(self.links.target(call))
            if any(
                link.kind == "call" and link.reference == call
                for link in self.links.links_from(event)
            )
        ]
        return [event for event in answers if isinstance(event, ActionRewritten)] or answers

    def _build_effect(self, event: Event) -> VerdictEffect:
        text = _event_text(event)
        if isinstance(event, ActionRewritten):
            text = f"{event.tool} {event.arguments}"
        if isinstance(event, TranscriptEdited):
            text = f"nothing of it ({event.reason})"
        return _create_effect(
            event.message_id, event.agent_id, self.links.names.latest_name(event.agent_id), text
        )


def _create_effect(
    id_: MessageId, agent_id: AgentId | None, name: str | None, text: str
) -> VerdictEffect:
    return VerdictEffect(message_id=id_, agent_id=agent_id, name=name, text=text)


def _event_text(event: Event | None) -> str:
    return words(event.content) if isinstance(event, TranscriptEntry | PieceOfText) else ""
