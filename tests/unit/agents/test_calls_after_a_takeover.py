"""Calls of tools that had not begun when a hook took the agent's place are not run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harken import AgentRuntime, Conversation, LocalWorld, tool
from harken.agents.action_schemas import ACTIONS
from harken.agents.runtime import ActionPolicy
from harken.core.messages import Message
from harken.llm.base import ModelRequest
from tests.agent_kit import (
    ScriptedAnswer,
    Stage,
    call,
    call_message,
    check_log,
    open_stage,
    request_texts,
    run,
    script_model,
)
from tests.unit.agents.hook_kit import watch

OK = Message("assistant", "OK")


def open_act_stage(folder: Path, acted: list[str], *, at: str, reads_only: bool) -> Stage:
    """Return a stage whose hook takes the place of main when it is asked about a call `at`."""

    @tool(reads_only=reads_only)
    async def act(what: str) -> str:
        """Act."""
        await asyncio.sleep(0)
        acted.append(what)
        return f"acted {what}"

    def takes(request: ModelRequest) -> Message:
        text = request_texts(request)[-1]
        if text.startswith("You have taken the place of main"):
            return Message("assistant", "I take over.")
        is_asked = text.startswith("[action]") and at in text
        return call_message(call("meta", "m1")) if is_asked else OK

    hook = call("hook", "i1", name="h", instructions="Watch.")
    calls = [call("act", f"c{number}", what=f"step-{number}") for number in (1, 2, 3, 4)]
    main: list[ScriptedAnswer] = [call_message(hook), "Ready.", call_message(*calls), "Said."]
    answers: list[ScriptedAnswer] = [takes] * 20
    model = script_model(main=main, h=answers)
    runtime = AgentRuntime(
        model=model, policy=ActionPolicy(actions=ACTIONS), world=LocalWorld([act])
    )
    return open_stage(folder, model, runtime=runtime)


@pytest.mark.req("S4-38")
@pytest.mark.parametrize("reads_only", [False, True])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_calls_do_not_run_after_a_takeover(tmp_path: Path, number: int, reads_only: bool) -> None:
    acted: list[str] = []
    stage = open_act_stage(tmp_path, acted, at=f"step-{number}", reads_only=reads_only)
    talk = Conversation(stage.root)
    run(talk.say("Begin."))
    assert run(talk.say("Go.")) == "I take over."
    assert acted == [f"step-{n}" for n in range(1, number)]
    for n in range(1, 5):
        result = stage.result(f"c{n}", "main")["content"]
        expected = f"acted step-{n}" if n < number else "another agent has taken your place"
        assert result.endswith(expected)
    check_log(stage.log)


@pytest.mark.req("S4-38")
def test_a_call_that_waited_for_another_one_does_not_run_after_a_takeover(tmp_path: Path) -> None:
    is_taken = asyncio.Event()

    @tool(reads_only=True)
    async def look() -> str:
        """Look until another agent has the place."""
        await is_taken.wait()
        for _ in range(100):
            await asyncio.sleep(0)
        return "seen"

    @tool(reads_only=False)
    async def change() -> str:
        """Change something, after `look`."""
        return "changed"

    def takes(request: ModelRequest) -> Message:
        text = request_texts(request)[-1]
        if text.startswith("You have taken the place of main"):
            return Message("assistant", "I take over.")
        if "about to call task" not in text:
            return OK
        is_taken.set()
        return call_message(call("meta", "m1"))

    calls = [call("look", "c1"), call("task", "c2", name="Bob"), call("change", "c3")]
    main: list[ScriptedAnswer] = [
        call_message(call("hook", "i1", name="h", instructions="Watch.")),
        "Ready.",
        call_message(*calls),
    ]
    answers: list[ScriptedAnswer] = [takes] * 9
    model = script_model(main=main, h=answers)
    runtime = AgentRuntime(
        model=model,
        policy=ActionPolicy(actions=ACTIONS),
        world=LocalWorld([look, change]),
    )
    stage = open_stage(tmp_path, model, runtime=runtime)
    talk = Conversation(stage.root)
    run(talk.say("Begin."))
    guard = watch(stage)
    assert run(talk.say("Go.")) == "I take over."
    asked = [question.call.function.name for question in guard.asked if question.call is not None]
    assert asked == ["look"]
    assert stage.result("c3", "main")["closed"] == "moved"
    check_log(stage.log)
