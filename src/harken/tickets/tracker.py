"""`Tickets`: create, change and read the tickets of a store.

A change writes a new version and moves the head of the ticket from the version that was read. If
another writer moved it first, the change is applied again to the newer version. So no change is
lost, and a claim succeeds once. No lock is held between the two steps; a version whose move failed
is not referenced, and gc removes it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress

from harken.core import structs
from harken.core.arguments import check_arguments
from harken.core.clock import Clock, format_rfc3339, parse_rfc3339, system_clock
from harken.core.commits import ArtifactRef, CommitId, TicketId
from harken.errors import AmbiguousName, BranchConflict, NameNotFound, TicketError
from harken.store.base import Store
from harken.store.branches import TICKET_PREFIX
from harken.tickets import query
from harken.tickets.change import TicketChange, reset_reviews
from harken.tickets.query import TicketFilter, filter_tickets, sort_tickets
from harken.tickets.record import (
    TicketReading,
    encode_version,
    list_heads,
    read_all_tickets,
    read_tickets,
    read_versions,
    ticket_id,
)
from harken.tickets.ticket import (
    Action,
    StartRecord,
    Ticket,
    TicketState,
    TicketVersion,
    check_change,
    short_id,
)

MAX_ATTEMPTS = 200
"""The number of attempts of a change while other writers change the same ticket."""
_NONCE_BYTES = 8


def no_context() -> str:
    """Return the empty context of a change outside of an agent."""
    return ""


def random_nonce() -> str:
    """Return random hex digits."""
    return secrets.token_hex(_NONCE_BYTES)


@check_arguments
class Tickets:
    """The tickets of a store, as changed by one author.

    `context` is called at each change and returns the commit of the agent that makes it, or an
    empty text; see `harken.context.current_context`. Threads may share it.
    """

    def __init__(
        self,
        store: Store,
        author: str,
        *,
        context: Callable[[], str] = no_context,
        clock: Clock = system_clock,
        nonce: Callable[[], str] = random_nonce,
    ) -> None:
        self.store, self.author = store, author
        self._context, self._clock, self._nonce = context, clock, nonce

    def create(
        self,
        title: str,
        change: TicketChange | None = None,
        *,
        note: str = "",
        action: Action = "create",
    ) -> Ticket:
        """Create a ticket with this title and the fields of a change.

        Raises ValueError for an invalid field, NameNotFound for a parent or a blocker that does
        not exist, ObjectNotFound for such an attachment.
        """
        state = (change or TicketChange()).apply(TicketState(title=title))
        self._check_links(None, TicketState(title=title), state)
        version = self._build_version(action, note, state)
        name, batch = encode_version(version)
        self.store.write(batch)
        id_ = ticket_id(name)
        self.store.move_head(id_, name, expected=None)
        return Ticket(id=id_, head=name, version=version)

    def update(
        self,
        ticket: str,
        change: TicketChange,
        *,
        note: str = "",
        action: Action = "update",
        check: Callable[[Ticket], None] | None = None,
    ) -> Ticket:
        """Change fields of a ticket. Nothing is written if all have these values already.

        check: called with the version that is changed, and raises to refuse the change.

        Raises as `create`; TicketError if tickets would block each other, or be their own parents.
        """

        def apply(before: Ticket) -> TicketState:
            if check is not None:
                check(before)
            return change.apply(before.state)

        return self._append(ticket, action, note, apply)

    def close(self, ticket: str, *, note: str = "") -> Ticket:
        """Close a ticket; the note is the reason. Raises TicketError if it is closed."""

        def apply(before: Ticket) -> TicketState:
            if before.is_closed:
                raise TicketError(short_id(before.id), "is closed already")
            return TicketChange(status="closed").apply(before.state)

        return self._append(ticket, "close", note, apply)

    def reopen(self, ticket: str, *, note: str = "") -> Ticket:
        """Open a closed or deferred ticket. Raises TicketError if it is neither."""

        def apply(before: Ticket) -> TicketState:
            if before.state.status not in ("closed", "deferred"):
                reason = f"is {before.state.status}: only closed and deferred tickets are reopened"
                raise TicketError(short_id(before.id), reason)
            return TicketChange(status="open").apply(before.state)

        return self._append(ticket, "reopen", note, apply)

    def defer(self, ticket: str, *, until: str = "", note: str = "") -> Ticket:
        """Defer a ticket, until a time (RFC 3339) or until it is reopened.

        Raises TicketError if it is closed.
        """
        until_utc = format_rfc3339(parse_rfc3339(until)) if until else ""

        def apply(before: Ticket) -> TicketState:
            if before.is_closed:
                raise TicketError(short_id(before.id), "is closed: reopen it first")
            return structs.replace(_DEFERRED, deferred_until=until_utc).apply(before.state)

        return self._append(ticket, "defer", note, apply)

    def note(self, ticket: str, text: str) -> Ticket:
        """Add a note to a ticket, also to a closed one. Raises ValueError for an empty text."""
        if not text.strip():
            raise ValueError("the note is empty: pass a text")
        return self._append(ticket, "note", text, lambda before: before.state)

    def claim(self, ticket: str | None = None, *, note: str = "") -> Ticket:
        """Assign a ready ticket to the author and begin it, by default the most urgent one.

        Of all that claim a ticket at once, one succeeds. Raises TicketError if the ticket is not
        ready or belongs to another assignee, or if no ticket is ready.
        """
        if ticket is not None:
            return self._append(ticket, "claim", note, self._apply_claim)
        for candidate in self.ready():
            if candidate.state.assignee in ("", self.author):
                with suppress(TicketError):  # Another writer was faster: the next one.
                    return self._append(candidate.id, "claim", note, self._apply_claim)
        raise TicketError("", "no ticket is ready to claim")

    def _apply_claim(self, before: Ticket) -> TicketState:
        state, id_ = before.state, short_id(before.id)
        if state.assignee not in ("", self.author):
            raise TicketError(id_, f"is assigned to {state.assignee}")
        blockers = self._read_existing(state.blocked_by)
        if before not in query.ready([before, *blockers], now=self._now()):
            raise TicketError(id_, _describe_obstacle(before, blockers))
        return TicketChange(status="in_progress", assignee=self.author).apply(state)

    def record_start(
        self, ticket: str, start: StartRecord, *, expected: ArtifactRef, change: TicketChange
    ) -> Ticket | None:
        """Record that an agent is started. Return None if the ticket has another version now."""

        def apply(before: Ticket) -> TicketState:
            if before.head != expected:
                raise _HasChanged
            return change.apply(before.state)

        with suppress(_HasChanged):
            return self._append(ticket, "start", "", apply, start=start)
        return None

    def record_step(
        self, ticket: str, action: Action, start: StartRecord, *, before: TicketVersion, note: str
    ) -> Ticket | None:
        """Record the next step of a start: another attempt or owner, or its end.

        Return None if `before` is not the last step of the start any more.
        """

        def apply(ticket: Ticket) -> TicketState:
            if self._last_step(ticket, start.id) != before:
                raise _HasChanged
            return ticket.state

        with suppress(_HasChanged):
            return self._append(ticket, action, note, apply, start=start)
        return None

    def _last_step(self, ticket: Ticket, start_id: str) -> TicketVersion | None:
        """Return the last version of a ticket that records a step of a start."""
        version = ticket.version
        while version.start is None or version.start.id != start_id:
            if version.parent is None:
                return None
            version = read_versions(self.store, [version.parent])[version.parent]
        return version

    def get(self, ticket: str) -> Ticket:
        """Return a ticket by its id, or a unique prefix. Raises NameNotFound, AmbiguousName."""
        return self._get_full(self.find_id(ticket))

    def find_id(self, prefix: str) -> TicketId:
        """Return the id that starts with a prefix. Raises NameNotFound, AmbiguousName."""
        full_prefix = prefix if prefix.startswith(TICKET_PREFIX) else TICKET_PREFIX + prefix
        matches = list(self.store.heads(full_prefix)) if prefix else []
        if len(matches) > 1:
            raise AmbiguousName("ticket", prefix, map(short_id, matches))
        if not matches:
            raise NameNotFound("ticket", prefix, map(short_id, list_heads(self.store)[0]))
        return matches[0]

    def list_tickets(self, conditions: TicketFilter | None = None) -> list[Ticket]:
        """Return the tickets that fulfill all conditions, the most urgent first.

        Damaged tickets are left out; `read_all` names them.
        """
        tickets = self.read_all().tickets
        return sort_tickets(filter_tickets(tickets, conditions or TicketFilter()))

    def read_all(self) -> TicketReading:
        """Return all tickets, and the problems of those that are damaged."""
        return read_all_tickets(self.store)

    def ready(self) -> list[Ticket]:
        """Return the tickets that can be worked on, the most urgent first."""
        return self.select_ready(self.list_tickets())

    def select_ready(self, tickets: Iterable[Ticket]) -> list[Ticket]:
        """Return those of all tickets that can be worked on now, the most urgent first."""
        return query.ready(tickets, now=self._now())

    def history(self, ticket: str) -> list[tuple[ArtifactRef, TicketVersion]]:
        """Return the versions of a ticket with their names, oldest first."""
        head = self.get(ticket)
        versions = [(head.head, head.version)]
        while (parent := versions[-1][1].parent) is not None:
            versions.append((parent, read_versions(self.store, [parent])[parent]))
        return versions[::-1]

    def _append(
        self,
        ticket: str,
        action: Action,
        note: str,
        apply: Callable[[Ticket], TicketState],
        *,
        start: StartRecord | None = None,
    ) -> Ticket:
        id_, context_id = self.find_id(ticket), self._context()
        for _ in range(MAX_ATTEMPTS):
            before = self._get_full(id_)
            state = reset_reviews(before.state, apply(before), self.author)
            if action == "update" and state == before.state and not note:
                return before
            self._check_links(id_, before.state, state)
            is_reopening = before.is_closed and state.status != "closed"
            if is_reopening:
                self._withdraw_approval(before)
            version = self._build_version(
                action, note, state, before=before, context_id=context_id, start=start
            )
            name, batch = encode_version(version)
            self.store.write(batch)
            try:
                self.store.move_head(id_, name, expected=before.head)
            except BranchConflict:
                continue
            after = Ticket(id=id_, head=name, version=version)
            self._check_new_cycle(before, after)
            if is_reopening:  # The reviewer may have approved in between.
                self._withdraw_approval(before)
            return after
        raise TicketError(short_id(id_), f"was changed by others {MAX_ATTEMPTS} times; try again")

    def _withdraw_approval(self, finding: Ticket) -> None:
        """Withdraw the approval of the ticket in review by the reviewer of a finding.

        This comes before the finding is opened again: after a crash between both, the review is not
        approved, which the reviewer can repair.
        """
        state = finding.state
        if state.type != "review_finding" or state.parent is None:
            return
        reviewer = finding.created.author
        for parent in self._read_existing([state.parent]):
            if parent.state.reviewers.get(reviewer) == "approved":
                change = TicketChange(reviews={reviewer: "changes_requested"})
                self.update(parent.id, change, note=f"{short_id(finding.id)} is open again")

    def _build_version(
        self,
        action: Action,
        note: str,
        state: TicketState,
        *,
        before: Ticket | None = None,
        context_id: str | None = None,
        start: StartRecord | None = None,
    ) -> TicketVersion:
        context = self._context() if context_id is None else context_id
        version = TicketVersion(
            action=action,
            author=self.author,
            time=self._now(),
            context_id=context,
            note=note,
            ticket=state,
            parent=None if before is None else before.head,
            nonce=self._nonce() if before is None or action == "claim" else "",
            created=None if before is None else before.created,
            earlier_context_id="" if before is None or context else before.context_id,
            start=start,
        )
        check_change(version)
        return version

    def _check_links(self, id_: TicketId | None, before: TicketState, after: TicketState) -> None:
        """Raise unless the new parent and blockers exist and lead to no cycle."""
        new = [ticket for ticket in after.blocked_by if ticket not in before.blocked_by]
        if after.parent is not None and after.parent != before.parent:
            new.append(after.parent)
        for ticket in new:
            if not self.store.heads(ticket):
                raise NameNotFound("ticket", ticket, map(short_id, list_heads(self.store)[0]))
        if new and id_ is not None and (problem := self._find_cycle(id_, after)):
            raise TicketError(short_id(id_), problem)

    def _find_cycle(self, id_: TicketId, state: TicketState) -> str:
        """Return the cycle that a ticket with this state is part of, or an empty text."""
        states = {ticket.id: ticket.state for ticket in self.list_tickets()} | {id_: state}
        blockers = {key: value.blocked_by for key, value in states.items()}
        parents = {key: (value.parent,) for key, value in states.items() if value.parent}
        if cycle := query.find_cycle(id_, blockers):
            return f"would block itself: {' <- '.join(map(short_id, cycle))}"
        if cycle := query.find_cycle(id_, parents):
            return f"would be its own parent: {' <- '.join(map(short_id, cycle))}"
        return ""

    def _check_new_cycle(self, before: Ticket, after: Ticket) -> None:
        """Undo new links that form a cycle with links that another writer added meanwhile."""
        old, new = before.state, after.state
        if new.blocked_by == old.blocked_by and new.parent == old.parent:
            return
        problem = self._find_cycle(after.id, new)
        if not problem:
            return
        added = tuple(ticket for ticket in new.blocked_by if ticket not in old.blocked_by)
        undo = TicketChange(
            remove_blockers=added, parent=old.parent, has_no_parent=old.parent is None
        )
        self.update(after.id, undo, note="links removed: another change led to a cycle")
        raise TicketError(short_id(after.id), problem)

    def _get_full(self, id_: TicketId) -> Ticket:
        return self._read_existing([id_])[0]

    def _read_existing(self, ids: Iterable[TicketId]) -> list[Ticket]:
        heads: dict[TicketId, ArtifactRef] = {}
        for id_ in ids:
            heads |= self.store.heads(id_)
        return read_tickets(self.store, heads)

    def _now(self) -> str:
        return format_rfc3339(self._clock())


class _HasChanged(Exception):
    """Another writer changed the ticket first."""


_DEFERRED = TicketChange(status="deferred")


def _describe_obstacle(ticket: Ticket, blockers: Iterable[Ticket]) -> str:
    """Return the reason for which a ticket is not ready."""
    state = ticket.state
    if state.status == "in_progress":
        return f"is in progress already{f', by {state.assignee}' if state.assignee else ''}"
    if state.status != "open":
        return f"is {state.status}, not open"
    by_id = {blocker.id: blocker for blocker in blockers}
    names = ", ".join(map(short_id, query.open_blockers(ticket, by_id)))
    return f"is blocked by {names}"


def find_related(store: Store, names: Iterable[str]) -> tuple[list[TicketId], list[CommitId]]:
    """Return tickets with their children and blockers, and the commits of all their changes.

    Commits that the store lacks are left out. Raises NameNotFound, AmbiguousName; TicketError if
    one of the tickets is damaged.
    """
    tickets = Tickets(store, "reader")
    pending = [tickets.find_id(name) for name in names]
    reading = tickets.read_all() if pending else TicketReading([], {})
    every = reading.tickets
    by_id = {ticket.id: ticket for ticket in every}
    related: dict[TicketId, None] = {}
    while pending:
        id_ = pending.pop()
        if id_ in reading.damaged:
            raise TicketError(short_id(id_), f"cannot be read: {reading.damaged[id_]}")
        if id_ in by_id and id_ not in related:
            related[id_] = None
            pending += [*by_id[id_].state.blocked_by]
            pending += [child.id for child in query.children(id_, every)]
    contexts = {
        CommitId(version.context_id): None
        for id_ in related
        for _, version in tickets.history(id_)
        if version.context_id
    }
    return [*related], [*store.commits(contexts)]


def resolve_context(store: Store, version: TicketVersion) -> CommitId | None:
    """Return the context of a change: its own, or the author's last commit at its time.

    So a change that was made outside of an agent is linked afterwards. The result is None if the
    author has no commit before the change.
    """
    if version.context_id:
        return CommitId(version.context_id)
    return store.latest_commit(version.author, version.time)
