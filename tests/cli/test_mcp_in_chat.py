"""Prompts of MCP servers as commands: what is typed becomes their arguments."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from mcp.client._memory import InMemoryTransport

from harken import AgentRuntime
from harken.chat.commands.mcp import prompt_commands
from harken.world.mcp.prompts import Prompt, PromptArgument
from harken.world.mcp.server_config import McpServerConfig
from tests import mcp_sdk_server
from tests.agent_kit import open_stage, script_model
from tests.cli.chat_kit import Talking
from tests.mcp_kit import open_mcp_stage, run

BREW = Prompt(
    "tea",
    "brew",
    "mcp__tea__brew",
    "Brews something.",
    (PromptArgument("what", "", required=True), PromptArgument("cups", "", required=False)),
)


@pytest.fixture
def talk(tmp_path: Path) -> Talking:
    talk = Talking(open_stage(tmp_path, script_model(main=[])))
    talk.user_commands = prompt_commands([BREW])
    return talk


def test_a_prompt_is_listed_and_says_what_it_takes(talk: Talking) -> None:
    assert "/mcp__tea__brew  Brews something." in talk("/help")
    assert talk("/help mcp__tea__brew") == "/mcp__tea__brew WHAT [CUPS]\n  Brews something."
    assert [*talk.user_commands["mcp__tea__brew"].completes(talk, ["what=x"])] == ["cups="]
    assert talk("/mcp") == "prompts: /mcp__tea__brew"


@pytest.mark.req("S4-44")
def test_what_a_prompt_says_is_said_to_the_agent(tmp_path: Path) -> None:
    class There(Talking):
        """A chat that fetches where the servers are."""

        def fetch(self, doing: Callable[[], Coroutine[Any, Any, str]]) -> None:
            self.fetched = doing

    async def scene() -> None:
        server = McpServerConfig(name="lib", command="in this process")
        there = InMemoryTransport(mcp_sdk_server.make_server())
        async with open_mcp_stage(tmp_path, server, connect=lambda _: there) as here:
            runtime = AgentRuntime(model=script_model(main=[]), world=here.world)
            talk = There(open_stage(tmp_path, script_model(main=[]), runtime=runtime))
            talk.user_commands = prompt_commands(await here.mcp.prompts())
            talk('/mcp__lib__review "War and Peace" tone=warm')
            assert await talk.fetched() == "Review War and Peace, warm."
            assert talk("/mcp__lib__review") == "/mcp__lib__review: missing title: title tone"

    run(scene())


def test_one_whose_server_is_away_says_so(talk: Talking) -> None:
    assert "its server tea is not available any more" in talk("/mcp__tea__brew green")
    assert talk.sent == []
