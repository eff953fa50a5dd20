"""Sessions of agent frameworks in a home folder: threads of its checkpoint file, conversations.

A thread is a session with commits, like an imported one. Checkpoints that are not in a commit yet
are folded first. In a home that cannot be written, a thread ends with its last commit.

A conversation is a branch of the store.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from harken.adapters import contexts
from harken.adapters.checkpoint_file import CheckpointFile, CheckpointThread
from harken.adapters.conversation_kinds import KINDS, ConversationKind
from harken.adapters.conversation_titles import read_titles
from harken.adapters.records import ThreadListing
from harken.capture.files.imported_sessions import ImportedSession, build_session
from harken.capture.files.report import MAIN_AGENT
from harken.core.clock import format_rfc3339, system_clock
from harken.errors import StoreError
from harken.recording.from_commits.branches import BranchTip
from harken.store.base import Store, StoredCommit
from harken.store.sqlite.store import SqliteStore

_logger = logging.getLogger("harken")


def list_threads(file_path: Path, store_path: Path) -> list[ImportedSession]:
    """Return the threads of a checkpoint file that have messages. Raises StoreError.

    A thread is read only if it has changed since the last call.
    """
    with closing(CheckpointFile(file_path)) as file:
        listings = _read_listings(file, store_path)
        by_name: dict[str, list[CheckpointThread]] = {}
        for thread in sorted(listings, key=lambda thread: thread.namespace):
            by_name.setdefault(thread.name, []).append(thread)
        sessions = [
            _build_thread(file_path, name, {thread: listings[thread] for thread in threads})
            for name, threads in by_name.items()
        ]
    return [session for session in sessions if session is not None]


def list_conversations(store: Store, path: Path) -> list[ImportedSession]:
    """Return the conversations in a store, the file at `path`. Raises StoreError.

    The cost follows from their number, not from their lengths.
    """
    return [session for kind in KINDS for session in _list_conversations(store, path, kind)]


def _list_conversations(store: Store, path: Path, kind: ConversationKind) -> list[ImportedSession]:
    """Return the conversations of a framework, each with the branches of its agents."""
    commits = kind.list_heads(store)
    titles = read_titles(store, kind, {branch: stored.id for branch, stored in commits.items()})
    by_id: dict[str, list[_Branch]] = {}
    for name, stored in commits.items():
        branch = _Branch(stored, kind.find_agent(stored.commit), titles[name])
        by_id.setdefault(stored.commit.thread_id, []).append(branch)
    return [_build_conversation(kind, path, id_, branches) for id_, branches in by_id.items()]


class _Branch(NamedTuple):
    """A branch of a conversation."""

    head: StoredCommit
    agent: str
    """Another agent than the main one, or an empty text."""
    title: str


def _build_conversation(
    kind: ConversationKind, path: Path, id_: str, branches: Sequence[_Branch]
) -> ImportedSession:
    """Return the session of branches. Its first tip is the newest one of the main agent."""
    oldest_first = sorted(branches, key=lambda branch: branch.head.commit.created_at)
    titles = [branch.title for branch in sorted(oldest_first, key=lambda b: b.agent != "")]
    newest_first = [*reversed(oldest_first)]
    tips = sorted(newest_first, key=lambda branch: branch.agent != "")
    return build_session(
        (kind.runtime, id_),
        source=path,
        tips=[BranchTip(branch.agent or MAIN_AGENT, branch.head.id) for branch in tips],
        title=next(filter(None, titles), ""),
        ended=oldest_first[-1].head.commit.created_at,
        size_bytes=0,
    )


def fold_threads(file_path: Path, store_path: Path) -> None:
    """Write the commits of all checkpoints that have none. Raises StoreError."""
    with closing(CheckpointFile(file_path)) as file:
        _read_listings(file, store_path)


def _read_listings(file: CheckpointFile, store_path: Path) -> dict[CheckpointThread, ThreadListing]:
    """Return the listings of all threads. Threads that have changed are folded and read."""
    threads = file.list_threads()
    listings = {thread: file.read_listing(thread) for thread in threads}
    changed = [thread for thread, listing in listings.items() if listing is None]
    if changed:
        _fold_leaves(file, store_path, changed)
        ids = {thread.id for thread in changed}
        for thread in file.list_threads():  # Folds are changes, too.
            if thread.id in ids:
                listing = listings[thread] = _build_listing(file, thread)
                if listing.is_complete:
                    with suppress(StoreError):  # A file that cannot be written is read each time.
                        file.write_listing(thread, listing)
    return {thread: listing for thread, listing in listings.items() if listing is not None}


def _fold_leaves(
    file: CheckpointFile, store_path: Path, threads: Sequence[CheckpointThread]
) -> None:
    """Fold the checkpoints of threads, if the files can be written."""
    try:
        with closing(SqliteStore(store_path)) as store:
            for thread in threads:
                contexts.fold_leaves(file, store, thread.id, (thread.name, thread.namespace))
    except StoreError as error:
        _logger.warning("threads end with their last commits: %s", error)


def _build_listing(file: CheckpointFile, thread: CheckpointThread) -> ThreadListing:
    """Read the last checkpoints of a thread. Raises ObjectCorrupted."""
    numbers = file.list_leaves(thread.id)
    rows = [file.get(number) for number in sorted(numbers, key=lambda n: n != thread.head)]
    folds = [file.get_fold(row.fold) for row in rows if row.fold]
    return ThreadListing(folds, file.measure(thread.id), len(folds) == len(rows))


def _build_thread(
    path: Path, name: str, listings: Mapping[CheckpointThread, ThreadListing]
) -> ImportedSession | None:
    """Return a thread with all its namespaces, or None if it has no messages."""
    folds = [
        (thread.namespace or MAIN_AGENT, fold)
        for thread, listing in listings.items()
        for fold in listing.folds
    ]
    tips = [BranchTip(agent, fold.ctx) for agent, fold in folds if fold.ctx is not None]
    if not tips:
        return None
    titles = [fold.title for _, fold in folds if fold.title]
    return build_session(
        (contexts.RUNTIME, name),
        source=path,
        tips=[*dict.fromkeys(tips)],
        title=titles[0] if titles else "",
        ended=max(fold.time for _, fold in folds) or format_rfc3339(system_clock()),
        size_bytes=sum(listing.size_bytes for listing in listings.values()),
    )
