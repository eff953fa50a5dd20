"""Settings: the configuration of a run, merged from all sources.

Sources in increasing precedence: built-in defaults, `config.toml` of the home, that of a trusted
project, the environment, the command line. This is the only code that reads them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from harken.agents.action_schemas import ACTIONS, BASIC_ACTIONS
from harken.agents.command_hooks.config import Hooks
from harken.agents.templates.prompt_file import PromptFiles
from harken.agents.templates.skills import Skills
from harken.agents.templates.template import Templates
from harken.config import claude_code
from harken.config.file import (
    ConfigFile,
    ProviderTable,
    StartTable,
    WebTable,
    read_config,
)
from harken.config.home import CONFIG, Home, current_folder, environment
from harken.config.mcp import (
    all_servers,
    describe_servers,
    disabled_servers,
    load_project_servers,
    load_user_servers,
)
from harken.config.store import StoreSettings, get_store_settings
from harken.config.trust import FOLDER, Project, Trust
from harken.core import structs
from harken.errors import ConfigError
from harken.llm.base import ModelResolver
from harken.llm.context_windows import ContextWindows
from harken.llm.providers import BUILT_IN, Provider
from harken.llm.resolve import caching_resolver
from harken.tickets.query import TicketFilter
from harken.tickets.start import StartCondition
from harken.tickets.ticket import TYPES, TicketType
from harken.world.mcp.server_config import MCP_JSON, McpServerConfig
from harken.world.permissions.mode import Mode
from harken.world.shell.sandbox import SandboxMode as Sandboxed

if TYPE_CHECKING:
    from harken.agents.tree.hook_file import HookFiles

AGENTS = "agents"
HOOKS = "hooks"
MODEL = "HARKEN_MODEL"
_COMMAND_LINE = "the command line"
_USER_SOURCES = (MODEL, _COMMAND_LINE)
"""Sources of the model by which a user overrides the files for one run."""
_PERMISSION_RANK: Mapping[Mode, int] = {"plan": 0, "ask": 1, "edits": 2, "all": 3}


class Settings(StoreSettings, frozen=True, kw_only=True):
    """The settings of a run."""

    model: str | None = None
    model_from: str = ""
    """The source of `model`, for a person to read."""
    permission: Mode = "ask"
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    """Permission rules such as `bash(git status*)`, those of the home first."""
    parameters: Mapping[str, Any] = msgspec.field(default_factory=dict)
    model_parameters: Mapping[str, Mapping[str, Any]] = msgspec.field(default_factory=dict)
    """By the full name of the model."""
    providers: Mapping[str, Provider] = msgspec.field(default_factory=lambda: BUILT_IN)
    """Providers with their keys; an empty key if there is none."""
    compact_at: float = 0.8
    """The fraction of the window at which a context is compacted; 0 disables compaction."""
    windows: ContextWindows = msgspec.field(default_factory=ContextWindows)
    allow_folders: tuple[Path, ...] = ()
    """Folders that tools may use in addition to the working folder."""
    sandbox: Sandboxed = "auto"
    """Whether commands run in a sandbox."""
    network: bool = False
    """Whether commands in the sandbox have network access."""
    pass_env: tuple[str, ...] = ()
    """Secret environment variables that the programs of agents get nevertheless."""
    web: WebTable = msgspec.field(default_factory=WebTable)
    """The search provider, and the hosts that agents may fetch from."""
    templates: Templates = msgspec.field(default_factory=Templates)
    actions: Collection[str] = tuple(ACTIONS)
    """The structural actions of agents that have no list of allowed tools."""
    skills: Skills = msgspec.field(default_factory=Skills)
    prompt_files: PromptFiles = msgspec.field(default_factory=PromptFiles)
    """Slash commands that the user, or a trusted project, wrote."""
    hook_folders: tuple[Path, ...] = ()
    """The folders of hook files, those of a trusted project first."""
    use_hooks: tuple[str, ...] = ()
    """Names of the hooks that watch the first agent of a new session, those of the home first."""
    claude_hooks: bool = False
    """Whether the hooks of the Claude Code settings are used."""
    claude_may_allow: bool = False
    """Whether an action that these hooks allow runs without asking the user."""
    commands: Hooks = msgspec.field(default_factory=Hooks)
    """The hooks of the Claude Code settings; none if they are not used."""
    servers: tuple[McpServerConfig, ...] = ()
    """MCP servers: the user's own first, then those of a trusted project."""
    starts: tuple[StartCondition, ...] = ()
    """The changes of tickets that start agents, besides those of reviews."""
    project: Project | None = None
    folder: Path | None = None
    """The folder of the run, if it is not that of the process."""
    notes: tuple[str, ...] = ()
    """Lines to print for the user: a project that is ignored, or that extends the permissions of
    agents."""

    @property
    def working_folder(self) -> Path:
        """The folder in which agents work. Raises ConfigError if it was deleted."""
        return self.folder or current_folder()

    @property
    def hooks(self) -> HookFiles:
        """Hooks by name: those of files, and those that are built in."""
        from harken.agents.tree.hook_file import HookFiles  # half of the start of most commands

        return HookFiles(self.hook_folders)

    @property
    def key_variables(self) -> frozenset[str]:
        """The environment variables that hold keys, also of built-in providers that a file changed.

        A user who configures `anthropic` as a server without a key may still have its key set.
        """
        providers = (*self.providers.values(), *BUILT_IN.values())
        search_keys = (self.web.key_env,) if self.web.key_env else ()
        return frozenset(
            (*(provider.key_env for provider in providers if provider.key_env), *search_keys)
        )

    def models(self, base: Path | None = None) -> ModelResolver:
        """Return a resolver of model names, with these providers, keys and prices."""
        return caching_resolver(base=base, providers=self.providers, prices=self.prices)


