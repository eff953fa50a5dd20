"""What every store must do, as tests: for Harken's stores and for those of others alike.

Source: docs/formats/store.md; the contract is `harken.store.base.Store`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from harken.core import codec, commits
from harken.core.clock import rfc3339
from harken.core.commits import ArtifactRef, Commit, CommitId, Entry, Hash, Notes
from harken.core.messages import ChatMessage, Message
from harken.errors import ObjectDamaged, ObjectMissing, UnknownName
from harken.store.base import Batch, Store

_2026_US = 1_767_225_600_000_000
_OTHER = "f" * 64
_SURROGATE = "\ud800 alone"


def batch_of(
    *messages: ChatMessage | str,
    parent: CommitId | None = None,
    second: int = 0,
    notes: Notes | None = None,
    **members: Any,
) -> Batch:
    """Return a batch with one commit, `second` seconds after the beginning of 2026.

    A text is a user's message; `members` are the commit's.
    """
    entries: list[Entry] = []
    objects: dict[Hash, bytes] = {}
    for message in messages:
        given = Message("user", message) if isinstance(message, str) else message
        entry, needed = commits.entry_of(given)
        entries.append(entry)
        objects |= needed
    ref, _ = commits.delta_of(entries)
    members.setdefault("created_at", rfc3339(_2026_US + second * 1_000_000))
    members.setdefault("message_count", len(entries))
    commit = Commit(parent=parent, artifact=ref, **members)
    return Batch(objects=objects, deltas={ref: entries}, commits=[(commit, notes or Notes())])


def commit_in(batch: Batch) -> CommitId:
    """Return the name of a batch's last commit."""
    return batch.commits[-1][0].id


