"""A hook that tells an agent which of its subagents have been idle for long."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from harken.agents import texts
from harken.agents.agent import Agent
from harken.agents.agent_classes import register_agent_class
from harken.agents.budget import spent_by
from harken.agents.built_in.transcript_reader import newest_first, requests_of, saved_dict
from harken.agents.hooks.hook import Hook
from harken.agents.hooks.options import HookOptions
from harken.core.event_types.spec import HookPoint
from harken.core.ids import AgentId, reference_number
from harken.core.verdict import Comment, HookQuestion, Ok, Verdict
from harken.session.state import AgentState, UsageTotals

_MAX_NAMES = 20


class GarbageCollectorOptions(HookOptions, frozen=True):
    """The definition of an idle subagent."""

    requests: Annotated[int, Meta(ge=1)] = 20
    """The number of requests of the watched agent without a message from or to the subagent."""


class IdleSubagent(msgspec.Struct, frozen=True):
    """A subagent without recent messages."""

    name: str
    usage: UsageTotals
    """Usage including all agents below it."""


@register_agent_class("garbage-collector")
class GarbageCollector(Hook):
    """Comments on idle subagents, by name and with what they cost; again after as long."""

    _can_unload: ClassVar[bool] = True
    points: ClassVar[frozenset[HookPoint]] = frozenset({"input", "result"})
    Options = GarbageCollectorOptions
    options: GarbageCollectorOptions

    def begin(self) -> None:
        """Start without any reported subagent."""
        self._reported_at: dict[str, int] = {}
        """The number of requests at the last report, by subagent."""
        self._next_check = 0
        """The number of requests before which no subagent can be idle. Derived, never saved."""

    def should_ask(self, question: HookQuestion) -> bool:
        """Whether there is a subagent to report."""
        watched = self.watched
        if watched is None or requests_of(watched) < self._next_check:
            return False
        return bool(self._find_idle(watched))

    def judge(self, question: HookQuestion) -> Verdict:
        """Report the subagents that are idle now."""
        watched = self.watched
        idle = [] if watched is None else self._find_idle(watched)
        if watched is None or not idle:
            return Ok()
        now, agents = requests_of(watched), self.session.agents
        current_ids = set(watched.state.subagents)
        self._reported_at = {
            id_: count for id_, count in self._reported_at.items() if id_ in current_ids
        }
        self._reported_at |= dict.fromkeys(idle, now)
        rows = [IdleSubagent(agents[id_].name or id_, spent_by(self.session, id_)) for id_ in idle]
        return Comment(idle_text(rows, self.options.requests))

    def _find_idle(self, watched: Agent) -> list[AgentId]:
        """Return the subagents to report now, and compute when the next check is due."""
        now, every = requests_of(watched), self.options.requests
        subagents = watched.state.subagents
        request_numbers = sorted(islice(_iter_request_numbers(watched), every)) if subagents else []
        idle: list[AgentId] = []
        min_remaining = every
        for id_ in subagents:
            reported_at = self._reported_at.get(id_, -every)
            last = last_active(self.session.agents[id_])
            since = len(request_numbers) - bisect_right(request_numbers, last)
            remaining = max(every - since, reported_at + every - now if reported_at <= now else 0)
            if remaining <= 0:
                idle.append(id_)
            min_remaining = min(min_remaining, remaining)
        self._next_check = now + max(
            min_remaining, 1 + every // 10
        )  # limits the checks with very many subagents
        return idle

    def dump_state(self) -> Any:
        """Return the reports, so that a resume repeats none."""
        return {"said": dict(self._reported_at)} if self._reported_at else None

    def load_saved_state(self, saved: Any) -> None:
        """Restore the reports."""
        counts = saved_dict(saved, "said").items()
        self._reported_at = {id_: count for id_, count in counts if isinstance(count, int)}


def _iter_request_numbers(agent: Agent) -> Iterator[int]:
    """Yield the numbers of an agent's assistant messages, newest first."""
    for entry in newest_first(agent):
        if entry.role == "assistant":
            yield reference_number(entry.message_id)


def last_active(state: AgentState) -> int:
    """Return the number of the last event in which an agent took part.

    Its transcript need not be in memory.
    """
    events = [state.birth, state.committed_upto, *state.new_entries[-1:]]
    events += [
        event.message_id for event in (state.request, state.uncommitted_edit) if event is not None
    ]
    return max(reference_number(id_) for id_ in events if id_ is not None)


def idle_text(idle: Sequence[IdleSubagent], requests: int) -> str:
    """Format the idle subagents with their usage."""
    descriptions = [
        texts.IDLE_SUBAGENT.format(subagent.name, _format_usage(subagent.usage))
        for subagent in idle[:_MAX_NAMES]
    ]
    if len(idle) > _MAX_NAMES:
        descriptions.append(texts.MORE_NAMES.format(len(idle) - _MAX_NAMES))
    return texts.IDLE_SUBAGENTS.format(requests, ", ".join(descriptions))


def _format_usage(spent: UsageTotals) -> str:
    calls = texts.ONE_MODEL_CALL
    if spent.model_calls != 1:
        calls = texts.MODEL_CALL_COUNT.format(spent.model_calls)
    tokens = texts.TOKENS_USED.format(spent.tokens) if spent.tokens else ""
    return calls + tokens + (texts.COST.format(spent.cost_usd) if spent.cost_usd else "")
