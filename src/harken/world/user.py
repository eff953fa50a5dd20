"""The user, as far as the world can reach one: to be asked, and to allow what an agent wants.

A protocol, because a user sits at a terminal, in a browser, or nowhere: a world without one says
so to the agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from harken.core.arguments import check_arguments


class UserUnavailable(Exception):
    """There is nobody to ask, or nobody answers; the text says so to the agent."""


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class UserQuestion:
    """A question of an agent to the user."""

    agent: str
    """The name of the asking agent."""
    question: str
    options: Sequence[str] = ()
    """Answers to choose from; another one is allowed, too."""


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """An action that needs the user's leave."""

    agent: str
    """The name of the agent that wants to act."""
    tool: str
    subject: str
    """What it is about, in one text: the command, the path; what a rule would match."""
    preview: str
    """What will happen: a diff for an edit, the command, the arguments as JSON."""
    rules: Sequence[str] = ()
    """Rules that would allow it from now on, the narrowest first; empty where none can."""
    is_required: bool = False
    """Whether it is asked because of a rule, or because a sensitive path would be changed."""
    note: str = ""
    """Lines about how the action runs (in the sandbox or not), or why it is asked."""


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalDecision:
    """What the user said to a `ApprovalRequest`."""

    allowed: bool
    reason: str = ""
    """Why not, or what to do instead; the agent reads it."""
    rule: str | None = None
    """One of the rules that were offered: from now on, without asking."""
    said: str | None = None
    """The message of the log that says so; whoever logs it fills it in."""


class User(Protocol):
    """Somebody who answers. Questions may come from several agents at once."""

    async def ask(self, asked: UserQuestion) -> str:
        """Return the answer to a question. Raises UserUnavailable. Cancelling takes it back."""
        ...

    async def approve(self, wanted: ApprovalRequest) -> ApprovalDecision:
        """Allow an action or not. Raises UserUnavailable. Cancelling takes the question back."""
        ...
