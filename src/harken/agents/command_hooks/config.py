"""Hook commands as configured in a `hooks` section of settings.

    {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "check.sh"}]}]}

What is malformed is an error: a guard that is not there would be worse. What Claude Code knows and
Harken has no place for is a note. The condition `if` is a rule as permissions have them there.

Source: the hooks reference of Claude Code, as of 2.1.329.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from harken.agents.command_hooks.condition import Condition
from harken.core import canonical
from harken.errors import ConfigError
from harken.world.private_file import read_settings_file

EVENTS: Mapping[str, str] = {
    "SessionStart": "input",
    "UserPromptSubmit": "input",
    "SubagentStart": "input",
    "PreToolUse": "action",
    "PostToolUse": "result",
    "PostToolUseFailure": "result",
    "Stop": "response",
    "SubagentStop": "response",
    "SessionEnd": "",
    "PermissionRequest": "",
    "PreCompact": "",
    "PostCompact": "",
    "Notification": "",
}
"""The supported events, with the hook point at which each occurs, or an empty string."""
OF_TOOLS = frozenset({"PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest"})
"""Events about tool calls: only their hooks can have a condition."""
_EVENTS = ", ".join(EVENTS)
TIMEOUT_S = 600.0
_DEFAULT_TIMEOUTS_S = {"UserPromptSubmit": 30.0, "SessionEnd": 1.5}
MAX_ENTRIES = 200
_NAMES_PATTERN = re.compile(r"[A-Za-z0-9_\-, |]*")
"""A matcher of these characters is a list of names; any other is a regular expression."""
_KNOWN_MEMBERS = {
    "type",
    "command",
    "args",
    "timeout",
    "onFailure",
    "async",
    "statusMessage",
    "shell",
}
_KNOWN_MEMBERS |= {
    "asyncRewake",
    "if",
    "once",
}  # `once` counts for nothing in settings there, either


class CommandHookConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A command and when it is run; its JSON form is recorded in a birth."""

    event: str
    matcher: str = ""
    command: str
    args: tuple[str, ...] | None = None
    """The arguments of the program `command`. None: `command` is a shell command line."""
    timeout_s: float = TIMEOUT_S
    blocks: bool = False
    """`onFailure: "block"`: a failure counts as exit code 2."""
    is_async: bool = False
    """Whether the command is started without waiting for it; its output is ignored."""
    only_if: str = ""
    """A rule that a call must match, such as `Bash(git *)`; empty: any call."""

    def __post_init__(self) -> None:
        """Validate the command. Raises ValueError if it could never be run."""
        if self.event not in EVENTS:
            event = _format_value(self.event)
            raise ValueError(f"event {event} not found; existing events: {_EVENTS}")
        if not self.command.strip():
            raise ValueError("command is empty")
        if not 0 < self.timeout_s < math.inf:
            raise ValueError("timeout must be a number of seconds above 0")
        try:
            re.compile("" if self.matcher == "*" else self.matcher)
        except re.error as error:
            raise ValueError(
                f"{_format_value(self.matcher)} is not a valid pattern: {error}"
            ) from None
        if self.only_if:
            Condition.parse(self.only_if)

    def matches(self, names: Collection[str]) -> bool:
        """Whether the command is to be run for an object with these names.

        >>> CommandHookConfig(event="PreToolUse", matcher="Edit|Write", command="x").matches(
        ...     {"Write"}
        ... )
        True
        >>> CommandHookConfig(event="PreToolUse", matcher="mcp__.*", command="x").matches(
        ...     {"mcp__a__b"}
        ... )
        True
        """
        if self.matcher in ("", "*"):
            return True
        if _NAMES_PATTERN.fullmatch(self.matcher):
            requested = {part.strip() for part in re.split(r"[|,]", self.matcher)}
            return not requested.isdisjoint(names)
        return any(re.search(self.matcher, name) for name in names)

    @property
    def display_line(self) -> str:
        """The command on a single line, for display."""
        line = " ".join([self.command, *(self.args or ())])
        return " ".join(line.split())[:200]


class Hooks(msgspec.Struct, frozen=True):
    """The hooks of a settings file."""

    entries: tuple[CommandHookConfig, ...] = ()
    notes: tuple[str, ...] = ()
    """Notes for the user about unsupported members, a line each."""

    def __add__(self, more: Hooks) -> Hooks:
        return Hooks((*self.entries, *more.entries), (*self.notes, *more.notes))


