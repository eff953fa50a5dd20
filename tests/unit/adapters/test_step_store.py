"""`HarkenStepStore`: the contract of a step store, snapshots, resumed and forked runs."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Awaitable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai_harness.step_persistence import (
    ContinuableSnapshot,
    InMemoryStepStore,
    RunRecord,
    StepEvent,
    StepPersistence,
    StepStore,
    ToolEffectRecord,
    continue_run,
    fork_run,
)

from harken.adapters.pydantic_ai import HarkenHistory, HarkenStepStore
from harken.adapters.sessions import list_conversations
from harken.context.materialize import materialize
from harken.core.commits import CommitId
from harken.core.messages import text_of
from harken.store.fsck import fsck
from harken.store.memory import MemoryStore
from tests.unit.adapters.pydantic_kit import make_agent

T = TypeVar("T")
START = datetime(2026, 1, 1, tzinfo=UTC)


def run(work: Awaitable[T]) -> T:
    async def wait() -> T:
        return await work

    return asyncio.run(wait())


@pytest.fixture
def steps(tmp_path: Path) -> Iterator[HarkenStepStore]:
    with HarkenStepStore(tmp_path) as steps:
        yield steps


def messages(*texts: str) -> list[ModelMessage]:
    """Return prompts and answers in turn."""
    return [
        ModelRequest(parts=[UserPromptPart(text, timestamp=START)], timestamp=START)
        if index % 2 == 0
        else ModelResponse(parts=[TextPart(text)], timestamp=START)
        for index, text in enumerate(texts)
    ]


def snapshot(*texts: str, **members: Any) -> ContinuableSnapshot:
    options: dict[str, Any] = {"run_id": "r", "step_index": len(texts), "timestamp": START}
    return ContinuableSnapshot(**{**options, **members}, messages=messages(*texts))


def test_records_come_back_equal(steps: HarkenStepStore, tmp_path: Path) -> None:
    assert isinstance(steps, StepStore)
    record = RunRecord(
        run_id="r",
        conversation_id="c",
        parent_run_id="p",
        agent_name="Ann",
        metadata={"k": "v"},
        started_at=START,
        registration_id="x",
    )
    plain = RunRecord(run_id="r2", started_at=START - timedelta(seconds=1))
    event = StepEvent(
        run_id="r",
        kind="tool_call_failed",
        step_index=3,
        timestamp=START,
        conversation_id="c",
        parent_run_id="p",
        agent_name="Ann",
        tool_call_id="t",
        tool_name="f",
        error="boom",
        metadata={"k": "v"},
    )
    effect = ToolEffectRecord(
        tool_call_id="t", tool_name="f", run_id="r", status="started", started_at=START
    )
    run(steps.register_run(record))
    run(steps.register_run(plain))
    run(steps.append_event(event))
    run(steps.append_event(event))
    run(steps.record_tool_effect(effect))
    with HarkenStepStore(tmp_path) as other:
        for reader in (steps, other):
            assert run(reader.get_run(run_id="r")) == record
            assert run(reader.get_run(run_id="none")) is None
            assert run(reader.list_runs()) == [plain, record]
            assert run(reader.list_runs(conversation_id="c")) == [record]
            assert run(reader.list_runs(parent_run_id="p")) == [record]
            assert run(reader.list_runs(parent_run_id="p", conversation_id="d")) == []
            assert run(reader.list_events(run_id="r")) == [event, event]
            assert run(reader.list_events(run_id="none")) == []
            assert run(reader.list_unresolved_tool_effects(run_id="r")) == [effect]
            assert run(reader.get_tool_effect(run_id="r", tool_call_id="t")) == effect
            assert run(reader.get_tool_effect(run_id="r", tool_call_id="u")) is None


def test_an_effect_that_has_ended_is_resolved(steps: HarkenStepStore) -> None:
    started = ToolEffectRecord(tool_call_id="t", tool_name="f", run_id="r", status="started")
    ended = ToolEffectRecord(
        tool_call_id="t",
        tool_name="f",
        run_id="r",
        status="completed",
        ended_at=START,
        idempotency_key="k",
        effect_summary="sent",
    )
    run(steps.record_tool_effect(started))
    run(steps.record_tool_effect(ended))
    assert run(steps.list_unresolved_tool_effects(run_id="r")) == []
    assert run(steps.get_tool_effect(run_id="r", tool_call_id="t")) == ended


def test_a_repeated_key_writes_nothing(steps: HarkenStepStore, tmp_path: Path) -> None:
    event = StepEvent(run_id="r", kind="run_started", step_index=0, idempotency_key="0")
    with HarkenStepStore(tmp_path) as other:
        for store in (steps, other, steps):
            run(store.append_event(event))
            run(store.save_snapshot(snapshot("a", "b", idempotency_key="0:1:complete")))
        assert run(other.list_events(run_id="r")) == [event]
        assert len(run(other.list_snapshots(run_id="r"))) == 1
        run(other.append_event(StepEvent(run_id="r2", kind="run_started", step_index=0)))
        assert len(run(steps.list_events(run_id="r2"))) == 1


def test_snapshots_come_back_equal(steps: HarkenStepStore, tmp_path: Path) -> None:
    first, second = snapshot("a", "b"), snapshot("a", "b", "c", state="interrupted")
    empty = ContinuableSnapshot(run_id="empty", step_index=0, messages=[], timestamp=START)
    for value in (first, second, empty):
        run(steps.save_snapshot(value))
    with HarkenStepStore(tmp_path) as other:
        for reader in (steps, other):
            assert run(reader.latest_snapshot(run_id="r")) == first
            assert run(reader.latest_snapshot(run_id="r", include_interrupted=True)) == second
            assert run(reader.list_snapshots(run_id="r")) == [first]
            assert run(reader.list_snapshots(run_id="r", include_interrupted=True)) == [
                first,
                second,
            ]
            assert run(reader.latest_snapshot(run_id="empty")) == empty
            assert run(reader.latest_snapshot(run_id="none")) is None


@pytest.mark.parametrize(
    "histories",
    [
        [("a", "b"), ("a", "b", "c", "d"), ("a", "b", "c", "d")],
        [("a", "b", "c", "d"), ("x", "y"), ("x", "y", "z")],
        [("a", "b", "c", "d"), ("a", "b"), ("a", "b", "e")],
        [("a", "b", "c"), ("a", "b", "d"), ("a",)],
    ],
)
def test_any_history_can_follow_another_one(
    steps: HarkenStepStore, tmp_path: Path, histories: list[tuple[str, ...]]
) -> None:
    snapshots = [snapshot(*texts) for texts in histories]
    for value in snapshots:
        run(steps.save_snapshot(value))
    with HarkenStepStore(tmp_path) as other:
        assert run(other.list_snapshots(run_id="r")) == snapshots
        assert run(steps.list_snapshots(run_id="r")) == snapshots
        assert list(fsck(other._store)) == []


def test_a_request_that_is_sent_later_is_stored_once(steps: HarkenStepStore) -> None:
    before, after = snapshot("a", "b", "c"), snapshot("a", "b", "c", "d")
    request = before.messages[2]
    assert isinstance(request, ModelRequest)
    request.timestamp = None
    run(steps.save_snapshot(before))
    run(steps.save_snapshot(after))
    assert run(steps.list_snapshots(run_id="r")) == [before, after]
    ctx = CommitId(run(steps.find_commit(run_id="r")) or "")
    chain = steps._store.chain(ctx)
    assert [stored.commit.type for stored in chain] == ["delta", "delta"]
    texts = [text_of(message.content) for message in materialize(steps._store, ctx).messages]
    assert texts == ["a", "b", "c", "d"]


def test_a_run_that_continues_another_one_begins_with_its_commit(
    steps: HarkenStepStore, tmp_path: Path
) -> None:
    run(steps.save_snapshot(snapshot("a", "b", conversation_id="c")))
    run(steps.save_snapshot(snapshot("a", "b", "c", "d", conversation_id="c")))
    run(steps.save_snapshot(snapshot("a", "b", "x", run_id="fork", conversation_id="c")))
    forked = run(steps.find_commit(run_id="fork"))
    chain = steps._store.chain(CommitId(forked or ""))
    assert len(chain) == 2
    assert chain[1].commit.message_count == 2
    (session,) = list_conversations(steps._store, tmp_path)
    assert session.name == "pydantic-ai:c"
    assert session.title == "a"


def test_a_run_of_a_subagent_is_another_agent_of_the_session(
    steps: HarkenStepStore, tmp_path: Path
) -> None:
    run(steps.save_snapshot(snapshot("a", "b", conversation_id="c")))
    options = {"run_id": "sub", "parent_run_id": "r", "agent_name": "Bob", "conversation_id": "c"}
    run(steps.save_snapshot(snapshot("look", "seen", **options)))
    (session,) = list_conversations(steps._store, tmp_path)
    tips = {tip.agent: tip.ctx for part in session.parts for tip in part.report.tips}
    assert len(tips) == 2
    texts = [text_of(m.content) for m in materialize(steps._store, CommitId(tips["Bob"])).messages]
    assert texts == ["look", "seen"]
    (chain,) = [steps._store.chain(CommitId(tips["Bob"]))]
    assert [stored.commit.checkpoint for stored in chain] == ["spawn", "turn_boundary"]
    saved = run(steps.latest_snapshot(run_id="sub"))
    assert saved is not None
    assert saved.messages == messages("look", "seen")


def test_a_run_is_persisted_continued_and_forked(steps: HarkenStepStore) -> None:
    async def work() -> None:
        agent = make_agent(capabilities=[StepPersistence(store=steps)])
        result = await agent.run("the weather please", conversation_id="trip")
        (record,) = await steps.list_runs(conversation_id="trip")
        kinds = [event.kind for event in await steps.list_events(run_id=record.run_id)]
        assert kinds[0] == "run_started"
        assert kinds[-1] == "run_completed"
        assert "tool_call_completed" in kinds
        assert await steps.list_unresolved_tool_effects(run_id=record.run_id) == []
        history = await continue_run(steps, run_id=record.run_id)
        assert history == result.all_messages()
        again = await agent.run("thanks", message_history=history, conversation_id="trip")
        assert again.output == "echo thanks"
        forked = await fork_run(steps, run_id=record.run_id)
        await agent.run("otherwise", message_history=forked, conversation_id="trip")
        assert len(await steps.list_runs(conversation_id="trip")) == 3

    run(work())
    heads = steps._store.branches("pydantic-ai/trip/")
    ends = {
        text_of(materialize(steps._store, head).messages[-1].content) for head in heads.values()
    }
    assert ends == {"It is sunny in Rome.", "echo thanks", "echo otherwise"}
    assert list(fsck(steps._store)) == []


def test_it_keeps_what_the_store_in_memory_keeps(steps: HarkenStepStore) -> None:
    async def work(store: Any) -> list[Any]:
        agent = make_agent(capabilities=[StepPersistence(store=store)])
        await agent.run("the weather please")
        (record,) = await store.list_runs()
        events = await store.list_events(run_id=record.run_id)
        snapshots = await store.list_snapshots(run_id=record.run_id)
        return [
            [(event.kind, event.step_index, event.idempotency_key) for event in events],
            [(s.step_index, s.state, [m.kind for m in s.messages]) for s in snapshots],
        ]

    assert run(work(steps)) == run(work(InMemoryStepStore()))


def test_a_history_begins_with_the_last_snapshot_of_a_run(steps: HarkenStepStore) -> None:
    run(steps.save_snapshot(snapshot("a", "b", conversation_id="c")))
    at = run(steps.find_commit(run_id="r"))
    fork = run(HarkenHistory("d", store=steps._store).fork("e", at=at))
    assert run(fork.load()) == messages("a", "b")


def test_many_runs_of_one_conversation_lose_nothing(tmp_path: Path) -> None:
    async def work(store: HarkenStepStore, other: HarkenStepStore) -> None:
        await asyncio.gather(
            *(write((number % 2 and store) or other, f"r{number}") for number in range(8))
        )
        assert len(await store.list_runs(conversation_id="c")) == 8
        for number in range(8):
            assert len(await other.list_events(run_id=f"r{number}")) == 5

    async def write(store: HarkenStepStore, run_id: str) -> None:
        await store.register_run(RunRecord(run_id=run_id, conversation_id="c"))
        for index in range(5):
            await store.append_event(
                StepEvent(run_id=run_id, kind="model_request_started", step_index=index)
            )
            await store.save_snapshot(snapshot(run_id, run_id=run_id, conversation_id="c"))

    with HarkenStepStore(tmp_path) as store, HarkenStepStore(tmp_path) as other:
        run(work(store, other))
        assert list(fsck(store._store)) == []


def test_a_killed_run_leaves_its_steps(tmp_path: Path) -> None:
    program = f"""