def load_settings(
    home: Home,
    *,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
    model: str | None = None,
    permission: Mode | None = None,
    claude_hooks: bool = False,
) -> Settings:
    """Load the settings of a run in `folder`. The other arguments come from the command line.

    Raises ConfigError, on one line, for an invalid file. An untrusted project is not read; `notes`
    says so, and names the permissions that the configuration of a trusted project extends.
    """
    environ = environment() if environ is None else environ
    project = Trust(home).find_project(folder or current_folder())
    user_file = home.folder / CONFIG
    user_config = read_config(user_file)
    settings = _apply_file(Settings(providers=BUILT_IN), user_config, user_file)
    mcp_servers: list[McpServerConfig] = []
    notes: list[str] = []
    folders, hook_folders = [home.folder / AGENTS], [home.folder / HOOKS]
    config, before = ConfigFile(), settings
    if project is not None and project.trusted:
        project_file, agents = project.config, project.folder / AGENTS
        for path in (project_file, agents, project.folder / HOOKS):
            _check_inside(path)
        config = _read_project_config(project_file, settings.providers)
        settings = _apply_file(settings, config, project_file)
        folders.insert(0, agents)
        hook_folders.insert(0, project.folder / HOOKS)
        mcp_servers, notes = load_project_servers(
            project.root, config, project_file, settings.key_variables, project.mcp_obstacle
        )
    servers, left_out = all_servers(
        load_user_servers(user_config, user_file), mcp_servers, disabled_servers(user_config)
    )
    if environ.get(MODEL, "").strip():
        settings = structs.replace(settings, model=environ[MODEL].strip(), model_from=MODEL)
    if model is not None:
        settings = structs.replace(settings, model=model, model_from=_COMMAND_LINE)
    settings = structs.replace(
        settings,
        permission=permission or settings.permission,
        claude_hooks=claude_hooks or settings.claude_hooks,
    )
    settings = structs.replace(settings, servers=servers)
    root = None if project is None else project.root
    note = describe_widening(config, before.permission, settings, mcp_servers, root)
    if project is not None:
        note = project.note(home, runs_commands=settings.claude_hooks) or note
    claude = claude_code.load_claude_agents(project, environ, commands=settings.claude_hooks)
    commands = claude_code.load_claude_hooks(project, environ) if settings.claude_hooks else Hooks()
    return structs.replace(
        settings,
        providers=add_keys(settings.providers, environ),
        templates=Templates(folders, [claude]),
        hook_folders=tuple(hook_folders),
        skills=claude_code.load_skills(project, home, environ),
        prompt_files=claude_code.commands(project, home, environ),
        commands=commands,
        project=project,
        folder=folder,
        notes=(*((note,) if note else ()), *notes, *left_out, *commands.notes),
    )


