"""Delete sessions that have expired, unless one of their commits is retained.

The log file is deleted, and the session's commits become ephemeral, so that garbage collection
removes them. Commits that other commits depend on, and labeled commits, are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from harken.core.clock import format_rfc3339
from harken.core.commits import CommitId
from harken.errors import LogError
from harken.formats.runtimes.client_sessions import read_recorded_session
from harken.session.log.compressed import find_packs, stat_log
from harken.session.log.file import LogFile
from harken.session.log.reader import find_mentioned_names
from harken.store.base import RetentionPolicy, Store, StoredCommit

_DAY_US = 86_400_000_000


def delete_expired(
    logs: Sequence[Path], open_store: Callable[[], Store], *, days: int, now_us: int
) -> list[str]:
    """Delete sessions without writes for this number of days; return their names.

    A session is kept if another process writes it, or if one of its commits is pinned, replicated
    or labeled. Raises StoreError.
    """
    dropped: list[str] = []
    for path in logs:
        with suppress(OSError, LogError):
            if now_us - stat_log(path).modified_ns // 1000 <= days * _DAY_US:
                continue
            commits = _find_commits(path, open_store)
            if not _is_pinned(commits, open_store):
                _delete_log(path)
                dropped.append(path.stem)
                if commits:
                    policy = RetentionPolicy("ephemeral", until=format_rfc3339(now_us))
                    open_store().set_retention(
                        dict.fromkeys((commit.id for commit in commits), policy)
                    )
    return dropped


def _find_commits(path: Path, open_store: Callable[[], Store]) -> list[StoredCommit]:
    """Return the commits that were created by a session."""
    names = [CommitId(name) for name in find_mentioned_names(path) if name.startswith("ctx-")]
    commits = open_store().commits(names).values() if names else ()
    recorded = read_recorded_session(path)
    sessions = {path.stem, path.stem if recorded is None else recorded.name}
    return [commit for commit in commits if commit.commit.session_id in sessions]


def _is_pinned(commits: Sequence[StoredCommit], open_store: Callable[[], Store]) -> bool:
    if not commits:
        return False
    policies = open_store().retention()
    return any(
        commit.notes.labels or (commit.id in policies and policies[commit.id].policy != "ephemeral")
        for commit in commits
    )


def _delete_log(path: Path) -> None:
    """Delete a log that no process writes. Raises LogLocked, OSError."""
    file = LogFile(path)
    try:
        path.unlink()
        for pack in find_packs(path):
            pack.unlink()
    finally:
        file.close()
