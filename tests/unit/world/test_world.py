"""The protocol `World`: a class with tools and `call_tool` is enough for an agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken import AgentRuntime
from harken.core.messages import FunctionCall
from harken.world import World
from harken.world.result import ToolError, ToolResult
from harken.world.tool import Tool, ToolContext, tool
from tests.agent_kit import call, call_message, open_stage, script_model


@tool(name="look", reads_only=True)
def look(place: str) -> str:
    """Look at a place."""
    raise AssertionError("the world answers")


class MinimalWorld(World):
    """Answers each call with the place and the agent."""

    def __init__(self) -> None:
        self.tools: dict[str, Tool] = {"look": look}

    async def call_tool(self, action: FunctionCall, caller: ToolContext) -> ToolResult:
        return ToolResult(f"{caller.agent.name}: {action.arguments}")


def test_agent_acts_in_a_world_with_only_tools_and_calls(tmp_path: Path) -> None:
    model = script_model(main=[call_message(call("look", place="attic")), "Seen."])
    runtime = AgentRuntime(model=model, world=MinimalWorld())
    stage = open_stage(tmp_path, model, runtime=runtime)
    assert stage.ask("Look.") == "Seen."
    assert stage.result("c1")["content"] == 'main: {"place":"attic"}'


def test_worlds_share_no_state() -> None:
    first, second = MinimalWorld(), MinimalWorld()
    first.variables["tea"] = first.environment["TEA"] = "green"
    assert not second.variables
    assert not second.environment
    assert first.file_states is first.file_states is not second.file_states


def test_world_without_folder_has_no_instructions() -> None:
    with pytest.raises(ToolError, match=r"no folder to read instructions from: rules\.md"):
        MinimalWorld().read_instructions("rules.md")
