"""Sequences of a conversation that share their beginnings, as trees of small sequences.

A conversation grows at its end. As one flat sequence, each longer conversation would repeat the
names of the shorter one. So the names are split into blocks of 16, and the blocks are arranged as a
skew-binary list: trees of 1, 3, 7, ... blocks. Another name adds at most four small sequences,
whatever the length, and the tree depends only on the names in it: a conversation has the same name
whether it was built at once or step by step.

Source: docs/formats/store.md, "Materialized conversations".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TypeAlias

from harken.core.commits import ArtifactRef, encode_sequence
from harken.errors import ObjectCorrupted, ObjectNotFound
from harken.store.base import Store

BLOCK_LENGTH = 16
"""The number of names in a block, and the most names at the end that are in no block yet."""
MAX_ARTIFACTS = 1 << 22
"""The limit of artifacts in one tree: a few sequences can repeat each other very often."""
_STORE = "the store"

_Shape: TypeAlias = tuple[int, ...]
"""The sizes of the trees below a sequence, in blocks, the oldest first. Empty for an artifact."""
_ARTIFACT: _Shape = ()


class SequenceTree:
    """A tree of sequences to which names can be appended."""

    def __init__(self, store: Store) -> None:
        """Create an empty tree. Sequences that it needs are read from the store."""
        self.count = 0
        """The number of artifacts."""
        self._top: list[ArtifactRef] = []
        self._store = store
        self._new: dict[ArtifactRef, list[ArtifactRef]] = {}

    @classmethod
    def load(cls, store: Store, ref: ArtifactRef, count: int) -> SequenceTree:
        """Load a tree of `count` artifacts. Raises ObjectNotFound, ObjectCorrupted."""
        tree = cls(store)
        tree.count, tree._top = count, tree._members(ref)
        if len(tree._top) != len(_child_shapes_of_top(count)):
            raise _shape_error(ref)
        return tree

    @property
    def ref(self) -> ArtifactRef:
        """The name of the top sequence."""
        return encode_sequence(self._top)[0]

    def append(self, name: ArtifactRef) -> None:
        """Append an artifact. Raises ObjectNotFound, ObjectCorrupted."""
        blocks = _block_count(self.count)
        if self.count and self.count % BLOCK_LENGTH == 0:
            block = self._add(self._top[1:] if blocks else self._top)
            self._top = [self._add_block(block, blocks), name]
        else:
            self._top.append(name)
        self.count += 1

    def new_sequences(self) -> dict[ArtifactRef, list[ArtifactRef]]:
        """Return the top, and the sequences below it that this object created."""
        reachable: dict[ArtifactRef, list[ArtifactRef]] = {self.ref: self._top}
        pending = [*self._top]
        while pending:
            name = pending.pop()
            members = self._new.get(name)
            if members is not None and name not in reachable:
                reachable[name] = members
                pending += members
        return reachable

    def _add_block(self, block: ArtifactRef, blocks: int) -> ArtifactRef:
        """Return the list of `blocks` blocks with one more. The last two equal trees become one."""
        sizes = _tree_sizes(blocks)
        if not sizes:
            return block
        trees = self._top[0]
        if len(sizes) == 1 or sizes[-1] != sizes[-2]:
            return self._add([trees, block])
        older, newer = self._pair(trees)
        if len(sizes) == 2:
            return self._add([older, newer, block])
        earlier, older = self._pair(older)
        return self._add([earlier, self._add([older, newer, block])])

    def _add(self, members: list[ArtifactRef]) -> ArtifactRef:
        name = encode_sequence(members)[0]
        self._new[name] = members
        return name

    def _pair(self, name: ArtifactRef) -> list[ArtifactRef]:
        members = self._members(name)
        if len(members) != 2:
            raise _shape_error(name)
        return members

    def _members(self, name: ArtifactRef) -> list[ArtifactRef]:
        members = self._new.get(name)
        if members is None:
            members = self._store.sequences([name]).get(name)
        if members is None:
            raise ObjectNotFound(_STORE, name)
        return members


def read_artifacts(store: Store, ref: ArtifactRef, count: int) -> list[ArtifactRef]:
    """Return the artifacts of a tree in order, in one read for each of its levels.

    Raises ObjectNotFound; ObjectCorrupted if it is no tree of `count` artifacts.
    """
    if count > MAX_ARTIFACTS:
        raise ObjectCorrupted(_STORE, ref, reason=f"it has more than {MAX_ARTIFACTS:,} artifacts")
    sequences: dict[ArtifactRef, list[ArtifactRef]] = {}
    level: dict[ArtifactRef, list[_Shape]] = {ref: _child_shapes_of_top(count)}
    while level:
        sequences |= store.sequences(level)
        next_level: dict[ArtifactRef, list[_Shape]] = {}
        for name, shapes in level.items():
            members = sequences.get(name)
            if members is None:
                raise ObjectNotFound(_STORE, name)
            if len(members) != len(shapes):
                raise _shape_error(name)
            for member, shape in zip(members, shapes, strict=True):
                if shape != _ARTIFACT and member not in sequences:
                    next_level[member] = _child_shapes(shape)
        level = next_level
    artifacts = list(islice(_iter_artifacts(sequences, ref), count + 1))
    if len(artifacts) != count:
        raise _shape_error(ref)
    return artifacts


def _iter_artifacts(
    sequences: Mapping[ArtifactRef, list[ArtifactRef]], ref: ArtifactRef
) -> Iterator[ArtifactRef]:
    """Yield the names below a sequence that are not among the sequences of the tree."""
    pending = [ref]
    while pending:
        name = pending.pop()
        members = sequences.get(name)
        if members is None:
            yield name
        else:
            pending += members[::-1]


def _child_shapes_of_top(count: int) -> list[_Shape]:
    blocks = _block_count(count)
    tail = [_ARTIFACT] * (count - blocks * BLOCK_LENGTH)
    return [_tree_sizes(blocks), *tail] if blocks else tail


def _child_shapes(shape: _Shape) -> list[_Shape]:
    """Return the shapes of the members of a sequence of a shape."""
    *older, newest = shape
    if older:
        return [tuple(older), (newest,)]
    return [(newest // 2,), (newest // 2,), (1,)] if newest > 1 else [_ARTIFACT] * BLOCK_LENGTH


def _block_count(count: int) -> int:
    """Return the number of full blocks. The last 1 to 16 artifacts are in none."""
    return max(count - 1, 0) // BLOCK_LENGTH


def _tree_sizes(blocks: int) -> _Shape:
    """Return the sizes of the trees of a skew-binary list of this many blocks.

    >>> [_tree_sizes(blocks) for blocks in (1, 2, 3, 6, 9)]
    [(1,), (1, 1), (3,), (3, 3), (7, 1, 1)]
    """
    sizes: list[int] = []
    while blocks:
        size = (1 << (blocks + 1).bit_length() - 1) - 1
        sizes.append(size)
        blocks -= size
    return tuple(sizes)


def _shape_error(name: ArtifactRef) -> ObjectCorrupted:
    return ObjectCorrupted(_STORE, name, reason="it is not a sequence of the expected shape")
