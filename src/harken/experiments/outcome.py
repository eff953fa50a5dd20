"""`RunMetrics`: what a run came to, from its beginning or from one of its model calls on.

A story is what one agent read and said, in order: the context of its first call, then all that
entered its transcript. So a rerun, which begins with a context, is told like what it comes from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import dropwhile
from typing import TypeVar

import msgspec

from harken.core import events as ev
from harken.core.clock import parse_rfc3339
from harken.core.ids import USER, AgentId, MessageId
from harken.core.messages import ChatMessage, message_hash, text_of
from harken.core.record import SparseRecord
from harken.experiments.forked_agent import born_from
from harken.session.fold import Resolver
from harken.views.model_calls import placeholders
from harken.views.steps import RequestSteps

Number = TypeVar("Number", int, float)


class RunMetrics(SparseRecord, frozen=True, kw_only=True):
    """Figures of a run, all agents together; None: nobody said."""

    model_calls: int
    turns: int
    """How often an agent said something without acting."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    model_s: float | None = None
    """How long models took, one after the other."""
    wall_s: float | None = None
    """From the first call to the end of the last one."""
    tools: dict[str, int] = msgspec.field(default_factory=dict)
    """How often each tool was called, by name."""
    tool_errors: int = 0
    model_errors: int = 0
    answer: str | None = None
    """What the agent said last that the run is about."""


@dataclass(frozen=True)
class ComparedRun:
    """A session as it is compared."""

    name: str
    stepping: RequestSteps = field(repr=False)
    since: MessageId | None = None
    """Only what came from this model call on; None: all."""

    @classmethod
    def of(
        cls, name: str, events: Iterable[ev.Event], *, resolver: Resolver = placeholders
    ) -> ComparedRun:
        """Take a session. `resolver` gives the messages of commits that agents started from."""
        return cls(name, RequestSteps(events, resolver=resolver))

    @cached_property
    def rerun_of(self) -> tuple[str, MessageId] | None:
        """The session and the call that this is a rerun of; None: it is none."""
        births = (one for one in self.stepping.links if isinstance(one, ev.AgentCreated))
        first = next(births, None)
        return None if first is None else born_from(first.spec or {})

    def beside(self, others: Iterable[ComparedRun]) -> ComparedRun:
        """Return the same from where one of these left it, if one did."""
        for other in others:
            if other.rerun_of is not None and other.rerun_of[0] == self.name:
                request = other.rerun_of[1]
                if request in self.stepping.links.at:
                    return ComparedRun(self.name, self.stepping, request)
        return self

    @cached_property
    def events(self) -> Sequence[ev.Event]:
        """Those that count."""
        links = self.stepping.links
        return links.events[0 if self.since is None else links.at[self.since] :]

    @property
    def first(self) -> AgentId | None:
        """The agent that it is about: the first that called a model."""
        return next((e.agent_id for e in self.events if isinstance(e, ev.LlmRequest)), None)

    @cached_property
    def stories(self) -> dict[str, list[ChatMessage]]:
        """What each agent read and said, by name; a second one of the same name is `name (2)`.

        Raises HarkenError where the log lacks some of it.
        """
        told: dict[AgentId, list[ChatMessage]] = {}
        early: dict[AgentId, list[ChatMessage]] = {}
        for event in self.events:
            agent = event.agent_id
            if agent is None or agent == USER:
                continue
            if isinstance(event, ev.LlmRequest) and agent not in told:
                number = self.stepping.find(event.message_id)
                told[agent] = [row.message for row in self.stepping.context(number)]
            elif isinstance(event, ev.TranscriptEntry):
                told.get(agent, early.setdefault(agent, [])).append(event)
        return self._by_name({**early, **told})

    @cached_property
    def keys(self) -> dict[str, list[str]]:
        """The same stories, each message as what tells it from others."""
        return {name: list(map(message_hash, story)) for name, story in self.stories.items()}

    def _by_name(self, told: dict[AgentId, list[ChatMessage]]) -> dict[str, list[ChatMessage]]:
        found: dict[str, list[ChatMessage]] = {}
        seen: Counter[str] = Counter()
        for agent, story in told.items():
            name = self.stepping.links.names.of(agent) or agent
            seen[name] += 1
            found[name if seen[name] == 1 else f"{name} ({seen[name]})"] = story
        return found

    @cached_property
    def outcome(self) -> RunMetrics:
        """What it came to; what was written down before the first call is no part of it."""
        later = [*dropwhile(lambda one: not isinstance(one, ev.LlmRequest), self.events)]
        requests = [one for one in later if isinstance(one, ev.LlmRequest)]
        asked = {one.message_id for one in requests}
        ends = [e for e in later if isinstance(e, ev.LlmResponse) and e.request in asked]
        entries = [one for one in later if isinstance(one, ev.TranscriptEntry)]
        calls = Counter(call.function.name for entry in entries for call in entry.tool_calls or ())
        said = [one for one in entries if one.is_utterance]
        usage = [one.usage for one in ends if one.usage is not None]
        answers = [text_of(one.content) for one in said if one.agent_id == self.first]
        return RunMetrics(
            model_calls=len(requests),
            turns=len(said),
            input_tokens=_sum(one.input_tokens for one in usage),
            output_tokens=_sum(one.output_tokens for one in usage),
            cost_usd=_sum(one.cost_usd for one in ends),
            model_s=_sum(one.latency_s for one in ends),
            wall_s=_seconds(requests[0].time, ends[-1].time) if requests and ends else None,
            tools=dict(calls),
            tool_errors=sum(entry.is_error for entry in entries if entry.role == "tool"),
            model_errors=sum(1 for one in ends if one.error is not None),
            answer=answers[-1] if answers else None,
        )


def _sum(values: Iterable[Number | None]) -> Number | None:
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known else None


def _seconds(start: str, end: str) -> float | None:
    try:
        return (parse_rfc3339(end) - parse_rfc3339(start)) / 1e6
    except (ValueError, OverflowError):
        return None
