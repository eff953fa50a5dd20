"""`SessionRun`: a session that runs in a thread of its own, with its own event loop.

The runtime blocks its loop now and then (the log is synchronized, a store is locked), so it has
another loop than the server. The server calls functions in the loop of the session and reads its
state from other threads. A run ends as a chat does in which the user left: the turns are
cancelled, and the end of the session is logged, which can be continued anywhere.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import click

from harken.agents.agent import get_agent
from harken.agents.dumb_agent import can_answer
from harken.chat.open import open_chat
from harken.chat.open_chat import OpenChat
from harken.chat.options import ChatOptions
from harken.chat.running.unused_session import remove_unused_session
from harken.cli.command_context import command_context
from harken.cli.commands.ui.runs.agent_turns import AgentTurns
from harken.cli.commands.ui.runs.live_answers import LiveAnswers
from harken.cli.commands.ui.runs.page_user import PageUser
from harken.config.home import Home
from harken.core.clock import format_rfc3339, system_clock
from harken.core.events import Event
from harken.core.ids import AgentId
from harken.core.stream import Chunk
from harken.errors import ConfigError, NameNotFound
from harken.service.viewer.session_runner import AgentRun, RunRow, RunState
from harken.store.remote.errors import RequestRefused

T = TypeVar("T")
_MAX_NOTICES = 20
_CALL_TIMEOUT_S = 20.0
"""The time that a request waits for the loop of a session, which a tool may block."""
_MAX_QUEUED = 50


class SessionRun:
    """A session that runs in this process. Its methods are called by any thread."""

    def __init__(self, home: Home, wish: ChatOptions, context: click.Context | None) -> None:
        """Nothing is opened yet. `context` is the command that runs the session."""
        self._home, self._wish, self._context = home, wish, context
        self.began = format_rfc3339(system_clock())
        self._lock = threading.Lock()
        self.user = PageUser(self._touch)
        self.version = 0
        """Changes with the row."""
        self.error: str | None = None
        """Why the run failed."""
        self.is_unused = False
        """Whether the session was new, got no message, and was removed at the end."""
        self._answers = LiveAnswers()
        self._notices: deque[str] = deque(maxlen=_MAX_NOTICES)
        self._turns: dict[AgentId, AgentTurns] = {}
        self._received: set[str] = set()
        """The ids of messages."""
        self._opened: Future[OpenChat] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._is_ended_by_user = False
        self._thread = threading.Thread(target=self._run, name="harken run", daemon=True)

    def start(self) -> Path:
        """Open the session and return its log. Raises as `open_chat`."""
        self._thread.start()
        return self._opened.result().session.path

    @property
    def is_alive(self) -> bool:
        """Whether the run has not ended."""
        return self._thread.is_alive()

    def send(self, message_id: str, agent: str | None, text: str | None) -> None:
        """Send a message to an agent, once. Raises NameNotFound, RequestRefused."""
        self._call(lambda: self._send(message_id, agent, text))

    def interrupt(self, agent: str | None) -> None:
        """Stop the turn of an agent, or all turns."""
        self._call(lambda: self._interrupt(agent))

    def request_end(self, *, by_user: bool) -> None:
        """Begin to end the run."""
        self._is_ended_by_user = by_user
        loop, stop = self._loop, self._stop
        if loop is not None and stop is not None:
            with suppress(RuntimeError):  # The loop is closed: it has ended.
                loop.call_soon_threadsafe(stop.set)
        self._touch()

    def join(self, timeout_s: float) -> bool:
        """Wait for the end of the run; return whether it has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def row(self, name: str, *, agents: Collection[str] = (), upto: int = 0) -> RunRow:
        """Return the state of the run. See `SessionRunner.find`."""
        chat = self._opened.result()
        is_ending = self._stop is None or self._stop.is_set()
        state: RunState = "ending" if is_ending else "running"
        permissions = chat.runtime.world.permissions
        return RunRow(
            name=name,
            state="failed" if self.error is not None and not self.is_alive else state,
            error=self.error,
            began=self.began,
            folder=str(chat.settings.working_folder),
            permission="" if permissions is None else permissions.mode,
            primary=chat.session.state.primary or "",
            agents=self._agent_rows(agents, upto),
            questions=self.user.rows(),
            notices=list(self._notices),
            is_unused=self.is_unused,
        )

    def _agent_rows(self, agents: Collection[str], upto: int) -> list[AgentRun]:
        answers = {
            agent_id: self._answers.find(agent_id, upto)
            for agent_id in self._answers.agents()
            if agent_id in agents
        }
        turns = dict(self._turns)
        rows = [turns[agent_id].row(answers.get(agent_id, ("", ""))) for agent_id in turns]
        for agent_id, (text, thinking) in answers.items():
            if agent_id not in turns and (text or thinking):
                rows.append(AgentRun(agent=agent_id, text=text, thinking=thinking))
        return rows

    def _touch(self) -> None:
        with self._lock:
            self.version += 1

    def _call(self, function: Callable[[], T]) -> T:
        """Call a function in the loop of the session. Raises RequestRefused if it has ended."""
        result: Future[T] = Future()

        def run() -> None:
            try:
                result.set_result(function())
            except BaseException as error:  # noqa: BLE001 - raised by the caller
                result.set_exception(error)

        loop = self._loop
        try:
            if loop is None:
                raise RuntimeError("not opened")
            loop.call_soon_threadsafe(run)
            return result.result(_CALL_TIMEOUT_S)
        except RuntimeError as error:
            if result.done():
                raise
            raise RequestRefused("invalid", "this session does not run here any more") from error
        except TimeoutError:
            raise RequestRefused(
                "busy", "the session is busy: what you sent is done when it can"
            ) from None

    def _send(self, message_id: str, agent: str | None, text: str | None) -> None:
        if message_id in self._received:
            return
        chat = self._opened.result()
        agent_id = _find_agent(chat, agent)
        if text is not None and not text.strip():
            raise ValueError("a message needs a text")
        turns = self._find_turns(chat, agent_id)
        if len(turns.row().queued) >= _MAX_QUEUED:
            raise RequestRefused("busy", f"{_MAX_QUEUED} messages wait for this agent already")
        turns.send(text)
        self._received.add(message_id)

    def _interrupt(self, agent: str | None) -> None:
        for agent_id, turns in self._turns.items():
            if agent in (None, agent_id):
                turns.stop()
        self._touch()

    def _find_turns(self, chat: OpenChat, agent_id: AgentId) -> AgentTurns:
        if agent_id not in self._turns:
            self._turns[agent_id] = AgentTurns(chat, agent_id, self._touch, self._fail)
        return self._turns[agent_id]

    def _on_chunk(self, agent_id: AgentId, chunk: Chunk) -> None:
        if self._answers.add_chunk(agent_id, chunk):
            self._touch()

    def _on_event(self, event: Event) -> None:
        self._answers.add_event(event)
        for turns in list(self._turns.values()):
            turns.on_event(event)
        self._touch()

    def _on_notice(self, text: str) -> None:
        self._notices.append(text)
        self._touch()

    def _fail(self, error: BaseException) -> None:
        """End the run because of an error that no turn raises: a log that fails, a bug."""
        self.error = self.error or _format_error(error)
        if self._stop is not None:
            self._stop.set()
        self._touch()

    def _run(self) -> None:
        with command_context(self._context):
            try:
                chat = open_chat(
                    self._home,
                    self._wish,
                    user=self.user,
                    on_chunk=self._on_chunk,
                    on_notice=self._on_notice,
                )
            except BaseException as error:  # noqa: BLE001 - raised by `start`
                self._opened.set_exception(error)
                return
            self._notices.extend(chat.notes)
            try:
                with chat:
                    with asyncio.Runner() as runner:
                        runner.run(self._serve(chat))
                    self._end(chat)
            except Exception as error:  # noqa: BLE001 - the border: the page shows it
                if not self._opened.done():
                    self._opened.set_exception(error)
                self._fail(error)

    def _end(self, chat: OpenChat) -> None:
        self.is_unused = remove_unused_session(self._wish, chat)
        if not self.is_unused:
            chat.end(by_user=self._is_ended_by_user)

    async def _follow(self, chat: OpenChat) -> None:
        """Let the primary agent answer the messages of triggers."""
        try:
            while await chat.conversation.wait_for_unread():
                turns = self._find_turns(chat, chat.primary.agent_id)
                turns.answer_news()
        except Exception as error:  # noqa: BLE001 - as in `_run`
            self._fail(error)

    async def _serve(self, chat: OpenChat) -> None:
        """Run the turns until the run is ended."""
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        chat.session.add_listener(self._on_event)
        try:
            async with chat.conversation.listen():
                self._find_turns(chat, chat.primary.agent_id)
                following = asyncio.create_task(self._follow(chat), name="events")
                self._opened.set_result(chat)
                await self._stop.wait()
                following.cancel()
                for turns in self._turns.values():
                    await turns.close()
        finally:
            self._touch()
            await chat.runtime.world.close()


def _find_agent(chat: OpenChat, agent: str | None) -> AgentId:
    """Return an agent that the user can talk with. Raises NameNotFound, ConfigError."""
    if agent is None:
        return chat.primary.agent_id
    state = chat.session.agents.get(AgentId(agent))
    if state is None:
        raise NameNotFound("agent", agent, list(chat.session.agents))
    name = state.name or state.id
    if not chat.session.state.is_live(state.id):
        raise ConfigError(f"{name} has ended, and answers no messages")
    if state.id != chat.session.state.primary and state.place == "hook":
        raise ConfigError(f"{name} is a hook, which answers questions about other agents only")
    if not can_answer(type(get_agent(chat.primary, state.id))):
        raise ConfigError(f"{name} only gives verdicts, and answers no messages")
    return state.id


def _format_error(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
