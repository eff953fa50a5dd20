"""`AgentTurns`: the turns that the user begins with an agent, with the messages that wait."""

from __future__ import annotations

from collections.abc import Callable

from harken.agents.agent import load_agent
from harken.agents.open_calls import answer_or_stop, has_open_calls
from harken.agents.turn.triggered_turn import triggered_turn, wait_for_turn
from harken.chat.open_chat import OpenChat
from harken.chat.running.turns import TurnResult, Turns
from harken.core.events import Event, TranscriptEntry
from harken.core.ids import AgentId
from harken.core.logged_string import LoggedString
from harken.errors import AgentBusy
from harken.service.viewer.session_runner import AgentRun


class AgentSpeaker:
    """An agent that the user talks with.

    A subagent keeps its place in the tree. Its turn is one that it begins by itself: an action of
    another agent that asks it waits.
    """

    def __init__(self, chat: OpenChat, agent_id: AgentId) -> None:
        self._chat, self._agent_id = chat, agent_id

    @property
    def is_primary(self) -> bool:
        """Whether it is the primary agent now."""
        return self._chat.primary.agent_id == self._agent_id

    @property
    def has_news(self) -> bool:
        """Whether it is to answer unread messages. Subagents do that by themselves."""
        return self.is_primary and self._chat.conversation.has_news

    async def say(self, text: str | None = None) -> LoggedString:
        """Send a text when the agent is free, and return its answer. Raises as `response`."""
        if self.is_primary:
            return await self._chat.conversation.say(text)
        agent = load_agent(self._chat.session, self._agent_id, self._chat.runtime)
        await wait_for_turn(agent)
        async with triggered_turn(agent):
            return await answer_or_stop(agent, text)


class AgentTurns:
    """The turns with an agent. Used in the event loop of the session; `row` in any thread."""

    def __init__(
        self,
        chat: OpenChat,
        agent_id: AgentId,
        on_change: Callable[[], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        """Call `on_change` after each change, and `on_failure` with an error that ends the run."""
        self.agent_id = agent_id
        self._chat, self._on_change, self._on_failure = chat, on_change, on_failure
        self._turns = Turns(chat, self._end_turn, self._fail, AgentSpeaker(chat, agent_id))
        self._unlogged: str | None = None
        """The message of the turn, if it is not in the log yet."""
        self._returned: list[str] = []
        self._error: str | None = None
        self._can_continue = self._owes_answer()

    @property
    def is_running(self) -> bool:
        """Whether a turn runs."""
        return self._turns.running

    def send(self, text: str | None) -> None:
        """Send a message, after the turn that runs. Without a text, continue the last turn.

        Raises ValueError if there is no turn to continue.
        """
        if text is None and not (self._can_continue or self._turns.running):
            raise ValueError("there is no turn that was cut off: write a message")
        self._returned = []
        if not self._turns.running:
            self._start(text)
        elif text is not None:
            self._turns.queued.add(text)
        self._on_change()

    def answer_news(self) -> None:
        """Answer unread messages, such as of triggers. A turn that runs reads them by itself."""
        if not self._turns.running:
            self._start(None)
            self._on_change()

    def _start(self, text: str | None) -> None:
        self._unlogged, self._error = text, None
        self._turns.start(text)

    def stop(self) -> None:
        """Cancel the turn."""
        self._turns.stop()

    async def close(self) -> None:
        """Cancel the turn, and wait for its end."""
        await self._turns.close()

    def on_event(self, event: Event) -> None:
        """Note that the message of the turn is in the log. Called in any thread."""
        if not isinstance(event, TranscriptEntry) or event.agent_id != self.agent_id:
            return
        if event.role == "user" and event.substance is None and event.cause is None:
            self._unlogged = None

    def row(self, texts: tuple[str, str] = ("", "")) -> AgentRun:
        """Return the state of the turns. texts: text and thinking that the agent writes now."""
        unlogged, is_running = self._unlogged, self._turns.running
        return AgentRun(
            agent=self.agent_id,
            is_running=is_running,
            queued=[*([unlogged] if unlogged else []), *self._turns.queued.messages],
            returned=list(self._returned),
            error=self._error,
            can_continue=self._can_continue and not is_running,
            text=texts[0],
            thinking=texts[1],
        )

    def _end_turn(self, result: TurnResult) -> None:
        self._error = None if result.error is None else str(result.error)
        if result.answer is not None and not result.answer.is_answer:
            self._error = str(result.answer)
        if result.stopped or result.error is not None:
            self._take_back()
        self._unlogged = None
        self._can_continue = self._owes_answer()
        self._on_change()

    def _fail(self, error: BaseException) -> None:
        if not isinstance(error, AgentBusy):
            self._on_failure(error)
            return
        self._error = str(error)
        self._take_back()
        self._on_change()

    def _take_back(self) -> None:
        unlogged, self._unlogged = self._unlogged, None
        self._returned = [*([unlogged] if unlogged else []), *self._turns.queued.messages]
        self._turns.queued.messages.clear()

    def _owes_answer(self) -> bool:
        agent = load_agent(self._chat.session, self.agent_id, self._chat.runtime)
        return has_open_calls(agent)
