"""Retention: sessions that nobody has written for long go, as wholes, unless something pins them.

One idea: a log goes, and what the store has of it is left to the garbage collection: its commits
are ephemeral from now on. What is built on one of them, or has a label, stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from harken.core.clock import format_rfc3339
from harken.core.commits import CommitId
from harken.errors import LogError
from harken.session.log.compressed import packs_of, stat_log
from harken.session.log.file import LogFile
from harken.session.log.reader import mentions
from harken.store.base import RetentionPolicy, Store, StoredCommit

_DAY_US = 86_400_000_000


def drop_old(
    logs: Sequence[Path], open_store: Callable[[], Store], *, days: int, now_us: int
) -> list[str]:
    """Drop the sessions of which nothing was written for so many days; return their names.

    One that another process writes stays, and so does one with a commit that is pinned,
    replicated or labelled. Raises StoreError.
    """
    dropped: list[str] = []
    for path in logs:
        with suppress(OSError, LogError):
            if now_us - stat_log(path).written_ns // 1000 <= days * _DAY_US:
                continue
            own = _own_commits(path, open_store)
            if not _is_pinned(own, open_store):
                _drop(path)
                dropped.append(path.stem)
                if own:
                    gone = RetentionPolicy("ephemeral", until=format_rfc3339(now_us))
                    open_store().set_retention(dict.fromkeys((one.id for one in own), gone))
    return dropped


def _own_commits(path: Path, open_store: Callable[[], Store]) -> list[StoredCommit]:
    """Return the commits that were made in a session."""
    names = [CommitId(name) for name in mentions(path) if name.startswith("ctx-")]
    found = open_store().commits(names).values() if names else ()
    return [one for one in found if one.commit.session_id == path.stem]


def _is_pinned(commits: Sequence[StoredCommit], open_store: Callable[[], Store]) -> bool:
    if not commits:
        return False
    kept = open_store().retention()
    return any(
        one.notes.labels or (one.id in kept and kept[one.id].policy != "ephemeral")
        for one in commits
    )


def _drop(path: Path) -> None:
    """Delete a log that nobody writes. Raises LogLocked, OSError."""
    file = LogFile(path)
    try:
        path.unlink()
        for pack in packs_of(path):
            pack.unlink()
    finally:
        file.close()
