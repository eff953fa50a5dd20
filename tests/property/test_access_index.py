"""The index of rights beside a plain computation, over random histories of a real store."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from harken.core.commits import CommitId, CommitNotes
from harken.store.base import RetentionPolicy
from harken.store.sqlite.store import SqliteStore
from harken.teams.access_index import AccessIndex, facts_of
from harken.teams.commit_objects import list_objects
from harken.teams.scopes import CommitScope
from harken.testing.store import batch_of, commit_in

PRINCIPALS = st.sampled_from(["ann", "ben", "ann/sub", "\ud800"])
LABELS = st.lists(st.sampled_from(["project:a", "project:b", "public"]), max_size=3)
SCOPES = [
    CommitScope(),
    CommitScope(principal="ann"),
    CommitScope(project="a"),
    CommitScope(label="public"),
    CommitScope(principal="ben", project="b"),
]


class IndexMachine(RuleBasedStateMachine):
    """Writes, labels and removes commits, with two indexes that follow at different times."""

    @initialize()
    def open(self) -> None:
        self.folder = TemporaryDirectory()
        path = Path(self.folder.name)
        self.store = SqliteStore(path / "store.db")
        self.index, self.late = AccessIndex(path / "access.db"), AccessIndex()
        self.names: list[CommitId] = []

    @rule(data=st.data(), principal=PRINCIPALS, labels=LABELS, text=st.sampled_from("abcd"))
    def write(self, data: st.DataObject, principal: str, labels: list[str], text: str) -> None:
        parent = data.draw(st.sampled_from([None, *self.names]))
        notes = CommitNotes(labels=tuple(dict.fromkeys(labels)))
        second = data.draw(st.integers(0, 3))
        batch = batch_of(text, parent=parent, principal=principal, notes=notes, second=second)
        self.store.write(batch)
        if commit_in(batch) not in self.names:
            self.names.append(commit_in(batch))

    @precondition(lambda self: self.names)
    @rule(data=st.data(), labels=LABELS)
    def label(self, data: st.DataObject, labels: list[str]) -> None:
        name = data.draw(st.sampled_from(self.names))
        self.store.update_notes(name, CommitNotes(labels=tuple(dict.fromkeys(labels))))

    @precondition(lambda self: self.names)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.names))
        when = "2026-01-01T00:00:00.000000Z"
        self.store.set_retention({name: RetentionPolicy("ephemeral", when)})
        self.store.collect([], now="2100-01-01T00:00:00Z", grace_s=0)
        present = self.store.commits(self.names)
        self.names = [n for n in self.names if n in present]

    @invariant()
    def agrees(self) -> None:
        self.index.follow(self.store)
        compare(self.store, self.index)

    def teardown(self) -> None:
        self.late.follow(self.store)
        compare(self.store, self.late)
        for part in (self.index, self.late, self.store):
            part.close()
        self.folder.cleanup()


def compare(store: SqliteStore, index: AccessIndex) -> None:
    """Compare all answers of the index with those computed from the store."""
    order = store.newest_commits(1000)
    commits = store.commits(order)
    own = list_objects(store, commits.values())
    everything = {obj.name for obj in store.iter_objects()}
    for scope in SCOPES:
        tips = [name for name in order if scope.covers(facts_of(commits[name]))]
        reached = {c.id for tip in tips for c in store.chain(tip)}
        names = {*reached, *(name for commit in reached for name in own[commit])}
        assert index.select_reached(everything, scope.covers) == names
        assert index.newest(1000, scope.covers) == [name for name in order if name in reached]
        shown = sorted(name for name in names if name.startswith(("art-", "ctx-")))
        assert index.with_prefix("", 1000, scope.covers) == shown
        compare_latest(store, index, scope.covers, reached)
    for name in everything:
        containing = {c for c in order if c == name or name in own[c]}
        expected = {facts_of(commits[c]) for c in containing}
        assert index.owners([name]).get(name, set()) == expected


def compare_latest(
    store: SqliteStore, index: AccessIndex, covers: Callable[..., bool], reached: set[CommitId]
) -> None:
    """With everything reached, the last commit of a principal is that of the store."""
    if len(reached) == len(store.newest_commits(1000)):
        for principal in ("ann", "ben", "none"):
            for second in range(4):
                at = f"2026-01-01T00:00:0{second}Z"
                until_us = 1_767_225_600_000_000 + second * 1_000_000
                latest = index.latest(principal, until_us, covers)
                assert latest == store.latest_commit(principal, at)


TestIndex = IndexMachine.TestCase
TestIndex.settings = settings(
    max_examples=12,
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


def test_an_index_file_is_private_and_continues(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "store.db")) as store:
        store.write(batch_of("one"))
        with closing(AccessIndex(tmp_path / "access.db")) as index:
            index.follow(store)
        store.write(batch_of("two"))
        with closing(AccessIndex(tmp_path / "access.db")) as index:
            assert len(index.newest(10, lambda _: True)) == 1
            index.follow(store)
            assert len(index.newest(10, lambda _: True)) == 2
        assert {file.stat().st_mode & 0o077 for file in tmp_path.glob("access.db*")} == {0}
