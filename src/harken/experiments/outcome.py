"""`RunMetrics`: metrics and transcripts of a run, from its start or from one of its model calls.

A transcript (`transcripts`) has the context of an agent's first call and all later entries. So a
rerun, which starts with a context, can be compared with its original.
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
from harken.core.ids import USER, AgentId, MessageId, Origin, message_id, reference_number
from harken.core.messages import ChatMessage, message_hash, text_of
from harken.core.record import SparseRecord
from harken.experiments.forked_agent import parse_rerun_origin
from harken.session.fold import Resolver
from harken.views.dialogs.answers import Answers
from harken.views.model_calls import placeholders
from harken.views.steps import RequestSteps

Number = TypeVar("Number", int, float)


class RunMetrics(SparseRecord, frozen=True, kw_only=True):
    """Metrics of a run over all agents. A value is None if it was not reported."""

    model_calls: int
    turns: int
    """Number of utterances of agents without tool calls."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    model_s: float | None = None
    """Total latency of model calls, in seconds."""
    wall_s: float | None = None
    """Time from the first request to the last response, in seconds."""
    tools: dict[str, int] = msgspec.field(default_factory=dict)
    """Number of calls by tool name."""
    tool_errors: int = 0
    model_errors: int = 0
    answer: str | None = None
    """The last answer of the agent that the run starts with, as others received it."""


