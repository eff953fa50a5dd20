"""What the agents of one tree share: the world, models, templates, kinds of dumb agents."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, MutableSet, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from harken.agents.action_schemas import ACTIONS, BASIC
from harken.agents.checkpointer import Checkpointer, Tell
from harken.agents.templates.skills import Skills
from harken.agents.templates.template import Templates
from harken.core.arguments import check_arguments, check_choices
from harken.core.ids import AgentId
from harken.core.stream import Chunk
from harken.errors import ConfigError
from harken.llm.base import Model, ModelResolver
from harken.llm.context_windows import ContextWindows
from harken.llm.observer import ModelObserver
from harken.llm.resolve import one_per_name
from harken.world.environment import visible_variables
from harken.world.world import World

OnChunk: TypeAlias = Callable[[AgentId, Chunk], None]
"""Told of every piece of an answer while it streams. It is provisional until it is in the log."""
_unheard = logging.getLogger("harken")


class HookRegistry(Protocol):
    """Makes hooks by name: those that are built in, and those that files describe."""

    def make(self, name: str, watched: Any) -> Any:
        """Return a hook, an `Agent` that is not born yet, for an agent to be watched.

        `install(watched, name)` puts it there. Raises NameNotFound with the names that there are,
        ConfigError, on one line, for one that cannot be used.
        """
        ...

    def names(self) -> Sequence[str]:
        """Return the names that there are."""
        ...


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRuntime:
    """Passed from an agent to its subagents; the log records names, this gives the things."""

    model: Model | str | None = None
    """Used for agents whose model has this one's name, or none. A name (`anthropic/...`) is
    resolved by `models` at once; see `default_model`."""
    models: ModelResolver = field(default_factory=one_per_name)
    """Gives all other models, by name."""
    world: World = field(default_factory=World)
    kinds: Mapping[str, type] = field(default_factory=dict)
    """Classes of agents by the name that logs record, beside those that `register` knows."""
    templates: Templates = field(default_factory=Templates)
    """Kinds of subagents that `task` finds by name."""
    hooks: HookRegistry | None = None
    """Hooks that templates, `hook` and a configuration find by name; None: there is none."""
    skills: Skills | None = None
    """What the tool `skill` of the world reads: agents are told of those that there are."""
    environment: Callable[[Mapping[str, str]], Mapping[str, str]] = visible_variables
    """Which of our variables commands get that are hooks; by default those that are not secret."""
    allowed_commands: MutableSet[str] | None = None
    """Digests of the commands of hooks that may be run, whatever a log names; None: all may."""
    actions: Collection[str] = BASIC
    """The structural actions of agents that have no list of what they may use."""
    on_chunk: OnChunk | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """With which the models of new agents are asked (`max_tokens`, ...); their births log it."""
    model_parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The same for some models, by name; they count before those for all."""
    checkpoints: Checkpointer | None = None
    """Commits to a store what the agents understand; None: the log alone keeps it."""
    compact_at: float | None = 0.8
    """Which part of what its model reads at once an agent's context may take, before a summary
    takes the place of the older part; None: it is compacted only when somebody asks."""
    windows: ContextWindows = field(default_factory=ContextWindows)
    """How much each model reads at once. An agent whose model is not there is not compacted by
    itself, except where the provider refuses a context as too long."""
    observers: Sequence[ModelObserver] = ()
    """Told of every model call; one that fails is told of, and stops nothing."""
    on_notice: Tell | None = None
    """Told what a person should know and no event says, such as that a store refuses commits.
    None: it is a warning of the standard library's `logging`."""

    def __post_init__(self) -> None:
        """Resolve the name of a model, and check what no type says.

        Raises ConfigError for a tool with the name of an action, a share that is none, and a model
        that cannot be used; ValueError for an action that does not exist.
        """
        if isinstance(self.model, str):
            object.__setattr__(self, "model", self.models(self.model))
        check_choices(self.actions, ACTIONS, "an action of agents")
        if self.compact_at is not None and not 0 < self.compact_at <= 1:
            raise ConfigError(f"compact_at is a part above 0 and up to 1, not {self.compact_at}")
        for name in ACTIONS:
            if name in self.world.tools:
                raise ConfigError(f"a tool cannot be named {name}: that is an action of agents")

    def parameters_for(self, model: str | None) -> dict[str, Any]:
        """Return with which parameters a new agent asks the model of this name."""
        return {**self.parameters, **self.model_parameters.get(model or "", {})}

    def notify(self, notice: str) -> None:
        """Let a person know something that no event says, on one line."""
        if self.on_notice is not None:
            self.on_notice(notice)
        else:
            _unheard.warning("%s", notice)

    @property
    def default_model(self) -> Model | None:
        """The model of agents that name none: `model`, after its name was resolved."""
        assert not isinstance(self.model, str)  # __post_init__ resolved it
        return self.model

    def get_model(self, name: str | None) -> Model:
        """Return a model. Raises ConfigError where the name is none or unknown."""
        default = self.default_model
        if default is not None and name in (None, default.name):
            return default
        if name is None:
            raise ConfigError("this agent has no model: pass one, such as scripted:FILE.yaml")
        return self.models(name)
