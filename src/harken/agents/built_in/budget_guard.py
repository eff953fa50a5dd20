"""A hook that reports the use of budgets, and denies expensive actions near their end.

The limits are its own options, which count for the agent where it was installed with all agents
below it, and the budgets of the watched agent and of all agents above it.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from harken.agents import texts
from harken.agents.agent import Agent
from harken.agents.agent_classes import register_agent_class
from harken.agents.budget import iter_upwards, spent_by
from harken.agents.built_in.transcript_reader import saved_dict, top_of
from harken.agents.hooks.hook import Hook
from harken.agents.hooks.options import HookOptions
from harken.core.event_types.spec import Budget, HookPoint
from harken.core.ids import AgentId
from harken.core.verdict import Comment, Deny, HookQuestion, Ok, Verdict

Share = Annotated[float, Meta(gt=0, le=1)]
Count = Annotated[int, Meta(gt=0)]
LAST = 0.95
"""The share of a limit from which the agent is told to finish."""


class BudgetGuardOptions(HookOptions, frozen=True):
    """Limits besides those of budgets, and the shares at which the hook reacts."""

    tokens: Count | None = None
    cost_usd: Annotated[float, Meta(gt=0)] | None = None
    model_calls: Count | None = None
    comment_at: tuple[Share, ...] = (0.5, 0.8, 0.95)
    """The shares of a limit of which the agent is told, each once."""
    deny_at: Share | None = 0.9
    """The share from which expensive actions are denied. None: never."""
    expensive: tuple[str, ...] = ("task", "clone", "restore", "discuss", "websearch")
    """Names of actions and tools, or patterns."""


class LimitUsage(msgspec.Struct, frozen=True):
    """The use of a single limit."""

    key: str
    """The agent and unit of the limit, the key under which reports are saved."""
    scope: str
    used: float
    limit: float
    unit: str

    @property
    def share(self) -> float:
        """The used share."""
        return self.used / self.limit

    def describe(self) -> str:
        """Format the use.

        >>> LimitUsage("", "main", 5200, 10000, "tokens").describe()
        '52 % of 10,000 tokens are used by main and everybody below it'
        """
        limit = f"{self.limit:.4g}" if self.unit == "USD" else f"{self.limit:,.0f}"
        return texts.LIMIT_USE.format(
            share=self.share * 100, limit=limit, unit=self.unit, scope=self.scope
        )


@register_agent_class("budget-guard")
class BudgetGuard(Hook):
    """Comments when shares of a limit are reached, denies what is expensive near the end."""

    _can_unload: ClassVar[bool] = True
    points: ClassVar[frozenset[HookPoint]] = frozenset({"input", "result", "action"})
    Options = BudgetGuardOptions
    options: BudgetGuardOptions

    def begin(self) -> None:
        """Start without any report."""
        self._reported_shares: dict[str, float] = {}
        """The highest reported share by limit."""

    def should_ask(self, question: HookQuestion) -> bool:
        """Whether there is a report or a denial."""
        if question.call is not None and not self._is_expensive(question.call.function.name):
            return False
        uses = self._list_usage()
        return self._find_denying_limit(question, uses) is not None or bool(
            self._unreported(question, uses)
        )

    def judge(self, question: HookQuestion) -> Verdict:
        """Report shares that were reached; deny an expensive action if too little is left."""
        uses = self._list_usage()
        exceeded = self._find_denying_limit(question, uses)
        if exceeded is not None:
            reason = texts.LIMIT_DENIAL.format(exceeded.describe(), denied_name(question))
            return Deny(reason)
        unreported = self._unreported(question, uses)
        if not unreported:
            return Ok()
        for use in unreported:
            self._reported_shares[use.key] = self._reached_share(use)
        is_last = any(use.share >= LAST for use in unreported)
        advice = texts.LIMIT_NEARLY_REACHED if is_last else texts.LIMIT_ADVICE
        report = "; ".join(use.describe() for use in unreported)
        return Comment(texts.LIMIT_COMMENT.format(report, advice))

    def _is_expensive(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.options.expensive)

    def _find_denying_limit(
        self, question: HookQuestion, uses: list[LimitUsage]
    ) -> LimitUsage | None:
        """Return the limit because of which a call is denied, or None."""
        deny_share = self.options.deny_at
        if question.point != "action" or deny_share is None or question.call is None:
            return None
        if not self._is_expensive(question.call.function.name):
            return None
        return next((use for use in uses if use.share >= deny_share), None)

    def _unreported(self, question: HookQuestion, uses: list[LimitUsage]) -> list[LimitUsage]:
        """Return the limits with a reached share that was not reported yet."""
        if question.point == "action":
            return []
        return [
            use
            for use in uses
            if self._reached_share(use) > self._reported_shares.get(use.key, 0.0)
        ]

    def _reached_share(self, use: LimitUsage) -> float:
        return max((share for share in self.options.comment_at if use.share >= share), default=0.0)

    def _list_usage(self) -> list[LimitUsage]:
        """Return the use of each limit that applies to the watched agent."""
        watched = self.watched
        if watched is None:
            return []
        return [use for limits in self._iter_limits(watched) for use in limits]

    def _iter_limits(self, watched: Agent) -> Iterator[Iterator[LimitUsage]]:
        options = self.options
        option_limits = Budget(
            model_calls=options.model_calls, tokens=options.tokens, cost_usd=options.cost_usd
        )
        if option_limits != Budget():
            top = top_of(self) or watched
            yield self._measure(top.agent_id, option_limits, "own")
        for agent in iter_upwards(self.session.state, watched.agent_id):
            budget = agent.spec.limits.budget
            if budget is not None:
                yield self._measure(agent.id, budget, agent.id)

    def _measure(self, agent_id: AgentId, budget: Budget, key: str) -> Iterator[LimitUsage]:
        spent = spent_by(self.session, agent_id)
        name = self.session.agents[agent_id].name or agent_id
        for limit, amount, unit in (
            (budget.tokens, spent.tokens, "tokens"),
            (budget.cost_usd, spent.cost_usd, "USD"),
            (budget.model_calls, spent.model_calls, "model calls"),
        ):
            if limit:
                yield LimitUsage(f"{key} {unit}", name, amount, limit, unit)

    def dump_state(self) -> Any:
        """Return the reports, so that a resume repeats none."""
        return {"said": dict(self._reported_shares)} if self._reported_shares else None

    def load_saved_state(self, saved: Any) -> None:
        """Restore the reports."""
        shares = saved_dict(saved, "said").items()
        self._reported_shares = {
            key: float(share) for key, share in shares if isinstance(share, int | float)
        }


def denied_name(question: HookQuestion) -> str:
    """Return the name of the action that a question is about."""
    return question.call.function.name if question.call else question.point
