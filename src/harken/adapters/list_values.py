"""Lists of checkpoints: which items are new, and how a list is put together again.

The list of a checkpoint is the beginning of an earlier list and new items, so a step writes what is
new. Programs may change an item in place, so items are compared by their content: a hash of the
bytes that only equal items have. The process keeps the hashes of the lists that it has written.

Source: docs/design/020-adapters.md.
"""

from __future__ import annotations

import marshal
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from harken.adapters.checkpoint_file import CheckpointFile, CheckpointRow
from harken.adapters.records import (
    Fold,
    FoldContent,
    InlineValue,
    ListPiece,
    SharedValue,
    TypedBytes,
    unpack,
)
from harken.core.commits import ArtifactRef
from harken.errors import ObjectCorrupted, ObjectNotFound
from harken.store.base import Store

MAX_CACHED_FOLDS = 128
_MARSHAL_VERSION = 2
"""The last version in which equal values have equal bytes: later ones mark shared objects."""
PACKED = "msgpack"
"""The kind of values that LangGraph's own serializer has encoded."""
_ARRAY_HEADERS = {b"\xdc": 3, b"\xdd": 5}
"""The first bytes of long arrays in MessagePack, and the lengths of their headers."""
Loads: TypeAlias = Callable[[TypedBytes], Any]
Dumps: TypeAlias = Callable[[Any], TypedBytes]


def hash_items(items: Sequence[Any], dumps: Dumps) -> list[int]:
    """Return a hash of the content of each item. It is valid in this process only."""
    return [_hash_item(item, dumps) for item in items]


def _hash_item(item: Any, dumps: Dumps) -> int:
    try:
        return hash(marshal.dumps(item, _MARSHAL_VERSION))
    except ValueError:  # The item is an object of a framework.
        pass
    members = getattr(item, "__dict__", None)
    if members is not None and hasattr(item, "__pydantic_extra__"):
        type_ = type(item)
        content = (type_.__module__, type_.__qualname__, members, item.__pydantic_extra__)
        try:
            return hash(marshal.dumps(content, _MARSHAL_VERSION))
        except ValueError:  # A member is an object, too.
            pass
    return hash(dumps(item))


def count_common(first: Sequence[int], second: Sequence[int]) -> int:
    """Return the length of the common beginning of two lists.

    >>> count_common([1, 2, 3], [1, 2, 4, 5])
    2
    """
    length = min(len(first), len(second))
    if first[:length] == second[:length]:
        return length
    return next(index for index in range(length) if first[index] != second[index])


def join_pieces(pieces: Sequence[ListPiece]) -> TypedBytes | None:
    r"""Return the items of all pieces as one array of MessagePack.

    Return None if a piece removes items, or has another encoding.

    >>> first = ListPiece("a", "", 0, (PACKED, b"\x91\x01"))
    >>> join_pieces([first, ListPiece("b", "", 1, (PACKED, b"\x91\x02"))])
    ('msgpack', b'\xdd\x00\x00\x00\x02\x01\x02')
    """
    count, parts = 0, [b""]
    for piece in pieces:
        kind, data = piece.items or ("", b"")
        size = _ARRAY_HEADERS.get(data[:1], 1 if 0x90 <= (data or b"\0")[0] <= 0x9F else 0)
        if kind != PACKED or not size or piece.keep != count:
            return None
        count += data[0] & 0x0F if size == 1 else int.from_bytes(data[1:size])
        parts.append(data[size:])
    parts[0] = b"\xdd" + count.to_bytes(4)
    return PACKED, b"".join(parts)


class FoldCache:
    """The contents of the folds that were read last. A fold never changes."""

    def __init__(self, store: Store) -> None:
        """Read folds of this store."""
        self._store = store
        self._contents: OrderedDict[ArtifactRef, FoldContent] = OrderedDict()

    def read(self, artifacts: Sequence[ArtifactRef]) -> dict[ArtifactRef, FoldContent]:
        """Return the contents of folds. Raises ObjectNotFound, ObjectCorrupted, StoreError."""
        contents = {ref: self._contents[ref] for ref in artifacts if ref in self._contents}
        missing = [ref for ref in artifacts if ref not in contents]
        bodies = self._store.raws(missing) if missing else {}
        for ref in missing:
            # A file of several chunks is read by itself.
            body = bodies[ref] if ref in bodies else self._store.raw(ref)
            try:
                contents[ref] = unpack(body, FoldContent)
            except ValueError as error:
                raise ObjectCorrupted("the store", ref, reason=str(error)) from None
        for ref in artifacts:
            self._contents[ref] = contents[ref]
            self._contents.move_to_end(ref)
        while len(self._contents) > MAX_CACHED_FOLDS:
            self._contents.popitem(last=False)
        return contents


