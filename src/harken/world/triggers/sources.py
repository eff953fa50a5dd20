"""`Sources`: all that can wake the agents of one world, and what they are made of.

It is part of a `World`. Somebody has to listen, else nothing runs: see
`harken.agents.turn.wakeups`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harken.core.clock import microseconds
from harken.session.state import Happened
from harken.world.files.root import Root
from harken.world.result import Failed
from harken.world.shell.shell import Shell
from harken.world.triggers.base import Source
from harken.world.triggers.command import Background, CommandEnded
from harken.world.triggers.file_watch import FilesChanged, Own
from harken.world.triggers.timer import Alarm, Timer
from harken.world.triggers.trigger import (
    AnyArmed,
    ArmedCommand,
    ArmedFiles,
    ArmedTime,
    ArmedWebhook,
)
from harken.world.triggers.webhook import WebhookCalled, Webhooks


@dataclass(eq=False, kw_only=True)
class Sources:
    """Makes the source of a trigger; owns what several of them share."""

    root: Root
    shell: Shell
    alarm: Alarm = field(default_factory=Alarm)
    zone: str = "UTC"
    """The time zone of the user."""
    ignore: Sequence[Path] = ()
    """Files and folders that the program itself writes."""
    listening: bool = False
    """Whether anybody listens. Without that nothing can be armed."""
    background: Background = field(default_factory=Background)
    webhooks: Webhooks = field(default_factory=Webhooks)

    def check_listening(self) -> None:
        """Raise Failed where nobody would hear."""
        if not self.listening:
            raise Failed("nobody listens in this session, so nothing could wake you")

    def source(self, armed: AnyArmed, agent: str, last: Happened | None, own: Own) -> Source:
        """Return the source of a trigger of an agent; `last` is when it last told of something.

        `own` says which files the agent knows as they are. Raises Failed for what is none.
        """
        match armed:
            case ArmedTime():
                try:
                    last_us = microseconds(armed.armed if last is None else last.time)
                except (ValueError, OverflowError) as error:
                    raise Failed(f"the log has no time of it: {error}") from None
                return Timer(armed, last_us, self.alarm)
            case ArmedFiles():
                seen = last.seen if last is not None and isinstance(last.seen, int) else armed.seen
                return self.files(armed.paths, seen, own)
            case ArmedCommand():
                return CommandEnded(armed, agent, self.background)
            case ArmedWebhook():
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
