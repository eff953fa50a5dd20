"""Open a chat: the agent to talk with, its session, world, store and hooks.

All parts of a chat are created and connected in this module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from harken.agents.agent import Agent, get_agent
from harken.agents.agent_classes import registered_name
from harken.agents.built_in.changed_files import ChangedFiles
from harken.agents.checkpointer import Tell
from harken.agents.command_hooks.hook import NAME as COMMAND_HOOK
from harken.agents.command_hooks.hook import NOT_RUN, CommandHook, Commands, allow_commands
from harken.agents.load import load_session, start_from_commit
from harken.agents.runtime import (
    ActionPolicy,
    AgentLibrary,
    AgentRuntime,
    ContextLimits,
    ModelSettings,
    OnChunk,
)
from harken.agents.smart_agent import SmartAgent
from harken.agents.turn.wakeups import armed_triggers
from harken.chat.checkpoint_store import LOCK_TIMEOUT_S, CheckpointStore
from harken.chat.commands.prompts import prompt_file_notes
from harken.chat.first_agent import configure_from_template
from harken.chat.hook_errors import HookErrorLog
from harken.chat.models import (
    build_chat_prompt,
    build_model_resolver,
    choose_default_model,
    load_named_model,
)
from harken.chat.open_chat import OpenChat
from harken.chat.options import ChatOptions
from harken.chat.world import (
    build_permissions,
    build_user_shell,
    build_world_settings,
    list_rule_notes,
    open_world,
)
from harken.config.allowed_commands import AllowedCommands
from harken.config.home import Home, environment
from harken.config.identity import load_chat_identity
from harken.config.name_resolver import NameResolver
from harken.config.settings import Settings, load_settings
from harken.config.store import open_store
from harken.core import structs
from harken.core.event_types.spec import Budget
from harken.errors import ConfigError, HarkenError, NameNotFound
from harken.session.log.compressed import is_packed
from harken.session.session import Session, SessionOptions
from harken.terminal.text import program_name
from harken.tickets.tools import ticket_tools
from harken.world.environment import visible_variables
from harken.world.tool import Tool
from harken.world.user import User

BUDGET = Budget(depth=8, live_subagents=64)
"""The limits of a new session: without them, agents that create agents would not end."""


def open_chat(
    home: Home,
    wish: ChatOptions,
    *,
    user: User | None = None,
    on_chunk: OnChunk | None = None,
    on_notice: Tell | None = None,
    tools: Sequence[Tool] | None = None,
) -> OpenChat:
    """Return the agent to talk with, of a new or an existing session.

    `user` answers the questions of agents; `tools` replace the tools of this machine. A store that
    cannot be used does not prevent a chat: `notes` reports it. Raises ConfigError if no model is
    named or a named object is not available, and the errors of `load_session`.
    """
    old = wish.old
    settings = load_chat_settings(home, wish)
    name = wish.model if old is not None else settings.model or choose_default_model(settings)
    check_log_exists(old)
    find = build_model_resolver(home, settings)
    model = load_named_model(find, name)
    permissions = build_permissions(settings, home.folder)
    prompt = build_chat_prompt(home, settings, name)
    home.create_folders()
    with ExitStack() as opening:
        checkpoints = open_checkpoint_store(home, wish, settings)
        opening.callback(checkpoints.close)
        ctx = None if wish.ctx is None else NameResolver(home, checkpoints.get()).commit(wish.ctx)
        # The session is created after the options were validated.
        path = old or wish.log or home.create_log(wish.name)
        if old is None and wish.log is None:
            opening.callback(path.unlink, missing_ok=True)  # an unstarted session is deleted
        around = build_world_settings(home, wish, settings, path, tools, on_notice)
        around = structs.replace(around, more_tools=build_store_tools(wish, checkpoints))
        world = open_world(wish, settings, permissions, tools, around)
        if world.sources is not None:
            world.sources.ignore = (home.folder, path)
        world.user = user
        identity = wish.identity or load_chat_identity({}, environment(), settings.working_folder)
        runtime = build_runtime(settings)
        runtime = replace(
            runtime,
            policy=replace(runtime.policy, allowed_commands=AllowedCommands(home)),
            checkpoints=checkpoints.checkpoints(home, identity),
            model=model,
            models=replace(runtime.models, resolver=find),
            world=world,
            observers=replace(runtime.observers, on_chunk=on_chunk, on_notice=on_notice),
        )
        root, session = load_session(
            path,
            runtime=runtime,
            system_prompt=wish.system_prompt or (prompt.text if ctx is None else None),
            name="main",
            budget=BUDGET if old is None else None,
            options=build_session_options(wish, settings, checkpoints),
        )
        opening.callback(session.close)
        report_redactions(session, runtime.notify)
        hook_errors = HookErrorLog(home.folder, session, runtime.notify).start()
        opening.callback(hook_errors.close)
        if ctx is not None:
            start_from_commit(root, ctx)
        configure_root(root, settings, wish)
        messages = (*list_start_notes(wish, settings, checkpoints, root), *around.box.notes)
        has_own = old is None and ctx is None and not wish.system_prompt and prompt.note
        notes = (*messages, *([prompt.note] if has_own else ()), *list_trigger_notes(session, wish))
        shell = build_user_shell(settings, around)
        chat = OpenChat(
            root, session, runtime, settings, checkpoints.store, shell, notes, hook_errors
        )
        check_agent(chat.primary)
        opening.pop_all()
    return chat


def load_chat_settings(home: Home, wish: ChatOptions) -> Settings:
    """Load the settings of a chat in its folder. Raises ConfigError."""
    return load_settings(
        home,
        folder=wish.folder,
        model=wish.model,
        permission=wish.permission,
        claude_hooks=wish.claude_hooks,
    )


def open_checkpoint_store(home: Home, wish: ChatOptions, settings: Settings) -> CheckpointStore:
    """Open the store to which the chat commits."""
    return CheckpointStore.open(
        lambda: open_store(home, settings, address=wish.store, patience_s=LOCK_TIMEOUT_S)
    )


def build_store_tools(wish: ChatOptions, checkpoints: CheckpointStore) -> Sequence[Tool]:
    """Return the tools that use the store, of tickets and others. Raises StoreError without it."""
    tools = [*ticket_tools(checkpoints.get())] if wish.tickets else []
    return tools if wish.store_tools is None else [*tools, *wish.store_tools(checkpoints.get())]


def build_session_options(
    wish: ChatOptions, settings: Settings, checkpoints: CheckpointStore
) -> SessionOptions:
    """Return the options of the session; the folder and the template are for a new one."""
    return SessionOptions(
        resolver=checkpoints.resolve,
        folder=settings.working_folder,
        template=None if wish.template is None else wish.template.origin,
        redact=settings.credentials(),
    )


def report_redactions(session: Session, notify: Callable[[str], None]) -> None:
    """Notify the user of each new kind of credential that is not stored."""
    credentials, reported = session.options.redact, [""]
    if credentials is None:
        return

    def report(_: object) -> None:
        if credentials.notice != reported[0]:
            reported[0] = credentials.notice
            notify(credentials.notice)

    session.add_listener(report)


def list_start_notes(
    wish: ChatOptions, settings: Settings, checkpoints: CheckpointStore, root: Agent
) -> tuple[str, ...]:
    """Return the messages for the user at the start of a chat, such as about unusual hooks."""
    states = [root.session.agents[hook_id] for hook_id in root.state.hooks]
    names = [
        state.name or state.id
        for state in states
        if state.spec.kind != registered_name(ChangedFiles)
    ]
    watched = f"hooks of {root.name}: {', '.join(names)} (/hooks)" if names else ""
    scripts = [
        get_agent(root, state.id)
        for state in states
        if state.spec.kind == registered_name(CommandHook)
    ]
    foreign = [f"hook {hook.name}: {NOT_RUN}" for hook in scripts if _is_foreign(hook)]
    notes = (
        *foreign,
        wish.note,
        *settings.notes,
        *list_rule_notes(settings, root.runtime.world),
        *prompt_file_notes(settings.prompt_files),
        *checkpoints.notes,
        watched,
    )
    return tuple(filter(None, notes))


def _is_foreign(hook: Agent) -> bool:
    return isinstance(hook, CommandHook) and not hook.may_run


def check_log_exists(old: Path | None) -> None:
    """Raise ConfigError if the log is missing or empty."""
    if old is not None and not is_packed(old) and not (old.is_file() and old.stat().st_size):
        Session.load(old).close()


def configure_root(root: Agent, settings: Settings, wish: ChatOptions) -> None:
    """Install the hooks of the first agent, and in a new session its template."""
    if wish.old is None:
        ChangedFiles(root.session, runtime=root.runtime).install(root)
        watch_with_hooks(root, settings)
        configure_from_template(wish.template, root)
    watch_with_commands(root, settings, is_new=wish.old is None or wish.claude_hooks)


def watch_with_hooks(root: Agent, settings: Settings) -> None:
    """Install the configured hooks on an agent. Raises ConfigError."""
    for name in settings.use_hooks:
        if name == registered_name(ChangedFiles):
            continue  # the hook is already installed
        try:
            hook = settings.hooks.create(name, root)
        except NameNotFound as error:
            raise ConfigError(
                f"hooks.use in config.toml: {error}; `{program_name()} hooks` lists hooks"
            ) from None
        hook.install(root, name)


def watch_with_commands(root: Agent, settings: Settings, *, is_new: bool) -> None:
    """Install the command hooks of Claude Code's configuration, unless they are installed."""
    entries = settings.commands.entries
    if (
        entries
        and is_new
        and not any(isinstance(hook, CommandHook) and hook.may_run for hook in root.hooks)
    ):
        options = allow_commands(root.runtime, Commands(entries, settings.claude_may_allow))
        hook = CommandHook(root.session, runtime=root.runtime, options=options)
        hook.install(root, COMMAND_HOOK)


