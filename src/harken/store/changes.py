"""The changes of a store in the order of their transactions: the protocol of stores that keep them.

A change is kept with what it changes, in one transaction. So a reader that continues after the last
position that it has seen sees each change once, also across restarts. A change names its object,
and has no content: what is read under the name is current, and purged content leaves no trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from harken.store.branches import HEAD_PREFIXES

ChangeKind: TypeAlias = Literal["commit", "notes", "removed", "branch", "head", "purged"]


class StoreChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A commit was written or removed, its notes changed, a branch moved, or content was purged."""

    position: int
    """Positions increase. Some are left out."""
    kind: ChangeKind
    """`commit`: written; `notes`: its summary or labels; `removed`: by a collection; `head`: of a
    ticket or an imported file.
    """
    name: str
    """The commit, the branch, the head, or the purged object."""
    to: str = ""
    """The new head of a branch. Empty if it was deleted."""
    was: str = ""
    """The old head of a branch. Empty if it was created."""


class ChangePage(msgspec.Struct, frozen=True):
    """Some changes, oldest first, and the position after which the next ones follow."""

    changes: list[StoreChange]
    """May be empty although more follow."""
    next: int
    """If it is the requested position, there are no more changes yet."""


@runtime_checkable
class ChangeStore(Protocol):
    """A store that keeps its changes."""

    def changes(self, after: int = 0, limit: int = 1000) -> ChangePage:
        """Return the changes after a position, oldest first, at most `limit`.

        The first call begins to keep changes: the existing commits and branches are its first
        ones. Raises StoreError.
        """
        ...


_COMMIT, _NOTES, _REMOVED, _MOVED, _DELETED, _PURGED = range(1, 7)
"""The kinds of rows. The move of a branch is a deletion and, next, an insertion."""
_COMMIT_KINDS: dict[int, ChangeKind] = {_COMMIT: "commit", _NOTES: "notes", _REMOVED: "removed"}
_NAME_BYTES = 32
ChangeRow: TypeAlias = tuple[int, int, bytes, bytes | None]
"""A number, a kind, a name, and the head of a branch."""
HeadDecoder: TypeAlias = Callable[[str, bytes], bytes]
"""Returns the digest of the head of a branch, by its name and the bytes in the row."""


def build_page(
    rows: Sequence[ChangeRow], after: int, limit: int, decode: HeadDecoder
) -> ChangePage:
    """Return the page of the rows after a position, of which at most `limit` + 2 were read."""
    is_cut = len(rows) == limit + 2
    changes = list(_iter_changes(rows, decode, is_cut=is_cut))[:limit]
    last = rows[-1][0] if rows and not is_cut else after
    return ChangePage(changes, changes[-1].position if changes else last)


def _iter_changes(
    rows: Sequence[ChangeRow], decode: HeadDecoder, *, is_cut: bool
) -> Iterator[StoreChange]:
    """Yield the changes of rows, without the last one if more follow.

    Raises as `decode` for a damaged head.
    """
    deleted: ChangeRow | None = None
    for number, row in enumerate(rows):
        position, kind, data, head = row
        if deleted is not None and (kind, data) != (_MOVED, deleted[2]):
            yield _read_branch(decode, deleted[0], deleted[2], was=deleted[3])
            deleted = None
        if is_cut and number == len(rows) - 1:
            return
        if kind in _COMMIT_KINDS:
            if len(data) == _NAME_BYTES:  # A file that was damaged has shorter ones.
                yield StoreChange(position, _COMMIT_KINDS[kind], f"ctx-{data.hex()}")
        elif kind == _PURGED:
            yield StoreChange(position, "purged", data.decode())
        elif kind == _DELETED:
            deleted = row
        else:
            was = None if deleted is None else deleted[3]
            yield _read_branch(decode, position, data, head, was)
            deleted = None
    if deleted is not None:
        yield _read_branch(decode, deleted[0], deleted[2], was=deleted[3])


def _read_branch(
    decode: HeadDecoder,
    position: int,
    data: bytes,
    head: bytes | None = None,
    was: bytes | None = None,
) -> StoreChange:
    name = data.decode("utf-8", "surrogatepass")
    is_head = name.startswith(HEAD_PREFIXES)
    to, old = (
        "" if sealed is None else ("art-" if is_head else "ctx-") + decode(name, sealed).hex()
        for sealed in (head, was)
    )
    return StoreChange(position, "head" if is_head else "branch", name, to, old)
