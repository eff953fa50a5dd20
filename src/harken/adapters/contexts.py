"""Contexts of threads: the messages of checkpoints as commits, and items of lists in the store.

A *fold* moves the new items of a chain of checkpoints to the store: one artifact has the items as
the framework wrote them, and one commit has the messages among them. Both are one pack, so a text
that is in both is stored once. A fork is a commit with the same parent, and messages that were
changed or removed are a compaction.

A saver folds after a number of checkpoints; `fold_leaves` folds all that remains before a thread is
shown.

Source: docs/design/020-adapters.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from harken.adapters import checkpoint_writer
from harken.adapters.checkpoint_file import CheckpointFile, CheckpointRow
from harken.adapters.list_values import FoldCache, ListReader
from harken.adapters.records import (
    PLAIN,
    Fold,
    FoldContent,
    FoldedList,
    ListChange,
    ListPiece,
    SharedValue,
    pack,
    unpack,
)
from harken.adapters.thread_messages import read_entries
from harken.context.checkpoint import (
    SEPARATOR,
    CommitDraft,
    CommitOrigin,
    build_batch,
    prepare,
)
from harken.core import structs
from harken.core.clock import format_rfc3339, normalize_rfc3339
from harken.core.commits import CommitId, hash_raw
from harken.errors import NameNotFound
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.steps import find_title
from harken.store.base import Name, RetentionPolicy, Store, WriteBatch

RUNTIME = "langgraph"
"""The runtime in the names of sessions."""
MESSAGES = "messages"
"""The channel with the conversation, in graphs that have several lists of messages."""


class _Context(msgspec.Struct, frozen=True):
    """The context at a checkpoint: a commit, and the changes of the list since."""

    ctx: CommitId | None = None
    messages: int = 0
    """The number of messages of the commit's context."""
    pieces: Sequence[ListPiece] = ()
    """Oldest first."""
    title: str = ""


def session_name(thread: str) -> str:
    """Return the name of the session that a thread is.

    >>> session_name("support-7")
    'langgraph:support-7'
    """
    return f"{RUNTIME}:{thread}"


def fold_leaves(file: CheckpointFile, store: Store, thread: int, key: tuple[str, str]) -> None:
    """Fold all checkpoints of a thread. Raises StoreError, ObjectCorrupted.

    key: the name of the thread, and the namespace.
    """
    for number in file.list_leaves(thread):
        row = file.get(number)
        if not row.fold:
            fold_chain(file, store, key, row)


def fold_chain(
    file: CheckpointFile, store: Store, key: tuple[str, str], last: CheckpointRow
) -> None:
    """Fold a checkpoint, and those before it. Raises StoreError, ObjectCorrupted.

    key: the name of the thread, and the namespace.
    """
    chain, before = _find_chain(file, last)
    if not chain:
        return
    lists = _collect_lists(file, chain)
    reader = ListReader(file, FoldCache(store), list)
    channel = _find_message_channel(lists)
    context = _find_context(file, reader, before, channel or MESSAGES)
    commit = _CommitContent(context.ctx, context.messages, [], title=context.title)
    if channel is not None:
        commit = _collect_messages(reader, last, channel, lists[channel], context)
    data = pack(FoldContent(lists))
    artifact = hash_raw(data)
    batch = WriteBatch(raw={artifact: data})
    ctx = context.ctx
    time = _read_time(last)
    if commit.entries:
        prepared = prepare(_draft_commit(commit, key, time))
        ctx = prepared.id
        batch = structs.replace(build_batch([prepared]), raw=batch.raw)
    store.write(batch)
    # Nothing else in the store names the artifact. It is younger than the grace of a collection.
    store.set_retention({artifact: RetentionPolicy("pin")})
    fold = Fold(
        number=last.number,
        previous=0 if before is None else before.fold,
        artifact=artifact,
        ctx=ctx if commit.is_readable else None,
        messages=commit.messages + (0 if commit.is_full else len(commit.entries)),
        start="" if before is None else before.id,
        title=commit.title or find_title(commit.entries),
        time=time or "",
    )
    checkpoint_writer.add_fold(file, fold, [row.number for row in chain])


class _CommitContent(msgspec.Struct):
    """The messages of a commit."""

    parent: CommitId | None
    messages: int
    """The number of messages before them."""
    entries: list[ConversationEntry]
    is_full: bool = False
    """Whether they are the complete context."""
    is_readable: bool = True
    """Whether the items are messages."""
    title: str = ""


def _find_chain(
    file: CheckpointFile, last: CheckpointRow
) -> tuple[list[CheckpointRow], CheckpointRow | None]:
    """Return the checkpoints up to `last` that are not folded, and the one before them."""
    chain: list[CheckpointRow] = []
    current: CheckpointRow | None = file.get(last.number)
    while current is not None and not current.fold:
        chain.append(current)
        current = file.find(current.thread, current.parent) if current.parent else None
    return chain[::-1], current


