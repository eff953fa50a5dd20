"""Replay of sessions in which agents arm triggers, stop them, and are woken by them."""

from __future__ import annotations

from pathlib import Path

from harken import tool
from tests.agent_kit import ScriptedAnswer, Stage, call, call_message, run, script_model
from tests.trigger_kit import FakeTime, listen_to, open_trigger_stage, run_pending_tasks
from tests.unit.experiments.replay.test_check import same

ARM_TEA = call_message(call("wake_me", "w1", name="tea", when="in 10 min"))
ARM_CAKE = call_message(call("wake_me", "w2", name="cake", when="every 2 h"))
STOP_CAKE = call_message(call("triggers", "s1", stop=["cake"]))


def event_types(scene: Stage) -> list[str]:
    names = ("trigger_armed", "trigger_disarmed")
    return [row["event_type"] for row in scene.select_lines() if row["event_type"] in names]


def test_armed_stopped_and_ended_triggers_are_replayed(tmp_path: Path) -> None:
    time = FakeTime()
    answers: list[ScriptedAnswer] = [
        ARM_TEA,
        ARM_CAKE,
        "Armed.",
        STOP_CAKE,
        "Stopped.",
        "The tea is ready.",
    ]
    scene = open_trigger_stage(tmp_path, script_model(main=answers), time=time)

    async def day() -> None:
        async with listen_to(scene) as talk:
            await talk.say("Arm both.")
            await talk.say("No cake.")
            await time.advance(600)
            assert await talk.wait_for_unread()
            assert await talk.say() == "The tea is ready."

    run(day())
    scene.session.close()
    assert event_types(scene) == ["trigger_armed"] * 2 + ["trigger_disarmed"] * 2
    same(scene.log)


def test_trigger_that_ends_during_a_turn_is_replayed(tmp_path: Path) -> None:
    time = FakeTime()

    @tool
    async def work() -> str:
        """Work for 20 minutes."""
        await time.advance(1200)
        await run_pending_tasks()
        return "worked"

    answers: list[ScriptedAnswer] = [
        ARM_TEA,
        "Armed.",
        call_message(call("work")),
        "The tea was ready.",
    ]
    scene = open_trigger_stage(tmp_path, script_model(main=answers), time=time, tools=[work])

    async def day() -> None:
        async with listen_to(scene) as talk:
            await talk.say("Arm it.")
            assert await talk.say("Work.") == "The tea was ready."

    run(day())
    scene.session.close()
    assert event_types(scene) == ["trigger_armed", "trigger_disarmed"]
    same(scene.log)
