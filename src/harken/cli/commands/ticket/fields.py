"""The options that set fields of a ticket, and the change that they stand for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from harken.cli.options.name_types import TICKET
from harken.context.refs import find_commit_or_artifact
from harken.core.commits import ArtifactRef, TicketId
from harken.errors import ConfigError
from harken.store.base import Store
from harken.store.chunking import put_file
from harken.tickets.change import TicketChange
from harken.tickets.ticket import (
    DISPOSITIONS,
    MAX_PRIORITY,
    MIN_PRIORITY,
    STATUSES,
    TYPES,
    Disposition,
)
from harken.tickets.tracker import Tickets

Command = TypeVar("Command", bound=Callable[..., Any])
_STDIN = "-"
_FIELD_OPTIONS = (
    click.option("--body", help="The description; - reads it from stdin."),
    click.option("--status", type=click.Choice(STATUSES), help="The status."),
    click.option(
        *("-p", "--priority"),
        type=click.IntRange(MIN_PRIORITY, MAX_PRIORITY),
        help="The priority; 0 is the most urgent, 2 the default.",
    ),
    click.option("--type", "type_", type=click.Choice(TYPES), help="The type."),
    click.option("--label", "add_labels", multiple=True, help="Add a label. Repeatable."),
    click.option("--assignee", metavar="NAME", help='The assignee; "" removes it.'),
    click.option("--parent", metavar="TICKET", type=TICKET, help='The parent; "" removes it.'),
    click.option(
        "--blocked-by",
        "add_blockers",
        metavar="TICKET",
        type=TICKET,
        multiple=True,
        help="Add a ticket that must be closed first. Repeatable.",
    ),
    click.option(
        "--attach",
        "attachments",
        metavar="FILE|ART",
        multiple=True,
        help="Attach a file, which is stored, or an artifact. Repeatable.",
    ),
    click.option(
        *("--reviewer", "add_reviewers"),
        metavar="NAME",
        multiple=True,
        help="Add a reviewer. Repeatable.",
    ),
    click.option("--note", default="", help="A note with the change; - reads it from stdin."),
)
_REMOVAL_OPTIONS = (
    click.option("--title", help="The title."),
    click.option(
        "--review",
        "reviews",
        metavar="NAME=DISPOSITION",
        multiple=True,
        help=f"Set the disposition of a reviewer: {', '.join(DISPOSITIONS)}. Repeatable.",
    ),
    click.option(
        *("--remove-label", "remove_labels"), metavar="LABEL", multiple=True, help="Remove a label."
    ),
    click.option(
        *("--unblock", "remove_blockers"),
        metavar="TICKET",
        type=TICKET,
        multiple=True,
        help="Remove a ticket that blocks this one.",
    ),
    click.option(
        *("--detach", "detachments"), metavar="ART", multiple=True, help="Remove an attachment."
    ),
    click.option(
        "--remove-reviewer",
        "remove_reviewers",
        metavar="NAME",
        multiple=True,
        help="Remove a reviewer.",
    ),
)


def field_options(command: Command) -> Command:
    """Add the options that set fields of a new or existing ticket."""
    return _add(command, _FIELD_OPTIONS)


def removal_options(command: Command) -> Command:
    """Add the options that change or remove what an existing ticket has."""
    return _add(command, _REMOVAL_OPTIONS)


def build_change(tickets: Tickets, values: dict[str, Any]) -> TicketChange:
    """Return the change of the options. Raises ConfigError, NameNotFound, AmbiguousName, OSError.

    `values` are the parameters of `field_options`, and possibly of `removal_options`.
    """
    parent = values["parent"]
    return TicketChange(
        title=values.get("title"),
        body=read_text(values["body"]),
        status=values["status"],
        priority=values["priority"],
        type=values["type_"],
        assignee=values["assignee"],
        parent=tickets.find_id(parent) if parent else None,
        has_no_parent=parent == "",
        add_labels=values["add_labels"],
        remove_labels=values.get("remove_labels", ()),
        add_blockers=_find_ids(tickets, values["add_blockers"]),
        remove_blockers=_find_ids(tickets, values.get("remove_blockers", ())),
        add_attachments=tuple(_attach(tickets.store, name) for name in values["attachments"]),
        remove_attachments=tuple(
            _find_artifact(tickets.store, name) for name in values.get("detachments", ())
        ),
        add_reviewers=values["add_reviewers"],
        reviews=dict(map(_parse_review, values.get("reviews", ()))),
        remove_reviewers=values.get("remove_reviewers", ()),
    )


def read_text(text: str | None) -> str | None:
    """Return the text of an option, from stdin if it is `-`."""
    return sys.stdin.read() if text == _STDIN else text


def _add(command: Command, options: Iterable[Callable[[Command], Command]]) -> Command:
    for option in reversed([*options]):
        command = option(command)
    return command


def _find_ids(tickets: Tickets, names: Iterable[str]) -> tuple[TicketId, ...]:
    return tuple(map(tickets.find_id, names))


def _attach(store: Store, name: str) -> ArtifactRef:
    """Return an artifact by its name, or store a file."""
    if name.startswith("art-"):
        return _find_artifact(store, name)
    path = Path(name)
    if not path.is_file():
        raise ConfigError(f"{name}: not a file, and not the name of an artifact (art-...)")
    with path.open("rb") as file:
        return put_file(store, file)


def _find_artifact(store: Store, name: str) -> ArtifactRef:
    if not name.startswith("art-"):
        raise ConfigError(f"{name!r} is not the name of an artifact (art-...)")
    return ArtifactRef(find_commit_or_artifact(store, name))


def _parse_review(text: str) -> tuple[str, Disposition]:
    """Parse `NAME=DISPOSITION`. The name may contain `=`."""
    name, _, disposition = text.rpartition("=")
    if not name or disposition not in DISPOSITIONS:
        raise ConfigError(
            f"{text!r} is not a review: write NAME= and one of {', '.join(DISPOSITIONS)}"
        )
    return name, disposition
