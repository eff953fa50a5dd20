"""The events of discussions: `discuss`, and `task` with a prompt.

A discussion is a sequence of steps: a speaker answers, the moderator chooses the next speaker, the
judge says whether it is done. Each step is one event, and the steps so far decide which is next.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from harken.core.event_types.base import Cause, EventBase
from harken.core.ids import AgentId, MessageId
from harken.errors import StopReason

Judgement: TypeAlias = Literal["done", "continue"]
"""The verdict of a judge on a discussion."""


class DiscussionOpened(EventBase, tag="discussion_opened", kw_only=True):
    """A `discuss` began, or a `task`: agents will be asked, one after the other."""

    speakers: list[AgentId]
    """Agents, and `user` if the user takes part."""
    listeners: list[AgentId] = []
    prompt: MessageId | None = None
    """The `piece_of_text` that all participants received, if there is one."""
    rounds: int = 1
    """The maximum number of rounds; a round has as many turns as there are speakers."""
    until: str | None = None
    """The phrase that ends the discussion when an answer has it."""
    judge: AgentId | None = None
    """The agent that is asked after each round whether the discussion is done."""
    moderator: AgentId | None = None
    """The agent that is asked before each turn which speaker is next."""
    seed: int | None = None
    """The seed of a random order. Without it and without a moderator the order is that of
    `speakers`."""
    cause: Cause = None
    """The call."""


class DiscussionSpoken(EventBase, tag="discussion_spoken", kw_only=True):
    """A speaker of a discussion answered, and the other participants received the answer."""

    discussion: MessageId
    """The `discussion_opened`."""
    speaker: AgentId
    """The speaker as it was named when the discussion began."""
    by: AgentId
    """The agent that answered: another one if the speaker gave its place to it."""
    said: MessageId
    """The answer, or the text in place of one."""
    heard: str | None = None
    """The text that others received, if it is not the text of an entry `said`."""
    stopped: StopReason | None = None
    """Why the speaker's turn was stopped: `said` is then no answer."""
    ends: bool = False
    """Whether the answer has the phrase of `until`, so that the discussion is over."""


class DiscussionChosen(EventBase, tag="discussion_chosen", kw_only=True):
    """The moderator of a discussion was asked which speaker is next."""

    discussion: MessageId
    by: AgentId
    """The agent that answered: the moderator, or the agent that has its place."""
    said: MessageId
    """Its answer, or the text in place of one."""
    speaker: AgentId | None = None
    """The next speaker. None: the answer names none, and the moderator is asked again."""
    failed: str | None = None
    """Why the moderator chose none. If there is a speaker, the order of `speakers` chose it."""


class DiscussionJudged(EventBase, tag="discussion_judged", kw_only=True):
    """The judge of a discussion was asked whether it is done."""

    discussion: MessageId
    by: AgentId
    """The agent that answered: the judge, or the agent that has its place."""
    said: MessageId
    """Its answer, or the text in place of one."""
    verdict: Judgement | None = None
    """None: the answer has no verdict, and the judge is asked again."""
    text: str | None = None
    """The reason that the judge gave."""
    failed: str | None = None
    """Why there is no verdict of the judge. If there is one, it is `continue` by default."""
