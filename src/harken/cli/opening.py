"""Opening: the agent to talk with, its session and all that they need, from what a person wants.

The one place where a chat's `World` and `Runtime` are built.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, partial
from pathlib import Path

from harken.agents.base import Agent
from harken.agents.budget import Budget
from harken.agents.checkpoints import Tell
from harken.agents.command_hooks.hook import NAME as COMMAND_HOOK
from harken.agents.command_hooks.hook import NOT_RUN, CommandHook, Commands, let_run
from harken.agents.conversation import Conversation
from harken.agents.hooks.changed_files import ChangedFiles
from harken.agents.load import load_session, start_from
from harken.agents.runtime import OnChunk, Runtime
from harken.agents.skills import skill_tool
from harken.agents.smart import SmartAgent
from harken.agents.templates import Template
from harken.agents.triggers import armed_triggers
from harken.cli.confined import Confined, confined, walls
from harken.cli.demo import MODEL_NAME, demo_model
from harken.cli.discovery import discover
from harken.cli.first_agent import make_from
from harken.cli.home import Home, environment, here
from harken.cli.imported import find_log, view_imported
from harken.cli.init import choose
from harken.cli.keeping import PATIENCE_S, Keeping
from harken.cli.let_run import LetRun
from harken.cli.local_zone import zone_name
from harken.cli.opened_store import open_store
from harken.cli.prompt import system_prompt
from harken.cli.settings import Settings, load_settings
from harken.cli.terminal import program
from harken.cli.turn_limit import MOST_CALLS
from harken.cli.webbed import web_tools
from harken.context.names import find as find_commit
from harken.core.events import TranscriptEntry
from harken.core.messages import text_of
from harken.errors import ConfigError, HarkenError, ScriptError, UnknownName
from harken.llm.base import Model, ModelResolver
from harken.llm.replay import Recording, ReplayModel
from harken.session.packed import is_packed
from harken.session.reader import events
from harken.session.session import Session, SessionOptions
from harken.store.base import Store
from harken.world.environment import shown
from harken.world.local import local_sources, local_tools
from harken.world.mcp.connections import Connections
from harken.world.mcp.progress import Told
from harken.world.mcp.servers import Server
from harken.world.mcp.surroundings import Surroundings
from harken.world.memory.notes import NotesMemory
from harken.world.memory.tool import memory_tool
from harken.world.permissions.permissions import Mode, Permissions
from harken.world.permissions.rules import Rules
from harken.world.shell.sandbox import Wanted
from harken.world.shell.shell import Shell
from harken.world.tool import Tool
from harken.world.triggers.tools import trigger_tools
from harken.world.user import User
from harken.world.world import World

BUDGET = Budget(depth=8, live_subagents=64)
"""What a new session may become without asking: agents that make agents would not end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a person asks for on the command line."""

    model: str | None = None
    old: Path | None = None
    """The log of the session to go on with; None for a new one."""
    system_prompt: str | None = None
    permission: Mode | None = None
    """None: as it is configured."""
    most_calls: int = MOST_CALLS
    """How often an agent may call its model in a turn that nobody watches."""
    ctx: str | None = None
    """The commit that a new session begins with."""
    store: str | None = None
    """The address of the service that commits go to; None: as it is configured."""
    allowed: Sequence[Path] = ()
    """Folders beside the current one that agents may use."""
    claude_hooks: bool = False
    """Whether hooks that Claude Code is configured with watch the agents, however it is configured
    here."""
    sandbox: Wanted | None = None
    """Whether commands run in a sandbox; None: as it is configured."""
    memory: Path | None = None
    """The folder of notes that agents remember with; None: they have no such tool."""
    note: str = ""
    """What the user is to be told first."""
    draft: str = ""
    """What stands in the input at the beginning."""
    template: Template | None = None
    """What the first agent of a new session is made from, besides its prompt and its model."""
    wakes: bool = False
    """Whether somebody listens to what happens outside, so that agents can be woken."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A chat that can begin. `session` is closed by whoever opened it."""

    agent: Agent
    session: Session
    runtime: Runtime
    settings: Settings
    store: Store | None = None
    """Where its commits go; None where it cannot be used."""
    notes: tuple[str, ...] = ()
    """What the user should be told at the beginning, a line each."""
    conversation: Conversation = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "conversation", Conversation(self.agent))

    def end(self, *, by_user: bool = False) -> None:
        """Commit what is pending, log that the session ended on purpose, and close all.

        by_user: whether the user typed that it shall end.
        """
        reason = "prompt_input_exit" if by_user else "other"
        for hook in self.primary.hooks:
            if isinstance(hook, CommandHook):
                asyncio.run(hook.session_ended(reason))
        if self.runtime.checkpoints is not None:
            self.runtime.checkpoints.finish(self.session, self.runtime.tell)
        self.session.end("chat")

    def close(self) -> None:
        """Close session, sockets and store. A second call does nothing."""
        self.session.close()
        checkpoints = self.runtime.checkpoints
        if checkpoints is not None and checkpoints.sockets is not None:
            checkpoints.sockets.close()
        if self.store is not None:
            self.store.close()

    def __enter__(self) -> Session:
        return self.session

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def primary(self) -> Agent:
        """The agent that the user talks with now."""
        return self.conversation.primary


