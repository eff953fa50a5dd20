"""Opening: the agent to talk with, its session and all that they need, from what a person wants.

The one place where a chat's `World` and `Runtime` are built.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harken.agents.base import Agent, revive
from harken.agents.budget import Budget
from harken.agents.load import load_session
from harken.agents.runtime import OnChunk, Runtime
from harken.agents.smart import SmartAgent
from harken.cli.demo import MODEL_NAME, demo_model
from harken.cli.home import Home
from harken.errors import ConfigError, HarkenError, ScriptError, UnknownName
from harken.llm.base import Model, ModelResolver
from harken.llm.replay import ReplayModel
from harken.llm.resolve import resolve_model
from harken.session.session import Session
from harken.world.permissions import Mode, Permissions
from harken.world.tool import Tool
from harken.world.user import User
from harken.world.world import World

BUDGET = Budget(depth=8, live_subagents=64)
"""What a new session may become without asking: agents that make agents would not end."""
SYSTEM_PROMPT = "You are a helpful agent. You can create subagents and discuss with them."


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a person asks for on the command line."""

    model: str | None = None
    old: Path | None = None
    """The log of the session to go on with; None for a new one."""
    system_prompt: str | None = None
    permission: Mode = "ask"
    allowed: Sequence[Path] = ()
    """Folders beside the current one that agents may use."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A chat that can begin. `session` is closed by whoever opened it."""

    agent: Agent
    session: Session
    runtime: Runtime

    @property
    def primary(self) -> Agent:
        """The agent that the user talks with now."""
        return revive(self.session, self.session.state.primary or self.agent.agent_id, self.runtime)


def open_chat(
    home: Home,
    wish: Wish,
    *,
    user: User | None = None,
    on_chunk: OnChunk | None = None,
    tools: Sequence[Tool] = (),
) -> Opened:
    """Return the agent to talk with, of a new session or an old one.

    `user` is whom agents can ask. Raises ConfigError where no model is named, or what is named is
    not at hand, and what `load_session` raises.
    """
    old = wish.old
    if wish.model is None and old is None:
        raise ConfigError(
            "which model? Pass --model NAME; `harken models` lists what there is, "
            "`harken init` sets one up (or try `harken demo`)"
        )
    if old is not None and not (old.is_file() and old.stat().st_size):
        Session.load(old).close()  # says what is wrong with it
    find = model_finder(home)
    runtime = Runtime(
        model=chosen_model(find, wish.model),
        models=find,
        world=open_world(wish, user, tools),
        on_chunk=on_chunk,
    )
    root, session = load_session(
        old or home.new_session(),
        runtime=runtime,
        system_prompt=wish.system_prompt or SYSTEM_PROMPT,
        name="main",
        budget=BUDGET if old is None else None,
    )
    try:
        opened = Opened(root, session, runtime)
        check_agent(opened.primary)
    except BaseException:
        session.close()
        raise
    return opened


def open_world(wish: Wish, user: User | None, tools: Sequence[Tool]) -> World:
    """Return the world that the agents act on."""
    permissions = Permissions(mode=wish.permission)
    return World(tools, folder=Path.cwd(), user=user, permissions=permissions)


def model_finder(home: Home) -> ModelResolver:
    """Return what gives models by name, one a name; `replay:` takes sessions by id too."""

    @cache
    def find(name: str) -> Model:
        kind, _, file = name.partition(":")
        if name == MODEL_NAME:
            return demo_model()
        if kind == "replay" and file:
            return ReplayModel.load(home.find(file), name=name)
        return resolve_model(name)

    return find


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
