"""Run turns one after the other, while the user may type on.

`TypeAhead` queues the messages that the user sends while a turn runs; they are shown, and can be
taken back. `IdleNotifier` calls hooks that can notify the user if no message is sent for a while.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from harken.agents.hooks.notifications import UserInputPending, call_user
from harken.agents.open_calls import has_open_calls
from harken.agents.smart_agent import SmartAgent
from harken.agents.turn.conversation import Conversation
from harken.chat.commands.tree import owes_answer_since
from harken.chat.commands.views import format_compaction
from harken.chat.open_chat import OpenChat
from harken.chat.usage import UsageTotal
from harken.core import structs
from harken.core.logged_string import LoggedString
from harken.errors import AgentBusy, ConfigError, HarkenError, LogError, ModelError
from harken.terminal.styled_text import Line, clean_text, shorten
from harken.world.result import ToolError

IDLE_AFTER_S = 60.0


@dataclass(slots=True)
class IdleNotifier:
    """A timer between the end of a turn and the beginning of the next."""

    chat: OpenChat
    after_s: float = IDLE_AFTER_S
    _waiting: asyncio.Task[None] | None = field(default=None, init=False)

    def begin(self) -> None:
        """Start the timer."""
        self.end()
        self._waiting = asyncio.get_running_loop().create_task(self._wait(), name="idle")

    def end(self) -> None:
        """Stop the timer."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    async def _wait(self) -> None:
        await asyncio.sleep(self.after_s)
        await call_user(self.chat.primary, UserInputPending(kind="idle_prompt"))


class TypeAhead(msgspec.Struct):
    """Messages that are sent when the turn ends, oldest first."""

    messages: list[str] = msgspec.field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.messages)

    def add(self, message: str) -> None:
        """Queue a message."""
        self.messages.append(message)

    def next(self) -> str | None:
        """Remove and return the oldest message. Return None if there is none."""
        return self.messages.pop(0) if self.messages else None

    def take_back(self) -> str:
        r"""Remove all messages and return them as one text.

        >>> TypeAhead(["a", "b"]).take_back()
        'a\n\nb'
        """
        text = "\n\n".join(self.messages)
        self.messages.clear()
        return text

    def lines(self, width: int, limit: int = 3) -> list[Line]:
        """Return the messages as lines."""
        visible = self.messages[-limit:]
        hidden_count = len(self.messages) - len(visible)
        rows: list[Line] = [[("dim", f"  … {hidden_count} more")]] if hidden_count else []
        for message in visible:
            text = " ".join(clean_text(message).split())
            rows.append([("dim", "  then: "), ("dim", shorten(text, max(width - 9, 4)))])
        if rows:
            rows[-1].append(("dim", "  (Esc removes it)"))
        return rows


