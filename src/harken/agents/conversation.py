"""`Conversation`: what a user talks with, whoever the primary agent is.

An agent may give its place to another in the middle of a turn. Then the other one owes the answer,
which is read from the log: so it is the same after a resume.
"""

from __future__ import annotations

from harken.agents.base import Agent, revive
from harken.core.text import LoggedString


class Conversation:
    """The user's side of a session: what is said goes to the agent that is primary now."""

    def __init__(self, agent: Agent) -> None:
        """Talk with the primary agent of the session in which `agent`, any of its agents, is."""
        self.session, self.runtime = agent.session, agent.runtime
        self.speaker = self._root = agent
        """Who answered last."""

    @property
    def primary(self) -> Agent:
        """The agent that the user talks with now."""
        primary = self.session.state.primary or self._root.agent_id
        return revive(self.session, primary, self.runtime)

    async def say(self, text: str | None = None) -> LoggedString:
        """Let the primary agent hear a text, and return its answer; None: go on where it was.

        Where another agent is primary after that and owes an answer, its answer is what the user
        gets. Raises what `Agent.response` raises; `say()` goes on after each.
        """
        self.speaker = self.primary
        said = await self.speaker.response(text)
        while (primary := self.primary).agent_id != self.speaker.agent_id and primary.cut_off:
            self.speaker = primary
            said = await primary.response()
        return said
