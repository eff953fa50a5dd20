"""Conformance tests of stores for refused writes; the base of `harken.testing.store.StoreSuite`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harken.core import canonical, commits
from harken.core.commits import ArtifactRef, Commit, CommitId, CommitNotes, DeltaEntry, Hash
from harken.core.messages import Message
from harken.errors import ObjectCorrupted, ObjectNotFound
from harken.store.base import Store, WriteBatch
from harken.testing.store_kit import OTHER, batch_of, commit_in, refused


class RefusalSuite:
    """The tests of refused writes."""

    def store(self) -> Store:
        """Return a new, empty store."""
        raise NotImplementedError(f"{type(self).__name__} must say how its store is made")

    def reopen_store(self, store: Store) -> Store | None:
        """Return a second store over the same data, as in another process, or None if impossible.

        It must not share memory with the first one.
        """
        return None

    def test_a_batch_that_names_what_is_missing_leaves_nothing(self) -> None:
        complete = batch_of("Hi", "Ho")
        [(ref, entries)] = complete.deltas.items()
        commit = complete.commits[0][0]
        part, message = list(complete.objects)[:2]
        sequence, _ = commits.encode_sequence([ref, ArtifactRef("art-" + OTHER)])
        orphan = Commit(parent=CommitId("ctx-" + OTHER), artifact=ref, created_at=commit.created_at)
        others = {name: body for name, body in complete.objects.items() if name != message}
        partless = {name: body for name, body in complete.objects.items() if name != part}
        for batch in (
            WriteBatch(objects=others, deltas={ref: entries}),
            WriteBatch(objects=partless),
            WriteBatch(objects=complete.objects, commits=complete.commits),
            WriteBatch(
                objects=complete.objects,
                deltas=complete.deltas,
                sequences={sequence: [ref, ArtifactRef("art-" + OTHER)]},
            ),
            WriteBatch(
                objects=complete.objects,
                deltas=complete.deltas,
                commits=[*complete.commits, (orphan, CommitNotes(labels=("x",)))],
            ),
        ):
            store = self.store()
            refused(ObjectNotFound, store.write, batch)
            self._is_empty(store, complete)

    def test_a_parent_stands_before_its_children(self) -> None:
        store, root = self.store(), batch_of("a")
        child = batch_of("b", parent=commit_in(root))
        objects, deltas = {**root.objects, **child.objects}, {**root.deltas, **child.deltas}
        reversed_batch = WriteBatch(
            objects=objects, deltas=deltas, commits=[*child.commits, *root.commits]
        )
        refused(ObjectNotFound, store.write, reversed_batch)
        right = WriteBatch(objects=objects, deltas=deltas, commits=[*root.commits, *child.commits])
        store.write(right)
        assert [s.id for s in store.chain(commit_in(child))] == [commit_in(child), commit_in(root)]

    def test_a_wrong_name_is_refused(self) -> None:
        valid = batch_of("Hi")
        [(ref, entries)] = valid.deltas.items()
        other_ref = ArtifactRef("art-" + OTHER)
        for batch in (
            WriteBatch(objects={**valid.objects, Hash(OTHER): b'{"text":"Hi","type":"text"}'}),
            WriteBatch(objects=valid.objects, deltas={other_ref: entries}),
            WriteBatch(objects=valid.objects, deltas=valid.deltas, sequences={other_ref: [ref]}),
            WriteBatch(objects=valid.objects, raw={other_ref: b"x"}),
        ):
            store = self.store()
            refused(ObjectCorrupted, store.write, batch)
            self._is_empty(store, valid)

    def test_a_commit_with_an_odd_member_is_refused(self) -> None:
        for member in (
            {"type": "merge"},
            {"checkpoint": "midnight"},
            {"message_count": 1.0},
            {"message_count": True},
            {"principal": None},
            {"created_at": "2026-01-01"},
            {"created_at": "2026-01-01T00:00:00Z"},
            {"created_at": "2026-01-01T00:00:00.000000+00:00"},
        ):
            store, batch = self.store(), batch_of("Hi", **member)
            refused(ValueError, store.write, batch)
            self._is_empty(store, batch)

    def test_a_file_that_is_something_else_is_refused(self) -> None:
        pieces = {commits.hash_raw(data): data for data in (b"a", b"b")}
        [a, b] = pieces
        file_ref, other_ref = commits.hash_raw(b"ab"), ArtifactRef("art-" + OTHER)
        invalid: list[tuple[type[Exception], WriteBatch]] = [
            (ObjectCorrupted, WriteBatch(raw=pieces, files={file_ref: [b, a]})),
            (ObjectCorrupted, WriteBatch(raw=pieces, files={other_ref: [a, b]})),
            (ObjectNotFound, WriteBatch(raw=pieces, files={file_ref: [a, other_ref]})),
            (ObjectNotFound, WriteBatch(files={file_ref: [a, b]})),
        ]
        for error, batch in invalid:
            store = self.store()
            refused(error, store.write, batch)
            self._is_empty(store, WriteBatch())

    def test_a_file_that_grew_into_something_else_is_refused(self) -> None:
        texts = [b"a", b"b", b"c", b"d"]
        refs = [commits.hash_raw(text) for text in texts]
        store = self.store()
        raw = dict(zip(refs, texts, strict=True))
        store.write(WriteBatch(raw=raw, files={commits.hash_raw(b"abc"): refs[:3]}))
        other = commits.hash_raw(b"other")
        invalid: list[tuple[type[Exception], ArtifactRef, list[ArtifactRef]]] = [
            (ObjectCorrupted, other, refs),
            (ObjectCorrupted, commits.hash_raw(b"abcd"), [*refs[:2], refs[3]]),
            (ObjectCorrupted, commits.hash_raw(b"abcd"), [refs[1], refs[0], *refs[2:]]),
            (ObjectNotFound, commits.hash_raw(b"abcother"), [*refs[:3], other]),
        ]
        for error, name, pieces in invalid:
            refused(error, store.write, WriteBatch(files={name: pieces}))
            refused(ObjectNotFound, store.raw, name)
        store.write(WriteBatch(files={commits.hash_raw(b"abcd"): refs}))
        assert store.raw(commits.hash_raw(b"abcd")) == b"abcd"

    def test_what_is_needed_must_be_of_the_right_kind(self) -> None:
        """A delta of parts, or a commit of a commit, would be unreadable."""
        valid = batch_of("Hi")
        [(ref, [entry])] = valid.deltas.items()
        part, message = list(valid.objects)
        commit, created_at = commit_in(valid), valid.commits[0][0].created_at
        of_part = [DeltaEntry(part, entry.occurrence)]
        nested = canonical.to_canonical_bytes({"parts": [message], "role": "user"})
        invalid = [
            WriteBatch(deltas={commits.encode_delta(of_part)[0]: of_part}),
            WriteBatch(
                objects={Hash(canonical.hash_bytes(canonical.MESSAGE_DOMAIN, nested).hex()): nested}
            ),
            WriteBatch(sequences={commits.encode_sequence([_art(commit)])[0]: [_art(commit)]}),
            *(
                WriteBatch(commits=[(Commit(created_at=created_at, **members), CommitNotes())])
                for members in (
                    {"artifact": _art(commit)},
                    {"artifact": _art(part)},
                    {"artifact": ref, "parent": _art(ref)},
                    {"artifact": ref, "parent": _art(message)},
                )
            ),
        ]
        store = self.store()
        store.write(valid)
        for batch in invalid:
            together = WriteBatch(
                objects={**valid.objects, **batch.objects},
                deltas={**valid.deltas, **batch.deltas},
                sequences=batch.sequences,
                commits=[*valid.commits, *batch.commits],
            )
            for refused_batch in (batch, together):
                refused(ObjectNotFound, store.write, refused_batch)
        for reader in self._both(store):
            assert reader.names_with_prefix("", 10) == sorted([commit, ref])
            assert reader.newest_commits() == [commit]

    def test_batches_that_name_each_other_may_be_deep(self) -> None:
        store, batch = self.store(), batch_of("Hi")
        last, sequences = next(iter(batch.deltas)), dict[ArtifactRef, list[ArtifactRef]]()
        for _ in range(3000):
            ref, _ = commits.encode_sequence([last])
            sequences[ref], last = [last], ref
        backwards = dict(reversed(sequences.items()))
        store.write(WriteBatch(objects=batch.objects, deltas=batch.deltas, sequences=backwards))
        assert store.sequences([last]) == {last: sequences[last]}

    def test_what_is_no_number_is_refused(self) -> None:
        entry, objects = commits.encode_entry(Message("user", "Hi"))
        for number in (float("nan"), float("inf")):
            entries = [DeltaEntry(entry.message, entry.occurrence, source={"x": number})]
            batch = WriteBatch(objects=objects, deltas={commits.encode_delta(entries)[0]: entries})
            refused(ObjectCorrupted, self.store().write, batch)

    def test_an_object_that_is_no_json_is_refused(self) -> None:
        for body in (b"[" * 100_000, b"x", b"", b'{"b":1,"a":2}', b'{"text": "Hi","type":"text"}'):
            name = Hash(canonical.hash_bytes(canonical.PART_DOMAIN, body).hex())
            refused(ObjectCorrupted, self.store().write, WriteBatch(objects={name: body}))

    def _both(self, store: Store) -> Sequence[Store]:
        second_store = self.reopen_store(store)
        return [store] if second_store is None else [store, second_store]

    def _is_empty(self, store: Store, batch: WriteBatch) -> None:
        for reader in self._both(store):
            assert reader.objects(batch.objects) == {}, "objects of a refused batch are there"
            assert reader.names_with_prefix("") == [], "names of a refused batch are there"
            assert reader.commits_by_label() == {}, "labels of a refused batch are there"


def _art(name: str) -> Any:
    """Return a name as an artifact name, without a check of its kind."""
    return name