def add_keys(providers: Mapping[str, Provider], environ: Mapping[str, str]) -> dict[str, Provider]:
    """Return the providers with their keys from the environment, or an empty key if unset."""
    return {
        name: replace(provider, api_key=environ.get(provider.key_env, "").strip())
        if provider.key_env
        else provider
        for name, provider in providers.items()
    }


def _check_inside(path: Path) -> None:
    """Raise ConfigError if a path of a project is a link out of its folder."""
    if path.resolve().parent != path.parent:
        raise ConfigError(
            f"{path}: links outside its folder are not allowed; copy the target instead"
        )


def _read_project_config(file: Path, existing: Mapping[str, Provider]) -> ConfigFile:
    """Read the file of a trusted project.

    Raises ConfigError for settings that only the user's own file may have, such as the address to
    which a key is sent.
    """
    config = read_config(file)
    refused = [
        *(f"providers.{name} exists already" for name in config.providers if name in existing),
        *(
            f"providers.{n}.key_env would send a key"
            for n, p in config.providers.items()
            if p.key_env
        ),
        *(["prices would change the reported costs"] if config.prices else []),
        *(["redact would change what is stored"] if config.redact else []),
        *(
            ["store would send your conversations elsewhere"]
            if config.store.url or config.store.backing
            else []
        ),
        *(["tools.allow_folders would open your folders"] if config.tools.allow_folders else []),
        *(["hooks.claude_settings would run commands"] if config.hooks.claude_settings else []),
        *(["hooks.claude_may_allow would skip approvals"] if config.hooks.claude_may_allow else []),
        *(["tools.pass_env would pass on your secrets"] if config.tools.pass_env else []),
        *(["start would run agents"] if config.start else []),
        *(["web would choose the receiver of queries"] if config.web != WebTable() else []),
        *(["tools.network would give commands network access"] if config.tools.network else []),
        *(
            ["tools.sandbox would weaken the sandbox"]
            if config.tools.sandbox not in (None, "on")
            else []
        ),
    ]
    for reason in refused:
        raise ConfigError(f"{file}: {reason}; only {CONFIG} in your home folder may set it")
    return config


def describe_widening(
    config: ConfigFile,
    permission: Mode,
    found: Settings,
    servers: Sequence[McpServerConfig] = (),
    root: Path | None = None,
) -> str:
    """Describe on one line the permissions that a project's configuration extends, or return "".

    permission: the mode without the project. found: the settings with it. servers: those of the
    project, at `root`. The line is needed because a folder is trusted once, and its configuration
    may change later.

    >>> config = ConfigFile(permission="all", model="lab/small")
    >>> describe_widening(config, "ask", Settings(permission="all", model="lab/small"))
    "This project's .harken/config.toml: permission = all, model = lab/small."
    """
    parts: list[str] = []
    if (
        config.permission == found.permission
        and _PERMISSION_RANK[found.permission] > _PERMISSION_RANK[permission]
    ):
        parts.append(f"permission = {config.permission}")
    if rules := len(config.permissions.allow):
        parts.append(f"{rules} allow rule{'' if rules == 1 else 's'}")
    if config.model is not None and found.model_from not in _USER_SOURCES:
        parts.append(f"model = {config.model}")
    parts += [f"provider {name} at {item.base_url}" for name, item in config.providers.items()]
    parts += describe_servers((item for item in servers if item in found.servers), root)
    source = f"{FOLDER}/{CONFIG}"
    if any(item.origin.endswith(MCP_JSON) for item in servers):
        source = f"{source} and {MCP_JSON}"
    text = f"This project's {source}: {', '.join(parts)}." if parts else ""
    return " ".join(text.split())


