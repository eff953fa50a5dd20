"""Changes of a checkpoint file: add checkpoints, writes and folds; copy and delete threads.

Each function is one transaction. A checkpoint whose writer expected another head is written, too,
but does not become the head: nothing is lost, and the writer is told.

Source: docs/formats/checkpoints.md.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from harken.adapters.checkpoint_file import (
    CheckpointFile,
    CheckpointRow,
    CheckpointThread,
    NewCheckpoint,
    PendingWrite,
    checkpoint_key,
    pending_key,
)
from harken.adapters.records import (
    REPLACED_MARK,
    CheckpointBody,
    Fold,
    ListChange,
    SharedValue,
    Value,
    encode_id,
    pack,
    seal,
)
from harken.errors import BranchConflict, ObjectNotFound


def add_checkpoint(
    file: CheckpointFile,
    thread: tuple[str, str],
    new: NewCheckpoint,
    *,
    expects_head: bool,
) -> CheckpointRow:
    """Write a checkpoint, which becomes the head of its thread (a name and a namespace).

    expects_head: whether the head must be the parent, because the writer has read the parent as the
    head. Raises BranchConflict if it is another one by now; the checkpoint is written, without
    becoming the head. Raises ObjectNotFound if the parent was deleted meanwhile, StoreError.
    """
    id_ = encode_id(new.id)
    parent_number = 0 if new.parent is None else new.parent.number
    parent_depth = 0 if new.parent is None else new.parent.depth
    depth = parent_depth + bool(new.items)
    body = seal(checkpoint_key(id_).encode(), pack(new.body))
    with file.writing() as connection:
        row = _get_thread(connection, thread)
        _check_parent(file, connection, parent_number, new.parent_id)
        _hide_replaced(connection, row.id, id_)
        cursor = connection.execute(
            "INSERT INTO checkpoint (thread, id, parent, run, hidden, depth, fold, body)"
            " VALUES (?, ?, ?, ?, 0, ?, 0, ?)",
            (
                row.id,
                id_,
                encode_id(new.parent_id) if new.parent_id else None,
                new.run or None,
                depth,
                body,
            ),
        )
        number = cursor.lastrowid
        assert number is not None
        if new.items:
            items = seal(f"item {number}".encode(), pack(new.items))
            connection.execute("INSERT INTO item VALUES (?, ?)", (number, items))
        has_conflict = expects_head and row.head != parent_number
        if not has_conflict:
            connection.execute("UPDATE thread SET head = ? WHERE id = ?", (number, row.id))
    if has_conflict:
        head = file.get(row.head).id if row.head else None
        expected = new.parent_id or None
        raise BranchConflict(
            file.path, thread[0], expected=expected, actual=head, commit=f"checkpoint {new.id}"
        )
    return CheckpointRow(number, row.id, new.id, new.parent_id, False, depth, 0, new.body)


def _get_thread(connection: sqlite3.Connection, thread: tuple[str, str]) -> CheckpointThread:
    """Return the row of a thread. It is created if it does not exist."""
    query = "SELECT id, head FROM thread WHERE name = ? AND namespace = ?"
    row = connection.execute(query, thread).fetchone()
    if row is not None:
        return CheckpointThread(row[0], *thread, row[1])
    insert = "INSERT INTO thread (name, namespace, head) VALUES (?, ?, 0)"
    cursor = connection.execute(insert, thread)
    assert cursor.lastrowid is not None
    return CheckpointThread(cursor.lastrowid, *thread, 0)


def _check_parent(
    file: CheckpointFile, connection: sqlite3.Connection, number: int, id_: str
) -> None:
    """Raise ObjectNotFound if the parent no longer exists: the new row shares its data."""
    if number:
        query = "SELECT id FROM checkpoint WHERE number = ?"
        row = connection.execute(query, (number,)).fetchone()
        if row is None or row[0] != encode_id(id_):
            raise ObjectNotFound(file.path, f"checkpoint {id_}")


def _hide_replaced(connection: sqlite3.Connection, thread: int, id_: bytes) -> None:
    """Hide a checkpoint that is written again under its id. Other rows may need its data."""
    query = "SELECT number FROM checkpoint WHERE thread = ? AND id = ?"
    for (number,) in connection.execute(query, (thread, id_)).fetchall():
        hidden_id = REPLACED_MARK + number.to_bytes(8) + id_
        update = "UPDATE checkpoint SET hidden = 1, id = ? WHERE number = ?"
        connection.execute(update, (hidden_id, number))


def add_writes(
    file: CheckpointFile,
    thread: tuple[str, str],
    checkpoint: str,
    task: str,
    writes: Mapping[int, PendingWrite],
    *,
    replace: bool,
) -> None:
    """Write values of a task at a checkpoint, by position. Raises StoreError.

    replace: whether a value at the same position is replaced. Otherwise it stays.
    """
    id_, task_id = encode_id(checkpoint), encode_id(task)
    rows = [
        (position, seal(pending_key(id_, task_id, position).encode(), pack(write)))
        for position, write in writes.items()
    ]
    verb = "REPLACE" if replace else "IGNORE"
    with file.writing() as connection:
        number = _get_thread(connection, thread).id
        connection.executemany(
            f"INSERT OR {verb} INTO pending VALUES (?, ?, ?, ?, ?)",  # noqa: S608 - a word of ours
            [(number, id_, task_id, position, body) for position, body in rows],
        )


def add_fold(file: CheckpointFile, fold: Fold, numbers: Sequence[int]) -> bool:
    """Record that the new items of checkpoints are in the store. Raises StoreError.

    Return False if another process has folded some of them, and nothing was changed.
    """
    with file.writing() as connection:
        for number in numbers:
            query = "SELECT 1 FROM checkpoint WHERE number = ? AND fold = 0"
            if connection.execute(query, (number,)).fetchone() is None:
                return False
        body = seal(f"fold {fold.number}".encode(), pack(fold))
        connection.execute("INSERT OR REPLACE INTO fold VALUES (?, ?)", (fold.number, body))
        connection.executemany(
            "UPDATE checkpoint SET fold = ?, depth = 0 WHERE number = ?",
            [(fold.number, number) for number in numbers],
        )
        connection.executemany("DELETE FROM item WHERE number = ?", [(n,) for n in numbers])
    return True


def delete_threads(file: CheckpointFile, name: str) -> list[Fold]:
    """Delete a thread with all its namespaces. Return its folds that nothing refers to any more."""
    with file.writing() as connection:
        query = "SELECT id FROM thread WHERE name = ?"
        threads = [thread for (thread,) in connection.execute(query, (name,)).fetchall()]
        folds: list[Fold] = []
        for thread in threads:
            rows = connection.execute("SELECT number FROM checkpoint WHERE thread = ?", (thread,))
            folds += _delete_rows(file, connection, [number for (number,) in rows.fetchall()])
            connection.execute("DELETE FROM pending WHERE thread = ?", (thread,))
            connection.execute("DELETE FROM thread WHERE id = ?", (thread,))
    return folds


def delete_checkpoints(file: CheckpointFile, thread: int, numbers: Collection[int]) -> list[Fold]:
    """Delete checkpoints of a thread. Return the folds that nothing refers to any more.

    A row whose data is needed by a checkpoint that stays is only hidden. The writes of a hidden row
    stay if a channel of a later checkpoint is computed from them. Raises StoreError.
    """
    with file.writing() as connection:
        query = "SELECT number FROM checkpoint WHERE thread = ?"
        all_numbers = [number for (number,) in connection.execute(query, (thread,)).fetchall()]
        rows = {number: file.get(number) for number in all_numbers}
        remaining = [
            row for row in rows.values() if not row.is_hidden and row.number not in numbers
        ]
        by_id = {row.id: row for row in rows.values()}
        needed = _find_needed(rows, remaining)
        replayed = _find_replayed(by_id, remaining)
        visible = {row.number for row in remaining}
        hidden = (needed | replayed) - visible
        deleted = [number for number in rows if number not in visible | hidden]
        connection.executemany(
            "UPDATE checkpoint SET hidden = 1 WHERE number = ?", [(number,) for number in hidden]
        )
        ids = [encode_id(rows[n].id) for n in rows if n not in visible | replayed]
        connection.executemany(
            "DELETE FROM pending WHERE thread = ? AND id = ?", [(thread, id_) for id_ in ids]
        )
        folds = _delete_rows(file, connection, deleted)
        head = max((row.number for row in remaining), default=0)
        connection.execute(
            "UPDATE thread SET head = ?1 WHERE id = ?2 AND head NOT IN"
            " (SELECT number FROM checkpoint WHERE thread = ?2 AND hidden = 0)",
            (head, thread),
        )
        if not remaining:
            connection.execute("DELETE FROM pending WHERE thread = ?", (thread,))
            connection.execute("DELETE FROM thread WHERE id = ?", (thread,))
    return folds


def _delete_rows(
    file: CheckpointFile, connection: sqlite3.Connection, numbers: Sequence[int]
) -> list[Fold]:
    """Delete rows with their items. Return folds that are deleted because no row has them now."""
    candidates: set[int] = set()
    for number in numbers:
        query = "SELECT fold FROM checkpoint WHERE number = ?"
        candidates |= {fold for (fold,) in connection.execute(query, (number,)).fetchall() if fold}
    connection.executemany("DELETE FROM checkpoint WHERE number = ?", [(n,) for n in numbers])
    connection.executemany("DELETE FROM item WHERE number = ?", [(n,) for n in numbers])
    referenced = {fold for (fold,) in connection.execute("SELECT DISTINCT fold FROM checkpoint")}
    for number in [*referenced]:
        while number and (number := file.get_fold(number).previous):
            referenced.add(number)
    unused = [file.get_fold(fold) for fold in sorted(candidates - referenced)]
    connection.executemany("DELETE FROM fold WHERE number = ?", [(fold.number,) for fold in unused])
    return unused


def _find_needed(rows: Mapping[int, CheckpointRow], start: Iterable[CheckpointRow]) -> set[int]:
    """Return the rows that have data of these checkpoints."""
    needed: set[int] = set()
    pending = list(start)
    while pending:
        for value in pending.pop().body.values.values():
            number = _source_of(value)
            if number and number not in needed and number in rows:
                needed.add(number)
                pending.append(rows[number])
    return needed


def _source_of(value: Value) -> int:
    """Return the number of the row that has a part of a value, or 0."""
    if isinstance(value, SharedValue):
        return value.holder
    return value.base if isinstance(value, ListChange) else 0


def _find_replayed(by_id: Mapping[str, CheckpointRow], start: Iterable[CheckpointRow]) -> set[int]:
    """Return the ancestors with writes from which these checkpoints' channels are computed."""
    replayed: set[int] = set()
    for row in start:
        channels = {name for name in row.body.delta_channels if name not in row.body.values}
        ancestor = by_id.get(row.parent)
        while channels and ancestor is not None:
            replayed.add(ancestor.number)
            channels -= ancestor.body.values.keys()
            ancestor = by_id.get(ancestor.parent)
    return replayed


