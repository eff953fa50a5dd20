"""`HomeCode`: the writers of the lines of known repositories, for the routes of the viewer.

Answers are those of `harken blame`, `why` and `who`. The lines of a file with their agents are kept
until the file, its history or the recorded edits change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from harken.attribution.answers.blamed_lines import BlamedFileLine, blame_lines
from harken.attribution.answers.explained_lines import ExplainedLines, explain_origins
from harken.attribution.answers.file_sessions import (
    CallOfSession,
    find_call_lines,
    list_file_sessions,
)
from harken.attribution.answers.folder_shares import count_file, count_files
from harken.attribution.attribution import Attribution
from harken.attribution.git.tracked_files import filter_paths, list_folder, list_tracked
from harken.attribution.shares import Share
from harken.attribution.source_files import check_lines
from harken.cli.commands.ui.blame_cache import BlameCache
from harken.cli.commands.ui.code_files import (
    OpenCodeFile,
    RepositoryState,
    open_file,
    resolve_revision,
)
from harken.cli.commands.ui.known_repositories import KnownRepositories
from harken.cli.commands.ui.listing.session_list import SessionList
from harken.cli.commands.ui.listing.session_summaries import find_title_and_project
from harken.config.home import Home
from harken.config.index import read_edits
from harken.errors import ConfigError, NameNotFound
from harken.service.viewer.code_library import (
    BlamePage,
    CodeFile,
    ExplainedPage,
    FilePage,
    FolderPage,
    RepositoryList,
    Rows,
    Tell,
)
from harken.terminal.text import shell_quote

if TYPE_CHECKING:
    from harken.attribution.git.repository import GitRepository
    from harken.attribution.records.edit_index import EditIndex
    from harken.index.session_index import SessionIndex
    from harken.store.base import Store

T = TypeVar("T")
_FIRST_LINES = 60
"""Lines that are attributed before all others: about a screen."""
_MAX_LINES = 200_000
"""A longer file is not attributed."""
_CLIENTS = ("claude", "codex", "gemini", "opencode", "pi")
_QUESTION = "Why is it written this way?"


class HomeCode:
    """The lines of files of known repositories. Methods are called by several threads at a time."""

    def __init__(
        self,
        home: Home,
        sessions: SessionList,
        repositories: KnownRepositories,
        find_session: Callable[[str], str | None],
        command: Sequence[str],
    ) -> None:
        """`find_session` returns the name in this viewer of a session of the index.

        `command`: the program in shown commands, and the options that follow its arguments.
        """
        self._home, self._list, self._repositories = home, sessions, repositories
        self._find_session = find_session
        self._program, *self._home_options = command
        self._cache = BlameCache()

    def list_repositories(self) -> RepositoryList:
        """Return the known repositories."""
        return self._repositories.describe()

    def list_folder(self, folder: CodeFile, start: int, stop: int) -> FolderPage:
        """Return a range of the entries of a folder. Raises NameNotFound, ConfigError."""
        with self._repositories.open(folder.repository) as repository:
            files = list_tracked(repository, resolve_revision(repository, folder.revision))
            entries = list_folder(files, folder.path)
            if not entries and folder.path:
                raise ConfigError(f"{folder.path}: no folder with files that git tracks")
            return FolderPage(
                total=len(entries),
                files=len(files),
                is_shallow=repository.is_shallow,
                entries=[entry.as_json() for entry in entries[start:stop]],
            )

    def filter_paths(self, repository: str, revision: str, query: str, limit: int) -> list[str]:
        """Return the paths that match a query. Raises NameNotFound, ConfigError."""
        with self._repositories.open(repository) as git:
            files = list_tracked(git, resolve_revision(git, revision))
        texts = (path for path, kind in files.items() if kind == "file")
        return filter_paths(texts, query, limit)

    def read_lines(self, file: CodeFile, start: int, stop: int) -> FilePage:
        """Return a range of the lines of a file. Raises NameNotFound, ConfigError."""
        with open_file(self._repositories, self._home, file) as source:
            return FilePage(
                path=source.path,
                commit=source.commit or None,
                total=len(source.lines),
                size=source.size,
                version=source.version.text,
                lines=source.lines[start:stop],
            )

    def blame(
        self, file: CodeFile, lines: range, tell: Tell, send: Callable[[BlamePage], None]
    ) -> BlamePage:
        """Return the lines of a file with their agents. Raises NameNotFound, ConfigError.

        The first lines are sent before all are attributed, if the file is not in the cache.
        """
        with open_file(self._repositories, self._home, file) as source:

            def page(rows: Sequence[BlamedFileLine], *, is_complete: bool = True) -> BlamePage:
                return BlamePage(
                    total=len(source.lines),
                    version=source.version.text,
                    is_complete=is_complete,
                    rows=[row.as_json() for row in rows],
                    sessions=self._find_sessions(row.session for row in rows),
                )

            def send_first(attribution: Attribution) -> None:
                last = min(lines.stop, lines.start + _FIRST_LINES, len(source.lines))
                if lines.start < last < len(source.lines):
                    ranges = [(lines.start + 1, last)]
                    rows = blame_lines(attribution, source.path, ranges, source.commit)
                    send(page(rows, is_complete=False))

            rows = self._blame(source, tell, send_first)
            return page(rows[lines.start : lines.stop])

    def explain(self, file: CodeFile, first: int, last: int, tell: Tell) -> ExplainedPage:
        """Return why lines were written. Raises NameNotFound, ConfigError, StoreError."""
        with open_file(self._repositories, self._home, file) as source:
            check_lines(source.path, first, last, len(source.lines))

            def answer(attribution: Attribution) -> list[ExplainedLines]:
                origins = attribution.origins(source.path, [(first, last)], source.commit)
                return explain_origins(attribution, {source.path: origins})

            rows = self._attribute(source.repository, tell, answer)
            target = f"{source.path}:{first}" + (f"-{last}" if last > first else "")
            options = ["--rev", source.commit] if source.commit else []
            return self._build_page(rows, file.repository, [target, *options])

    def explain_commit(self, repository: str, commit: str, tell: Tell) -> ExplainedPage:
        """Return why the lines of a commit were written. Raises as `explain`."""
        with self._repositories.open(repository) as git:
            id_ = resolve_revision(git, commit or "HEAD")

            def answer(attribution: Attribution) -> list[ExplainedLines]:
                return explain_origins(attribution, dict(attribution.commit_origins(id_)))

            rows = self._attribute(git, tell, answer)
            return self._build_page(rows, repository, [id_])

    def count_shares(self, folder: CodeFile, tell: Tell) -> Mapping[str, Any]:
        """Return the shares of agents below a folder. Raises NameNotFound, ConfigError.

        Those of a file are kept: the shares of the folders in it need no further work.
        """
        with self._repositories.open(folder.repository) as repository:
            files = list_tracked(repository)
            prefix = f"{folder.path}/" if folder.path else ""
            paths = [p for p, kind in files.items() if p.startswith(prefix) and kind == "file"]
            if not paths:
                raise ConfigError(f"{folder.path}: no files tracked by git")
            state = RepositoryState.of(repository, self._home)
            counted = 0

            def answer(attribution: Attribution) -> Mapping[str, Any]:
                def count(path: str) -> Share:
                    nonlocal counted
                    counted += 1
                    version = state.of_file(repository, path)
                    return self._cache.find_share(version, lambda: count_file(attribution, path))

                folder_shares = count_files(attribution, folder.path, paths, tell, count)
                direct = [path for path in folder_shares.shares if "/" not in path[len(prefix) :]]
                rows = [{"path": path, **folder_shares.shares[path].as_json()} for path in direct]
                return {
                    **folder_shares.as_json(),
                    "files": rows,
                    "skipped": folder_shares.skipped[:100],
                }

            return self._attribute(
                repository, lambda _done, _total: tell(counted, len(paths)), answer
            )

    def list_sessions(self, file: CodeFile, tell: Tell) -> Rows:
        """Return the sessions that edited a file. Raises NameNotFound, ConfigError."""
        with open_file(self._repositories, self._home, file) as source:
            blamed = self._blame(source, tell, lambda _: None)

            def answer(attribution: Attribution) -> Rows:
                sessions = list_file_sessions(attribution, source.path, blamed)
                return [session.as_json() for session in sessions]

            rows = self._attribute(source.repository, tell, answer)
        return [{**row, "page": self._find_session(row["session"])} for row in rows]

    def find_lines(
        self, session: str, call: str, paths: Sequence[str], tell: Tell
    ) -> Mapping[str, Any]:
        """Return the lines of today's files that a call wrote. Raises NameNotFound, ConfigError."""
        session_row = self._list.find(session)
        if session_row is None:
            raise NameNotFound("session", session, [])
        listing = self._list.current()
        index_name = listing.index_name(session_row)
        project = find_title_and_project(listing, session_row)[1]
        top = self._repositories.find_top(project)
        tops = [*([] if top is None else [top])]
        tops += [top for path in paths for top in self._repositories.find_tops(path)[:1]]
        rows: Rows = []
        for folder in dict.fromkeys(tops):
            rows += self._find_lines_in(folder, CallOfSession(index_name, call), paths, tell)
        return {"paths": [*paths], "repositories": [*dict.fromkeys(tops)], "files": rows}

    def _find_lines_in(
        self, folder: str, call: CallOfSession, paths: Sequence[str], tell: Tell
    ) -> Rows:
        with self._repositories.open(folder) as repository:
            state = RepositoryState.of(repository, self._home)

            def answer(attribution: Attribution) -> Rows:
                def blame(path: str) -> Sequence[BlamedFileLine]:
                    attribution.files.read_file(attribution.files.resolve_top_path(path))
                    version = state.of_file(repository, path)
                    return self._cache.find_lines(
                        version, tell, lambda: blame_lines(attribution, path)
                    )

                lines = find_call_lines(attribution, call, paths, blame)
                return [{"repository": folder, **row.as_json()} for row in lines]

            return self._attribute(repository, tell, answer)

    def _blame(
        self,
        source: OpenCodeFile,
        tell: Tell,
        send_first: Callable[[Attribution], None],
    ) -> Sequence[BlamedFileLine]:
        """Return all lines of a file with their agents, from the cache if it has them."""
        if len(source.lines) > _MAX_LINES:
            raise ConfigError(f"{source.path}: more than {_MAX_LINES} lines, which is too long")
        if not source.lines:
            return ()

        def answer(attribution: Attribution) -> Sequence[BlamedFileLine]:
            send_first(attribution)
            return blame_lines(attribution, source.path, (), source.commit)

        return self._cache.find_lines(
            source.version, tell, lambda: self._attribute(source.repository, tell, answer)
        )

    def _attribute(
        self, repository: GitRepository, tell: Tell, answer: Callable[[Attribution], T]
    ) -> T:
        """Return the result of `answer`, after new edits were indexed. Raises StoreError."""

        def read_index(index: EditIndex, facts: SessionIndex, store: Store) -> T:
            return answer(Attribution(repository, index, facts, store, tell=tell))

        return read_edits(self._home, read_index, needs_edits=False)

    def _build_page(
        self, rows: Sequence[ExplainedLines], repository: str, target: Sequence[str]
    ) -> ExplainedPage:
        explanations = [row.explanation for row in rows if row.explanation is not None]
        previous = {row.group.commit.previous for row in rows}
        revision, _, path = previous.pop().partition(":") if len(previous) == 1 else ("", "", "")
        words = {"why": ["why", *target]}
        if rows and rows[0].explanation is not None:
            words["ask"] = ["why", *target, "--ask", _QUESTION]
            words |= {client: ["why", *target, "--in", client] for client in _CLIENTS}
        return ExplainedPage(
            total=len(rows),
            rows=[row.as_json() for row in rows],
            sessions=self._find_sessions(row.session for row in explanations),
            previous=CodeFile(repository, path, revision) if path else None,
            commands={
                name: f"cd {shell_quote(repository)} && {self._format(command)}"
                for name, command in words.items()
            },
        )

    def _find_sessions(self, names: Iterable[str | None]) -> dict[str, str | None]:
        """Return the names in this viewer of sessions of the index."""
        return {name: self._find_session(name) for name in {*names} - {None} if name}

    def _format(self, words: Sequence[str]) -> str:
        command, target, *options = words
        target = f"./{target}" if target.startswith("-") else target
        line = map(shell_quote, [command, target, *options, *self._home_options])
        return " ".join([self._program, *line])
