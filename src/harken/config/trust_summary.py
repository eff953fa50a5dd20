"""A summary of a project's configuration, shown before a user trusts its folder.

It is read from the current files, by the code that reads them later. Lines are complete up to
a size limit, and control characters and line breaks in them are escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from harken.agents.command_hooks.config import CommandHookConfig, read_hooks, read_settings
from harken.agents.templates.claude_code import ClaudeAgents
from harken.agents.templates.front_matter import find_markdown_files
from harken.agents.templates.prompt_file import PromptFiles
from harken.agents.templates.skills import FILE as SKILL_FILE
from harken.agents.templates.template import Template, read_template
from harken.agents.tree.hook_file import HookFile, read_hook
from harken.config.file import ConfigFile, read_config
from harken.config.mcp import describe_servers, load_project_servers
from harken.config.trust import CLAUDE, FOLDERS, INSTRUCTIONS, SETTINGS
from harken.errors import ConfigError
from harken.terminal.text import escape_control_characters

MAX_FILES = 20
_ALLOWING = ("PreToolUse", "PermissionRequest")
"""Events at which a command can allow an action that the user would be asked about."""
MAX_LINE_CHARS = 2000
"""Maximum characters of a line; a longer line ends with the number of omitted characters."""


def list_project_files(root: Path, folder: Path, servers: Path) -> list[str]:
    """Return the files of a project that Harken reads, as paths relative to its root.

    folder: its `.harken/`. servers: its `.mcp.json`.
    """
    claude = root / CLAUDE
    below = [folder, *(claude / name for name in FOLDERS)]
    paths = [root / INSTRUCTIONS, servers, *(claude / name for name in SETTINGS)]
    paths += [path for parent in below for path in parent.rglob("*")]
    return sorted(str(path.relative_to(root)) for path in paths if path.is_file())


def summary_lines(
    root: Path, folder: Path, config_file: Path, *, runs_commands: bool, may_allow: bool = False
) -> list[str]:
    """Return the summary of the files, the most important lines first.

    runs_commands: whether the user enabled the hooks of Claude Code. may_allow: whether these hooks
    may allow actions without asking the user.
    """
    summary: list[str] = []
    for part in (
        _iter_config_lines(config_file),
        _iter_server_lines(root, config_file),
        _iter_command_lines(root, runs_commands=runs_commands, may_allow=may_allow),
        _iter_template_lines(root, folder / "agents", runs_commands=runs_commands),
        _iter_hook_lines(folder / "hooks"),
        _iter_text_lines(root, folder),
    ):
        summary += part
    return [escape_line(line) for line in summary]


def escape_line(line: str) -> str:
    r"""Escape line breaks and control characters of a line, and truncate it to a size limit.

    >>> print(escape_line("rm -rf x\n  it says: nothing\x1b[2J"))
    rm -rf x\n  it says: nothing\x1b[2J
    """
    escaped = escape_control_characters(line.replace("\n", "\\n").replace("\t", "\\t"))
    excess = len(escaped) - MAX_LINE_CHARS
    return (
        escaped
        if excess <= 0
        else f"{escaped[:MAX_LINE_CHARS]}… {excess} more characters: read the file"
    )


def _iter_config_lines(file: Path) -> Iterator[str]:
    """Yield a line for each permission, model, provider and hook of a project's configuration."""
    try:
        config = read_config(file)
    except ConfigError as error:
        yield str(error)
        return
    if config.permission is not None:
        yield f"permission = {config.permission}"
    yield from (f"allow {rule}" for rule in config.permissions.allow)
    if config.model is not None:
        yield f"model = {config.model}"
    yield from (
        f"provider {name} at {provider.base_url}" for name, provider in config.providers.items()
    )
    if config.hooks.use:
        yield f"hooks = {', '.join(config.hooks.use)}"


def _iter_server_lines(root: Path, file: Path) -> Iterator[str]:
    """Yield a line for each MCP server of a project: its program or its address."""
    try:
        config = read_config(file)
    except ConfigError:
        config = ConfigFile()  # `_iter_config_lines` reports the error.
    try:
        servers, notes = load_project_servers(root, config, file)
    except ConfigError as error:
        servers, notes = [], [str(error)]
    yield from describe_servers(servers, root)
    yield from notes


def _iter_command_lines(root: Path, *, runs_commands: bool, may_allow: bool) -> Iterator[str]:
    """Yield a line for each command hook in the project's Claude Code settings."""
    allowing = False
    for name in SETTINGS:
        try:
            settings = read_settings(root / CLAUDE / name)
        except ConfigError as error:
            yield str(error)
            continue
        yield from _format_entries(
            settings.entries, f"{CLAUDE}/{name}", runs_commands=runs_commands
        )
        allowing = allowing or any(entry.event in _ALLOWING for entry in settings.entries)
    if may_allow and allowing:
        yield (
            "actions that these commands allow run without your approval: hooks.claude_may_allow"
        )


def _format_entries(
    entries: Iterable[CommandHookConfig], where: str, *, runs_commands: bool
) -> Iterator[str]:
    when = "" if runs_commands else " (only with --claude-hooks)"
    for entry in entries:
        matcher = f" {entry.matcher}" if entry.matcher else ""
        command = " ".join([entry.command, *(entry.args or ())])
        yield f"{where} runs at {entry.event}{matcher}{when}: {command}"


def _iter_template_lines(root: Path, folder: Path, *, runs_commands: bool) -> Iterator[str]:
    """Yield a line for each agent template, and for its MCP servers and command hooks."""
    of_claude = ClaudeAgents([root / CLAUDE / "agents"], runs_commands=True)
    harken_files = [
        (path, read_template) for _, path in sorted(find_markdown_files([folder]).items())
    ]
    claude_files = [(path, of_claude.read) for _, path in sorted(of_claude.files().items())]
    for path, reader in [*harken_files, *claude_files]:
        try:
            template = reader(path)
            yield f"agent {template.name}: {_format_template(template)}"
            yield from describe_servers(template.servers, root)
            commands = read_hooks(template.commands or {}, str(path), of_subagent=True).entries
            where = f"agent {template.name}"
            yield from _format_entries(commands, where, runs_commands=runs_commands)
        except ConfigError as error:
            yield f"cannot be used: {error}"


def _format_template(template: Template) -> str:
    tools = (
        "all tools of its parent"
        if template.tools is None
        else _join_names("tools", template.tools)
    )
    return "; ".join(
        filter(
            None,
            [
                tools,
                f"without {', '.join(template.denied)}" if template.denied else "",
                f"model {template.model}" if template.model else "",
                f"permission {template.permission}" if template.permission else "",
                _join_names("hooks", template.hooks) if template.hooks else "",
                _join_names("MCP servers", template.mcp) if template.mcp else "",
            ],
        )
    )


def _iter_hook_lines(folder: Path) -> Iterator[str]:
    """Yield a line for each hook: its model or code, its hook points and its tools."""
    for path in find_markdown_files([folder]).values():
        try:
            yield _format_hook(read_hook(path))
        except ConfigError as error:
            yield f"cannot be used: {error}"


def _format_hook(hook: HookFile) -> str:
    where = ", ".join(hook.points or ())
    if hook.use is not None:
        return f"hook {hook.name}: the code of {hook.use}" + (f"; asked at {where}" * bool(where))
    judges = f"the model {hook.model}" if hook.model else "the model"
    details = f"asked at {where or 'all points'}; {_join_names('tools', hook.tools)}"
    return f"hook {hook.name}: {judges} judges with these instructions; {details}"


def _iter_text_lines(root: Path, folder: Path) -> Iterator[str]:
    """Yield the names of slash commands and skills, which are text only."""
    names = PromptFiles([folder / "commands", root / CLAUDE / "commands"]).paths()
    if names:
        yield (
            f"commands (prompts for the agent): {', '.join(f'/{name}' for name in sorted(names))}"
        )
    skills = sorted(
        {
            path.parent.name
            for parent in (folder / "skills", root / CLAUDE / "skills")
            for path in parent.glob(f"*/{SKILL_FILE}")
        }
    )
    if skills:
        yield f"skills: {', '.join(skills)}"


def _join_names(label: str, names: Iterable[str]) -> str:
    return f"{label} {', '.join(names) or 'none'}"
