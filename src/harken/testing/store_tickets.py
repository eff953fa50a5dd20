"""Conformance tests of ticket heads; a base of `harken.testing.store.StoreSuite`."""

from __future__ import annotations

import threading
from functools import partial

from harken.core import commits
from harken.core.commits import ArtifactRef, HeadName
from harken.errors import BranchConflict, ObjectNotFound
from harken.store.base import Store, Tombstone, WriteBatch
from harken.testing.store_branches import BranchSuite
from harken.testing.store_kit import OTHER, chain_in, refused
from harken.testing.store_purge import later

_FIRST, _SECOND = HeadName("tkt-" + "1" * 64), HeadName("tkt-" + "2" * 64)


class TicketHeadSuite(BranchSuite):
    """The tests of the heads of tickets."""

    def test_the_head_of_a_ticket_is_created_and_moved(self) -> None:
        store = self.store()
        versions = _write_versions(store, 3)
        assert store.heads() == {}
        store.move_head(_SECOND, versions[0], expected=None)
        store.move_head(_FIRST, versions[1], expected=None)
        store.move_head(_FIRST, versions[2], expected=versions[1])
        for reader in self.stores(store):
            heads = {_FIRST: versions[2], _SECOND: versions[0]}
            assert list(reader.heads().items()) == list(heads.items())
            assert reader.heads("tkt-2") == {_SECOND: versions[0]}
            assert reader.heads(_FIRST) == {_FIRST: versions[2]}
            for prefix in ("tkt-3", "3", _FIRST + "0", "\ud800"):
                assert reader.heads(prefix) == {}
            assert reader.branches() == {}

    def test_a_ticket_with_another_head_is_not_moved(self) -> None:
        store = self.store()
        versions = _write_versions(store, 3)
        store.move_head(_FIRST, versions[1], expected=None)
        for expected in (None, versions[0], versions[2]):
            try:
                store.move_head(_FIRST, versions[2], expected=expected)
            except BranchConflict as error:
                facts = (error.branch, error.expected, error.actual)
                assert facts == (_FIRST, expected, versions[1])
            else:
                raise AssertionError("the move was not refused")
        assert store.heads() == {_FIRST: versions[1]}

    def test_heads_of_imported_files_are_set_replaced_and_removed(self) -> None:
        store = self.store()
        versions = _write_versions(store, 3)
        one, two = HeadName("src-" + "1" * 64), HeadName("src-" + "2" * 64)
        store.move_head(_FIRST, versions[0], expected=None)
        store.set_heads({one: versions[0], two: versions[1]})
        store.set_heads({one: versions[2]})
        for reader in self.stores(store):
            assert reader.heads("src-") == {one: versions[2], two: versions[1]}
            assert list(reader.heads()) == [one, two, _FIRST]
            assert reader.branches() == {}
        store.set_heads({two: None, one: versions[2]})
        assert store.heads("src-") == {one: versions[2]}
        missing = ArtifactRef("art-" + OTHER)
        refused(ObjectNotFound, partial(store.set_heads, {two: versions[0], one: missing}))
        refused(ValueError, partial(store.set_heads, {two: versions[0], _FIRST: versions[1]}))
        assert store.heads() == {one: versions[2], _FIRST: versions[0]}
        store.collect([], now=later(2), grace_s=0)
        assert store.sequences([versions[2]])

    def test_a_ticket_needs_an_existing_version_and_a_full_id(self) -> None:
        store = self.store()
        [version] = _write_versions(store, 1)
        missing = ArtifactRef("art-" + OTHER)
        refused(ObjectNotFound, partial(store.move_head, _FIRST, missing, expected=None))
        for name in ("", "main", "tkt-1", _FIRST.upper(), "ctx-" + "1" * 64, _FIRST + "1"):
            refused(ValueError, partial(store.move_head, HeadName(name), version, expected=None))
        [commit] = chain_in(store, 1)
        refused(ValueError, partial(store.move_branch, _FIRST, commit, expected=None))
        assert store.heads() == {}

    def test_of_writers_at_once_exactly_one_moves_a_ticket(self) -> None:
        store = self.store()
        root, *others = _write_versions(store, 9)
        store.move_head(_FIRST, root, expected=None)
        moved: list[ArtifactRef] = []
        conflicts: list[BranchConflict] = []

        def move(to: ArtifactRef) -> None:
            try:
                store.move_head(_FIRST, to, expected=root)
                moved.append(to)
            except BranchConflict as error:
                conflicts.append(error)

        threads = [threading.Thread(target=move, args=[version]) for version in others]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(moved), len(conflicts)) == (1, 7)
        assert store.heads() == {_FIRST: moved[0]}

    def test_a_collection_keeps_the_versions_of_a_ticket(self) -> None:
        store = self.store()
        versions = _write_versions(store, 2)
        loose = _write_versions(store, 1, "loose")
        store.move_head(_FIRST, versions[1], expected=None)
        store.collect([], now=later(24), grace_s=0)
        for reader in self.stores(store):
            assert [*reader.sequences([*versions, *loose])] == versions
            records = [refs[0] for refs in reader.sequences(versions).values()]
            assert {*reader.raws(records).values()} == {b"record 0", b"record 1"}

    def test_a_purge_keeps_a_head_that_is_also_derived(self) -> None:
        store = self.store()
        versions = _write_versions(store, 2)
        other = {commits.hash_raw(b"secret"): b"secret"}
        store.write(WriteBatch(raw=other, derived={"last": versions[1]}))
        store.move_head(_FIRST, versions[1], expected=None)
        stone = Tombstone(when="2026-01-31T12:00:00.000000Z", by="ann", why="it leaked")
        store.purge(dict.fromkeys(other, b"[purged]"), stone)
        for reader in self.stores(store):
            assert reader.find_derived(["last"]) == {}
            assert [*reader.sequences(versions)] == versions
            records = [refs[0] for refs in reader.sequences(versions).values()]
            assert {*reader.raws(records).values()} == {b"record 0", b"record 1"}

    def test_raw_bytes_are_read_together(self) -> None:
        store = self.store()
        raw = {commits.hash_raw(data): data for data in (b"a", b"", b"\xff")}
        store.write(WriteBatch(raw=raw))
        [commit] = chain_in(store, 1)
        delta = store.commits([commit])[commit].commit.artifact
        for reader in self.stores(store):
            names = [*raw, delta, ArtifactRef(commit), ArtifactRef("art-" + OTHER), ArtifactRef("")]
            assert reader.raws(names) == raw


def _write_versions(store: Store, count: int, text: str = "record") -> list[ArtifactRef]:
    """Write a chain of versions, each a sequence of a record and the one before."""
    versions: list[ArtifactRef] = []
    for number in range(count):
        record = f"{text} {number}".encode()
        members = [commits.hash_raw(record), *versions[-1:]]
        versions.append(commits.encode_sequence(members)[0])
        store.write(WriteBatch(raw={members[0]: record}, sequences={versions[-1]: members}))
    return versions
