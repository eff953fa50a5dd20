"""The page of a ticket: its fields, its body, its notes and its history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from harken.analytics.times import format_minute, to_datetime
from harken.config.local_zone import LocalZone
from harken.core.clock import parse_rfc3339
from harken.core.commits import SHORT_NAME_DIGITS, ArtifactRef, CommitId, TicketId
from harken.terminal.table import Sheet
from harken.tickets import query
from harken.tickets.ticket import ChangeStamp, Ticket, TicketState, TicketVersion, short_id

MAX_VERSIONS = 20
"""The number of last versions that are shown by default."""
_LABEL_CELLS = 12
_PREFIX_CHARS = len("ctx-")


def print_page(
    sheet: Sheet,
    ticket: Ticket,
    every: Sequence[Ticket],
    *,
    history: Sequence[tuple[ArtifactRef, TicketVersion]],
    contexts: Mapping[ArtifactRef, CommitId | None],
    is_full: bool,
) -> None:
    """Print a ticket. `every`: all tickets of the store; `contexts`: those of the versions."""
    id_ = ticket.id if is_full else short_id(ticket.id)
    sheet.line((id_, "bold"), f"  {ticket.state.title}", indent=0)
    for label, text in _iter_fields(ticket, every, is_full):
        sheet.line((f"{label:<{_LABEL_CELLS}}", "dim"), text, indent=0)
    if ticket.state.body.strip():
        sheet.line("", indent=0)
        _print_text(sheet, ticket.state.body, indent=0)
    sheet.heading("History")
    versions = history if is_full else history[-MAX_VERSIONS:]
    if len(versions) < len(history):
        sheet.line((f"{len(history) - len(versions)} earlier changes: --full", "dim"))
    states = [None, *(version.ticket for _, version in history)][-len(versions) - 1 :]
    for before, (name, version) in zip(states, versions, strict=False):
        _print_version(sheet, before, version, contexts[name], is_full)


def _iter_fields(
    ticket: Ticket, every: Sequence[Ticket], is_full: bool
) -> Iterator[tuple[str, str]]:
    """Yield the fields that have a value, with their labels."""
    state, by_id = ticket.state, {item.id: item for item in every}
    until = f", until {_minute(state.deferred_until)}" if state.deferred_until else ""
    yield "status", f"{state.status}{until}"
    yield "priority", f"{state.priority}, {state.type}"
    yield "assignee", state.assignee or "none"
    if state.labels:
        yield "labels", ", ".join(state.labels)
    if state.parent is not None:
        yield "parent", _describe(state.parent, by_id)
    for blocker in state.blocked_by:
        yield "blocked by", _describe(blocker, by_id)
    for child in query.children(ticket.id, every):
        yield "child", _describe(child.id, by_id)
    for name, disposition in state.reviewers.items():
        yield "reviewer", f"{name}: {disposition}"
    for name in state.attachments:
        yield "attachment", name if is_full else _abbreviate(name)
    if state.origin is not None:
        url = f"  {state.origin.url}" if state.origin.url else ""
        yield "origin", f"{state.origin.tracker} {state.origin.key}{url}"
    yield "created", _format_stamp(ticket.created, is_full)
    if ticket.context_id:
        yield "context", ticket.context_id if is_full else _abbreviate(ticket.context_id)


def _describe(id_: TicketId, by_id: Mapping[TicketId, Ticket]) -> str:
    ticket = by_id.get(id_)
    if ticket is None:
        return f"{short_id(id_)}  (not in the store)"
    return f"{short_id(id_)}  [{ticket.state.status}] {ticket.state.title}"


def _print_version(
    sheet: Sheet,
    before: TicketState | None,
    version: TicketVersion,
    context: CommitId | None,
    is_full: bool,
) -> None:
    stamp = ChangeStamp(version.author, version.time, version.context_id)
    nearest = ""
    if context and not version.context_id:
        nearest = f"  nearest {context if is_full else _abbreviate(context)}"
    changes = ", ".join(() if before is None else list_changes(before, version.ticket))
    sheet.line(
        (f"{_format_stamp(stamp, is_full)}{nearest}", "dim"),
        f"  {version.action}{': ' if changes else ''}{changes}",
    )
    if version.note.strip():
        _print_text(sheet, version.note, indent=6)


def list_changes(before: TicketState, after: TicketState) -> Iterable[str]:
    """Yield the fields that differ, short ones with the new value."""
    for name in TicketState.__struct_fields__:
        old, new = getattr(before, name), getattr(after, name)
        if old == new:
            continue
        if isinstance(new, str | int) and len(str(new)) <= _LABEL_CELLS * 2:
            yield f"{name} {_show(old)} -> {_show(new)}"
        elif isinstance(new, tuple):
            added = [_show(item) for item in new if item not in old]
            removed = [_show(item) for item in old if item not in new]
            yield f"{name} {' '.join([f'+{i}' for i in added] + [f'-{i}' for i in removed])}"
        elif isinstance(new, dict):
            yield f"{name} {', '.join(f'{key}={value}' for key, value in new.items())}"
        else:
            yield name


def _show(value: object) -> str:
    """Return a value of a field as text; names are abbreviated."""
    text = str(msgspec.to_builtins(value))
    is_name = text[:4] in ("tkt-", "art-", "ctx-")
    return _abbreviate(text) if is_name else text or "none"


def _print_text(sheet: Sheet, text: str, *, indent: int) -> None:
    for line in text.strip("\n").splitlines():
        sheet.line(line, indent=indent)


def _format_stamp(stamp: ChangeStamp, is_full: bool) -> str:
    context = stamp.context_id if is_full else _abbreviate(stamp.context_id)
    return f"{_minute(stamp.time)} {stamp.author}{f'  {context}' if context else ''}"


def _minute(time: str) -> str:
    return format_minute(to_datetime(parse_rfc3339(time)), LocalZone())


def _abbreviate(name: str) -> str:
    return name[: _PREFIX_CHARS + SHORT_NAME_DIGITS]
