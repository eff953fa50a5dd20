"""Stepping: a session request by request: what each model call saw, what came of it.

One pass collects the calls; all else is worked out when it is asked for. What is new in a request
is found from its segments, so that a step costs what is new in it, not what its context holds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from harken.core import canonical
from harken.core import events as ev
from harken.core.ids import AgentId, MessageId
from harken.core.messages import ChatMessage, Message, extend_context_hash
from harken.core.record import SparseRecord
from harken.errors import HarkenError, NameNotFound
from harken.session.fold import Resolver, reference_to
from harken.session.segments import length
from harken.views.context import ContextMessage, rows_of, without_entry_fields
from harken.views.interventions import Intervention, interventions
from harken.views.links import Links
from harken.views.message_diff import MessageDiff, TextSpan, difference, spans
from harken.views.message_text import written
from harken.views.model_calls import ModelCalls, placeholders

_LONGEST_NUMBER = 18
"""Digits: more are an id, if anything."""


class RequestStep(SparseRecord, frozen=True, kw_only=True):
    """One model call."""

    number: int
    """Which call of the session it is, from 1, in the order of the log."""
    of_agent: int
    """Which call of its agent."""
    request: MessageId
    agent_id: AgentId | None
    name: str | None
    time: str
    model: str
    messages: int
    """How many it saw."""
    ended: bool = False
    """Whether its end is in the log; not everybody who writes one says why it ended."""
    stop_reason: str | None = None
    latency_s: float | None = None
    cost_usd: float | None = None
    usage: ev.Usage | None = None


class ChangedSetting(SparseRecord, frozen=True, kw_only=True):
    """A tool or a parameter that is not as it was at the request before."""

    name: str
    kind: str
    """`added`, `dropped`, `changed`."""
    spans: list[TextSpan] = msgspec.field(default_factory=list)
    """Of what changed: how its JSON did."""


class Edit(SparseRecord, frozen=True, kw_only=True):
    """Why a context is not the one before and what was added."""

    message_id: MessageId
    kind: str
    """`compacted`, `loaded` (from a commit), or why it was edited: `rewound`, `rewritten`, ..."""
    summary: MessageId | None = None
    """What stands for that which was left out."""
    ctx: str | None = None
    """The commit that was loaded."""


class Changes(SparseRecord, frozen=True, kw_only=True):
    """How a request differs from the one before of the same agent."""

    previous: MessageId | None = None
    """None: it is the agent's first, and all of it is new."""
    kept: int = 0
    """So many messages at the beginning are those of the request before; they have no rows."""
    messages: list[MessageDiff] = msgspec.field(default_factory=list)
    edits: list[Edit] = msgspec.field(default_factory=list)
    model: str | None = None
    """What the request before asked, where that was another model."""
    tools: list[ChangedSetting] = msgspec.field(default_factory=list)
    parameters: list[ChangedSetting] = msgspec.field(default_factory=list)


class ExecutedCall(SparseRecord, frozen=True, kw_only=True):
    """A tool call of an answer."""

    call: ev.Reference
    tool: str
    arguments: str
    became: str | None = None
    """What a hook made of tool and arguments."""
    result_id: MessageId | None = None
    result: str | None = None
    """None: it has none in the log."""
    is_error: bool = False


class StepResult(SparseRecord, frozen=True, kw_only=True):
    """What came of a model call, until the agent's next."""

    answer_id: MessageId | None = None
    answer: Message | None = None
    error: str | None = None
    partial: str | None = None
    """What had arrived of an answer that did not end."""
    ran: list[ExecutedCall] = msgspec.field(default_factory=list)
    rewritten: list[Intervention] = msgspec.field(default_factory=list)
    """Where others heard the answer otherwise."""
    memory: list[dict[str, Any]] = msgspec.field(default_factory=list)
    """What the agent did with its memory: `memory_operation` events."""


