"""The table: what slash commands and keys act on, and where they put what they show.

It is what `harken.cli.commands` calls a `Talk`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harken.agents.base import Agent
from harken.agents.runtime import Runtime
from harken.cli.commands import Command, Doing, Onward
from harken.cli.opening import Opened
from harken.cli.screen.activity import Activity
from harken.cli.screen.calls import whole
from harken.cli.screen.piece import Rows
from harken.cli.screen.questions import Questions, preview_lines
from harken.cli.screen.stage import Stage
from harken.cli.screen.styled import Line, clean
from harken.cli.screen.telling import Teller
from harken.cli.screen.turns import Turns
from harken.core.ids import AgentId
from harken.session.session import Session
from harken.world.user import Wanted

HINT_S = 2.0


@dataclass(slots=True)
class Table:
    """Shows what the user asks the chat itself."""

    opened: Opened
    stage: Stage
    teller: Teller
    activity: Activity
    questions: Questions
    turns: Turns
    leave: Callable[[], None]
    """Ends the chat."""
    onward: Onward | None = None
    """Where the chat goes on when it has ended here; None: nowhere."""
    hinted: str = ""
    """What the status line says for a moment."""

    @property
    def session(self) -> Session:
        """The session that is talked about."""
        return self.opened.session

    @property
    def runtime(self) -> Runtime:
        """What its agents share."""
        return self.opened.runtime

    @property
    def doing(self) -> Mapping[AgentId, str]:
        """What busy agents are doing."""
        return {agent: doing.what for agent, doing in self.activity.agents.items()}

    def say(self, text: str) -> None:
        """Print lines of text."""
        self._print([[("", clean(line))] for line in text.split("\n")])

    def compact(self, instructions: str) -> None:
        """Let the agent sum up what it has in its context. Raises AgentBusy, ConfigError."""
        self.turns.compact(instructions)
        self.stage.refresh()

    @property
    def primary(self) -> Agent:
        """The agent that the user talks with."""
        return self.opened.primary

    @property
    def own(self) -> Mapping[str, Command]:
        """Commands of the user's own."""
        return {}

    def act(self, doing: Doing) -> None:
        """Do something with the agents; what came of it is told as it is logged.

        Raises AgentBusy.
        """

        async def act() -> str:
            await doing()
            return ""

        self.turns.work(act)
        self.stage.refresh()

    def send(self, text: str) -> None:
        """Say something to the agent, as if it had been typed."""
        if self.turns.running:
            self.turns.queued.add(text)
        else:
            self.turns.start(text)
        self.stage.refresh()

    def go_on(self, onward: Onward) -> None:
        """End this session and go on in another."""
        self.onward = onward
        self.leave()

    def quit(self) -> None:
        """End the chat."""
        self.leave()

    def hint(self, text: str) -> None:
        """Show something in the status line for a moment."""
        self.hinted = text
        self.stage.refresh()
        asyncio.get_running_loop().call_later(HINT_S, self._end_hint)

    def _end_hint(self) -> None:
        self.hinted = ""
        self.stage.refresh()

    def show_result(self) -> None:
        """Print the last result that was folded, whole."""
        entry = self.teller.last_folded
        if entry is None:
            self.hint("no result was folded")
        else:
            self._print(whole(entry.content))

    def show_preview(self) -> None:
        """Print all of what a question is about."""
        question = self.questions.current
        if question is not None and isinstance(question.asked, Wanted):
            self._print(preview_lines(question.asked))
            question.was_printed = True

    def _print(self, lines: list[Line]) -> None:
        self.stage.print([Rows("summary", lines, is_wide=True)])
