"""People to talk with, for the tests of `task`, `discuss` and `terminate`."""

from pathlib import Path
from typing import Any

from harken.core.messages import Message, ToolCall
from tests.agent_kit import (
    ScriptedAnswer,
    ScriptModel,
    Stage,
    call,
    call_message,
    check_log,
    open_stage,
    request_texts,
    script_model,
)


def told_to(one: Stage, agent: str) -> list[list[str]]:
    """Return what each model call of an agent saw, without its system prompt."""
    assert isinstance(one.runtime.model, ScriptModel)
    return [request_texts(request)[1:] for request in one.runtime.model.requests_of(agent)]


def people(*names: str) -> Message:
    """Return a message that creates subagents."""
    return call_message(
        *(call("task", f"t{n}", name=n, instructions=f"You are {n}.") for n in names)
    )


def among(folder: Path, *steps: ToolCall, names: str = "Jack Jill", **parts: Any) -> Stage:
    """Return a stage where main made these people, then took these steps one by one."""
    every = {name: [f"{name} {n}" for n in range(1, 5)] for name in names.split()}
    lines: list[ScriptedAnswer] = [
        people(*names.split()),
        *(call_message(step) for step in steps),
        "Done.",
    ]
    one = open_stage(folder, script_model(main=lines, **{**every, **parts}))
    assert one.ask("Go.") == "Done."
    check_log(one.log)
    return one


def talk(_id: str = "c1", **arguments: Any) -> ToolCall:
    return call("discuss", _id, **arguments)
