"""Callbacks of the model layer, and a logger that hears of every call through them."""

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
class Notes:
    """An observer that writes down what it is told."""

    heard: list[str] = field(default_factory=list)

    def on_context_assembled(self, call: ObservedCall) -> None:
        in_log = [one for one in iter_events(call.session.path) if isinstance(one, LlmRequest)]
        self.heard.append(f"assembled {len(call.request.messages)}, {len(in_log)} asked before")

    def on_llm_request(self, call: ObservedCall) -> None:
        last = [*iter_events(call.session.path)][-1]
        assert isinstance(last, LlmRequest)
        assert last.message_id == call.request_id
        self.heard.append(f"asked {call.model}")

    def on_llm_response(self, answer: ObservedAnswer) -> None:
        said = None if answer.answer is None else answer.answer.content
        self.heard.append(f"{answer.response.stop_reason}: {said}")


class Broken:
    """An observer that can do nothing."""

    def on_context_assembled(self, call: ObservedCall) -> None:
        raise ValueError("no\nluck")

    def on_llm_request(self, call: ObservedCall) -> None:
        raise ZeroDivisionError

    def on_llm_response(self, answer: ObservedAnswer) -> None:
        raise OSError("full")


def runtime(model: Any, *observers: Any, told: list[str] | None = None) -> AgentRuntime:
    notices = told if told is not None else []
    return AgentRuntime(
        model=model,
        world=LocalWorld(),
        observers=Observers(on_model_call=observers, on_notice=notices.append),
    )


@pytest.mark.req("S3-20")
def test_an_observer_is_told_of_every_call_in_order(tmp_path: Path) -> None:
    notes = Notes()
    model = script_model(main=[call_message(call("nothing")), "Done."])
    made = open_stage(tmp_path, model, runtime=runtime(model, notes))
    made.ask("Do it.")
    assert notes.heard == [
        "assembled 2, 0 asked before",
        "asked play",
        "tool_use: None",
        "assembled 4, 1 asked before",
        "asked play",
        "end_turn: Done.",
    ]


@pytest.mark.req("S3-20")
def test_an_observer_is_told_of_failures(tmp_path: Path) -> None:
    notes = Notes()
    model = script_model(main=[ModelError("overloaded")])
    made = open_stage(tmp_path, model, runtime=runtime(model, notes))
    with pytest.raises(ModelError):
        made.ask("Do it.")
    assert notes.heard[-1] == "error: None"


@pytest.mark.req("S3-20")
def test_an_observer_is_told_of_calls_that_are_cancelled(tmp_path: Path) -> None:
    class Slow:
        name = "slow"

        async def stream(self, request: Any) -> Any:
            await asyncio.sleep(30)
            yield Finish(stop_reason="end_turn")

    notes = Notes()
    made = open_stage(tmp_path, Slow(), runtime=runtime(Slow(), notes))

    async def cut_off() -> None:
        task = asyncio.create_task(made.root.response("Do it."))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cut_off())
    assert notes.heard[-1] == "cancelled: None"


@pytest.mark.req("S3-20")
def test_an_observer_that_fails_is_told_of_and_breaks_nothing(tmp_path: Path) -> None:
    told: list[str] = []
    notes = Notes()
    model = script_model(main=["Done."])
    made = open_stage(tmp_path, model, runtime=runtime(model, Broken(), notes, told=told))
    assert made.ask("Do it.") == "Done."
    assert told == [
        "an observer of model calls failed (Broken): ValueError: no luck",
        "an observer of model calls failed (Broken): ZeroDivisionError:",
        "an observer of model calls failed (Broken): OSError: full",
    ]
    assert len(notes.heard) == 3


@pytest.mark.req("S3-20")
def test_a_logger_elsewhere_gets_the_threads_of_all_agents(tmp_path: Path) -> None:
    model = script_model(
        main=[call_message(call("task", name="Ann", prompt="Tea?"), text="I ask."), "Tea it is."],
        Ann=["Tea."],
    )
    with logger(tmp_path / "elsewhere") as log:
        logging = InteractionLogging(log)
        made = open_stage(tmp_path, model, runtime=runtime(model, logging))
        made.ask("What does Ann want?")
        assert [one.thread_id for one in log.list_threads()] == ["s/agent_001", "s/agent_002"]
        assert set(logging.threads.values()) == {"s/agent_001", "s/agent_002"}
        with logger(tmp_path / "same") as same:
            same.sessions_folder.mkdir(parents=True)
            (same.sessions_folder / "s.jsonl").write_bytes(made.log.read_bytes())
            for thread in ("s/agent_001", "s/agent_002"):
                assert brief(log, thread) == brief(same, thread)
        path = tmp_path / "elsewhere" / "sessions" / "s.jsonl"
        ends = [one for one in iter_events(path) if isinstance(one, LlmResponse)]
        assert [one.stop_reason for one in ends] == ["tool_use", "end_turn", "end_turn"]


@pytest.mark.req("S3-20", "S3-21")
def test_a_logger_of_the_same_folder_writes_nothing_twice(tmp_path: Path) -> None:
    model = script_model(main=["Done."])
    (tmp_path / "sessions").mkdir()
    with logger(tmp_path) as log:
        made = open_stage(
            tmp_path / "sessions", model, runtime=runtime(model, InteractionLogging(log))
        )
        made.ask("Do it.")
        assert [one.name for one in (tmp_path / "sessions").glob("*.jsonl")] == ["s.jsonl"]
        assert brief(log, "s/agent_001") == [
            ("MESSAGE_ADDED", "You are main.", 0),
            ("MESSAGE_ADDED", "Do it.", 1),
            ("LLM_REQUEST", "Do it.", 1),
            ("LLM_RESPONSE", "Done.", 2),
        ]
