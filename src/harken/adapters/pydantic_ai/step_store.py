"""`HarkenStepStore`: the steps of runs of pydantic-ai, for `StepPersistence` of its harness.

A run has two branches: its messages, which are a session of Harken, and its records. A snapshot is
one write to both. Its messages are a commit that continues the last snapshot, or the conversation
that the run continues, so that each message is stored once.

Source: docs/design/020-adapters.md; docs/formats/framework-items.md.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar

from pydantic_ai_harness.step_persistence import (
    ContinuableSnapshot,
    RunRecord,
    StepEvent,
    ToolEffectRecord,
)

from harken.adapters.conversation import ConversationChange, StoredConversation, write_changes
from harken.adapters.conversation_kinds import PYDANTIC_AI, make_record_kind
from harken.adapters.pydantic_ai.message_encoder import EncoderCache
from harken.adapters.pydantic_ai.message_log import (
    MessageLog,
    decode_messages,
    find_shared,
)
from harken.adapters.pydantic_ai.run_records import (
    RunRecords,
    SnapshotRecord,
    encode_effect,
    encode_event,
    encode_run,
    encode_snapshot,
    read_runs,
)
from harken.adapters.store_user import StoreUser, complete, read_in_thread
from harken.core.clock import Clock, system_clock
from harken.core.commits import CommitId
from harken.formats.frameworks.item_lines import encode_item
from harken.store.base import Store

T = TypeVar("T")
STEPS = make_record_kind("pydantic-ai-steps")
"""The records of a run, by its id."""
RUNS = make_record_kind("pydantic-ai-runs")
"""The records of all runs of a conversation, by its id."""
_MAX_RUNS = 64
"""The number of runs that a process keeps in memory."""
_MAX_CANDIDATES = 8
"""The number of earlier runs in which the beginning of a new run is searched."""


class _Run:
    """The two branches of a run."""

    def __init__(self, store: Store, clock: Clock, run_id: str) -> None:
        self._store, self._clock, self.id = store, clock, run_id
        self.records = RunRecords(StoredConversation(store, STEPS, run_id, clock))
        self._messages: MessageLog | None = None

    def get_messages(self, conversation_id: str | None, agent: str) -> MessageLog:
        """Return the messages of the run. They are a part of the session of its conversation."""
        if self._messages is None:
            self._messages = MessageLog(
                StoredConversation(
                    self._store,
                    PYDANTIC_AI,
                    conversation_id or self.id,
                    self._clock,
                    agent=agent,
                    run=self.id,
                )
            )
        return self._messages


class HarkenStepStore(StoreUser):
    """A `StepStore` of pydantic-ai-harness. Use as a context manager, or call `close`.

    Runs, tasks, threads and processes may share it: all their records are kept.
    """

    def __init__(
        self,
        folder: str | Path = "~/.harken",
        *,
        store: Store | None = None,
        clock: Clock = system_clock,
    ) -> None:
        """Open the store.

        folder: a home of Harken, created if it does not exist.
        store: in place of the store of the folder, closed by its owner. Raises StoreError.
        """
        super().__init__(folder, store=store, clock=clock)
        self._runs: OrderedDict[str, _Run] = OrderedDict()
        self._lock = RLock()
        self._encoders = EncoderCache()

    async def register_run(self, record: RunRecord) -> None:
        """Write the record of a run, in place of an earlier one with its id."""
        items = [encode_run(record)]
        conversation = StoredConversation(
            self._store, RUNS, record.conversation_id or "", self._clock
        )

        def build() -> list[ConversationChange]:
            records = self._get_run(record.run_id).records.conversation
            return [_build_change(records, items), _build_change(conversation, items)]

        await self._write(build)

    async def get_run(self, *, run_id: str) -> RunRecord | None:
        """Return the record of a run, or None."""
        return await self._read(lambda: self._read_records(run_id).run)

    async def list_runs(
        self, *, parent_run_id: str | None = None, conversation_id: str | None = None
    ) -> list[RunRecord]:
        """Return runs, the first started first: all, or those of a parent and a conversation."""

        def read() -> list[RunRecord]:
            by_id: dict[str, RunRecord] = {}
            for conversation in self._list_conversations(conversation_id):
                for record in read_runs(conversation):
                    by_id.pop(record.run_id, None)
                    by_id[record.run_id] = record
            runs = (
                record
                for record in by_id.values()
                if parent_run_id is None or record.parent_run_id == parent_run_id
            )
            return sorted(runs, key=lambda record: record.started_at)

        return await self._read(read)

    async def append_event(self, event: StepEvent) -> None:
        """Append an event, unless the run has one with its idempotency key."""
        items = [encode_event(event)]

        def build() -> list[ConversationChange]:
            records = self._get_run(event.run_id).records
            key = event.idempotency_key
            if key is not None and key in records.read().event_keys:
                return []
            return [_build_change(records.conversation, items)]

        await self._write(build)

    async def list_events(self, *, run_id: str) -> list[StepEvent]:
        """Return the events of a run, in the order of their writes."""
        return await self._read(lambda: [*self._read_records(run_id).events])

    async def save_snapshot(self, snapshot: ContinuableSnapshot) -> None:
        """Write a snapshot, unless the run has one with its idempotency key.

        Only messages that are new are written.
        """
        # A subagent has a history of its own; runs of a conversation continue each other.
        history = snapshot.run_id if snapshot.parent_run_id else snapshot.conversation_id
        lines = self._encoders.encode(history or snapshot.run_id, snapshot.messages)
        key = snapshot.idempotency_key

        def build() -> list[ConversationChange]:
            run = self._get_run(snapshot.run_id)
            records = run.records.read()
            if key is not None and key in records.snapshot_keys:
                return []
            agent = (snapshot.agent_name or "") if snapshot.parent_run_id else ""
            log = run.get_messages(snapshot.conversation_id, agent)
            with log.conversation.lock:
                change = self._build_message_change(log, lines, snapshot.parent_run_id)
                ctx = log.conversation.find_head_seen() if change is None else change.commit.id
            items = [encode_snapshot(snapshot, ctx)]
            record = _build_change(records.conversation, items)
            return [record] if change is None else [change, record]

        await self._write(build)

    def _build_message_change(
        self, log: MessageLog, lines: Sequence[bytes], parent_run_id: str | None
    ) -> ConversationChange | None:
        """Return the change of a snapshot. A new run begins where it continues an earlier one."""
        conversation = log.conversation
        if conversation.find_head_seen() is not None:
            return log.build_change(lines)
        if parent_run_id:  # The run of a subagent, also in the conversation of its parent.
            branch = PYDANTIC_AI.name_branch(conversation.id, part=parent_run_id)
            return log.build_change(lines, spawner=self._store.find_branch(branch))
        heads = PYDANTIC_AI.list_heads(self._store, conversation.id).values()
        newest = sorted(
            (stored for stored in heads if stored.commit.thread_id == conversation.id),
            key=lambda stored: stored.commit.created_at,
            reverse=True,
        )
        parent, shared = None, 0
        for stored in newest[:_MAX_CANDIDATES]:
            commit, count = find_shared(self._store, stored.id, lines)
            if count > shared:
                parent, shared = commit, count
        return log.build_change(lines, parent=parent, shared=shared)

    async def latest_snapshot(
        self, *, run_id: str, include_interrupted: bool = False
    ) -> ContinuableSnapshot | None:
        """Return the last snapshot of a run with results for its tool calls, or the last one."""

        def read() -> ContinuableSnapshot | None:
            for record in reversed(self._read_records(run_id).snapshots):
                if include_interrupted or record.is_complete:
                    return self._load_snapshot(run_id, record)
            return None

        return await self._read(read)

    async def list_snapshots(
        self, *, run_id: str, include_interrupted: bool = False
    ) -> list[ContinuableSnapshot]:
        """Return the snapshots of a run, in the order of their writes."""

        def read() -> list[ContinuableSnapshot]:
            return [
                self._load_snapshot(run_id, record)
                for record in self._read_records(run_id).snapshots
                if include_interrupted or record.is_complete
            ]

        return await self._read(read)

    def _load_snapshot(self, run_id: str, record: SnapshotRecord) -> ContinuableSnapshot:
        members = {**record.members}
        lines: Sequence[bytes] = ()
        if record.ctx is not None:
            log = self._get_run(run_id).get_messages(
                members.get("conversation_id"), members.get("agent_name") or ""
            )
            lines = log.conversation.get_lines_at(record.ctx)
        members["timestamp"] = datetime.fromisoformat(members["timestamp"])
        return ContinuableSnapshot(**members, messages=decode_messages(lines))

    async def find_commit(self, *, run_id: str, include_interrupted: bool = False) -> str | None:
        """Return the commit with the messages of the last snapshot of a run, or None.

        A fork can begin with it: `HarkenHistory.fork`.
        """

        def read() -> CommitId | None:
            records = self._read_records(run_id).snapshots
            commits = [r.ctx for r in records if include_interrupted or r.is_complete]
            return commits[-1] if commits else None

        return await self._read(read)

    async def record_tool_effect(self, record: ToolEffectRecord) -> None:
        """Write the effect of a tool call, in place of an earlier one."""
        items = [encode_effect(record)]

        def build() -> list[ConversationChange]:
            return [_build_change(self._get_run(record.run_id).records.conversation, items)]

        await self._write(build)

    async def get_tool_effect(self, *, run_id: str, tool_call_id: str) -> ToolEffectRecord | None:
        """Return the last effect of a tool call, or None."""
        return await self._read(lambda: self._read_records(run_id).effects.get(tool_call_id))

    async def list_unresolved_tool_effects(self, *, run_id: str) -> list[ToolEffectRecord]:
        """Return the effects of tool calls that have begun and not ended."""

        def read() -> list[ToolEffectRecord]:
            effects = self._read_records(run_id).effects.values()
            return [effect for effect in effects if effect.status == "started"]

        return await self._read(read)

    def _get_run(self, run_id: str) -> _Run:
        run = self._runs.pop(run_id, None) or _Run(self._store, self._clock, run_id)
        self._runs[run_id] = run
        if len(self._runs) > _MAX_RUNS:
            self._runs.popitem(last=False)
        return run

    def _read_records(self, run_id: str) -> RunRecords:
        """Return the records of a run, also those that other processes have written."""
        records = self._get_run(run_id).records
        records.conversation.find_head()
        return records.read()

    def _list_conversations(self, conversation_id: str | None) -> Iterable[StoredConversation]:
        if conversation_id is not None:
            return [StoredConversation(self._store, RUNS, conversation_id, self._clock)]
        ids = {stored.commit.thread_id for stored in RUNS.list_heads(self._store).values()}
        return [StoredConversation(self._store, RUNS, id_, self._clock) for id_ in ids]

    async def _write(self, build: Callable[[], Sequence[ConversationChange]]) -> None:
        self._check_open("the step store")

        def write() -> None:
            with self._lock:
                write_changes(build)

        await complete(write)

    async def _read(self, function: Callable[[], T]) -> T:
        self._check_open("the step store")

        def read() -> T:
            with self._lock:
                return function()

        return await read_in_thread(read)


def _build_change(
    conversation: StoredConversation, items: Sequence[dict[str, Any]]
) -> ConversationChange:
    lines = [encode_item(item) for item in items]
    return conversation.build_change(lines, summary=f"A record of {conversation.id}")