import asyncio, os, signal
from pydantic_ai_harness.step_persistence import StepPersistence
from harken.adapters.pydantic_ai import HarkenStepStore
from tests.unit.adapters.pydantic_kit import make_agent
steps = HarkenStepStore({str(tmp_path)!r})
agent = make_agent(capabilities=[StepPersistence(store=steps, run_id="r")])
@agent.tool_plain
def stop() -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return ""
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.models.function import FunctionModel
def answer(messages, info):
    name = "weather" if len(messages) == 1 else "stop"
    return ModelResponse(parts=[ToolCallPart(name, {{"place": "Rome"}} if name == "weather" else {{}}, name)])
asyncio.run(agent.run("go", model=FunctionModel(answer)))
"""
    ran = subprocess.run([sys.executable, "-c", program], check=False)
    assert ran.returncode == -signal.SIGKILL
    with HarkenStepStore(tmp_path) as steps:
        (effect,) = run(steps.list_unresolved_tool_effects(run_id="r"))
        assert effect.tool_name == "stop"
        saved = run(steps.latest_snapshot(run_id="r"))
        assert saved is not None
        assert saved.messages[-1].parts[0].content == "sunny in Rome"  # type: ignore[union-attr]


def test_any_text_is_the_id_of_a_run() -> None:
    steps = HarkenStepStore(store=MemoryStore())
    for id_ in ("a/b c", "x" * 500, "%", "..", "Grüße"):
        run(steps.append_event(StepEvent(run_id=id_, kind="run_started", step_index=0)))
        assert len(run(steps.list_events(run_id=id_))) == 1
        run(steps.save_snapshot(snapshot("a", run_id=id_, conversation_id=id_)))
        assert run(steps.latest_snapshot(run_id=id_)) is not None
    steps.close()
    with pytest.raises(RuntimeError, match="step store is closed"):
        run(steps.list_runs())
