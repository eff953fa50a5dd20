"""Conversations that were imported, by the names that people have for them.

One idea: a conversation is a commit. Whoever has another name for it, the runtime's own or that of
its file, is told by the catalogue which one; and of a commit it says where the runtime worked.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from harken.capture.sessions import ImportedSession, find_session, imported_sessions
from harken.context.names import PREFIX, find
from harken.core.commits import CommitId
from harken.errors import AmbiguousName, ConfigError, UnknownName
from harken.index.catalogue import Catalogue
from harken.store.base import Store

_LISTED = 12


@dataclass(frozen=True, slots=True)
class Conversation:
    """A commit, and what is known of the file that it was read from."""

    ctx: CommitId
    runtime: str = ""
    """Empty: it was not imported."""
    folder: str = ""
    """Where the runtime worked, as the file says: hostile."""
    title: str = ""


def find_conversation(store: Store, catalogue: Catalogue, given: str) -> Conversation:
    """Return the conversation that a person means.

    given: a commit or its unique beginning; `claude:UUID`, the UUID, or their unique beginnings; or
    a file that was imported. Raises UnknownName, AmbiguousName, ConfigError.
    """
    sessions = imported_sessions(catalogue)
    if given.startswith(PREFIX):
        return _of_commit(store, sessions, find(store, given))
    if given and (os.sep in given or Path(given).exists()):
        return _of_file(sessions, catalogue, given)
    try:
        return _of_session(find_session(sessions, given))
    except AmbiguousName:
        raise
    except UnknownName as error:
        known = [f"commits ({PREFIX}...)", *error.known[:_LISTED]]
        raise UnknownName("session", given, known) from None


def _of_commit(store: Store, sessions: list[ImportedSession], ctx: CommitId) -> Conversation:
    stored = store.commits([ctx])
    principal = stored[ctx].commit.principal if ctx in stored else ""
    for one in sessions:
        if principal == one.name or principal.startswith(f"{one.name}/"):
            return Conversation(ctx, one.runtime, one.project, one.title)
    return Conversation(ctx)


def _of_file(sessions: list[ImportedSession], catalogue: Catalogue, path: str) -> Conversation:
    for one in sessions:
        if one.is_of(path):
            return Conversation(one.tip_of(path), one.runtime, one.project, one.title)
    name = os.path.abspath(path)  # noqa: PTH100 - links stay as they are, as where it was imported
    is_known = bool(catalogue.known([name]))
    there = "holds no conversation" if is_known else "was not imported; see `harken import`"
    raise ConfigError(f"{path}: this {there}")


def _of_session(one: ImportedSession) -> Conversation:
    return Conversation(one.ends[0].ctx, one.runtime, one.project, one.title)
