"""Looking at commits: one, those before it, a principal's last, and where two went apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from harken.context.checkpoint import normal_time
from harken.context.commit_content import entries_in
from harken.context.materialize import select_commits, walk
from harken.core.arguments import check_arguments
from harken.core.clock import parse_rfc3339
from harken.core.commits import CommitId, CommitNotes
from harken.core.messages import Message
from harken.errors import NameNotFound, NotesConflict
from harken.store.base import Store, StoredCommit

_TRIES = 20
"""How often notes are changed again when somebody else was faster."""


def show(store: Store, ctx: CommitId) -> StoredCommit:
    """Return all fields of a commit, also where its artifact is not there any more.

    Raises NameNotFound.
    """
    found = store.commits([ctx]).get(ctx)
    if found is None:
        raise NameNotFound("commit", ctx, store.names_with_prefix("ctx-", 13))
    return found


@check_arguments
def commit_history(store: Store, ctx: CommitId, depth: int | None = None) -> list[StoredCommit]:
    """Return a commit and those before it, newest first, at most `depth`.

    It goes on where a subagent was spawned, into the history of its parent. Raises NameNotFound.
    """
    if depth is not None and depth < 1:
        raise ValueError(f"a history has a depth of 1 or more, not {depth}")
    return store.chain(ctx, depth)


def histories(store: Store, tips: Iterable[CommitId]) -> Iterator[StoredCommit]:
    """Yield commits and those before them, each once, the newest first; lazily.

    Where clocks disagree a commit may come before one that was built on it in another branch.
    Raises NameNotFound.
    """
    walks = [walk(store, tip) for tip in dict.fromkeys(tips)]
    heads = [(_newness(one), at, one) for at, one in enumerate(map(next, walks))]
    heapify(heads)
    seen: set[CommitId] = set()
    while heads:
        _, at, one = heappop(heads)
        if one.id in seen:
            continue  # from here on another walk goes the same way
        seen.add(one.id)
        yield one
        following = next(walks[at], None)
        if following is not None:
            heappush(heads, (_newness(following), at, following))


def _newness(one: StoredCommit) -> int:
    return -parse_rfc3339(one.commit.created_at)


def resolve(store: Store, principal: str, time: str) -> CommitId | None:
    """Return a principal's last commit at or before a time; None where it has none.

    Raises ValueError where `time` is no RFC 3339 time with a zone.
    """
    return store.latest_commit(principal, normal_time(time))


def update_metadata(
    store: Store,
    ctx: CommitId,
    *,
    summary: str | None = None,
    labels: Iterable[str] | None = None,
    by: str = "",
    instead_of: str | None = None,
) -> CommitNotes:
    """Replace the summary or the labels of a commit; return both as they are now.

    `by`: the model that wrote the summary; `instead_of`: the summary that it is for, and no other.
    Nothing else of a commit can change. Raises NameNotFound, ValueError for an empty summary: a
    commit always has one; NotesConflict where it has another summary, or others change it all the
    time.
    """
    if summary is not None and not summary.strip():
        raise ValueError("a commit always has a summary: say something")
    given = None if labels is None else tuple(labels)
    for left in reversed(range(_TRIES)):
        before = show(store, ctx).notes
        if instead_of not in (None, before.summary):
            raise NotesConflict("the store", ctx)
        notes = CommitNotes(
            summary=before.summary if summary is None else summary,
            derived=before.derived and summary is None,
            summarized_by=before.summarized_by if summary is None else by,
            labels=before.labels if given is None else given,
        )
        try:
            store.update_notes(ctx, notes, was=before)
            break
        except NotesConflict:
            if not left:
                raise
    return notes


@dataclass(frozen=True, slots=True)
class CommitDiff:
    """Where two commits went apart, and what each saw since."""

    ancestor: CommitId | None
    """The last commit that both were built on; None: they have nothing in common."""
    ours: list[Message]
    theirs: list[Message]


@check_arguments
def diff(store: Store, ours: CommitId, theirs: CommitId) -> CommitDiff:
    """Compare two commits, neither of which matters more. Raises NameNotFound, ObjectNotFound.

    What each saw since is in full: compactions and snapshots on the way are passed over.
    """
    ancestor = common_ancestor(store, ours, theirs)
    return CommitDiff(ancestor, *(_since(store, ancestor, ctx) for ctx in (ours, theirs)))


def common_ancestor(store: Store, one: CommitId, other: CommitId) -> CommitId | None:
    """Return the last commit in both histories, a commit being in its own; None: there is none."""
    walks = [walk(store, one), walk(store, other)]
    seen: list[set[CommitId]] = [set(), set()]
    going = [0, 1]
    while going:
        for side in list(going):
            stored = next(walks[side], None)
            if stored is None:
                going.remove(side)
            elif stored.id in seen[1 - side]:
                return stored.id
            else:
                seen[side].add(stored.id)
    return None


def _since(store: Store, ancestor: CommitId | None, ctx: CommitId) -> list[Message]:
    """Return what a commit saw after one before it, or all that it saw."""
    commits = (
        select_commits(store, ctx, "root") if ancestor is None else _after(store, ancestor, ctx)
    )
    return [entry.message for entry in entries_in(store, commits)]


def _after(store: Store, ancestor: CommitId, ctx: CommitId) -> list[StoredCommit]:
    """Pick the commits after one that is in the history, without reading what is before it."""
    try:
        return select_commits(store, ctx, ancestor)[1:]
    except NameNotFound:  # a subagent began in between: what came before, it did not see
        return select_commits(store, ctx, "root")
