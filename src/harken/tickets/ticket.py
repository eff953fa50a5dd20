"""Tickets as values: the state of a ticket, its versions, and their JSON.

A version is a complete state with the change that led to it: the author, the time, the commit of
the agent that made it (`context_id`, a text that is never interpreted), and a note. So a list reads
one object for each ticket, and nothing is lost when a ticket changes.

Source: docs/formats/tickets.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from harken.core.clock import parse_rfc3339
from harken.core.commits import SHORT_NAME_DIGITS, ArtifactRef, TicketId
from harken.store.branches import TICKET_PREFIX

Status: TypeAlias = Literal["open", "in_progress", "review", "blocked", "deferred", "closed"]
TicketType: TypeAlias = Literal[
    "task", "bug", "feature", "epic", "chore", "docs", "question", "review_finding"
]
Disposition: TypeAlias = Literal["pending", "approved", "changes_requested", "commented"]
Action: TypeAlias = Literal[
    "create",
    "update",
    "close",
    "reopen",
    "defer",
    "note",
    "claim",
    "import",
    "start",
    "finish",
    "fail",
]
"""`start`: an agent is started, or an attempt failed and there is another one. `finish`: it has
ended, and the note is its answer. `fail`: it has ended without a result, and the note is why.
"""
TicketEvent: TypeAlias = Literal["ready", "review", "in_progress", "note", "closed"]
"""`ready`: it can be worked on. `review`: a reviewer is asked. `in_progress`: it returns to its
assignee, but not by a claim. `note`: another principal than its author adds a note. `closed`:
another principal closed it, and its author can verify that.
"""
STATUSES: tuple[Status, ...] = get_args(Status)
TYPES: tuple[TicketType, ...] = get_args(TicketType)
DISPOSITIONS: tuple[Disposition, ...] = get_args(Disposition)
MIN_PRIORITY, DEFAULT_PRIORITY, MAX_PRIORITY = 0, 2, 4
"""0 is the most urgent."""
MAX_TITLE_CHARS = 500
MAX_TEXT_CHARS = 1_000_000
"""The limit of a body and of a note."""
MAX_NAME_CHARS = 200
"""The limit of an author, an assignee, a reviewer and a label."""
START_ACTIONS: tuple[Action, ...] = ("start", "finish", "fail")
"""The actions of versions that record a step of a start."""
_START_ID_PATTERN = re.compile(r"[0-9a-f]{32}")
MAX_ITEMS = 1000
"""The limit of labels, blockers, attachments and reviewers of a ticket."""


class TicketOrigin(msgspec.Struct, frozen=True, omit_defaults=True):
    """The issue of another tracker from which a ticket was imported."""

    tracker: str
    """`github:owner/name`."""
    key: str
    """The name of the issue there, such as its number."""
    url: str = ""
    digest: str = ""
    """A hash of the issue at the last import, by which a change there is recognized."""


class TicketState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fields of a ticket that can change."""

    title: str
    body: str = ""
    status: Status = "open"
    priority: int = DEFAULT_PRIORITY
    type: TicketType = "task"
    labels: tuple[str, ...] = ()
    """Sorted."""
    assignee: str = ""
    parent: TicketId | None = None
    blocked_by: tuple[TicketId, ...] = ()
    attachments: tuple[ArtifactRef, ...] = ()
    reviewers: Mapping[str, Disposition] = {}
    deferred_until: str = ""
    """UTC, RFC 3339: the time at which a deferred ticket is ready again. Empty: unknown."""
    origin: TicketOrigin | None = None


class ChangeStamp(msgspec.Struct, frozen=True, omit_defaults=True):
    """The author, the time and the context of a change."""

    author: str
    time: str
    """UTC, RFC 3339 with microseconds."""
    context_id: str = ""


class StartRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An agent that a change of a ticket starts."""

    id: str
    """32 hex digits: equal for the same condition, principal and change."""
    condition: str
    event: TicketEvent
    version: ArtifactRef
    """The change that fulfilled the condition."""
    principal: str
    template: str
    context_id: str = ""
    """The commit from which the agent starts. Empty: a fresh start."""
    thread_id: str = ""
    """The thread of its commits. Empty: none."""
    owner: str
    """The home that runs the agent."""
    attempts: int = 0
    """The number of attempts that have failed since it was last begun by a change or a command."""
    restarts: int = 0
    """The number of times that a command started it again after it had failed."""

    @property
    def session(self) -> str:
        """The name of the session of the agent. One that is started again has a new session."""
        return f"start_{self.id}" + (f"_{self.restarts}" if self.restarts else "")


class TicketVersion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A version of a ticket: the state, and the change that led to it."""

    action: Action
    author: str
    time: str
    context_id: str = ""
    """The commit of the agent that made the change. Empty: unknown."""
    note: str = ""
    """A note, or the reason of a change."""
    ticket: TicketState
    parent: ArtifactRef | None = None
    """The version before. None for the first."""
    nonce: str = ""
    """Random digits of the first version and of a claim: no two of them are equal."""
    created: ChangeStamp | None = None
    """The stamp of the first version, in all later ones."""
    earlier_context_id: str = ""
    """The last context before this change, if this change has none."""
    start: StartRecord | None = None
    """The agent that is started, that has ended, or that has failed."""