class RequestSteps:
    """The model calls of a session, in the order of the log."""

    def __init__(self, events: Iterable[ev.Event], *, resolver: Resolver = placeholders) -> None:
        """Collect the calls. `resolver` gives the messages of commits that agents started from."""
        self.links = Links.of(events)
        self.calls = ModelCalls(resolver)
        self.requests: list[ev.LlmRequest] = []
        self._number: dict[MessageId, int] = {}
        self._of_agent: dict[AgentId | None, list[int]] = {}
        self._after: dict[MessageId, list[ev.Event]] = {}
        """What an agent did after a request and before its next one."""
        self._early: dict[AgentId | None, list[ev.Event]] = {}
        """What edited its context before its first."""
        self._collect()

    def __len__(self) -> int:
        return len(self.requests)

    def of(self, agent_id: str | None) -> Sequence[int]:
        """Return the numbers of an agent's calls; of all where no agent is given."""
        if agent_id is None:
            return range(1, len(self.requests) + 1)
        return self._of_agent.get(AgentId(agent_id), [])

    def find(self, given: str, agent_id: str | None = None) -> int:
        """Return the number of the call that a person means.

        `given`: a number, also from the end (`-1`), or the id of the request, its response or its
        answer. With an agent, numbers count its calls. Raises NameNotFound.
        """
        numbers = self.of(agent_id)
        bare = given.removeprefix("-")
        if bare.isascii() and bare.isdecimal() and len(bare) <= _LONGEST_NUMBER:
            place = int(bare) if given == bare else len(numbers) + 1 - int(bare)
            if 1 <= place <= len(numbers):
                return numbers[place - 1]
        id_ = MessageId(given)
        number = self._number.get(self.calls.answered.get(id_, id_), 0)
        if not number:
            there = f"1 to {len(numbers)}" if numbers else "none: no model was called"
            raise NameNotFound("model call", given, [there])
        return number

    def step(self, number: int) -> RequestStep:
        """Return the facts of a call."""
        request = self.requests[number - 1]
        response = self.calls.responses.get(request.message_id)
        answered = response or ev.LlmResponse(request=request.message_id)
        return RequestStep(
            number=number,
            of_agent=bisect_left(self._of_agent[request.agent_id], number) + 1,
            request=request.message_id,
            agent_id=request.agent_id,
            name=self.links.names.of(request.agent_id),
            time=request.time,
            model=request.model,
            messages=request.count,
            ended=response is not None,
            stop_reason=answered.stop_reason,
            latency_s=answered.latency_s,
            cost_usd=answered.cost_usd,
            usage=answered.usage,
        )

    def context(self, number: int) -> list[ContextMessage]:
        """Return exactly what a call saw. Raises HarkenError where the log lacks some of it."""
        request = self.requests[number - 1]
        before = self.calls.before(request)
        known = set() if before is None else set(self.calls.keys(before))
        return rows_of(self.calls.keys(request), self.calls.messages(request), known=known)

    def tools(self, number: int) -> list[dict[str, Any]]:
        """Return the tools that a call was offered, in full."""
        return self.calls.schemas(self.requests[number - 1]) or []

    def verified(self, number: int) -> bool:
        """Whether the messages of a call have the hash that was logged with it.

        What it begins with of an earlier call is taken to have that call's hash: where all calls
        are verified, so is each. Raises as `context`.
        """
        request = self.requests[number - 1]
        segments, hash_ = request.context, ""
        earlier = self.calls.requests.get(_id(segments[0].request)) if segments else None
        if earlier is not None and (segments[0].start, segments[0].stop) == (0, earlier.count):
            segments, hash_ = segments[1:], earlier.context_hash
        for message in self.calls.messages(request, segments):
            hash_ = extend_context_hash(hash_, message)
        return hash_ == request.context_hash and sum(map(length, request.context)) == request.count

    def changes(self, number: int) -> Changes:
        """Return how a call differs from the agent's one before. Raises as `context`."""
        request = self.requests[number - 1]
        before = self.calls.before(request)
        edits = list(self._edits(request))
        if before is None:
            messages = difference([], self.calls.messages(request))
            return Changes(messages=messages, edits=edits)
        kept, old, new = self._tails(before, request)
        schemas = [self.calls.schemas(one) or [] for one in (before, request)]
        return Changes(
            previous=before.message_id,
            kept=kept,
            messages=difference(old, new, kept=kept),
            edits=edits,
            model=before.model if before.model != request.model else None,
            tools=_members(*map(_by_name, schemas)) if before.tools != request.tools else [],
            parameters=_members(before.parameters or {}, request.parameters or {}),
        )

    def outcome(self, number: int) -> StepResult:
        """Return what came of a call."""
        request = self.requests[number - 1]
        response = self.calls.responses.get(request.message_id)
        answer = self.links.get(response.entry) if response is not None else None
        after = self._after.get(request.message_id, [])
        if not isinstance(answer, ev.TranscriptEntry):
            answer = None
        rewritten = () if answer is None else self._rewritten.get(answer.message_id, ())
        return StepResult(
            answer_id=None if answer is None else answer.message_id,
            answer=None if answer is None else without_entry_fields(answer),
            error=None if response is None else response.error,
            partial=None if response is None else response.partial,
            ran=[] if answer is None else list(_ran(answer, after)),
            rewritten=list(rewritten),
            memory=[ev.event_dict(one) for one in after if isinstance(one, ev.MemoryOperation)],
        )

    def events(self, number: int) -> list[ev.Event]:
        """Return the request and what its agent logged until its next one."""
        request = self.requests[number - 1]
        return [request, *self._after.get(request.message_id, [])]

    def text(self, number: int) -> str:
        """Return what a person may search for in a step: what is new, and the answer."""
        try:
            rows = [row.text for row in self.changes(number).messages if row.kind != "same"]
        except HarkenError:
            rows = []
        done = self.outcome(number)
        said = [] if done.answer is None else [written(done.answer)]
        return "\n".join([*rows, *said, *(ran.result or "" for ran in done.ran)])

    def _collect(self) -> None:
        last: dict[AgentId | None, MessageId] = {}
        for event in self.links:
            self.calls.take(event)
            agent = event.agent_id
            if isinstance(event, ev.LlmRequest):
                self.requests.append(event)
                last[agent] = event.message_id
                self._number[event.message_id] = len(self.requests)
                self._of_agent.setdefault(agent, []).append(len(self.requests))
            elif agent in last:
                self._after.setdefault(last[agent], []).append(event)
            elif isinstance(event, ev.TranscriptEdited | ev.ContextLoaded):
                self._early.setdefault(agent, []).append(event)

    def _edits(self, request: ev.LlmRequest) -> Iterator[Edit]:
        """Yield why the context is not the one before and what was added."""
        previous = self.calls.previous.get(request.message_id)
        early = self._early.get(request.agent_id, [])
        for event in early if previous is None else self._after.get(previous, ()):
            if isinstance(event, ev.ContextLoaded):
                yield Edit(message_id=event.message_id, kind="loaded", ctx=event.ctx)
            elif isinstance(event, ev.TranscriptEdited):
                kind = "compacted" if event.summary else event.reason or "edited"
                yield Edit(message_id=event.message_id, kind=kind, summary=event.summary)

    def _tails(
        self, before: ev.LlmRequest, request: ev.LlmRequest
    ) -> tuple[int, list[ChatMessage], list[ChatMessage]]:
        """Return how many messages two requests begin with alike, and what follows in each."""
        head = request.context[0] if request.context else None
        if head is None or head.request != before.message_id or head.start:
            return 0, self.calls.messages(before), self.calls.messages(request)
        kept = head.stop or 0
        rest = ev.Segment(request=before.message_id, start=kept, stop=before.count)
        old = self.calls.messages(request, [rest]) if kept < before.count else []
        return kept, old, self.calls.messages(request, request.context[1:])

    @cached_property
    def _rewritten(self) -> Mapping[MessageId, Sequence[Intervention]]:
        """Where others heard a message otherwise, by the message."""
        found: dict[MessageId, list[Intervention]] = {}
        for row in interventions(self.links):
            if row.kind == "message":
                found.setdefault(row.message_id, []).append(row)
        return found


