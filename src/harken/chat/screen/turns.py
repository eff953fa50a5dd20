"""Turns: the agent answers, one thing after the other, while the user may type on.

Type-ahead: what the user sends while a turn runs waits, is shown, and can be taken back.

`IdleNotifier`: where nobody says anything for a while, hooks may let the user know that they
should.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

from harken.agents.hooks.notifications import UserInputPending, call_user
from harken.agents.smart_agent import SmartAgent
from harken.chat.commands.tree import owes_since
from harken.chat.commands.views import compacted_text
from harken.chat.open_chat import OpenChat
from harken.chat.usage import UsageTotal
from harken.core.logged_string import LoggedString
from harken.errors import AgentBusy, ConfigError, HarkenError, LogError, ModelError
from harken.terminal.styled_text import Line, clean, shorten
from harken.world.result import ToolError

AFTER_S = 60.0


@dataclass(slots=True)
class IdleNotifier:
    """Waits for the user, from the end of a turn to the beginning of the next."""

    opened: OpenChat
    after_s: float = AFTER_S
    _waiting: asyncio.Task[None] | None = field(default=None, init=False)

    def begin(self) -> None:
        """Begin to wait."""
        self.end()
        self._waiting = asyncio.get_running_loop().create_task(self._wait(), name="idle")

    def end(self) -> None:
        """Wait no longer."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    async def _wait(self) -> None:
        await asyncio.sleep(self.after_s)
        await call_user(self.opened.primary, UserInputPending(kind="idle_prompt"))


@dataclass(slots=True)
class TypeAhead:
    """Messages that are sent when the turn ends, oldest first."""

    messages: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.messages)

    def add(self, message: str) -> None:
        """Let a message wait."""
        self.messages.append(message)

    def next(self) -> str | None:
        """Take the oldest out, None where there is none."""
        return self.messages.pop(0) if self.messages else None

    def take_back(self) -> str:
        r"""Take all out, as one text to edit.

        >>> TypeAhead(["a", "b"]).take_back()
        'a\n\nb'
        """
        text = "\n\n".join(self.messages)
        self.messages.clear()
        return text

    def lines(self, width: int, most: int = 3) -> list[Line]:
        """Return how they are shown."""
        shown = self.messages[-most:]
        left = len(self.messages) - len(shown)
        rows: list[Line] = [[("dim", f"  … {left} more")]] if left else []
        for message in shown:
            text = " ".join(clean(message).split())
            rows.append([("dim", "  then: "), ("dim", shorten(text, max(width - 9, 4)))])
        if rows:
            rows[-1].append(("dim", "  (Esc takes it back)"))
        return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """How a turn ended: with an answer, a failed model call, or because it was stopped."""

    said: LoggedString | None = None
    error: ModelError | None = None
    stopped: bool = False
    note: str = ""
    """What there is to say where nobody has answered: what a compaction or a command did."""
    seconds: float
    used: UsageTotal


@dataclass(slots=True)
class Turns:
    """Runs turns of the primary agent."""

    opened: OpenChat
    ended: Callable[[TurnResult], None]
    """Told how a turn ended, when no other runs yet."""
    failed: Callable[[BaseException], None]
    """Told what no turn should raise: a log that fails, a bug."""
    queued: TypeAhead = field(default_factory=TypeAhead)
    used: UsageTotal = field(default_factory=UsageTotal)
    """What the turn that runs has used; fed by whoever hears the events."""
    idle: IdleNotifier = field(init=False)
    _task: asyncio.Task[None] | None = None
    _began: float = 0.0

    def __post_init__(self) -> None:
        self.idle = IdleNotifier(self.opened)

    @property
    def running(self) -> bool:
        """Whether a turn runs."""
        return self._task is not None

    @property
    def seconds(self) -> float:
        """How long the turn runs, or ran."""
        return time.monotonic() - self._began

    def start(self, text: str | None) -> None:
        """Begin a turn; None goes on with one that was cut off."""
        assert self._task is None, "one turn at a time"
        self.idle.end()
        self._task = asyncio.get_running_loop().create_task(self._turn(text), name="turn")

    async def follow(self) -> None:
        """Let the agent answer what happens outside, as soon as nothing else is being said."""
        try:
            while await self.opened.conversation.news():
                if not self.running:
                    self.start(None)
        except Exception as error:  # noqa: BLE001 - the border, as in `_worked`
            self.failed(error)

    def compact(self, instructions: str) -> None:
        """Let the agent sum up what it has in its context. Raises AgentBusy, ConfigError."""
        agent = self.opened.primary
        if not isinstance(agent, SmartAgent):
            raise ConfigError(f"{agent.name} has no context to sum up: code decides for it")

        async def compact() -> str:
            return compacted_text(await agent.compact(instructions))

        self.work(compact)

    def work(self, doing: Callable[[], Coroutine[Any, Any, str]]) -> None:
        """Do what the user wants of the chat itself, and tell what came of it. Raises AgentBusy."""
        if self._task is not None:
            raise AgentBusy(self.opened.primary.name)
        self.idle.end()
        self._task = asyncio.get_running_loop().create_task(self._work(doing), name="command")

    def stop(self) -> None:
        """Cut the turn off; the agent keeps what had arrived."""
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        """Cut the turn off and wait until it has ended."""
        self.idle.end()
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _turn(self, text: str | None) -> None:
        said: list[LoggedString] = []

        async def answer() -> None:
            said.append(await self.opened.conversation.say(text))

        ended = await self._worked(answer())
        if ended is not None:
            self._end(replace(ended, said=said[0] if said else None))

    async def _work(self, doing: Callable[[], Coroutine[Any, Any, str]]) -> None:
        notes: list[str] = []
        before, first = self.opened.primary.agent_id, self.opened.session.next_id()

        async def work() -> None:
            try:
                notes.append(await doing())
            except (HarkenError, ToolError) as error:
                if isinstance(error, ModelError | LogError):
                    raise
                notes.append(str(error))

        ended = await self._worked(work())
        if ended is None:
            return
        primary = self.opened.primary
        owes = False
        if primary.agent_id != before and primary.has_open_calls:
            owes = owes_since(primary, first)
            if not owes:
                notes.append(f"Enter lets {primary.name} answer what it heard last")
        self._end(replace(ended, note="\n".join(filter(None, notes))), owes=owes)

    async def _worked(self, work: Coroutine[Any, Any, None]) -> TurnResult | None:
        """Do some work; return how it ended, None where that is the end of the chat."""
        self.used, self._began = UsageTotal(), time.monotonic()
        error: ModelError | None = None
        stopped = False
        try:
            await work
        except asyncio.CancelledError:
            stopped = True  # the end of this task: nothing comes after
        except ModelError as failure:
            error = failure
        except Exception as failure:  # noqa: BLE001 - the border: raised where the screen is run
            self._task = None
            self.failed(failure)
            return None
        return TurnResult(error=error, stopped=stopped, seconds=self.seconds, used=self.used)

    def _end(self, ended: TurnResult, *, owes: bool = False) -> None:
        """Tell how the work ended; what waits is said next, where it ended well.

        `owes`: somebody has taken over and owes an answer, which comes first.
        """
        self._task = None
        self.idle.begin()
        self.ended(ended)
        if ended.stopped or ended.error is not None or self.running:
            return
        if owes:
            self.start(None)
        elif (waiting := self.queued.next()) is not None or self.opened.conversation.has_news:
            self.start(waiting)
