"""A hook that limits how many subagents an agent and those below it make, and how deep."""

from __future__ import annotations

from collections import Counter
from fnmatch import fnmatchcase
from itertools import takewhile
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from harken.agents.agent import Agent
from harken.agents.agent_classes import register_agent_class
from harken.agents.budget import upwards
from harken.agents.built_in.subagent_hook import BirthHook, live_below
from harken.agents.built_in.transcript_reader import saved_dict, top_of
from harken.agents.hooks.options import HookOptions
from harken.core.ids import AgentId
from harken.core.verdict import HookQuestion, Ok, Verdict
from harken.session.state import AgentState

Limit = Annotated[int, Meta(ge=0)]


class TaskLimiterOptions(HookOptions, frozen=True):
    """The limits, for the agent where the hook was installed with everybody below it."""

    depth: Limit | None = 3
    """How many levels of subagents there may be."""
    live: Limit | None = 10
    """How many may live at one time."""
    total: Limit | None = None
    """How many may be made in all."""
    names: dict[str, Limit] = msgspec.field(default_factory=dict)
    """How many may be made in all whose names fit a pattern (`reviewer*`)."""


@register_agent_class("task-limiter")
class TaskLimiter(BirthHook):
    """Denies a subagent too many; copies below count together with it."""

    Options = TaskLimiterOptions
    options: TaskLimiterOptions

    def begin(self) -> None:
        """Nobody was made yet."""
        super().begin()
        self._made: Counter[str] = Counter()
        """How many were let through in all, by name: a birth that failed after that counts."""

    def judge(self, question: HookQuestion) -> Verdict:
        """Deny where a limit is reached, else count."""
        before = set(self._let_through)
        verdict = super().judge(question)
        if isinstance(verdict, Ok):
            for call in self._let_through.keys() - before:
                self._made[self._let_through[call]] += 1
        return verdict

    def why_not(self, watched: Agent, name: str) -> str | None:
        """Return the limit that is reached."""
        top = top_of(self) or watched
        limits, where = self.options, f"{top.name} and those below it"
        if limits.depth is not None and self._level(watched, top.agent_id) > limits.depth:
            return f"no more than {limits.depth} levels of subagents below {top.name}"
        live = sum(1 for _ in live_below(self, top.agent_id)) + self.being_made(watched)
        if limits.live is not None and live >= limits.live:
            return f"{where} have {live} of {limits.live} subagents: terminate one first"
        made = self._made_below(top.agent_id)
        if limits.total is not None and made.total() >= limits.total:
            return f"{where} have made {made.total()} of {limits.total} subagents in all"
        for pattern, limit in limits.names.items():
            count = sum(n for one, n in made.items() if fnmatchcase(one, pattern))
            if fnmatchcase(name, pattern) and count >= limit:
                return f"{where} have made {count} of {limit} subagents {pattern!r}"
        return None

    def _level(self, watched: Agent, top: AgentId) -> int:
        """Return at which level below the top a subagent of the watched agent would stand."""
        above = (one.id for one in upwards(self.session.state, watched.agent_id))
        return 1 + sum(1 for _ in takewhile(lambda one: one != top, above))

    def _made_below(self, top: AgentId) -> Counter[str]:
        """Return who was made in all, by this hook's leave and by that of its copies."""
        made = Counter(self._made)
        for one in self.session.agents.values():
            if one.id != self.agent_id and one.saved_state is not None and self._is_copy(one, top):
                made.update(_counts(one.saved_state))
        return made

    def _is_copy(self, one: AgentState, top: AgentId) -> bool:
        """Whether an agent is, or was, the same hook at or below the top."""
        is_same = one.name == self.name and one.spec.get("kind") == self.kind
        return is_same and any(a.id == top for a in upwards(self.session.state, one.id))

    def dump_state(self) -> Any:
        """Return who was made."""
        return {"made": dict(self._made)} if self._made else None

    def load_saved_state(self, saved: Any) -> None:
        """Take back who was made."""
        self._made = _counts(saved)


def _counts(saved: Any) -> Counter[str]:
    made = saved_dict(saved, "made").items()
    return Counter({name: count for name, count in made if isinstance(count, int)})
