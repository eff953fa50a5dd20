"""`harken hooks`: the hooks that can watch agents: built in, and those of files."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import click
import msgspec

from harken.agents.agent_classes import get_agent_class
from harken.agents.hooks.hook import Hook
from harken.agents.runtime import AgentRuntime
from harken.agents.tree.hook_file import HookFile, HookInfo
from harken.cli.command_group import CommandGroup, check_options_before_subcommand
from harken.cli.options.home import home_option, json_option
from harken.config.home import Home
from harken.config.settings import Settings, load_settings
from harken.core import canonical
from harken.core.event_types.spec import HookPoint
from harken.core.verdict import ALLOWED_VERDICTS
from harken.errors import NameNotFound
from harken.terminal.text import escape_control_characters, one_line, print_json, print_text


@click.group(name="hooks", cls=CommandGroup, invoke_without_command=True)
@json_option
@home_option
@click.pass_context
def command(context: click.Context, as_json: bool, home: Home) -> None:
    """List the hooks that agents can have, and their sources.

    `harken hooks show NAME` shows one. The hooks in `[hooks] use` of config.toml are installed in
    each new chat; others are installed by templates and by agents.
    """
    if context.invoked_subcommand is not None:
        check_options_before_subcommand(context)
        return
    settings = load_checked_settings(home)
    hooks = settings.hooks.list_hooks()
    if as_json:
        print_json([row(hook, settings) for hook in hooks])
        return
    for hook in hooks:
        print_text(heading(hook, settings))
        if hook.description or hook.problem:
            print_text(f"  {one_line(hook.problem or hook.description, 160)}")


@command.command(name="show")
@click.argument("name")
@json_option
@home_option
def show_command(name: str, as_json: bool, home: Home) -> None:
    """Show one hook: its hook points, tools and instructions."""
    settings = load_checked_settings(home)
    by_name = {hook.name: hook for hook in settings.hooks.list_hooks()}
    if name not in by_name:
        raise NameNotFound("hook", name, by_name)
    file = settings.hooks.find(name)
    details = describe_hook_kind(name) if file is None else describe_hook_file(file)
    instructions = None if file is None else file.instructions
    if as_json:
        print_json(
            {**row(by_name[name], settings), **details, "instructions": instructions or None}
        )
        return
    print_text(heading(by_name[name], settings))
    if by_name[name].description:
        print_text(f"  {by_name[name].description}")
    if file is not None and file.ignored:
        details["is not a member of [hooks]"] = list(file.ignored)
    for member, value in details.items():
        print_text(f"{member}: {value if isinstance(value, str) else format_value(value)}")
    if instructions:
        print_text(f"\n{instructions}")


def load_checked_settings(home: Home) -> Settings:
    """Return the settings; print their warnings on standard error."""
    settings = load_settings(home)
    for note in settings.notes:
        click.echo(escape_control_characters(note), err=True)
    return settings


def heading(hook: HookInfo, settings: Settings) -> str:
    """Return a hook on one line: its name, its kind of judge, and its origin."""
    notes = ["smart" if hook.smart else "code", str(hook.path or "built in")]
    notes += ["in new chats"] if hook.name in settings.use_hooks else []
    notes += ["unusable"] if hook.problem else []
    return f"{hook.name}  ({', '.join(notes)})"


def row(hook: HookInfo, settings: Settings) -> dict[str, Any]:
    """Return a hook as JSON values."""
    path = None if hook.path is None else str(hook.path)
    return {**msgspec.structs.asdict(hook), "path": path, "used": hook.name in settings.use_hooks}


def describe_hook_file(file: HookFile) -> dict[str, Any]:
    """Return the members of a hook file other than the instructions."""
    if file.use is not None:
        file.kind(file.use, AgentRuntime())
        return {"use": file.use, **describe_hook_kind(file.use, file)}
    details: dict[str, Any] = {
        "points": _in_order(file.points or ALLOWED_VERDICTS),
        "tools": list(file.tools),
        "model": file.model,
        "keeps": file.keeps,
        "subagents": file.subagents,
        "copy": file.copy,
    }
    return {name: value for name, value in details.items() if value not in (None, "")}


def describe_hook_kind(name: str, file: HookFile | None = None) -> dict[str, Any]:
    """Return the hook points of a hook made of code, and its options."""
    kind = get_agent_class(name, AgentRuntime().library)
    points = (file.points if file is not None else None) or kind.points
    options = msgspec.structs.asdict(kind.Options()) if issubclass(kind, Hook) else {}
    file_options = {} if file is None else dict(file.options)
    return {
        "points": _in_order(points),
        "options": msgspec.to_builtins({**options, **file_options}),
    }


def _in_order(points: Collection[HookPoint]) -> list[HookPoint]:
    """Return hook points in the order of a turn."""
    turn: tuple[HookPoint, ...] = ("input", "action", "result", "response")
    return [point for point in turn if point in points]


def format_value(value: Any) -> str:
    """Return a value on one line.

    >>> (
    ...     format_value(["a", "b"]),
    ...     format_value({"deep": None, "on": True}),
    ...     format_value([]),
    ...     format_value(True),
    ... )
    ('a, b', 'deep = null, on = true', 'none', 'yes')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return (
            ", ".join(f"{name} = {format_option(item)}" for name, item in value.items()) or "none"
        )
    return ", ".join(map(str, value)) or "none"


def format_option(value: Any) -> str:
    """Return an option as it is written in a file."""
    return value if isinstance(value, str) else canonical.to_json_line(value).decode()