class ListReader:
    """Reads lists of checkpoints. Lists that it has read share their items with later ones."""

    def __init__(
        self, file: CheckpointFile, folds: FoldCache, loads: Loads, *, joins: bool = False
    ) -> None:
        """Read from this file and these folds. `loads` decodes the items of one checkpoint.

        joins: whether items that are MessagePack are decoded together, which is faster. Then lists
        share nothing.
        """
        self._file, self._folds, self._loads, self._joins = file, folds, loads, joins
        self._rows: dict[int, CheckpointRow] = {}
        self._rows_by_id: dict[tuple[int, str], CheckpointRow] = {}
        self._fold_rows: dict[int, Fold] = {}
        self._contents: dict[ArtifactRef, FoldContent] = {}
        self._items: dict[tuple[int, str, str], list[Any]] = {}
        """Thread, checkpoint and channel -> the decoded items that the checkpoint added."""

    def read(self, row: CheckpointRow, channel: str) -> list[Any]:
        """Return the list of a channel at a checkpoint. Raises ObjectNotFound, ObjectCorrupted."""
        beginning, pieces = self.find_pieces(row, channel)
        if self._joins and beginning is None:
            joined = join_pieces(pieces)
            if joined is not None:
                return [*self._loads(joined)]
        items = [] if beginning is None else [*self._loads((beginning.kind, beginning.data))]
        for piece in pieces:
            del items[piece.keep :]
            if piece.items is not None:
                items += self._load(row.thread, channel, piece)
        return items

    def find_pieces(
        self, row: CheckpointRow, channel: str
    ) -> tuple[InlineValue | None, list[ListPiece]]:
        """Return the changes of a list up to a checkpoint, oldest first, and its first value.

        Return None as the first value if the list was empty.
        """
        pieces: list[ListPiece] = []
        current: CheckpointRow | None = row
        while current is not None:
            value = current.body.values.get(channel)
            if isinstance(value, InlineValue):
                return value, pieces[::-1]
            if value is None:
                raise ObjectNotFound(self._file.path, f"{channel!r} of checkpoint {current.id}")
            if isinstance(value, SharedValue):
                current = self._get(value.holder)
            elif current.fold:
                current = self._add_folded(current, channel, pieces)
            else:
                items = self._file.read_items(current.number).get(channel)
                if items is None and value.count > value.keep:
                    # Another process has folded the items since the row was read.
                    current = self._get_again(current)
                    continue
                pieces.append(ListPiece(current.id, "", value.keep, items))
                current = self._get(value.base) if value.base else None
        return None, pieces[::-1]

    def _get_again(self, row: CheckpointRow) -> CheckpointRow:
        fresh = self._rows[row.number] = self._file.get(row.number)
        if not fresh.fold:
            raise ObjectCorrupted(self._file.path, f"checkpoint {row.id}", reason="it has no items")
        return fresh

    def _add_folded(
        self, row: CheckpointRow, channel: str, pieces: list[ListPiece]
    ) -> CheckpointRow | None:
        """Add the changes in the fold of a checkpoint, the newest first. Return the one before."""
        change = self.read_fold(row.fold).lists.get(channel)
        ids = [] if change is None else [piece.checkpoint for piece in change.pieces]
        if change is None or row.id not in ids:
            raise ObjectNotFound(self._file.path, f"{channel!r} of checkpoint {row.id}")
        pieces += change.pieces[ids.index(row.id) :: -1]
        if not change.base:
            return None
        key = row.thread, change.base
        if key not in self._rows_by_id:
            base = self._file.find(*key)
            if base is None:
                raise ObjectNotFound(self._file.path, f"checkpoint {change.base}")
            self._rows_by_id[key] = base
        return self._rows_by_id[key]

    def read_fold(self, number: int) -> FoldContent:
        """Return the content of a fold. The folds before it are read in the same round trip."""
        if number not in self._fold_rows:
            new: list[Fold] = []
            while number and number not in self._fold_rows:
                fold = self._file.get_fold(number)
                self._fold_rows[number] = fold
                new.append(fold)
                number = fold.previous
            self._contents |= self._folds.read([fold.artifact for fold in new])
            number = new[0].number
        return self._contents[self._fold_rows[number].artifact]

    def _get(self, number: int) -> CheckpointRow:
        if number not in self._rows:
            self._rows[number] = self._file.get(number)
        return self._rows[number]

    def _load(self, thread: int, channel: str, piece: ListPiece) -> list[Any]:
        key = thread, piece.checkpoint, channel
        if key not in self._items:
            assert piece.items is not None
            self._items[key] = self._loads(piece.items)
        return self._items[key]