class TurnResult(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a turn: with an answer, a failed model call, or a cancellation."""

    answer: LoggedString | None = None
    error: ModelError | None = None
    stopped: bool = False
    note: str = ""
    """The message if there is no answer: the result of a compaction or of a command."""
    seconds: float
    usage: UsageTotal


class Speaker(Protocol):
    """The agent that the user talks with."""

    @property
    def is_primary(self) -> bool:
        """Whether it is the primary agent now."""

    @property
    def has_news(self) -> bool:
        """Whether the agent has unread messages, which `say()` answers."""

    async def say(self, text: str | None = None) -> LoggedString:
        """Send a text, or continue the last turn, and return the answer."""


@dataclass(slots=True)
class Turns:
    """Runs turns of an agent, by default of the primary one."""

    chat: OpenChat
    on_end: Callable[[TurnResult], None]
    """Called with the result of a turn, when no other runs yet."""
    on_failure: Callable[[BaseException], None]
    """Called with an error that no turn should raise: a log that fails, a bug."""
    speaker: Speaker | None = None
    """The agent. None: the primary agent, also when another one takes that place."""
    queued: TypeAhead = field(default_factory=TypeAhead)
    usage: UsageTotal = field(default_factory=UsageTotal)
    """The usage of the current turn. The listener of events updates it."""
    idle: IdleNotifier = field(init=False)
    _task: asyncio.Task[None] | None = None
    _began: float = 0.0

    def __post_init__(self) -> None:
        self.idle = IdleNotifier(self.chat)

    @property
    def _speaker(self) -> Speaker | Conversation:
        return self.chat.conversation if self.speaker is None else self.speaker

    @property
    def running(self) -> bool:
        """Whether a turn runs."""
        return self._task is not None

    @property
    def seconds(self) -> float:
        """The duration of the current or last turn."""
        return time.monotonic() - self._began

    def start(self, text: str | None) -> None:
        """Begin a turn. Continue an interrupted turn if `text` is None."""
        assert self._task is None, "a turn is running; wait for it, or stop it with Ctrl-C"
        self.idle.end()
        self._task = asyncio.get_running_loop().create_task(self._turn(text), name="turn")

    async def follow(self) -> None:
        """Let the agent answer trigger events, as soon as no turn runs."""
        try:
            while await self.chat.conversation.wait_for_unread():
                if not self.running:
                    self.start(None)
        except Exception as error:  # noqa: BLE001 - all errors are handled, as in `_await_result`
            self.on_failure(error)

    def compact(self, instructions: str) -> None:
        """Compact the context of the agent. Raises AgentBusy, ConfigError."""
        agent = self.chat.primary
        if not isinstance(agent, SmartAgent):
            raise ConfigError(f"{agent.name} is a dumb agent and has no context to compact")

        async def compact() -> str:
            return format_compaction(await agent.compact(instructions))

        self.run_operation(compact)

    def run_operation(self, doing: Callable[[], Coroutine[Any, Any, str]]) -> None:
        """Run an operation of the chat itself, and report its result. Raises AgentBusy."""
        if self._task is not None:
            raise AgentBusy(self.chat.primary.name)
        self.idle.end()
        self._task = asyncio.get_running_loop().create_task(self._work(doing), name="command")

    def stop(self) -> None:
        """Cancel the turn; the agent keeps the received part."""
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        """Cancel the turn and wait until it has ended."""
        self.idle.end()
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _turn(self, text: str | None) -> None:
        messages: list[LoggedString] = []

        async def answer() -> None:
            messages.append(await self._speaker.say(text))

        result = await self._await_result(answer())
        if result is not None:
            self._end(structs.replace(result, answer=messages[0] if messages else None))

    async def _work(self, doing: Callable[[], Coroutine[Any, Any, str]]) -> None:
        notes: list[str] = []
        before, first = self.chat.primary.agent_id, self.chat.session.next_id()

        async def work() -> None:
            try:
                notes.append(await doing())
            except (HarkenError, ToolError) as error:
                if isinstance(error, ModelError | LogError):
                    raise
                notes.append(str(error))

        result = await self._await_result(work())
        if result is None:
            return
        primary = self.chat.primary
        owes = False
        if primary.agent_id != before and has_open_calls(primary):
            owes = owes_answer_since(primary, first)
            if not owes:
                notes.append(f"Enter lets {primary.name} answer the last message")
        self._end(structs.replace(result, note="\n".join(filter(None, notes))), owes=owes)

    async def _await_result(self, work: Coroutine[Any, Any, None]) -> TurnResult | None:
        """Await `work` and return its result. Return None if the chat ends."""
        self.usage, self._began = UsageTotal(), time.monotonic()
        error: ModelError | None = None
        stopped = False
        try:
            await work
        except asyncio.CancelledError:
            stopped = True  # this task ends here
        except ModelError as failure:
            error = failure
        except Exception as failure:  # noqa: BLE001 - re-raised by `Screen.run`
            self._task = None
            self.on_failure(failure)
            return None
        return TurnResult(error=error, stopped=stopped, seconds=self.seconds, usage=self.usage)

    def _end(self, result: TurnResult, *, owes: bool = False) -> None:
        """Report the end of the work. If it succeeded, send the queued messages next.

        `owes`: an agent has taken over and owes an answer, which comes first.
        """
        self._task = None
        if self.speaker is None or self.speaker.is_primary:
            self.idle.begin()
        self.on_end(result)
        if result.stopped or result.error is not None or self.running:
            return
        if owes:
            self.start(None)
        elif (waiting := self.queued.next()) is not None or self._speaker.has_news:
            self.start(waiting)
