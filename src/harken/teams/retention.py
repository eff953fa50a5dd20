"""Retention rules: which commits have expired, and their removal.

A commit expires by its time and its scope. It stays while anything that stays is built on it, while
it is the head of a branch or pinned, while a session log mentions it, and while it is held.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from harken.context.history import read_commit_links
from harken.core import structs
from harken.core.clock import format_rfc3339, parse_rfc3339
from harken.core.commits import CommitId
from harken.errors import NameNotFound, NotesConflict
from harken.store.base import GcResult, Name, RetentionPolicy, Store, StoredCommit
from harken.store.retention import find_reachable
from harken.teams.access_index import facts_of
from harken.teams.commit_objects import slices
from harken.teams.directory import RetentionRule

_BATCH = 1000
_SECOND_US = 1_000_000


class ExpiryPlan(msgspec.Struct, frozen=True):
    """The commits that have expired, and why others stay although their time is over."""

    expired: Sequence[CommitId]
    """Descendants first."""
    kept_counts: Mapping[str, int]
    """Reason -> number of commits."""


def plan_expiry(
    store: Store,
    rules: Iterable[RetentionRule],
    *,
    held_names: Collection[Name],
    mentioned: Collection[Name],
    now_us: int,
) -> ExpiryPlan:
    """Find the expired commits. Nothing is changed. Raises StoreError.

    mentioned: names in session logs.
    """
    links = read_commit_links(store)
    parents = {link.id: (link.parent,) if link.parent else () for link in links}
    due = _find_due(store, [link.id for link in links], rules, now_us)
    policies = store.retention()
    reasons: dict[str, set[Name]] = {
        "held": {*held_names},
        "head of a branch": {*store.branches().values()},
        "mentioned in a session log": {*mentioned},
        "pinned": {name for name, policy in policies.items() if policy.policy != "ephemeral"},
        "needed by a later commit": {name for name in parents if name not in due},
    }
    kept_counts: dict[str, int] = {}
    remaining = due
    for reason, roots in reasons.items():
        present = (name for name in roots if name in parents)
        needed_names = find_reachable(present, lambda name: parents.get(CommitId(name), ()))
        if count := len(remaining & needed_names):
            kept_counts[reason] = count
        remaining = remaining - needed_names
    return ExpiryPlan([link.id for link in links if link.id in remaining], kept_counts)


def _find_due(
    store: Store, names: Iterable[CommitId], rules: Iterable[RetentionRule], now_us: int
) -> set[Name]:
    expiring = [rule for rule in rules if rule.kind == "expire"]
    return {
        stored.id
        for batch in slices(names if expiring else (), _BATCH)
        for stored in store.commits(batch).values()
        if any(_is_due(stored, rule, now_us) for rule in expiring)
    }


def _is_due(stored: StoredCommit, rule: RetentionRule, now_us: int) -> bool:
    age_us = now_us - parse_rfc3339(stored.commit.created_at)
    older_than_us = (rule.older_than_s or 0) * _SECOND_US
    return age_us >= older_than_us and rule.scope.covers(facts_of(stored))


def remove_expired(
    store: Store, plan: ExpiryPlan, *, roots: Collection[Name], now_us: int, grace_s: float
) -> GcResult:
    """Remove expired commits, and objects that only they need. May be interrupted and run again.

    roots: names that stay, such as held ones. A label would keep a commit, so labels are removed
    first. Raises StoreError.
    """
    for name in plan.expired:
        stored = store.commits([name]).get(name)
        if stored is not None and stored.notes.labels:
            try:
                unlabelled = structs.replace(stored.notes, labels=())
                store.update_notes(name, unlabelled, was=stored.notes)
            except (NotesConflict, NameNotFound):
                continue  # Another process changed it: the next run judges it again.
    now = format_rfc3339(now_us)
    present = store.commits(plan.expired)
    store.set_retention(dict.fromkeys(present, RetentionPolicy("ephemeral", now)))
    return store.collect(roots, now=now, grace_s=grace_s)
