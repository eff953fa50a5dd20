"""Conformance tests of stores, for Harken's stores and for third-party ones.

Source: docs/formats/store.md; the contract is `harken.store.base.Store`.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

from harken.core import commits
from harken.core.clock import format_rfc3339
from harken.core.commits import ArtifactRef, Commit, CommitId, CommitNotes, DeltaEntry, Hash
from harken.core.messages import Message
from harken.errors import NameNotFound, ObjectNotFound
from harken.store.base import WriteBatch
from harken.testing.store_kit import (
    BEGINNING_US,
    OTHER,
    SURROGATE,
    batch_of,
    chain_in,
    commit_in,
    refused,
)
from harken.testing.store_tickets import TicketHeadSuite

__all__ = ["StoreSuite", "batch_of", "commit_in"]


class StoreSuite(TicketHeadSuite):
    """The tests of a store. Inherit from it in a class `Test...`, and override `store`."""

    many = 10_000
    """The number of messages in the largest batch."""
    large_bytes = 10_000_000
    """The size of the largest part."""

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
        names = ["", "ctx-", "art-12", "../x", "\0", "\ud800", "ctx-" + "F" * 64, "art-" + OTHER]
        assert store.objects([Hash(name) for name in [*names, OTHER]]) == {}
        assert store.deltas([ArtifactRef(name) for name in names]) == {}
        assert store.sequences([ArtifactRef(name) for name in names]) == {}
        assert store.commits([CommitId(name) for name in names]) == {}
        assert store.children(CommitId("ctx-" + OTHER)) == []
        for name in names:
            refused(ObjectNotFound, store.raw, ArtifactRef(name))
            refused(NameNotFound, store.chain, CommitId(name))
            refused(NameNotFound, store.update_notes, CommitId(name), CommitNotes())

    def test_a_name_of_one_kind_is_no_name_of_another(self) -> None:
        store, batch = self.store(), batch_of("Hi")
        store.write(batch)
        [delta], commit = batch.deltas, commit_in(batch)
        assert store.sequences([delta]) == {}
        assert store.deltas([ArtifactRef(commit)]) == {}
        assert store.objects([Hash(delta), Hash(commit), Hash(delta[4:])]) == {}
        assert store.commits([CommitId(delta)]) == {}
        refused(ObjectNotFound, store.raw, delta)

    def test_every_member_of_a_commit_survives(self) -> None:
        store = self.store()
        root = batch_of("before")
        store.write(root)
        text = {name: f"{name} é{SURROGATE}" for name in Commit.__struct_fields__[3:8]}
        members = text | {"ticket_id": "tkt-1", "thread_id": "$t", "token_count": 2**40}
        members |= {"type": "compaction", "checkpoint": "tool_call"}
        notes = CommitNotes(summary=SURROGATE, derived=True, labels=("b", "a", SURROGATE))
        batch = batch_of(
            "Hi", parent=commit_in(root), notes=notes, second=1, **_commit_members(members)
        )
        store.write(batch)
        for reader in self._both(store):
            stored = reader.commits([commit_in(batch)])[commit_in(batch)]
            assert (stored.commit, stored.notes) == batch.commits[0]
            assert stored.commit.id == stored.id
            assert set(reader.commits_by_label()) == {"a", "b", SURROGATE}

    def test_writing_again_changes_nothing(self) -> None:
        store, batch = self.store(), batch_of("Hi", notes=CommitNotes(summary="first"))
        store.write(batch)
        store.update_notes(commit_in(batch), CommitNotes(summary="second"))
        store.write(batch)
        assert [s.notes.summary for s in store.chain(commit_in(batch))] == ["second"]
        assert len(store.names_with_prefix("")) == 2

    def test_types_are_told_apart(self) -> None:
        """`0`, `0.0`, `false` and their texts are distinct values."""
        store = self.store()
        values: list[Any] = [0, 0.0, False, None, "0", "", [], {}]
        deltas: dict[ArtifactRef, list[DeltaEntry]] = {}
        entry, objects = commits.encode_entry(Message("user", "Hi"))
        for value in values:
            entries = [DeltaEntry(entry.message, entry.occurrence, source={"value": value})]
            ref, _ = commits.encode_delta(entries)
            deltas[ref] = entries
        assert len(deltas) == len(values)
        store.write(WriteBatch(objects=objects, deltas=deltas))
        for reader in self._both(store):
            stored_deltas = reader.deltas(deltas)
            stored_values = [
                repr((entry.source or {})["value"]) for [entry] in stored_deltas.values()
            ]
            assert sorted(stored_values) == sorted(map(repr, values))

    def test_odd_text_comes_back_as_it_was(self) -> None:
        texts = [
            "",
            "\0",
            SURROGATE,
            "😀",
            "e\u0301",
            "é",
            OTHER,
            f"art-{OTHER}",
        ]
        store, batch = self.store(), batch_of(*texts)
        store.write(batch)
        for reader in self._both(store):
            [entries] = reader.deltas(batch.deltas).values()
            objects = reader.objects(batch.objects)
            assert [commits.decode_entry(entry, objects).content for entry in entries] == texts

    def test_large_and_many(self) -> None:
        store = self.store()
        large = batch_of("x" * self.large_bytes, OTHER * 10_000)
        many = batch_of(*(f"message {n}" for n in range(self.many)))
        both = WriteBatch(
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
        raw = {commits.hash_raw(data): data for data in (b"", b"\0\xff", bytes(range(256)) * 5000)}
        store.write(WriteBatch(raw=raw))
        for reader in self._both(store):
            assert {name: reader.raw(name) for name in raw} == raw

    def test_files_come_back_joined_and_in_pieces(self) -> None:
        store, pieces = self.store(), [b"one ", b"two ", b"one ", b"\xff"]
        raw = {commits.hash_raw(piece): piece for piece in pieces}
        file = commits.hash_raw(b"".join(pieces))
        store.write(
            WriteBatch(raw=raw, files={file: [commits.hash_raw(piece) for piece in pieces]})
        )
        for reader in self._both(store):
            assert reader.raw(file) == b"".join(pieces)
            assert [*reader.read_chunks(file)] == pieces
            assert [*reader.read_chunks(commits.hash_raw(b"one "))] == [b"one "]
            assert set(reader.names_with_prefix("art-")) == {file, *raw}

    def test_the_chunks_of_a_file_are_named(self) -> None:
        store, pieces = self.store(), [b"one ", b"two ", b"one "]
        refs = [commits.hash_raw(piece) for piece in pieces]
        file = commits.hash_raw(b"".join(pieces))
        store.write(WriteBatch(raw=dict(zip(refs, pieces, strict=True)), files={file: refs}))
        batch = batch_of("Hi")
        store.write(batch)
        for reader in self._both(store):
            assert reader.chunk_names(file) == refs
            assert reader.chunk_names(refs[0]) == [refs[0]]
            for name in ("art-" + OTHER, "art-12", "", *batch.deltas):
                refused(ObjectNotFound, reader.chunk_names, ArtifactRef(name))

    def test_a_file_that_grew_is_written_with_its_new_chunks(self) -> None:
        store, texts = self.store(), [b"one ", b"two ", b"three ", b"four ", b"last"]
        refs = [commits.hash_raw(text) for text in texts]
        for count in range(1, len(texts) + 1):
            name = commits.hash_raw(b"".join(texts[:count]))
            new = {refs[count - 1]: texts[count - 1]}
            files = {name: refs[:count]} if count > 1 else {}
            store.write(WriteBatch(raw=new, files=files))
            for reader in self._both(store):
                assert reader.raw(name) == b"".join(texts[:count])
                assert reader.chunk_names(name) == refs[:count]

    def test_what_is_derived_is_found_by_its_key(self) -> None:
        store, batch = self.store(), batch_of("Hi")
        [ref] = batch.deltas
        refused(ObjectNotFound, store.write, WriteBatch(derived={"k": ref}))
        store.write(batch)
        sequence, _ = commits.encode_sequence([ref])
        store.write(
            WriteBatch(sequences={sequence: [ref]}, derived={"k": sequence, SURROGATE: ref})
        )
        for reader in self._both(store):
            assert reader.find_derived(["k", "no", SURROGATE]) == {"k": sequence, SURROGATE: ref}
        store.write(WriteBatch(derived={"k": ref}))
        for reader in self._both(store):
            assert reader.find_derived(["k"]) == {"k": ref}

    def test_names_that_begin_alike_are_told_apart(self) -> None:
        """The names of each pair have the same first 6 bytes; they were found by brute force."""
        root = batch_of("r")
        [ref] = root.deltas
        for tickets in (("17018330", "07960609"), ("23216528", "11607909")):
            store = self.store()
            store.write(WriteBatch(objects=root.objects, deltas=root.deltas))
            created_at = format_rfc3339(BEGINNING_US)
            new_commits = [
                Commit(artifact=ref, created_at=created_at, ticket_id=ticket) for ticket in tickets
            ]
            assert new_commits[0].id[:16] == new_commits[1].id[:16]
            for commit in new_commits:
                store.write(WriteBatch(commits=[(commit, CommitNotes(summary=commit.ticket_id))]))
            for reader in self._both(store):
                stored = reader.commits([commit.id for commit in new_commits])
                assert [stored[commit.id].notes.summary for commit in new_commits] == [*tickets]
                assert reader.names_with_prefix(new_commits[0].id[:16]) == sorted(
                    commit.id for commit in new_commits
                )
                assert reader.names_with_prefix(new_commits[0].id) == [new_commits[0].id]

    def test_any_limit_is_a_limit(self) -> None:
        store = self.store()
        names = chain_in(store, 3)
        for reader in self._both(store):
            for many in (3, 2**70):
                assert reader.newest_commits(many) == names[::-1]
                assert len(reader.chain(names[-1], many)) == 3
                assert len(reader.names_with_prefix("ctx-", many)) == 3
            for none in (0, -1, -(2**70)):
                assert reader.newest_commits(none) == reader.names_with_prefix("", none) == []

    def test_newest_commits_continue_before_a_commit(self) -> None:
        store = self.store()
        names = chain_in(store, 4)
        for reader in self._both(store):
            assert reader.newest_commits(2, before=names[3]) == [names[2], names[1]]
            assert reader.newest_commits(9, before=names[1]) == [names[0]]
            assert reader.newest_commits(9, before=names[0]) == []
            assert reader.newest_commits(0, before=names[3]) == []
            for unknown in (f"ctx-{'0' * 64}", "ctx-", ""):
                ask = partial(reader.newest_commits, before=CommitId(unknown))
                refused(NameNotFound, ask, 9)

    def test_everything_is_yielded_after_what_it_needs(self) -> None:
        store = self.store()
        names = chain_in(store, 3)
        names_so_far: set[str] = set()
        for obj in store.iter_objects():
            assert names_so_far.issuperset(obj.needs)
            names_so_far.add(obj.name)
        assert names_so_far >= {*names, *store.names_with_prefix("art-")}
        stats = store.stats()
        assert stats.objects["commit"] == stats.objects["message"] == 3
        assert stats.raw_bytes == sum(len(obj.body) for obj in store.iter_objects())
        assert stats.logical_bytes >= stats.raw_bytes

    def test_sequences_come_back_in_order(self) -> None:
        store, first, second = self.store(), batch_of("a"), batch_of("b")
        store.write(first)
        store.write(second)
        parts = [*second.deltas, *first.deltas, *second.deltas]
        ref, _ = commits.encode_sequence(parts)
        store.write(WriteBatch(sequences={ref: parts}))
        for reader in self._both(store):
            assert reader.sequences([ref]) == {ref: parts}

    def test_a_chain_is_walked_from_its_end(self) -> None:
        store = self.store()
        names = chain_in(store, 5)
        for reader in self._both(store):
            assert [s.id for s in reader.chain(names[-1])] == names[::-1]
            assert [s.id for s in reader.chain(names[3], 2)] == [names[3], names[2]]
            assert reader.chain(names[3], 0) == []

    def test_branches_are_children_oldest_first(self) -> None:
        store = self.store()
        [root] = chain_in(store, 1)
        late = batch_of("late", parent=root, second=9)
        early = batch_of("early", parent=root, second=3)
        for batch in (late, early):
            store.write(batch)
        for reader in self._both(store):
            assert reader.children(root) == [commit_in(early), commit_in(late)]
            assert [s.id for s in reader.chain(commit_in(early))] == [commit_in(early), root]

    def test_the_latest_is_at_or_before_a_time(self) -> None:
        store = self.store()
        names = chain_in(store, 3, principal="a")
        chain_in(store, 2, principal="b\ud800")
        last = batch_of("same time", parent=names[-1], second=2, principal="a")
        store.write(last)
        for reader in self._both(store):
            assert reader.latest_commit("a", format_rfc3339(BEGINNING_US)) == names[0]
            assert reader.latest_commit("a", "2026-01-01T01:00:01.999999+01:00") == names[1]
            assert reader.latest_commit("a", "2027-01-01T00:00:00Z") == commit_in(last)
            assert reader.latest_commit("a", "2025-12-31T23:59:59.999999Z") is None
            assert reader.latest_commit("nobody", "2027-01-01T00:00:00Z") is None
            assert reader.latest_commit("b\ud800", "2027-01-01T00:00:00Z") is not None
            refused(ValueError, reader.latest_commit, "a", "yesterday")
            everything = reader.newest_commits(1000)
            assert everything[0] == commit_in(last)
            assert reader.newest_commits(1) == everything[:1]
            assert {*names} <= {*everything}

    def test_the_latest_follows_the_parents_if_a_clock_stepped_back(self) -> None:
        store = self.store()
        root = batch_of("greatest time", second=9, principal="a")
        store.write(root)
        names = [commit_in(root)]
        for second in (3, 5, 4):  # The second one has a child of the third one's time.
            batch = batch_of("later", parent=names[-1], second=second, principal="a")
            store.write(batch)
            names.append(commit_in(batch))
        other = batch_of("of another", parent=names[-1], second=6, principal="b")
        fork = batch_of("beside", parent=names[0], second=2, principal="a")
        for batch in (other, fork):
            store.write(batch)
        for reader in self._both(store):
            assert reader.latest_commit("a", "2026-01-01T00:00:09Z") == names[-1]
            assert reader.latest_commit("a", "2026-01-01T00:00:05Z") == names[-1]
            assert reader.latest_commit("a", "2026-01-01T00:00:04Z") == names[-1]
            assert reader.latest_commit("a", "2026-01-01T00:00:03Z") == names[1]
            assert reader.latest_commit("b", "2026-01-01T00:00:09Z") == commit_in(other)

    def test_names_are_found_by_their_beginnings(self) -> None:
        store = self.store()
        batches = [batch_of(f"message {n}") for n in range(40)]
        for batch in batches:
            store.write(batch)
        names = sorted([commit_in(b) for b in batches] + [ref for b in batches for ref in b.deltas])
        for reader in self._both(store):
            assert reader.names_with_prefix("", 100) == names
            for beginning in ("ctx-", "art-", "c", names[3], names[3][:16], names[50][:9], "ctx-0"):
                expected = [name for name in names if name.startswith(beginning)]
                assert reader.names_with_prefix(beginning, 100) == expected
                assert reader.names_with_prefix(beginning, 2) == expected[:2]
            for prefix in ("x", "ctx-g", "CTX-", "ctx-%", "art-\ud800", names[3] + "0", "\0"):
                assert reader.names_with_prefix(prefix) == []

    def test_annotating_changes_notes_and_nothing_else(self) -> None:
        store = self.store()
        names = chain_in(store, 3)
        before = store.chain(names[-1])
        store.update_notes(names[1], CommitNotes(summary="what it knew", labels=("x", "y")))
        store.update_notes(names[2], CommitNotes(labels=("x",)))
        store.update_notes(names[2], CommitNotes(labels=("x", "z")))
        for reader in self._both(store):
            after = reader.chain(names[-1])
            assert [(s.id, s.commit) for s in after] == [(s.id, s.commit) for s in before]
            assert [s.notes.summary for s in after] == ["", "what it knew", ""]
            assert reader.commits_by_label() == {"x": names[1:], "y": [names[1]], "z": [names[2]]}
            assert reader.commits_by_label("x") == {"x": names[1:]}
            assert reader.commits_by_label("nothing") == {}
        invalid_notes: Any = CommitNotes(summary=b"x")  # type: ignore[arg-type]
        refused(ValueError, store.update_notes, names[0], invalid_notes)

    def test_writers_at_once_all_succeed(self) -> None:
        store = self.store()
        [root] = chain_in(store, 1)
        stores = [store, *self._both(store)[1:]]
        failed: list[Exception] = []

        def write(number: int) -> None:
            try:
                for index in range(10):
                    batch = batch_of(f"{number} {index}", "the same for all", parent=root)
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


def _commit_members(members: dict[str, Any]) -> dict[str, Any]:
    return {name: members[name] for name in members if name in Commit.__struct_fields__}
