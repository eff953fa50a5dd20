"""Slash commands for the structural actions of agents.

The user can run with a command every action that an agent can call. Such a command is logged as a
user message, runs at once, and is not checked by hooks.

The arguments of a new hook are a name and instructions, or only instructions. No word of the
instructions may be lost: `never push` must not create a hook `never` with the instructions `push`.
So the first word is the name only if it is written as one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

from harken.agents.action_schemas import ACTIONS, VERDICT
from harken.agents.agent import Agent, check_free, get_agent
from harken.agents.hooks.hook import Hook
from harken.agents.hooks.registry import BUILT_IN, get_hook_class
from harken.agents.names import free_name
from harken.agents.open_calls import has_open_calls
from harken.agents.tree.hook_action import hook_name
from harken.agents.tree.registry import RUN
from harken.agents.tree.user_command import UserAction, remove_hook, run_user_command
from harken.chat.commands.agent_paths import (
    build_agent_completer,
    find_agent,
    list_agent_names,
)
from harken.chat.commands.agents import iter_hook_summaries
from harken.chat.commands.arguments import ActionForm, split_named_arguments
from harken.chat.commands.base import (
    COMMANDS,
    Command,
    CommandContext,
    build_choice_completer,
    slash,
)
from harken.core.events import Reference
from harken.core.ids import AgentId, MessageId, parse_id_number
from harken.errors import ConfigError
from harken.world.result import InvalidArguments, ToolResult

_MARKED_PATTERN = re.compile(r'(?:"([^"\\]+)"|([^\s:"]+):)\s+(?=\S)')
_PLAIN_PATTERN = re.compile(r"(\w[\w.-]*)\s+(?=(\S))")
_BEGINS_PATTERN = re.compile(
    r"""(?xi: an? | all | allow | always | and | answer | any | ask | avoid | be | before | block
    | check | deny | do | don't | each | every | ensure | explain | forbid | for | give | if | in
    | keep | let | make | never | no | not | only | please | prefer | remember | reply | say | speak
    | stop | tell | the | think | use | warn | watch | when | whenever | write | you )"""
)
"""First words of an instruction that are not the name of a hook."""
WORDS, LETTERS = 3, 30
"""The maximum length of a name made from a text."""


def split_name_and_text(typed: str, used_names: Collection[str] = ()) -> tuple[str, str]:
    """Return the name and the instructions of a hook.

    The instructions are empty if only a name was typed.

    A name is followed by a sentence with a capital, or by a colon, or is quoted; it may contain a
    `-`, a `_` or a digit. Otherwise the name is made from the instructions. `used_names` are not
    generated.

    >>> split_name_and_text("critic Watch the tea."), split_name_and_text("critic: watch it")
    (('critic', 'Watch the tea.'), ('critic', 'watch it'))
    >>> (
    ...     split_name_and_text("Be brief."),
    ...     split_name_and_text("never push to main", ["never-push-to"]),
    ... )
    (('be-brief', 'Be brief.'), ('never-push-to (2)', 'never push to main'))
    >>> split_name_and_text("todo-reminder"), split_name_and_text("no-push do not push")
    (('todo-reminder', ''), ('no-push', 'do not push'))
    """
    typed = typed.strip()
    if match := _MARKED_PATTERN.match(typed):
        return match[1] or match[2], typed[match.end() :]
    plain = _PLAIN_PATTERN.match(typed)
    if plain is not None and _is_name(plain[1], plain[2]):
        return plain[1], typed[plain.end() :]
    if len(typed.split()) < 2:
        return typed, ""
    return free_name(_name_from_text(typed), used_names), typed


def _is_name(word: str, next_letter: str) -> bool:
    if any(char in "-_" or char.isdigit() for char in word):
        return True
    return word[0].islower() and _BEGINS_PATTERN.fullmatch(word) is None and next_letter.isupper()


def _name_from_text(text: str) -> str:
    """Return a name from the first words of a text."""
    words = re.findall(r"\w+", text.casefold())[:WORDS]
    name = "-".join(words)[:LETTERS].strip("-_")
    return name if "-" in name else f"rule-{name}".strip("-")


_OF_WATCHING = frozenset({"keep_note", "read_log", VERDICT})
"""Actions of hooks only: they answer questions of Harken, and the user has views of the log."""
COMMAND_OF: Mapping[str, str] = {
    **{name: name.replace("_", "") for name in ACTIONS if name not in _OF_WATCHING},
    "quit": "hooks",  # `/hooks remove NAME`; `/quit` ends the chat
}
"""The slash command for each action of agents."""
_OF_SESSION = frozenset({"compact", "export"})
"""Actions whose commands have options of their own, and stand with those of the session."""
_MEANINGS = {
    "task": "create a subagent; with prompt=... it answers at once",
    "discuss": "start a discussion between subagents",
    "terminate": "terminate a subagent and its subagents",
    "endo": "let a subagent answer; the agent becomes its hook",
    "clone": "copy a subagent, with its memory",
    "dump": "write an agent and its subagents to a file",
    "restore": "restore an agent from a file",
    "introduce": "introduce subagents to each other",
}
_PLANNING = "planning-mode"
_SWITCH = {"on": True, "true": True, "off": False, "false": False}
_NAMES_SUBAGENTS = frozenset({"subagent", "speakers", "listeners"})


def act(talk: CommandContext, command: str, doing: UserAction, agent: Agent | None = None) -> None:
    """Run an operation of the user on an agent, by default the primary one.

    Raises AgentBusy in the middle of a turn.
    """
    primary = talk.primary
    check_free(primary)
    talk.act(lambda: run_user_command(agent or primary, command.strip(), doing))


def owes_answer_since(agent: Agent, first: MessageId) -> bool:
    """Whether an agent owes an answer to a message that it received at or after this event.

    An agent that takes over a place answers the message about the move. Messages before that, such
    as the end of a discussion, it answers when it is asked to.
    """
    context = agent.session.context(agent.agent_id)
    message = next(
        (message for message in reversed(context) if getattr(message, "cause", None) is None), None
    )
    number = parse_id_number(getattr(message, "message_id", ""), "msg_")
    return (
        has_open_calls(agent)
        and number is not None
        and number >= (parse_id_number(first, "msg_") or 0)
    )


def _register_action(action: str) -> None:
    """Register the command of an action without special arguments."""
    form, name = ActionForm.of(ACTIONS[action]), COMMAND_OF[action]

    def run(talk: CommandContext, argument: str) -> None:
        arguments = form.arguments(argument)
        act(
            talk,
            f"/{name} {argument}",
            lambda agent, command: RUN[action](agent, command, arguments),
        )

    summary = ACTIONS[action].description.partition("\n")[0].rstrip(".")
    meaning = _MEANINGS.get(action, summary)
    completes = partial(_complete_names, form, action)
    COMMANDS[name] = Command(name, meaning, run, form.usage, group="agents", completes=completes)


def _complete_names(
    form: ActionForm, action: str, talk: CommandContext, before: Sequence[str]
) -> Iterable[str]:
    """Return names of subagents for an agent parameter, and the names of arguments."""
    bare = form.bare[len(before)] if len(before) < len(form.bare) else ""
    if bare in _NAMES_SUBAGENTS or (bare == "name" and action == "terminate"):
        return list_agent_names(talk, "subagents")
    if action == "restore" and bare == "path":
        return _files(talk)
    if action == "dump" and bare == "name":
        return list_agent_names(talk, "subagents")
    if before and bare not in ("file", "path"):
        properties = form.tool.parameters.get("properties", {})
        return [f"{name}=" for name in properties if name not in form.bare]
    return ()


def _files(talk: CommandContext) -> list[str]:
    """Return the files of the folder of the chat that may be dumps."""
    folder = talk.runtime.world.folder
    try:
        names = [] if folder is None else [path.name for path in folder.iterdir() if path.is_file()]
    except OSError:
        return []
    return sorted(name for name in names if not name.startswith(".") and " " not in name)


@slash(
    "hook",
    "install a hook on the agent, with instructions",
    ActionForm.of(ACTIONS["hook"]).usage.replace("NAME [INSTRUCTIONS]", "[NAME] INSTRUCTIONS"),
    group="agents",
    completes=partial(_complete_names, ActionForm.of(ACTIONS["hook"]), "hook"),
)
def _hook(talk: CommandContext, argument: str) -> None:
    form = ActionForm.of(ACTIONS["hook"])
    named_arguments, bare = split_named_arguments(form.names, argument)
    if bare.strip() and not named_arguments.keys() & set(form.bare):
        name, text = split_name_and_text(bare, [hook.name for hook in talk.primary.hooks])
        named_arguments |= {"name": name, **({"instructions": text} if text else {})}
        bare = ""
    arguments = form.validate(named_arguments, bare)
    act(talk, f"/hook {argument}", lambda agent, command: RUN["hook"](agent, command, arguments))


@slash(
    "talkwith",
    "talk to another agent, by name or path: editor/critic",
    "NAME",
    group="agents",
    completes=build_agent_completer("others"),
)
def _talk_with(talk: CommandContext, argument: str) -> None:
    agent_id = find_agent(talk, argument)
    if agent_id == talk.primary.agent_id:
        talk.print_text(f"you talk to {talk.primary.name}; other agents: {_others(talk)}")
        return
    if isinstance(get_agent(talk.primary, agent_id), Hook):
        raise ConfigError(f"{argument} is a hook in code: you cannot talk to it")
    arguments = ACTIONS["talk_with"].check({"name": "/".join(_path_to(talk, agent_id))})
    act(
        talk,
        f"/talkwith {argument}",
        lambda agent, command: RUN["talk_with"](agent, command, arguments),
    )


def _path_to(talk: CommandContext, agent_id: AgentId) -> list[AgentId]:
    """Return the ids on the path from the primary agent to a living agent: names may repeat."""
    path: list[AgentId] = []
    above: AgentId | None = agent_id
    while above is not None and above != talk.primary.agent_id:
        path.insert(0, above)
        above = talk.session.agents[above].parent
    return path


def _others(talk: CommandContext) -> str:
    return ", ".join(list_agent_names(talk, "others")) or "no other agent"


@slash(
    "meta",
    "let a hook answer; the agent becomes its subagent",
    "HOOK",
    group="agents",
    completes=build_agent_completer("hooks"),
)
def _meta(talk: CommandContext, argument: str) -> None:
    hooks = {hook.name: hook for hook in talk.primary.hooks}
    if argument not in hooks:
        able = [name for name, hook in hooks.items() if not isinstance(hook, Hook)]
        if not able:
            raise InvalidArguments(f"{talk.primary.name} has no hook that can answer")
        raise InvalidArguments(f"name a hook: {', '.join(able)}")
    if isinstance(hooks[argument], Hook):
        raise ConfigError(f"{argument} is a hook in code: it cannot answer")
    act(
        talk,
        f"/meta {argument}",
        lambda agent, command: RUN["meta"](agent, command, {}),
        hooks[argument],
    )


def _complete_hooks(talk: CommandContext, before: Sequence[str]) -> Iterable[str]:
    if not before:
        return ("add", "remove", *list_agent_names(talk, "everybody"))
    if [*before] == ["add"]:
        return (
            *BUILT_IN,
            *(() if talk.runtime.library.hooks is None else talk.runtime.library.hooks.names()),
        )
    return list_agent_names(talk, "hooks") if [*before] == ["remove"] else ()


@slash(
    "hooks",
    "list, add (by NAME or TEXT) or remove hooks",
    "[AGENT] | add [NAME] [TEXT] | remove NAME",
    group="agents",
    completes=_complete_hooks,
)
def _hooks(talk: CommandContext, argument: str) -> None:
    word, _, tail = argument.partition(" ")
    if word == "add":
        _add_hook(talk, argument, tail.strip())
    elif word == "remove":
        name = tail.strip()
        if not name:
            raise InvalidArguments(
                f"name a hook: {', '.join(list_agent_names(talk, 'hooks')) or 'none exists'}"
            )
        act(talk, f"/hooks {argument}", lambda agent, command: remove_hook(agent, command, name))
    else:
        agent_id = find_agent(talk, argument)
        lines = list(iter_hook_summaries(talk, agent_id))
        name = talk.session.agents[agent_id].name or agent_id
        talk.print_text("\n".join(lines) or f"{name} has no hooks")


def _add_hook(talk: CommandContext, argument: str, tail: str) -> None:
    """Install a registered hook by name, or a hook with instructions."""
    name, text = split_name_and_text(tail, [hook.name for hook in talk.primary.hooks])
    if not name:
        raise InvalidArguments(
            "no hook given; use /hooks add NAME, or /hooks add [NAME] INSTRUCTIONS"
        )
    if text and name in BUILT_IN:
        raise InvalidArguments(
            f"{name} is a built-in hook: give only its name, or choose another name for yours"
        )
    if name == _PLANNING and not text:
        act(talk, f"/hooks {argument}", _enable_plan)
        return
    if not text and talk.runtime.library.hooks is None:
        kind = get_hook_class(name, talk.runtime)
        act(talk, f"/hooks {argument}", lambda agent, command: _install(kind, name, agent, command))
        return
    hook_arguments = {"name": name, "instructions": text or f"hook:{name}"}
    arguments = ACTIONS["hook"].check(hook_arguments)
    act(talk, f"/hooks {argument}", lambda agent, command: RUN["hook"](agent, command, arguments))


async def _install(kind: type[Hook], name: str, agent: Agent, command: Reference) -> ToolResult:
    """Install a hook made of code on an agent. Raises InvalidArguments."""
    name = hook_name(agent, name, is_users=True)
    hook = kind(agent.session, runtime=agent.runtime)
    hook.install(agent, name, cause=[agent.state.birth, command])
    return ToolResult(f"Installed hook {name} on {agent.name}")


@slash(
    "plan",
    "planning mode: no changes until you agree",
    "[on|off]",
    group="agents",
    completes=build_choice_completer("on", "off"),
)
def _plan(talk: CommandContext, argument: str) -> None:
    from harken.agents.built_in.planning_mode import planning_hooks

    is_on = bool(planning_hooks(talk.primary))
    if argument in _SWITCH:
        act(talk, f"/plan {argument}", _enable_plan if _SWITCH[argument] else _disable_plan)
    elif not argument:
        how = "/plan off, or the approval of a plan, ends it" if is_on else "/plan on starts it"
        talk.print_text(f"planning mode is {'on' if is_on else 'off'}: {how}")
    else:
        raise InvalidArguments("expected on or off")


async def _enable_plan(agent: Agent, command: Reference) -> ToolResult:
    from harken.agents.built_in.planning_mode import start_planning

    start_planning(agent, command)
    return ToolResult("Planning mode is on: actions with changes are denied.")


async def _disable_plan(agent: Agent, command: Reference) -> ToolResult:
    from harken.agents.built_in.planning_mode import stop_planning

    was_on = stop_planning(agent, command)
    return ToolResult("Planning mode is off." if was_on else "Planning mode was not on.")


for _action, _name in COMMAND_OF.items():
    if _name not in COMMANDS and _action not in _OF_SESSION:
        _register_action(_action)
