"""Resolve the names of sessions, commits and files that a command line contains.

Every command that takes a session or a commit uses `NameResolver`, so a name means the same in
every command. The first rule that matches applies:

1. the exact name of a log (`demo`);
2. `ctx-...`, a commit or the unique beginning of one;
3. `latest`, the first session that `harken sessions` lists;
4. the exact id of a session of another runtime (`codex:019f17a5-...`, or without `codex:`);
5. an existing file: a log, or a file from which a session was imported;
6. a branch, the label of a commit, or PRINCIPAL@TIME (`alice@now`);
7. the unique beginning of a session's id;
8. the id inside a log with a renamed file: commits and the index still have that id.

A session of another runtime may be imported, recorded in a log, or both. Its id and its file stand
for the import if there is one: `NameResolver.find_recording` returns the log of the same session.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import SequenceMatcher
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from harken.config.home import LATEST, Home, command_prefix
from harken.errors import (
    AmbiguousName,
    ConfigError,
    HarkenError,
    LogError,
    NameNotFound,
    StoreError,
)
from harken.formats.runtimes.client_sessions import read_recorded_session, shorten_name
from harken.session.log.compressed import is_packed, log_path, stat_log

if TYPE_CHECKING:
    from harken.capture.files.imported_sessions import ImportedSession
    from harken.core.commits import CommitId
    from harken.store.base import Store

MAX_SUGGESTIONS = 10
"""An error about an unknown or ambiguous name lists at most this many names."""
_COMMIT_PREFIX = "ctx-"
_MIN_SIMILARITY = 0.5
_KIND = "session or commit"


class SessionLog(msgspec.Struct, frozen=True):
    """A session that has a log in the home folder."""

    path: Path


class NamedLogFile(msgspec.Struct, frozen=True):
    """A path outside the home folder that may be a session log. The file may be missing."""

    path: Path


class ImportedName(msgspec.Struct, frozen=True):
    """An imported session. It has no log here, only commits."""

    session: ImportedSession
    file: str | None = None
    """The imported file by which it was named."""

    @property
    def tip(self) -> CommitId:
        """The last commit of its main conversation, in the named file if there is one."""
        if self.file is not None:
            return self.session.tip_of(self.file)
        return self.session.branch_tips[0].ctx


class CommitName(msgspec.Struct, frozen=True):
    """A commit, named by its id, a label, or a branch."""

    id: CommitId


SessionName: TypeAlias = SessionLog | ImportedName
Resolved: TypeAlias = SessionLog | NamedLogFile | ImportedName | CommitName


class NameResolver:
    """Resolves names against the sessions and the store of one home folder.

    It reads the list of logs, the catalogue of imports and the store when they are first needed,
    and caches the lists: create a new resolver for each command.
    """

    def __init__(
        self,
        home: Home,
        store: Store | None = None,
        *,
        imported: Sequence[ImportedSession] | None = None,
    ) -> None:
        """Resolve names of this home; look up commits in `store`, or else in the configured one.

        imported: the imported sessions of the home, if the caller has listed them.
        """
        self.home = home
        self._given_store = store
        self._given_imported = imported
        self._store_error: StoreError | None = None

    def resolve(self, name: str) -> Resolved:
        """Return the session, commit or file that a name stands for.

        A path that does not exist is returned as a `LogFile`: opening it reports that.
        Raises NameNotFound with similar names, AmbiguousName with the candidates.
        """
        if name in self._log_by_id:
            return SessionLog(self._log_by_id[name])
        if name.startswith(_COMMIT_PREFIX):
            return CommitName(self._commit_by_id(name))
        if name == LATEST:
            return self._latest()
        session = self._exact_session(name)
        if session is not None:
            return session
        is_path = log_path(Path(name)).suffix == ".jsonl" or "/" in name
        if name and (Path(name).is_file() or (is_path and _exists(name))):
            return self._file(name)
        match = self._by_commit_name(name) or self._by_remote_branch(name) or self._by_prefix(name)
        if match is not None:
            return match
        if log_path(Path(name)).suffix == ".jsonl" or name.startswith(("/", "./", "../", "~")):
            return self._file(name)
        renamed = self._by_recorded_id(name)
        if renamed is not None:
            return renamed
        if self._store_error is not None:
            raise self._store_error  # The name may be a label in the store that cannot be read.
        raise NameNotFound(_KIND, name, self.similar_names(name))

    def find_recording(self, imported: ImportedName) -> Path | None:
        """Return the log that records an imported session, the last written one.

        Return None if there is none, or if the name is that of the imported file.
        """
        return None if imported.file is not None else self._recordings.get(imported.session.name)

    def log(self, name: str) -> Path:
        """Return the path of the log that a name stands for; `latest` is the newest log.

        Raises ConfigError for a commit and for an imported session without a recording.
        """
        if name == LATEST:
            return self.home.latest_log()
        resolved = self.resolve(name)
        if isinstance(resolved, SessionLog | NamedLogFile):
            return resolved.path
        if isinstance(resolved, ImportedName):
            recording = self.find_recording(resolved)
            if recording is not None:
                return recording
            raise ConfigError(
                f"{resolved.session.name}: an imported session has no log; "
                f"`{command_prefix('store', 'fsck')}` checks its commits, "
                f"`{command_prefix('view', name)}` shows it"
            )
        raise ConfigError(f"{name}: a commit, not a session with a log")

    def commit(self, name: str) -> CommitId:
        """Return the commit that a name stands for; of a session, the last one of its main agent.

        Raises ConfigError if the session has no commit, and as `resolve`.
        """
        return self.commit_of(self.resolve(name))

    def commit_of(self, resolved: Resolved) -> CommitId:
        """Return the commit of a resolved name. Raises ConfigError, NameNotFound, StoreError."""
        if isinstance(resolved, CommitName):
            return resolved.id
        if isinstance(resolved, ImportedName):
            return self._commit_by_id(resolved.tip)
        return self._commit_by_id(self._last_commit(resolved))

    def session_name(self, name: str, indexed: Sequence[str]) -> str:
        """Return the full name of a session in the index. `indexed`: its names, newest first.

        The index also has sessions whose log or imported file is not in this home, such as those
        of a bundle. Raises ConfigError for a commit and for a file outside the home folder.
        """
        exact = [
            full_name for full_name in indexed if name in (full_name, full_name.partition(":")[2])
        ]
        if len(exact) == 1:
            return exact[0]
        try:
            resolved = self.resolve(name)
        except AmbiguousName:
            raise
        except (ConfigError, NameNotFound):
            return self._indexed_name(name, indexed)
        if isinstance(resolved, SessionLog):
            recorded = read_recorded_session(resolved.path)
            id_ = _recorded_id(resolved.path) or resolved.path.stem
            return id_ if recorded is None else recorded.name
        if isinstance(resolved, ImportedName):
            return resolved.session.name
        raise ConfigError(
            f"{name}: not a session of this home; `{command_prefix('sessions')}` lists sessions"
        )

    def split_agent(self, name: str) -> tuple[str, str | None]:
        """Split SESSION/AGENT into both; return None for the agent if all of it is a session.

        Names of files and agents may contain slashes: the longest beginning that is a session wins.
        """
        slashes = [index for index, letter in enumerate(name) if letter == "/"]
        if not slashes or name.startswith(_COMMIT_PREFIX) or _exists(name):
            return name, None
        if name in self._log_by_id or self._exact_session(name) is not None:
            return name, None
        for index in reversed(slashes):
            session, agent = name[:index], name[index + 1 :]
            if session and agent and self.is_session(session):
                return session, agent
        return name, None

    def is_session(self, name: str) -> bool:
        """Whether a name stands for a session or a log that exists, or begins several."""
        try:
            resolved = self.resolve(name)
        except AmbiguousName:
            return True
        except (ConfigError, NameNotFound):
            return False
        if isinstance(resolved, NamedLogFile):
            return resolved.path.is_file() or is_packed(resolved.path)
        return not isinstance(resolved, CommitName)

    def short_names(self, names: Iterable[str] | None = None) -> dict[str, str]:
        """Return the shortest name that resolves to each session, by full name: of some, or of all.

        Names of logs are short and stay as they are; a session of another runtime keeps at least
        eight characters of the id that its runtime gave it.
        """
        existing = sorted(self.session_names())
        short: dict[str, str] = {}
        for name in existing if names is None else names:
            index = bisect_left(existing, name)
            neighbors = existing[max(index - 1, 0) : index] + existing[index + 1 : index + 2]
            is_recorded = name in self._log_by_id
            short[name] = name if is_recorded else shorten_name(name, neighbors)
        return short

    def session_names(self) -> list[str]:
        """Return the names of all sessions, each once: those with logs, then imported ones."""
        recorded = {path: name for name, path in self._recordings.items()}
        logs = (recorded.get(path, id_) for id_, path in self._log_by_id.items())
        imported = (session.name for session in self._imported)
        return [*dict.fromkeys([*logs, *imported])]

    def similar_names(self, name: str) -> list[str]:
        """Return names of sessions and labels that resemble a name, the most similar first.

        If none does, return the newest sessions.
        """
        short = self.short_names()
        names = [*(short[candidate] for candidate in self.session_names()), *self._labels()]
        ranked = sorted(names, key=lambda candidate: -_similarity(name, candidate))
        similar = [
            candidate for candidate in ranked if _similarity(name, candidate) >= _MIN_SIMILARITY
        ]
        return (similar or names)[:MAX_SUGGESTIONS]

    @cached_property
    def _log_by_id(self) -> dict[str, Path]:
        return {path.stem: path for path in self.home.list_logs()}

    @cached_property
    def _imported(self) -> Sequence[ImportedSession]:
        return self._list_imported("")

    def _list_imported(self, text: str) -> Sequence[ImportedSession]:
        """Return the imported sessions, at least those with a text in their names or paths."""
        from harken.config.imported_sessions import list_imported

        if self._given_imported is not None:
            return self._given_imported
        return list_imported(self.home, text)

    @cached_property
    def _recordings(self) -> dict[str, Path]:
        """The last written log of each recorded session of another runtime, by its name."""
        recordings: dict[str, Path] = {}
        for path in self._log_by_id.values():
            recorded = read_recorded_session(path)
            if recorded is not None:
                recordings.setdefault(recorded.name, path)
        return recordings

    def _exact_session(self, name: str) -> SessionName | None:
        """Return the session of another runtime with this id. Raises AmbiguousName."""
        sessions: Mapping[str, SessionName] = self._find_imported(
            name, lambda id_: id_ == name
        ) or self._find_recorded(lambda id_: id_ == name)
        if len(sessions) > 1:
            raise AmbiguousName("session", name, _first_names(sessions))
        return next(iter(sessions.values()), None)

    def _find_imported(self, name: str, is_match: Callable[[str], bool]) -> dict[str, ImportedName]:
        """Return the imported sessions whose full name or native id matches.

        Both have `name` in them.
        """
        runtime, _, native = name.partition(":")
        return {
            session.name: ImportedName(session)
            for session in self._list_imported(native or runtime)
            if is_match(session.name) or is_match(session.native)
        }

    def _find_recorded(self, is_match: Callable[[str], bool]) -> dict[str, SessionName]:
        """Return the recorded sessions of other runtimes whose full name or native id matches."""
        return {
            name: SessionLog(path)
            for name, path in self._recordings.items()
            if is_match(name) or is_match(name.partition(":")[2])
        }

    def _latest(self) -> SessionName:
        from harken.core.clock import parse_rfc3339

        log = next(self.home.started_logs(), None)
        imported = next(iter(self._imported), None)
        if imported is None:
            return SessionLog(self.home.latest_log() if log is None else log)
        if (
            log is None
            or stat_log(log).modified_ns < parse_rfc3339(imported.last_message_time) * 1000
        ):
            return ImportedName(imported)
        return SessionLog(log)

    def _file(self, name: str) -> SessionLog | NamedLogFile | ImportedName:
        path = Path(name) if log_path(Path(name)).exists() else log_path(Path(name))
        exists = path.exists() or is_packed(path)
        log = self._log_by_id.get(path.stem)
        if log is not None and (not exists or path.resolve() == log.resolve()):
            return SessionLog(log)
        for session in self._list_imported(os.path.basename(os.path.abspath(name))):  # noqa: PTH100, PTH119 - as `has_source`
            if session.has_source(name):
                [complete] = self._find_imported(session.name, session.name.__eq__).values()
                return ImportedName(complete.session, name)
        return NamedLogFile(path)

    def _by_commit_name(self, name: str) -> CommitName | None:
        from harken.context.refs import find_named_commit

        try:
            with self._store() as store:
                commit = find_named_commit(store, name)
        except ConfigError:
            return None  # There is no store yet.
        except StoreError as error:
            self._store_error = error
            return None
        return None if commit is None else CommitName(commit)

    def _by_remote_branch(self, name: str) -> CommitName | None:
        """Return the last known head of a branch of a remote: `origin/main`."""
        from harken.remotes.mirror import read_branches
        from harken.remotes.registry import Remotes

        remote_name, _, branch = name.partition("/")
        remote = Remotes(self.home.remotes_folder).find(remote_name) if branch else None
        head = None if remote is None else read_branches(remote.folder).get(branch)
        return None if head is None else CommitName(head)

    def _by_prefix(self, name: str) -> SessionName | None:
        if not name:
            return None
        sessions: dict[str, SessionName] = {
            id_: SessionLog(path) for id_, path in self._log_by_id.items() if id_.startswith(name)
        }
        sessions |= self._find_recorded(lambda id_: id_.startswith(name))
        sessions |= self._find_imported(name, lambda id_: id_.startswith(name))
        if len(sessions) > 1:
            raise AmbiguousName("session", name, _first_names(sessions))
        return next(iter(sessions.values()), None)

    def _indexed_name(self, name: str, indexed: Sequence[str]) -> str:
        if name == LATEST and indexed:
            return indexed[0]
        matches = [
            full_name
            for full_name in indexed
            if name and (full_name.startswith(name) or full_name.partition(":")[2].startswith(name))
        ]
        if len(matches) > 1:
            raise AmbiguousName("session", name, sorted(matches)[:MAX_SUGGESTIONS])
        if not matches:
            existing = self.similar_names(name) or indexed[:MAX_SUGGESTIONS]
            raise NameNotFound(_KIND, name, existing)
        return matches[0]

    def _by_recorded_id(self, name: str) -> SessionLog | None:
        for path in self._log_by_id.values():
            if name and _recorded_id(path) == name:
                return SessionLog(path)
        return None

    def _commit_by_id(self, name: str) -> CommitId:
        from harken.context.refs import find_commit

        with self._store() as store:
            return find_commit(store, name)

    def _last_commit(self, log: SessionLog | NamedLogFile) -> CommitId:
        from harken.core.commits import CommitId
        from harken.core.events import AgentCreated, ContextCommitted, ContextLoaded
        from harken.session.log.reader import iter_events

        agent_id, commit = None, None
        try:
            for event in iter_events(log.path):
                if isinstance(event, AgentCreated) and agent_id is None:
                    agent_id = event.agent_id
                elif isinstance(event, ContextCommitted | ContextLoaded):
                    commit = event.ctx if event.agent_id == agent_id else commit
        except LogError as error:
            if isinstance(log, SessionLog) or not log.path.is_file():
                raise
            line = command_prefix("import", str(log.path))
            raise ConfigError(
                f"{error}; if another runtime wrote it, import it: `{line}`"
            ) from None
        if commit is None:
            line = command_prefix("chat", "--resume", _name_of_log(log))
            raise ConfigError(f"{log.path.stem}: this session has no commit; `{line}` creates one")
        return CommitId(commit)

    def _labels(self) -> list[str]:
        try:
            with self._store() as store:
                return [*store.branches(), *store.commits_by_label()]
        except HarkenError:
            return []

    @contextmanager
    def _store(self) -> Iterator[Store]:
        if self._given_store is not None:
            yield self._given_store
            return
        from harken.config.store import open_configured_store

        with open_configured_store(self.home) as store:
            yield store


def _first_names(names: Collection[str]) -> list[str]:
    """Return the first names in alphabetical order, and the number of the others."""
    more = len(names) - MAX_SUGGESTIONS
    return [*sorted(names)[:MAX_SUGGESTIONS], *([f"{more} more"] if more > 0 else [])]


def _recorded_id(path: Path) -> str | None:
    """Return the session id in the first event of a log. Return None if it cannot be read."""
    from harken.core.events import SessionStarted
    from harken.session.log.reader import iter_events

    try:
        first = next(iter(iter_events(path)), None)
    except (LogError, OSError):
        return None
    return first.session_id if isinstance(first, SessionStarted) else None


def _name_of_log(log: SessionLog | NamedLogFile) -> str:
    return log.path.stem if isinstance(log, SessionLog) else str(log.path)


def _exists(name: str) -> bool:
    path = Path(name)
    return path.exists() or log_path(path).exists() or is_packed(log_path(path))


def _similarity(typed: str, name: str) -> float:
    """Return how similar a name is to a typed one, also to its part after the runtime.

    >>> _similarity("demo", "demo"), _similarity("019f", "codex:019f17a5") > 0.6
    (1.0, True)
    """
    _, _, native = name.rpartition(":")
    return max(SequenceMatcher(None, typed, part).ratio() for part in {name, native})
