"""`AgentRuntime`: the world, models, templates and agent kinds shared by a tree of agents."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, MutableSet, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from harken.agents.action_schemas import ACTIONS, BASIC_ACTIONS
from harken.agents.checkpointer import Checkpointer, Tell
from harken.agents.templates.skills import Skills
from harken.agents.templates.template import Templates
from harken.core.arguments import check_arguments, check_choices
from harken.core.ids import AgentId
from harken.core.secrets.redaction import Credentials
from harken.core.stream import Chunk
from harken.errors import ConfigError
from harken.llm.base import Model, ModelResolver
from harken.llm.context_windows import ContextWindows
from harken.llm.observer import ModelObserver
from harken.llm.resolve import caching_resolver
from harken.world.environment import visible_variables
from harken.world.world import World

OnChunk: TypeAlias = Callable[[AgentId, Chunk], None]
"""Called with every chunk of an answer while it streams. A chunk is provisional until it is logged.
"""
_logger = logging.getLogger("harken")


class HookRegistry(Protocol):
    """Creates hooks by name: built-in hooks and those described by files."""

    def create(self, name: str, watched: Any) -> Any:
        """Return a hook for an agent, before its birth.

        `install(watched, name)` installs it. Raises NameNotFound with the existing names,
        ConfigError, on a single line, for an unusable hook.
        """
        ...

    def names(self) -> Sequence[str]:
        """Return the names of all hooks."""
        ...

    def listing(self) -> str:
        """Format a line for each hook that agents may install: its name and description.

        Agents that have the action `hook` read it. An empty text lists none.
        """
        ...


def _create_world() -> World:
    from harken.world.local_world import LocalWorld  # noqa: PLC0415 - it imports all connections

    return LocalWorld()


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """How models are found by name, and the parameters of their requests."""

    resolver: ModelResolver = field(default_factory=caching_resolver)
    """Returns a model for a name such as `anthropic/...`."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Request parameters for the models of new agents (`max_tokens`, ...); their births log them.
    """
    by_model: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Parameters by model name, which override `parameters`."""
    allowed: Collection[str] | None = None
    """The models that agents may choose for new subagents and hooks, besides their own. None: those
    in `by_model`."""

    def list_allowed(self) -> list[str]:
        """Return the full names of the models that agents may choose."""
        names = self.by_model if self.allowed is None else self.allowed
        return [name for name in dict.fromkeys(names) if not {*"*?["} & {*name}]


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLibrary:
    """The definitions that the log records by name: classes, templates, hooks and skills."""

    kinds: Mapping[str, type] = field(default_factory=dict)
    """Agent classes by the name that logs record, besides the registered classes."""
    templates: Templates = field(default_factory=Templates)
    """The kinds of subagents that `task` finds by name."""
    hooks: HookRegistry | None = None
    """Creates hooks for templates, for the action `hook` and for the configuration. None: only
    built-in hooks."""
    skills: Skills | None = None
    """The skills that the tool `skill` reads and lists for agents."""


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class ActionPolicy:
    """What agents and the commands of their hooks may do by default."""

    actions: Collection[str] = BASIC_ACTIONS
    """The structural actions of agents without a tool list of their own."""
    environment: Callable[[Mapping[str, str]], Mapping[str, str]] = visible_variables
    """Selects the environment variables that hook commands get; by default those that are not
    secret."""
    allowed_commands: MutableSet[str] | None = None
    """Digests of the hook commands that may run, even if a log names others. None allows all."""

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown action."""
        check_choices(self.actions, ACTIONS, "an action of agents")


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class ContextLimits:
    """When the context of an agent is compacted."""

    compact_at: float | None = 0.8
    """The share of the model's window that a context may take before its older part is replaced
    with a summary. None: compaction only on request."""
    windows: ContextWindows = field(default_factory=ContextWindows)
    """Context windows by model. An agent with an unlisted model is not compacted automatically,
    except when the provider rejects its context as too long."""

    def __post_init__(self) -> None:
        """Raise ConfigError for an invalid share."""
        if self.compact_at is not None and not 0 < self.compact_at <= 1:
            raise ConfigError(f"compact_at is a part above 0 and up to 1, not {self.compact_at}")


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class Observers:
    """Callbacks that watch agents and change nothing."""

    on_chunk: OnChunk | None = None
    on_model_call: Sequence[ModelObserver] = ()
    """Called for every model call. An observer that fails is reported and stops nothing."""
    on_notice: Tell | None = None
    """Called with notices that no event contains, such as a store that rejects commits. None: a
    warning of the standard library's `logging`."""


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRuntime:
    """The objects behind the names that the log records. A subagent gets its parent's runtime."""

    model: Model | str | None = None
    """The model of agents with its name or with none. `models` resolves a name (`anthropic/...`) at
    once; see `default_model`."""
    models: ModelSettings = field(default_factory=ModelSettings)
    """Resolves all other models by name."""
    world: World = field(default_factory=_create_world)
    library: AgentLibrary = field(default_factory=AgentLibrary)
    policy: ActionPolicy = field(default_factory=ActionPolicy)
    limits: ContextLimits = field(default_factory=ContextLimits)
    checkpoints: Checkpointer | None = None
    """Commits the contexts of agents to a store. None: only the log has them."""
    observers: Observers = field(default_factory=Observers)
    redact: Credentials | None = None
    """Removes credentials from the events of sessions that this runtime opens."""

    def __post_init__(self) -> None:
        """Resolve the name of a model and check values beyond their types.

        Raises ConfigError for a tool with the name of an action and for an unusable model.
        """
        if isinstance(self.model, str):
            object.__setattr__(self, "model", self.models.resolver(self.model))
        for name in ACTIONS:
            if name in self.world.tools:
                raise ConfigError(f"a tool cannot be named {name}: that is an action of agents")

    def parameters_for(self, model: str | None) -> dict[str, Any]:
        """Return the request parameters of a new agent with this model."""
        return {**self.models.parameters, **self.models.by_model.get(model or "", {})}

    def notify(self, notice: str) -> None:
        """Send a single-line notice to the user."""
        if self.observers.on_notice is not None:
            self.observers.on_notice(notice)
        else:
            _logger.warning("%s", notice)

    @property
    def default_model(self) -> Model | None:
        """The model of agents that name none: `model`, after its name was resolved."""
        assert not isinstance(self.model, str)  # __post_init__ resolved it
        return self.model

    def get_model(self, name: str | None) -> Model:
        """Return a model. Raises ConfigError if the name is missing or unknown."""
        default = self.default_model
        if default is not None and name in (None, default.name):
            return default
        if name is None:
            raise ConfigError("this agent has no model: pass one, such as scripted:FILE.yaml")
        return self.models.resolver(name)