def copy_thread(file: CheckpointFile, source: CheckpointThread, target: str) -> None:
    """Copy a namespace of a thread to another thread. Folded items are shared.

    Raises StoreError.
    """
    with file.writing() as connection:
        rows = [
            file.get(number)
            for number in reversed(file.list_numbers([source.id], include_hidden=True))
        ]
        thread = _get_thread(connection, (target, source.namespace)).id
        (last,) = connection.execute("SELECT max(number) FROM checkpoint").fetchone()
        numbers = {
            row.number: last + index
            for index, row in enumerate(sorted(rows, key=lambda row: row.number), start=1)
        }
        folds = {row.fold for row in rows if row.fold}
        for row in rows:
            _copy_row(file, connection, row, thread, numbers)
        for number in folds:
            fold = file.get_fold(number)
            copy = msgspec.structs.replace(
                fold, number=numbers[number], previous=numbers.get(fold.previous, 0)
            )
            body = seal(f"fold {copy.number}".encode(), pack(copy))
            connection.execute("INSERT INTO fold VALUES (?, ?)", (copy.number, body))
        connection.execute(
            "INSERT OR REPLACE INTO pending SELECT ?, id, task, position, body FROM pending"
            " WHERE thread = ?",
            (thread, source.id),
        )
        head = numbers.get(source.head, 0)
        connection.execute("UPDATE thread SET head = ? WHERE id = ?", (head, thread))


