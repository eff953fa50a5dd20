"""`AgentJudgment`: the part of an agent that judges as a hook, and logs its verdicts.

A verdict and all its effects on the hook itself are one group of events. A model also has the
question and its answer in its transcript; code has not.
"""

from __future__ import annotations

from collections.abc import Sequence

from harken.core.events import AgentMoved, HookVerdict, Reference, TranscriptEntry
from harken.core.ids import AgentId, MessageId, reference_message_id
from harken.core.logged_string import LoggedString
from harken.core.verdict import HookQuestion, Verdict, describe_verdict, parse_allowed_verdict
from harken.session.session import Session
from harken.session.state import AgentState


class AgentJudgment:
    """The methods of an agent that `agents.hooks` calls while it is a hook."""

    session: Session
    agent_id: AgentId
    _judged_subject: Reference | None = None
    """The message or call that the code of this agent judges now."""

    @property
    def state(self) -> AgentState:
        """The state of the agent in the session."""
        raise NotImplementedError

    async def response(self, input: str | None = None) -> LoggedString:
        """Answer the latest input."""
        raise NotImplementedError

    def _update_duty(self, *, is_hook: bool, points: Sequence[str] | None = None) -> bool:
        """Tell a model the points at which it is asked as a hook, or remove them.

        Return whether that changed.
        """
        return False

    def _format_question(self, question: HookQuestion) -> str:
        """Format a question as the text that its transcript has."""
        return question.prompt

    async def _judge_question(self, question: HookQuestion) -> None:
        """Judge a question, and log the verdict.

        By default the question is logged in the transcript, and the answer is parsed as a verdict.
        Raises UnparsableVerdict if it is none.
        """
        self._log_question(question)
        answer = await self.response()
        verdict = parse_allowed_verdict(str(answer), question.point)
        self._log_verdict(question, verdict, answer.message_id)

    def _log_question(self, question: HookQuestion) -> None:
        """Append a question to the transcript, unless it was asked before a crash."""
        if question.subject in self.state.questions:
            return
        self.session.append(
            TranscriptEntry(
                agent_id=self.agent_id,
                role="user",
                content=self._format_question(question),
                cause=question.subject,
                purpose="question",
            )
        )

    def _has_verdict_tool(self) -> bool:
        """Whether it has the tool `verdict`, by which the model of a hook gives its verdict."""
        return False

    def _log_verdict(
        self,
        question: HookQuestion,
        verdict: Verdict,
        answer_id: MessageId | None = None,
        failed: str | None = None,
        *,
        is_stop: bool = False,
    ) -> MessageId:
        """Log a verdict and its effects on the hook itself, in one group. Return its id.

        answer_id: the message with the verdict, or None if code judged. failed: the reason of a
        failure. is_stop: the denial ends the turn of the watched agent.
        """
        kind, text = describe_verdict(verdict)
        event = HookVerdict(
            agent_id=self.agent_id,
            watched=self.state.parent or AgentId(""),
            subject=question.subject,
            point=question.point,
            verdict="stop" if is_stop else kind,
            text=text,
            said=answer_id,
            failed=failed,
        )
        questions = [*self.state.questions.values()]  # earlier ones were given up
        with self.session.group():
            self._before_verdict()
            leaving = self.state.leaving
            self.session.append(event)
            if leaving is not None:
                cause = reference_message_id(leaving.cause)  # the call has its result
                self.session.append(AgentMoved(agent_id=self.agent_id, place="gone", cause=cause))
            elif questions:
                self._after_verdict(questions[0])
        return event.message_id

    def _before_verdict(self) -> None:
        """Log the events that precede a verdict, also a failed one, in its group."""

    def _after_verdict(self, question_id: MessageId) -> None:
        """Log the effects of a verdict, also of a failed one, on a hook that stays.

        question_id: the oldest question that had no verdict.
        """
