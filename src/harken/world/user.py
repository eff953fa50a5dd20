"""The user as the world can reach them: for questions of agents and approval of actions.

It is a protocol because a user may be at a terminal, in a browser or absent. A world without a user
reports that to the agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from harken.core.arguments import check_arguments


class UserUnavailable(Exception):
    """No user is available, or the question timed out. The text becomes the tool result."""


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class UserQuestion:
    """A question of an agent to the user."""

    agent: str
    """The name of the asking agent."""
    question: str
    options: Sequence[str] = ()
    """Suggested answers; the user may also give another one."""


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """An action that needs the approval of the user."""

    agent: str
    """The name of the agent that wants to act."""
    tool: str
    subject: str
    """The subject of the action as one text, such as the command or path; rules match it."""
    preview: str
    """The effect: a diff for an edit, the command, or the arguments as JSON."""
    rules: Sequence[str] = ()
    """Rules that would allow it from now on, the narrowest first; empty if there are none."""
    is_required: bool = False
    """Whether a rule or a sensitive path requires the question."""
    note: str = ""
    """Lines about how the action runs (in the sandbox or not), or why approval is required."""


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalDecision:
    """The decision of the user on an `ApprovalRequest`."""

    allowed: bool
    reason: str = ""
    """Why it is denied, or an alternative; the agent reads it."""
    rule: str | None = None
    """The offered rule that the user accepted: matching calls are no longer asked."""
    decision_id: str | None = None
    """The id of the logged message with the decision, set when it is logged."""


class User(Protocol):
    """The user, to answer questions and approve actions. Agents may ask concurrently."""

    async def ask(self, asked: UserQuestion) -> str:
        """Return the answer to a question.

        Raises UserUnavailable. Cancellation withdraws the question.
        """
        ...

    async def approve(self, wanted: ApprovalRequest) -> ApprovalDecision:
        """Return the decision on an action. Raises UserUnavailable. Cancellation withdraws it."""
        ...
