"""Legal holds: commits that no collection and no purge removes.

A hold covers the commits in its scope and everything that they are built on. It wins over every
other rule and right, also over those of the owner of the home: it must be removed first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from harken.core.commits import CommitId, CommitNotes
from harken.errors import ConfigError, NameNotFound
from harken.store.base import NO_LIMIT, GcResult, Name, Progress, Tombstone
from harken.teams.access_index import AccessIndex, FollowedStore, facts_of
from harken.teams.commit_objects import list_objects
from harken.teams.directory import RetentionRule
from harken.teams.scopes import CommitFacts


class ContentHeld(ConfigError):
    """Content is under a legal hold: nothing was changed."""

    def __init__(self, rules: Iterable[str]) -> None:
        names = ", ".join(sorted(rules))
        super().__init__(
            f"the content is under legal hold ({names}), and nothing was changed; a hold ends with "
            "`harken retention remove`"
        )


class Holds:
    """The holds among some rules, on the commits of a store."""

    def __init__(
        self, rules: Iterable[RetentionRule], store: FollowedStore, index: AccessIndex
    ) -> None:
        self._rules = [rule for rule in rules if rule.kind == "hold"]
        self._store, self._index = store, index

    def list_commits(self) -> list[CommitId]:
        """Return the held commits."""
        if not self._rules:
            return []
        self._index.follow(self._store)
        held_commits = self._index.newest(NO_LIMIT, self._covers)
        for rule in self._rules:
            if rule.commit is not None and self._store.commits([rule.commit]):
                held_commits.append(rule.commit)
        return held_commits

    def check(self, names: Iterable[Name]) -> None:
        """Raise ContentHeld if one of these objects is held."""
        if not self._rules:
            return
        self._index.follow(self._store)
        distinct_names = {*names}
        rules = {
            rule.name
            for rule in self._rules
            if (
                self._index.select_reached(distinct_names, rule.scope.covers)
                if rule.commit is None
                else not distinct_names.isdisjoint(self._list_names(rule.commit))
            )
        }
        if rules:
            raise ContentHeld(rules)

    def check_notes(self, name: CommitId, notes: CommitNotes) -> None:
        """Raise ContentHeld if a commit would leave the scope of a hold with these notes."""
        stored = self._store.commits([name]).get(name) if self._rules else None
        if stored is None:
            return
        old, new = facts_of(stored), CommitFacts(stored.commit.principal, notes.labels)
        rules = (rule for rule in self._rules if rule.commit is None)
        left_rules = [r.name for r in rules if r.scope.covers(old) and not r.scope.covers(new)]
        if left_rules:
            raise ContentHeld(left_rules)

    def _covers(self, facts: CommitFacts) -> bool:
        return any(rule.scope.covers(facts) for rule in self._rules if rule.commit is None)

    def _list_names(self, commit: CommitId) -> set[Name]:
        """Return the names of a commit, its ancestors and their objects."""
        try:
            chain = self._store.chain(commit)
        except NameNotFound:
            return set()
        objects = list_objects(self._store, chain)
        return {*objects, *(name for names in objects.values() for name in names)}


class HoldingStore:
    """A store that enforces holds. Everything else is as in the store."""

    def __init__(self, store: FollowedStore, holds: Holds) -> None:
        self._store, self._holds = store, holds

    def update_notes(
        self, name: CommitId, notes: CommitNotes, *, was: CommitNotes | None = None
    ) -> None:
        self._holds.check_notes(name, notes)
        self._store.update_notes(name, notes, was=was)

    def collect(
        self,
        roots: Collection[Name],
        *,
        now: str,
        grace_s: float = 3600,
        dry_run: bool = False,
        on_progress: Progress | None = None,
    ) -> GcResult:
        all_roots = [*roots, *self._holds.list_commits()]
        return self._store.collect(
            all_roots, now=now, grace_s=grace_s, dry_run=dry_run, on_progress=on_progress
        )

    def purge(self, stand_ins: Mapping[Name, bytes], tombstone: Tombstone) -> None:
        self._holds.check(stand_ins)
        self._store.purge(stand_ins, tombstone)

    def __getattr__(self, name: str) -> Any:
        """Return another method of the store."""
        return getattr(self._store, name)