class Ticket(msgspec.Struct, frozen=True, kw_only=True):
    """A ticket as of one version."""

    id: TicketId
    head: ArtifactRef
    """The name of this version."""
    version: TicketVersion

    @property
    def state(self) -> TicketState:
        """The fields of the ticket."""
        return self.version.ticket

    @property
    def created(self) -> ChangeStamp:
        """The author, the time and the context of the first version."""
        first = ChangeStamp(self.version.author, self.version.time, self.version.context_id)
        return self.version.created or first

    @property
    def context_id(self) -> str:
        """The context of the last change that has one, from which a successor can resume."""
        return self.version.context_id or self.version.earlier_context_id

    @property
    def is_closed(self) -> bool:
        """Whether the ticket is closed."""
        return self.state.status == "closed"

    def as_json(self) -> dict[str, Any]:
        """Return the ticket as JSON values, with every field."""
        state = {name: getattr(self.state, name) for name in TicketState.__struct_fields__}
        fields: dict[str, Any] = msgspec.to_builtins(state)
        created = self.created
        return {
            "id": self.id,
            **fields,
            "created_by": created.author,
            "created_at": created.time,
            "created_context_id": created.context_id,
            "updated_by": self.version.author,
            "updated_at": self.version.time,
            "context_id": self.context_id,
            "version": self.head,
        }


def version_as_json(name: ArtifactRef, version: TicketVersion) -> dict[str, Any]:
    """Return a version as JSON values: its name, its change, and the fields of the ticket."""
    change = {"action": version.action, "author": version.author, "time": version.time}
    change |= {"context_id": version.context_id, "note": version.note}
    return {"version": name, **change, "ticket": msgspec.to_builtins(version.ticket)}


def short_id(ticket: TicketId) -> str:
    """Return the beginning of an id, as it is shown.

    >>> short_id(TicketId("tkt-" + "0123456789abcdef" * 4))
    'tkt-0123456789ab'
    """
    return ticket[: len(TICKET_PREFIX) + SHORT_NAME_DIGITS]


def check_state(state: TicketState) -> None:
    """Raise ValueError if a field of a ticket has an invalid value."""
    _check_line("title", state.title, MAX_TITLE_CHARS)
    _check_text("body", state.body)
    _check_choice("status", state.status, STATUSES)
    _check_choice("type", state.type, TYPES)
    if not MIN_PRIORITY <= state.priority <= MAX_PRIORITY:
        raise ValueError(
            f"priority {state.priority} is not valid: use {MIN_PRIORITY} (the most urgent) "
            f"to {MAX_PRIORITY}"
        )
    for field, values in _item_fields(state).items():
        if len(values) > MAX_ITEMS:
            raise ValueError(f"{len(values)} {field} are too many: the limit is {MAX_ITEMS}")
    for field, names in (("label", state.labels), ("reviewer", tuple(state.reviewers))):
        for name in names:
            _check_line(field, name, MAX_NAME_CHARS)
    for disposition in state.reviewers.values():
        _check_choice("disposition", disposition, DISPOSITIONS)
    if state.assignee:
        _check_line("assignee", state.assignee, MAX_NAME_CHARS)
    if state.type == "review_finding" and state.parent is None:
        raise ValueError("a review_finding needs the ticket in review as its parent")


def check_change(version: TicketVersion) -> None:
    """Raise ValueError if a version has an invalid author, time, note or field."""
    stamps = [ChangeStamp(version.author, version.time)]
    for stamp in (*stamps, *([] if version.created is None else [version.created])):
        _check_line("author", stamp.author, MAX_NAME_CHARS)
        parse_rfc3339(stamp.time)
    if version.ticket.deferred_until:
        parse_rfc3339(version.ticket.deferred_until)
    _check_text("note", version.note)
    if (version.start is None) == (version.action in START_ACTIONS):
        raise ValueError(f"a version with the action {version.action} has a start, or needs one")
    if version.start is not None:
        _check_start(version.start)
    check_state(version.ticket)


def _check_start(start: StartRecord) -> None:
    if not _START_ID_PATTERN.fullmatch(start.id):
        raise ValueError(f"{start.id[:40]!r} is not the id of a start: 32 hex digits")
    for field in ("condition", "principal", "template", "owner"):
        _check_line(f"{field} of the start", getattr(start, field), MAX_NAME_CHARS)
    if min(start.attempts, start.restarts) < 0:
        raise ValueError("the attempts and restarts of a start are 0 or more")


def _item_fields(state: TicketState) -> dict[str, tuple[str, ...]]:
    fields: dict[str, tuple[str, ...]] = {"labels": state.labels, "blockers": state.blocked_by}
    return {**fields, "attachments": state.attachments, "reviewers": tuple(state.reviewers)}


def _check_line(field: str, text: str, max_chars: int) -> None:
    if not text.strip():
        raise ValueError(f"the {field} of a ticket is empty: pass a text")
    if len(text) > max_chars:
        raise ValueError(f"the {field} has {len(text)} characters; the limit is {max_chars}")
    if not text.isprintable():
        raise ValueError(f"the {field} {text[:40]!r} is not one line of printable text")


def _check_text(field: str, text: str) -> None:
    if len(text) > MAX_TEXT_CHARS:
        raise ValueError(f"the {field} has {len(text)} characters; the limit is {MAX_TEXT_CHARS}")


def _check_choice(field: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{field} {value!r} is not valid: use {', '.join(choices)}")
