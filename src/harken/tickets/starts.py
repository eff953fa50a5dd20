"""`StartLedger`: the starts of agents, as versions of their tickets.

A start is recorded by compare-and-swap before the agent runs, and its end with the answer or the
failure after it. So any process that reads the tickets knows which starts are due, running, failed
and done, and of several processes one begins a start.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from harken.core import structs
from harken.core.clock import Clock, format_rfc3339, parse_rfc3339, system_clock
from harken.core.commits import ArtifactRef, CommitId, TicketId
from harken.errors import TicketError
from harken.store.base import Store
from harken.tickets.change import TicketChange
from harken.tickets.histories import HistoryReader
from harken.tickets.record import read_versions
from harken.tickets.start import AgentStart, StartCondition, TicketHistory, plan_starts
from harken.tickets.ticket import (
    MAX_TEXT_CHARS,
    StartRecord,
    Ticket,
    TicketEvent,
    TicketVersion,
    short_id,
)
from harken.tickets.tracker import Tickets, resolve_context

MAX_FAILED_ATTEMPTS = 3
"""The number of failed attempts that end a start, although each failure might have passed."""
FIRST_RETRY_S = 30.0
"""The time between the first failed attempt and the next one. It doubles with each failure."""
StartState: TypeAlias = Literal["running", "done", "failed"]


class RecordedStart(msgspec.Struct, frozen=True):
    """A start that was recorded, as of its last step."""

    ticket: TicketId
    record: StartRecord
    step: TicketVersion
    """The version of the last step."""
    begun: str
    """The time of the first step, RFC 3339."""
    head: ArtifactRef
    """The version of the ticket for which this was read."""

    @property
    def id(self) -> str:
        """The id of the start."""
        return self.record.id

    @property
    def principal(self) -> str:
        """The principal of the agent."""
        return self.record.principal

    @property
    def event(self) -> TicketEvent:
        """The event that fulfilled the condition."""
        return self.record.event

    @property
    def version(self) -> ArtifactRef:
        """The version that fulfilled the condition."""
        return self.record.version

    @property
    def state(self) -> StartState:
        """Whether its agent runs or has to be continued, or how it has ended."""
        if self.step.action == "start":
            return "running"
        return "done" if self.step.action == "finish" else "failed"

    @property
    def retry_at_us(self) -> int:
        """The time of the next attempt, in microseconds. 0: at once."""
        attempts = self.record.attempts
        if not attempts:
            return 0
        delay_s = FIRST_RETRY_S * 2.0 ** (min(attempts, MAX_FAILED_ATTEMPTS) - 1)
        return parse_rfc3339(self.step.time) + int(delay_s * 1_000_000)


class StartsReading(msgspec.Struct, frozen=True):
    """The starts of a store."""

    due: Sequence[AgentStart] = ()
    """Not recorded, oldest change first; one for each principal of a ticket."""
    blocked: Sequence[AgentStart] = ()
    """Not recorded: another start of the principal in this ticket comes first."""
    recorded: Sequence[RecordedStart] = ()
    damaged: Mapping[TicketId, str] = msgspec.field(default_factory=dict)
    """The problems of tickets that cannot be read."""

    @property
    def next(self) -> list[AgentStart | RecordedStart]:
        """The starts that a process can begin or continue: due or running."""
        return [*self.due, *self.running]

    @property
    def open(self) -> list[AgentStart | RecordedStart]:
        """The starts that have not ended, and the due ones and those that they block."""
        return [*self.next, *self.blocked]

    @property
    def running(self) -> list[RecordedStart]:
        """The starts that have not ended."""
        return [start for start in self.recorded if start.state == "running"]

    @property
    def failed(self) -> list[RecordedStart]:
        """The starts that have ended without a result."""
        return [start for start in self.recorded if start.state == "failed"]


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
        needs_blockers = any(c.event == "ready" for c in self.conditions.values())
        self._reader = HistoryReader(store, needs_blockers=needs_blockers)

    def read(self, only: Collection[TicketId] | None = None) -> StartsReading:
        """Return the starts of all tickets, or of these."""
        histories, damaged = self._reader.read(only)
        recorded = [
            start
            for id_, history in histories.items()
            if only is None or id_ in only
            for start in list_recorded(id_, history)
            if start.record.condition in self.conditions
        ]
        busy = {(start.ticket, start.principal) for start in recorded if start.state == "running"}
        started = {v.start.id for h in histories.values() for _, v in h if v.start is not None}
        due: list[AgentStart] = []
        blocked: list[AgentStart] = []
        now = format_rfc3339(self._clock())
        for planned in plan_starts(histories, self.conditions.values(), started=started, now=now):
            if only is not None and planned.ticket not in only:
                continue
            start = self._resolve(planned, histories[planned.ticket])
            principal = (start.ticket, start.principal)
            (blocked if principal in busy else due).append(start)
            busy.add(principal)
        return StartsReading(due, blocked, recorded, damaged)

    def record(self, start: AgentStart) -> RecordedStart | None:
        """Record a start that is due. Return None if the ticket has changed meanwhile.

        A ticket that is ready is assigned to the agent, and is in progress.
        """
        event = start.condition.event
        record = StartRecord(
            id=start.id,
            condition=start.condition.name,
            event=event,
            version=start.version,
            principal=start.principal,
            template=start.template,
            context_id=start.context_id,
            thread_id=start.ticket if event in ("note", "closed") else "",
            owner=self.owner,
        )
        change = TicketChange()
        if event == "ready":
            change = TicketChange(status="in_progress", assignee=start.principal)
        return self._begin(start.ticket, record, start.head, change)

    def restart(self, start: RecordedStart) -> RecordedStart | None:
        """Record that this owner runs a failed start again, from the tip of its principal.

        Return None if the ticket has changed meanwhile. Raises TicketError if the principal has
        another start in this ticket, which has not ended.
        """
        history = self._tickets.history(start.ticket)
        for other in list_recorded(start.ticket, history):
            if other.state == "running" and other.principal == start.principal:
                reason = f"{start.principal} is busy with it: try again after that"
                raise TicketError(short_id(start.ticket), reason)
        own = [v.context_id for _, v in history if v.author == start.principal and v.context_id]
        record = structs.replace(
            start.record,
            owner=self.owner,
            attempts=0,
            restarts=start.record.restarts + 1,
            context_id=own[-1] if own else start.record.context_id,
        )
        return self._begin(start.ticket, record, start.head, TicketChange())

    def take_over(self, start: RecordedStart) -> RecordedStart | None:
        """Record that this owner runs a start of another one.

        Return None if the start has ended meanwhile, or has another owner.
        """
        return self._step(start, structs.replace(start.record, owner=self.owner))

    def finish(self, start: RecordedStart, answer: str, context_id: str) -> RecordedStart | None:
        """Record the end of a start, for its principal at its last commit.

        A reviewer that was asked for a disposition and has none has failed. Return None if its end
        is recorded already, or if another owner has taken it over.
        """
        if self._lacks_disposition(start):
            task = "its review" if start.record.event == "review" else "the verification"
            said = f": {answer}" if answer else ""
            return self.fail(start, f"{start.principal} ended without concluding {task}{said}")
        tickets = Tickets(
            self.store, start.principal, context=lambda: context_id, clock=self._clock
        )
        after = tickets.record_step(
            *(start.ticket, "finish", start.record),
            before=start.step,
            note=answer[:MAX_TEXT_CHARS],
        )
        return None if after is None else _follow(start, after)

    def fail(
        self, start: RecordedStart, reason: str, *, may_pass: bool = False
    ) -> RecordedStart | None:
        """Record a failed attempt of a start. It ends, unless the failure may pass.

        Return None if its end is recorded already, or if another owner has taken it over.
        """
        attempts = start.record.attempts + 1
        record = structs.replace(start.record, attempts=attempts)
        is_ended = not may_pass or attempts >= MAX_FAILED_ATTEMPTS
        return self._step(start, record, note=reason, is_failed=is_ended)

    def read_change(self, start: RecordedStart) -> tuple[Ticket, TicketVersion]:
        """Return the ticket, and the change that fulfilled the condition."""
        name = start.record.version
        return self._tickets.get(start.ticket), read_versions(self.store, [name])[name]

    def find_start(self, ticket: TicketId, change: ArtifactRef) -> RecordedStart | None:
        """Return the start for a change, or None if it is not recorded."""
        starts = list_recorded(ticket, self._tickets.history(ticket))
        return next((start for start in starts if start.record.version == change), None)

    def _lacks_disposition(self, start: RecordedStart) -> bool:
        """Whether a start asked its reviewer for a disposition, still asks, and has none."""
        record = start.record
        if record.event not in ("review", "closed"):
            return False
        history = self._tickets.history(start.ticket)
        names = [name for name, _ in history]
        states = [version.ticket for _, version in history[names.index(record.version) :]]
        still_asks = states[-1].status == ("review" if record.event == "review" else "closed")
        given = (state.reviewers.get(record.principal) for state in states)
        return still_asks and all(disposition == "pending" for disposition in given)

    def _begin(
        self, ticket: TicketId, record: StartRecord, head: ArtifactRef, change: TicketChange
    ) -> RecordedStart | None:
        after = self._tickets.record_start(ticket, record, expected=head, change=change)
        if after is None:
            return None
        return RecordedStart(ticket, record, after.version, after.version.time, after.head)

    def _step(
        self, start: RecordedStart, record: StartRecord, *, note: str = "", is_failed: bool = False
    ) -> RecordedStart | None:
        after = self._tickets.record_step(
            *(start.ticket, "fail" if is_failed else "start", record),
            before=start.step,
            note=note[:MAX_TEXT_CHARS],
        )
        return None if after is None else _follow(start, after)

    def _resolve(self, start: AgentStart, history: TicketHistory) -> AgentStart:
        """Return a start with its context, template and principal.

        The template is that of the condition, else that of the principal's commits, else the one
        named as the principal. A principal that is neither named as the template nor has commits
        of one may be a person: the agent has its template's name as its principal.
        """
        context_id = start.context_id
        created = history[0][1]
        if not context_id and start.principal == created.author:
            # The ticket's author continues from its last commit before it.
            context_id = resolve_context(self.store, created) or ""
        names = [CommitId(context_id)] if context_id else []
        commits = [stored.commit for stored in self.store.commits(names).values()]
        own = [c.template for c in commits if main_principal(c.principal) == start.principal]
        template = next(filter(None, [start.condition.template, *own]), start.principal)
        is_agent = any(own) or template == start.principal or start.condition.event != "in_progress"
        principal = start.principal if start.principal and is_agent else template
        return structs.replace(start, context_id=context_id, template=template, principal=principal)


def list_recorded(ticket: TicketId, history: TicketHistory) -> list[RecordedStart]:
    """Return the starts that are recorded in a ticket, each by its last step, oldest first."""
    steps: dict[str, list[TicketVersion]] = {}
    for _, version in history:
        if version.start is not None:
            steps.setdefault(version.start.id, []).append(version)
    return [
        RecordedStart(ticket, versions[-1].start, versions[-1], versions[0].time, history[-1][0])
        for versions in steps.values()
        if versions[-1].start is not None
    ]


def _follow(start: RecordedStart, after: Ticket) -> RecordedStart:
    """Return a start as of its next step."""
    record = after.version.start or start.record
    return structs.replace(start, record=record, step=after.version, head=after.head)


def main_principal(principal: str) -> str:
    """Return the principal of a session from that of its agent or subagent.

    >>> main_principal("rita/critic")
    'rita'
    """
    return principal.partition("/")[0]
