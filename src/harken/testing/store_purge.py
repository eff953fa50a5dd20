"""Conformance tests of stores for purging; the base of `LifecycleSuite`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harken.core import canonical, commits, structs
from harken.core.clock import format_rfc3339, system_clock
from harken.core.commits import CommitId, CommitNotes, DeltaEntry, Hash
from harken.core.messages import Message
from harken.errors import ObjectCorrupted, ObjectNotFound
from harken.store.base import GcResult, Name, ObjectKind, Store, Tombstone, WriteBatch
from harken.store.batch import DOMAIN_BY_KIND, compute_name
from harken.store.fsck import fsck
from harken.testing.store_kit import batch_of, commit_in, refused

_HOUR_US = 3_600_000_000
_SECRET = "sk-live-0123456789abcdef"  # noqa: S105 - not a real key
_PURGED = Tombstone(when="2026-01-31T12:00:00.000000Z", by="ann", why="it leaked")


class PurgeSuite:
    """The tests of purging, and helpers shared with the tests of collection."""

    def store(self) -> Store:
        """Return a new, empty store."""
        raise NotImplementedError(f"{type(self).__name__} must say how its store is made")

    def reopen_store(self, store: Store) -> Store | None:
        """Return a second store over the same data, as in another process, or None if impossible.

        It must not share memory with the first one.
        """
        return None

    def files(self, store: Store) -> Sequence[Path]:
        """Return the files that contain the store's bytes uncompressed, if it has any."""
        return ()

    def test_a_purged_part_reads_as_its_stand_in(self) -> None:
        store, batch = self.store(), batch_of(f"the key is {_SECRET}", "hello")
        store.write(batch)
        name = _part_with(batch, _SECRET)
        new = _replaced(batch.objects[name])
        store.purge({name: new}, _PURGED)
        for reader in self._both(store):
            assert reader.objects([name]) == {name: new}
            assert [*reader.tombstones()] == [name]
            stone = reader.tombstones()[name]
            assert (stone.when, stone.by, stone.why) == (_PURGED.when, _PURGED.by, _PURGED.why)
            assert reader.objects([Hash(stone.stand_in)]) == {stone.stand_in: new}
            [entries] = reader.deltas(batch.deltas).values()
            texts = [
                commits.decode_entry(entry, reader.objects(batch.objects)).content
                for entry in entries
            ]
            assert texts == ["the key is [purged]", "hello"]
        self._is_gone(store)

    def test_every_kind_of_thing_can_be_purged(self) -> None:
        store = self.store()
        notes = CommitNotes(summary="clean", labels=("x",))
        root = batch_of("before")
        store.write(root)
        message = Message("user", "hi", name=_SECRET)
        batch = batch_of(message, parent=commit_in(root), template=_SECRET, notes=notes)
        raw = {commits.hash_raw(_SECRET.encode()): _SECRET.encode()}
        store.write(batch)
        [secret], [(ref, entries)] = raw, batch.deltas.items()
        store.write(WriteBatch(raw=raw, derived={_SECRET: secret, "k": ref}))
        commit, name = batch.commits[0][0], commit_in(batch)
        bodies: list[tuple[Name, bytes]] = [
            (ref, commits.encode_delta(entries)[1]),
            (name, commits.commit_bytes(commit)),
            *raw.items(),
        ]
        store.purge({key: _replaced(body) for key, body in bodies}, _PURGED)
        for reader in self._both(store):
            [entry] = reader.deltas([ref])[ref]
            assert entry.occurrence.name == "[purged]"
            [stored] = reader.commits([name]).values()
            assert stored.id == name
            assert stored.commit == structs.replace(commit, template="[purged]")
            assert stored.notes == notes
            assert reader.commits_by_label() == {"x": [name]}
            assert [item.id for item in reader.chain(name)] == [name, commit_in(root)]
            assert reader.children(commit_in(root)) == [name]
            assert reader.newest_commits() == [name, commit_in(root)]
            assert reader.names_with_prefix("ctx-") == sorted([name, commit_in(root)])
            assert {ref, *raw} <= set(reader.names_with_prefix("art-"))
            assert [reader.raw(key) for key in raw] == [b"[purged]"]
            assert reader.find_derived([_SECRET, "k"]) == {}
            assert set(reader.tombstones()) == {ref, name, *raw}
        self._is_gone(store)
        child = batch_of("after", parent=name, second=1)
        store.write(child)
        assert [item.id for item in store.chain(commit_in(child))][1] == name

    def test_what_was_purged_does_not_come_back(self) -> None:
        store, batch = self.store(), batch_of(f"the key is {_SECRET}")
        store.write(batch)
        raw = {commits.hash_raw(_SECRET.encode()): _SECRET.encode()}
        store.write(WriteBatch(raw=raw))
        name = _part_with(batch, _SECRET)
        purged: list[tuple[Name, bytes]] = [(name, batch.objects[name]), *raw.items()]
        store.purge({key: _replaced(body) for key, body in purged}, _PURGED)
        before = self._everything(store)
        for writer in self._both(store):
            writer.write(batch)
            writer.write(WriteBatch(raw=raw))
        for reader in self._both(store):
            assert self._everything(reader) == before
        later = batch_of(f"the key is {_SECRET}", "once more", second=1)
        store.write(later)
        for reader in self._both(store):
            assert reader.commits([commit_in(later)])
            assert reader.objects([name]) == {name: _replaced(batch.objects[name])}
        self._is_gone(store)

    def test_a_stand_in_can_be_purged_too(self) -> None:
        store, batch = self.store(), batch_of(f"{_SECRET} and-then-76543210 and-more-fedcba98")
        store.write(batch)
        name = _part_with(batch, _SECRET)
        first = _replaced(batch.objects[name])
        second = _replaced(first, "more-fedcba98")
        third = _replaced(second, "then-76543210")
        middle = Hash(compute_name(ObjectKind.PART, first))
        store.purge({name: first}, _PURGED)
        store.purge({middle: second}, _PURGED)
        store.purge({name: third}, _PURGED)
        for reader in self._both(store):
            assert reader.objects([name, middle]) == {name: third, middle: third}
        for text in ("more-fedcba98", "then-76543210", _SECRET):
            self._is_gone(store, text)

    def test_a_file_with_a_purged_piece_is_purged_too(self) -> None:
        """A file that has grown is stored again with the purged piece."""
        store = self.store()
        pieces = {commits.hash_raw(data): data for data in (b"a", _SECRET.encode(), b"c", b"d")}
        a, secret, c, d = pieces
        store.write(WriteBatch(raw=pieces))
        store.purge({secret: b"[purged]"}, _PURGED)
        grown = commits.hash_raw(b"a" + _SECRET.encode() + b"cd")
        for writer in self._both(store):
            writer.write(WriteBatch(raw=pieces, files={grown: [a, secret, c, d]}))
        for reader in self._both(store):
            assert reader.raw(grown) == b"a[purged]cd"
            assert reader.tombstones()[grown].by == _PURGED.by
        self._collect(store)
        assert store.raw(grown) == b"a[purged]cd"
        self._is_gone(store)

    def test_what_stands_in_is_never_collected(self) -> None:
        store, batch = self.store(), batch_of(f"{_SECRET} is loose")
        store.write(WriteBatch(objects=batch.objects))
        name = _part_with(batch, _SECRET)
        store.purge({name: _replaced(batch.objects[name])}, _PURGED)
        self._collect(store)
        store.write(batch)
        for reader in self._both(store):
            assert reader.objects([name]) == {name: _replaced(batch.objects[name])}
        self._is_gone(store)

    def test_what_was_purged_elsewhere_comes_with_its_tombstone(self) -> None:
        """A copy of a store gets its tombstones. A received tombstone purges no existing object."""
        store, root = self.store(), batch_of(f"the key is {_SECRET}", template=_SECRET)
        child = batch_of("after", parent=commit_in(root), second=1)
        name, commit = _part_with(root, _SECRET), commit_in(root)
        new_part = _replaced(root.objects[name])
        new_commit = structs.replace(root.commits[0][0], template="[purged]")
        part = Hash(compute_name(ObjectKind.PART, new_part))
        stones: dict[Name, Tombstone] = {
            name: structs.replace(_PURGED, stand_in=part),
            commit: structs.replace(_PURGED, stand_in=new_commit.id),
        }
        others = {key: body for key, body in root.objects.items() if key != name}
        notes = CommitNotes(summary="s", labels=("x",))
        received = WriteBatch(
            objects={**others, part: new_part, **child.objects},
            deltas={**root.deltas, **child.deltas},
            commits=[(new_commit, notes), *child.commits],
            tombstones=stones,
        )
        missing = structs.replace(_PURGED, stand_in="f" * 64)
        refused(ObjectNotFound, store.write, WriteBatch(tombstones={name: missing}))
        wrong_kind = structs.replace(_PURGED, stand_in=commit)
        refused(ValueError, store.write, WriteBatch(tombstones={name: wrong_kind}))
        store.write(received)
        store.write(received)
        for reader in self._both(store):
            assert reader.tombstones() == stones
            assert reader.objects([name]) == {name: new_part}
            assert [item.id for item in reader.chain(commit_in(child))] == [
                commit_in(child),
                commit,
            ]
            assert reader.commits([commit])[commit].commit == new_commit
            assert reader.commits_by_label() == {"x": [commit]}
            assert reader.commits([new_commit.id]) == {}
        self._is_gone(store)
        second_store = self.store()
        second_store.write(root)
        before = self._everything(second_store)
        second_store.write(WriteBatch(objects={part: new_part}, tombstones={name: stones[name]}))
        assert second_store.objects([name]) == {name: root.objects[name]}
        assert second_store.tombstones() == {}
        self._collect(second_store)
        assert self._everything(second_store) == before

    def test_a_purge_that_cannot_be_is_refused_whole(self) -> None:
        store, root = self.store(), batch_of("root")
        store.write(root)
        batch = batch_of(f"the key is {_SECRET}", parent=commit_in(root), second=1)
        store.write(batch)
        name, commit = _part_with(batch, _SECRET), commit_in(batch)
        [(ref, entries)] = batch.deltas.items()
        good = _replaced(batch.objects[name])
        missing = [DeltaEntry(Hash("f" * 64), entries[0].occurrence)]
        moved = structs.replace(batch.commits[0][0], parent=None)
        before = self._everything(store)
        impossible: list[tuple[type[Exception], dict[Name, bytes]]] = [
            (ObjectNotFound, {"e" * 64: good}),
            (ObjectNotFound, {ref: commits.encode_delta(missing)[1]}),
            (ObjectCorrupted, {ref: b"[ ]"}),
            (ObjectCorrupted, {ref: b"no JSON"}),
            (ObjectCorrupted, {ref: b'{"type":"text"}'}),
            (ValueError, {commit: commits.commit_bytes(moved)}),
            (ValueError, {ref: commits.encode_delta(entries)[1]}),
        ]
        for error, bodies in impossible:
            refused(error, store.purge, {name: good, **bodies}, _PURGED)
        for reader in self._both(store):
            assert self._everything(reader) == before
            assert reader.tombstones() == {}
        self._is_whole(store)

    def _both(self, store: Store) -> Sequence[Store]:
        second_store = self.reopen_store(store)
        return [store] if second_store is None else [store, second_store]

    def _collect(
        self,
        store: Store,
        roots: Sequence[Name] = (),
        *,
        hours: float = 2,
        grace_s: float = 0,
        dry_run: bool = False,
    ) -> GcResult:
        return store.collect(roots, now=later(hours), grace_s=grace_s, dry_run=dry_run)

    def _things(self, store: Store) -> set[Hash]:
        return {Hash(obj.name) for obj in store.iter_objects()}

    def _everything(self, store: Store) -> object:
        names = store.names_with_prefix("", 10_000)
        stored = store.commits(CommitId(name) for name in names)
        objects = {obj.name: (obj.kind, obj.body) for obj in store.iter_objects()}
        return (
            names,
            stored,
            objects,
            store.newest_commits(10_000),
            store.retention(),
            store.commits_by_label(),
        )

    def _is_whole(self, store: Store) -> None:
        for reader in self._both(store):
            assert fsck(reader) == []
            known_names: set[Name] = set()
            stones = reader.tombstones()
            for obj in reader.iter_objects():
                assert obj.kind is ObjectKind.FILE or obj.name == compute_name(obj.kind, obj.body)
                assert all(need in known_names or need in stones for need in obj.needs)
                known_names.add(obj.name)

    def _is_gone(self, store: Store, text: str = _SECRET) -> None:
        """Assert that a text is in no object, and in no file."""
        self._is_whole(store)
        for reader in self._both(store):
            for obj in reader.iter_objects():
                assert text.encode() not in obj.body, obj.name
        for path in self.files(store):
            assert text.encode() not in path.read_bytes(), f"{text} is in {path.name}"


def later(hours: float) -> str:
    """Return the time this many hours after the next full hour, or now if `hours` is 0."""
    now_us = system_clock()
    begun_us = now_us - now_us % _HOUR_US
    return format_rfc3339(now_us if hours == 0 else begun_us + int((hours + 1) * _HOUR_US))


def _part_with(batch: WriteBatch, text: str) -> Hash:
    [name] = (
        name
        for name, body in batch.objects.items()
        if text.encode() in body
        and canonical.hash_bytes(DOMAIN_BY_KIND[ObjectKind.PART], body).hex() == name
    )
    return name


def _replaced(body: bytes, text: str = _SECRET) -> bytes:
    return body.replace(text.encode(), b"[purged]")
