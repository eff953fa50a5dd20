"""`/model`, `/clear` and `!command`: change the model or context, or run a shell command.

The user is not an agent: a command of the user runs outside the sandbox and without approval.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from harken.agents.agent import Agent, check_free
from harken.agents.smart_agent import SmartAgent
from harken.agents.tree.user_command import run_user_command
from harken.chat.commands.base import SHELL, CommandContext, NextSession, slash
from harken.chat.models import with_absolute_path
from harken.core.events import AgentConfigured, Reference
from harken.errors import ConfigError, ScriptError
from harken.terminal.event_lines import format_model_name
from harken.world.result import InvalidArguments, ToolResult


def _complete_model(talk: CommandContext, before: Sequence[str]) -> Iterable[str]:
    return () if before else talk.usable_models()


@slash(
    "model",
    "show or change the model of the agent",
    "[MODEL|NUMBER]",
    group="chat",
    completes=_complete_model,
)
def _model(talk: CommandContext, argument: str) -> None:
    agent = talk.primary
    if not isinstance(agent, SmartAgent):
        raise ConfigError(f"{agent.name} is a dumb agent and has no model")
    names = talk.usable_models() if not argument or argument.isdecimal() else []
    if not argument:
        numbered = [f"  {number} {name}" for number, name in enumerate(names, 1)]
        how = ["/model NUMBER or /model NAME selects one"] if names else []
        now = f"{agent.name} has {format_model_name(agent.state.language_model)}"
        talk.print_text("\n".join([now, *numbered, *how]))
        return
    check_free(agent)
    name = _model_by_number(names, argument) if argument.isdecimal() else argument
    try:
        model = agent.runtime.get_model(with_absolute_path(name))
    except ScriptError as error:
        raise ConfigError(str(error)) from None
    talk.act(partial(_set_model, agent, model.name))


def _model_by_number(names: Sequence[str], number: str) -> str:
    if not 0 < int(number) <= len(names):
        raise InvalidArguments(f"model number {number} not found; /model lists 1 to {len(names)}")
    return names[int(number) - 1]


async def _set_model(agent: SmartAgent, name: str) -> ToolResult:
    """Log that an agent continues with another model."""
    if name != agent.state.language_model:
        event = AgentConfigured(agent_id=agent.agent_id, language_model=name)
        agent.session.append(event)
        agent.session.sync()
    return ToolResult(f"{agent.name} now uses {format_model_name(name)}")


@slash("clear", "start a new session; this one is kept", group="session")
def _clear(talk: CommandContext, _: str) -> None:
    check_free(talk.primary)
    talk.go_on(NextSession(note=f"New session. The previous one is {talk.session.path.stem}."))


@slash(
    "shell",
    f"run a shell command (also {SHELL}COMMAND), for you and the agent",
    "COMMAND",
    group="chat",
)
def _shell(talk: CommandContext, argument: str) -> None:
    shell, agent = talk.shell, talk.primary
    if not argument:
        raise InvalidArguments("which command?")
    if shell is None:
        raise ConfigError("this chat has no shell")

    async def run(_: Agent, __: Reference) -> ToolResult:
        return ToolResult((await shell.run(argument)).rstrip("\n"))

    check_free(agent)
    talk.act(lambda: run_user_command(agent, f"{SHELL}{argument}", run))
