"""A change of a ticket as a value, which is applied to the state that is there when it is written.

If another writer is faster, the change is applied again, to the newer state. So it names what it
adds and removes, and not the lists that result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from harken.core import structs
from harken.core.commits import ArtifactRef, TicketId
from harken.tickets.ticket import Disposition, Status, TicketOrigin, TicketState, TicketType

T = TypeVar("T", bound=str)


class TicketChange(msgspec.Struct, frozen=True, kw_only=True):
    """New values of fields. A field without a value stays as it is."""

    title: str | None = None
    body: str | None = None
    status: Status | None = None
    priority: int | None = None
    type: TicketType | None = None
    assignee: str | None = None
    """Empty: no assignee."""
    parent: TicketId | None = None
    has_no_parent: bool = False
    """Whether the parent is removed."""
    deferred_until: str | None = None
    origin: TicketOrigin | None = None
    add_labels: tuple[str, ...] = ()
    remove_labels: tuple[str, ...] = ()
    add_blockers: tuple[TicketId, ...] = ()
    remove_blockers: tuple[TicketId, ...] = ()
    add_attachments: tuple[ArtifactRef, ...] = ()
    remove_attachments: tuple[ArtifactRef, ...] = ()
    reviews: Mapping[str, Disposition] = msgspec.field(default_factory=dict)
    """Reviewers with their dispositions."""
    add_reviewers: tuple[str, ...] = ()
    """Reviewers whose disposition is `pending`, unless they have one."""
    remove_reviewers: tuple[str, ...] = ()

    def apply(self, state: TicketState) -> TicketState:
        """Return the state after this change."""
        values = {
            name: getattr(self, name) for name in _PLAIN_FIELDS if getattr(self, name) is not None
        }
        if self.has_no_parent:
            values["parent"] = None
        labels = _merge(state.labels, self.add_labels, self.remove_labels)
        after = structs.replace(
            state,
            labels=tuple(sorted(labels)),
            blocked_by=_merge(state.blocked_by, self.add_blockers, self.remove_blockers),
            attachments=_merge(state.attachments, self.add_attachments, self.remove_attachments),
            reviewers=self._merge_reviewers(state.reviewers),
            **values,
        )
        if after.status == "deferred" or not after.deferred_until:
            return after
        return structs.replace(after, deferred_until="")

    def _merge_reviewers(self, before: Mapping[str, Disposition]) -> dict[str, Disposition]:
        new: dict[str, Disposition] = dict.fromkeys(self.add_reviewers, "pending")
        merged = {**new, **before, **self.reviews}
        return {name: merged[name] for name in sorted(merged) if name not in self.remove_reviewers}


def reset_reviews(before: TicketState, after: TicketState, author: str) -> TicketState:
    """Return the state after a change by an author: what is opened or closed is not reviewed yet.

    In a finding, the disposition of each other principal is `pending` after that.
    """
    is_toggled = (before.status == "closed") != (after.status == "closed")
    if after.type != "review_finding" or not is_toggled:
        return after
    reviewers: dict[str, Disposition] = {
        name: disposition if name == author else "pending"
        for name, disposition in after.reviewers.items()
    }
    return structs.replace(after, reviewers=reviewers)


_PLAIN_FIELDS = (
    *("title", "body", "status", "priority", "type", "assignee", "parent", "deferred_until"),
    "origin",
)


def _merge(before: tuple[T, ...], added: tuple[T, ...], removed: tuple[T, ...]) -> tuple[T, ...]:
    """Return items without duplicates, in the order of their addition."""
    return tuple(item for item in dict.fromkeys((*before, *added)) if item not in removed)
