"""A hook that ends repeated discussions without any other action in between."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from harken.agents import texts
from harken.agents.agent import Agent
from harken.agents.agent_classes import register_agent_class
from harken.agents.built_in.transcript_reader import newest_first
from harken.agents.hooks.hook import Hook
from harken.agents.hooks.options import HookOptions
from harken.agents.tree.actions import parse_arguments_or_empty
from harken.core.event_types.spec import HookPoint
from harken.core.verdict import Comment, Deny, HookQuestion, Ok, Verdict

DISCUSS = "discuss"


class DiscussionRoundsOptions(HookOptions, frozen=True):
    """The numbers of consecutive rounds."""

    comment_after: Annotated[int, Meta(ge=1)] | None = 4
    """The number of rounds after which every further round gets a comment. None: never."""
    deny_after: Annotated[int, Meta(ge=1)] | None = 8
    """The number of rounds after which further rounds are denied. None: never."""


@register_agent_class("discussion-rounds")
class DiscussionRounds(Hook):
    """Comments on, then denies, `discuss` in a row; any other action, and any input, begins anew.

    A discussion counts as the number of rounds that its call allows. The hook keeps nothing: it
    counts in the transcript.
    """

    _can_unload: ClassVar[bool] = True
    points: ClassVar[frozenset[HookPoint]] = frozenset({"action"})
    Options = DiscussionRoundsOptions
    options: DiscussionRoundsOptions

    def should_ask(self, question: HookQuestion) -> bool:
        """Whether the number of rounds requires a comment or a denial."""
        if question.call is None or question.call.function.name != DISCUSS:
            return False
        return not isinstance(self.judge(question), Ok)

    def judge(self, question: HookQuestion) -> Verdict:
        """Comment on or deny another round."""
        options, watched = self.options, self.watched
        if watched is None or question.call is None or question.call.function.name != DISCUSS:
            return Ok()
        limit = max(options.comment_after or 0, options.deny_after or 0)
        rounds = rounds_before(watched, limit)
        requested = requested_rounds(question.text)
        if options.deny_after is not None and rounds + requested > options.deny_after:
            remaining = options.deny_after - rounds
            too_many = texts.ROUNDS_TOO_MANY.format(requested, remaining)
            return Deny(too_many if remaining > 0 else texts.ROUNDS_DENIAL.format(rounds))
        if options.comment_after is not None and rounds + requested > options.comment_after:
            return Comment(texts.ROUNDS_COMMENT.format(rounds + 1))
        return Ok()


def rounds_before(agent: Agent, most: int) -> int:
    """Return the number of consecutive rounds up to now; discussions beyond `most` do not count."""
    rounds, ended_calls = 0, set()
    for entry in newest_first(agent):
        if rounds >= most or (entry.role == "user" and entry.cause is None):
            break
        if entry.role == "tool" and entry.name != DISCUSS:
            break
        if entry.role == "tool" and not entry.is_error:
            ended_calls.add(entry.tool_call_id)
        for call in entry.tool_calls or ():
            if call.id in ended_calls:
                rounds += requested_rounds(call.function.arguments)
    return rounds


def requested_rounds(arguments: str) -> int:
    """Return the number of rounds in a model's unchecked arguments of `discuss`."""
    rounds = parse_arguments_or_empty(arguments).get("rounds", 1)
    return rounds if isinstance(rounds, int) and rounds > 0 else 1