def open_chat(
    home: Home,
    wish: Wish,
    *,
    user: User | None = None,
    on_chunk: OnChunk | None = None,
    on_notice: Tell | None = None,
    tools: Sequence[Tool] | None = None,
) -> Opened:
    """Return the agent to talk with, of a new session or an old one.

    `user` is whom agents can ask; `tools` stand in for those of this machine. A store that cannot
    be used is no reason not to talk: `notes` says so. Raises ConfigError
    where no model is named, or what is named is not at hand, and what `load_session` raises.
    """
    old = wish.old
    settings = load_settings(
        home, model=wish.model, permission=wish.permission, claude_hooks=wish.claude_hooks
    )
    name = wish.model if old is not None else settings.model or found_model(settings)
    check_there(old)
    find = model_finder(home, settings)
    model = chosen_model(find, name)
    permissions, own = permissions_of(settings, home.folder), prompt_for(home, name)
    home.make()
    with ExitStack() as opening:
        where = (wish.store or settings.store, settings.backing)
        kept = Keeping.opened(lambda: open_store(home, *where, patience_s=PATIENCE_S))
        opening.callback(kept.close)
        ctx = None if wish.ctx is None else find_commit(kept.need(), wish.ctx)
        path = old or home.new_session()  # what a person wrote is right: now there is a session
        if old is None:
            opening.callback(path.unlink, missing_ok=True)  # nobody looks for what did not begin
        around = around_of(home, wish, settings, path, tools, on_notice)
        world = open_world(wish, settings, permissions, tools, around)
        if world.sources is not None:
            world.sources.ignore = (home.folder, path)
        world.user = user
        runtime = replace(
            runtime_of(settings),
            let_run=LetRun(home),
            checkpoints=kept.checkpoints(home),
            model=model,
            models=find,
            world=world,
            on_chunk=on_chunk,
            on_notice=on_notice,
        )
        root, session = load_session(
            path,
            runtime=runtime,
            system_prompt=wish.system_prompt or (own if ctx is None else None),
            name="main",
            budget=BUDGET if old is None else None,
            options=SessionOptions(resolver=kept.resolve),
        )
        opening.callback(session.close)
        if ctx is not None:
            start_from(root, ctx)
        if old is None:
            ChangedFiles(session, runtime=runtime).install(root)
            watch_with_hooks(root, settings)
            make_from(wish.template, root)
        watch_with_commands(root, settings, is_new=old is None or wish.claude_hooks)
        said = (*notes_for(wish, settings, kept, root), *around.box.notes)
        notes = (*said, *armed_notes(session, wish))
        opened = Opened(root, session, runtime, settings, kept.store, notes)
        check_agent(opened.primary)
        opening.pop_all()
    return opened


