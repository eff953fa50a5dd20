"""The conversation that a person means, and the place in it: what `resume` and `verify` ask for."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harken.cli.home import LATEST, Home, command_line
from harken.cli.imported import find_log, imported
from harken.cli.opened_store import store_of
from harken.context.moment import Moment, moment
from harken.context.names import PREFIX, find
from harken.core.clock import rfc3339, system_clock
from harken.errors import ConfigError
from harken.formats.native import NewSession

if TYPE_CHECKING:
    from harken.capture.conversations import Conversation
    from harken.store.base import Store

AT_HELP = (
    "A message's number (`harken ctx cat` shows them), -N for the Nth from the end, or its id."
)


@dataclass(frozen=True, slots=True)
class Meant:
    """A conversation up to a message."""

    conversation: Conversation
    moment: Moment


def conversation_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the argument and the option that say where to go on."""
    at = click.option("--at", metavar="MESSAGE", help=AT_HELP)
    return click.argument("conversation", metavar="CTX")(at(function))


def meant(home: Home, store: Store, given: str, at: str | None) -> Meant:
    """Return what a person means: a commit, an imported session, its file, a session of Harken.

    Raises UnknownName, AmbiguousName, ConfigError.
    """
    log = None if given.startswith(PREFIX) else find_log(home, given)
    if log is not None and log.parent == home.sessions_folder:
        found = _last_of(store, log)
    else:
        found = _imported(home, store, given)
    return Meant(found, moment(store, found.ctx, at))


def _imported(home: Home, store: Store, given: str) -> Conversation:
    """Return a conversation that has no log here; `latest` is the newest one."""
    from harken.capture.conversations import find_conversation
    from harken.index.catalogue import Catalogue

    sessions = imported(home) if given == LATEST else []
    given = sessions[0].name if sessions else given
    catalogue = Catalogue(home.index_file if home.index_file.exists() else None)
    try:
        return find_conversation(store, catalogue, given)
    finally:
        catalogue.close()


def _last_of(store: Store, log: Path) -> Conversation:
    """Return what the first agent of a session understood last, as its log says.

    Raises ConfigError where it says of no commit, or of one that is not in the store.
    """
    from harken.capture.conversations import Conversation
    from harken.core.events import AgentCreated, ContextCommitted, ContextLoaded
    from harken.session.reader import events

    agent, ctx = None, None
    for event in events(log):
        if isinstance(event, AgentCreated) and agent is None:
            agent = event.agent_id
        elif isinstance(event, ContextCommitted | ContextLoaded) and event.agent_id == agent:
            ctx = event.ctx
    if ctx is None:
        raise ConfigError(
            f"{log.stem}: this session has no commit yet; go on with it in Harken: "
            f"`{command_line('chat', '--resume', log.stem)}`"
        )
    return Conversation(find(store, ctx))


def read_meant(home: Home, given: str, at: str | None) -> Meant:
    """Open the store, and return what a person means."""
    with store_of(home) as store:
        return meant(home, store, given, at)


def new_session(runtime: str, folder: Path, *, title: str = "", model: str = "") -> NewSession:
    """Return what a session is called that is made now, to go on in a folder."""
    from harken.capture.clients import new_id

    now_us = system_clock()
    return NewSession(
        id=new_id(runtime, now_us // 1000),
        folder=os.path.realpath(folder),
        time=rfc3339(now_us),
        title=title,
        model=model,
    )