def _collect_lists(file: CheckpointFile, chain: Sequence[CheckpointRow]) -> dict[str, FoldedList]:
    """Return the changes of all lists in a chain."""
    lists: dict[str, FoldedList] = {}
    for row in chain:
        items = file.read_items(row.number)
        for channel, value in row.body.values.items():
            if not isinstance(value, ListChange):
                continue
            if channel not in lists:
                base = file.get(value.base).id if value.base else ""
                lists[channel] = FoldedList(base, [])
            piece = ListPiece(row.id, _read_time(row) or "", value.keep, items.get(channel))
            lists[channel].pieces.append(piece)
    return lists


def _find_message_channel(lists: Mapping[str, FoldedList]) -> str | None:
    """Return the channel with the conversation, or None if no list has messages only."""
    for channel in sorted(lists, key=lambda name: (name != MESSAGES, name)):
        pieces = lists[channel].pieces
        entries = [read_entries(piece.items, None) for piece in pieces]
        if None not in entries and any(entries):
            return channel
    return None


def _find_context(
    file: CheckpointFile, reader: ListReader, row: CheckpointRow | None, channel: str
) -> _Context:
    """Return the context at a folded checkpoint."""
    if row is None:
        return _Context()
    fold = file.get_fold(row.fold)
    if fold.number == row.number:
        return _Context(fold.ctx, fold.messages, title=fold.title)
    start = file.find(row.thread, fold.start) if fold.start else None
    before = _find_context(file, reader, start, channel)
    value = row.body.values.get(channel)
    holder = file.get(value.holder) if isinstance(value, SharedValue) else row
    change = reader.read_fold(row.fold).lists.get(channel)
    ids = [piece.checkpoint for piece in change.pieces] if change is not None else []
    if change is None or holder.id not in ids:
        return before
    pieces = change.pieces[: ids.index(holder.id) + 1]
    return structs.replace(before, pieces=[*before.pieces, *pieces])


def _collect_messages(
    reader: ListReader,
    last: CheckpointRow,
    channel: str,
    change: FoldedList,
    context: _Context,
) -> _CommitContent:
    """Return the messages after the last commit, or all if the commit's context has changed."""
    entries: list[ConversationEntry] = []
    pieces = [*context.pieces, *change.pieces]
    is_full = any(piece.keep < context.messages for piece in pieces)
    if is_full:
        _, pieces = reader.find_pieces(last, channel)
    before = 0 if is_full else context.messages
    for piece in pieces:
        new = read_entries(piece.items, _normalize_time(piece.time))
        if new is None:
            return _CommitContent(None, 0, [], is_readable=False)
        del entries[piece.keep - before :]
        entries += new
    messages = len(entries) if is_full else before
    return _CommitContent(context.ctx, messages, entries, is_full, title=context.title)


def _draft_commit(commit: _CommitContent, key: tuple[str, str], time: str | None) -> CommitDraft:
    thread, namespace = key
    names = [session_name(thread), *([namespace] if namespace else [])]
    is_compaction = commit.is_full and commit.parent is not None
    origin = CommitOrigin(
        template=RUNTIME,
        principal=SEPARATOR.join(name.replace(SEPARATOR, "_") for name in names),
        session_id=session_name(thread),
        thread_id=thread,
    )
    return CommitDraft(
        entries=commit.entries,
        parent=commit.parent,
        type="compaction" if is_compaction else "delta",
        trigger="compaction" if is_compaction else "turn_boundary",
        origin=origin,
        created_at=time,
    )


def _read_time(row: CheckpointRow) -> str | None:
    """Return the time of a checkpoint, or None if it cannot be read."""
    kind, data = row.body.head
    if kind != PLAIN:
        return None
    head = unpack(data, dict[str, Any])
    time = head.get("ts")
    return _normalize_time(time) if isinstance(time, str) else None


def _normalize_time(text: str) -> str | None:
    try:
        return normalize_rfc3339(text)
    except (ValueError, OverflowError):
        return None


def release_folds(file: CheckpointFile, store: Store, folds: Iterable[Fold], now_us: int) -> None:
    """Let the next collection remove the objects of folds that other folds do not share."""
    remaining = file.list_folds()
    artifacts = {fold.artifact for fold in remaining}
    commits = {fold.ctx for fold in remaining}
    expired = RetentionPolicy("ephemeral", until=format_rfc3339(now_us))
    policies: dict[Name, RetentionPolicy | None] = {}
    for fold in folds:
        if fold.artifact not in artifacts:
            policies[fold.artifact] = None
        if fold.ctx is not None and fold.ctx not in commits:
            policies[fold.ctx] = expired
    for name, policy in policies.items():
        with suppress(NameNotFound):  # It was collected before.
            store.set_retention({CommitId(name): policy})