def _ran(answer: ev.TranscriptEntry, after: Iterable[ev.Event]) -> Iterator[ExecutedCall]:
    """Yield the calls of an answer, and what came of each."""
    results: dict[str | None, ev.TranscriptEntry] = {}
    became: dict[ev.Reference, str] = {}
    for event in after:
        if isinstance(event, ev.TranscriptEntry) and event.role == "tool":
            results.setdefault(event.tool_call_id, event)
        elif isinstance(event, ev.ActionRewritten):
            became[event.call] = f"{event.tool} {event.arguments}"
    for call in answer.tool_calls or ():
        reference = reference_to(answer, call.id)
        result = results.get(call.id)
        yield ExecutedCall(
            call=reference,
            tool=call.function.name,
            arguments=call.function.arguments,
            became=became.get(reference),
            result_id=None if result is None else result.message_id,
            result=None if result is None else written(result),
            is_error=result is not None and result.is_error,
        )


def _id(id_: MessageId | None) -> MessageId:
    return id_ or MessageId("")


def _by_name(schemas: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return schemas by the names of their tools, whichever provider's form they have."""
    inner = [schema.get("function") for schema in schemas]
    named = [
        one if isinstance(one, Mapping) else all_ for one, all_ in zip(inner, schemas, strict=True)
    ]
    return {str(one.get("name", "?")): all_ for one, all_ in zip(named, schemas, strict=True)}


def _members(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[ChangedSetting]:
    """Return what is not the same in two sets of named values."""
    found: list[ChangedSetting] = []
    for name in {**before, **after}:
        if name not in after or name not in before:
            found.append(ChangedSetting(name=name, kind="added" if name in after else "dropped"))
            continue
        one, two = (canonical.to_canonical_bytes(side[name]).decode() for side in (before, after))
        if one != two:
            found.append(ChangedSetting(name=name, kind="changed", spans=spans(one, two)))
    return found
