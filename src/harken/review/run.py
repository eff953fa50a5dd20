"""`StartRunner`: run the agents of the starts that are due, and resume those that were cut off.

Each step may be the last one of its process. A start that was recorded and has not ended is
resumed by its owner, or taken over by another one after a time without a commit of its session.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from harken.core.clock import Clock, parse_rfc3339, system_clock
from harken.core.commits import TicketId
from harken.errors import HarkenError, LogLocked, NameNotFound, TicketError
from harken.review.prompts import build_prompt
from harken.review.task import AgentOutcome, AgentRunner, AgentTask
from harken.review.tools import reading_tool, reviewing_tools, verifying_tools
from harken.store.base import Store, StoredCommit
from harken.tickets.start import AgentStart
from harken.tickets.starts import RecordedStart, StartLedger
from harken.tickets.ticket import Ticket, short_id
from harken.tickets.tools import ticket_tools
from harken.world.tool import Tool

TAKE_OVER_S = 3600.0
"""The time without a commit after which a start of another home is taken over."""
MAX_SCANNED_COMMITS = 2000
"""The number of newest commits among which the last one of a session is looked for."""
Phase: TypeAlias = Literal["started", "resumed", "finished", "failed", "waiting"]
"""`waiting`: there is no template for it in this home, so another home or a person may do it."""


@dataclass(frozen=True, slots=True)
class StartEvent:
    """A step of a start, for a person to read."""

    phase: Phase
    ticket: TicketId
    principal: str
    condition: str
    text: str = ""
    """The answer, or the error."""


@dataclass(slots=True, kw_only=True)
class StartRunner:
    """Runs the agents of a ledger, one after the other."""

    ledger: StartLedger
    agents: AgentRunner
    on_event: Callable[[StartEvent], None]
    take_over_s: float = TAKE_OVER_S
    clock: Clock = system_clock
    failed: dict[str, HarkenError] = field(default_factory=dict)
    """Starts that failed, with their errors. They are not run again until `retry_failed`."""
    _waiting: set[str] = field(default_factory=set)
    """Starts for which this home has no template."""
    _reported: set[tuple[str, str]] = field(default_factory=set)
    """Starts with their errors, each reported once."""

    @property
    def has_failed(self) -> bool:
        """Whether an agent failed, other than for the lack of a template."""
        return not self._waiting.issuperset(self.failed)

    def retry_failed(self) -> None:
        """Run the starts that failed again, the next time."""
        self.failed.clear()
        self._waiting.clear()

    def run_all(self, only: Collection[TicketId] | None = None) -> int:
        """Run all starts that are due, of all tickets or of these, and those that follow.

        Return the number of agents that have finished.
        """
        total = 0
        while finished := self._run_once(only):
            total += finished
        return total

    def _run_once(self, only: Collection[TicketId] | None) -> int:
        reading = self.ledger.read(only)
        finished = 0
        for id_, problem in reading.damaged.items():
            self._fail(id_, id_, "", TicketError(short_id(id_), f"cannot be read: {problem}"))
        for unfinished in reading.unfinished:
            if unfinished.record.id not in self.failed:
                finished += self._resume(unfinished)
        for due in reading.due:
            if due.id not in self.failed:
                finished += self._begin(due)
        return finished

    def _begin(self, due: AgentStart) -> bool:
        """Record a start and run its agent. Return whether it has finished."""
        principal = due.principal or due.condition.template
        try:
            template = self.ledger.find_template(due)
            self.agents.check_template(template)
            start = self.ledger.record(due, template)
        except NameNotFound as error:
            self._waiting.add(due.id)
            self._fail(due.id, due.ticket, principal, error)
            return False
        except HarkenError as error:
            self._fail(due.id, due.ticket, principal, error)
            return False
        if start is None:
            return False  # Another process was faster, or the ticket has changed.
        self._report("started", start)
        return self._run(start, None)

    def _resume(self, start: RecordedStart) -> bool:
        """Continue a start that was cut off. Return whether it has finished."""
        is_own = start.record.owner == self.ledger.owner
        if self.agents.is_running(start.record.session) or not (is_own or self._is_old(start.time)):
            return False
        tip = find_session_tip(self.ledger.store, start)
        if not is_own:
            if tip is not None and not self._is_old(tip.commit.created_at):
                return False
            taken = self.ledger.take_over(start)
            if taken is None:
                return False
            start = taken
        self._report("resumed", start)
        return self._run(start, tip)

    def _is_old(self, time: str) -> bool:
        """Whether a time is so long ago that a start without a later commit is taken over."""
        return self.clock() - parse_rfc3339(time) >= self.take_over_s * 1_000_000

    def _run(self, start: RecordedStart, tip: StoredCommit | None) -> bool:
        record = start.record
        try:
            outcome = self.agents.run(self._build_task(start, tip))
            return self._finish(start, outcome)
        except LogLocked:
            return False  # Another process of this home runs it.
        except HarkenError as error:
            self._fail(record.id, start.ticket, record.principal, error, record.condition)
            return False

    def _finish(self, start: RecordedStart, outcome: AgentOutcome) -> bool:
        ticket = self.ledger.finish(start, outcome.answer, outcome.context_id)
        if ticket is None:
            return False  # Another owner has taken it over.
        self._report("finished", start, outcome.answer)
        return True

    def _build_task(self, start: RecordedStart, tip: StoredCommit | None) -> AgentTask:
        """Return the task of a start. It continues at the tip of its session, if there is one."""
        ticket, change = self.ledger.read_change(start)
        record = start.record
        return AgentTask(
            session=record.session,
            template=record.template,
            principal=record.principal,
            context_id=record.context_id if tip is None else tip.id,
            prompt=build_prompt(record.event, ticket, change) if tip is None else "",
            ticket=start.ticket,
            thread_id=record.thread_id,
            tools=lambda store: build_tools(store, record.event, ticket),
            tool_names=[tool.name for tool in build_tools(self.ledger.store, record.event, ticket)],
        )

    def _fail(
        self, start_id: str, ticket: TicketId, principal: str, error: HarkenError, name: str = ""
    ) -> None:
        self.failed[start_id] = error
        phase: Phase = "waiting" if start_id in self._waiting else "failed"
        if (start_id, str(error)) not in self._reported:
            self._reported.add((start_id, str(error)))
            self.on_event(StartEvent(phase, ticket, principal, name, str(error)))

    def _report(self, phase: Phase, start: RecordedStart, text: str = "") -> None:
        record = start.record
        self.on_event(StartEvent(phase, start.ticket, record.principal, record.condition, text))


def build_tools(store: Store, event: str, ticket: Ticket) -> list[Tool]:
    """Return the tools of the agent that an event of a ticket starts."""
    is_finding = ticket.state.type == "review_finding"
    if event == "review":
        return reviewing_tools(store, ticket.id)
    if is_finding and event == "closed":
        return verifying_tools(store, ticket)
    if is_finding and event == "note" and ticket.state.parent is not None:
        return [reading_tool(store, ticket.state.parent)]
    return ticket_tools(store)


def find_session_tip(store: Store, start: RecordedStart) -> StoredCommit | None:
    """Return the newest commit of the session of a start. Return None if it has none."""
    names = store.newest_commits(MAX_SCANNED_COMMITS)
    commits = store.commits(names)
    origin = (start.record.session, main_principal(start.record.principal))
    for name in names:
        stored = commits.get(name)
        if stored is not None and (stored.commit.session_id, stored.commit.principal) == origin:
            return stored
    return None


def main_principal(principal: str) -> str:
    """Return the principal of a session from that of its agent or subagent.

    >>> main_principal("rita/critic")
    'rita'
    """
    return principal.partition("/")[0]
