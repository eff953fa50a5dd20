"""`LoggedUser`: logs the questions of an agent's action to the user, and the replies.

The question is logged as input of the agent `user`, with the call as its cause; the reply as a
message of the user, with the question as its cause.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from harken.agents import texts
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


class LoggedUser(msgspec.Struct, frozen=True):
    """A `User` that logs questions and replies for a call."""

    user: User | None
    """None: only hooks may answer, in the user's place."""
    agent: Agent
    call: Reference
    for_hook: bool = False
    """Whether a hook requires the approval: an approval by another hook does not count then."""
    tool: str = "ask_user"
    """The tool that asks, for hooks."""

    async def ask(self, request: UserQuestion) -> LoggedString:
        """Return the reply, with its id. Raises UserUnavailable."""
        question, answer = await self.request_answer(request)
        return LoggedString(answer, self._log("assistant", answer, question))

    async def request_answer(self, request: UserQuestion) -> tuple[MessageId, str]:
        """Return the id of the logged question and the reply, which the caller logs.

        Raises UserUnavailable.
        """
        if self.user is None:
            raise UserUnavailable("no user is available")
        options = "".join(texts.USER_OPTION.format(option) for option in request.options)
        question = self._log(
            "user", texts.USER_QUESTION.format(request.agent, request.question, options), self.call
        )
        await call_user(self.agent, UserInputPending(kind="permission_prompt", tool=self.tool))
        try:
            return question, await self.user.ask(request)
        except UserUnavailable as error:
            self._log("system", str(error), question)
            raise

    async def approve(self, wanted: ApprovalRequest) -> ApprovalDecision:
        """Return the decision, with its message id as `said`. Raises UserUnavailable.

        A hook may decide first, in the user's place.
        """
        pending = ApprovalPending(call=self.call, request=wanted, is_wanted_by_hook=self.for_hook)
        reply = await hook_decision_for_user(self.agent, pending)
        if reply is not None:
            refusal = ""
            if reply.refusal is not None:
                refusal = texts.HOOK_REFUSAL.format(reply.hook, reply.refusal)
            return ApprovalDecision(
                allowed=reply.refusal is None, reason=refusal, decision_id=reply.message_id
            )
        if self.user is None:
            raise UserUnavailable("no hook allows it, either")
        note = texts.APPROVAL_NOTE.format(wanted.note) if wanted.note else ""
        text = texts.APPROVAL_REQUEST.format(wanted.agent, wanted.tool, wanted.preview, note)
        question = self._log("user", text, self.call)
        await call_user(self.agent, UserInputPending(kind="permission_prompt", tool=wanted.tool))
        try:
            leave = await self.user.approve(wanted)
        except UserUnavailable as error:
            self._log("system", str(error), question)
            raise
        return replace(leave, decision_id=self._log("assistant", format_decision(leave), question))

    def _log(self, role: Role, text: str, cause: Cause) -> MessageId:
        entry = TranscriptEntry(agent_id=USER, role=role, content=text, cause=cause)
        return self.agent.session.append(entry)


def format_decision(leave: ApprovalDecision) -> str:
    """Format a user's decision on an action."""
    if not leave.allowed:
        return texts.APPROVAL_DENIED.format(leave.reason)
    if leave.rule is None:
        return texts.APPROVAL_GRANTED
    return texts.APPROVAL_RULE_GRANTED.format(leave.rule)
