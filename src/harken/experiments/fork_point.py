"""`ForkPoint`: a model call of a session from which a rerun can start.

All inputs of the call are read from the log: context, tools, parameters, and the state of its
agent. The session may be run by Harken, recorded from another program, or imported; it is not
changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

from harken.core import events as ev
from harken.core.ids import AgentId, MessageId, parse_id_number, reference_message_id
from harken.core.messages import Message, extend_context_hash, text_of
from harken.errors import HarkenError, NameNotFound
from harken.session.fold import Resolver, fold
from harken.session.state import AgentState, SessionState
from harken.views.context import ContextMessage
from harken.views.model_calls import placeholders
from harken.views.steps import RequestSteps

_NEAREST_COUNT = 2
"""Number of calls before and after an unknown id that an error lists."""


@dataclass(frozen=True)
class ForkPoint:
    """A model call as the start of a rerun. Created by `find`."""

    session: str
    """Name of the session."""
    steps: RequestSteps = field(repr=False)
    number: int
    """Number of the call in the session, from 1."""
    resolver: Resolver = field(default=placeholders, repr=False)
    log: Path | None = None
    """The log of the session; None for a session of another program that has none."""

    @classmethod
    def find(
        cls,
        session: str,
        events: Iterable[ev.Event],
        at: str,
        *,
        agent: AgentId | None = None,
        resolver: Resolver = placeholders,
        log: Path | None = None,
    ) -> ForkPoint:
        """Find a model call by a user's reference.

        `at` is a number from 1, `-1` for the last call, or the id of a request, response or answer.
        With `agent`, numbers count its calls. `resolver` returns the messages of commits that
        agents started from; `log` is needed to rerun a session of Harken. Raises NameNotFound,
        which lists the nearest calls.
        """
        stepping = RequestSteps(events, resolver=resolver)
        try:
            number = stepping.find(at, agent)
        except NameNotFound as error:
            raise NameNotFound(
                "model call", at, _list_nearest(stepping, at) or error.known
            ) from None
        return cls(session, stepping, number, resolver, log)

    @property
    def request(self) -> ev.LlmRequest:
        """The request event of the call."""
        return self.steps.requests[self.number - 1]

    @property
    def agent_id(self) -> AgentId:
        """The agent of the call."""
        return self.request.agent_id or AgentId("")

    @property
    def name(self) -> str:
        """Name of the agent."""
        return self.steps.links.names.latest_name(self.agent_id) or self.agent_id

    @cached_property
    def context(self) -> list[ContextMessage]:
        """The exact context of the call. Raises HarkenError if the log lacks part of it."""
        return self.steps.context(self.number)

    @cached_property
    def messages(self) -> list[Message]:
        """The messages of the context."""
        return [row.message for row in self.context]

    @property
    def is_complete(self) -> bool:
        """Whether the context has the hash that was logged with the call."""
        return reduce(extend_context_hash, self.messages, "") == self.request.context_hash

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tool schemas of the request."""
        return self.steps.tools(self.number)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The model parameters of the request."""
        return self.request.parameters or {}

    @cached_property
    def state(self) -> SessionState:
        """The session state just before the call. Raises HarkenError."""
        state = SessionState()
        for event in self.steps.links:
            if event is self.request:
                break
            try:
                fold(state, event, self.resolver)
            except ValueError as error:
                raise HarkenError(f"{self.session}: the log contradicts itself: {error}") from None
        return state

    @property
    def agent(self) -> AgentState:
        """The state of the agent just before the call."""
        return self.state.agents[self.agent_id]

    @property
    def is_run_by_harken(self) -> bool:
        """Whether Harken ran the agent, so that its hooks and subagents are available."""
        return self.agent.spec.kind is not None and not self.agent.is_recorded

    def inputs_after(self) -> list[list[str]]:
        """Return later inputs of the agent, oldest first, without those from hooks and tools.

        Inputs before the same model call are grouped.
        """
        texts = (
            [text_of(entry.content) for entry in entries]
            for result_id, entries in self._later_inputs
            if result_id is None
        )
        return [group for entries in texts if (group := [text for text in entries if text])]

    def inputs_by_result(self) -> dict[MessageId, list[ev.TranscriptEntry]]:
        """Return inputs that came within a turn, by the tool result that they followed.

        Programs insert such messages as user messages, for example the text of a skill.
        """
        return {
            result_id: entries for result_id, entries in self._later_inputs if result_id is not None
        }

    @cached_property
    def _later_inputs(self) -> list[tuple[MessageId | None, list[ev.TranscriptEntry]]]:
        """The inputs after the call, grouped by model call.

        Each group has the id of the preceding tool result, or None after an answer.
        """
        links = self.steps.links
        groups: list[tuple[MessageId | None, list[ev.TranscriptEntry]]] = [(None, [])]
        for event in links.events[links.positions[self.request.message_id] :]:
            if event.agent_id != self.agent_id:
                continue
            if isinstance(event, ev.LlmRequest):
                groups.append((None, []))
            elif isinstance(event, ev.TranscriptEntry) and event.role == "tool":
                groups[-1] = (event.message_id, groups[-1][1])
            elif isinstance(event, ev.TranscriptEntry) and _is_external_input(event):
                groups[-1][1].append(event)
        return [(result_id, entries) for result_id, entries in groups if entries]


def _is_external_input(event: ev.TranscriptEntry) -> bool:
    return event.role == "user" and event.cause is None


def _list_nearest(stepping: RequestSteps, at: str) -> Sequence[str]:
    """Return the calls around an id that is not a call. Empty if the reference is not an id."""
    target = parse_id_number(reference_message_id(at), "msg_")
    if target is None:
        return []
    numbered = [
        (parse_id_number(request.message_id, "msg_") or 0, number)
        for number, request in enumerate(stepping.requests, 1)
    ]
    earlier = [number for id_, number in numbered if id_ <= target][-_NEAREST_COUNT:]
    later = [number for id_, number in numbered if id_ > target][:_NEAREST_COUNT]
    return [_describe_call(stepping, number) for number in (*earlier, *later)]


def _describe_call(stepping: RequestSteps, number: int) -> str:
    step = stepping.step(number)
    return f"{MessageId(step.request)} (call {number}, of {step.name})"
