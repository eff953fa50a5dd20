"""The object on which slash commands and keys act, and to which they print.

It implements `harken.chat.commands.base.CommandContext`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from harken.agents.agent import Agent
from harken.agents.runtime import AgentRuntime
from harken.chat.commands.base import (
    Command,
    Doing,
    NextSession,
    find_command,
    run_command,
    split_command,
)
from harken.chat.commands.mcp import prompt_commands
from harken.chat.commands.prompts import prompt_file_commands
from harken.chat.models import list_models
from harken.chat.open_chat import OpenChat
from harken.chat.render.activity import AgentActivity, format_status
from harken.chat.render.agent_tree import LiveTree
from harken.chat.render.event_printer import EventPrinter, format_typed_command
from harken.chat.render.tool_calls import full_result
from harken.chat.running.turns import Turns
from harken.chat.screen.prompts import ScreenPrompts, preview_lines
from harken.chat.screen.terminal import ScreenTerminal
from harken.config.home import program_line
from harken.core.ids import AgentId
from harken.session.session import Session
from harken.terminal.pieces import TextRows
from harken.terminal.styled_text import Line, clean_text
from harken.world.shell.shell import Shell
from harken.world.user import ApprovalRequest

if TYPE_CHECKING:
    from harken.world.mcp.prompts import Prompt

HINT_S = 2.0
KEYS = """\
  Enter             send (while a turn runs: when it has ended)
  Alt-Enter Ctrl-J  a new line; so does \\ at the end of a line
  !command          run a shell command yourself; the agent reads what came of it
  @name, Tab        complete a name of a file, of an agent, of a command
  Up, Ctrl-R        what you said before
  Ctrl-C            stop the turn; on an empty line twice: end
  Esc               take back what waits; stop the turn
  Ctrl-G            the tree of agents, and what each does; again: away
  Ctrl-O            the last folded result, whole
  Ctrl-T            the last thought
  Ctrl-X Ctrl-E     write in your editor
  Ctrl-D            end"""
"""The keys of `key_bindings.py` and of prompt_toolkit's editor."""


class CommandHost(msgspec.Struct):
    """Implements the commands of the user for the screen."""

    chat: OpenChat
    stage: ScreenTerminal
    teller: EventPrinter
    activity: AgentActivity
    questions: ScreenPrompts
    turns: Turns
    leave: Callable[[], None]
    """Ends the chat."""
    tree: LiveTree | None = None
    prompts: Sequence[Prompt] = ()
    """The prompts of MCP servers, if already fetched."""
    onward: NextSession | None = None
    """The session in which the chat continues after this one. None if there is no such session."""
    hinted: str = ""
    """The temporary text of the status line."""
    _typed_command: str = ""
    """A typed command that is not printed yet; it is printed above its output."""

    @property
    def session(self) -> Session:
        """The session of the chat."""
        return self.chat.session

    @property
    def runtime(self) -> AgentRuntime:
        """The runtime that the agents share."""
        return self.chat.runtime

    def usable_models(self) -> Sequence[str]:
        """Return names of models that can be used now."""
        return list_models(self.chat.settings)

    @property
    def shell(self) -> Shell | None:
        """The shell for commands of the user."""
        return self.chat.shell

    @property
    def keys(self) -> str:
        """A description of the keys, one per line."""
        return KEYS

    @property
    def doing(self) -> Mapping[AgentId, str]:
        """A description of the current work of each busy agent."""
        busy = self.activity.agents.items()
        return {agent: format_status(doing, doing.since) for agent, doing in busy}

    def run(self, text: str) -> bool:
        """Run a typed command; return whether the command exists.

        It is printed above its output. A command that acts is a log entry, and printed as that.
        """
        name, _ = split_command(text)
        self._typed_command = text if find_command(name, self.user_commands) is not None else ""
        try:
            return run_command(self, text)
        finally:
            self._typed_command = ""

    def _print_typed_command(self) -> None:
        if self._typed_command:
            self.stage.print([format_typed_command(self._typed_command)])
            self._typed_command = ""

    def print_text(self, text: str) -> None:
        """Print lines of text."""
        self._print_typed_command()
        self._print([[("", clean_text(line))] for line in text.split("\n")])

    def compact(self, instructions: str) -> None:
        """Compact the context of the agent. Raises AgentBusy, ConfigError."""
        self.turns.compact(instructions)
        self._print_typed_command()
        self.stage.refresh()

    @property
    def primary(self) -> Agent:
        """The agent that the user talks with."""
        return self.chat.primary

    @property
    def user_commands(self) -> Mapping[str, Command]:
        """The commands that the user defined, and prompts of MCP servers."""
        return {
            **prompt_commands(self.prompts),
            **prompt_file_commands(self.chat.settings.prompt_files),
        }

    async def wake(self) -> None:
        """Wait for trigger events while the user types."""
        world = self.runtime.world
        await world.wait_ready()
        if world.mcp is not None:
            self.prompts = await world.mcp.prompts()

    def act(self, doing: Doing) -> None:
        """Run an operation on the agents; its result is printed when it is logged.

        Raises AgentBusy.
        """

        async def act() -> str:
            await doing()
            return ""

        self.turns.run_operation(act)
        self.stage.refresh()

    def send(self, text: str) -> None:
        """Send a text to the agent, as if it had been typed."""
        if self.turns.running:
            self.turns.queued.add(text)
        else:
            self.turns.start(text)
        self.stage.refresh()

    def fetch(self, doing: Callable[[], Coroutine[Any, Any, str]]) -> None:
        """Fetch a text, and send it to the agent. Raises AgentBusy."""

        async def fetch() -> str:
            self.turns.queued.messages.insert(0, await doing())
            return ""

        self.turns.run_operation(fetch)
        self._print_typed_command()
        self.stage.refresh()

    def go_on(self, onward: NextSession) -> None:
        """End this session and continue in another."""
        self.onward = onward
        self.leave()

    def lend(self, words: Sequence[str]) -> bool:
        """Run another command of Harken on the terminal until it ends."""
        self._print_typed_command()
        self.stage.lend([*program_line(), *words])
        return True

    def quit(self) -> None:
        """End the chat."""
        self.leave()

    def hint(self, text: str) -> None:
        """Show a temporary text in the status line."""
        self.hinted = text
        self.stage.refresh()
        asyncio.get_running_loop().call_later(HINT_S, self._end_hint)

    def _end_hint(self) -> None:
        self.hinted = ""
        self.stage.refresh()

    def toggle_tree(self) -> None:
        """Show or hide the tree of agents above the input."""
        if self.tree is not None:
            self.tree.toggle()
            self.stage.refresh()

    def scroll_tree(self, by: int) -> None:
        """Scroll the tree by so many pages."""
        if self.tree is not None:
            self.tree.scroll(by)
            self.stage.refresh()

    def show_result(self) -> None:
        """Print the last folded result in full."""
        entry = self.teller.last_folded
        if entry is None:
            self.hint("no folded result")
        else:
            self._print(full_result(entry.content))

    def show_preview(self) -> None:
        """Print the full preview of a question."""
        question = self.questions.current
        if question is not None and isinstance(question.request, ApprovalRequest):
            self._print(preview_lines(question.request))
            question.was_printed = True

    def _print(self, lines: list[Line]) -> None:
        self.stage.print([TextRows("summary", lines, is_wide=True)])
