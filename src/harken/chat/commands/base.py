"""Slash commands: what a user can ask the chat itself. One function each.

A text is a command where it begins with `/` and its first word is no path: `/etc/hosts is odd`
is something to say. A unique beginning of a name is enough. `every_command` names the
modules that enter them.
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

from harken.agents.agent import Agent
from harken.agents.runtime import AgentRuntime
from harken.core.ids import AgentId
from harken.errors import HarkenError
from harken.session.session import Session
from harken.terminal.text import one_line
from harken.world.permissions.permissions import Mode
from harken.world.result import InvalidArguments, ToolResult

if TYPE_CHECKING:
    from harken.world.shell.shell import Shell

MODES: tuple[Mode, ...] = ("ask", "edits", "all", "plan")
SHELL = "!"
"""Before a shell command that the user runs: short for `/shell`."""


Doing: TypeAlias = Callable[[], Coroutine[Any, Any, ToolResult]]


class CommandContext(Protocol):
    """What a command can see and do."""

    @property
    def session(self) -> Session:
        """The session that is talked about."""
        ...

    @property
    def runtime(self) -> AgentRuntime:
        """What its agents share."""
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
        """What busy agents are doing."""
        ...

    def say(self, text: str) -> None:
        """Show lines of text to the user."""
        ...

    def compact(self, instructions: str) -> None:
        """Let the agent that the user talks with sum up what it has in its context.

        Raises HarkenError where that cannot be now.
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
        """Which keys do what, a line each."""
        ...

    @property
    def own(self) -> Mapping[str, Command]:
        """Commands of the user's own."""
        ...

    def act(self, doing: Doing) -> None:
        """Do something with the agents, and tell what came of it. Raises AgentBusy."""
        ...

    def send(self, text: str) -> None:
        """Say something to the agent, as if it had been typed."""
        ...

    def fetch(self, doing: Callable[[], Coroutine[Any, Any, str]]) -> None:
        """Get a text from somewhere, and say it to the agent. Raises AgentBusy."""
        ...

    def go_on(self, onward: NextSession) -> None:
        """End this session and go on in another."""
        ...

    def lend(self, words: Sequence[str]) -> bool:
        """Let another command of Harken have the terminal until it ends; False: there is none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NextSession:
    """Where a chat goes on: in a new session."""

    ctx: str | None = None
    """The commit that it begins with; None: it begins anew."""
    draft: str = ""
    """What stands in the input then."""
    note: str = ""
    """What the user is told."""
    agent_id: AgentId | None = None
    """Whose model and instructions it has; None: those of whom the user talks with."""


Action: TypeAlias = Callable[[CommandContext, str], None]
Completes: TypeAlias = Callable[[CommandContext, Sequence[str]], Iterable[str]]
"""Returns what may come after these words of the command, whatever the next begins with."""
Group: TypeAlias = Literal["look", "agents", "session", "chat", "own"]
GROUPS: dict[Group, str] = {
    "look": "Look",
    "agents": "Act on the agents",
    "session": "The session",
    "chat": "The chat",
    "own": "Your own",
}
"""Under which headings commands are listed."""


def _nothing(_: CommandContext, __: Sequence[str]) -> Iterable[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Command:
    """A slash command."""

    name: str
    meaning: str
    action: Action
    arguments: str = ""
    group: Group = field(default="look", kw_only=True)
    completes: Completes = field(default=_nothing, kw_only=True)


COMMANDS: dict[str, Command] = {}


def slash(
    name: str,
    meaning: str,
    arguments: str = "",
    *,
    group: Group = "look",
    completes: Completes = _nothing,
) -> Callable[[Action], Action]:
    """Enter a function as a command; it is called with the talk and the words after the name."""

    def enter(action: Action) -> Action:
        COMMANDS[name] = Command(name, meaning, action, arguments, group=group, completes=completes)
        return action

    return enter


def choice(*words: str) -> Completes:
    """Return what completes one of these words, and nothing after it."""
    return lambda _, before: () if before else words


def is_command(text: str, own: Mapping[str, Command]) -> bool:
    """Whether a text is meant for the chat itself, also if there is no such command."""
    if is_shell_command(text):
        return True
    word = text.split(maxsplit=1)[0] if text.startswith("/") else ""
    name = word.removeprefix("/")
    if not name or "/" in name:
        return False
    return named_command(name, own) is not None or not Path(word).exists()


def is_shell_command(text: str) -> bool:
    """Whether a text is a shell command of the user; several exclamation marks are none."""
    command = text.removeprefix(SHELL)
    return command != text and bool(command.strip()) and not command.startswith(SHELL)


def split_command(text: str) -> tuple[str, str]:
    """Return the name of a command, and the words after it.

    >>> split_command("/show 24"), split_command("!git log")
    (('show', '24'), ('shell', 'git log'))
    """
    if is_shell_command(text):
        return "shell", text.removeprefix(SHELL).strip()
    word, *rest = text.strip().split(maxsplit=1)
    return word.removeprefix("/"), "".join(rest).strip()


def named_command(name: str, own: Mapping[str, Command]) -> Command | None:
    """Return the command with this name, or the only one that begins like this.

    A built-in one always answers to its name.
    """
    if name in COMMANDS or name in own:
        return COMMANDS.get(name) or own[name]
    found = beginning(name, own)
    return found[0] if len(found) == 1 else None


def beginning(name: str, own: Mapping[str, Command]) -> list[Command]:
    """Return the commands whose names begin like this."""
    every = chain(COMMANDS.values(), own.values())
    return [known for known in every if known.name.startswith(name)]


def run_command(talk: CommandContext, text: str) -> bool:
    """Run a command; return whether there is one. What goes wrong is said."""
    name, rest = split_command(text)
    own = talk.own
    command = named_command(name, own)
    if command is None:
        talk.say(_which(name, own))
        return False
    try:
        command.action(talk, rest)
    except InvalidArguments as error:
        talk.say(f"/{command.name}: {error}")
    except HarkenError as error:
        talk.say(str(error))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        talk.say(f"/{command.name}: {where}{error.strerror or error}")
    except Exception as error:  # noqa: BLE001 - the border: the chat goes on, nothing is lost
        talk.say(f"/{command.name}: a bug in Harken ({type(error).__name__}: {error})")
    return True


def _which(name: str, own: Mapping[str, Command]) -> str:
    """Say why a name means no command, and which it may mean."""
    several = beginning(name, own)
    if several:
        mixed = any(one.name not in own for one in several)
        named = [f"/{one.name}{' (your own)' * (mixed and one.name in own)}" for one in several]
        return f"/{name} may be {' or '.join(named)}: type more of it"
    near = get_close_matches(name, [*COMMANDS, *own], cutoff=0.5)
    meant = f"; did you mean {' or '.join(f'/{one}' for one in near)}?" if near else ""
    return f"there is no command /{name}{meant} (/help lists them)"


def _complete_help(talk: CommandContext, before: Sequence[str]) -> Iterable[str]:
    return () if before else (*COMMANDS, *talk.own)


@slash(
    "help",
    "what can be typed here; of one command, how",
    "[COMMAND]",
    group="chat",
    completes=_complete_help,
)
def _help(talk: CommandContext, rest: str) -> None:
    own = talk.own
    if rest:
        name = rest.removeprefix("/")
        known = named_command(name, own)
        talk.say(_which(name, own) if known is None else _usage(known))
        return
    every = [*COMMANDS.values(), *own.values()]
    for group, heading in GROUPS.items():
        shown = sorted((one for one in every if one.group == group), key=lambda one: one.name)
        if shown:
            width = max(len(one.name) for one in shown)
            lines = [f"  /{one.name:<{width}}  {one_line(one.meaning, 60)}" for one in shown]
            talk.say("\n".join([heading, *lines]))
    talk.say(f"Keys\n{talk.keys}\n/help COMMAND says what can be typed after it.")


def _usage(command: Command) -> str:
    return f"/{command.name} {command.arguments}".rstrip() + f"\n  {command.meaning}"


def words_of(talk: CommandContext, name: str, rest: str) -> list[str] | None:
    """Return what stands after a command; None, which is said, where a quotation has no end."""
    try:
        return shlex.split(rest)
    except ValueError as error:
        talk.say(f"{name}: {error}")
        return None


def printed(command: click.Command, name: str, line: list[str]) -> str:
    """Return what a command of the command line prints, with the home that was chosen there."""
    written = io.BytesIO()
    out = io.TextIOWrapper(written, "utf-8", errors="backslashreplace", write_through=True)
    parent = click.get_current_context(silent=True)
    with redirect_stdout(out), redirect_stderr(out):
        try:
            command.main(line, prog_name=name, standalone_mode=False, parent=parent)
        except click.ClickException as error:
            out.write(_misused(error))
        except SystemExit:
            pass  # after a --help
    text = written.getvalue().decode("utf-8", "backslashreplace").rstrip()
    return text if parent is None else text.replace(f"{parent.command_path} {name}", name)


def _misused(error: click.ClickException) -> str:
    """Say what is wrong with what was typed after a command, and what it takes instead."""
    text = error.format_message().removesuffix(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return text
    if isinstance(context.command, click.Group):
        return f"{text}; there is: {', '.join(context.command.list_commands(context))}"
    takes = [piece for piece in context.command.collect_usage_pieces(context) if piece[0] != "["]
    return f"{text}; it takes: {' '.join(takes)}" if takes else f"{text} (--help says more)"
