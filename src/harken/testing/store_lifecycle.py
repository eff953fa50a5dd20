"""What every store must do when things are kept, expire, are collected or purged, as tests.

A store runs this suite beside `harken.testing.store.StoreSuite`.

Source: docs/formats/store.md; the contract is `harken.store.base.Store`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from harken.core import codec, commits
from harken.core.clock import rfc3339, system_clock
from harken.core.commits import ArtifactRef, CommitId, Entry, Hash, Notes
from harken.core.messages import Message
from harken.errors import ObjectDamaged, ObjectMissing, UnknownName
from harken.store.base import Batch, Collected, Keeping, Kind, Name, Store, Tombstone
from harken.store.checks import fsck
from harken.store.contents import DOMAINS, name_of
from harken.testing.store import batch_of, commit_in

_HOUR_US = 3_600_000_000
_SECRET = "sk-live-0123456789abcdef"  # noqa: S105 - nobody's
_PURGED = Tombstone(when="2026-01-31T12:00:00.000000Z", by="ann", why="it leaked")


class LifecycleSuite:
    """The tests. Inherit them in a class `Test...`, and say how a store is made."""

    def store(self) -> Store:
        """Return a new, empty store."""
        raise NotImplementedError(f"{type(self).__name__} must say how its store is made")

    def again(self, store: Store) -> Store | None:
        """Return another store over the same data, as another process has it; None: there is none.

        It must not know what the first one has in memory.
        """
        return None

    def files(self, store: Store) -> Sequence[Path]:
        """Return the files in which the store keeps its bytes as they are, if it has any."""
        return ()

    def test_what_a_commit_needs_stays(self) -> None:
        store = self.store()
        names = self._chain(store, 5)
        fork = batch_of("fork", parent=names[2])
        store.write(fork)
        before = self._everything(store)
        assert self._collect(store) == Collected()
        for reader in self._both(store):
            assert self._everything(reader) == before
            assert [one.id for one in reader.chain(names[-1])] == names[::-1]

    def test_what_nothing_needs_goes(self) -> None:
        store = self.store()
        [kept] = self._chain(store, 1)
        loose = batch_of("only here", "step 0")
        raw, sequence = commits.raw_ref(b"loose"), commits.sequence_of([*loose.deltas])[0]
        store.write(Batch(objects=loose.objects, deltas=loose.deltas, raw={raw: b"loose"}))
        store.write(Batch(sequences={sequence: [*loose.deltas]}, derived={"all of it": sequence}))
        taken = self._collect(store)
        assert taken.commits == ()
        assert taken.things == 2 + 3  # a part and its message; a delta, a sequence, raw bytes
        assert taken.size_bytes > 0
        for reader in self._both(store):
            assert set(reader.objects(loose.objects)) < set(loose.objects), "what is shared stays"
            assert reader.deltas(loose.deltas) == {}
            assert reader.sequences([sequence]) == {}
            assert reader.derived(["all of it"]) == {}
            _refused(ObjectMissing, reader.raw, raw)
            assert set(reader.named("")) == {kept, *_deltas_of(store, [kept])}
        self._is_whole(store)
        assert self._collect(store) == Collected()

    def test_what_is_collected_can_be_written_again(self) -> None:
        store, loose = self.store(), batch_of("again")
        only = Batch(objects=loose.objects, deltas=loose.deltas)
        for _ in range(2):
            store.write(only)
            for reader in self._both(store):
                assert reader.deltas(loose.deltas).keys() == loose.deltas.keys()
            assert self._collect(store).things == 3
            for reader in self._both(store):
                assert reader.deltas(loose.deltas) == {}
        store.write(loose)
        assert self._collect(store) == Collected()
        self._is_whole(store)

    def test_what_was_collected_is_not_named_any_more(self) -> None:
        """Also by another process that has seen it: it looks again before it names it."""
        store, loose = self.store(), batch_of("seen by all")
        store.write(Batch(objects=loose.objects, deltas=loose.deltas))
        readers = self._both(store)
        for reader in readers:
            assert reader.deltas(loose.deltas)
            assert reader.objects(loose.objects)
        self._collect(store)
        for reader in readers:
            _refused(ObjectMissing, reader.write, Batch(commits=loose.commits))
            _refused(ObjectMissing, reader.write, Batch(deltas=loose.deltas))
            assert reader.objects(loose.objects) == {}
        self._is_whole(store)

    def test_the_young_stay_with_all_that_they_need(self) -> None:
        store, loose = self.store(), batch_of("young")
        sequence = commits.sequence_of([*loose.deltas])[0]
        store.write(Batch(objects=loose.objects, deltas=loose.deltas))
        store.write(Batch(sequences={sequence: [*loose.deltas]}))
        before = self._everything(store)
        assert store.collect([], now=_later(0), grace_s=3600) == Collected()
        assert self._everything(store) == before
        assert self._collect(store, grace_s=3600).things == 4

    def test_given_roots_stay(self) -> None:
        store = self.store()
        ones = [batch_of(text) for text in ("a", "b")]
        for one in ones:
            store.write(Batch(objects=one.objects, deltas=one.deltas))
        (first,), (second,) = ones[0].deltas, ones[1].deltas
        odd = ["", "ctx-", "x", "art-" + "f" * 64, "\ud800", "f" * 64, "../x"]
        assert self._collect(store, [first, *odd]).things == 3
        assert store.deltas([first, second]).keys() == {first}
        assert store.objects(ones[0].objects) == ones[0].objects
        self._is_whole(store)

    def test_what_is_kept_stays(self) -> None:
        store = self.store()
        raw = {commits.raw_ref(data): data for data in (b"pin", b"copy", b"day", b"old", b"plain")}
        pin, copy, day, old, _ = raw
        store.write(Batch(raw=raw))
        store.keep(
            {
                pin: Keeping("pin"),
                copy: Keeping("replicate"),
                day: Keeping("ephemeral", _later(24)),
                old: Keeping("ephemeral", _later(1)),
            }
        )
        assert self._collect(store).things == 2
        for reader in self._both(store):
            assert set(reader.named("art-")) == {pin, copy, day}
            assert set(reader.kept()) == {pin, copy, day}
            _refused(ObjectMissing, reader.raw, old)
        store.keep({pin: None, copy: None})
        for reader in self._both(store):
            assert reader.kept() == {day: Keeping("ephemeral", _later(24))}
        assert self._collect(store).things == 2
        assert store.named("art-") == [day]
        assert self._collect(store, hours=25).things == 1
        assert store.kept() == {}
        self._is_whole(store)

    def test_keeping_what_is_not_there_is_refused(self) -> None:
        store = self.store()
        [name] = self._chain(store, 1)
        pin = Keeping("pin")
        for odd in ("", "art-", "ctx-" + "f" * 64, "art-" + "f" * 64, name[:12], "\0"):
            _refused(UnknownName, store.keep, {name: pin, odd: pin})
        odd_policies: list[Any] = [
            Keeping("for ever"),  # type: ignore[arg-type]
            Keeping("ephemeral"),
            Keeping("ephemeral", "tomorrow"),
            Keeping("ephemeral", "2026-01-01"),
            Keeping("pin", _later(1)),
        ]
        for odd_policy in odd_policies:
            _refused(ValueError, store.keep, {name: odd_policy})
        for reader in self._both(store):
            assert reader.kept() == {}

    def test_an_expired_commit_goes_with_what_only_it_needs(self) -> None:
        store = self.store()
        names = self._chain(store, 3, principal="ann")
        own = [*_deltas_of(store, names[2:])]
        store.annotate(names[1], Notes(summary="stays", labels=("x",)))
        store.keep({names[2]: Keeping("ephemeral", _later(1))})
        assert self._collect(store, hours=0.5) == Collected()
        taken = self._collect(store)
        assert taken.commits == (names[2],)
        assert taken.things == 3  # a delta, a message, a part
        for reader in self._both(store):
            assert reader.commits(names).keys() == {*names[:2]}
            assert reader.children(names[1]) == []
            assert reader.newest() == names[1::-1]
            assert reader.latest("ann", "2100-01-01T00:00:00Z") == names[1]
            assert reader.named(names[2]) == []
            assert reader.labelled() == {"x": [names[1]]}
            assert reader.kept() == {}
            assert reader.deltas(own) == {}
            _refused(UnknownName, reader.chain, names[2])
        self._is_whole(store)
        assert [one.id for one in store.chain(names[1])] == names[1::-1]

    def test_an_expired_commit_on_which_something_stands_stays(self) -> None:
        store = self.store()
        names = self._chain(store, 4)
        expired = Keeping("ephemeral", _later(1))
        store.keep(dict.fromkeys(names[:3], expired))
        assert self._collect(store) == Collected()
        store.keep({names[3]: expired})
        store.annotate(names[1], Notes(labels=("release",)))
        assert set(self._collect(store).commits) == {*names[2:]}
        store.annotate(names[1], Notes())
        assert self._collect(store, [names[1]]) == Collected()
        store.keep({names[1]: Keeping("pin")})
        assert self._collect(store) == Collected()
        store.keep({names[1]: expired})
        assert set(self._collect(store).commits) == {*names[:2]}
        for reader in self._both(store):
            assert reader.named("") == []
            assert reader.objects([*self._things(reader)]) == {}
        self._is_whole(store)

    def test_a_dry_run_says_the_same_and_changes_nothing(self) -> None:
        store = self.store()
        names = self._chain(store, 3)
        loose = batch_of("only here")
        store.write(Batch(objects=loose.objects, deltas=loose.deltas, raw={_raw(b"x"): b"x"}))
        store.keep({names[-1]: Keeping("ephemeral", _later(1))})
        before = self._everything(store)
        would = self._collect(store, dry_run=True)
        assert would.things == 4 + 3
        assert would.commits == (names[-1],)
        for reader in self._both(store):
            assert self._everything(reader) == before
        assert self._collect(store) == would
        assert self._collect(store, dry_run=True) == Collected()

    def test_writers_beside_a_collection_lose_nothing(self) -> None:
        """Each checks that something is there, names it, and must find it ever after."""
        store = self.store()
        [root] = self._chain(store, 1)
        stores = [store, *self._both(store)[1:]]
        written: list[CommitId] = []
        failed: list[Exception] = []
        done = threading.Event()

        def write(number: int) -> None:
            mine = stores[number % len(stores)]
            try:
                for at in range(15):
                    loose = batch_of(f"{number} {at}", "the same for all", parent=root)
                    mine.write(Batch(objects=loose.objects, deltas=loose.deltas))
                    batch = Batch(commits=loose.commits)
                    try:
                        mine.write(batch)
                    except ObjectMissing:  # collected in between: then all of it is written
                        batch = loose
                        mine.write(batch)
                    written.append(commit_in(batch))
            except Exception as error:  # noqa: BLE001 - raised below, in the thread of the test
                failed.append(error)

        def collect() -> None:
            try:
                while not done.is_set():
                    self._collect(stores[-1])
            except Exception as error:  # noqa: BLE001 - as above
                failed.append(error)

        threads = [threading.Thread(target=write, args=[number]) for number in range(3)]
        collector = threading.Thread(target=collect)
        for thread in (*threads, collector):
            thread.start()
        for thread in threads:
            thread.join()
        done.set()
        collector.join()
        assert not failed, failed
        self._collect(store)
        for reader in self._both(store):
            found = reader.commits(written)
            assert found.keys() == {*written}
            refs = {one.commit.artifact for one in found.values()}
            deltas = reader.deltas(refs)
            assert deltas.keys() == refs
            messages = {entry.message for entries in deltas.values() for entry in entries}
            assert reader.objects(messages).keys() == messages
        self._is_whole(store)

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
                commits.message_of(entry, reader.objects(batch.objects)).content
                for entry in entries
            ]
            assert texts == ["the key is [purged]", "hello"]
        self._is_gone(store)

    def test_every_kind_of_thing_can_be_purged(self) -> None:
        store = self.store()
        notes = Notes(summary="clean", labels=("x",))
        root = batch_of("before")
        store.write(root)
        message = Message("user", "hi", name=_SECRET)
        batch = batch_of(message, parent=commit_in(root), template=_SECRET, notes=notes)
        raw = {_raw(_SECRET.encode()): _SECRET.encode()}
        store.write(batch)
        [secret], [(ref, entries)] = raw, batch.deltas.items()
        store.write(Batch(raw=raw, derived={_SECRET: secret, "k": ref}))
        commit, name = batch.commits[0][0], commit_in(batch)
        bodies: list[tuple[Name, bytes]] = [
            (ref, commits.delta_of(entries)[1]),
            (name, commits.commit_bytes(commit)),
            *raw.items(),
        ]
        store.purge({key: _replaced(body) for key, body in bodies}, _PURGED)
        for reader in self._both(store):
            [entry] = reader.deltas([ref])[ref]
            assert entry.occurrence.name == "[purged]"
            [stored] = reader.commits([name]).values()
            assert stored.id == name
            assert stored.commit == msgspec.structs.replace(commit, template="[purged]")
            assert stored.notes == notes
            assert reader.labelled() == {"x": [name]}
            assert [one.id for one in reader.chain(name)] == [name, commit_in(root)]
            assert reader.children(commit_in(root)) == [name]
            assert reader.newest() == [name, commit_in(root)]
            assert reader.named("ctx-") == sorted([name, commit_in(root)])
            assert {ref, *raw} <= set(reader.named("art-"))
            assert [reader.raw(one) for one in raw] == [b"[purged]"]
            assert reader.derived([_SECRET, "k"]) == {}
            assert set(reader.tombstones()) == {ref, name, *raw}
        self._is_gone(store)
        child = batch_of("after", parent=name, second=1)
        store.write(child)
        assert [one.id for one in store.chain(commit_in(child))][1] == name

    def test_what_was_purged_does_not_come_back(self) -> None:
        store, batch = self.store(), batch_of(f"the key is {_SECRET}")
        store.write(batch)
        raw = {_raw(_SECRET.encode()): _SECRET.encode()}
        store.write(Batch(raw=raw))
        name = _part_with(batch, _SECRET)
        purged: list[tuple[Name, bytes]] = [(name, batch.objects[name]), *raw.items()]
        store.purge({key: _replaced(body) for key, body in purged}, _PURGED)
        before = self._everything(store)
        for writer in self._both(store):
            writer.write(batch)
            writer.write(Batch(raw=raw))
        for reader in self._both(store):
            assert self._everything(reader) == before
        later = batch_of(f"the key is {_SECRET}", "once more", second=1)
        store.write(later)
        for reader in self._both(store):
            assert reader.commits([commit_in(later)])
            assert reader.objects([name]) == {name: _replaced(batch.objects[name])}
        self._is_gone(store)

    def test_a_stand_in_can_be_purged_too(self) -> None:
        store, batch = self.store(), batch_of(f"{_SECRET} and more")
        store.write(batch)
        name = _part_with(batch, _SECRET)
        first = _replaced(batch.objects[name])
        second = _replaced(first, "more")
        third = _replaced(second, "and")
        middle = Hash(name_of(Kind.PART, first))
        store.purge({name: first}, _PURGED)
        store.purge({middle: second}, _PURGED)
        store.purge({name: third}, _PURGED)
        for reader in self._both(store):
            assert reader.objects([name, middle]) == {name: third, middle: third}
        for text in ("more", "and", _SECRET):
            self._is_gone(store, text)

    def test_what_stands_in_is_never_collected(self) -> None:
        store, batch = self.store(), batch_of(f"{_SECRET} is loose")
        store.write(Batch(objects=batch.objects))
        name = _part_with(batch, _SECRET)
        store.purge({name: _replaced(batch.objects[name])}, _PURGED)
        self._collect(store)
        store.write(batch)
        for reader in self._both(store):
            assert reader.objects([name]) == {name: _replaced(batch.objects[name])}
        self._is_gone(store)

    def test_what_was_purged_elsewhere_comes_with_its_tombstone(self) -> None:
        """So a copy of a store can be made; what is there already, nobody from elsewhere purges."""
        store, root = self.store(), batch_of(f"the key is {_SECRET}", template=_SECRET)
        child = batch_of("after", parent=commit_in(root), second=1)
        name, commit = _part_with(root, _SECRET), commit_in(root)
        new_part = _replaced(root.objects[name])
        new_commit = msgspec.structs.replace(root.commits[0][0], template="[purged]")
        part = Hash(name_of(Kind.PART, new_part))
        stones: dict[Name, Tombstone] = {
            name: msgspec.structs.replace(_PURGED, stand_in=part),
            commit: msgspec.structs.replace(_PURGED, stand_in=new_commit.id),
        }
        others = {key: body for key, body in root.objects.items() if key != name}
        notes = Notes(summary="s", labels=("x",))
        brought = Batch(
            objects={**others, part: new_part, **child.objects},
            deltas={**root.deltas, **child.deltas},
            commits=[(new_commit, notes), *child.commits],
            tombstones=stones,
        )
        lost = msgspec.structs.replace(_PURGED, stand_in="f" * 64)
        _refused(ObjectMissing, store.write, Batch(tombstones={name: lost}))
        odd = msgspec.structs.replace(_PURGED, stand_in=commit)
        _refused(ValueError, store.write, Batch(tombstones={name: odd}))
        store.write(brought)
        store.write(brought)
        for reader in self._both(store):
            assert reader.tombstones() == stones
            assert reader.objects([name]) == {name: new_part}
            assert [one.id for one in reader.chain(commit_in(child))] == [commit_in(child), commit]
            assert reader.commits([commit])[commit].commit == new_commit
            assert reader.labelled() == {"x": [commit]}
            assert reader.commits([new_commit.id]) == {}
        self._is_gone(store)
        other = self.store()
        other.write(root)
        before = self._everything(other)
        other.write(Batch(objects={part: new_part}, tombstones={name: stones[name]}))
        assert other.objects([name]) == {name: root.objects[name]}
        assert other.tombstones() == {}
        self._collect(other)
        assert self._everything(other) == before

    def test_a_purge_that_cannot_be_is_refused_whole(self) -> None:
        store, root = self.store(), batch_of("root")
        store.write(root)
        batch = batch_of(f"the key is {_SECRET}", parent=commit_in(root), second=1)
        store.write(batch)
        name, commit = _part_with(batch, _SECRET), commit_in(batch)
        [(ref, entries)] = batch.deltas.items()
        good = _replaced(batch.objects[name])
        lost = [Entry(Hash("f" * 64), entries[0].occurrence)]
        moved = msgspec.structs.replace(batch.commits[0][0], parent=None)
        before = self._everything(store)
        refused: list[tuple[type[Exception], dict[Name, bytes]]] = [
            (ObjectMissing, {"e" * 64: good}),
            (ObjectMissing, {ref: commits.delta_of(lost)[1]}),
            (ObjectDamaged, {ref: b"[ ]"}),
            (ObjectDamaged, {ref: b"no JSON"}),
            (ObjectDamaged, {ref: b'{"type":"text"}'}),
            (ValueError, {commit: commits.commit_bytes(moved)}),
            (ValueError, {ref: commits.delta_of(entries)[1]}),
        ]
        for error, odd in refused:
            _refused(error, store.purge, {name: good, **odd}, _PURGED)
        for reader in self._both(store):
            assert self._everything(reader) == before
            assert reader.tombstones() == {}
        self._is_whole(store)

    def _chain(self, store: Store, length: int, **members: Any) -> list[CommitId]:
        names: list[CommitId] = []
        for at in range(length):
            parent = names[-1] if names else None
            batch = batch_of(f"step {at}", parent=parent, second=at, **members)
            store.write(batch)
            names.append(commit_in(batch))
        return names

    def _both(self, store: Store) -> Sequence[Store]:
        other = self.again(store)
        return [store] if other is None else [store, other]

    def _collect(
        self,
        store: Store,
        roots: Sequence[Name] = (),
        *,
        hours: float = 2,
        grace_s: float = 0,
        dry_run: bool = False,
    ) -> Collected:
        return store.collect(roots, now=_later(hours), grace_s=grace_s, dry_run=dry_run)

    def _things(self, store: Store) -> set[Hash]:
        return {Hash(thing.name) for thing in store.things()}

    def _everything(self, store: Store) -> object:
        names = store.named("", 10_000)
        stored = store.commits(CommitId(name) for name in names)
        things = {thing.name: (thing.kind, thing.body) for thing in store.things()}
        return names, stored, things, store.newest(10_000), store.kept(), store.labelled()

    def _is_whole(self, store: Store) -> None:
        for reader in self._both(store):
            assert fsck(reader) == []
            there: set[Name] = set()
            stones = reader.tombstones()
            for thing in reader.things():
                assert thing.kind is Kind.FILE or thing.name == name_of(thing.kind, thing.body)
                assert all(need in there or need in stones for need in thing.needs)
                there.add(thing.name)

    def _is_gone(self, store: Store, text: str = _SECRET) -> None:
        """Assert that a text is nowhere: in no thing, and in no byte of a file."""
        self._is_whole(store)
        for reader in self._both(store):
            for thing in reader.things():
                assert text.encode() not in thing.body, thing.name
        for path in self.files(store):
            assert text.encode() not in path.read_bytes(), f"{text} is in {path.name}"


def _later(hours: float) -> str:
    """Return a time so many whole hours from the beginning of this one, or after it."""
    now_us = system_clock()
    begun_us = now_us - now_us % _HOUR_US
    return rfc3339(now_us if hours == 0 else begun_us + int((hours + 1) * _HOUR_US))


def _raw(data: bytes) -> ArtifactRef:
    return commits.raw_ref(data)


def _deltas_of(store: Store, names: Iterable[CommitId]) -> list[ArtifactRef]:
    return [one.commit.artifact for one in store.commits(names).values()]


def _part_with(batch: Batch, text: str) -> Hash:
    [name] = (
        name
        for name, body in batch.objects.items()
        if text.encode() in body and codec.digest(DOMAINS[Kind.PART], body).hex() == name
    )
    return name


def _replaced(body: bytes, text: str = _SECRET) -> bytes:
    return body.replace(text.encode(), b"[purged]")


def _refused(error: type[Exception], act: Callable[..., object], *given: object) -> None:
    try:
        found = act(*given)
    except error as refusal:
        if str(refusal).strip():
            return
        raise AssertionError(f"a {error.__name__} that does not say what is wrong") from refusal
    raise AssertionError(f"no {error.__name__}, but {found!r}")
