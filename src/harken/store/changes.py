"""The changes of a store in the order of their transactions: the protocol of stores that keep them.

A change is kept with what it changes, in one transaction. So a reader that continues after the last
position that it has seen sees each change once, also across restarts. A change names its object,
and has no content: what is read under the name is current, and purged content leaves no trace.
"""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

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
