"""Conformance tests of stores for retention, expiry and garbage collection.

A store runs this suite in addition to `harken.testing.store.StoreSuite`.

Source: docs/formats/store.md; the contract is `harken.store.base.Store`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from harken.core import commits
from harken.core.commits import ArtifactRef, CommitId, CommitNotes
from harken.errors import NameNotFound, ObjectNotFound
from harken.store.base import GcResult, RetentionPolicy, Store, Tombstone, WriteBatch
from harken.testing.store_kit import batch_of, chain_in, commit_in, refused
from harken.testing.store_purge import PurgeSuite, later


class LifecycleSuite(PurgeSuite):
    """The tests of retention, and those of purging. Override `store` in a class `Test...`."""

    def test_what_a_commit_needs_stays(self) -> None:
        store = self.store()
        names = chain_in(store, 5)
        fork = batch_of("fork", parent=names[2])
        store.write(fork)
        before = self._everything(store)
        assert self._collect(store) == GcResult()
        for reader in self._both(store):
            assert self._everything(reader) == before
            assert [commit.id for commit in reader.chain(names[-1])] == names[::-1]

    def test_what_nothing_needs_goes(self) -> None:
        store = self.store()
        [commit_id] = chain_in(store, 1)
        loose = batch_of("only here", "step 0")
        raw, sequence = commits.hash_raw(b"loose"), commits.encode_sequence([*loose.deltas])[0]
        store.write(WriteBatch(objects=loose.objects, deltas=loose.deltas, raw={raw: b"loose"}))
        store.write(
            WriteBatch(sequences={sequence: [*loose.deltas]}, derived={"all of it": sequence})
        )
        result = self._collect(store)
        assert result.commits == ()
        assert result.objects == 2 + 3  # a part and its message; a delta, a sequence, raw bytes
        assert result.size_bytes > 0
        for reader in self._both(store):
            assert set(reader.objects(loose.objects)) < set(loose.objects), "what is shared stays"
            assert reader.deltas(loose.deltas) == {}
            assert reader.sequences([sequence]) == {}
            assert reader.find_derived(["all of it"]) == {}
            refused(ObjectNotFound, reader.raw, raw)
            assert set(reader.names_with_prefix("")) == {commit_id, *_deltas_of(store, [commit_id])}
        self._is_whole(store)
        assert self._collect(store) == GcResult()

    def test_what_is_collected_can_be_written_again(self) -> None:
        store, loose = self.store(), batch_of("again")
        only = WriteBatch(objects=loose.objects, deltas=loose.deltas)
        for _ in range(2):
            store.write(only)
            for reader in self._both(store):
                assert reader.deltas(loose.deltas).keys() == loose.deltas.keys()
            assert self._collect(store).objects == 3
            for reader in self._both(store):
                assert reader.deltas(loose.deltas) == {}
        store.write(loose)
        assert self._collect(store) == GcResult()
        self._is_whole(store)

    def test_what_was_collected_is_not_named_any_more(self) -> None:
        """A process that has cached a removed object must check again before it refers to it."""
        store, loose = self.store(), batch_of("seen by all")
        store.write(WriteBatch(objects=loose.objects, deltas=loose.deltas))
        readers = self._both(store)
        for reader in readers:
            assert reader.deltas(loose.deltas)
            assert reader.objects(loose.objects)
        self._collect(store)
        for reader in readers:
            refused(ObjectNotFound, reader.write, WriteBatch(commits=loose.commits))
            refused(ObjectNotFound, reader.write, WriteBatch(deltas=loose.deltas))
            assert reader.objects(loose.objects) == {}
        self._is_whole(store)

    def test_the_young_stay_with_all_that_they_need(self) -> None:
        store, loose = self.store(), batch_of("young")
        sequence = commits.encode_sequence([*loose.deltas])[0]
        store.write(WriteBatch(objects=loose.objects, deltas=loose.deltas))
        store.write(WriteBatch(sequences={sequence: [*loose.deltas]}))
        before = self._everything(store)
        assert store.collect([], now=later(0), grace_s=3600) == GcResult()
        assert self._everything(store) == before
        assert self._collect(store, grace_s=3600).objects == 4

    def test_given_roots_stay(self) -> None:
        store = self.store()
        batches = [batch_of(text) for text in ("a", "b")]
        for batch in batches:
            store.write(WriteBatch(objects=batch.objects, deltas=batch.deltas))
        (first,), (second,) = batches[0].deltas, batches[1].deltas
        invalid_names = ["", "ctx-", "x", "art-" + "f" * 64, "\ud800", "f" * 64, "../x"]
        assert self._collect(store, [first, *invalid_names]).objects == 3
        assert store.deltas([first, second]).keys() == {first}
        assert store.objects(batches[0].objects) == batches[0].objects
        self._is_whole(store)

    def test_what_is_kept_stays(self) -> None:
        store = self.store()
        raw = {commits.hash_raw(data): data for data in (b"pin", b"copy", b"day", b"old", b"plain")}
        pin, copy, day, old, _ = raw
        store.write(WriteBatch(raw=raw))
        store.set_retention(
            {
                pin: RetentionPolicy("pin"),
                copy: RetentionPolicy("replicate"),
                day: RetentionPolicy("ephemeral", later(24)),
                old: RetentionPolicy("ephemeral", later(1)),
            }
        )
        assert self._collect(store).objects == 2
        for reader in self._both(store):
            assert set(reader.names_with_prefix("art-")) == {pin, copy, day}
            assert set(reader.retention()) == {pin, copy, day}
            refused(ObjectNotFound, reader.raw, old)
        store.set_retention({pin: None, copy: None})
        for reader in self._both(store):
            assert reader.retention() == {day: RetentionPolicy("ephemeral", later(24))}
        assert self._collect(store).objects == 2
        assert {*store.names_with_prefix("art-")} - {copy} == {
            day
        }  # a backing store may have the copy
        assert self._collect(store, hours=25).objects == 1
        assert store.retention() == {}
        self._is_whole(store)

    def test_keeping_what_is_not_there_is_refused(self) -> None:
        store = self.store()
        [name] = chain_in(store, 1)
        pin = RetentionPolicy("pin")
        for invalid_name in ("", "art-", "ctx-" + "f" * 64, "art-" + "f" * 64, name[:12], "\0"):
            refused(NameNotFound, store.set_retention, {name: pin, invalid_name: pin})
        odd_policies: list[Any] = [
            RetentionPolicy("for ever"),  # type: ignore[arg-type]
            RetentionPolicy("ephemeral"),
            RetentionPolicy("ephemeral", "tomorrow"),
            RetentionPolicy("ephemeral", "2026-01-01"),
            RetentionPolicy("pin", later(1)),
        ]
        for odd_policy in odd_policies:
            refused(ValueError, store.set_retention, {name: odd_policy})
        for reader in self._both(store):
            assert reader.retention() == {}

    def test_an_expired_commit_goes_with_what_only_it_needs(self) -> None:
        store = self.store()
        names = chain_in(store, 3, principal="ann")
        refs = [*_deltas_of(store, names[2:])]
        store.update_notes(names[1], CommitNotes(summary="stays", labels=("x",)))
        store.set_retention({names[2]: RetentionPolicy("ephemeral", later(1))})
        assert self._collect(store, hours=0.5) == GcResult()
        result = self._collect(store)
        assert result.commits == (names[2],)
        assert result.objects == 3  # a delta, a message, a part
        for reader in self._both(store):
            assert reader.commits(names).keys() == {*names[:2]}
            assert reader.children(names[1]) == []
            assert reader.newest_commits() == names[1::-1]
            assert reader.latest_commit("ann", "2100-01-01T00:00:00Z") == names[1]
            assert reader.names_with_prefix(names[2]) == []
            assert reader.commits_by_label() == {"x": [names[1]]}
            assert reader.retention() == {}
            assert reader.deltas(refs) == {}
            refused(NameNotFound, reader.chain, names[2])
        self._is_whole(store)
        assert [commit.id for commit in store.chain(names[1])] == names[1::-1]

    def test_an_expired_commit_on_which_something_stands_stays(self) -> None:
        store = self.store()
        names = chain_in(store, 4)
        expired = RetentionPolicy("ephemeral", later(1))
        store.set_retention(dict.fromkeys(names[:3], expired))
        assert self._collect(store) == GcResult()
        store.set_retention({names[3]: expired})
        store.update_notes(names[1], CommitNotes(labels=("release",)))
        assert set(self._collect(store).commits) == {*names[2:]}
        store.update_notes(names[1], CommitNotes())
        assert self._collect(store, [names[1]]) == GcResult()
        store.set_retention({names[1]: RetentionPolicy("pin")})
        assert self._collect(store) == GcResult()
        store.set_retention({names[1]: expired})
        assert set(self._collect(store).commits) == {*names[:2]}
        for reader in self._both(store):
            assert reader.names_with_prefix("") == []
            assert reader.objects([*self._things(reader)]) == {}
        self._is_whole(store)

    def test_a_purged_commit_expires_like_any_other(self) -> None:
        store = self.store()
        root, batch = batch_of("root"), batch_of("x", template="secret")
        store.write(root)
        store.write(batch)
        name = commit_in(batch)
        body = commits.commit_bytes(batch.commits[0][0])
        stone = Tombstone(when="2026-01-31T12:00:00Z", by="ann", why="test")
        store.purge({name: body.replace(b"secret", b"purged")}, stone)
        store.set_retention({name: RetentionPolicy("ephemeral", later(1))})
        assert self._collect(store).commits == (name,)
        for reader in self._both(store):
            assert reader.commits([name]) == {}
            assert reader.tombstones()[name].why == "test"
            refused(ObjectNotFound, reader.write, batch)  # The write would restore purged content.
            refused(ObjectNotFound, reader.write, batch_of("child", parent=name))
        self._is_whole(store)
        assert self._collect(store) == GcResult()

    def test_a_dry_run_says_the_same_and_changes_nothing(self) -> None:
        store = self.store()
        names = chain_in(store, 3)
        loose = batch_of("only here")
        store.write(
            WriteBatch(
                objects=loose.objects, deltas=loose.deltas, raw={commits.hash_raw(b"x"): b"x"}
            )
        )
        store.set_retention({names[-1]: RetentionPolicy("ephemeral", later(1))})
        before = self._everything(store)
        would = self._collect(store, dry_run=True)
        assert would.objects == 4 + 3
        assert would.commits == (names[-1],)
        for reader in self._both(store):
            assert self._everything(reader) == before
        assert self._collect(store) == would
        assert self._collect(store, dry_run=True) == GcResult()

    def test_writers_beside_a_collection_lose_nothing(self) -> None:
        """A commit that was written next to a collection never loses an object that it needs."""
        store = self.store()
        [root] = chain_in(store, 1)
        stores = [store, *self._both(store)[1:]]
        commit_ids: list[CommitId] = []
        failed: list[Exception] = []
        stopped = threading.Event()

        def write(number: int) -> None:
            mine = stores[number % len(stores)]
            try:
                for index in range(15):
                    loose = batch_of(f"{number} {index}", "the same for all", parent=root)
                    mine.write(WriteBatch(objects=loose.objects, deltas=loose.deltas))
                    batch = WriteBatch(commits=loose.commits)
                    try:
                        mine.write(batch)
                    except ObjectNotFound:  # collected in between: then all of it is written
                        batch = loose
                        mine.write(batch)
                    commit_ids.append(commit_in(batch))
            except Exception as error:  # noqa: BLE001 - raised below, in the thread of the test
                failed.append(error)

        def collect() -> None:
            try:
                while not stopped.is_set():
                    self._collect(stores[-1])
            except Exception as error:  # noqa: BLE001 - as above
                failed.append(error)

        threads = [threading.Thread(target=write, args=[number]) for number in range(3)]
        collector = threading.Thread(target=collect)
        for thread in (*threads, collector):
            thread.start()
        for thread in threads:
            thread.join()
        stopped.set()
        collector.join()
        assert not failed, failed
        self._collect(store)
        for reader in self._both(store):
            stored = reader.commits(commit_ids)
            assert stored.keys() == {*commit_ids}
            refs = {commit.commit.artifact for commit in stored.values()}
            deltas = reader.deltas(refs)
            assert deltas.keys() == refs
            messages = {entry.message for entries in deltas.values() for entry in entries}
            assert reader.objects(messages).keys() == messages
        self._is_whole(store)


def _deltas_of(store: Store, names: Iterable[CommitId]) -> list[ArtifactRef]:
    return [commit.commit.artifact for commit in store.commits(names).values()]
