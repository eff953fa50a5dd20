"""Slash commands of the chat, a function each, and their registry.

A text is a command if it begins with `/` and its first word is no path: `/etc/hosts is odd` is a
message. A unique prefix of a name is enough. `every_command` names the modules that register
commands.
"""

from __future__ import annotations

import io
import shlex
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import click
import msgspec

from harken.agents.agent import Agent
from harken.agents.runtime import AgentRuntime
from harken.core.arguments import format_alternatives, format_existing
from harken.core.ids import AgentId
from harken.errors import HarkenError
from harken.session.session import Session
from harken.terminal.text import one_line
from harken.world.permissions.mode import Mode
from harken.world.result import InvalidArguments, ToolResult

if TYPE_CHECKING:
    from harken.world.shell.shell import Shell

MODES: tuple[Mode, ...] = ("ask", "edits", "all", "plan")
SHELL = "!"
"""The prefix of a shell command of the user: short for `/shell`."""
Doing: TypeAlias = Callable[[], Coroutine[Any, Any, ToolResult]]


class CommandContext(Protocol):
    """The state and operations that are available to a command."""

    @property
    def session(self) -> Session:
        """The session of the chat."""
        ...

    @property
    def runtime(self) -> AgentRuntime:
        """The runtime that the agents share."""
        ...

    def usable_models(self) -> Sequence[str]:
        """Return names of models that can be used now."""
        ...

    @property
    def shell(self) -> Shell | None:
        """The shell for commands of the user."""
        ...

    @property
    def doing(self) -> Mapping[AgentId, str]:
        """A description of the current work of each busy agent."""
        ...

    def print_text(self, text: str) -> None:
        """Show lines of text to the user."""
        ...

    def compact(self, instructions: str) -> None:
        """Compact the context of the agent that the user talks with.

        Raises HarkenError if that is not possible now.
        """
        ...

    def quit(self) -> None:
        """End the chat."""
        ...

    @property
    def primary(self) -> Agent:
        """The agent that the user talks with."""
        ...

    @property
    def keys(self) -> str:
        """A description of the keys, one per line."""
        ...

    @property
    def user_commands(self) -> Mapping[str, Command]:
        """The commands that the user defined."""
        ...

    def act(self, doing: Doing) -> None:
        """Run an operation on the agents and report its result. Raises AgentBusy."""
        ...

    def send(self, text: str) -> None:
        """Send a text to the agent, as if it had been typed."""
        ...

    def fetch(self, doing: Callable[[], Coroutine[Any, Any, str]]) -> None:
        """Fetch a text, and send it to the agent. Raises AgentBusy."""
        ...

    def go_on(self, onward: NextSession) -> None:
        """End this session and continue in another."""
        ...

    def lend(self, words: Sequence[str]) -> bool:
        """Run another command of Harken on the terminal. Return False if there is no screen."""
        ...


class NextSession(msgspec.Struct, frozen=True, kw_only=True):
    """The session in which the chat continues."""

    log: Path | None = None
    """The log of a branch, which is continued. None: a new session."""
    ctx: str | None = None
    """The commit from which a new session starts. None: an empty context."""
    draft: str = ""
    """The initial text of the input."""
    note: str = ""
    """A message for the user."""


Action: TypeAlias = Callable[[CommandContext, str], None]
Completes: TypeAlias = Callable[[CommandContext, Sequence[str]], Iterable[str]]
"""Returns completions after these words of the command, independent of the next word's prefix."""
Group: TypeAlias = Literal["look", "agents", "session", "chat", "own"]
GROUPS: dict[Group, str] = {
    "look": "Inspect",
    "agents": "Agents",
    "session": "The session",
    "chat": "The chat",
    "own": "Your own",
}
"""The headings of the groups of commands."""


