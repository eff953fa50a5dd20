"""The world of a chat: its folder, tools, MCP servers and permissions.

Web tools are part of it if they are configured and installed.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from harken.agents.action_schemas import ACTIONS
from harken.agents.built_in.websearch import websearch_tool
from harken.agents.checkpointer import Tell
from harken.agents.templates.skills import skill_tool
from harken.chat.options import ChatOptions
from harken.chat.sandbox import ShellSandbox, build_sandbox, build_shell_sandbox
from harken.config.file import WebTable
from harken.config.home import Home, environment
from harken.config.local_zone import zone_name
from harken.config.settings import Settings
from harken.core.arguments import format_suggestion
from harken.errors import ConfigError
from harken.world.local import local_tools, local_triggers
from harken.world.local_world import LocalWorld
from harken.world.mcp.host import McpHost
from harken.world.mcp.server_config import McpServerConfig
from harken.world.mcp.servers import McpServers
from harken.world.mcp.timeout import ProgressReporter
from harken.world.memory.notes import NotesMemory
from harken.world.memory.tool import memory_tool
from harken.world.permissions.pattern import compile_pattern
from harken.world.permissions.permissions import Permissions
from harken.world.permissions.rules import PermissionRules
from harken.world.sensitive_paths import user_paths
from harken.world.shell.sandbox import user_homes
from harken.world.shell.shell import Shell, ShellLimits
from harken.world.tool import Tool
from harken.world.triggers.tools import trigger_tools
from harken.world.web.address import NetworkPolicy
from harken.world.web.download import Downloads, is_installed
from harken.world.web.fetch import fetch_tool
from harken.world.web.search import BRAVE, Brave, SearchProvider, Searxng, Web
from harken.world.world import World


def build_web_tools(table: WebTable) -> tuple[list[Tool], Web | None]:
    """Return `fetch`, and `websearch` if a search provider is configured, and its web.

    Return nothing if the extra `web` is not installed. Raises ConfigError if a key is missing.
    """
    provider = find_search_provider(table)
    if not is_installed():
        return [], None
    downloads = Downloads(NetworkPolicy(tuple(table.allow)))
    if provider is None:
        return [fetch_tool(downloads)], None
    return [fetch_tool(downloads), websearch_tool()], Web(downloads, provider)


def find_search_provider(table: WebTable) -> SearchProvider | None:
    """Return the search provider. Return None if none is configured. Raises ConfigError."""
    if table.search == "searxng" and table.url is not None:
        return Searxng(table.url)
    if table.search == "brave" and table.key_env is not None:
        key = environment().get(table.key_env, "").strip()
        if not key:
            raise ConfigError(f"web search needs a key: set the variable {table.key_env}")
        return Brave(key, table.url or BRAVE)
    return None


_OPTIONAL_TOOLS = frozenset(
    {
        *("fetch", "websearch", "memory"),
        *("ticket", "tickets"),
        *("wake_me", "run_in_background", "webhook", "triggers"),
    }
)
"""Tools that only some chats have."""
USER_COMMAND_S = 86_400.0
"""The time limit of a command of the user. Ctrl-C ends it."""


class WorldSettings(msgspec.Struct, frozen=True):
    """The settings with which a world is opened."""

    outputs: Path
    """The folder for outputs that are too long for a result."""
    box: ShellSandbox
    """The sandbox of commands."""
    on_notice: Tell | None
    """Called with notes about MCP servers for the user."""
    home: Home
    more_tools: Sequence[Tool] = ()
    """Tools that agents have in addition to all others."""


def build_world_settings(
    home: Home,
    wish: ChatOptions,
    settings: Settings,
    path: Path,
    tools: Sequence[Tool] | None,
    tell: Tell | None,
) -> WorldSettings:
    """Return the settings for the world of the session with this log."""
    outputs = find_outputs_folder(home, settings, path.stem)
    box = ShellSandbox()
    if tools is None:
        box = build_shell_sandbox(
            home, settings, outputs=outputs, allowed=wish.allowed, wanted=wish.sandbox
        )
    return WorldSettings(outputs, box, tell, home)


def find_outputs_folder(home: Home, settings: Settings, stem: str) -> Path:
    """Return the folder for the outputs of the tools of a session.

    The output of a command cannot be redacted while the command writes it. So a home that stores no
    credentials has no outputs: they are in a temporary folder until this process ends.
    """
    if settings.redact != "store":
        return home.folder / "outputs" / stem
    folder = Path(tempfile.mkdtemp(prefix="harken-outputs-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def open_world(
    wish: ChatOptions,
    settings: Settings,
    permissions: Permissions,
    tools: Sequence[Tool] | None,
    around: WorldSettings,
) -> LocalWorld:
    """Return the world of the agents, for the current folder. Raises ConfigError."""
    sources, web, box = None, None, around.box
    servers = settings.servers if tools is None else ()
    if tools is None:
        allowed, outputs = [*wish.allowed, *settings.allow_folders], around.outputs
        shell = Shell(
            settings.working_folder,
            outputs,
            settings.key_variables,
            settings.pass_env,
            box.sandbox,
            box.refusal,
        )
        tools = local_tools(
            settings.working_folder,
            allowed=allowed,
            readable=settings.skills.folders,
            outputs=outputs,
            shell=shell,
        )
        more_tools, web = build_web_tools(settings.web)
        tools = [*tools, skill_tool(settings.skills), *more_tools]
        if wish.wakes:
            sources = local_triggers(
                settings.working_folder, allowed=allowed, outputs=outputs, shell=shell
            )
            sources.zone = zone_name()
            tools = [*tools, *trigger_tools(sources)]
    if wish.memory is not None:
        tools = [*tools, memory_tool(NotesMemory(wish.memory))]
    tools = [*tools, *around.more_tools]
    mcp = build_mcp_servers(servers, settings, around.outputs, around.on_notice, home=around.home)
    world = LocalWorld(tools, folder=settings.working_folder, permissions=permissions, mcp=mcp)
    world.sources, world.web = sources, web
    return world


def list_rule_notes(settings: Settings, world: World) -> list[str]:
    """Return a line for each permission rule for a tool that does not exist.

    Tools of MCP servers are not known before these run. A world without the local tools has none:
    the rules are for other chats.
    """
    if not isinstance(world, LocalWorld) or "bash" not in world.tools:
        return []
    names = {*world.tools, *ACTIONS, *_OPTIONAL_TOOLS}
    rules = PermissionRules.parse(allow=settings.allow, ask=settings.ask, deny=settings.deny)
    return [
        f"permission rule {str(rule)!r}: there is no tool {rule.tool!r}"
        f"{format_suggestion(rule.tool, names)}"
        for rule in [*rules.allow, *rules.ask, *rules.deny]
        if not rule.tool.startswith("mcp")
        and not any(map(compile_pattern(rule.tool).matches, names))
    ]


def build_user_shell(settings: Settings, around: WorldSettings) -> Shell:
    """Return the shell for the user's commands, without a sandbox and with a high time limit."""
    return Shell(
        settings.working_folder,
        around.outputs,
        settings.key_variables,
        settings.pass_env,
        limits=ShellLimits(timeout_s=USER_COMMAND_S, max_timeout_s=USER_COMMAND_S),
    )


def build_mcp_servers(
    servers: Sequence[McpServerConfig],
    settings: Settings,
    outputs: Path,
    tell: Tell | None,
    *,
    home: Home,
) -> McpServers:
    """Return the connections to MCP servers. A server is started when it is needed."""
    host = McpHost(
        folder=settings.working_folder,
        outputs=outputs,
        environ=environment(),
        hide=settings.key_variables,
        sandbox=build_sandbox(home, settings, outputs),
        logins=home.logins_file,
        on_notice=tell or _ignore_notice,
    )
    return McpServers(servers, host=host, on_progress=ProgressReporter(host.on_notice))


def _ignore_notice(_: str) -> None:
    """Ignore a notice."""


def build_permissions(settings: Settings, *steering: Path) -> Permissions:
    """Return the permissions of agents. Raises ConfigError for an invalid rule.

    steering: sensitive folders in addition to those of the user and the system.
    """
    rules = PermissionRules.parse(allow=settings.allow, ask=settings.ask, deny=settings.deny)
    environ = environment()
    places = [*steering, *user_paths(environ, user_homes(environ), settings.working_folder)]
    return Permissions(mode=settings.permission, rules=rules, sensitive_paths=places)
