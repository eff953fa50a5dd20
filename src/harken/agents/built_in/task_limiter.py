"""A hook that limits the number and the depth of subagents."""

from __future__ import annotations

from collections import Counter
from fnmatch import fnmatchcase
from itertools import takewhile
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from harken.agents import texts
from harken.agents.agent import Agent
from harken.agents.agent_classes import register_agent_class
from harken.agents.budget import iter_upwards
from harken.agents.built_in.subagent_hook import BirthHook, live_below
from harken.agents.built_in.transcript_reader import saved_dict, top_of
from harken.agents.hooks.options import HookOptions
from harken.core.ids import AgentId
from harken.core.verdict import HookQuestion, Ok, Verdict
from harken.session.state import AgentState

Limit = Annotated[int, Meta(ge=0)]


class TaskLimiterOptions(HookOptions, frozen=True):
    """The limits for the agent where the hook was installed, with all agents below it."""

    depth: Limit | None = 3
    """The maximum number of levels of subagents."""
    live: Limit | None = 10
    """The maximum number of live subagents."""
    total: Limit | None = None
    """The maximum number of subagents ever created."""
    names: dict[str, Limit] = msgspec.field(default_factory=dict)
    """The maximum number of subagents ever created, by pattern of their names (`reviewer*`)."""


@register_agent_class("task-limiter")
class TaskLimiter(BirthHook):
    """Denies a subagent too many; copies below count together with it."""

    Options = TaskLimiterOptions
    options: TaskLimiterOptions

    def begin(self) -> None:
        """Start without any created subagent."""
        super().begin()
        self._created_by_name: Counter[str] = Counter()
        """The number of allowed creations by name. A birth that fails later still counts."""

    def judge(self, question: HookQuestion) -> Verdict:
        """Deny if a limit is reached, otherwise count."""
        earlier = set(self._allowed_calls)
        verdict = super().judge(question)
        if isinstance(verdict, Ok):
            for call in self._allowed_calls.keys() - earlier:
                self._created_by_name[self._allowed_calls[call]] += 1
        return verdict

    def denial_reason(self, watched: Agent, name: str) -> str | None:
        """Return the limit that is reached."""
        top = top_of(self) or watched
        limits, scope = self.options, texts.TASK_SCOPE.format(top.name)
        if limits.depth is not None and self._level(watched, top.agent_id) > limits.depth:
            return texts.TASK_DEPTH_DENIAL.format(limits.depth, top.name)
        live = sum(1 for _ in live_below(self, top.agent_id)) + self.count_pending(watched)
        if limits.live is not None and live >= limits.live:
            return texts.TASK_LIVE_DENIAL.format(scope, live, limits.live)
        created = self._created_below(top.agent_id)
        if limits.total is not None and created.total() >= limits.total:
            return texts.TASK_TOTAL_DENIAL.format(scope, created.total(), limits.total)
        for pattern, limit in limits.names.items():
            count = sum(
                n for created_name, n in created.items() if fnmatchcase(created_name, pattern)
            )
            if fnmatchcase(name, pattern) and count >= limit:
                return texts.TASK_NAME_DENIAL.format(scope, count, limit, pattern)
        return None

    def _level(self, watched: Agent, top: AgentId) -> int:
        """Return the level below the top at which a subagent of the watched agent would be."""
        above = (id_.id for id_ in iter_upwards(self.session.state, watched.agent_id))
        return 1 + sum(1 for _ in takewhile(lambda id_: id_ != top, above))

    def _created_below(self, top: AgentId) -> Counter[str]:
        """Return the creations allowed by this hook and its copies."""
        created = Counter(self._created_by_name)
        for state in self.session.agents.values():
            if (
                state.id != self.agent_id
                and state.saved_state is not None
                and self._is_copy(state, top)
            ):
                created.update(_parse_counts(state.saved_state))
        return created

    def _is_copy(self, state: AgentState, top: AgentId) -> bool:
        """Whether an agent is, or was, the same hook at or below the top."""
        is_same = state.name == self.name and state.spec.kind == self._kind
        return is_same and any(a.id == top for a in iter_upwards(self.session.state, state.id))

    def dump_state(self) -> Any:
        """Return the counts."""
        return {"made": dict(self._created_by_name)} if self._created_by_name else None

    def load_saved_state(self, saved: Any) -> None:
        """Restore the counts."""
        self._created_by_name = _parse_counts(saved)


def _parse_counts(saved: Any) -> Counter[str]:
    counts = saved_dict(saved, "made").items()
    return Counter({name: count for name, count in counts if isinstance(count, int)})