def _complete_nothing(_: CommandContext, __: Sequence[str]) -> Iterable[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Command:
    """A slash command."""

    name: str
    meaning: str
    action: Action
    arguments: str = ""
    group: Group = field(default="look", kw_only=True)
    completes: Completes = field(default=_complete_nothing, kw_only=True)


COMMANDS: dict[str, Command] = {}


def slash(
    name: str,
    meaning: str,
    arguments: str = "",
    *,
    group: Group = "look",
    completes: Completes = _complete_nothing,
) -> Callable[[Action], Action]:
    """Register a function as a command; it gets the context and the text after the name."""

    def enter(action: Action) -> Action:
        COMMANDS[name] = Command(name, meaning, action, arguments, group=group, completes=completes)
        return action

    return enter


def build_choice_completer(*words: str) -> Completes:
    """Return a completer for one of these words, as the first word only."""
    return lambda _, before: () if before else words


def is_command(text: str, user_commands: Mapping[str, Command]) -> bool:
    """Whether a text is a command of the chat, also if no such command exists."""
    if is_shell_command(text):
        return True
    word = text.split(maxsplit=1)[0] if text.startswith("/") else ""
    name = word.removeprefix("/")
    if not name or "/" in name:
        return False
    return find_command(name, user_commands) is not None or not Path(word).exists()


def is_shell_command(text: str) -> bool:
    """Whether a text is a shell command of the user. Several exclamation marks are not."""
    command = text.removeprefix(SHELL)
    return command != text and bool(command.strip()) and not command.startswith(SHELL)


def split_command(text: str) -> tuple[str, str]:
    """Return the name of a command, and the text after it.

    >>> split_command("/show 24"), split_command("!git log")
    (('show', '24'), ('shell', 'git log'))
    """
    if is_shell_command(text):
        return "shell", text.removeprefix(SHELL).strip()
    word, *tail = text.strip().split(maxsplit=1)
    return word.removeprefix("/"), "".join(tail).strip()


def find_command(name: str, user_commands: Mapping[str, Command]) -> Command | None:
    """Return the command with this name, or the only one with this prefix.

    A built-in one always answers to its name.
    """
    if name in COMMANDS or name in user_commands:
        return COMMANDS.get(name) or user_commands[name]
    matches = list_matching_commands(name, user_commands)
    return matches[0] if len(matches) == 1 else None


def list_matching_commands(name: str, user_commands: Mapping[str, Command]) -> list[Command]:
    """Return the commands that have this prefix."""
    every = chain(COMMANDS.values(), user_commands.values())
    return [command for command in every if command.name.startswith(name)]


def run_command(talk: CommandContext, text: str) -> bool:
    """Run a command, print its errors, and return whether the command exists."""
    name, argument = split_command(text)
    user_commands = talk.user_commands
    command = find_command(name, user_commands)
    if command is None:
        talk.print_text(_describe_unknown(name, user_commands))
        return False
    try:
        command.action(talk, argument)
    except InvalidArguments as error:
        talk.print_text(f"/{command.name}: {error}")
    except HarkenError as error:
        talk.print_text(str(error))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        talk.print_text(f"/{command.name}: {where}{error.strerror or error}")
    except Exception as error:  # noqa: BLE001 - the error is printed and the chat continues
        talk.print_text(f"/{command.name}: a bug in Harken ({type(error).__name__}: {error})")
    return True


def _describe_unknown(name: str, user_commands: Mapping[str, Command]) -> str:
    """Explain that a name is unknown or ambiguous, with suggestions."""
    several = list_matching_commands(name, user_commands)
    if several:
        mixed = any(command.name not in user_commands for command in several)
        names = [
            f"/{command.name}{' (your own)' * (mixed and command.name in user_commands)}"
            for command in several
        ]
        return f"/{name} is ambiguous: {' or '.join(names)}; type more letters"
    near = get_close_matches(name, [*COMMANDS, *user_commands], cutoff=0.5)
    hint = format_alternatives([f"/{name}" for name in near])
    return f"command /{name} not found{hint} (/help lists commands)"


def _complete_help(talk: CommandContext, before: Sequence[str]) -> Iterable[str]:
    return () if before else (*COMMANDS, *talk.user_commands)


@slash(
    "help",
    "list the commands, or show the usage of one",
    "[COMMAND]",
    group="chat",
    completes=_complete_help,
)
def _help(talk: CommandContext, argument: str) -> None:
    user_commands = talk.user_commands
    if argument:
        name = argument.removeprefix("/")
        command = find_command(name, user_commands)
        talk.print_text(
            _describe_unknown(name, user_commands) if command is None else _usage(command)
        )
        return
    every = [*COMMANDS.values(), *user_commands.values()]
    for group, heading in GROUPS.items():
        in_group = sorted(
            (command for command in every if command.group == group),
            key=lambda command: command.name,
        )
        if in_group:
            width = max(len(command.name) for command in in_group)
            lines = [
                f"  /{command.name:<{width}}  {one_line(command.meaning, 60)}"
                for command in in_group
            ]
            talk.print_text("\n".join([heading, *lines]))
    talk.print_text(f"Keys\n{talk.keys}\n/help COMMAND shows the usage of a command.")


def _usage(command: Command) -> str:
    return f"/{command.name} {command.arguments}".rstrip() + f"\n  {command.meaning}"


def split_arguments(talk: CommandContext, name: str, argument: str) -> list[str] | None:
    """Return the words after a command.

    If a quotation is not closed, print an error and return None.
    """
    try:
        return shlex.split(argument)
    except ValueError as error:
        talk.print_text(f"{name}: {error}")
        return None


def run_cli_command(command: click.Command, name: str, line: list[str]) -> str:
    """Return the output of a command of the command line, run with the home of this chat."""
    output = io.BytesIO()
    out = io.TextIOWrapper(output, "utf-8", errors="backslashreplace", write_through=True)
    parent = click.get_current_context(silent=True)
    with redirect_stdout(out), redirect_stderr(out):
        try:
            command.main(line, prog_name=name, standalone_mode=False, parent=parent)
        except click.ClickException as error:
            out.write(_format_usage_error(error))
        except SystemExit:
            pass  # after a --help
    text = output.getvalue().decode("utf-8", "backslashreplace").rstrip()
    return text if parent is None else text.replace(f"{parent.command_path} {name}", name)


def _format_usage_error(error: click.ClickException) -> str:
    """Format a usage error with the syntax of the command."""
    text = error.format_message().removesuffix(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return text
    if isinstance(context.command, click.Group):
        return text + format_existing(context.command.list_commands(context), "commands")
    takes = [piece for piece in context.command.collect_usage_pieces(context) if piece[0] != "["]
    return f"{text}; it takes: {' '.join(takes)}" if takes else f"{text}; see --help"
