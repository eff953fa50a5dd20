"""`HomeLibrary`: the sessions of a home folder, for the routes of the viewer."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harken.analytics.times import to_datetime
from harken.cli.commands.sessions.listing import HARKEN, ListedSession, is_in_folder
from harken.cli.commands.ui import history
from harken.cli.commands.ui.home_code import HomeCode
from harken.cli.commands.ui.known_repositories import KnownRepositories
from harken.cli.commands.ui.log_facts import LogFacts, LogFactsCache
from harken.cli.commands.ui.session_list import SessionList
from harken.cli.commands.ui.sources import ImportedSource, LogSource, imported_key, log_key
from harken.cli.options.time import parse_time_us
from harken.config.home import Home, command_prefix
from harken.config.index import read_facts
from harken.config.local_zone import LocalZone
from harken.config.name_resolver import ImportedName, NameResolver, SessionLog
from harken.core import structs
from harken.errors import ConfigError, NameNotFound
from harken.formats.runtimes.client_sessions import read_recorded_session
from harken.service.viewer.library import (
    SearchPage,
    SessionHit,
    SessionPage,
    SessionQuery,
    SessionSource,
    SessionSummary,
    SnippetPiece,
    StatisticsQuery,
)

_CLIENTS = ("claude", "codex", "gemini", "opencode", "pi")


class HomeLibrary:
    """The logs and imported sessions of a home. Methods are called by several threads at a time."""

    def __init__(self, home: Home, program: str, home_options: Sequence[str]) -> None:
        """Nothing is read yet. `program` and `home_options` are parts of the shown commands."""
        self._home, self._program, self._home_options = home, program, list(home_options)
        self._list = SessionList(home)

    def make_code_library(self, start: Path, environ: Mapping[str, str]) -> HomeCode:
        """Return the library of the code on which the sessions worked, and that of a folder."""
        repositories = KnownRepositories(self._list, start, environ)
        command = [self._program, *self._home_options]
        return HomeCode(self._home, self._list, repositories, command)

    @property
    def home(self) -> str:
        """The folder of the home."""
        return str(self._home.folder)

    def resolve(self, name: str) -> str:
        """Return the full name of a session on a command line.

        Raises NameNotFound, AmbiguousName, and ConfigError for a commit or a file elsewhere.
        """
        full_name = self.find(name)
        if full_name is None:
            listing = command_prefix("sessions")
            raise ConfigError(f"{name}: not a session of this home; `{listing}` lists sessions")
        return full_name

    def find(self, name: str) -> str | None:
        """Return the full name of a session, or None for a commit or a file elsewhere.

        Raises NameNotFound, AmbiguousName.
        """
        resolved = NameResolver(self._home).resolve(name)
        if isinstance(resolved, ImportedName):
            return resolved.session.name
        if not isinstance(resolved, SessionLog):
            return None
        recorded = read_recorded_session(resolved.path)
        return resolved.path.stem if recorded is None else recorded.name

    def count(self) -> int:
        """Return the number of sessions."""
        return len(self._list.sessions())

    def list_sessions(self, query: SessionQuery) -> SessionPage:
        """Return a page of the sessions that match, newest first. Raises ConfigError."""
        all_sessions = self._list.sessions()
        conditions = _Conditions(self._list, query)
        matches = [session for session in all_sessions if conditions.match(session)]
        start = _find_start(matches, query.cursor)
        page_sessions = matches[start : start + query.limit]
        is_last = start + query.limit >= len(matches)
        projects = {self._list.known_project(session) for session in all_sessions} - {""}
        return SessionPage(
            sessions=self._list.summarize(page_sessions),
            total=len(matches),
            next=None if is_last else _format_cursor(page_sessions[-1]),
            runtimes=sorted({session.runtime for session in all_sessions}),
            projects=sorted(projects),
        )

    def describe(self, name: str) -> SessionSummary:
        """Return the summary of a session. Raises NameNotFound."""
        return self._list.summarize([self._get(name)])[0]

    def find_log(self, name: str) -> Path | None:
        """Return the log of a session. Return None for an import. Raises NameNotFound."""
        session = self._get(name)
        return session.logs[0] if session.logs else None

    def open(self, name: str) -> SessionSource:
        """Return a new source of the events of a session. Raises NameNotFound."""
        session = self._get(name)
        if session.logs:  # The recording has the exact requests.
            return LogSource(self._home, session.logs[0])
        assert session.imported is not None  # A session has a log, or it is imported.
        return ImportedSource(self._home, session.imported)

    def key_of(self, name: str) -> object:
        """Return the key of the source of a session. Raises NameNotFound."""
        session = self._get(name)
        if session.logs:
            return log_key(session.logs[0])
        assert session.imported is not None  # As above.
        return imported_key(session.imported)

    def search(self, text: str, limit: int) -> SearchPage:
        """Return messages that match, newest first. New content is indexed first.

        Raises ConfigError if the text has no word, StoreError.
        """
        from harken.index.query import parse_query
        from harken.index.search import SearchQuery, search

        parse_query(text)  # An empty query is an error before the facts are read.

        def find(facts: Any, store: Any) -> SearchPage:
            results = search(facts, store, SearchQuery(text=text, limit=limit))
            log_facts = LogFactsCache()
            hits = [self._build_hit(hit, log_facts) for hit in results.hits]
            return SearchPage(total=results.total, is_more=results.is_more, hits=hits)

        return read_facts(self._home, find)

    def commands(
        self, name: str, *, has_commits: bool, request: str | None = None
    ) -> Mapping[str, str]:
        """Return the command lines that continue a session, by program. Raises NameNotFound."""
        session = self._get(name)
        lines = {HARKEN: ["chat", "--resume", name]}
        if request is not None:
            lines["rerun"] = ["rerun", name, "--at", request]
        if request is not None and session.logs:
            lines["fork"] = ["fork", name, "--at", request]
        if has_commits or session.imported is not None:
            lines |= {client: ["resume", name, "--client", client] for client in _CLIENTS}
        return {program: self._format_command(words) for program, words in lines.items()}

    def find_session(self, index_name: str) -> str | None:
        """Return the name of the session that a commit or the index names.

        Return None if there is none.
        """
        name = self._list.find_by_index_name(index_name)
        return None if self._list.find(name) is None else name

    def summarize(self, query: StatisticsQuery) -> Mapping[str, Any]:
        """Return statistics, after new content was indexed. Raises HarkenError."""
        if query.session is not None:
            name = self._list.index_name(self._get(query.session))
            query = structs.replace(query, session=name)
        return history.summarize(self._home, query)

    def _get(self, name: str) -> ListedSession:
        session = self._list.find(name)
        if session is None:
            raise NameNotFound("session", name, [])
        return session

    def _build_hit(self, hit: Any, log_facts: LogFactsCache) -> SessionHit:
        name = self._list.find_by_index_name(hit.session)
        session = self._list.find(name)
        facts = log_facts.find(session.logs[0]) if session and session.logs else LogFacts()
        is_unheard = None
        if facts.unheard is not None and hit.event is not None:
            is_unheard = hit.event in facts.unheard
        return SessionHit(
            session=name,
            title=hit.title,
            agent=hit.agent or facts.main_agent or "main",
            message_id=hit.event,
            time=None if hit.time_us is None else to_datetime(hit.time_us).isoformat(),
            runtime=hit.runtime,
            kind=hit.kind,
            is_unheard=is_unheard,
            snippet=[
                SnippetPiece(text=text, is_match=is_match) for text, is_match in hit.excerpt.pieces
            ],
        )

    def _format_command(self, words: Sequence[str]) -> str:
        return " ".join([self._program, *map(shlex.quote, [*words, *self._home_options])])


class _Conditions:
    """The filter of sessions, with the cheapest conditions first."""

    def __init__(self, sessions: SessionList, query: SessionQuery) -> None:
        """Raises ConfigError for an invalid time."""
        self._list, self._query = sessions, query
        now, zone = datetime.now(UTC), LocalZone()
        since, until = query.since, query.until
        self._since_s = -math.inf if since is None else parse_time_us(since, zone, now) / 1e6
        self._until_s = math.inf if until is None else parse_time_us(until, zone, now) / 1e6
        self._text = None if query.text is None else query.text.casefold()
        self._agent_ids: set[int] | None = None
        if query.agent is not None:
            self._agent_ids = sessions.index.find_sessions_of_agent(query.agent)

    def match(self, session: ListedSession) -> bool:
        """Whether a session meets all of them."""
        query = self._query
        if not self._since_s <= session.modified_s < self._until_s:
            return False
        if query.runtime not in (None, session.runtime):
            return False
        if query.is_live is not None and self._list.is_live(session) != query.is_live:
            return False
        return self._match_index(session) and self._match_words(session)

    def _match_index(self, session: ListedSession) -> bool:
        query = self._query
        if query.outcome is None and self._agent_ids is None and query.min_cost_usd is None:
            return True
        row = self._list.find_indexed(session)
        if row is None or query.outcome not in (None, row.outcome):
            return False
        if self._agent_ids is not None and row.id not in self._agent_ids:
            return False
        if query.min_cost_usd is None:
            return True
        cost_usd = self._list.index.costs().get(row.id)
        return cost_usd is not None and cost_usd >= query.min_cost_usd

    def _match_words(self, session: ListedSession) -> bool:
        if self._text is None and self._query.project is None:
            return True
        title, project = self._list.title_and_project(session)
        folder = self._query.project
        if folder is not None and not is_in_folder(project, folder):
            return False
        texts = (session.name, project, title)
        return self._text is None or any(self._text in text.casefold() for text in texts)


def _format_cursor(session: ListedSession) -> str:
    return f"{session.modified_s!r} {session.name}"


def _find_start(sessions: Sequence[ListedSession], cursor: str | None) -> int:
    """Return the index of the first session after a cursor. A new session moves no other one.

    Raises ValueError for a text that is no cursor.
    """
    if cursor is None:
        return 0
    modified, _, name = cursor.partition(" ")
    modified_s = float(modified)
    for index, session in enumerate(sessions):
        if session.modified_s < modified_s:
            return index
        if session.name == name and session.modified_s == modified_s:
            return index + 1
    return len(sessions)