def notes_for(wish: Wish, settings: Settings, kept: Keeping, root: Agent) -> tuple[str, ...]:
    """Return what the user should be told at the beginning, also which hooks are unusual."""
    states = [root.session.agents[one] for one in root.state.hooks]
    names = [one.name or one.id for one in states if one.spec.get("kind") != ChangedFiles.kind]
    watched = f"{root.name} is watched by {', '.join(names)} (/hooks)" if names else ""
    scripts = [root.sibling(one.id) for one in states if one.spec.get("kind") == CommandHook.kind]
    foreign = [f"hook {one.name}: {NOT_RUN}" for one in scripts if _is_foreign(one)]
    notes = (
        *foreign,
        wish.note,
        *settings.notes,
        *settings.own.notes,
        *kept.notes,
        watched,
    )
    return tuple(filter(None, notes))


def _is_foreign(hook: Agent) -> bool:
    return isinstance(hook, CommandHook) and not hook.is_let


def check_there(old: Path | None) -> None:
    """Raise what is wrong with a log that is not there, or empty."""
    if old is not None and not is_packed(old) and not (old.is_file() and old.stat().st_size):
        Session.load(old).close()


def watch_with_hooks(root: Agent, settings: Settings) -> None:
    """Let the hooks that are configured watch an agent. Raises ConfigError."""
    for name in settings.use_hooks:
        if name == ChangedFiles.kind:
            continue  # it watches already
        try:
            hook = settings.hooks.make(name, root)
        except UnknownName as error:
            raise ConfigError(
                f"hooks.use in config.toml: {error}; `{program()} hooks` says more"
            ) from None
        hook.install(root, name)


def watch_with_commands(root: Agent, settings: Settings, *, is_new: bool) -> None:
    """Let the hooks that Claude Code is configured with watch an agent, unless they do already."""
    entries = settings.commands.entries
    if (
        entries
        and is_new
        and not any(isinstance(one, CommandHook) and one.is_let for one in root.hooks)
    ):
        options = let_run(root.runtime, Commands(entries, settings.claude_may_allow))
        hook = CommandHook(root.session, runtime=root.runtime, options=options)
        hook.install(root, COMMAND_HOOK)


def runtime_of(settings: Settings) -> Runtime:
    """Return what the agents of a run share, as far as it is configured."""
    return Runtime(
        templates=settings.templates,
        hooks=settings.hooks,
        skills=settings.skills,
        actions=settings.actions,
        compact_at=settings.compact_at or None,
        windows=settings.windows,
        parameters=settings.parameters,
        model_parameters=settings.model_parameters,
        environment=partial(shown, named=settings.pass_env, hide=settings.key_variables),
    )


def armed_notes(session: Session, wish: Wish) -> list[str]:
    """Say what wakes the agents of an old session again."""
    armed = armed_triggers(session) if wish.wakes else {}
    said = ", ".join(f"{name} ({one.words})" for (_, name, _), one in armed.items())
    return [f"Armed again: {said}"] if said else []


def permissions_of(settings: Settings, *steering: Path) -> Permissions:
    """Return what agents may do without asking. Raises ConfigError for a rule that is none.

    steering: folders in which nothing is edited without asking.
    """
    rules = Rules.parse(allow=settings.allow, ask=settings.ask, deny=settings.deny)
    return Permissions(mode=settings.permission, rules=rules, steering=steering)


@dataclass(frozen=True, slots=True)
class Around:
    """What a world is opened in."""

    outputs: Path
    """Where output goes that is too long for a result."""
    box: Confined
    """How commands are run."""
    tell: Tell | None
    """Told what a person should know of MCP servers."""
    home: Home


def around_of(
    home: Home,
    wish: Wish,
    settings: Settings,
    path: Path,
    tools: Sequence[Tool] | None,
    tell: Tell | None,
) -> Around:
    """Return what the world of a session with this log is opened in."""
    outputs = home.folder / "outputs" / path.stem
    box = Confined()
    if tools is None:
        box = confined(home, settings, outputs=outputs, allowed=wish.allowed, wanted=wish.sandbox)
    return Around(outputs, box, tell, home)


