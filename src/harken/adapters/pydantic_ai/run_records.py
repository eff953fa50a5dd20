"""`RunRecords`: the records of one run of pydantic-ai-harness, read from the lines of its branch.

A line is a JSON object with one member: `run`, `event`, `effect` or `snapshot`. A snapshot names
the commit with its messages.

Source: docs/formats/framework-items.md, "Steps of pydantic-ai".
"""

from __future__ import annotations

from typing import Any

import msgspec
from pydantic import TypeAdapter
from pydantic_ai_harness.step_persistence import (
    ContinuableSnapshot,
    RunRecord,
    StepEvent,
    ToolEffectRecord,
)

from harken.adapters.conversation import StoredConversation
from harken.adapters.conversation_lines import decode_lines
from harken.adapters.line_cursor import LineCursor
from harken.core.commits import CommitId

_RUN = TypeAdapter(RunRecord)
_EVENT = TypeAdapter(StepEvent)
_EFFECT = TypeAdapter(ToolEffectRecord)


class SnapshotRecord(msgspec.Struct, frozen=True):
    """A snapshot without its messages."""

    members: dict[str, Any]
    ctx: CommitId | None
    """The last commit with its messages. None if it has no messages."""

    @property
    def is_complete(self) -> bool:
        """Whether its tool calls have results."""
        return self.members.get("state") == "complete"


class RunRecords:
    """The records of a run. Its caller holds the lock of the conversation."""

    def __init__(self, conversation: StoredConversation) -> None:
        self.conversation = conversation
        self._cursor = LineCursor()
        self._clear()

    def _clear(self) -> None:
        self.run: RunRecord | None = None
        self.events: list[StepEvent] = []
        self.effects: dict[str, ToolEffectRecord] = {}
        self.snapshots: list[SnapshotRecord] = []
        self.event_keys: set[str] = set()
        self.snapshot_keys: set[str] = set()

    def read(self) -> RunRecords:
        """Read the lines that are new, and return the records."""
        new = self._cursor.advance(self.conversation.get_lines())
        if new.is_restart:
            self._clear()
        for item in decode_lines(new.lines):
            self._add(item)
        return self

    def _add(self, item: dict[str, Any]) -> None:
        ((kind, members),) = item.items()
        match kind:
            case "run":
                self.run = _RUN.validate_python(members)
            case "event":
                event = _EVENT.validate_python(members)
                self.events.append(event)
                if event.idempotency_key is not None:
                    self.event_keys.add(event.idempotency_key)
            case "effect":
                effect = _EFFECT.validate_python(members)
                self.effects[effect.tool_call_id] = effect
            case "snapshot":
                ctx = members.pop("ctx", None)
                self.snapshots.append(SnapshotRecord(members, ctx))
                if members.get("idempotency_key") is not None:
                    self.snapshot_keys.add(members["idempotency_key"])


def read_runs(conversation: StoredConversation) -> list[RunRecord]:
    """Return the runs of a conversation, in the order of their writes."""
    return [_RUN.validate_python(item["run"]) for item in conversation.get_items()]


def encode_run(record: RunRecord) -> dict[str, Any]:
    """Return the item of a run."""
    return {"run": _drop_defaults(_RUN.dump_python(record, mode="json"))}


def encode_event(event: StepEvent) -> dict[str, Any]:
    """Return the item of an event."""
    return {"event": _drop_defaults(_EVENT.dump_python(event, mode="json"))}


def encode_effect(record: ToolEffectRecord) -> dict[str, Any]:
    """Return the item of the effect of a tool."""
    return {"effect": _drop_defaults(_EFFECT.dump_python(record, mode="json"))}


def encode_snapshot(snapshot: ContinuableSnapshot, ctx: CommitId | None) -> dict[str, Any]:
    """Return the item of a snapshot with the messages of a commit."""
    members = {
        "run_id": snapshot.run_id,
        "step_index": snapshot.step_index,
        "conversation_id": snapshot.conversation_id,
        "parent_run_id": snapshot.parent_run_id,
        "agent_name": snapshot.agent_name,
        "timestamp": snapshot.timestamp.isoformat(),
        "state": snapshot.state,
        "idempotency_key": snapshot.idempotency_key,
        "ctx": ctx,
    }
    return {"snapshot": _drop_defaults(members)}


def _drop_defaults(members: dict[str, Any]) -> dict[str, Any]:
    """Return the members without those that are null or empty objects: the defaults of records."""
    return {name: value for name, value in members.items() if value is not None and value != {}}
