"""The thread of a real agent: each type of row where the specification has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.agents.runtime import AgentRuntime
from harken.agents.smart_agent import SmartAgent
from harken.interactions.logger import InteractionLogger
from harken.world.local_world import LocalWorld
from harken.world.memory.notes import NotesMemory
from harken.world.memory.tool import memory_tool
from tests.agent_kit import call, call_message, open_stage, run
from tests.unit.agents.compaction_kit import SUMMARY, talk
from tests.unit.interactions.kit import KIND


def converse(folder: Path) -> str:
    """Let an agent use its memory, be compacted and go on. Return its thread."""
    (folder / "sessions").mkdir()
    uses = [
        {"operation": "write", "path": "ann.md", "text": "Ann likes tea."},
        {"operation": "read", "path": "ann.md"},
        {"operation": "query", "query": "tea"},
    ]
    calls = [call_message(call("memory", f"c{n}", **use)) for n, use in enumerate(uses)]
    model = talk(main=[*calls, "Tea it is.", "And cake."])
    world = LocalWorld([memory_tool(NotesMemory(folder / "notes"))])
    runtime = AgentRuntime(model=model, world=world)
    stage = open_stage(folder / "sessions", model, runtime=runtime)
    assert isinstance(stage.root, SmartAgent)
    stage.ask("What does Ann like?")
    assert run(stage.root.compact()) is not None
    stage.ask("And?")
    stage.session.close()
    return f"s/{stage.root.agent_id}"


@pytest.mark.req("S3-13", "S3-16")
def test_agent_produces_every_type_of_row(tmp_path: Path) -> None:
    thread = converse(tmp_path)
    with InteractionLogger(folder=tmp_path) as log:
        rows = log.get_thread(thread)
        kinds = [row.event_type for row in rows]
        assert {*kinds} == {*KIND}
        replies = [row for row in rows if row.event_type is KIND.LLM_RESPONSE]
        messages = [log.get_message(row.message_id or "") for row in replies]
        assert [message.content for message in messages if message is not None][-2:] == [
            "Tea it is.",
            "And cake.",
        ]
        [compacted] = [row for row in rows if row.event_type is KIND.CONTEXT_COMPACTED]
        summary = log.get_message(compacted.message_id or "")
        assert summary is not None
        assert SUMMARY in summary.content
    assert kinds.count(KIND.LLM_REQUEST) == kinds.count(KIND.LLM_RESPONSE) == 5
    memory = [kind for kind in kinds if kind.value.startswith("MEMORY_")]
    assert memory == [KIND.MEMORY_WRITE, KIND.MEMORY_READ, KIND.MEMORY_QUERY]
    for row in rows:
        is_memory = row.event_type.value.startswith("MEMORY_")
        assert (row.memory_operation is not None) == is_memory
        assert (row.message_id is None) == (row.position_in_context is None) == is_memory


@pytest.mark.req("S3-13")
def test_each_request_is_preceded_by_its_context(tmp_path: Path) -> None:
    """Each message of a request is a row of its own; it is added once, and replayed later."""
    thread = converse(tmp_path)
    with InteractionLogger(folder=tmp_path) as log:
        rows = log.get_thread(thread)
    context: list[str | None] = []
    added: set[str | None] = set()
    for row in rows:
        if row.event_type in (KIND.MESSAGE_ADDED, KIND.CONTEXT_REPLAYED):
            assert row.position_in_context == len(context)
            assert (row.message_id in added) == (row.event_type is KIND.CONTEXT_REPLAYED)
            context.append(row.message_id)
        elif row.event_type is KIND.LLM_REQUEST:
            assert row.context_snapshot is not None
            assert row.context_snapshot.total_messages == len(context)
            assert (row.message_id, row.position_in_context) == (context[-1], len(context) - 1)
            added.update(context)
            context = []
    assert len(added) > 5
