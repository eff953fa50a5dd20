"""`Sources`: all that can wake the agents of one world, and what they are made of.

It is part of a `World`. Somebody has to listen, else nothing runs: see
`harken.agents.turn.wakeups`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harken.core.clock import parse_rfc3339
from harken.session.state import TriggerState
from harken.world.files.root import Root
from harken.world.result import ToolError
from harken.world.shell.shell import Shell
from harken.world.triggers.base import TriggerSource
from harken.world.triggers.command import BackgroundCommands, CommandEnded
from harken.world.triggers.file_watch import FilesChanged, Own
from harken.world.triggers.timer import Timer, TriggerClock
from harken.world.triggers.trigger import (
    AnyArmed,
    CommandTrigger,
    FileTrigger,
    TimeTrigger,
    WebhookTrigger,
)
from harken.world.triggers.webhook import WebhookCalled, Webhooks


@dataclass(eq=False, kw_only=True)
class Sources:
    """Makes the source of a trigger; owns what several of them share."""

    root: Root
    shell: Shell
    alarm: TriggerClock = field(default_factory=TriggerClock)
    zone: str = "UTC"
    """The time zone of the user."""
    ignore: Sequence[Path] = ()
    """Files and folders that the program itself writes."""
    listening: bool = False
    """Whether anybody listens. Without that nothing can be armed."""
    background: BackgroundCommands = field(default_factory=BackgroundCommands)
    webhooks: Webhooks = field(default_factory=Webhooks)

    def check_listening(self) -> None:
        """Raise ToolError where nobody would hear."""
        if not self.listening:
            raise ToolError("nobody listens in this session, so nothing could wake you")

    def source(
        self, armed: AnyArmed, agent: str, last: TriggerState | None, own: Own
    ) -> TriggerSource:
        """Return the source of a trigger of an agent; `last` is when it last told of something.

        `own` says which files the agent knows as they are. Raises ToolError for what is none.
        """
        match armed:
            case TimeTrigger():
                try:
                    last_us = parse_rfc3339(armed.armed if last is None else last.time)
                except (ValueError, OverflowError) as error:
                    raise ToolError(f"the log has no time of it: {error}") from None
                return Timer(armed, last_us, self.alarm)
            case FileTrigger():
                seen = last.seen if last is not None and isinstance(last.seen, int) else armed.seen
                return self.files(armed.paths, seen, own)
            case CommandTrigger():
                return CommandEnded(armed, agent, self.background)
            case WebhookTrigger():
                return WebhookCalled(armed, self.webhooks)

    def files(
        self, paths: Sequence[str], seen: int | None = None, own: Own = lambda _: ()
    ) -> FilesChanged:
        """Return what tells of changes of files."""
        return FilesChanged(self.root, paths, seen=seen, own=own, ignore=self.ignore)

    async def close(self) -> None:
        """End all commands in the background, and listen to nobody."""
        self.listening = False
        self.background.close()
        await self.webhooks.close()