def _copy_row(
    file: CheckpointFile,
    connection: sqlite3.Connection,
    row: CheckpointRow,
    thread: int,
    numbers: Mapping[int, int],
) -> None:
    """Copy a checkpoint to another thread, under a new number."""
    number = numbers[row.number]
    values = {name: _renumber(value, numbers) for name, value in row.body.values.items()}
    body: CheckpointBody = msgspec.structs.replace(row.body, values=values)
    id_ = encode_id(row.id)
    query = "SELECT run FROM checkpoint WHERE number = ?"
    (run,) = connection.execute(query, (row.number,)).fetchone()
    connection.execute(
        "INSERT INTO checkpoint (number, thread, id, parent, run, hidden, depth, fold, body)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            number,
            thread,
            id_,
            encode_id(row.parent) if row.parent else None,
            run,
            row.is_hidden,
            row.depth,
            numbers.get(row.fold, 0),
            seal(checkpoint_key(id_).encode(), pack(body)),
        ),
    )
    items = file.read_items(row.number)
    if items:
        sealed = seal(f"item {number}".encode(), pack(items))
        connection.execute("INSERT INTO item VALUES (?, ?)", (number, sealed))


def _renumber(value: Value, numbers: Mapping[int, int]) -> Value:
    if isinstance(value, SharedValue):
        return SharedValue(numbers[value.holder])
    if isinstance(value, ListChange) and value.base:
        return msgspec.structs.replace(value, base=numbers[value.base])
    return value
