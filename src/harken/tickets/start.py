"""Start conditions: which agents the changes of tickets start. A pure function of the versions.

A start is named by its condition, its principal, and the change that fulfilled the condition. So a
second look at the same tickets, in another process or after a crash, names the same start, and a
start that was recorded is not planned again. Conditions look at changes and not at the present, so
that no start is lost while no process watches; only `ready` asks whether the ticket still is ready.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

import msgspec
from blake3 import blake3

from harken.core import structs
from harken.core.commits import ArtifactRef, TicketId
from harken.tickets import query
from harken.tickets.query import TicketFilter
from harken.tickets.ticket import Ticket, TicketEvent, TicketVersion

TicketHistory: TypeAlias = Sequence[tuple[ArtifactRef, TicketVersion]]
"""The versions of a ticket with their names, oldest first."""
_ID_CHARS = 32
_WORK: tuple[TicketEvent, ...] = ("ready", "in_progress")
"""Events after which an agent works on the ticket, possibly as the successor of another one."""


class StartCondition(msgspec.Struct, frozen=True, kw_only=True):
    """A condition that starts an agent."""

    name: str
    """Unique among the conditions."""
    event: TicketEvent
    template: str = ""
    """The template of the agent. Empty: that of its commits, else the one named as the principal.
    """
    tickets: TicketFilter = msgspec.field(default_factory=TicketFilter)
    """The tickets, as of the version, for which it holds."""


class AgentStart(msgspec.Struct, frozen=True, kw_only=True):
    """An agent to start."""

    id: str
    """32 hex digits: equal for the same condition, principal and change."""
    condition: StartCondition
    ticket: TicketId
    version: ArtifactRef
    """The version that fulfilled the condition."""
    principal: str
    """The reviewer, the assignee or the author. Empty: any agent of the template."""
    template: str = ""
    """The template of the agent. Empty: not resolved yet."""
    context_id: str
    """The last commit of the principal in this ticket, to resume from; for work, else that of an
    earlier assignee. Empty: a fresh start.
    """
    head: ArtifactRef
    """The version of the ticket for which this was planned."""

    @property
    def event(self) -> TicketEvent:
        """The event that fulfilled the condition."""
        return self.condition.event


def plan_starts(
    histories: Mapping[TicketId, TicketHistory],
    conditions: Iterable[StartCondition],
    *,
    started: Collection[str],
    now: str,
) -> list[AgentStart]:
    """Return the starts that are due, oldest change first, without those of `started`.

    started: ids of recorded starts. `now` is RFC 3339.
    """
    tickets = {
        id_: Ticket(id=id_, head=history[-1][0], version=history[-1][1])
        for id_, history in histories.items()
    }
    ready_ids = {ticket.id for ticket in query.ready(tickets.values(), now=now)}
    due: dict[str, tuple[str, AgentStart]] = {}
    for condition in conditions:
        for id_, history in histories.items():
            if condition.event == "ready":
                changes = _ready_changes(id_, histories) if id_ in ready_ids else []
            else:
                changes = [*_iter_changes(history, condition.event)]
            for index, principal, key in changes:
                name, version = history[index]
                if condition.tickets.matches(Ticket(id=id_, head=name, version=version)):
                    start = _build_start(condition, id_, history, (index, principal, key))
                    due[start.id] = version.time, start
    ordered = sorted(due.values(), key=lambda item: (item[0], item[1].id))
    return [start for _, start in ordered if start.id not in started]


def _iter_changes(history: TicketHistory, event: TicketEvent) -> Iterator[tuple[int, str, str]]:
    """Yield the changes that are this event: the index of the version, the principal, and a key."""
    author = history[0][1].author
    first = history[0][1]
    before_first = (history[0][0], _without_status(first))
    for index, ((_, before), (name, after)) in enumerate(pairwise([before_first, *history])):
        old, new = before.ticket, after.ticket
        is_entering = old.status != new.status
        match event:
            case "review" if new.status == "review":
                for reviewer, disposition in new.reviewers.items():
                    is_new = is_entering or old.reviewers.get(reviewer) != disposition
                    if disposition == "pending" and is_new:
                        yield index, reviewer, name
            case "in_progress" if new.status == "in_progress" and is_entering:
                # An assignee that begins the work itself needs no agent.
                if after.action != "start" and new.assignee not in ("", after.author):
                    yield index, new.assignee, name
            case "closed" if new.status == "closed" and is_entering and after.author != author:
                yield index, author, name
            case "note" if after.action == "note" and after.author != author:
                yield index, author, name


def _without_status(first: TicketVersion) -> TicketVersion:
    """Return a version before the first one: an open ticket without reviewers."""
    state = structs.replace(first.ticket, status="open", reviewers={})
    return structs.replace(first, ticket=state)


def _ready_changes(
    id_: TicketId, histories: Mapping[TicketId, TicketHistory]
) -> list[tuple[int, str, str]]:
    """Return the change since which a ticket is ready.

    The key names the last change of its own readiness and of each blocker's status. So a note
    changes nothing, and a blocker that is opened and closed again makes the ticket ready again.
    """
    history = histories[id_]
    own = _last_change(history, ("status", "blocked_by", "deferred_until"))
    blockers = [histories[blocker] for blocker in sorted(history[-1][1].ticket.blocked_by)]
    names = [blocker[_last_change(blocker, ("status",))][0] for blocker in blockers]
    return [(own, "", "\n".join([history[own][0], *names]))]


def _last_change(history: TicketHistory, fields: Sequence[str]) -> int:
    """Return the index of the last version in which one of these fields changed."""
    values = [tuple(getattr(v.ticket, field) for field in fields) for _, v in history]
    return max((i for i in range(1, len(values)) if values[i] != values[i - 1]), default=0)


def _build_start(
    condition: StartCondition, id_: TicketId, history: TicketHistory, change: tuple[int, str, str]
) -> AgentStart:
    """Return the start for a change: the index of its version, the principal, and the key."""
    index, principal, key = change
    authors = {principal}
    contexts = [v.context_id for _, v in history if v.context_id and v.author in authors]
    if not contexts and condition.event in _WORK:
        authors = {v.ticket.assignee for _, v in history}
        contexts = [v.context_id for _, v in history if v.context_id and v.author in authors]
    fields = f"{condition.name}\n{id_}\n{principal}\n{key}"
    return AgentStart(
        id=blake3(fields.encode("utf-8", "surrogatepass")).hexdigest()[:_ID_CHARS],
        condition=condition,
        ticket=id_,
        version=history[index][0],
        principal=principal,
        context_id=contexts[-1] if contexts else "",
        head=history[-1][0],
    )