def build_runtime(settings: Settings) -> AgentRuntime:
    """Return the runtime of the agents, as configured."""
    return AgentRuntime(
        library=AgentLibrary(
            templates=settings.templates, hooks=settings.hooks, skills=settings.skills
        ),
        policy=ActionPolicy(
            actions=settings.actions,
            environment=partial(
                visible_variables, named=settings.pass_env, hide=settings.key_variables
            ),
        ),
        limits=ContextLimits(compact_at=settings.compact_at or None, windows=settings.windows),
        models=ModelSettings(
            parameters=settings.parameters,
            by_model=settings.model_parameters,
            allowed=[*filter(None, [settings.model]), *settings.model_parameters],
        ),
    )


def list_trigger_notes(session: Session, wish: ChatOptions) -> list[str]:
    """Return a note about the triggers of an existing session."""
    armed = armed_triggers(session) if wish.wakes else {}
    summary = ", ".join(
        f"{name} ({entry.trigger.description})" for (_, name, _), entry in armed.items()
    )
    return [f"Armed again: {summary}"] if summary else []


def check_agent(agent: Agent) -> None:
    """Raise ConfigError, before the first message, if its model or a hook is not available."""
    try:
        _ = agent.model if isinstance(agent, SmartAgent) else None
    except HarkenError as error:
        raise ConfigError(f"{error}; choose another model with --model") from None
    try:
        _ = agent.hooks
    except NameNotFound as error:
        raise ConfigError(f"{error}; resume with the program that registers it") from None
