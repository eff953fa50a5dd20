"""Helpers for tests of triggers: a clock that a test advances, and a world with triggers."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from harken import AgentRuntime, Budget, LocalWorld, SessionOptions, Tool
from harken import load_session as load
from harken.agents.runtime import Observers
from harken.agents.turn.conversation import Conversation
from harken.llm.base import Model
from harken.testing import RecordingDisk
from harken.world.files.root import Root
from harken.world.files.tools import file_tools
from harken.world.shell.shell import Shell
from harken.world.triggers.sources import Sources
from harken.world.triggers.timer import TriggerClock
from harken.world.triggers.tools import trigger_tools
from tests.agent_kit import Stage

NOON_US = 1_767_268_800_000_000  # 2026-01-01T12:00:00Z


@dataclass
class FakeTime:
    """A clock whose sleepers wake when a test advances it."""

    now_us: int = NOON_US
    sleepers: list[tuple[int, int, asyncio.Future[None]]] = field(default_factory=list)
    number: count[int] = field(default_factory=count)

    def clock(self) -> int:
        return self.now_us

    async def sleep(self, seconds: float) -> None:
        waking: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        due = self.now_us + round(seconds * 1e6)
        heapq.heappush(self.sleepers, (due, next(self.number), waking))
        await waking

    async def advance(self, seconds: float) -> None:
        """Advance the clock, and run all tasks that are due."""
        until = self.now_us + round(seconds * 1e6)
        await run_pending_tasks()
        while self.sleepers and self.sleepers[0][0] <= until:
            due, _, waking = heapq.heappop(self.sleepers)
            self.now_us = max(self.now_us, due)
            if not waking.done():
                waking.set_result(None)
            await run_pending_tasks()
        self.now_us = until
        await run_pending_tasks()

    @property
    def trigger_clock(self) -> TriggerClock:
        return TriggerClock(self.clock, self.sleep)

    @property
    def options(self) -> SessionOptions:
        return SessionOptions(durability="none", clock=self.clock, disk=RecordingDisk())


async def run_pending_tasks(rounds: int = 50) -> None:
    """Run all tasks until they wait."""
    for _ in range(rounds):
        await asyncio.sleep(0)


async def wait_until(is_so: Callable[[], object], within_s: float = 30.0) -> None:
    """Wait until a condition is true. Raises TimeoutError at the timeout."""
    async with asyncio.timeout(within_s):
        while not is_so():
            await asyncio.sleep(0.01)


def open_sources(folder: Path, time: FakeTime | None = None) -> Sources:
    """Return the trigger sources of a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    alarm = TriggerClock() if time is None else time.trigger_clock
    outputs = folder.parent / "outputs"
    return Sources(root=Root(folder), shell=Shell(folder, outputs), alarm=alarm)


def open_trigger_stage(
    folder: Path,
    model: Model,
    *,
    time: FakeTime | None = None,
    tools: Iterable[Tool] = (),
    budget: Budget | None = None,
    on_notice: Callable[[str], None] | None = None,
) -> Stage:
    """Begin or resume a session in `folder` whose agents have triggers. The root is `main`."""
    trigger_sources = open_sources(folder / "work", time)
    world = LocalWorld(
        [*file_tools(trigger_sources.root), *trigger_tools(trigger_sources), *tools],
        folder=trigger_sources.root.folder,
    )
    world.sources = trigger_sources
    runtime = AgentRuntime(model=model, world=world, observers=Observers(on_notice=on_notice))
    options = (
        SessionOptions(durability="none", disk=RecordingDisk()) if time is None else time.options
    )
    log = folder / "s.jsonl"
    root, session = load(
        log,
        runtime=runtime,
        options=options,
        system_prompt="You are main.",
        name="main",
        budget=budget,
    )
    return Stage(root, session, runtime)


@asynccontextmanager
async def listen_to(stage: Stage) -> AsyncIterator[Conversation]:
    """Yield a conversation that listens for triggers."""
    talk = Conversation(stage.root)
    async with talk.listen():
        yield talk
