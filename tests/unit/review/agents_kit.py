"""Agents without models, whose process may die before or after the answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from harken.errors import HarkenError, LogLocked, NameNotFound
from harken.review.conditions import REVIEW_CONDITIONS
from harken.review.run import StartEvent, StartRunner
from harken.review.task import AgentOutcome, AgentTask
from harken.store.base import Store
from harken.tickets.change import TicketChange
from harken.tickets.start import StartCondition
from harken.tickets.starts import StartLedger
from harken.tickets.tracker import Tickets
from tests.unit.tickets.kit import START_US

DeathPoint = Literal["", "before the answer", "after the answer"]
HOUR_S = 3600


class Killed(BaseException):
    """The death of a process."""


@dataclass
class Clock:
    """A clock that advances a second at each reading."""

    seconds: int = 0

    def __call__(self) -> int:
        self.seconds += 1
        return START_US + self.seconds * 1_000_000

    def open_tickets(self, store: Store, author: str, context_id: str = "") -> Tickets:
        """Return the tickets of a store at the time of this clock."""
        return Tickets(store, author, clock=self, context=lambda: context_id)


@dataclass
class FakeAgents:
    """The sessions of a home, each with its answer once it has one. An `AgentRunner`."""

    store: Store | None = None
    """The store in which reviewers conclude their reviews. None: they do not."""
    templates: tuple[str, ...] = ("rita", "rob", "coder", "ann", "bob")
    dies: DeathPoint = ""
    error: HarkenError | None = None
    tasks: list[AgentTask] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)
    """Session -> its answer."""
    is_cut_off: bool = False
    locked: set[str] = field(default_factory=set)
    """Sessions that another process has just begun to run."""
    asked: list[str] = field(default_factory=list)
    """The sessions in which a model answered: each once."""

    def is_running(self, name: str) -> bool:
        return False

    def check_template(self, name: str, *, session: str = "") -> None:
        if session not in self.answers and name not in self.templates:
            raise NameNotFound("template", name, self.templates)

    def run(self, task: AgentTask) -> AgentOutcome:
        if task.session in self.locked:
            raise LogLocked(task.session, pid=None)
        task.on_locked()
        self.tasks.append(task)
        if self.error is not None:
            raise self.error
        if task.session not in self.answers:
            if self.dies == "before the answer":
                raise Killed
            self.asked.append(task.session)
            self._conclude(task)
            self.answers[task.session] = f"answer {len(self.asked)}"
            if self.dies == "after the answer":
                raise Killed
        context_id = f"ctx-{task.session[-8:]}"
        return AgentOutcome(self.answers[task.session], context_id, is_answer=not self.is_cut_off)

    def _conclude(self, task: AgentTask) -> None:
        """Give the disposition that the reviewer is asked for."""
        if self.store is None:
            return
        tickets = Tickets(self.store, task.principal)
        if tickets.get(task.ticket).state.reviewers.get(task.principal) == "pending":
            tickets.update(task.ticket, TicketChange(reviews={task.principal: "approved"}))


@dataclass
class Home:
    """A home that watches a store, with its agents."""

    store: Store
    clock: Clock
    owner: str = "a" * 32
    agents: FakeAgents = field(default_factory=FakeAgents)
    events: list[StartEvent] = field(default_factory=list)

    concludes: bool = True
    """Whether reviewers conclude their reviews."""

    def start_runner(
        self, conditions: tuple[StartCondition, ...] = (), *, retries: bool = False
    ) -> StartRunner:
        """Start a watcher, as a new process does: it knows only the store and the sessions."""
        self.agents.store = self.store if self.concludes else None
        every = [*REVIEW_CONDITIONS, *conditions]
        ledger = StartLedger(
            self.store, every, author="watcher", owner=self.owner, clock=self.clock
        )
        return StartRunner(
            ledger=ledger,
            agents=self.agents,
            on_event=self.events.append,
            clock=self.clock,
            retries=retries,
        )
