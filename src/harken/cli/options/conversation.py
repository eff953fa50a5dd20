"""The conversation and the position in it that the user named, for `resume` and `verify`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from harken.capture.files.imported_sessions import ImportedConversation, find_conversation
from harken.cli.options.name_types import COMMIT
from harken.config.home import Home
from harken.config.imported_sessions import list_imported
from harken.config.name_resolver import ImportedName, NameResolver
from harken.config.store import open_configured_store
from harken.context.position import ConversationPosition, MessageCounts, count_messages
from harken.context.position import find_position as moment
from harken.core.clock import format_rfc3339, system_clock
from harken.formats.runtimes.base import NewSessionInfo

if TYPE_CHECKING:
    from harken.store.base import Store

AT_HELP = (
    "A message's number (`harken ctx cat` shows them), -N for the Nth from the end, or its id."
)


class ResolvedConversation(msgspec.Struct, frozen=True):
    """A conversation up to a message."""

    conversation: ImportedConversation
    moment: ConversationPosition
    counts: MessageCounts
    """The number of messages up to there, and of those that a summary replaces."""


def conversation_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the argument and the option of a position in a conversation to a command."""
    option = click.option("--at", metavar="MESSAGE", help=AT_HELP)
    return click.argument("conversation", type=COMMIT, metavar="CTX|SESSION")(option(function))


def resolve_conversation(
    home: Home, store: Store, name: str, at: str | None
) -> ResolvedConversation:
    """Return the conversation of a name, up to a message.

    Raises NameNotFound, AmbiguousName, ConfigError.
    """
    resolver = NameResolver(home, store)
    resolved = resolver.resolve(name)
    ctx = resolver.commit_of(resolved)
    if isinstance(resolved, ImportedName):
        session = resolved.session
        conversation = ImportedConversation(ctx, session.runtime, session.project, session.title)
    else:  # A recording names the session, whose file has the folder and the title.
        conversation = find_conversation(store, list_imported(home), ctx)
    place = moment(store, ctx, at)
    return ResolvedConversation(conversation, place, count_messages(store, place))


def read_conversation(home: Home, name: str, at: str | None) -> ResolvedConversation:
    """Open the store, and return the conversation that the user named."""
    with open_configured_store(home) as store:
        return resolve_conversation(home, store, name, at)


def new_session(runtime: str, folder: Path, *, title: str = "", model: str = "") -> NewSessionInfo:
    """Return the description of a session that is created now, to continue in a folder."""
    from harken.capture.resume.clients import create_session_id

    now_us = system_clock()
    return NewSessionInfo(
        id=create_session_id(runtime, now_us // 1000),
        folder=os.path.realpath(folder),
        time=format_rfc3339(now_us),
        title=title,
        model=model,
    )
