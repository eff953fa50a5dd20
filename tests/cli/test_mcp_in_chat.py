"""Prompts of MCP servers as commands: what is typed becomes their arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.cli.mcp_in_chat import prompt_commands
from harken.world.mcp.prompts import Prompt, PromptArgument
from tests.agent_kit import play, stage
from tests.cli.talking import Talking

BREW = Prompt(
    "tea",
    "brew",
    "mcp__tea__brew",
    "Brews something.",
    (PromptArgument("what", "", required=True), PromptArgument("cups", "", required=False)),
)


@pytest.fixture
def talk(tmp_path: Path) -> Talking:
    talk = Talking(stage(tmp_path, play(main=[])))
    talk.own = prompt_commands([BREW])
    return talk


def test_a_prompt_is_listed_and_says_what_it_takes(talk: Talking) -> None:
    assert "/mcp__tea__brew  Brews something." in talk("/help")
    assert talk("/help mcp__tea__brew") == "/mcp__tea__brew WHAT [CUPS]\n  Brews something."
    assert [*talk.own["mcp__tea__brew"].completes(talk, ["what=x"])] == ["cups="]
    assert talk("/mcp") == "prompts: /mcp__tea__brew"


def test_one_whose_server_is_away_says_so(talk: Talking) -> None:
    assert "its server tea is not there any more" in talk("/mcp__tea__brew green")
    assert talk.sent == []
