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
from harken.session.log.file import is_being_written
from harken.terminal.text import escape_control_characters, print_json, print_text
from harken.views.dialog import format_items, perspective
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
    """Print the events of a session until it ends. `wait` is called between two reads."""
    viewer = SessionViewer.of(follower.events, str(follower.path))
    show: PrintEvents | None = None
    has_waited = False
    while True:
        events: Sequence[Event] = follower.read()
        if show is None and any(isinstance(event, AgentCreated) for event in events):
            show, events = make(viewer), follower.events.events
        if show is not None and events:
            show(events)
        if follower.has_ended:
            return
        if not has_waited:
            has_waited = True
            _print_hint(follower)
        wait(POLL_INTERVAL_S)


def _print_hint(follower: SessionFollower) -> None:
    """Print that the view waits, and why nothing may follow."""
    is_running = is_being_written(follower.path)
    text = "following" if is_running else "no process writes it; following a resume"
    click.echo(escape_control_characters(f"{follower.path.stem}: {text}; Ctrl-C ends it"), err=True)


def print_perspective(agent_id: AgentId, *, as_json: bool) -> PrintEvents:
    """Return a function that prints the perspective of an agent in new events."""

    def show(events: Sequence[Event]) -> None:
        items = perspective(events, agent_id)
        if as_json:
            for item in items:
                print_json(item.as_json(), indent=None)
        elif items:
            print_text(format_items(items))

    return show
