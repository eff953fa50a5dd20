"""`--follow` of views: print the new events of a running session until it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

import click

from harken.config.home import Home
from harken.config.name_resolver import NameResolver
from harken.core.events import AgentCreated, Event
from harken.core.ids import AgentId
from harken.errors import AmbiguousName, NameNotFound
from harken.session.log.file import is_being_written
from harken.terminal.text import escape_control_characters, print_json, print_text
from harken.views.dialogs.perspective import Perspective, format_items
from harken.views.viewer import SessionFollower, SessionViewer

POLL_INTERVAL_S = 0.2
PrintEvents: TypeAlias = Callable[[Sequence[Event]], None]
follow_option = click.option(
    "--follow", is_flag=True, help="Print what is new until the session ends, or Ctrl-C."
)


def follow_session(home: Home, name: str, make: Callable[[SessionViewer], PrintEvents]) -> None:
    """Print a session, and what is new until it ends or Ctrl-C is pressed.

    `make` returns the function that prints events. It is called when the session has an agent, with
    a viewer whose events grow. Raises ConfigError for a commit or an imported session.
    """
    follower = SessionFollower(NameResolver(home).log(name))
    try:
        print_new_events(follower, make)
    except KeyboardInterrupt:
        print_text()


def print_new_events(
    follower: SessionFollower,
    make: Callable[[SessionViewer], PrintEvents],
    wait: Callable[[float], None] = time.sleep,
) -> None:
    """Print the events of a session until it ends. `wait` is called between two reads.

    A running session may create the agent of the view later. Raises NameNotFound if it ends
    without it.
    """
    viewer = SessionViewer.of(follower.events, str(follower.path))
    show: PrintEvents | None = None
    missing: NameNotFound | None = None
    has_waited = False
    while True:
        events: Sequence[Event] = follower.read()
        if show is None and any(isinstance(event, AgentCreated) for event in events):
            try:
                show, events = make(viewer), follower.events.events
            except NameNotFound as error:
                missing = error
        if show is not None and events:
            show(events)
        if follower.has_ended or (show is None and missing and not _can_grow(follower, missing)):
            break
        if not has_waited:
            has_waited = True
            _print_hint(follower, missing)
        wait(POLL_INTERVAL_S)
    if show is None and missing is not None:
        raise missing


def _can_grow(follower: SessionFollower, missing: NameNotFound) -> bool:
    """Whether an agent that is missing may be created later."""
    return not isinstance(missing, AmbiguousName) and is_being_written(follower.path)


def _print_hint(follower: SessionFollower, missing: NameNotFound | None) -> None:
    """Print that the view waits, and why nothing may follow."""
    text = "following"
    if missing is not None:
        text = f"{missing}; waiting for it"
    elif not is_being_written(follower.path):
        text = "no process writes it; following a resume"
    click.echo(escape_control_characters(f"{follower.path.stem}: {text}; Ctrl-C ends it"), err=True)


def print_perspective(viewer: SessionViewer, agent_id: AgentId, *, as_json: bool) -> PrintEvents:
    """Return a function that prints the perspective of an agent in new events."""
    view = Perspective(viewer.events, agent_id, holds_back=True)

    def show(events: Sequence[Event]) -> None:
        items = view.add(events)
        if as_json:
            for item in items:
                print_json(item.as_json(), indent=None)
        elif items:
            print_text(format_items(items))

    return show
