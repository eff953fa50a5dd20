"""`SessionLibrary`: the protocol through which the routes find sessions.

The command implements it for a home folder; this package knows neither the home nor its indexes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Protocol, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, field_validator

from harken.core.events import Event
from harken.core.record import Record
from harken.session.fold import Resolver

QueryText: TypeAlias = Annotated[str | None, Field(max_length=1000)]


class ViewerQuery(BaseModel):
    """The parameters of a request. An empty text is as none."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    @field_validator("*", mode="before")
    @classmethod
    def _drop_empty(cls, value: object) -> object:
        return None if value == "" else value


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
    questions: int = 0
    """The number of questions of its agents that wait for the user here."""
    is_imported: bool
    agents: int | None
    messages: int | None
    cost_usd: float | None
    facts: Literal["current", "behind", "none"] = "none"
    """Whether the index has all of the session, an earlier state of it, or nothing. Of an earlier
    state, the numbers of agents and messages are given, but no outcome and no cost."""
    error: str | None = None
    """Why its log cannot be read."""


MAX_LIMIT = 500
"""The maximum number of sessions in a page."""
_Cost = Annotated[float | None, Field(ge=0, le=1e9)]


class SessionQuery(ViewerQuery):
    """The filter of sessions. A condition that is None matches all."""

    text: QueryText = None
    """A part of the name, title or project."""
    runtime: QueryText = None
    project: QueryText = None
    agent: QueryText = None
    """The name of an agent; `main` is the main conversation."""
    tool: QueryText = None
    """The name of a tool that was called."""
    model: QueryText = None
    outcome: QueryText = None
    since: QueryText = None
    until: QueryText = None
    """The session began before this time; a day includes all of it."""
    min_cost_usd: _Cost = Field(default=None, alias="min_cost")
    max_cost_usd: _Cost = Field(default=None, alias="max_cost")
    is_live: bool | None = Field(default=None, alias="live")
    cursor: QueryText = None
    """The `next` of the page before."""
    limit: int = Field(default=50, ge=1, le=MAX_LIMIT)


class LeftOut(Record, frozen=True, kw_only=True):
    """The numbers of sessions that may match a query: their facts are not known."""

    unindexed: int
    """They are not indexed yet, or not completely."""
    unpriced: int
    """They have responses without a known price."""


class IndexState(Record, frozen=True, kw_only=True):
    """The state of the index, which is brought up to date in the background."""

    pending: int
    """The number of sessions with content that is not indexed yet."""
    failed: int
    """The number of sessions that the last update could not read completely."""
    is_running: bool
    error: str | None = None
    """Why the last update failed."""


class SessionPage(Record, frozen=True, kw_only=True):
    """A page of the list of sessions, newest first."""

    sessions: list[SessionSummary]
    total: int
    """The number of sessions that match."""
    next: str | None
    """The cursor of the next page. None if this is the last one."""
    left_out: LeftOut
    index: IndexState


class SessionChoices(Record, frozen=True, kw_only=True):
    """The values by which sessions can be filtered, as far as they are known without reading logs.

    Of agents, tools, models and outcomes the most frequent ones.
    """

    runtimes: list[str]
    projects: list[str]
    agents: list[str]
    tools: list[str]
    models: list[str]
    outcomes: list[str]


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
    commit: str | None
    """The commit with the message. None if it has none yet."""
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
    index: IndexState | None = None
    """The state of the index if much is not indexed yet, and was not searched."""


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

    def list_choices(self) -> SessionChoices:
        """Return the values by which sessions can be filtered."""

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
