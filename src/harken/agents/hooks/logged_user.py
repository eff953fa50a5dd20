"""`LoggedUser`: what an agent's action asks the user, and the answer, stand in the log.

The user is a party: the question is what the user heard, with the call as its cause; the answer
is what the user said, with the question as its cause.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from harken.agents.agent import Agent
from harken.agents.hooks.notifications import (
    ApprovalPending,
    UserInputPending,
    call_user,
    hook_decision_for_user,
)
from harken.core.events import Cause, Reference, TranscriptEntry
from harken.core.ids import USER, MessageId
from harken.core.logged_string import LoggedString
from harken.core.messages import Role
from harken.world.user import ApprovalDecision, ApprovalRequest, User, UserQuestion, UserUnavailable


@dataclass(frozen=True, slots=True)
class LoggedUser:
    """A `User` whose questions and answers are logged, as those of one call."""

    user: User | None
    """None: nobody is there, but hooks that may answer in their place."""
    agent: Agent
    call: Reference
    for_hook: bool = False
    """Whether it is a hook that wants their leave: what another allowed before does not count."""

    async def ask(self, asked: UserQuestion) -> LoggedString:
        """Return the answer, with its id. Raises UserUnavailable."""
        if self.user is None:
            raise UserUnavailable("nobody is there to answer")
        options = "".join(f"\n- {option}" for option in asked.options)
        question = self._log("user", f"[{asked.agent}] asks: {asked.question}{options}", self.call)
        await call_user(self.agent, UserInputPending(kind="permission_prompt", tool="ask_user"))
        try:
            answer = await self.user.ask(asked)
        except UserUnavailable as error:
            self._log("system", str(error), question)
            raise
        return LoggedString(answer, self._log("assistant", answer, question))

    async def approve(self, wanted: ApprovalRequest) -> ApprovalDecision:
        """Return what the user said, with its id as `said`. Raises UserUnavailable.

        A hook may say so in their place, before they are asked.
        """
        asked = ApprovalPending(call=self.call, wanted=wanted, is_wanted_by_hook=self.for_hook)
        word = await hook_decision_for_user(self.agent, asked)
        if word is not None:
            why = "" if word.refusal is None else f"hook {word.hook}: {word.refusal}"
            return ApprovalDecision(allowed=word.refusal is None, reason=why, said=word.said)
        if self.user is None:
            raise UserUnavailable("no hook allows it, either")
        note = f"\n({wanted.note})" if wanted.note else ""
        text = f"[{wanted.agent}] wants {wanted.tool}: {wanted.preview}{note}"
        question = self._log("user", text, self.call)
        await call_user(self.agent, UserInputPending(kind="permission_prompt", tool=wanted.tool))
        try:
            leave = await self.user.approve(wanted)
        except UserUnavailable as error:
            self._log("system", str(error), question)
            raise
        return replace(leave, said=self._log("assistant", format_decision(leave), question))

    def _log(self, role: Role, text: str, cause: Cause) -> MessageId:
        entry = TranscriptEntry(agent_id=USER, role=role, content=text, cause=cause)
        return self.agent.session.append(entry)


def format_decision(leave: ApprovalDecision) -> str:
    """Write what a user said to a wanted action.

    >>> format_decision(ApprovalDecision(allowed=False, reason="not on Fridays"))
    'DENY: not on Fridays'
    """
    if not leave.allowed:
        return f"DENY: {leave.reason}"
    return "ALLOW" if leave.rule is None else f"ALLOW from now on: {leave.rule}"
