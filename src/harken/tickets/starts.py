"""`StartLedger`: the starts of agents, as versions of their tickets.

A start is recorded by compare-and-swap before the agent runs, and its end with the answer after it.
So any process that reads the tickets knows which starts are due, which were begun, and which have
ended, and of several processes one begins a start.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from harken.core.clock import Clock, format_rfc3339, system_clock
from harken.core.commits import ArtifactRef, CommitId, TicketId
from harken.errors import ObjectCorrupted, ObjectNotFound
from harken.store.base import Store
from harken.tickets.change import TicketChange
from harken.tickets.record import list_heads, read_versions
from harken.tickets.start import AgentStart, StartCondition, TicketHistory, plan_starts
from harken.tickets.ticket import (
    MAX_TEXT_CHARS,
    StartRecord,
    Ticket,
    TicketVersion,
    check_change,
)
from harken.tickets.tracker import Tickets, resolve_context


@dataclass(frozen=True, slots=True)
class RecordedStart:
    """A start that was recorded, and has not ended."""

    ticket: TicketId
    record: StartRecord
    time: str
    """The time of the record, RFC 3339."""
    head: ArtifactRef
    """The version of the ticket for which this was read."""


@dataclass(frozen=True, slots=True)
class StartsReading:
    """The starts of a store that need a process."""

    due: Sequence[AgentStart] = ()
    """Not recorded, oldest change first; one for each principal of a ticket."""
    unfinished: Sequence[RecordedStart] = ()
    damaged: Mapping[TicketId, str] = field(default_factory=dict)
    """The problems of tickets that cannot be read."""


class StartLedger:
    """The starts of a store, for one owner: a home that runs agents. Not shared by threads."""

    def __init__(
        self,
        store: Store,
        conditions: Iterable[StartCondition],
        *,
        author: str,
        owner: str,
        clock: Clock = system_clock,
    ) -> None:
        """Read and record starts for these conditions. `author` is the author of the records."""
        self.store, self.owner = store, owner
        self.conditions = {condition.name: condition for condition in conditions}
        self._clock = clock
        self._tickets = Tickets(store, author, clock=clock)
        self._histories: dict[TicketId, TicketHistory] = {}

    def read(self, only: Collection[TicketId] | None = None) -> StartsReading:
        """Return the starts that are due or unfinished, of all tickets or of these."""
        histories, damaged = self._read_histories()
        unfinished = [
            start
            for id_, history in histories.items()
            for start in _iter_unfinished(id_, history)
            if start.record.condition in self.conditions and (only is None or id_ in only)
        ]
        started = {v.start.id for h in histories.values() for _, v in h if v.start is not None}
        busy = {(start.ticket, start.record.principal) for start in unfinished}
        due: list[AgentStart] = []
        now = format_rfc3339(self._clock())
        for start in plan_starts(histories, self.conditions.values(), started=started, now=now):
            principal = (start.ticket, start.principal)
            if principal not in busy and (only is None or start.ticket in only):
                busy.add(principal)
                due.append(self._resolve_context(start, histories[start.ticket]))
        return StartsReading(due, unfinished, damaged)

    def record(self, start: AgentStart, template: str) -> RecordedStart | None:
        """Record a start that is due. Return None if the ticket has changed meanwhile.

        A ticket that is ready is assigned to the agent, and is in progress.
        """
        principal = start.principal or template
        event = start.condition.event
        record = StartRecord(
            id=start.id,
            condition=start.condition.name,
            event=event,
            version=start.version,
            principal=principal,
            template=template,
            context_id=start.context_id,
            thread_id=start.ticket if event in ("note", "closed") else "",
            owner=self.owner,
        )
        change = TicketChange()
        if event == "ready":
            change = TicketChange(status="in_progress", assignee=principal)
        return self._write(start.ticket, record, start.head, change)

    def find_template(self, start: AgentStart) -> str:
        """Return the template of a start.

        It is that of the condition, else of the context from which the agent starts, else the one
        that is named as the principal.
        """
        context = [CommitId(start.context_id)] if start.context_id else []
        commits = self.store.commits(context).values()
        templates = [start.condition.template, *(stored.commit.template for stored in commits)]
        return next(filter(None, templates), start.principal)

    def take_over(self, start: RecordedStart) -> RecordedStart | None:
        """Record that this owner runs a start of another one.

        Return None if the ticket has changed meanwhile.
        """
        record = msgspec.structs.replace(start.record, owner=self.owner)
        return self._write(start.ticket, record, start.head, TicketChange())

    def finish(self, start: RecordedStart, answer: str, context_id: str) -> Ticket | None:
        """Record the end of a start, for its principal at its last commit.

        Return None if its end is recorded already, or if another owner has taken it over.
        """
        tickets = Tickets(
            self.store, start.record.principal, context=lambda: context_id, clock=self._clock
        )
        return tickets.record_finish(start.ticket, start.record, answer=answer[:MAX_TEXT_CHARS])

    def read_change(self, start: RecordedStart) -> tuple[Ticket, TicketVersion]:
        """Return the ticket, and the change that fulfilled the condition."""
        name = start.record.version
        return self._tickets.get(start.ticket), read_versions(self.store, [name])[name]

    def find_answer(self, ticket: TicketId, change: ArtifactRef) -> TicketVersion | None:
        """Return the version that ends the start for a change, or None if it has not ended."""
        for _, version in reversed(self._tickets.history(ticket)):
            if version.action == "finish" and version.start and version.start.version == change:
                return version
        return None

    def _write(
        self, ticket: TicketId, record: StartRecord, head: ArtifactRef, change: TicketChange
    ) -> RecordedStart | None:
        after = self._tickets.record_start(ticket, record, expected=head, change=change)
        if after is None:
            return None
        return RecordedStart(ticket, record, after.version.time, after.head)

    def _resolve_context(self, start: AgentStart, history: TicketHistory) -> AgentStart:
        """Return a start of the ticket's author from its last commit before it, if it has none."""
        created = history[0][1]
        if start.context_id or start.principal != created.author:
            return start
        return replace(start, context_id=resolve_context(self.store, created) or "")

    def _read_histories(self) -> tuple[dict[TicketId, TicketHistory], dict[TicketId, str]]:
        """Read the versions that are new since the last call."""
        heads, damaged = list_heads(self.store)
        histories: dict[TicketId, TicketHistory] = {}
        for id_, head in heads.items():
            try:
                histories[id_] = self._extend_history(self._histories.get(id_, []), head)
            except (ObjectNotFound, ObjectCorrupted, ValueError) as error:
                damaged[id_] = str(error)
        self._histories = histories
        return histories, damaged

    def _extend_history(self, history: TicketHistory, head: ArtifactRef) -> TicketHistory:
        """Return a history up to a head. Raises ObjectNotFound, ObjectCorrupted, ValueError."""
        new: list[tuple[ArtifactRef, TicketVersion]] = []
        indexes = {name: index for index, (name, _) in enumerate(history)}
        name: ArtifactRef | None = head
        while name is not None and name not in indexes:
            version = read_versions(self.store, [name])[name]
            check_change(version)  # It may come from a bundle, and the id of a start names a file.
            new.append((name, version))
            name = version.parent
        return [*history[: 0 if name is None else indexes[name] + 1], *reversed(new)]


def _iter_unfinished(ticket: TicketId, history: TicketHistory) -> Iterator[RecordedStart]:
    """Yield the starts of a ticket that have not ended, each by its last record."""
    last: dict[str, TicketVersion] = {
        version.start.id: version for _, version in history if version.start is not None
    }
    for version in last.values():
        if version.action == "start" and version.start is not None:
            yield RecordedStart(ticket, version.start, version.time, history[-1][0])
