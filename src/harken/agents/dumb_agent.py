"""Dumb agents: code decides.

A dumb agent has the interface of every agent and a transcript like every agent; only what it
answers comes from a method. It is registered by name, and the log records that name, never an
import path: what a log says must not run code that the user did not register.
"""

from __future__ import annotations

from typing import Any

from harken.agents.agent import Agent
from harken.core.events import AgentStateSaved, Cause, Event, TranscriptEntry
from harken.core.logged_string import LoggedString
from harken.core.messages import text_of
from harken.session.invariants import as_written
from harken.session.state import AgentState


class DumbAgent(Agent):
    """An agent whose `answer` is code. Subclass it and `register` it."""

    async def answer(self, heard: str) -> str:
        """Return what to say to the last thing heard.

        Handle what can go wrong: an exception here reaches whoever asked.
        """
        raise NotImplementedError

    @property
    def can_talk(self) -> bool:
        """Whether it has an `answer`: a hook that only judges has none."""
        return type(self).answer is not DumbAgent.answer

    def dump_state(self) -> Any:
        """Return, as JSON values, all that must survive a resume; None where there is nothing."""
        return None

    def load_saved_state(self, saved: Any) -> None:
        """Restore what `dump_state` returned."""

    def restore(self, state: AgentState) -> None:
        """Take back the state last saved in the log, where there is one."""
        if state.saved_state is not None:
            self.load_saved_state(state.saved_state)

    async def response(self, input: str | None = None) -> LoggedString:
        """Answer what was heard; with `input`, hear it first. Errors as `answer`.

        Where all was answered, it hears the oldest news: code answers one thing at a time.
        """
        if input is not None:
            self.harken(input)
        elif not self.has_open_calls:
            self.hear_news(most=1)
        inputs = (entry for entry in reversed(self._own_entries()) if entry.role == "user")
        heard = next(inputs, None)
        text = await self.answer("" if heard is None else text_of(heard.content))
        said = self.say(text)
        self.checkpoint_if_due("turn_boundary")
        self.session.sync()
        return said

    def say(self, text: str, cause: Cause = None) -> LoggedString:
        """Log an utterance, and the state that it leaves behind.

        Raises what `dump_state` raises, and InvalidEvent for a state that is not plain JSON;
        nothing was said then.
        """
        entry = TranscriptEntry(
            agent_id=self.agent_id, role="assistant", content=str(text), cause=cause
        )
        self.session.append_all(self.with_state(entry))
        return LoggedString(text, entry.message_id)

    def with_state(self, entry: TranscriptEntry) -> list[Event]:
        """Return what it says with the state that this leaves behind, where it changed.

        The state comes first where both have a cause: it counts with what is said, so wherever a
        log ends, both are there or neither. Errors as `say`.
        """
        saved = self._changed_state(entry.cause)
        return [entry, *saved] if entry.cause is None else [*saved, entry]

    def save_state(self) -> None:
        """Log the state where it changed. Errors as `say`."""
        self.session.append_all(self._changed_state())

    def _changed_state(self, cause: Cause = None) -> list[Event]:
        """Return the event that holds the state, checked; none where the log has it already."""
        state = self.dump_state()
        if state == self.state.saved_state and self.state.pending_state is None:
            return []
        saved = AgentStateSaved(agent_id=self.agent_id, state=state, cause=cause)
        as_written(saved)
        return [saved]