def open_world(
    wish: Wish,
    settings: Settings,
    permissions: Permissions,
    tools: Sequence[Tool] | None,
    around: Around,
) -> World:
    """Return the world that the agents act on: the folder where we are. Raises ConfigError."""
    sources, web, box = None, None, around.box
    servers = settings.servers if tools is None else ()
    if tools is None:
        allowed, outputs = [*wish.allowed, *settings.allow_folders], around.outputs
        shell = Shell(
            here(), outputs, settings.key_variables, settings.pass_env, box.sandbox, box.refusal
        )
        tools = local_tools(
            here(),
            allowed=allowed,
            readable=settings.skills.folders,
            outputs=outputs,
            shell=shell,
        )
        more, web = web_tools(settings.web)
        tools = [*tools, skill_tool(settings.skills), *more]
        if wish.wakes:
            sources = local_sources(here(), allowed=allowed, outputs=outputs, shell=shell)
            sources.zone = zone_name()
            tools = [*tools, *trigger_tools(sources)]
    if wish.memory is not None:
        tools = [*tools, memory_tool(NotesMemory(wish.memory))]
    mcp = connections_of(servers, settings, around.outputs, around.tell, home=around.home)
    world = World(tools, folder=here(), permissions=permissions, mcp=mcp)
    world.sources, world.web = sources, web
    return world


def connections_of(
    servers: Sequence[Server],
    settings: Settings,
    outputs: Path,
    tell: Tell | None,
    *,
    home: Home,
) -> Connections:
    """Return the connections to MCP servers; none of them is started before it is needed."""
    around = Surroundings(
        folder=here(),
        outputs=outputs,
        environ=environment(),
        hide=settings.key_variables,
        sandbox=walls(home, settings, outputs),
        logins=home.logins_file,
        tell=tell or _unheard,
    )
    return Connections(servers, around=around, on_progress=Told(around.tell))


def _unheard(_: str) -> None:
    """Tell nobody."""


def found_model(settings: Settings) -> str:
    """Return the model to use where none is configured. Raises ConfigError where there is none."""
    choice = choose([one for one in discover(settings.providers.values()) if one.ready])
    if choice is None:
        raise ConfigError(
            "which model? Pass --model NAME; `harken models` lists what there is, "
            "`harken init` sets one up (or try `harken demo`)"
        )
    return choice.model


def prompt_for(home: Home, model: str | None) -> str:
    """Return the system prompt of a new chat; a recorded session is replayed with its own."""
    kind, _, file = (model or "").partition(":")
    log = find_log(home, file) if kind == "replay" else None
    recorded = None if log is None else recorded_prompt(log)
    return recorded or system_prompt(here(), datetime.now().astimezone().date())


def recorded_prompt(log: Path) -> str | None:
    """Return the system prompt with which the first agent of a session began."""
    for event in events(log):
        if isinstance(event, TranscriptEntry):
            return text_of(event.content) if event.role == "system" else None
    return None


def model_finder(home: Home, settings: Settings) -> ModelResolver:
    """Return what gives models by name, one a name; `replay:` takes sessions by id too."""
    resolve = settings.models()

    @cache
    def find(name: str) -> Model:
        kind, _, file = name.partition(":")
        if name == MODEL_NAME:
            return demo_model()
        if kind == "replay" and file:
            return _replay(home, file, name)
        return resolve(name)

    return find


def _replay(home: Home, session: str, name: str) -> ReplayModel:
    """Return the model that says what was said in a session, also in an imported one."""
    log = find_log(home, session)
    if log is not None:
        return ReplayModel.load(log, name=name)
    return ReplayModel(Recording.of(view_imported(home, session).events), name)


def anchored(name: str) -> str:
    """Return a scripted model's name with the whole path: a resume may come from elsewhere."""
    kind, _, file = name.partition(":")
    if kind == "scripted" and name != MODEL_NAME and Path(file).is_file():
        return f"{kind}:{Path(file).absolute()}"
    return name


def chosen_model(find: ModelResolver, name: str | None) -> Model | None:
    """Return the model of the command line. Raises ConfigError also for a bad script."""
    try:
        return find(anchored(name)) if name is not None else None
    except ScriptError as error:
        raise ConfigError(str(error)) from None


def check_agent(agent: Agent) -> None:
    """Raise ConfigError, before anything is said, where its model or a hook is not at hand."""
    try:
        _ = agent.model if isinstance(agent, SmartAgent) else None
    except HarkenError as error:
        raise ConfigError(f"{error}; name a model that is there with --model") from None
    try:
        _ = agent.hooks
    except UnknownName as error:
        raise ConfigError(f"{error}; go on with the program that registers it") from None
