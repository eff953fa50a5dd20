"""`Trigger`: a trigger as the spec of its agent has it, under its name.

Nothing else is kept of it, so a resume arms again what the log says: a log may come from anywhere,
and what it says starts no program.

Source: docs/formats/session-log.md, `triggers` in the spec of an agent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from harken.core.events import AgentConfigured, Reference
from harken.core.ids import MessageId, reference_message_id
from harken.world.result import InvalidArguments
from harken.world.tool import ToolContext

MOST = 20
"""So many triggers can an agent have."""
LONGEST_NOTE = 1000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")


class Trigger(msgspec.Struct, kw_only=True, frozen=True, tag_field="kind", omit_defaults=True):
    """What all kinds have in common."""

    call: Reference
    """The call that armed it."""
    armed: str
    """When: UTC, RFC 3339."""
    note: str = ""
    """What the agent wants to be told with it, in its own words."""

    @property
    def is_once(self) -> bool:
        """Whether it is over when it has told of something."""
        return False

    @property
    def words(self) -> str:
        """Say on one line what it is about."""
        raise NotImplementedError

    @property
    def cause(self) -> MessageId:
        """The message with the call: what a happening has as its cause."""
        return MessageId(reference_message_id(self.call))


class TimeTrigger(Trigger, kw_only=True, frozen=True, tag="time", omit_defaults=True):
    """A time, or times."""

    at: str | None = None
    """Once, then: UTC, RFC 3339."""
    every_s: float | None = None
    cron: str | None = None
    zone: str = "UTC"
    """In which its times are meant and shown."""

    @property
    def is_once(self) -> bool:
        return self.at is not None

    @property
    def words(self) -> str:
        if self.at is not None:
            return f"at {self.at}"
        return f"every {self.every_s:g} s" if self.every_s else f"cron {self.cron} ({self.zone})"


class FileTrigger(Trigger, kw_only=True, frozen=True, tag="files", omit_defaults=True):
    """Files that may change."""

    paths: list[str]
    """Files and folders, as they are named from the folder of the world."""
    seen: int | None = None
    """The newest change (ctime, nanoseconds) when it was armed."""

    @property
    def words(self) -> str:
        return f"files: {', '.join(self.paths)}"


class CommandTrigger(Trigger, kw_only=True, frozen=True, tag="command", omit_defaults=True):
    """A command that runs in the background."""

    command: str
    output: str
    """The file with what it writes."""

    @property
    def is_once(self) -> bool:
        return True

    @property
    def words(self) -> str:
        return f"command: {' '.join(self.command.split())[:80]}"


class WebhookTrigger(Trigger, kw_only=True, frozen=True, tag="webhook", omit_defaults=True):
    """An HTTP address that others call."""

    token_sha256: str
    """Of the token in its address, which stands nowhere but in the result of the call."""
    port: int

    @property
    def words(self) -> str:
        return f"HTTP on 127.0.0.1:{self.port}"


AnyArmed = TimeTrigger | FileTrigger | CommandTrigger | WebhookTrigger


def armed_in(spec: Mapping[str, Any]) -> dict[str, AnyArmed]:
    """Return the triggers in an agent's spec, by name; what cannot be read is none."""
    triggers = spec.get("triggers")
    found: dict[str, AnyArmed] = {}
    for name, value in triggers.items() if isinstance(triggers, dict) else ():
        try:
            found[name] = msgspec.convert(value, AnyArmed)
        except msgspec.ValidationError:
            continue
    return found


def check_name(caller: ToolContext, name: str) -> None:
    """Raise InvalidArguments for a name that cannot be given now."""
    if not _NAME.fullmatch(name):
        raise InvalidArguments(
            f"a name is of at most 40 letters, digits, `-`, `_`, `.`; not {name!r}"
        )
    there = caller.agent.state.spec.get("triggers") or {}
    if name in there:
        raise InvalidArguments(
            f"there is a trigger {name} already; stop it first, or choose a name"
        )
    if len(there) >= MOST:
        raise InvalidArguments(f"you have {MOST} triggers, which is the most; stop one first")


def arm(caller: ToolContext, name: str, armed: AnyArmed) -> None:
    """Log that an agent has a trigger from now on; whoever listens opens its source."""
    if len(armed.note) > LONGEST_NOTE:
        raise InvalidArguments(f"a note has at most {LONGEST_NOTE:,} characters")
    check_name(caller, name)
    there = caller.agent.state.spec.get("triggers") or {}
    log_armed(caller.agent, {**there, name: msgspec.to_builtins(armed)}, caller.call)


def log_armed(agent: Any, triggers: Mapping[str, Any], cause: Reference) -> None:
    """Log which triggers an agent has from now on."""
    event = AgentConfigured(agent_id=agent.agent_id, spec={"triggers": dict(triggers)}, cause=cause)
    agent.session.append(event)
