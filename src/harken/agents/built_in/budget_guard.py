"""A hook that says how much of a budget is used, and denies what is expensive near its end.

The limits are its own options, which count for the agent where it was installed with everybody
below it, and the budgets of the watched agent and of all above it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from harken.agents.agent import Agent
from harken.agents.agent_classes import register_agent_class
from harken.agents.budget import Budget, budget_of, spent_by, upwards
from harken.agents.built_in.transcript_reader import saved_dict, top_of
from harken.agents.hooks.hook import Hook
from harken.agents.hooks.options import HookOptions
from harken.core.ids import AgentId
from harken.core.verdict import Comment, Deny, HookPoint, HookQuestion, Ok, Verdict

Share = Annotated[float, Meta(gt=0, le=1)]
Count = Annotated[int, Meta(gt=0)]
LAST = 0.95
"""From here on it is time to end."""


class BudgetGuardOptions(HookOptions, frozen=True):
    """Limits beside those of budgets, and when to say what."""

    tokens: Count | None = None
    cost_usd: Annotated[float, Meta(gt=0)] | None = None
    model_calls: Count | None = None
    comment_at: tuple[Share, ...] = (0.5, 0.8, 0.95)
    """Shares of a limit; the agent is told when each is reached, once."""
    deny_at: Share | None = 0.9
    """From this share on what is expensive is denied; None: never."""
    expensive: tuple[str, ...] = ("task", "clone", "restore", "discuss", "websearch")
    """Names of actions and tools, or patterns."""


@dataclass(frozen=True, slots=True)
class LimitUsage:
    """How much of one limit is used."""

    key: str
    """Whose limit, and of what: under this it is remembered what was said."""
    who: str
    used: float
    limit: float
    unit: str

    @property
    def share(self) -> float:
        """The part that is used."""
        return self.used / self.limit

    def words(self) -> str:
        """Say it.

        >>> LimitUsage("", "main", 5200, 10000, "tokens").words()
        '52 % of 10,000 tokens are used by main and everybody below it'
        """
        limit = f"{self.limit:.4g}" if self.unit == "USD" else f"{self.limit:,.0f}"
        share = f"{self.share * 100:.0f} % of {limit} {self.unit}"
        return f"{share} are used by {self.who} and everybody below it"


@register_agent_class("budget-guard")
class BudgetGuard(Hook):
    """Comments when shares of a limit are reached, denies what is expensive near the end."""

    can_unload: ClassVar[bool] = True
    points: ClassVar[frozenset[HookPoint]] = frozenset({"input", "result", "action"})
    Options = BudgetGuardOptions
    options: BudgetGuardOptions

    def begin(self) -> None:
        """Nothing was said yet."""
        self._said: dict[str, float] = {}
        """Limit -> the highest share that was said of it."""

    def should_ask(self, question: HookQuestion) -> bool:
        """Whether there is something to say."""
        if question.call is not None and not self._is_expensive(question.call.function.name):
            return False
        uses = self._uses()
        return self._denied(question, uses) is not None or bool(self._news(question, uses))

    def judge(self, question: HookQuestion) -> Verdict:
        """Say what is reached; deny what is expensive where too little is left."""
        uses = self._uses()
        denied = self._denied(question, uses)
        if denied is not None:
            return Deny(f"{denied.words()}: no {denied_name(question)} with what is left")
        news = self._news(question, uses)
        if not news:
            return Ok()
        for use in news:
            self._said[use.key] = self._reached(use)
        last = any(use.share >= LAST for use in news)
        advice = "Come to an end: say what is done, and what is not." if last else "Be sparing."
        return Comment(f"{'; '.join(use.words() for use in news)}. {advice}")

    def _is_expensive(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.options.expensive)

    def _denied(self, question: HookQuestion, uses: list[LimitUsage]) -> LimitUsage | None:
        """Return the limit of which so much is used that a call is denied."""
        least = self.options.deny_at
        if question.point != "action" or least is None or question.call is None:
            return None
        if not self._is_expensive(question.call.function.name):
            return None
        return next((use for use in uses if use.share >= least), None)

    def _news(self, question: HookQuestion, uses: list[LimitUsage]) -> list[LimitUsage]:
        """Return the limits of which a share is reached that was not said yet."""
        if question.point == "action":
            return []
        return [use for use in uses if self._reached(use) > self._said.get(use.key, 0.0)]

    def _reached(self, use: LimitUsage) -> float:
        return max((share for share in self.options.comment_at if use.share >= share), default=0.0)

    def _uses(self) -> list[LimitUsage]:
        """Return the use of each limit that holds for the watched agent."""
        watched = self.watched
        if watched is None:
            return []
        return [use for limits in self._limits(watched) for use in limits]

    def _limits(self, watched: Agent) -> Iterator[Iterator[LimitUsage]]:
        own = self.options
        mine = Budget(model_calls=own.model_calls, tokens=own.tokens, cost_usd=own.cost_usd)
        if mine != Budget():
            top = top_of(self) or watched
            yield self._used(top.agent_id, mine, "own")
        for agent in upwards(self.session.state, watched.agent_id):
            budget = budget_of(agent.spec)
            if budget is not None:
                yield self._used(agent.id, budget, agent.id)

    def _used(self, agent_id: AgentId, budget: Budget, key: str) -> Iterator[LimitUsage]:
        spent = spent_by(self.session, agent_id)
        who = self.session.agents[agent_id].name or agent_id
        for limit, used, unit in (
            (budget.tokens, spent.tokens, "tokens"),
            (budget.cost_usd, spent.cost_usd, "USD"),
            (budget.model_calls, spent.model_calls, "model calls"),
        ):
            if limit:
                yield LimitUsage(f"{key} {unit}", who, used, limit, unit)

    def dump_state(self) -> Any:
        """Return what was said, so that a resume repeats nothing."""
        return {"said": dict(self._said)} if self._said else None

    def load_saved_state(self, saved: Any) -> None:
        """Take back what was said."""
        said = saved_dict(saved, "said").items()
        self._said = {key: float(share) for key, share in said if isinstance(share, int | float)}


def denied_name(question: HookQuestion) -> str:
    """Return the name of the action that a question is about."""
    return question.call.function.name if question.call else question.point