class StoreSuite:
    """The tests. Inherit them in a class `Test...`, and say how a store is made."""

    many = 10_000
    """How many messages the largest batch has."""
    large_bytes = 10_000_000
    """How long the longest part is."""

    def store(self) -> Store:
        """Return a new, empty store."""
        raise NotImplementedError(f"{type(self).__name__} must say how its store is made")

    def again(self, store: Store) -> Store | None:
        """Return another store over the same data, as another process has it; None: there is none.

        It must not know what the first one has in memory.
        """
        return None

    def test_what_is_written_is_read(self) -> None:
        store, batch = self.store(), batch_of("Hi", Message("assistant", "Ho"), principal="iree")
        store.write(batch)
        for reader in self._both(store):
            assert reader.objects(batch.objects) == batch.objects
            assert reader.deltas(batch.deltas) == {k: [*v] for k, v in batch.deltas.items()}
            [stored] = reader.commits([commit_in(batch)]).values()
            assert (stored.id, stored.commit) == (commit_in(batch), batch.commits[0][0])

    def test_what_is_not_there_is_left_out(self) -> None:
        store = self.store()
        odd = ["", "ctx-", "art-12", "../x", "\0", "\ud800", "ctx-" + "F" * 64, "art-" + _OTHER]
        assert store.objects([Hash(name) for name in [*odd, _OTHER]]) == {}
        assert store.deltas([ArtifactRef(name) for name in odd]) == {}
        assert store.sequences([ArtifactRef(name) for name in odd]) == {}
        assert store.commits([CommitId(name) for name in odd]) == {}
        assert store.children(CommitId("ctx-" + _OTHER)) == []
        for name in odd:
            _refused(ObjectMissing, store.raw, ArtifactRef(name))
            _refused(UnknownName, store.chain, CommitId(name))
            _refused(UnknownName, store.annotate, CommitId(name), Notes())

    def test_a_name_of_one_kind_is_no_name_of_another(self) -> None:
        store, batch = self.store(), batch_of("Hi")
        store.write(batch)
        [delta], commit = batch.deltas, commit_in(batch)
        assert store.sequences([delta]) == {}
        assert store.deltas([ArtifactRef(commit)]) == {}
        assert store.objects([Hash(delta), Hash(commit), Hash(delta[4:])]) == {}
        assert store.commits([CommitId(delta)]) == {}
        _refused(ObjectMissing, store.raw, delta)

    def test_every_member_of_a_commit_survives(self) -> None:
        store = self.store()
        root = batch_of("before")
        store.write(root)
        text = {name: f"{name} é{_SURROGATE}" for name in Commit.__struct_fields__[3:8]}
        members = text | {"ticket_id": "tkt-1", "thread_id": "$t", "token_count": 2**40}
        members |= {"type": "compaction", "checkpoint": "tool_call"}
        notes = Notes(summary=_SURROGATE, derived=True, labels=("b", "a", _SURROGATE))
        batch = batch_of("Hi", parent=commit_in(root), notes=notes, second=1, **_known(members))
        store.write(batch)
        for reader in self._both(store):
            stored = reader.commits([commit_in(batch)])[commit_in(batch)]
            assert (stored.commit, stored.notes) == batch.commits[0]
            assert stored.commit.id == stored.id
            assert set(reader.labelled()) == {"a", "b", _SURROGATE}

    def test_writing_again_changes_nothing(self) -> None:
        store, batch = self.store(), batch_of("Hi", notes=Notes(summary="first"))
        store.write(batch)
        store.annotate(commit_in(batch), Notes(summary="second"))
        store.write(batch)
        assert [s.notes.summary for s in store.chain(commit_in(batch))] == ["second"]
        assert len(store.named("")) == 2

    def test_a_batch_that_names_what_is_missing_leaves_nothing(self) -> None:
        whole = batch_of("Hi", "Ho")
        [(ref, entries)] = whole.deltas.items()
        commit = whole.commits[0][0]
        part, message = list(whole.objects)[:2]
        sequence, _ = commits.sequence_of([ref, ArtifactRef("art-" + _OTHER)])
        lost = Commit(parent=CommitId("ctx-" + _OTHER), artifact=ref, created_at=commit.created_at)
        others = {name: body for name, body in whole.objects.items() if name != message}
        partless = {name: body for name, body in whole.objects.items() if name != part}
        for batch in (
            Batch(objects=others, deltas={ref: entries}),
            Batch(objects=partless),
            Batch(objects=whole.objects, commits=whole.commits),
            Batch(
                objects=whole.objects,
                deltas=whole.deltas,
                sequences={sequence: [ref, ArtifactRef("art-" + _OTHER)]},
            ),
            Batch(
                objects=whole.objects,
                deltas=whole.deltas,
                commits=[*whole.commits, (lost, Notes(labels=("x",)))],
            ),
        ):
            store = self.store()
            _refused(ObjectMissing, store.write, batch)
            self._is_empty(store, whole)

    def test_a_parent_stands_before_its_children(self) -> None:
        store, root = self.store(), batch_of("a")
        child = batch_of("b", parent=commit_in(root))
        objects, deltas = {**root.objects, **child.objects}, {**root.deltas, **child.deltas}
        wrong = Batch(objects=objects, deltas=deltas, commits=[*child.commits, *root.commits])
        _refused(ObjectMissing, store.write, wrong)
        right = Batch(objects=objects, deltas=deltas, commits=[*root.commits, *child.commits])
        store.write(right)
        assert [s.id for s in store.chain(commit_in(child))] == [commit_in(child), commit_in(root)]

    def test_a_wrong_name_is_refused(self) -> None:
        whole = batch_of("Hi")
        [(ref, entries)] = whole.deltas.items()
        other = ArtifactRef("art-" + _OTHER)
        for batch in (
            Batch(objects={**whole.objects, Hash(_OTHER): b'{"text":"Hi","type":"text"}'}),
            Batch(objects=whole.objects, deltas={other: entries}),
            Batch(objects=whole.objects, deltas=whole.deltas, sequences={other: [ref]}),
            Batch(objects=whole.objects, raw={other: b"x"}),
        ):
            store = self.store()
            _refused(ObjectDamaged, store.write, batch)
            self._is_empty(store, whole)

    def test_a_commit_with_an_odd_member_is_refused(self) -> None:
        for odd in (
            {"type": "merge"},
            {"checkpoint": "midnight"},
            {"message_count": 1.0},
            {"message_count": True},
            {"principal": None},
            {"created_at": "2026-01-01"},
            {"created_at": "2026-01-01T00:00:00Z"},
            {"created_at": "2026-01-01T00:00:00.000000+00:00"},
        ):
            store, batch = self.store(), batch_of("Hi", **odd)
            _refused(ValueError, store.write, batch)
            self._is_empty(store, batch)

    def test_types_are_told_apart(self) -> None:
        """`0`, `0.0`, `false` and their texts are five things."""
        store = self.store()
        values: list[Any] = [0, 0.0, False, None, "0", "", [], {}]
        written: dict[ArtifactRef, list[Entry]] = {}
        entry, objects = commits.entry_of(Message("user", "Hi"))
        for value in values:
            entries = [Entry(entry.message, entry.occurrence, source={"value": value})]
            ref, _ = commits.delta_of(entries)
            written[ref] = entries
        assert len(written) == len(values)
        store.write(Batch(objects=objects, deltas=written))
        for reader in self._both(store):
            read = reader.deltas(written)
            found = [repr((entry.source or {})["value"]) for [entry] in read.values()]
            assert sorted(found) == sorted(map(repr, values))

    def test_odd_text_comes_back_as_it_was(self) -> None:
        texts = [
            "",
            "\0",
            _SURROGATE,
            "😀",
            "e\u0301",
            "é",
            _OTHER,
            f"art-{_OTHER}",
        ]
        store, batch = self.store(), batch_of(*texts)
        store.write(batch)
        for reader in self._both(store):
            [entries] = reader.deltas(batch.deltas).values()
            objects = reader.objects(batch.objects)
            assert [commits.message_of(entry, objects).content for entry in entries] == texts

    def test_large_and_many(self) -> None:
        store = self.store()
        large = batch_of("x" * self.large_bytes, _OTHER * 10_000)
        many = batch_of(*(f"message {n}" for n in range(self.many)))
        both = Batch(
            objects={**large.objects, **many.objects},
            deltas={**large.deltas, **many.deltas},
            commits=[*large.commits, *many.commits],
        )
        store.write(both)
        for reader in self._both(store):
            assert reader.objects(both.objects) == both.objects
            assert reader.deltas(many.deltas) == {k: [*v] for k, v in many.deltas.items()}

    def test_raw_bytes_come_back(self) -> None:
        store = self.store()
        raw = {commits.raw_ref(data): data for data in (b"", b"\0\xff", bytes(range(256)) * 5000)}
        store.write(Batch(raw=raw))
        for reader in self._both(store):
            assert {name: reader.raw(name) for name in raw} == raw

    def test_files_come_back_joined_and_in_pieces(self) -> None:
        store, pieces = self.store(), [b"one ", b"two ", b"one ", b"\xff"]
        named = {commits.raw_ref(piece): piece for piece in pieces}
        file = commits.raw_ref(b"".join(pieces))
        store.write(Batch(raw=named, files={file: [commits.raw_ref(piece) for piece in pieces]}))
        for reader in self._both(store):
            assert reader.raw(file) == b"".join(pieces)
            assert [*reader.pieces(file)] == pieces
            assert [*reader.pieces(commits.raw_ref(b"one "))] == [b"one "]
            assert set(reader.named("art-")) == {file, *named}

    def test_a_file_that_is_something_else_is_refused(self) -> None:
        pieces = {commits.raw_ref(data): data for data in (b"a", b"b")}
        [a, b] = pieces
        whole, other = commits.raw_ref(b"ab"), ArtifactRef("art-" + _OTHER)
        wrong: list[tuple[type[Exception], Batch]] = [
            (ObjectDamaged, Batch(raw=pieces, files={whole: [b, a]})),
            (ObjectDamaged, Batch(raw=pieces, files={other: [a, b]})),
            (ObjectMissing, Batch(raw=pieces, files={whole: [a, other]})),
            (ObjectMissing, Batch(files={whole: [a, b]})),
        ]
        for error, batch in wrong:
            store = self.store()
            _refused(error, store.write, batch)
            self._is_empty(store, Batch())

    def test_what_is_derived_is_found_by_its_key(self) -> None:
        store, batch = self.store(), batch_of("Hi")
        [ref] = batch.deltas
        _refused(ObjectMissing, store.write, Batch(derived={"k": ref}))
        store.write(batch)
        sequence, _ = commits.sequence_of([ref])
        store.write(Batch(sequences={sequence: [ref]}, derived={"k": sequence, _SURROGATE: ref}))
        for reader in self._both(store):
            assert reader.derived(["k", "no", _SURROGATE]) == {"k": sequence, _SURROGATE: ref}
        store.write(Batch(derived={"k": ref}))
        for reader in self._both(store):
            assert reader.derived(["k"]) == {"k": ref}

    def test_what_is_needed_must_be_of_the_right_kind(self) -> None:
        """A delta of parts, or a commit of a commit, could never be read."""
        whole = batch_of("Hi")
        [(ref, [entry])] = whole.deltas.items()
        part, message = list(whole.objects)
        commit, at = commit_in(whole), whole.commits[0][0].created_at
        of_part = [Entry(part, entry.occurrence)]
        nested = codec.canonical({"parts": [message], "role": "user"})
        wrong = [
            Batch(deltas={commits.delta_of(of_part)[0]: of_part}),
            Batch(objects={Hash(codec.digest(codec.MESSAGE, nested).hex()): nested}),
            Batch(sequences={commits.sequence_of([_art(commit)])[0]: [_art(commit)]}),
            *(
                Batch(commits=[(Commit(created_at=at, **members), Notes())])
                for members in (
                    {"artifact": _art(commit)},
                    {"artifact": _art(part)},
                    {"artifact": ref, "parent": _art(ref)},
                    {"artifact": ref, "parent": _art(message)},
                )
            ),
        ]
        store = self.store()
        store.write(whole)
        for batch in wrong:
            together = Batch(
                objects={**whole.objects, **batch.objects},
                deltas={**whole.deltas, **batch.deltas},
                sequences=batch.sequences,
                commits=[*whole.commits, *batch.commits],
            )
            for odd in (batch, together):
                _refused(ObjectMissing, store.write, odd)
        for reader in self._both(store):
            assert reader.named("", 10) == sorted([commit, ref])
            assert reader.newest() == [commit]

    def test_names_that_begin_alike_are_told_apart(self) -> None:
        """Found by search: the names of each pair have the same first 6 bytes."""
        root = batch_of("r")
        [ref] = root.deltas
        for tickets in (("17018330", "07960609"), ("23216528", "11607909")):
            store = self.store()
            store.write(Batch(objects=root.objects, deltas=root.deltas))
            at = rfc3339(_2026_US)
            made = [Commit(artifact=ref, created_at=at, ticket_id=ticket) for ticket in tickets]
            assert made[0].id[:16] == made[1].id[:16]
            for one in made:
                store.write(Batch(commits=[(one, Notes(summary=one.ticket_id))]))
            for reader in self._both(store):
                found = reader.commits([one.id for one in made])
                assert [found[one.id].notes.summary for one in made] == [*tickets]
                assert reader.named(made[0].id[:16]) == sorted(one.id for one in made)
                assert reader.named(made[0].id) == [made[0].id]

    def test_batches_that_name_each_other_may_be_deep(self) -> None:
        store, batch = self.store(), batch_of("Hi")
        last, sequences = next(iter(batch.deltas)), dict[ArtifactRef, list[ArtifactRef]]()
        for _ in range(3000):
            ref, _ = commits.sequence_of([last])
            sequences[ref], last = [last], ref
        backwards = dict(reversed(sequences.items()))
        store.write(Batch(objects=batch.objects, deltas=batch.deltas, sequences=backwards))
        assert store.sequences([last]) == {last: sequences[last]}

    def test_any_limit_is_a_limit(self) -> None:
        store = self.store()
        names = self._chain(store, 3)
        for reader in self._both(store):
            for many in (3, 2**70):
                assert reader.newest(many) == names[::-1]
                assert len(reader.chain(names[-1], many)) == 3
                assert len(reader.named("ctx-", many)) == 3
            for none in (0, -1, -(2**70)):
                assert reader.newest(none) == reader.named("", none) == []

    def test_what_is_no_number_is_refused(self) -> None:
        entry, objects = commits.entry_of(Message("user", "Hi"))
        for odd in (float("nan"), float("inf")):
            entries = [Entry(entry.message, entry.occurrence, source={"x": odd})]
            batch = Batch(objects=objects, deltas={commits.delta_of(entries)[0]: entries})
            _refused(ObjectDamaged, self.store().write, batch)

    def test_an_object_that_is_no_json_is_refused(self) -> None:
        for body in (b"[" * 100_000, b"x", b"", b'{"b":1,"a":2}', b'{"text": "Hi","type":"text"}'):
            name = Hash(codec.digest(codec.PART, body).hex())
            _refused(ObjectDamaged, self.store().write, Batch(objects={name: body}))

    def test_everything_is_yielded_after_what_it_needs(self) -> None:
        store = self.store()
        names = self._chain(store, 3)
        seen: set[str] = set()
        for thing in store.things():
            assert seen.issuperset(thing.needs)
            seen.add(thing.name)
        assert seen >= {*names, *store.named("art-")}
        counted = store.stats()
        assert counted.things["commit"] == counted.things["message"] == 3
        assert counted.raw_bytes == sum(len(thing.body) for thing in store.things())
        assert counted.logical_bytes >= counted.raw_bytes

    def test_sequences_come_back_in_order(self) -> None:
        store, one, two = self.store(), batch_of("a"), batch_of("b")
        store.write(one)
        store.write(two)
        parts = [*two.deltas, *one.deltas, *two.deltas]
        ref, _ = commits.sequence_of(parts)
        store.write(Batch(sequences={ref: parts}))
        for reader in self._both(store):
            assert reader.sequences([ref]) == {ref: parts}

    def test_a_chain_is_walked_from_its_end(self) -> None:
        store = self.store()
        names = self._chain(store, 5)
        for reader in self._both(store):
            assert [s.id for s in reader.chain(names[-1])] == names[::-1]
            assert [s.id for s in reader.chain(names[3], 2)] == [names[3], names[2]]
            assert reader.chain(names[3], 0) == []

    def test_branches_are_children_oldest_first(self) -> None:
        store = self.store()
        [root] = self._chain(store, 1)
        late = batch_of("late", parent=root, second=9)
        early = batch_of("early", parent=root, second=3)
        for batch in (late, early):
            store.write(batch)
        for reader in self._both(store):
            assert reader.children(root) == [commit_in(early), commit_in(late)]
            assert [s.id for s in reader.chain(commit_in(early))] == [commit_in(early), root]

    def test_the_latest_is_at_or_before_a_time(self) -> None:
        store = self.store()
        names = self._chain(store, 3, principal="a")
        self._chain(store, 2, principal="b\ud800")
        last = batch_of("same time", parent=names[-1], second=2, principal="a")
        store.write(last)
        for reader in self._both(store):
            assert reader.latest("a", rfc3339(_2026_US)) == names[0]
            assert reader.latest("a", "2026-01-01T01:00:01.999999+01:00") == names[1]
            assert reader.latest("a", "2027-01-01T00:00:00Z") == commit_in(last)
            assert reader.latest("a", "2025-12-31T23:59:59.999999Z") is None
            assert reader.latest("nobody", "2027-01-01T00:00:00Z") is None
            assert reader.latest("b\ud800", "2027-01-01T00:00:00Z") is not None
            _refused(ValueError, reader.latest, "a", "yesterday")
            everything = reader.newest(1000)
            assert everything[0] == commit_in(last)
            assert reader.newest(1) == everything[:1]
            assert {*names} <= {*everything}

    def test_names_are_found_by_their_beginnings(self) -> None:
        store = self.store()
        batches = [batch_of(f"message {n}") for n in range(40)]
        for batch in batches:
            store.write(batch)
        names = sorted([commit_in(b) for b in batches] + [ref for b in batches for ref in b.deltas])
        for reader in self._both(store):
            assert reader.named("", 100) == names
            for beginning in ("ctx-", "art-", "c", names[3], names[3][:16], names[50][:9], "ctx-0"):
                expected = [name for name in names if name.startswith(beginning)]
                assert reader.named(beginning, 100) == expected
                assert reader.named(beginning, 2) == expected[:2]
            for odd in ("x", "ctx-g", "CTX-", "ctx-%", "art-\ud800", names[3] + "0", "\0"):
                assert reader.named(odd) == []

    def test_annotating_changes_notes_and_nothing_else(self) -> None:
        store = self.store()
        names = self._chain(store, 3)
        before = store.chain(names[-1])
        store.annotate(names[1], Notes(summary="what it knew", labels=("x", "y")))
        store.annotate(names[2], Notes(labels=("x",)))
        store.annotate(names[2], Notes(labels=("x", "z")))
        for reader in self._both(store):
            after = reader.chain(names[-1])
            assert [(s.id, s.commit) for s in after] == [(s.id, s.commit) for s in before]
            assert [s.notes.summary for s in after] == ["", "what it knew", ""]
            assert reader.labelled() == {"x": names[1:], "y": [names[1]], "z": [names[2]]}
            assert reader.labelled("x") == {"x": names[1:]}
            assert reader.labelled("nothing") == {}
        odd: Any = Notes(summary=b"x")  # type: ignore[arg-type]
        _refused(ValueError, store.annotate, names[0], odd)

    def test_writers_at_once_all_succeed(self) -> None:
        store = self.store()
        [root] = self._chain(store, 1)
        stores = [store, *self._both(store)[1:]]
        failed: list[Exception] = []

        def write(number: int) -> None:
            try:
                for at in range(10):
                    batch = batch_of(f"{number} {at}", "the same for all", parent=root)
                    stores[number % len(stores)].write(batch)
                    assert stores[(number + 1) % len(stores)].objects(batch.objects)
            except Exception as error:  # noqa: BLE001 - raised below, in the thread of the test
                failed.append(error)

        threads = [threading.Thread(target=write, args=[number]) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed, failed
        for reader in self._both(store):
            assert len(reader.children(root)) == 40

    def test_closing_twice_does_no_harm(self) -> None:
        store = self.store()
        store.close()
        store.close()

    def _both(self, store: Store) -> Sequence[Store]:
        other = self.again(store)
        return [store] if other is None else [store, other]

    def _chain(self, store: Store, length: int, **members: Any) -> list[CommitId]:
        names: list[CommitId] = []
        for at in range(length):
            parent = names[-1] if names else None
            batch = batch_of(f"step {at}", parent=parent, second=at, **members)
            store.write(batch)
            names.append(commit_in(batch))
        return names

    def _is_empty(self, store: Store, batch: Batch) -> None:
        for reader in self._both(store):
            assert reader.objects(batch.objects) == {}, "objects of a refused batch are there"
            assert reader.named("") == [], "names of a refused batch are there"
            assert reader.labelled() == {}, "labels of a refused batch are there"


def _known(members: dict[str, Any]) -> dict[str, Any]:
    return {name: members[name] for name in members if name in Commit.__struct_fields__}


def _art(name: str) -> Any:
    """Return a name as one of an artifact, whatever it is."""
    return name


def _refused(error: type[Exception], act: Callable[..., object], *given: object) -> None:
    try:
        found = act(*given)
    except error as refusal:
        if str(refusal).strip():
            return
        raise AssertionError(f"a {error.__name__} that does not say what is wrong") from refusal
    raise AssertionError(f"no {error.__name__}, but {found!r}")
