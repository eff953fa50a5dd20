"""Sequences as trees: they share beginnings, and equal names make equal trees."""

import pytest

from harken.core.commits import ArtifactRef, encode_delta, encode_entry, encode_sequence
from harken.core.messages import Message
from harken.errors import ObjectCorrupted, ObjectNotFound
from harken.store.base import WriteBatch
from harken.store.memory import MemoryStore
from harken.store.sequence_tree import BLOCK_LENGTH, MAX_ARTIFACTS, SequenceTree, read_artifacts

COUNTS = [0, 1, 15, 16, 17, 32, 33, 48, 49, 112, 113, 128, 129, 500, 1_000, 3_000]


def artifacts(store: MemoryStore, count: int) -> list[ArtifactRef]:
    """Return the names of deltas that are in the store, with repetitions."""
    names: list[ArtifactRef] = []
    for number in range(min(count, 40)):
        entry, objects = encode_entry(Message("user", str(number)))
        name, _ = encode_delta([entry])
        store.write(WriteBatch(objects=objects, deltas={name: [entry]}))
        names.append(name)
    return [names[number % len(names)] for number in range(count)]


def build(store: MemoryStore, names: list[ArtifactRef]) -> SequenceTree:
    tree = SequenceTree(store)
    for name in names:
        tree.append(name)
    return tree


@pytest.mark.parametrize("count", COUNTS)
def test_artifacts_are_read_in_order(count: int) -> None:
    store = MemoryStore()
    names = artifacts(store, count)
    tree = build(store, names)
    store.write(WriteBatch(sequences=tree.new_sequences()))
    assert read_artifacts(store, tree.ref, count) == names


def test_short_conversation_is_one_flat_sequence() -> None:
    store = MemoryStore()
    names = artifacts(store, BLOCK_LENGTH)
    assert build(store, names).new_sequences() == {encode_sequence(names)[0]: names}
    assert build(store, []).ref == encode_sequence([])[0]


def test_tree_that_grows_in_steps_equals_the_tree_built_at_once() -> None:
    store = MemoryStore()
    names = artifacts(store, 1_500)
    ref, count = SequenceTree(store).ref, 0
    store.write(WriteBatch(sequences={ref: []}))
    for step in (1, 14, 1, 1, 15, 16, 17, 1, 300, 1, 129):
        tree = SequenceTree.load(store, ref, count)
        for name in names[count : count + step]:
            tree.append(name)
        store.write(WriteBatch(sequences=tree.new_sequences()))
        ref, count = tree.ref, tree.count
        assert ref == build(store, names[:count]).ref
        assert read_artifacts(store, ref, count) == names[:count]


def test_another_artifact_adds_at_most_four_small_sequences_at_any_length() -> None:
    store = MemoryStore()
    names = artifacts(store, 5_000)
    tree = SequenceTree(store)
    known = {tree.ref}
    for name in names:
        tree = _copy(store, tree)
        tree.append(name)
        new = {ref: members for ref, members in tree.new_sequences().items() if ref not in known}
        assert len(new) <= 4
        assert max(map(len, new.values())) <= BLOCK_LENGTH + 1
        known |= new.keys()


def _copy(store: MemoryStore, tree: SequenceTree) -> SequenceTree:
    """Return the tree as read from the store."""
    store.write(WriteBatch(sequences=tree.new_sequences()))
    return SequenceTree.load(store, tree.ref, tree.count)


def test_levels_are_read_together() -> None:
    class CountingStore(MemoryStore):
        reads = 0

        def sequences(self, names: object) -> dict[ArtifactRef, list[ArtifactRef]]:
            self.reads += 1
            return super().sequences(names)  # type: ignore[arg-type]

    store = CountingStore()
    tree = build(store, artifacts(store, 3_000))
    store.write(WriteBatch(sequences=tree.new_sequences()))
    store.reads = 0
    read_artifacts(store, tree.ref, tree.count)
    assert store.reads <= 16


@pytest.mark.parametrize(("count", "wrong"), [(20, 19), (20, 36), (16, 17), (100, 5_000), (1, 0)])
def test_wrong_count_is_damage(count: int, wrong: int) -> None:
    store = MemoryStore()
    tree = build(store, artifacts(store, count))
    store.write(WriteBatch(sequences=tree.new_sequences()))
    with pytest.raises((ObjectCorrupted, ObjectNotFound)):
        read_artifacts(store, tree.ref, wrong)


def test_tree_with_a_wrong_count_is_not_extended() -> None:
    store = MemoryStore()
    names = artifacts(store, 49)
    tree = build(store, names)
    store.write(WriteBatch(sequences=tree.new_sequences()))
    with pytest.raises(ObjectCorrupted):
        SequenceTree.load(store, tree.ref, 50)
    wrong = SequenceTree.load(store, tree.ref, 16 * 6 + 1)  # Its top has as many members.
    with pytest.raises((ObjectCorrupted, ObjectNotFound)):
        for name in names[:BLOCK_LENGTH]:
            wrong.append(name)


def test_missing_sequence_is_reported_by_name() -> None:
    store = MemoryStore()
    tree = build(store, artifacts(store, 40))
    with pytest.raises(ObjectNotFound, match=tree.ref):
        read_artifacts(store, tree.ref, 40)
    with pytest.raises(ObjectNotFound, match=tree.ref):
        SequenceTree.load(store, tree.ref, 40)


def test_repeated_sequences_cannot_expand_without_limit() -> None:
    """Each level names the one below twice: a few bytes would expand to 2**60 artifacts."""
    store = MemoryStore()
    names = artifacts(store, BLOCK_LENGTH)
    tree = block = encode_sequence(names)[0]
    store.write(WriteBatch(sequences={block: names}))
    for _ in range(60):
        members = [tree, tree, block]
        tree = encode_sequence(members)[0]
        store.write(WriteBatch(sequences={tree: members}))
    top = encode_sequence([tree, names[0]])[0]
    store.write(WriteBatch(sequences={top: [tree, names[0]]}))
    for count in (MAX_ARTIFACTS, MAX_ARTIFACTS + 1, BLOCK_LENGTH * (2**17 - 1) + 1):
        with pytest.raises(ObjectCorrupted):
            read_artifacts(store, top, count)
