"""A command that is to be run at an event, as a `hooks` section of settings says it.

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
"""The events that have a place here, and the point at which a hook is asked, if it is asked."""
OF_TOOLS = frozenset({"PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest"})
"""Those that are about the call of a tool: only these can have a condition."""
_EVENTS = ", ".join(EVENTS)
TIMEOUT_S = 600.0
_SHORTER_S = {"UserPromptSubmit": 30.0, "SessionEnd": 1.5}
MAX_ENTRIES = 200
_PLAIN = re.compile(r"[A-Za-z0-9_\-, |]*")
"""A matcher of such letters is a name, or several; any other is a regular expression."""
_KNOWN = {"type", "command", "args", "timeout", "onFailure", "async", "statusMessage", "shell"}
_KNOWN |= {"asyncRewake", "if", "once"}  # `once` counts for nothing in settings there, either


class CommandHookConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A command and when it is run; as JSON, what a birth records."""

    event: str
    matcher: str = ""
    command: str
    args: tuple[str, ...] | None = None
    """What is given to the program `command`; None: `command` is a line for a shell."""
    timeout_s: float = TIMEOUT_S
    blocks: bool = False
    """`onFailure: "block"`: that it fails counts as exit code 2."""
    is_async: bool = False
    """It is started and left alone: nobody hears what it says."""
    only_if: str = ""
    """A rule that a call has to fit, such as `Bash(git *)`; empty: any call."""

    def __post_init__(self) -> None:
        """Refuse what can never be run. Raises ValueError."""
        if self.event not in EVENTS:
            raise ValueError(f"there is no event {_name(self.event)}; there is: {_EVENTS}")
        if not self.command.strip():
            raise ValueError("command is empty")
        if not 0 < self.timeout_s < math.inf:
            raise ValueError("timeout is a number of seconds above 0")
        try:
            re.compile("" if self.matcher == "*" else self.matcher)
        except re.error as error:
            raise ValueError(f"{_name(self.matcher)} is no pattern: {error}") from None
        if self.only_if:
            Condition.parse(self.only_if)

    def matches(self, names: Collection[str]) -> bool:
        """Whether it is to be run for something that has these names.

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
        if _PLAIN.fullmatch(self.matcher):
            wanted = {one.strip() for one in re.split(r"[|,]", self.matcher)}
            return not wanted.isdisjoint(names)
        return any(re.search(self.matcher, name) for name in names)

    @property
    def shown(self) -> str:
        """The command on one line, for a person."""
        line = " ".join([self.command, *(self.args or ())])
        return " ".join(line.split())[:200]


class Hooks(msgspec.Struct, frozen=True):
    """What settings say of hooks."""

    entries: tuple[CommandHookConfig, ...] = ()
    notes: tuple[str, ...] = ()
    """What a person should know, a line each: what has no place here."""

    def __add__(self, more: Hooks) -> Hooks:
        return Hooks((*self.entries, *more.entries), (*self.notes, *more.notes))


def read_settings(file: Path) -> Hooks:
    """Return the hooks of a `settings.json`; of one that is not there, none.

    Raises ConfigError, on one line, where they cannot be used.
    """
    data = read_settings_file(file)
    if data is None:
        return Hooks()
    try:
        settings = canonical.from_json(data)
    except (ValueError, RecursionError):
        raise ConfigError(f"{file}: is no JSON") from None
    if not isinstance(settings, dict):
        raise ConfigError(f"{file}: is no JSON object")
    if settings.get("disableAllHooks") is True:
        return Hooks(notes=(f"{file}: disableAllHooks is set: none of its hooks is run",))
    return read_hooks(settings.get("hooks") or {}, str(file))


def read_hooks(section: Any, where: str, *, of_subagent: bool = False) -> Hooks:
    """Return what a `hooks` section says; `where` begins what is said of it.

    In that of a subagent, `Stop` is its own. Raises ConfigError where it is malformed.
    """
    found = Hooks()
    try:
        for event, groups in _table(section, "hooks").items():
            if event not in EVENTS:
                found += Hooks(notes=(f"{where}: hooks of {_name(event)} have no place here",))
                continue
            name = "SubagentStop" if of_subagent and event == "Stop" else event
            for at, group in enumerate(_list(groups, event)):
                found += _group(name, group, f"{event}[{at}]", where)
    except _Malformed as error:
        raise ConfigError(f"{where}: hooks: {error}") from None
    if len(found.entries) > MAX_ENTRIES:
        raise ConfigError(f"{where}: hooks: more than {MAX_ENTRIES} commands")
    return found


class _Malformed(Exception):
    """Something in the section that a person has to change."""


def _group(event: str, group: Any, at: str, where: str) -> Hooks:
    members = _table(group, at)
    matcher = _text(members.get("matcher") or "", f"{at}.matcher")
    found = Hooks()
    for number, one in enumerate(_list(members.get("hooks"), f"{at}.hooks")):
        found += _hook(event, matcher, _table(one, f"{at}.hooks[{number}]"), where)
    return found


def _hook(event: str, matcher: str, one: Mapping[str, Any], where: str) -> Hooks:
    kind, at = one.get("type"), f"{event} hook"
    if kind != "command":
        note = f"{where}: a hook of type {_name(kind)} is not run: only commands are"
        return Hooks(notes=(note,))
    if one.get("shell") not in (None, "bash"):
        return Hooks(notes=(f"{where}: a hook for the shell {_name(one['shell'])} is not run",))
    notes = tuple(
        f"{where}: {_name(name)} of a hook counts for nothing here: it is run all the same"
        for name in one
        if name not in _KNOWN
    )
    if one.get("asyncRewake") is True:
        notes += (f"{where}: asyncRewake of a hook counts as async here: it wakes nobody",)
    if one.get("if") is not None and event not in OF_TOOLS:
        return Hooks(notes=(*notes, f"{where}: a hook of {event} with `if` is never run"))
    is_async = one.get("async") is True or one.get("asyncRewake") is True
    args = one.get("args")
    try:
        entry = CommandHookConfig(
            event=event,
            matcher=matcher,
            command=_text(one.get("command"), f"{at}: command"),
            args=None if args is None else tuple(_texts(args, f"{at}: args")),
            timeout_s=_seconds(one.get("timeout"), event),
            blocks=one.get("onFailure") == "block" and not is_async,
            is_async=is_async,
            only_if=_text(one.get("if") or "", f"{at}: if").strip(),
        )
    except ValueError as error:
        raise _Malformed(f"{at}: {error}") from None
    return Hooks((entry,), notes)


def _seconds(value: Any, event: str) -> float:
    if value is None:
        return _SHORTER_S.get(event, TIMEOUT_S)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Malformed(f"{event} hook: timeout is a number of seconds")
    return float(min(value, 1e6))


def _table(value: Any, at: str) -> Mapping[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise _Malformed(f"{at} is no object")
    return value


def _list(value: Any, at: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise _Malformed(f"{_name(at)} is no list")
    return value


def _texts(value: Any, at: str) -> Iterator[str]:
    return (_text(one, at) for one in _list(value, at))


def _text(value: Any, at: str) -> str:
    if not isinstance(value, str):
        raise _Malformed(f"{at} is no text")
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise _Malformed(f"{at} is no text that a command can be given")
    return value


def _name(value: Any) -> str:
    """Return what somebody wrote, short and on one line."""
    return repr(value)[:80] if not isinstance(value, str) else repr(value[:80])
