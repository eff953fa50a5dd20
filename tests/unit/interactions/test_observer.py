"""Observers of the model layer, and a logger that receives every call through them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harken.agents.runtime import AgentRuntime, Observers
from harken.core.events import LlmRequest, LlmResponse
from harken.core.stream import Finish
from harken.errors import ModelError
from harken.interactions.observer import InteractionLogging
from harken.llm.observer import ObservedAnswer, ObservedCall
from harken.session.log.reader import iter_events
from harken.world.local_world import LocalWorld
from tests.agent_kit import call, call_message, open_stage, script_model
from tests.unit.interactions.kit import brief, logger


@dataclass
class RecordingObserver:
    """An observer that stores its notifications."""

    notes: list[str] = field(default_factory=list)

    def on_context_assembled(self, call: ObservedCall) -> None:
        in_log = [
            event for event in iter_events(call.session.path) if isinstance(event, LlmRequest)
        ]
        self.notes.append(f"assembled {len(call.request.messages)}, {len(in_log)} asked before")

    def on_llm_request(self, call: ObservedCall) -> None:
        last = [*iter_events(call.session.path)][-1]
        assert isinstance(last, LlmRequest)
        assert last.message_id == call.request_id
        self.notes.append(f"asked {call.model}")

    def on_llm_response(self, answer: ObservedAnswer) -> None:
        answer_text = None if answer.answer is None else answer.answer.content
        self.notes.append(f"{answer.response.stop_reason}: {answer_text}")


class FailingObserver:
    """An observer whose methods raise."""

    def on_context_assembled(self, call: ObservedCall) -> None:
        raise ValueError("no\nluck")

    def on_llm_request(self, call: ObservedCall) -> None:
        raise ZeroDivisionError

    def on_llm_response(self, answer: ObservedAnswer) -> None:
        raise OSError("full")


def runtime(model: Any, *observers: Any, failures: list[str] | None = None) -> AgentRuntime:
    notices = failures if failures is not None else []
    return AgentRuntime(
        model=model,
        world=LocalWorld(),
        observers=Observers(on_model_call=observers, on_notice=notices.append),
    )


@pytest.mark.req("S3-20")
def test_observer_receives_every_call_in_order(tmp_path: Path) -> None:
    notes = RecordingObserver()
    model = script_model(main=[call_message(call("nothing")), "Done."])
    scene = open_stage(tmp_path, model, runtime=runtime(model, notes))
    scene.ask("Do it.")
    assert notes.notes == [
        "assembled 2, 0 asked before",
        "asked play",
        "tool_use: None",
        "assembled 4, 1 asked before",
        "asked play",
        "end_turn: Done.",
    ]


@pytest.mark.req("S3-20")
def test_observer_receives_failures(tmp_path: Path) -> None:
    notes = RecordingObserver()
    model = script_model(main=[ModelError("overloaded")])
    scene = open_stage(tmp_path, model, runtime=runtime(model, notes))
    with pytest.raises(ModelError):
        scene.ask("Do it.")
    assert notes.notes[-1] == "error: None"


@pytest.mark.req("S3-20")
def test_observer_receives_cancelled_calls(tmp_path: Path) -> None:
    class Slow:
        name = "slow"

        async def stream(self, request: Any) -> Any:
            await asyncio.sleep(30)
            yield Finish(stop_reason="end_turn")

    notes = RecordingObserver()
    scene = open_stage(tmp_path, Slow(), runtime=runtime(Slow(), notes))

    async def cut_off() -> None:
        task = asyncio.create_task(scene.root.response("Do it."))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cut_off())
    assert notes.notes[-1] == "cancelled: None"


@pytest.mark.req("S3-20")
def test_failing_observer_is_reported_and_harmless(tmp_path: Path) -> None:
    failures: list[str] = []
    notes = RecordingObserver()
    model = script_model(main=["Done."])
    scene = open_stage(
        tmp_path, model, runtime=runtime(model, FailingObserver(), notes, failures=failures)
    )
    assert scene.ask("Do it.") == "Done."
    assert failures == [
        "an observer of model calls failed (FailingObserver): ValueError: no luck",
        "an observer of model calls failed (FailingObserver): ZeroDivisionError:",
        "an observer of model calls failed (FailingObserver): OSError: full",
    ]
    assert len(notes.notes) == 3


@pytest.mark.req("S3-20")
def test_logger_of_another_folder_receives_all_agents(tmp_path: Path) -> None:
    model = script_model(
        main=[call_message(call("task", name="Ann", prompt="Tea?"), text="I ask."), "Tea it is."],
        Ann=["Tea."],
    )
    with logger(tmp_path / "elsewhere") as log:
        logging = InteractionLogging(log)
        scene = open_stage(tmp_path, model, runtime=runtime(model, logging))
        scene.ask("What does Ann want?")
        assert [thread_info.thread_id for thread_info in log.list_threads()] == [
            "s/agent_001",
            "s/agent_002",
        ]
        assert set(logging.threads.values()) == {"s/agent_001", "s/agent_002"}
        with logger(tmp_path / "same") as same:
            same.sessions_folder.mkdir(parents=True)
            (same.sessions_folder / "s.jsonl").write_bytes(scene.log.read_bytes())
            for thread in ("s/agent_001", "s/agent_002"):
                assert brief(log, thread) == brief(same, thread)
        path = tmp_path / "elsewhere" / "sessions" / "s.jsonl"
        ends = [event for event in iter_events(path) if isinstance(event, LlmResponse)]
        assert [event.stop_reason for event in ends] == ["tool_use", "end_turn", "end_turn"]


@pytest.mark.req("S3-20", "S3-21")
def test_logger_of_the_same_folder_writes_nothing_twice(tmp_path: Path) -> None:
    model = script_model(main=["Done."])
    (tmp_path / "sessions").mkdir()
    with logger(tmp_path) as log:
        scene = open_stage(
            tmp_path / "sessions", model, runtime=runtime(model, InteractionLogging(log))
        )
        scene.ask("Do it.")
        assert [path.name for path in (tmp_path / "sessions").glob("*.jsonl")] == ["s.jsonl"]
        assert brief(log, "s/agent_001") == [
            ("MESSAGE_ADDED", "You are main.", 0),
            ("MESSAGE_ADDED", "Do it.", 1),
            ("LLM_REQUEST", "Do it.", 1),
            ("LLM_RESPONSE", "Done.", 2),
        ]
