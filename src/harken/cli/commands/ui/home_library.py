"""`HomeLibrary`: the sessions of a home folder, for the routes of the viewer."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from harken.analytics.times import to_datetime
from harken.cli.commands.sessions.listing import HARKEN, ListedSession
from harken.cli.commands.ui.home_code import HomeCode
from harken.cli.commands.ui.known_repositories import KnownRepositories
from harken.cli.commands.ui.listing.background_index import BackgroundIndex
from harken.cli.commands.ui.listing.session_filter import SessionFilter
from harken.cli.commands.ui.listing.session_list import SessionList
from harken.cli.commands.ui.listing.session_summaries import SessionSummaries
from harken.cli.commands.ui.log_facts import LogFacts, LogFactsCache
from harken.cli.commands.ui.sources import ImportedSource, LogSource, imported_key, log_key
from harken.config.home import Home, command_prefix
from harken.config.index import read_facts, read_indexed
from harken.config.name_resolver import ImportedName, NameResolver, SessionLog
from harken.errors import ConfigError, NameNotFound
from harken.formats.runtimes.client_sessions import read_recorded_session
from harken.service.viewer.library import (
    IndexState,
    SearchPage,
    SessionChoices,
    SessionHit,
    SessionPage,
    SessionQuery,
    SessionSource,
    SessionSummary,
    SnippetPiece,
)

_MAX_BYTES_AT_ONCE = 1_000_000
"""The size of new content that a search indexes itself: some tenths of a second."""
_CLIENTS = ("claude", "codex", "gemini", "opencode", "pi")


class HomeLibrary:
    """The logs and imported sessions of a home. Methods are called by several threads at a time."""

    def __init__(
        self, home: Home, program: str, home_options: Sequence[str], index: BackgroundIndex
    ) -> None:
        """Nothing is read yet. `program` and `home_options` are parts of the shown commands.

        `index` is brought up to date when sessions are listed.
        """
        self._home, self._program, self._home_options = home, program, list(home_options)
        self.session_list = self._list = SessionList(home)
        self._summaries, self._index = SessionSummaries(), index

    def make_code_library(self, start: Path, environ: Mapping[str, str]) -> HomeCode:
        """Return the library of the code on which the sessions worked, and that of a folder."""
        repositories = KnownRepositories(self._list, start, environ)
        command = [self._program, *self._home_options]
        return HomeCode(self._home, self._list, repositories, self.find_session, command)

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
            hint = f"`{command_prefix('sessions')}` lists sessions"
            if Path(name).is_file():
                hint = f"`{command_prefix('import', name)}` adds it"
            raise ConfigError(f"{name}: not a session of this home; {hint}")
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
        return len(self._list.current().sessions)

    def list_sessions(self, query: SessionQuery) -> SessionPage:
        """Return a page of the sessions that match, newest first. Raises ConfigError."""
        listing = self._list.current()
        matches, left_out = SessionFilter(listing, query).find_matches()
        start = _find_start(matches, query.cursor)
        page_sessions = matches[start : start + query.limit]
        is_last = start + query.limit >= len(matches)
        return SessionPage(
            sessions=self._summaries.summarize(listing, page_sessions),
            total=len(matches),
            next=None if is_last else _format_cursor(page_sessions[-1]),
            left_out=left_out,
            index=self._index.request(listing),
        )

    def list_choices(self) -> SessionChoices:
        """Return the values by which sessions can be filtered."""
        listing = self._list.current()
        projects = {listing.known_project(session) for session in listing.sessions} - {""}
        return SessionChoices(
            runtimes=sorted({session.runtime for session in listing.sessions}),
            projects=sorted(projects),
            **listing.facts.names(),
        )

    def describe(self, name: str) -> SessionSummary:
        """Return the summary of a session. Raises NameNotFound."""
        session = self._get(name)
        return self._summaries.summarize(self._list.current(), [session])[0]

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
        """Return messages that match, newest first.

        A little new content is indexed first. Much is indexed by another process meanwhile, since
        this one could answer nothing else. Raises ConfigError if the text has no word, StoreError.
        """
        from harken.index.query import parse_query

        parse_query(text)  # An empty query is an error before the facts are read.
        listing = self._list.current()
        index = None
        if self._index.is_running() or listing.count_unindexed_bytes() > _MAX_BYTES_AT_ONCE:
            index = self._index.request(listing)
        if index is None:
            return read_facts(self._home, partial(self._find_hits, text, limit, None))
        if not self._home.facts_file.exists():
            return SearchPage(total=0, is_more=False, hits=[], index=index)
        return read_indexed(self._home, partial(self._find_hits, text, limit, index))

    def _find_hits(
        self, text: str, limit: int, index: IndexState | None, facts: Any, store: Any
    ) -> SearchPage:
        from harken.index.search import SearchQuery, search

        if facts.has_forgotten:  # The index is made anew without the removed messages.
            return SearchPage(total=0, is_more=False, hits=[], index=index)
        results = search(facts, store, SearchQuery(text=text, limit=limit))
        log_facts = LogFactsCache()
        hits = [self._build_hit(hit, log_facts) for hit in results.hits]
        return SearchPage(total=results.total, is_more=results.is_more, hits=hits, index=index)

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
            commit=hit.ctx,
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
