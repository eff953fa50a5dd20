"""People to talk with, for the tests of `task`, `discuss` and `terminate`."""

from pathlib import Path
from typing import Any

from harken.core.messages import Message, ToolCall
from tests.agent_kit import Line, Play, Stage, call, calls, check_log, play, stage, told


def told_to(one: Stage, agent: str) -> list[list[str]]:
    """Return what each model call of an agent saw, without its system prompt."""
    assert isinstance(one.runtime.model, Play)
    return [told(request)[1:] for request in one.runtime.model.asked_of(agent)]


def people(*names: str) -> Message:
    """Return a message that creates subagents."""
    return calls(*(call("task", f"t{n}", name=n, instructions=f"You are {n}.") for n in names))


def among(folder: Path, *steps: ToolCall, names: str = "Jack Jill", **parts: Any) -> Stage:
    """Return a stage where main made these people, then took these steps one by one."""
    every = {name: [f"{name} {n}" for n in range(1, 5)] for name in names.split()}
    lines: list[Line] = [people(*names.split()), *(calls(step) for step in steps), "Done."]
    one = stage(folder, play(main=lines, **{**every, **parts}))
    assert one.ask("Go.") == "Done."
    check_log(one.log)
    return one


def talk(_id: str = "c1", **arguments: Any) -> ToolCall:
    return call("discuss", _id, **arguments)
