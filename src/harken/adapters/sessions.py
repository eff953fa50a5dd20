"""Sessions of agent frameworks in a home folder: threads of its checkpoint file, conversations.

A thread is a session with commits, like an imported one. Checkpoints that are not in a commit yet
are folded first. In a home that cannot be written, a thread ends with its last commit.

A conversation is a branch of the store.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from harken.adapters import contexts
from harken.adapters.checkpoint_file import CheckpointFile, CheckpointThread
from harken.adapters.conversation_kinds import KINDS
from harken.adapters.conversation_titles import read_titles
from harken.adapters.records import Fold
from harken.capture.files.imported_sessions import ImportedSession, build_session
from harken.capture.files.report import MAIN_AGENT
from harken.core.clock import format_rfc3339, system_clock
from harken.errors import StoreError
from harken.recording.from_commits.branches import BranchTip
from harken.store.base import Store
from harken.store.sqlite.store import SqliteStore

_TITLE_CHARS = 120
_logger = logging.getLogger("harken")


def list_threads(file_path: Path, store_path: Path) -> list[ImportedSession]:
    """Return the threads of a checkpoint file that have messages. Raises StoreError."""
    with _open_folded(file_path, store_path) as file:
        by_name: dict[str, list[CheckpointThread]] = {}
        for thread in file.list_threads():
            by_name.setdefault(thread.name, []).append(thread)
        sessions = [_build_thread(file, name, threads) for name, threads in by_name.items()]
    return [session for session in sessions if session is not None]


def list_conversations(store: Store, path: Path) -> list[ImportedSession]:
    """Return the conversations in a store, the file at `path`. Raises StoreError.

    The cost follows from their number, not from their lengths.
    """
    sessions: list[ImportedSession] = []
    for kind in KINDS:
        heads = store.branches(f"{kind.runtime}/")
        titles = read_titles(store, kind, heads)
        commits = store.commits(heads.values())
        sessions += [
            build_session(
                (kind.runtime, commits[head].commit.thread_id),
                source=path,
                tips=[BranchTip(MAIN_AGENT, head)],
                title=titles[branch],
                ended=commits[head].commit.created_at,
                size_bytes=0,
            )
            for branch, head in heads.items()
            if head in commits
        ]
    return sessions


def fold_threads(file_path: Path, store_path: Path) -> None:
    """Write the commits of all checkpoints that have none. Raises StoreError."""
    with _open_folded(file_path, store_path):
        pass


@contextmanager
def _open_folded(file_path: Path, store_path: Path) -> Iterator[CheckpointFile]:
    """Open a checkpoint file. All checkpoints are folded, if it can be written."""
    with closing(CheckpointFile(file_path)) as file:
        try:
            with closing(SqliteStore(store_path)) as store:
                for thread in file.list_threads():
                    key = thread.name, thread.namespace
                    contexts.fold_leaves(file, store, thread.id, key)
        except StoreError as error:
            _logger.warning("threads end with their last commits: %s", error)
        yield file


def _build_thread(
    file: CheckpointFile, name: str, threads: list[CheckpointThread]
) -> ImportedSession | None:
    """Return a thread with all its namespaces, or None if it has no messages."""
    folds: list[tuple[str, Fold]] = []
    for thread in sorted(threads, key=lambda thread: thread.namespace):
        agent = thread.namespace or MAIN_AGENT
        numbers = file.list_leaves(thread.id)
        for number in sorted(numbers, key=lambda number: number != thread.head):
            row = file.get(number)
            if row.fold:
                folds.append((agent, file.get_fold(row.fold)))
    tips = [BranchTip(agent, fold.ctx) for agent, fold in folds if fold.ctx is not None]
    if not tips:
        return None
    titles = [" ".join(fold.title.split())[:_TITLE_CHARS] for _, fold in folds if fold.title]
    return build_session(
        (contexts.RUNTIME, name),
        source=file.path,
        tips=[*dict.fromkeys(tips)],
        title=titles[0] if titles else "",
        ended=max(fold.time for _, fold in folds) or format_rfc3339(system_clock()),
        size_bytes=sum(file.measure(thread.id) for thread in threads),
    )
