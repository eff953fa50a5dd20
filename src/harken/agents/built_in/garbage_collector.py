"""A hook that tells an agent which of its subagents nobody has spoken to for long."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from harken.agents.agent import Agent
from harken.agents.agent_classes import register_agent_class
from harken.agents.budget import spent_by
from harken.agents.built_in.transcript_reader import newest_first, requests_of, saved_dict
from harken.agents.hooks.hook import Hook
from harken.agents.hooks.options import HookOptions
from harken.core.ids import AgentId, reference_number
from harken.core.verdict import Comment, HookPoint, HookQuestion, Ok, Verdict
from harken.session.state import AgentState, UsageTotals

_NAMED = 20


class GarbageCollectorOptions(HookOptions, frozen=True):
    """When a subagent counts as forgotten."""

    requests: Annotated[int, Meta(ge=1)] = 20
    """So many requests of the watched agent in which the subagent heard and said nothing."""


@dataclass(frozen=True, slots=True)
class IdleSubagent:
    """A subagent that was not spoken to."""

    name: str
    spent: UsageTotals
    """With everybody below it."""


@register_agent_class("garbage-collector")
class GarbageCollector(Hook):
    """Comments on idle subagents, by name and with what they cost; again after as long."""

    can_unload: ClassVar[bool] = True
    points: ClassVar[frozenset[HookPoint]] = frozenset({"input", "result"})
    Options = GarbageCollectorOptions
    options: GarbageCollectorOptions

    def begin(self) -> None:
        """Nobody was named yet."""
        self._said: dict[str, int] = {}
        """Subagent -> at how many requests it was named last."""
        self._quiet_until = 0
        """Before so many requests nobody can be idle: derived, never saved."""

    def should_ask(self, question: HookQuestion) -> bool:
        """Whether there is somebody to name."""
        watched = self.watched
        if watched is None or requests_of(watched) < self._quiet_until:
            return False
        return bool(self._idle(watched))

    def judge(self, question: HookQuestion) -> Verdict:
        """Name those who are idle now."""
        watched = self.watched
        idle = [] if watched is None else self._idle(watched)
        if watched is None or not idle:
            return Ok()
        now, agents = requests_of(watched), self.session.agents
        there = set(watched.state.subagents)
        self._said = {id_: at for id_, at in self._said.items() if id_ in there}
        self._said |= dict.fromkeys(idle, now)
        found = [IdleSubagent(agents[id_].name or id_, spent_by(self.session, id_)) for id_ in idle]
        return Comment(idle_text(found, self.options.requests))

    def _idle(self, watched: Agent) -> list[AgentId]:
        """Return who is to be named now; look again when the next one may be."""
        now, every = requests_of(watched), self.options.requests
        subagents = watched.state.subagents
        asked = sorted(islice(_requests(watched), every)) if subagents else []
        idle: list[AgentId] = []
        soonest = every
        for id_ in subagents:
            said_at = self._said.get(id_, -every)
            last = last_active(self.session.agents[id_])
            since = len(asked) - bisect_right(asked, last)
            left = max(every - since, said_at + every - now if said_at <= now else 0)
            if left <= 0:
                idle.append(id_)
            soonest = min(soonest, left)
        self._quiet_until = now + max(soonest, 1 + every // 10)  # not each turn, with very many
        return idle

    def dump_state(self) -> Any:
        """Return who was named, so that a resume repeats nothing."""
        return {"said": dict(self._said)} if self._said else None

    def load_saved_state(self, saved: Any) -> None:
        """Take back who was named."""
        said = saved_dict(saved, "said").items()
        self._said = {id_: at for id_, at in said if isinstance(at, int)}


def _requests(agent: Agent) -> Iterator[int]:
    """Yield the numbers of the messages with which an agent's model answered, newest first."""
    for entry in newest_first(agent):
        if entry.role == "assistant":
            yield reference_number(entry.message_id)


def last_active(state: AgentState) -> int:
    """Return the number of the last event in which an agent heard, said or was asked something.

    Its transcript need not be in memory for it.
    """
    events = [state.birth, state.committed_upto, *state.new_entries[-1:]]
    events += [
        event.message_id for event in (state.request, state.uncommitted_edit) if event is not None
    ]
    return max(reference_number(id_) for id_ in events if id_ is not None)


def idle_text(idle: Sequence[IdleSubagent], requests: int) -> str:
    """Say who is idle, and what each has cost.

    >>> ann = IdleSubagent("Ann", UsageTotals(2, 900, 100, 0.0125))
    >>> print(idle_text([ann, IdleSubagent("Bob", UsageTotals())], 20))
    Not spoken to for 20 requests: Ann (2 model calls, 1,000 tokens, 0.0125 USD), Bob (0 model \
calls). Terminate whom you need no longer; what they remember goes with them.
    """
    named = [f"{one.name} ({_cost(one.spent)})" for one in idle[:_NAMED]]
    if len(idle) > _NAMED:
        named.append(f"and {len(idle) - _NAMED} more")
    return (
        f"Not spoken to for {requests} requests: {', '.join(named)}. Terminate whom you need no "
        f"longer; what they remember goes with them."
    )


def _cost(spent: UsageTotals) -> str:
    calls = f"{spent.model_calls} model call{'' if spent.model_calls == 1 else 's'}"
    tokens = f", {spent.tokens:,} tokens" if spent.tokens else ""
    return calls + tokens + (f", {spent.cost_usd:.4f} USD" if spent.cost_usd else "")
