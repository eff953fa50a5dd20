"""`SessionLibrary`: the protocol through which the routes find sessions.

The command implements it for a home folder; this package knows neither the home nor its indexes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from harken.core.events import Event
from harken.core.record import Record
from harken.session.fold import Resolver


class SessionSummary(Record, frozen=True, kw_only=True):
    """A session in the list. Unknown values are None."""

    name: str
    title: str | None
    runtime: str
    project: str | None
    began: str | None
    ended: str | None
    """The time of its last event; of a compressed log, that of its last change."""
    state: str | None
    outcome: str | None
    is_live: bool
    """Whether a process writes its log now."""
    is_imported: bool
    agents: int | None
    messages: int | None
    cost_usd: float | None
    error: str | None = None
    """Why its log cannot be read."""


class SessionQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The filter of sessions. A condition that is None matches all."""

    text: str | None = None
    """A part of the name, title or project."""
    runtime: str | None = None
    project: str | None = None
    agent: str | None = None
    outcome: str | None = None
    since: str | None = None
    until: str | None = None
    min_cost_usd: float | None = None
    is_live: bool | None = None
    cursor: str | None = None
    """The `next` of the page before."""
    limit: int = 50


class SessionPage(Record, frozen=True, kw_only=True):
    """A page of the list of sessions, newest first."""

    sessions: list[SessionSummary]
    total: int
    """The number of sessions that match."""
    next: str | None
    """The cursor of the next page. None if this is the last one."""
    runtimes: list[str]
    """The runtimes of all sessions."""
    projects: list[str]
    """The working folders of all sessions, as far as they are known without reading logs."""


class SnippetPiece(Record, frozen=True, kw_only=True):
    """A piece of the text of a search hit."""

    text: str
    is_match: bool


class SessionHit(Record, frozen=True, kw_only=True):
    """A message that matches a search."""

    session: str
    title: str
    agent: str
    message_id: str | None
    """The id of the message in the session. None if it is only known in a commit."""
    time: str | None
    runtime: str
    kind: str
    is_unheard: bool | None
    """Whether it is in an answer that no other agent received as it is: a hook denied or rewrote
    it, or it is not decided. None if that is not known."""
    snippet: list[SnippetPiece]


class SearchPage(Record, frozen=True, kw_only=True):
    """The hits of a search, newest first."""

    total: int
    is_more: bool
    """Whether there are more than `total`."""
    hits: list[SessionHit]


class StatisticsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The sessions and times of statistics. A condition that is None matches all."""

    session: str | None = None
    since: str | None = None
    until: str | None = None
    project: str | None = None
    runtime: str | None = None


class SessionSource(Protocol):
    """The events of a session. Its methods are called by one thread at a time."""

    @property
    def key(self) -> object:
        """A value that changes if the session must be read again from the beginning."""

    @property
    def resolver(self) -> Resolver:
        """Return the messages of commits that agents started from."""

    def read(self) -> Sequence[Event]:
        """Return events since the last call, oldest first. Empty if there are no more.

        Raises InvalidLog if it is a log that does not begin with the read events any more,
        HarkenError.
        """

    def find_version(self) -> object:
        """Return a value that changes when the log is written."""

    def is_live(self) -> bool:
        """Whether a process writes the session now."""


class SessionLibrary(Protocol):
    """The sessions of a home. Methods are called by several threads at a time."""

    @property
    def home(self) -> str:
        """The folder of the home, to be shown."""

    def count(self) -> int:
        """Return the number of sessions."""

    def list_sessions(self, query: SessionQuery) -> SessionPage:
        """Return a page of the sessions that match. Raises HarkenError for an invalid query."""

    def describe(self, name: str) -> SessionSummary:
        """Return the summary of a session. Raises NameNotFound."""

    def open(self, name: str) -> SessionSource:
        """Return a new source of the events of a session. Raises NameNotFound."""

    def key_of(self, name: str) -> object:
        """Return the `key` that a new source would have. Raises NameNotFound."""

    def search(self, text: str, limit: int) -> SearchPage:
        """Return messages that match. Raises HarkenError for an invalid query."""

    def commands(
        self, name: str, *, has_commits: bool, request: str | None = None
    ) -> Mapping[str, str]:
        """Return the command lines that continue a session, by program. Raises NameNotFound.

        has_commits: whether its events include a commit. request: the model call to continue from.
        """

    def summarize(self, query: StatisticsQuery) -> Mapping[str, Any]:
        """Return statistics. Raises HarkenError for an invalid query, NameNotFound."""
