"""`Trigger`: a trigger of an agent, as a `trigger_armed` contains it.

The log is the only state, so a resume arms what the log contains. A log may come from an untrusted
source; no trigger in it starts a program.

Source: docs/formats/session-log.md, `trigger_armed`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from harken.core.events import Reference, TriggerArmed
from harken.core.ids import MessageId, reference_message_id
from harken.world.result import InvalidArguments
from harken.world.tool import ToolContext

MAX_TRIGGERS = 20
"""The maximum number of triggers of an agent."""
MAX_NOTE_CHARS = 1000
_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")


class Trigger(msgspec.Struct, kw_only=True, frozen=True, tag_field="kind", omit_defaults=True):
    """The fields that all kinds have in common."""

    note: str = ""
    """A note of the agent that is repeated with each event."""

    @property
    def is_once(self) -> bool:
        """Whether it ends with its first event."""
        return False

    @property
    def description(self) -> str:
        """A description on one line."""
        raise NotImplementedError


class TimeTrigger(Trigger, kw_only=True, frozen=True, tag="time", omit_defaults=True):
    """A time, or recurring times."""

    at: str | None = None
    """The time of a single event: UTC, RFC 3339."""
    every_s: float | None = None
    cron: str | None = None
    zone: str = "UTC"
    """The time zone in which its times are meant and shown."""

    @property
    def is_once(self) -> bool:
        return self.at is not None

    @property
    def description(self) -> str:
        if self.at is not None:
            return f"at {self.at}"
        return f"every {self.every_s:g} s" if self.every_s else f"cron {self.cron} ({self.zone})"


class FileTrigger(Trigger, kw_only=True, frozen=True, tag="files", omit_defaults=True):
    """Files that may change."""

    paths: list[str]
    """Files and folders, named relative to the folder of the world."""
    seen: int | None = None
    """The newest change (ctime, nanoseconds) when it was armed."""

    @property
    def description(self) -> str:
        return f"files: {', '.join(self.paths)}"


class CommandTrigger(Trigger, kw_only=True, frozen=True, tag="command", omit_defaults=True):
    """A command that runs in the background."""

    command: str
    output: str
    """The file with its output."""

    @property
    def is_once(self) -> bool:
        return True

    @property
    def description(self) -> str:
        return f"command: {' '.join(self.command.split())[:80]}"


class WebhookTrigger(Trigger, kw_only=True, frozen=True, tag="webhook", omit_defaults=True):
    """An HTTP address that other programs call."""

    token_sha256: str
    """The hash of the token in its address, which is only in the result of the call."""
    port: int

    @property
    def description(self) -> str:
        return f"HTTP on 127.0.0.1:{self.port}"


AnyTrigger = TimeTrigger | FileTrigger | CommandTrigger | WebhookTrigger


class ArmedTrigger(msgspec.Struct, frozen=True):
    """A trigger in the log of a session."""

    id: MessageId
    """The `trigger_armed`."""
    trigger: AnyTrigger
    call: Reference
    """The call that armed it."""
    time: str
    """The time at which it was armed: UTC, RFC 3339."""

    @property
    def cause(self) -> MessageId:
        """The message with the call: the cause of each event."""
        return MessageId(reference_message_id(self.call))


def parse_triggers(triggers: Mapping[str, TriggerArmed]) -> dict[str, ArmedTrigger]:
    """Parse the triggers of an agent, by name; those of unknown kinds are skipped."""
    triggers_by_name: dict[str, ArmedTrigger] = {}
    for name, event in triggers.items():
        try:
            trigger = msgspec.convert(event.trigger, AnyTrigger)
        except msgspec.ValidationError:
            continue
        triggers_by_name[name] = ArmedTrigger(event.message_id, trigger, event.cause, event.time)
    return triggers_by_name


def check_name(caller: ToolContext, name: str) -> None:
    """Raise InvalidArguments for a trigger name that is invalid or not available."""
    if not _NAME_PATTERN.fullmatch(name):
        raise InvalidArguments(
            f"a name has at most 40 letters, digits, `-`, `_`, `.`; not {name!r}"
        )
    existing = caller.agent.state.triggers
    if name in existing:
        raise InvalidArguments(f"trigger {name} exists; stop it first, or choose another name")
    if len(existing) >= MAX_TRIGGERS:
        raise InvalidArguments(f"you have {MAX_TRIGGERS} triggers, the maximum; stop one first")


def arm(caller: ToolContext, name: str, trigger: AnyTrigger) -> str:
    """Log a new trigger of an agent; the listening session then opens its source.

    Return the time at which it was armed.
    """
    if len(trigger.note) > MAX_NOTE_CHARS:
        raise InvalidArguments(f"a note has at most {MAX_NOTE_CHARS:,} characters")
    check_name(caller, name)
    event = TriggerArmed(
        agent_id=caller.agent.agent_id,
        name=name,
        trigger=msgspec.to_builtins(trigger),
        cause=caller.call,
    )
    caller.agent.session.append(event)
    return event.time
