"""`ForkPoint`: a model call of a session, from which another road can be taken.

All that the call depended on is read from the record: context, tools, parameters, and where its
agent stood. The session may be Harken's own, one of another program that was recorded, or an
imported one; nothing of it is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
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

_NEAREST = 2
"""So many calls before and after are named where there is no such one."""


@dataclass(frozen=True)
class ForkPoint:
    """A model call; see `find`."""

    session: str
    """The name of the session."""
    stepping: RequestSteps = field(repr=False)
    number: int
    """Which call of the session it is, from 1."""
    resolver: Resolver = field(default=placeholders, repr=False)

    @classmethod
    def find(
        cls,
        session: str,
        events: Iterable[ev.Event],
        at: str,
        *,
        agent: AgentId | None = None,
        resolver: Resolver = placeholders,
    ) -> ForkPoint:
        """Return the call that a person means.

        at: its number, from 1, `-1` for the last one; or the id of the request, of its response
        or its answer. With `agent`, numbers count its calls. `resolver` gives the messages of
        commits that agents started from. Raises NameNotFound with the nearest calls there are.
        """
        stepping = RequestSteps(events, resolver=resolver)
        try:
            number = stepping.find(at, agent)
        except NameNotFound as error:
            raise NameNotFound("model call", at, _nearest(stepping, at) or error.known) from None
        return cls(session, stepping, number, resolver)

    @property
    def request(self) -> ev.LlmRequest:
        """The event of the call."""
        return self.stepping.requests[self.number - 1]

    @property
    def agent_id(self) -> AgentId:
        """Who made it."""
        return self.request.agent_id or AgentId("")

    @property
    def name(self) -> str:
        """What that agent is called."""
        return self.stepping.links.names.of(self.agent_id) or self.agent_id

    @cached_property
    def context(self) -> list[ContextMessage]:
        """Exactly what it saw. Raises HarkenError where the log lacks some of it."""
        return self.stepping.context(self.number)

    @property
    def messages(self) -> list[Message]:
        """The same as messages alone."""
        return [row.message for row in self.context]

    @property
    def is_whole(self) -> bool:
        """Whether the context is what was logged with the call, by its hash."""
        return reduce(extend_context_hash, self.messages, "") == self.request.context_hash

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The schemas that it was offered."""
        return self.stepping.tools(self.number)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """With which parameters the model was asked."""
        return self.request.parameters or {}

    @cached_property
    def state(self) -> SessionState:
        """What the session amounted to just before the call. Raises HarkenError."""
        state = SessionState()
        for event in self.stepping.links:
            if event is self.request:
                break
            try:
                fold(state, event, self.resolver)
            except ValueError as error:
                raise HarkenError(f"{self.session}: the log contradicts itself: {error}") from None
        return state

    @property
    def agent(self) -> AgentState:
        """What its agent was then."""
        return self.state.agents[self.agent_id]

    @property
    def is_own(self) -> bool:
        """Whether Harken ran the agent: then its hooks and subagents are at hand."""
        return "kind" in self.agent.spec and not self.agent.is_recorded

    def inputs_after(self) -> list[list[str]]:
        """Return what the agent was told later, oldest first; not what hooks or tools said.

        What it was told before its model was called again stands together.
        """
        texts = ([text_of(one.content) for one in told] for at, told in self._told if at is None)
        return [found for told in texts if (found := [text for text in told if text])]

    def told_with(self) -> dict[MessageId, list[ev.TranscriptEntry]]:
        """Return what the agent was told in the midst of a turn, by the result that it came with.

        Programs say such things in the user's name: what a skill is, what changed meanwhile.
        """
        return {at: told for at, told in self._told if at is not None}

    @cached_property
    def _told(self) -> list[tuple[MessageId | None, list[ev.TranscriptEntry]]]:
        """What the agent was told after the call, from one model call to the next.

        Each with the result that it came with; None: it came after an answer.
        """
        links = self.stepping.links
        found: list[tuple[MessageId | None, list[ev.TranscriptEntry]]] = [(None, [])]
        for event in links.events[links.at[self.request.message_id] :]:
            if event.agent_id != self.agent_id:
                continue
            if isinstance(event, ev.LlmRequest):
                found.append((None, []))
            elif isinstance(event, ev.TranscriptEntry) and event.role == "tool":
                found[-1] = (event.message_id, found[-1][1])
            elif isinstance(event, ev.TranscriptEntry) and _is_told(event):
                found[-1][1].append(event)
        return [(at, told) for at, told in found if told]


def _is_told(event: ev.TranscriptEntry) -> bool:
    return event.role == "user" and event.cause is None


def _nearest(stepping: RequestSteps, at: str) -> Sequence[str]:
    """Return the calls around a message that is no call; nothing where it is no id."""
    asked = parse_id_number(reference_message_id(at), "msg_")
    if asked is None:
        return []
    numbered = [
        (parse_id_number(request.message_id, "msg_") or 0, number)
        for number, request in enumerate(stepping.requests, 1)
    ]
    before = [number for id_, number in numbered if id_ <= asked][-_NEAREST:]
    after = [number for id_, number in numbered if id_ > asked][:_NEAREST]
    return [_called(stepping, number) for number in (*before, *after)]


def _called(stepping: RequestSteps, number: int) -> str:
    step = stepping.step(number)
    return f"{MessageId(step.request)} (call {number}, of {step.name})"
