"""`Conversation`: the user's conversation with the primary agent, even if that agent changes.

An agent may give its place to another agent in the middle of a turn. Then that agent owes the
answer, which is derived from the log, so it is the same after a resume.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from harken.agents.agent import Agent, load_agent
from harken.agents.inputs import has_news
from harken.agents.open_calls import answer_or_stop, has_open_calls
from harken.agents.turn.wakeups import TriggerListener, unread_message_ids
from harken.core.arguments import check_arguments
from harken.core.ids import MessageId
from harken.core.logged_string import LoggedString


@check_arguments
class Conversation:
    """The user's side of a session: input goes to the current primary agent."""

    def __init__(self, agent: Agent) -> None:
        """Start a conversation in the session of `agent`, which may be any of its agents."""
        self.session, self.runtime = agent.session, agent.runtime
        self.speaker = self._root = agent
        """The agent that answered last."""
        self._listening = TriggerListener(self.session, self.runtime)
        self._announced: set[MessageId] = set()

    @property
    def primary(self) -> Agent:
        """The current primary agent."""
        primary = self.session.state.primary or self._root.agent_id
        return load_agent(self.session, primary, self.runtime)

    def listen(self) -> AbstractAsyncContextManager[None]:
        """Listen to trigger events, in tasks of the running loop, until the block ends.

        Woken agents answer by themselves; the caller requests answers of the primary agent: `await
        news()`, then `await say()`. Only a single listener may be open at a time.
        """
        return self._listening.open()

    @property
    def has_news(self) -> bool:
        """Whether the primary agent has unread messages; `say()` answers them."""
        return has_news(self.primary)

    @property
    def is_waiting(self) -> bool:
        """Whether something may still arrive without user input."""
        return self._listening.is_busy or self.has_news

    async def wait_for_unread(self, *, to_the_end: bool = False) -> bool:
        """Wait for unread messages of the primary agent that were not announced; return True then.

        `to_the_end`: return False when nothing can arrive any more, instead of waiting. Raises
        unexpected failures, such as a failing log.
        """
        while True:
            self._listening.check()
            unheard = unread_message_ids(self.session, self.primary.agent_id)
            is_new = not unheard <= self._announced
            self._announced = unheard
            if is_new or (to_the_end and not self.is_waiting):
                return is_new
            self._listening.changed.clear()
            await self._listening.changed.wait()

    async def say(self, text: str | None = None) -> LoggedString:
        """Send a text to the primary agent, or continue its last turn, and return its answer.

        If another agent is primary after that and owes an answer, its answer is returned. If the
        turn was stopped, the text in place of the answer is returned: its `is_answer` is false.
        Raises what `Agent.response` raises otherwise; `say()` continues after each.
        """
        self.speaker = self.primary
        answer = await answer_or_stop(self.speaker, text)
        while (primary := self.primary).agent_id != self.speaker.agent_id and has_open_calls(
            primary
        ):
            self.speaker = primary
            answer = await answer_or_stop(primary)
        return answer
