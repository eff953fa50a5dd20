"""A chat that commands can be tried on, without a terminal."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import harken.cli.commands.chat.slash_commands  # noqa: F401 - it registers the slash commands
from harken.agents.agent import Agent, get_agent
from harken.chat.commands.base import Command, Doing, NextSession, run_command
from harken.core.ids import AgentId
from harken.core.messages import text_of
from harken.errors import ModelError
from harken.world.shell.shell import Shell
from tests.agent_kit import Stage, run


class Talking:
    """What a chat gives to commands, and what they said."""

    def __init__(self, one: Stage) -> None:
        self.session, self.runtime, self.root = one.session, one.runtime, one.root
        self.shell = Shell(one.session.path.parent, one.session.path.parent / "outputs")
        self.said: list[str] = []
        self.ended = False
        self.doing: Mapping[AgentId, str] = {}
        self.user_commands: Mapping[str, Command] = {}
        self.keys = "  Ctrl-D  end"
        self.sent: list[str] = []
        self.onward: NextSession | None = None

    @property
    def primary(self) -> Agent:
        return get_agent(self.root, self.session.state.primary or "")

    def usable_models(self) -> Sequence[str]:
        return ["x/small", "x/large"]

    def act(self, doing: Doing) -> None:
        self.print_text(text_of(run(doing()).content))

    def send(self, text: str) -> None:
        self.sent.append(text)

    def fetch(self, doing: Callable[[], Coroutine[Any, Any, str]]) -> None:
        self.send(run(doing()))

    def go_on(self, onward: NextSession) -> None:
        self.onward = onward

    def print_text(self, text: str) -> None:
        self.said.append(text)

    def compact(self, instructions: str) -> None:
        raise ModelError(f"no tea: {instructions}")

    def lend(self, words: Sequence[str]) -> bool:
        return False

    def quit(self) -> None:
        self.ended = True

    def __call__(self, text: str) -> str:
        """Run a command that exists; return what it said."""
        self.said.clear()
        assert run_command(self, text)
        return "\n".join(self.said)
