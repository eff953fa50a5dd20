"""`StartRunner`: run the agents of the starts that are due, and resume those that were cut off.

Each step may be the last one of its process. A start that was recorded and has not ended is
resumed by its owner, or taken over by another one after a time without a commit of its session. A
failure is recorded as well: the start ends with it, or is attempted again if it may pass.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Literal, TypeAlias

import msgspec

from harken.core.clock import Clock, parse_rfc3339, system_clock
from harken.core.commits import TicketId
from harken.errors import (
    ConfigError,
    HarkenError,
    LogLocked,
    LogWriteError,
    ModelError,
    StoreLocked,
    StoreUnavailable,
    StoreWriteError,
)
from harken.review.prompts import build_prompt
from harken.review.task import AgentOutcome, AgentRunner, AgentTask
from harken.review.tools import reading_tool, reviewing_tools, verifying_tools
from harken.store.base import Store, StoredCommit
from harken.tickets.start import AgentStart
from harken.tickets.starts import (
    MAX_FAILED_ATTEMPTS,
    RecordedStart,
    StartLedger,
    StartsReading,
    main_principal,
)
from harken.tickets.ticket import Ticket, short_id
from harken.tickets.tools import ticket_tools
from harken.world.tool import Tool

TAKE_OVER_S = 3600.0
"""The time without a commit after which a start of another home is taken over."""
UNAVAILABLE_S = 30.0
"""The time after which a home that lacks a template or a model looks for it again."""
POLL_INTERVAL_S = 0.5
"""The interval of looks at starts that another process runs."""
_SCANNED_COMMITS = 2000
"""The number of commits that are read first to find the last one of a session."""
_CLOCK_SKEW_US = 24 * 3600 * 1_000_000
"""The greatest difference that the clocks of two machines are expected to have."""
_PASSING = frozenset({"rate_limit", "overloaded", "timeout", "network", "malformed"})
"""The failures of a model that may pass."""
Phase: TypeAlias = Literal[
    "started", "resumed", "finished", "retrying", "failed", "unavailable", "elsewhere"
]
"""`retrying`: an attempt failed, and there is another one. `unavailable`: this home lacks its
template or model, so another home or a person may do it. `elsewhere`: another process runs it.
"""


class StartEvent(msgspec.Struct, frozen=True):
    """A step of a start, for a person to read."""

    phase: Phase
    ticket: TicketId
    principal: str
    condition: str
    text: str = ""
    """The answer, or the error."""


class StartRunner(msgspec.Struct, kw_only=True):
    """Runs the agents of a ledger, one after the other."""

    ledger: StartLedger
    agents: AgentRunner
    on_event: Callable[[StartEvent], None]
    take_over_s: float = TAKE_OVER_S
    clock: Clock = system_clock
    retries: bool = False
    """Whether a failed attempt is followed by the next one, when its time has come. Otherwise this
    process attempts each start once, at once."""
    has_failed: bool = False
    """Whether an attempt failed, or a ticket could not be read."""
    _attempted: set[str] = msgspec.field(default_factory=set)
    """Starts of which an attempt of this process failed."""
    _unavailable: dict[str, tuple[int, str]] = msgspec.field(default_factory=dict)
    """Starts that this home cannot run: the time at which that was seen, and why."""
    _damaged: dict[TicketId, str] = msgspec.field(default_factory=dict)
    """The problems of tickets, each reported once."""

    def run_all(self, only: Collection[TicketId] | None = None) -> int:
        """Run all starts that are due, of all tickets or of these, and those that follow.

        Return the number of agents that have finished. Raises StoreError.
        """
        total = 0
        while True:
            ended, finished = self._run_once(only)
            total += finished
            if not ended:
                return total

    def run_until_ended(
        self,
        only: Collection[TicketId],
        is_wanted: Callable[[AgentStart | RecordedStart], bool],
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Run the starts of these tickets, and wait for the wanted ones that other processes run.

        Return when the wanted starts have ended, or cannot be run by this process now.
        """
        reported: set[str] = set()
        while True:
            self.run_all(only)
            reading = self.ledger.read(only)
            waits = {
                (start.ticket, start.principal) for start in reading.open if is_wanted(start)
            } - self._stuck(reading)
            if not waits:
                return
            for start in reading.running:
                if (start.ticket, start.principal) in waits and start.id not in reported:
                    reported.add(start.id)
                    self._report("elsewhere", start, self._describe_owner(start))
            sleep(POLL_INTERVAL_S)

    def restart(self, ticket: TicketId, start_id: str) -> None:
        """Start a failed start of a ticket again, and run it. Raises TicketError, StoreError."""
        for start in self.ledger.read({ticket}).failed:
            if start.id == start_id and self._check_agent(start, start.record.template):
                self._attempted.discard(start.id)
                self.ledger.restart(start)
        self.has_failed |= start_id in self._unavailable
        self.run_all({ticket})

    def why_unavailable(self, start_id: str) -> str:
        """Return why this home cannot run a start, or an empty text."""
        return self._unavailable.get(start_id, (0, ""))[1]

    def _stuck(self, reading: StartsReading) -> set[tuple[TicketId, str]]:
        """Return the tickets and principals whose next start this process does not run now."""
        return {
            (start.ticket, start.principal)
            for start in reading.next
            if start.id in self._attempted or start.id in self._unavailable
        }

    def _describe_owner(self, start: RecordedStart) -> str:
        if self.agents.is_running(start.record.session):
            return f"another process of this home runs it since {start.begun}"
        return (
            f"the home {start.record.owner[:8]} runs it since {start.begun}; "
            "--take-over 0s continues it here, if that home is gone"
        )

    def _run_once(self, only: Collection[TicketId] | None) -> tuple[int, int]:
        """Run what is due now. Return the number of starts that have ended and finished."""
        reading = self.ledger.read(only)
        for id_, problem in reading.damaged.items():
            self.has_failed = True
            if self._damaged.get(id_) != problem:
                self._damaged[id_] = problem
                text = f"{short_id(id_)} cannot be read: {problem}"
                self.on_event(StartEvent("failed", id_, "", "", text))
        ends = [self._resume(start) for start in reading.running if self._may_attempt(start)]
        ends += [self._begin(start) for start in reading.due if self._may_attempt(start)]
        states = [end.state for end in ends if end is not None]
        return len(states) - states.count("running"), states.count("done")

    def _may_attempt(self, start: AgentStart | RecordedStart) -> bool:
        """Whether this process may attempt a start now."""
        now = self.clock()
        seen_at = self._unavailable.get(start.id, (0, ""))[0]
        if seen_at and not (self.retries and now - seen_at >= UNAVAILABLE_S * 1_000_000):
            return False
        if not self.retries:
            return start.id not in self._attempted
        return isinstance(start, AgentStart) or now >= start.retry_at_us

    def _begin(self, due: AgentStart) -> RecordedStart | None:
        """Record a start and run its agent. Return it if an attempt has ended."""
        if not self._check_agent(due, due.template):
            return None
        start = self.ledger.record(due)
        if start is None:
            return None  # Another process was faster, or the ticket has changed.
        self._report("started", start)
        return self._run(start, None, is_new=True)

    def _resume(self, start: RecordedStart) -> RecordedStart | None:
        """Continue a start that was cut off. Return it if an attempt has ended."""
        is_own = start.record.owner == self.ledger.owner
        if self.agents.is_running(start.record.session) or not (
            is_own or self._is_old(start.step.time)
        ):
            return None
        if not self._check_agent(start, start.record.template):
            return None
        tip = find_session_tip(self.ledger.store, start)
        if not is_own:
            if tip is not None and not self._is_old(tip.commit.created_at):
                return None
            taken = self.ledger.take_over(start)
            if taken is None:
                return None
            start = taken
        return self._run(start, tip, is_new=False)

    def _is_old(self, time: str) -> bool:
        """Whether a time is so long ago that a start without a later commit is taken over."""
        return self.clock() - parse_rfc3339(time) >= self.take_over_s * 1_000_000

    def _check_agent(self, start: AgentStart | RecordedStart, template: str) -> bool:
        """Whether this home can run the agent of a start. If not, report why, once."""
        session = start.record.session if isinstance(start, RecordedStart) else ""
        try:
            self.agents.check_template(template, session=session)
        except HarkenError as error:
            before = self.why_unavailable(start.id)
            self._unavailable[start.id] = self.clock(), str(error)
            if before != str(error):
                name = (
                    start.condition.name
                    if isinstance(start, AgentStart)
                    else start.record.condition
                )
                event = StartEvent("unavailable", start.ticket, start.principal, name, str(error))
                self.on_event(event)
            return False
        self._unavailable.pop(start.id, None)
        return True

    def _run(
        self, start: RecordedStart, tip: StoredCommit | None, *, is_new: bool
    ) -> RecordedStart | None:
        try:
            outcome = self.agents.run(self._build_task(start, tip, is_new=is_new))
        except LogLocked:
            return None  # Another process of this home runs it.
        except HarkenError as error:
            return self._fail(start, str(error), may_pass=may_pass(error))
        return self._finish(start, outcome)

    def _finish(self, start: RecordedStart, outcome: AgentOutcome) -> RecordedStart | None:
        if not outcome.is_answer:
            return self._fail(start, outcome.answer or "the agent has ended without an answer")
        end = self.ledger.finish(start, outcome.answer, outcome.context_id)
        if end is None:
            return None  # Another owner has taken it over.
        if end.state == "failed":
            return self._report_failure(end)
        self._report("finished", end, end.step.note)
        return end

    def _fail(
        self, start: RecordedStart, reason: str, *, may_pass: bool = False
    ) -> RecordedStart | None:
        end = self.ledger.fail(start, reason, may_pass=may_pass)
        return None if end is None else self._report_failure(end)

    def _report_failure(self, start: RecordedStart) -> RecordedStart:
        self.has_failed = True
        self._attempted.add(start.id)
        reason = start.step.note
        if start.state == "running":
            attempts = f"attempt {start.record.attempts} of {MAX_FAILED_ATTEMPTS}"
            self._report("retrying", start, f"{attempts} failed: {reason}")
        else:
            self._report("failed", start, reason)
        return start

    def _build_task(
        self, start: RecordedStart, tip: StoredCommit | None, *, is_new: bool
    ) -> AgentTask:
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
            on_locked=(lambda: None) if is_new else (lambda: self._report("resumed", start)),
        )

    def _report(self, phase: Phase, start: RecordedStart, text: str = "") -> None:
        record = start.record
        self.on_event(StartEvent(phase, start.ticket, record.principal, record.condition, text))


def may_pass(error: HarkenError) -> bool:
    """Whether a failure of an agent may pass, so that another attempt makes sense."""
    if isinstance(error, ModelError):
        return error.kind in _PASSING
    return isinstance(
        error, ConfigError | LogWriteError | StoreLocked | StoreUnavailable | StoreWriteError
    )


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
    """Return the newest commit of the session of a start. Return None if it has none.

    The commits of the store are read, newest first, back to a day before the start.
    """
    origin = (start.record.session, main_principal(start.principal))
    oldest_us = parse_rfc3339(start.begun) - _CLOCK_SKEW_US
    limit, known = _SCANNED_COMMITS, 0
    while True:
        names = store.newest_commits(limit)
        commits = store.commits(names[known:])
        for name in names[known:]:
            stored = commits.get(name)
            if stored is not None and (stored.commit.session_id, stored.commit.principal) == origin:
                return stored
        times = [parse_rfc3339(stored.commit.created_at) for stored in commits.values()]
        if len(names) < limit or max(times, default=0) < oldest_us:
            return None
        known, limit = len(names), 4 * limit
