"""`Discussion`: the value of the method `discuss`, for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar, overload

from harken.core.events import Judgement
from harken.core.logged_string import LoggedString
from harken.session.folds.discussions import DiscussionEnd

AgentT = TypeVar("AgentT")
"""The class `Agent`, which is made from modules that need this one."""


class DiscussionReply(NamedTuple, Generic[AgentT]):
    """An answer in a discussion."""

    agent: AgentT | None
    """The agent that gave it; None for the user."""
    answer: LoggedString
    name: str
    """The name by which the other participants know the speaker."""


class DiscussionVerdict(NamedTuple):
    """The last verdict of the judge of a discussion."""

    verdict: Judgement
    text: str
    """The reason that the judge gave; empty if there is none."""
    judge: str
    """The name of the judge."""


@dataclass(frozen=True, slots=True)
class Discussion(Sequence[DiscussionReply[AgentT]], Generic[AgentT]):
    """The answers of a discussion, oldest first, and how it ended."""

    replies: tuple[DiscussionReply[AgentT], ...]
    end: DiscussionEnd
    """`rounds`: all rounds were held; `until`: an answer has the phrase; `judge`: the judge ended
    it; `stopped`: every turn of a round was stopped."""
    verdict: DiscussionVerdict | None = None

    @overload
    def __getitem__(self, index: int) -> DiscussionReply[AgentT]: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[DiscussionReply[AgentT], ...]: ...
    def __getitem__(
        self, index: int | slice
    ) -> DiscussionReply[AgentT] | tuple[DiscussionReply[AgentT], ...]:
        """Return an answer, or a range of them."""
        return self.replies[index]

    def __len__(self) -> int:
        """Return the number of answers."""
        return len(self.replies)
