"""Dumb agents: agents whose answers come from code.

A dumb agent has the interface and the transcript of every agent, but a method computes its answers.
It is registered by name, and the log records that name, never an import path: reading a log must
not run code that the user did not register.
"""

from __future__ import annotations

from typing import Any

from harken.agents.agent import Agent
from harken.agents.checkpoints import checkpoint_if_due
from harken.agents.inputs import hear_news
from harken.agents.open_calls import has_open_calls
from harken.agents.turn_end import TurnEnded
from harken.agents.unanswered_input import needs_no_answer
from harken.core.event_types.spec import HookPoint
from harken.core.events import (
    AgentMoved,
    AgentStateSaved,
    Cause,
    Event,
    TranscriptEntry,
)
from harken.core.logged_string import LoggedString
from harken.core.messages import text_of
from harken.core.verdict import HookQuestion, Verdict, parse_allowed_verdict
from harken.session.invariants import encode_checked_event
from harken.session.state import AgentState


class DumbAgent(Agent):
    """An agent whose `answer` is code. Subclass it and `register` it."""

    _leaves = False

    async def answer(self, input: str) -> str:
        """Return the answer to the last input, or as a hook the verdict on a question, as text.

        An exception here reaches the caller.
        """
        raise NotImplementedError

    def begin(self) -> None:
        """Set up the object, new or revived, before a saved state is restored.

        An agent made again from the log is not constructed anew: what a subclass needs is set
        here, not in `__init__`.
        """

    def _set_up(self) -> None:
        self.begin()

    def dump_state(self) -> Any:
        """Return the state that must survive a resume as JSON values, or None if there is none."""
        return None

    def load_saved_state(self, saved: Any) -> None:
        """Restore what `dump_state` returned."""

    def _load_state(self, state: AgentState) -> None:
        """Restore the state last saved in the log, if any."""
        if state.saved_state is not None:
            self.load_saved_state(state.saved_state)

    async def response(self, input: str | None = None) -> LoggedString:
        """Answer the latest input. If `input` is given, append it first. Raises as `answer`.

        If every input was answered, the oldest unread input is appended: code answers one at a
        time.
        """
        if input is not None:
            self.harken(input)
        elif not has_open_calls(self):
            hear_news(self, most=1)
        inputs = [entry for entry in self._own_entries() if entry.role == "user"]
        last_input = next((e for e in reversed(inputs) if not needs_no_answer(e)), None)
        text = await self.answer("" if last_input is None else text_of(last_input.content))
        answer = self.say(text)
        checkpoint_if_due(self, "turn_boundary")
        self.session.sync()
        return answer

    async def _judge(self, question: HookQuestion) -> Any:
        """Return the value of which `_check_verdict` makes the verdict on a question."""
        return await self.answer(question.prompt)

    def _check_verdict(self, value: Any, point: HookPoint) -> Verdict:
        """Return the verdict in an answer. Raises UnparsableVerdict if it contains none."""
        return parse_allowed_verdict(str(value), point)

    async def _judge_question(self, question: HookQuestion) -> None:
        """Let the code judge, and log its verdict, its state and, if it quit, that it leaves.

        The verdict says all: the transcript gets no question and no answer. A judgment that a crash
        interrupts is not in the log, and is repeated by the resumed session.
        """
        self._leaves, self._judged_subject = False, question.subject
        watched = self.state.parent
        try:
            value = await self._judge(question)
        finally:
            self._judged_subject = None
        if (self.state.place, self.state.parent) not in (("hook", watched), ("gone", watched)):
            raise TurnEnded  # it took another place by a method
        verdict, changes = self._check_verdict(value, question.point), self._changed_state()
        with self.session.group():
            verdict_id = self._log_verdict(question, verdict)
            self.session.append_all(changes)
            if self._leaves:
                self.session.append(
                    AgentMoved(agent_id=self.agent_id, place="gone", cause=verdict_id)
                )

    def _leave_after_verdict(self) -> None:
        """Leave after the current verdict: the effect of `quit` while it judges."""
        self._leaves = True

    def say(self, text: str, cause: Cause = None) -> LoggedString:
        """Log an utterance and the state after it.

        Raises what `dump_state` raises, and InvalidEvent for a state that is not plain JSON;
        nothing was said then.
        """
        entry = TranscriptEntry(
            agent_id=self.agent_id, role="assistant", content=str(text), cause=cause
        )
        self.session.append_all([entry, *self._changed_state()])
        return LoggedString(text, entry.message_id)

    def save_state(self) -> None:
        """Log the state if it changed. Raises as `say`."""
        self.session.append_all(self._changed_state())

    def _changed_state(self) -> list[Event]:
        """Return the checked event of the state, or nothing if the log has this state already.

        Raises as `say`.
        """
        state = self.dump_state()
        if state == self.state.saved_state:
            return []
        saved = AgentStateSaved(agent_id=self.agent_id, state=state)
        encode_checked_event(saved)
        return [saved]


def can_answer(kind: type[Agent]) -> bool:
    """Whether agents of a class can answer. A hook of code that only judges defines no `answer`."""
    if not issubclass(kind, DumbAgent):
        return True
    return kind.answer is not DumbAgent.answer or kind.response is not DumbAgent.response
