"""Concurrent agents and calls are replayed in the recorded order."""

from __future__ import annotations

import asyncio
from pathlib import Path

from harken import (
    AgentRuntime,
    Comment,
    Hook,
    HookQuestion,
    LocalWorld,
    Ok,
    Tool,
    register_agent_class,
    tool,
)
from harken.agents.action_schemas import ACTIONS
from harken.agents.inputs import has_news
from harken.agents.runtime import ActionPolicy
from harken.core.event_types.spec import AgentSpec
from harken.core.verdict import Verdict
from harken.experiments.replay.player import ReplayExtras
from harken.llm.base import ModelRequest
from tests.agent_kit import ScriptedAnswer, Stage, call, call_message, open_stage, run, script_model
from tests.trigger_kit import listen_to, open_trigger_stage, wait_until
from tests.unit.agents.smart_hooks import guard
from tests.unit.agents.turn.test_wakeups import ring
from tests.unit.experiments.replay.test_check import look, same

TASK = call("task", "t", name="Ann", instructions="You are Ann.", prompt="Hi.")


def watched(folder: Path, parts: dict[str, list[ScriptedAnswer]], *tools: Tool) -> Stage:
    """Return a stage of `main`, which a smart hook watches."""
    model = script_model(guard=["OK"] * 20, **parts)
    runtime = AgentRuntime(
        model=model, world=LocalWorld(tools), policy=ActionPolicy(actions=ACTIONS)
    )
    scene = open_stage(folder, model, runtime=runtime)
    guard(scene, points=("action", "result"), spec=AgentSpec(keeps="notes"))
    return scene


@register_agent_class("test-slow-judge")
class Slow(Hook):
    """A hook that waits, and comments on every second call."""

    def begin(self) -> None:
        self.asked = 0

    def should_ask(self, question: HookQuestion) -> bool:
        return question.point == "action"

    async def judge(self, question: HookQuestion) -> Verdict:
        self.asked += 1
        await asyncio.sleep(0.002 * self.asked)
        return Ok() if self.asked % 2 else Comment(f"{self.asked}")


def test_call_ends_at_its_recorded_position_among_concurrent_ones(tmp_path: Path) -> None:
    has_answered = asyncio.Event()

    @tool(reads_only=True)
    async def wait() -> str:
        """Wait until Ann has called."""
        await asyncio.wait_for(has_answered.wait(), 5)
        return "waited"

    @tool
    async def put(place_name: str) -> str:
        """Put."""
        await asyncio.sleep(0.001)
        return place_name

    def answers(_: ModelRequest) -> str:
        has_answered.set()
        return "Hi."

    first_calls = call_message(
        call("wait", "w"), TASK, call("look", "l", place_name="x"), call("put", "p", place_name="y")
    )
    scene = watched(tmp_path, {"main": [first_calls, "Done."], "Ann": [answers]}, wait, put, look)
    scene.ask("Go.")
    scene.session.close()
    same(scene.log, ReplayExtras(tools=[wait, put, look]))


def test_slow_code_hook_is_slow_again(tmp_path: Path) -> None:
    first_calls = call_message(
        call("look", "l", place_name="x"), TASK, call("look", "m", place_name="y")
    )
    scene = open_stage(
        tmp_path, script_model(main=[first_calls, "Done."], Ann=["Hi."]), tools=[look]
    )
    Slow(scene.session, runtime=scene.runtime).install(scene.root, "slow")
    scene.ask("Go.")
    scene.session.close()
    same(scene.log, ReplayExtras(tools=[look]))


def test_parent_receives_the_result_of_a_woken_subagent_in_its_turn(tmp_path: Path) -> None:
    scenes: list[Stage] = []

    @tool
    async def work() -> str:
        """Ring, and work until the watcher has answered."""
        ring(scenes[0], "Watcher")
        await wait_until(lambda: has_news(scenes[0].root))
        return "worked"

    look_up = call_message(call("look", "l", place_name="bell"))
    model = script_model(
        main=[
            call_message(call("task", "t", name="Watcher")),
            "Made.",
            call_message(call("work")),
            "I know.",
        ],
        Watcher=[look_up, "It rings."],
        guard=["OK"] * 20,
    )
    scene = open_trigger_stage(tmp_path, model, tools=[work, look])
    scenes.append(scene)
    guard(scene, points=("input", "result"), spec=AgentSpec(keeps="notes"))

    async def day() -> None:
        async with listen_to(scene) as talk:
            await talk.say("Make one.")
            assert await talk.say("Work.") == "I know."

    run(day())
    scene.session.close()
    assert "[Watcher]: It rings." in scene.user_messages("main")
    same(scene.log, ReplayExtras(tools=[look]))