def read_settings(file: Path) -> Hooks:
    """Read the hooks of a `settings.json`; a missing file has none.

    Raises ConfigError, with a single line, if they cannot be used.
    """
    data = read_settings_file(file)
    if data is None:
        return Hooks()
    try:
        settings = canonical.from_json(data)
    except (ValueError, RecursionError):
        raise ConfigError(f"{file}: invalid JSON") from None
    if not isinstance(settings, dict):
        raise ConfigError(f"{file}: not a JSON object")
    if settings.get("disableAllHooks") is True:
        return Hooks(notes=(f"{file}: disableAllHooks is set: none of its hooks is run",))
    return read_hooks(settings.get("hooks") or {}, str(file))


def read_hooks(section: Any, where: str, *, of_subagent: bool = False) -> Hooks:
    """Parse a `hooks` section; `where` is the prefix of notes and errors.

    In a subagent's section, `Stop` means `SubagentStop`. Raises ConfigError if it is malformed.
    """
    hooks = Hooks()
    try:
        for event, groups in _as_dict(section, "hooks").items():
            if event not in EVENTS:
                hooks += Hooks(
                    notes=(f"{where}: hooks of {_format_value(event)} are not supported",)
                )
                continue
            name = "SubagentStop" if of_subagent and event == "Stop" else event
            for index, group in enumerate(_as_list(groups, event)):
                hooks += _parse_group(name, group, f"{event}[{index}]", where)
    except _Malformed as error:
        raise ConfigError(f"{where}: hooks: {error}") from None
    if len(hooks.entries) > MAX_ENTRIES:
        raise ConfigError(f"{where}: hooks: more than {MAX_ENTRIES} commands")
    return hooks


class _Malformed(Exception):
    """An error in the section that the user has to correct."""


def _parse_group(event: str, group: Any, location: str, where: str) -> Hooks:
    members = _as_dict(group, location)
    matcher = _as_text(members.get("matcher") or "", f"{location}.matcher")
    parsed = Hooks()
    for number, hook in enumerate(_as_list(members.get("hooks"), f"{location}.hooks")):
        parsed += _parse_hook(event, matcher, _as_dict(hook, f"{location}.hooks[{number}]"), where)
    return parsed


def _parse_hook(event: str, matcher: str, hook: Mapping[str, Any], where: str) -> Hooks:
    kind, location = hook.get("type"), f"{event} hook"
    if kind != "command":
        note = f"{where}: a hook of type {_format_value(kind)} is not run: only commands are"
        return Hooks(notes=(note,))
    if hook.get("shell") not in (None, "bash"):
        return Hooks(
            notes=(f"{where}: a hook for the shell {_format_value(hook['shell'])} is not run",)
        )
    notes = tuple(
        f"{where}: {_format_value(name)} of a hook is not supported and is ignored"
        for name in hook
        if name not in _KNOWN_MEMBERS
    )
    if hook.get("asyncRewake") is True:
        notes += (f"{where}: asyncRewake of a hook is treated as async: it wakes no agent",)
    if hook.get("if") is not None and event not in OF_TOOLS:
        return Hooks(notes=(*notes, f"{where}: a hook of {event} with `if` is never run"))
    is_async = hook.get("async") is True or hook.get("asyncRewake") is True
    args = hook.get("args")
    try:
        entry = CommandHookConfig(
            event=event,
            matcher=matcher,
            command=_as_text(hook.get("command"), f"{location}: command"),
            args=None if args is None else tuple(_iter_texts(args, f"{location}: args")),
            timeout_s=_parse_timeout(hook.get("timeout"), event),
            blocks=hook.get("onFailure") == "block" and not is_async,
            is_async=is_async,
            only_if=_as_text(hook.get("if") or "", f"{location}: if").strip(),
        )
    except ValueError as error:
        raise _Malformed(f"{location}: {error}") from None
    return Hooks((entry,), notes)


def _parse_timeout(value: Any, event: str) -> float:
    if value is None:
        return _DEFAULT_TIMEOUTS_S.get(event, TIMEOUT_S)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Malformed(f"{event} hook: timeout must be a number of seconds")
    return float(min(value, 1e6))


def _as_dict(value: Any, location: str) -> Mapping[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise _Malformed(f"{location} is not an object")
    return value


def _as_list(value: Any, location: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise _Malformed(f"{_format_value(location)} is not a list")
    return value


def _iter_texts(value: Any, location: str) -> Iterator[str]:
    return (_as_text(item, location) for item in _as_list(value, location))


def _as_text(value: Any, location: str) -> str:
    if not isinstance(value, str):
        raise _Malformed(f"{location} is not a string")
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise _Malformed(
            f"{location} contains NUL or a lone surrogate, which a command cannot contain"
        )
    return value


def _format_value(value: Any) -> str:
    """Format a configured value, truncated, on a single line."""
    return repr(value)[:80] if not isinstance(value, str) else repr(value[:80])
