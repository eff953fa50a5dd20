"""`HarkenSaver`: a synchronous checkpoint saver of LangGraph over a home folder of Harken.

The saver turns the values of channels into rows: a value that did not change is that of an earlier
checkpoint, and a list is the beginning of an earlier list with new items. All bytes are written by
LangGraph's own serializer.

A thread has one writer at a time. A run that read a checkpoint as the latest one may only continue
from it while it is the latest. If another writer was faster, the checkpoint is written as a fork,
and BranchConflict stops the run. A run that names a checkpoint forks there, as always.

Source: docs/design/020-adapters.md.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self, TypeAlias

import msgspec
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from harken.adapters import checkpoint_writer, contexts
from harken.adapters.checkpoint_file import (
    CHECKPOINTS_NAME,
    CheckpointFile,
    CheckpointRow,
    CheckpointThread,
    NewCheckpoint,
    PendingWrite,
)
from harken.adapters.head_expectations import HeadExpectations, ThreadKey
from harken.adapters.langgraph.configs import build_config, thread_key
from harken.adapters.langgraph.typed_values import dump_head, dump_plain, load
from harken.adapters.list_values import FoldCache, ListReader, count_common, hash_items
from harken.adapters.records import (
    CheckpointBody,
    InlineValue,
    ListChange,
    SharedValue,
    TypedBytes,
    Value,
)
from harken.core.clock import Clock, system_clock
from harken.errors import ConfigError, ObjectNotFound, StoreError
from harken.store.base import Store
from harken.store.sqlite.store import SqliteStore

Hashes: TypeAlias = list[int]
FOLD_LENGTH = 32
"""After so many checkpoints with new items, the items move to the store."""
_MAX_STATES = 64
_logger = logging.getLogger("harken")


class _State(msgspec.Struct):
    """A checkpoint with which the next one is compared."""

    row: CheckpointRow
    versions: Mapping[str, Any]
    hashes: dict[str, Hashes]
    """Channel -> the hashes of the items of its list."""


class HarkenSaver(BaseCheckpointSaver[int]):
    """A checkpoint saver over a home folder of Harken. Use as a context manager, or call `close`.

    Threads and processes may share a folder. `list` yields checkpoints whose lists share their
    items: a change of an item in one of them is visible in the others.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        serde: SerializerProtocol | None = None,
        store: Store | None = None,
        clock: Clock = system_clock,
    ) -> None:
        """Use this folder, which is created if it does not exist.

        store: for the items of lists and the contexts, closed by its owner; by default, the file
        `store.db` in the folder. Raises StoreError.
        """
        super().__init__(serde=serde)
        path = Path(folder).expanduser()
        self._resources = ExitStack()
        self._clock = clock
        self._lock = threading.RLock()
        self._file = CheckpointFile(path / CHECKPOINTS_NAME)
        self._resources.callback(self._file.close)
        if store is None:
            store = SqliteStore(path / "store.db", clock=clock)
            self._resources.callback(store.close)
        self._store = store
        self._folds = FoldCache(store)
        self._states: OrderedDict[tuple[ThreadKey, str], _State] = OrderedDict()
        self._expectations = HeadExpectations()

    def __enter__(self) -> Self:
        """Return the saver."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the files."""
        self.close()

    def close(self) -> None:
        """Close the files. A second call does nothing."""
        self._resources.close()

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        key = thread_key(config)
        checkpoint_id = get_checkpoint_id(config)
        thread = self._file.find_thread(*key)
        row: CheckpointRow | None = None
        if thread is not None and checkpoint_id:
            row = self._file.find(thread.id, checkpoint_id)
        elif thread is not None and thread.head:
            row = self._file.get(thread.head)
        if checkpoint_id:
            self._expectations.allow_fork(key, checkpoint_id, None if row is None else row.parent)
        else:
            self._expectations.add(key, "" if row is None else row.id)
        if row is None or thread is None or row.is_hidden:
            return None
        checkpoint_tuple = self._build_tuple(thread, row, self._reader(joins=True))
        self._note_loaded(key, row, checkpoint_tuple.checkpoint)
        return checkpoint_tuple

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        name = namespace = only_id = None
        if config is not None:
            name, _ = thread_key(config)
            namespace = config["configurable"].get("checkpoint_ns")
            only_id = get_checkpoint_id(config)
        threads = {thread.id: thread for thread in self._file.list_threads(name, namespace)}
        before_id = None if before is None else get_checkpoint_id(before)
        reader = self._reader()
        count = 0
        for number in self._file.list_numbers(threads, before=before_id):
            if limit is not None and count >= limit:
                return
            try:
                row = self._file.get(number)
            except ObjectNotFound:
                continue  # It was deleted since.
            if only_id and row.id != only_id:
                continue
            metadata = self._load(row.body.metadata)
            if filter and any(metadata.get(key) != value for key, value in filter.items()):
                continue
            count += 1
            thread = threads[row.thread]
            key = thread.name, thread.namespace
            self._expectations.allow_fork(key, row.id, row.parent)
            yield self._build_tuple(thread, row, reader)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Write a checkpoint. On return it survives a power failure.

        Raises BranchConflict if the run continues from a checkpoint that another writer has
        continued since; StoreError if the disk refuses.
        """
        key = thread_key(config)
        parent_id = get_checkpoint_id(config) or ""
        full_metadata = get_checkpoint_metadata(config, metadata)
        with self._lock:
            try:
                row = self._put(key, parent_id, checkpoint, full_metadata, new_versions)
            except ObjectNotFound:  # The parent was deleted: what it shares is written again.
                self._forget(key[0])
                row = self._put(key, parent_id, checkpoint, full_metadata, new_versions)
            if row.depth >= FOLD_LENGTH:
                self._fold(key, row)
        return build_config(key, checkpoint["id"], config)

    def _put(
        self,
        key: ThreadKey,
        parent_id: str,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> CheckpointRow:
        parent = self._find_state(key, parent_id)
        values: dict[str, Value] = {}
        items: dict[str, TypedBytes] = {}
        hashes: dict[str, Hashes] = {}
        versions = checkpoint["channel_versions"]
        for channel, value in checkpoint["channel_values"].items():
            shared = None
            if parent is not None and channel not in new_versions:
                shared = _find_shared(parent, channel, versions)
            if parent is not None and shared is not None:
                values[channel] = shared
                if channel in parent.hashes:
                    hashes[channel] = parent.hashes[channel]
            elif type(value) is list and value:
                hashes[channel] = hash_items(value, self._dump)
                change = self._compare(parent, channel, hashes[channel])
                values[channel] = change
                if change.count > change.keep:
                    items[channel] = self._dump(value[change.keep :])
            else:
                values[channel] = InlineValue(*self._dump(value))
        delta_channels = metadata.get("counters_since_delta_snapshot") or ()
        new = NewCheckpoint(
            id=checkpoint["id"],
            parent=None if parent is None else parent.row,
            parent_id=parent_id,
            body=CheckpointBody(
                dump_head(self.serde, checkpoint),
                dump_plain(self.serde, metadata),
                values,
                tuple(delta_channels),
            ),
            items=items,
            run=str(metadata.get("run_id") or ""),
        )
        expects_head = self._expectations.take(key, parent_id)
        row = checkpoint_writer.add_checkpoint(self._file, key, new, expects_head=expects_head)
        self._expectations.add(key, row.id)
        self._keep_state(key, _State(row, dict(versions), hashes))
        return row

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        replaces = all(channel in WRITES_IDX_MAP for channel, _ in writes)
        rows = {
            WRITES_IDX_MAP.get(channel, index): PendingWrite(task_path, channel, *self._dump(value))
            for index, (channel, value) in enumerate(writes)
        }
        checkpoint_writer.add_writes(
            self._file,
            thread_key(config),
            str(config["configurable"]["checkpoint_id"]),
            task_id,
            rows,
            replace=replaces,
        )

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread. `harken store gc` then removes its contexts. Raises StoreError."""
        self._forget(str(thread_id))
        folds = checkpoint_writer.delete_threads(self._file, str(thread_id))
        contexts.release_folds(self._file, self._store, folds, self._clock())

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints that these runs have written. Raises StoreError.

        Data that later checkpoints share, and writes from which their channels are computed, stay.
        """
        numbers = self._file.find_numbers_of_runs(dict.fromkeys(map(str, run_ids)))
        self._delete(numbers)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete all checkpoints of threads, or all but the latest one of each namespace.

        Raises ValueError for an unknown strategy, StoreError.
        """
        if strategy == "delete":
            for thread_id in thread_ids:
                self.delete_thread(thread_id)
            return
        if strategy != "keep_latest":
            raise ValueError(f"strategy must be 'keep_latest' or 'delete', not {strategy!r}")
        for thread_id in thread_ids:
            for thread in self._file.list_threads(str(thread_id)):
                numbers = self._file.list_numbers([thread.id])
                self._delete({thread.id: [n for n in numbers if n != thread.head]})

    def _delete(self, numbers: Mapping[int, Sequence[int]]) -> None:
        with self._lock:
            self._states.clear()
        for thread, thread_numbers in numbers.items():
            folds = checkpoint_writer.delete_checkpoints(self._file, thread, thread_numbers)
            contexts.release_folds(self._file, self._store, folds, self._clock())

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with its namespaces and writes. Raises ConfigError if the target exists."""
        target = str(target_thread_id)
        if self._file.list_threads(target):
            raise ConfigError(f"the thread {target!r} exists; copy to another name, or delete it")
        for thread in self._file.list_threads(str(source_thread_id)):
            checkpoint_writer.copy_thread(self._file, thread, target)

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Return the next version of a channel: a number, or a text if the thread has texts.

        Another saver may have written such a thread.
        """
        if isinstance(current, str):
            number = int(current.partition(".")[0]) + 1
            return f"{number:032}.{0:016}"
        return super().get_next_version(current, channel)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return the writes to channels since their last stored values, and these values.

        Only ancestors of the checkpoint are read, also deleted ones whose writes are needed.
        """
        writes: dict[str, list[Any]] = {channel: [] for channel in channels}
        seeds: dict[str, Any] = {}
        reader = self._reader()
        for row in self._iter_ancestors(config):
            remaining = [channel for channel in writes if channel not in seeds]
            if not remaining:
                break
            pending = self._file.read_pending(row.thread, row.id)
            for task, _, write in reversed(pending):
                if write.channel in remaining:
                    value = self._load((write.kind, write.data))
                    writes[write.channel].append((task, write.channel, value))
            for channel in remaining:
                if channel in row.body.values:
                    seeds[channel] = self._read_value(row, channel, reader)
        history: dict[str, DeltaChannelHistory] = {}
        for channel, channel_writes in writes.items():
            history[channel] = {"writes": channel_writes[::-1]}
            if channel in seeds:
                history[channel]["seed"] = seeds[channel]
        return history

    def _iter_ancestors(self, config: RunnableConfig) -> Iterator[CheckpointRow]:
        """Yield the checkpoints before a checkpoint, or before the latest one, newest first."""
        thread = self._file.find_thread(*thread_key(config))
        if thread is None:
            return
        checkpoint_id = get_checkpoint_id(config)
        if checkpoint_id:
            row = self._file.find(thread.id, checkpoint_id)
        else:
            row = self._file.get(thread.head) if thread.head else None
        while row is not None and row.parent:
            row = self._file.find(thread.id, row.parent)
            if row is not None:
                yield row

    def _build_tuple(
        self, thread: CheckpointThread, row: CheckpointRow, reader: ListReader
    ) -> CheckpointTuple:
        key = thread.name, thread.namespace
        values = {channel: self._read_value(row, channel, reader) for channel in row.body.values}
        checkpoint: Any = {**self._load(row.body.head), "id": row.id, "channel_values": values}
        pending = self._file.read_pending(thread.id, row.id)
        return CheckpointTuple(
            build_config(key, row.id),
            checkpoint,
            self._load(row.body.metadata),
            build_config(key, row.parent) if row.parent else None,
            [
                (task, write.channel, self._load((write.kind, write.data)))
                for task, _, write in pending
            ],
        )

    def _read_value(self, row: CheckpointRow, channel: str, reader: ListReader) -> Any:
        value = row.body.values[channel]
        if isinstance(value, SharedValue):
            row = self._file.get(value.holder)
            value = row.body.values[channel]
        if isinstance(value, InlineValue):
            return self._load((value.kind, value.data))
        return reader.read(row, channel)

    def _find_state(self, key: ThreadKey, checkpoint_id: str) -> _State | None:
        """Return a checkpoint that another one follows, or None if the file does not have it."""
        if not checkpoint_id:
            return None
        state = self._states.get((key, checkpoint_id))
        if state is None:
            thread = self._file.find_thread(*key)
            row = None if thread is None else self._file.find(thread.id, checkpoint_id)
            if row is None:
                return None
            state = _State(row, self._load(row.body.head)["channel_versions"], {})
        return state

    def _note_loaded(self, key: ThreadKey, row: CheckpointRow, checkpoint: Checkpoint) -> None:
        """Note the content of lists before the run can change them."""
        with self._lock:
            if (key, row.id) in self._states:
                return
            hashes = {
                channel: hash_items(value, self._dump)
                for channel, value in checkpoint["channel_values"].items()
                if type(value) is list and value
            }
            self._keep_state(key, _State(row, dict(checkpoint["channel_versions"]), hashes))

    def _keep_state(self, key: ThreadKey, state: _State) -> None:
        self._states[key, state.row.id] = state
        while len(self._states) > _MAX_STATES:
            self._states.popitem(last=False)

    def _forget(self, thread: str) -> None:
        """Forget the checkpoints of a thread."""
        self._expectations.forget(thread)
        with self._lock:
            for entry in [entry for entry in self._states if entry[0][0] == thread]:
                del self._states[entry]

    def _compare(self, parent: _State | None, channel: str, hashes: Hashes) -> ListChange:
        """Return the change from the list of the parent to a new one with these hashes."""
        value = None if parent is None else parent.row.body.values.get(channel)
        if parent is None or value is None or isinstance(value, InlineValue):
            return ListChange(0, 0, len(hashes))
        base = parent.row.number
        if isinstance(value, SharedValue):
            base = value.holder
            if isinstance(self._file.get(base).body.values[channel], InlineValue):
                return ListChange(0, 0, len(hashes))
        if channel not in parent.hashes:
            items = self._reader(joins=True).read(self._file.get(base), channel)
            parent.hashes[channel] = hash_items(items, self._dump)
        keep = count_common(parent.hashes[channel], hashes)
        return ListChange(base if keep else 0, keep, len(hashes))

    def _fold(self, key: ThreadKey, row: CheckpointRow) -> None:
        """Move the new items of a checkpoint and of those before it to the store."""
        try:
            contexts.fold_chain(self._file, self._store, key, row)
        except StoreError as error:
            # The checkpoint is durable, and the next one tries again.
            _logger.warning("the items of %s stay in %s: %s", key[0], self._file.path, error)
            return
        state = self._states.get((key, row.id))
        if state is not None:
            state.row = self._file.get(row.number)

    def _reader(self, *, joins: bool = False) -> ListReader:
        is_known = type(self.serde) is JsonPlusSerializer
        return ListReader(self._file, self._folds, self._load, joins=joins and is_known)

    def _dump(self, value: Any) -> TypedBytes:
        return self.serde.dumps_typed(value)

    def _load(self, data: TypedBytes) -> Any:
        return load(self.serde, data)


def _find_shared(parent: _State, channel: str, versions: ChannelVersions) -> SharedValue | None:
    """Return the value of a channel if the parent has it in the same version, or None."""
    version = versions.get(channel)
    value = parent.row.body.values.get(channel)
    if value is None or version is None or parent.versions.get(channel) != version:
        return None
    return value if isinstance(value, SharedValue) else SharedValue(parent.row.number)
