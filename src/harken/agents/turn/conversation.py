"""`Conversation`: what a user talks with, whoever the primary agent is.

An agent may give its place to another in the middle of a turn. Then the other one owes the answer,
which is read from the log: so it is the same after a resume.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from harken.agents.agent import Agent, load_agent
from harken.agents.turn.wakeups import TriggerListener, news_of
from harken.core.arguments import check_arguments
from harken.core.ids import MessageId
from harken.core.logged_string import LoggedString


@check_arguments
class Conversation:
    """The user's side of a session: what is said goes to the agent that is primary now."""

    def __init__(self, agent: Agent) -> None:
        """Talk with the primary agent of the session in which `agent`, any of its agents, is."""
        self.session, self.runtime = agent.session, agent.runtime
        self.speaker = self._root = agent
        """Who answered last."""
        self._listening = TriggerListener(self.session, self.runtime)
        self._announced: set[MessageId] = set()

    @property
    def primary(self) -> Agent:
        """The agent that the user talks with now."""
        primary = self.session.state.primary or self._root.agent_id
        return load_agent(self.session, primary, self.runtime)

    def listen(self) -> AbstractAsyncContextManager[None]:
        """Listen to what happens outside, in tasks of the running loop, until the block ends.

        Agents that something wakes answer by themselves; the primary one is let answer by whoever
        talks with it: `await news()`, then `await say()`. One who listens at a time.
        """
        return self._listening.open()

    @property
    def has_news(self) -> bool:
        """Whether there is something that the primary agent has not heard; `say()` answers it."""
        return self.primary.has_news

    @property
    def is_waiting(self) -> bool:
        """Whether something may still come without anybody saying a thing."""
        return self._listening.is_busy or self.has_news

    async def news(self, *, to_the_end: bool = False) -> bool:
        """Return True when the primary agent has news that this has not told of; while it listens.

        `to_the_end`: return False when nothing can come any more, instead of waiting for it.
        Raises what no turn should raise: a log that fails, a bug.
        """
        while True:
            self._listening.check()
            unheard = news_of(self.session, self.primary.agent_id)
            is_new = not unheard <= self._announced
            self._announced = unheard
            if is_new or (to_the_end and not self.is_waiting):
                return is_new
            self._listening.stirred.clear()
            await self._listening.stirred.wait()

    async def say(self, text: str | None = None) -> LoggedString:
        """Let the primary agent hear a text, and return its answer; None: go on where it was.

        Where another agent is primary after that and owes an answer, its answer is what the user
        gets. Raises what `Agent.response` raises; `say()` goes on after each.
        """
        self.speaker = self.primary
        said = await self.speaker.response(text)
        while (
            primary := self.primary
        ).agent_id != self.speaker.agent_id and primary.has_open_calls:
            self.speaker = primary
            said = await primary.response()
        return said