def _apply_file(settings: Settings, config: ConfigFile, file: Path) -> Settings:
    """Return the settings, overridden by those of a file."""
    if config.model is not None:
        model = _resolve_script(config.model, file.parent)
        settings = structs.replace(settings, model=model, model_from=str(file))
    per_model, windows = dict(settings.model_parameters), dict(settings.windows.user_windows)
    for name, table in config.models.items():
        per_model[name] = {**per_model.get(name, {}), **table.parameters}
        if table.context_window is not None:
            windows[name] = table.context_window
    return structs.replace(
        settings,
        permission=config.permission or settings.permission,
        allow=(*settings.allow, *config.permissions.allow),
        ask=(*settings.ask, *config.permissions.ask),
        deny=(*settings.deny, *config.permissions.deny),
        parameters={**settings.parameters, **config.parameters},
        model_parameters=per_model,
        compact_at=settings.compact_at if config.compact_at is None else config.compact_at,
        windows=ContextWindows(windows),
        providers={**settings.providers, **_merge_providers(config.providers, settings.providers)},
        **get_store_settings(settings, config, file),
        allow_folders=(*settings.allow_folders, *_allowed_folders(config, file)),
        web=settings.web if config.web == WebTable() else config.web,
        actions=_restrict_actions(config.actions, settings.actions),
        use_hooks=tuple(dict.fromkeys([*settings.use_hooks, *config.hooks.use])),
        claude_hooks=config.hooks.claude_settings or settings.claude_hooks,
        claude_may_allow=config.hooks.claude_may_allow or settings.claude_may_allow,
        sandbox=config.tools.sandbox or settings.sandbox,
        network=settings.network if config.tools.network is None else config.tools.network,
        pass_env=(*settings.pass_env, *config.tools.pass_env),
        starts=(*settings.starts, *map(_build_start, config.start.items())),
    )


def _build_start(item: tuple[str, StartTable]) -> StartCondition:
    name, table = item
    types: Sequence[TicketType] | None = table.types or None
    if table.event == "ready" and types is None:
        # A finding is open as well; its ticket is the work, and returns to its assignee.
        types = [type_ for type_ in TYPES if type_ != "review_finding"]
    tickets = TicketFilter(
        types=None if types is None else tuple(types), labels=tuple(table.labels)
    )
    return StartCondition(name=name, event=table.event, template=table.template, tickets=tickets)


def _restrict_actions(
    value: str | Sequence[str] | None, available: Collection[str]
) -> Collection[str]:
    """Return the actions that a file allows. A file can only remove actions, not add them."""
    if value is None or value == "all":
        return available
    allowed = BASIC_ACTIONS if value == "basic" else value
    return tuple(name for name in available if name in allowed)


def _resolve_script(model: str, folder: Path) -> str:
    """Return a model name; the path of a script is relative to the file that names it."""
    kind, _, script = model.partition(":")
    if kind != "scripted":
        return model
    return f"{kind}:{folder.absolute() / Path(script).expanduser()}"


def _merge_providers(
    tables: Mapping[str, ProviderTable], existing: Mapping[str, Provider]
) -> dict[str, Provider]:
    """Return the providers of a file. Members that it omits keep their earlier values."""
    merged: dict[str, Provider] = {}
    for name, table in tables.items():
        base = existing.get(name, Provider(name=name, base_url=table.base_url))
        key_env = base.key_env if table.key_env is None else table.key_env or None
        merged[name] = replace(
            base,
            base_url=table.base_url,
            protocol=table.protocol or base.protocol,
            key_env=key_env,
            omit=base.omit if table.omit is None else tuple(table.omit),
            short_ids=base.short_ids if table.short_ids is None else table.short_ids,
        )
    return merged


def _allowed_folders(config: ConfigFile, file: Path) -> list[Path]:
    return [
        file.parent.absolute() / Path(folder).expanduser() for folder in config.tools.allow_folders
    ]