@dataclass(frozen=True)
class ComparedRun:
    """A session in a comparison."""

    name: str
    steps: RequestSteps = field(repr=False)
    since: MessageId | None = None
    """Include only events from this model call on. None means all events."""

    @classmethod
    def of(
        cls, name: str, events: Iterable[ev.Event], *, resolver: Resolver = placeholders
    ) -> ComparedRun:
        """Index a session. `resolver` returns the messages of commits that agents started from."""
        return cls(name, RequestSteps(events, resolver=resolver))

    @cached_property
    def origin(self) -> Origin | None:
        """The end of the events that it has in common with another session, for a branch."""
        return _find_origin(self.steps.links)

    @cached_property
    def fork_start(self) -> tuple[str, MessageId] | None:
        """As `find_fork_start`."""
        return find_fork_start(self.steps.links)

    def from_fork(self, others: Iterable[ComparedRun]) -> ComparedRun:
        """Return this run from the point where it and one of the others were forked.

        Return it unchanged if neither is a fork of the other, nor both of the same session.
        """
        start = self.fork_start
        for other in others:
            other_start = other.fork_start
            if other_start is not None and other_start[0] in self.names:
                return self.from_event(other_start[1])
            if self.origin is None or start is None:
                continue
            if start[0] in other.names or (other_start is not None and other_start[0] == start[0]):
                return self.from_event(start[1])
        return self

    @cached_property
    def names(self) -> set[str]:
        """The names of the session: that of the user, and the id in its log."""
        first = next(iter(self.steps.links), None)
        return {self.name, *([first.session_id] if isinstance(first, ev.SessionStarted) else [])}

    def from_event(self, first: MessageId | None) -> ComparedRun:
        """Return this run from an event on; unchanged if it has no such event."""
        if first is None or first not in self.steps.links.positions:
            return self
        return ComparedRun(self.name, self.steps, first)

    @cached_property
    def events(self) -> Sequence[ev.Event]:
        """The events that are compared."""
        links = self.steps.links
        return links.events[0 if self.since is None else links.positions[self.since] :]

    @property
    def first(self) -> AgentId | None:
        """The first agent that called a model."""
        return next((e.agent_id for e in self.events if isinstance(e, ev.LlmRequest)), None)

    @cached_property
    def transcripts(self) -> dict[str, list[ChatMessage]]:
        """The transcript of each agent by name; a second agent of the same name is `name (2)`.

        Raises HarkenError if the log lacks part of a context.
        """
        messages = self._messages_by_agent
        return {name: messages[agent] for name, agent in self.agent_ids.items()}

    @cached_property
    def agent_ids(self) -> dict[str, AgentId]:
        """The ids of the agents of `transcripts`."""
        agents: dict[str, AgentId] = {}
        name_counts: Counter[str] = Counter()
        for agent in self._messages_by_agent:
            name = self.steps.links.names.latest_name(agent) or agent
            name_counts[name] += 1
            agents[name if name_counts[name] == 1 else f"{name} ({name_counts[name]})"] = agent
        return agents

    @cached_property
    def _messages_by_agent(self) -> dict[AgentId, list[ChatMessage]]:
        messages_by_agent: dict[AgentId, list[ChatMessage]] = {}
        earlier_entries: dict[AgentId, list[ChatMessage]] = {}
        for event in self.events:
            agent = event.agent_id
            if agent is None or agent == USER:
                continue
            if isinstance(event, ev.LlmRequest) and agent not in messages_by_agent:
                number = self.steps.find(event.message_id)
                messages_by_agent[agent] = [row.message for row in self.steps.context(number)]
            elif isinstance(event, ev.TranscriptEntry):
                messages_by_agent.get(agent, earlier_entries.setdefault(agent, [])).append(event)
        return {**earlier_entries, **messages_by_agent}

    @cached_property
    def keys(self) -> dict[str, list[str]]:
        """The transcripts as message hashes."""
        return {
            name: list(map(message_hash, messages)) for name, messages in self.transcripts.items()
        }

    @cached_property
    def outcome(self) -> RunMetrics:
        """The metrics of the run. Events before the first request are ignored."""
        events = [*dropwhile(lambda event: not isinstance(event, ev.LlmRequest), self.events)]
        requests = [event for event in events if isinstance(event, ev.LlmRequest)]
        request_ids = {event.message_id for event in requests}
        ends = [
            event_
            for event_ in events
            if isinstance(event_, ev.LlmResponse) and event_.request in request_ids
        ]
        entries = [event for event in events if isinstance(event, ev.TranscriptEntry)]
        calls = Counter(call.function.name for entry in entries for call in entry.tool_calls or ())
        utterances = [event for event in entries if event.is_utterance]
        usage = [event.usage for event in ends if event.usage is not None]
        return RunMetrics(
            model_calls=len(requests),
            turns=len(utterances),
            input_tokens=_sum(event.input_tokens for event in usage),
            output_tokens=_sum(event.output_tokens for event in usage),
            cost_usd=_sum(event.cost_usd for event in ends),
            model_s=_sum(event.latency_s for event in ends),
            wall_s=_seconds(requests[0].time, ends[-1].time) if requests and ends else None,
            tools=dict(calls),
            tool_errors=sum(entry.is_error for entry in entries if entry.role == "tool"),
            model_errors=sum(1 for event in ends if event.error is not None),
            answer=self._find_answer(utterances),
        )

    def _find_answer(self, utterances: Sequence[ev.TranscriptEntry]) -> str | None:
        """Return the last answer of the first agent, as others received it. Leave drafts out."""
        answers = Answers.of(self.steps.links)
        for entry in reversed(utterances):
            outcome = answers.outcomes.get(entry.message_id)
            if entry.agent_id != self.first or (outcome is not None and outcome.is_draft):
                continue
            return text_of(entry.content) if outcome is None else outcome.text
        return None


def find_fork_start(events: Iterable[ev.Event]) -> tuple[str, MessageId] | None:
    """Return the session that a session was forked from, and the first event that it lacks of it.

    That of another program's session is the model call that was run again. Return None if it is no
    fork.
    """
    origin = _find_origin(events)
    if origin is not None:
        return origin.session, message_id(reference_number(origin.upto) + 1)
    first = next((event for event in events if isinstance(event, ev.AgentCreated)), None)
    return None if first is None or first.spec is None else parse_rerun_origin(first.spec)


def _find_origin(events: Iterable[ev.Event]) -> Origin | None:
    first = next(iter(events), None)
    return first.origin if isinstance(first, ev.SessionStarted) else None


def _sum(values: Iterable[Number | None]) -> Number | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers[1:], numbers[0]) if numbers else None


def _seconds(start: str, end: str) -> float | None:
    try:
        return (parse_rfc3339(end) - parse_rfc3339(start)) / 1e6
    except (ValueError, OverflowError):
        return None
