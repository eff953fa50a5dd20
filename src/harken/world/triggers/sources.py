"""`Sources`: the trigger sources of one world, and their shared state.

It is part of a `World`. No source runs until a session listens: see `harken.agents.turn.wakeups`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from harken.core.clock import parse_rfc3339
from harken.session.state import TriggerState
from harken.world.files.root import Root
from harken.world.result import ToolError
from harken.world.shell.shell import Shell
from harken.world.triggers.base import TriggerSource
from harken.world.triggers.command import BackgroundCommands, CommandEnded
from harken.world.triggers.file_watch import FilesChanged, SelectKnownFiles
from harken.world.triggers.schedule import Schedule
from harken.world.triggers.timer import Timer, TriggerClock
from harken.world.triggers.trigger import (
    ArmedTrigger,
    CommandTrigger,
    FileTrigger,
    TimeTrigger,
    WebhookTrigger,
)
from harken.world.triggers.webhook import WebhookCalled, Webhooks


class Sources(msgspec.Struct, kw_only=True, eq=False):
    """Creates the source of a trigger and owns the state that sources share."""

    root: Root
    shell: Shell
    alarm: TriggerClock = msgspec.field(default_factory=TriggerClock)
    zone: str = "UTC"
    """The time zone of the user."""
    ignore: Sequence[Path] = ()
    """Files and folders that the program itself writes."""
    listening: bool = False
    """Whether a session listens. Otherwise no trigger can be armed."""
    background: BackgroundCommands = msgspec.field(default_factory=BackgroundCommands)
    webhooks: Webhooks = msgspec.field(default_factory=Webhooks)

    def check_listening(self) -> None:
        """Raise ToolError if no session listens."""
        if not self.listening:
            raise ToolError("this session has no triggers, so nothing can wake you")

    def source(
        self, armed: ArmedTrigger, agent: str, last: TriggerState | None, own: SelectKnownFiles
    ) -> TriggerSource:
        """Return the source of a trigger of an agent; `last` is the state at its last event.

        `own` selects the files with content that the agent knows. Raises ToolError for an invalid
        trigger.
        """
        match trigger := armed.trigger:
            case TimeTrigger():
                try:
                    armed_us = parse_rfc3339(armed.time)
                    last_us = armed_us if last is None else parse_rfc3339(last.time)
                except (ValueError, OverflowError) as error:
                    raise ToolError(f"the log has no valid time for it: {error}") from None
                return Timer(Schedule(trigger, armed_us), last_us, self.alarm)
            case FileTrigger():
                last_seen = None if last is None else last.seen
                seen = last_seen if isinstance(last_seen, int) else trigger.seen
                return self.files(trigger.paths, seen, own)
            case CommandTrigger():
                return CommandEnded(trigger, agent, armed.call, self.background)
            case WebhookTrigger():
                return WebhookCalled(trigger, self.webhooks)

    def files(
        self, paths: Sequence[str], seen: int | None = None, own: SelectKnownFiles = lambda _: ()
    ) -> FilesChanged:
        """Return a source of changes of files."""
        return FilesChanged(self.root, paths, seen=seen, own=own, ignore=self.ignore)

    async def close(self) -> None:
        """Terminate all background commands, and stop listening."""
        self.listening = False
        self.background.close()
        await self.webhooks.close()
