"""Step through the model calls of a session: context, changes and outcome of each request.

The events are indexed in one pass; everything else is computed on demand. New messages of a request
are found by its segments, so the cost of a step depends on its new messages, not on the size of its
context.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from harken.core import canonical
from harken.core import events as ev
from harken.core.ids import AgentId, MessageId
from harken.core.messages import ChatMessage, Message, extend_context_hash
from harken.core.record import SparseRecord
from harken.errors import HarkenError, NameNotFound
from harken.session.fold import Resolver, format_call_reference
from harken.session.segments import segment_length
from harken.views.context import ContextMessage, build_context_rows, without_entry_fields
from harken.views.interventions import Intervention, interventions
from harken.views.links import Links
from harken.views.message_diff import MessageDiff, TextSpan, diff_messages, spans
from harken.views.message_text import format_message
from harken.views.model_calls import Key, ModelCalls, placeholders

_MAX_NUMBER_DIGITS = 18
"""Longer digit strings are treated as ids."""
_MAX_KEY_SETS = 32
"""The number of calls whose keys are kept: a message is looked for in about 20 calls."""


class RequestStep(SparseRecord, frozen=True, kw_only=True):
    """A model call of a session."""

    number: int
    """Number of the call in the session, from 1, in the order of the log."""
    of_agent: int
    """Number of the call among the calls of its agent, from 1."""
    request: MessageId
    agent_id: AgentId | None
    name: str | None
    time: str
    model: str
    messages: int
    """Number of messages in its context."""
    evidence: ev.Evidence
    """How the request is known."""
    missing: list[ev.RequestPart] = msgspec.field(default_factory=list)
    """The parts of the request that are unknown."""
    ended: bool = False
    """Whether the log has its response event; some programs do not log one."""
    stop_reason: str | None = None
    latency_s: float | None = None
    cost_usd: float | None = None
    usage: ev.Usage | None = None


class ChangedSetting(SparseRecord, frozen=True, kw_only=True):
    """A tool or parameter that differs from the previous request."""

    name: str
    kind: str
    """`added`, `dropped`, `changed`."""
    spans: list[TextSpan] = msgspec.field(default_factory=list)
    """For a changed value: the diff of its JSON."""


class Edit(SparseRecord, frozen=True, kw_only=True):
    """An edit of the context since the previous request."""

    message_id: MessageId
    kind: str
    """`compacted`, `loaded` (from a commit), or the reason of the edit, such as `rewound`."""
    summary: MessageId | None = None
    """The message that replaces the removed ones."""
    ctx: str | None = None
    """The commit that was loaded."""


class Changes(SparseRecord, frozen=True, kw_only=True):
    """The differences between a request and the previous one of the same agent."""

    previous: MessageId | None = None
    """The previous request. None for the agent's first request, whose messages are all new."""
    kept: int = 0
    """Number of common leading messages of both requests; they have no rows."""
    messages: list[MessageDiff] = msgspec.field(default_factory=list)
    edits: list[Edit] = msgspec.field(default_factory=list)
    model: str | None = None
    """Model of the previous request, if it was another one."""
    tools: list[ChangedSetting] = msgspec.field(default_factory=list)
    parameters: list[ChangedSetting] = msgspec.field(default_factory=list)


class ExecutedCall(SparseRecord, frozen=True, kw_only=True):
    """A tool call of a response."""

    call: ev.Reference
    tool: str
    arguments: str
    became: str | None = None
    """Tool and arguments after a hook rewrote the call."""
    result_id: MessageId | None = None
    result: str | None = None
    """Text of the result, or None if the log has none."""
    is_error: bool = False


class StepResult(SparseRecord, frozen=True, kw_only=True):
    """The outcome of a model call, up to the agent's next call."""

    answer_id: MessageId | None = None
    answer: Message | None = None
    error: str | None = None
    partial: str | None = None
    """The part of an incomplete response that was received."""
    ran: list[ExecutedCall] = msgspec.field(default_factory=list)
    rewritten: list[Intervention] = msgspec.field(default_factory=list)
    """Changed versions of the response that other agents received."""
    memory: list[dict[str, Any]] = msgspec.field(default_factory=list)
    """Operations of the agent on its memory: `memory_operation` events."""


class RequestSteps:
    """The model calls of a session, in the order of the log."""

    def __init__(self, events: Iterable[ev.Event], *, resolver: Resolver = placeholders) -> None:
        """Index the calls. `resolver` returns the messages of commits that agents started from."""
        self.links = Links.of(events)
        self.calls = ModelCalls(resolver)
        self.requests: list[ev.LlmRequest] = []
        self._number_by_request: dict[MessageId, int] = {}
        self._numbers_by_agent: dict[AgentId | None, list[int]] = {}
        self._events_after: dict[MessageId, list[ev.Event]] = {}
        """Request -> events of its agent until the agent's next request."""
        self._early_edits: dict[AgentId | None, list[ev.Event]] = {}
        """Agent -> edits of its context before its first request."""
        self._last_requests: dict[AgentId | None, MessageId] = {}
        self._key_sets: OrderedDict[int, frozenset[Key]] = OrderedDict()
        self.add(self.links)

    def __len__(self) -> int:
        return len(self.requests)

    def add(self, events: Iterable[ev.Event]) -> None:
        """Add later events. The links must contain them."""
        last = self._last_requests
        for event in events:
            self.calls.add(event)
            agent = event.agent_id
            if isinstance(event, ev.LlmRequest):
                self.requests.append(event)
                last[agent] = event.message_id
                self._number_by_request[event.message_id] = len(self.requests)
                self._numbers_by_agent.setdefault(agent, []).append(len(self.requests))
            elif agent in last:
                self._events_after.setdefault(last[agent], []).append(event)
            elif isinstance(event, ev.TranscriptEdited | ev.ContextLoaded):
                self._early_edits.setdefault(agent, []).append(event)
        self.__dict__.pop("_interventions_by_message", None)  # It is computed again when needed.

    def numbers_for(self, agent_id: str | None) -> Sequence[int]:
        """Return the numbers of the calls of an agent, or of all agents."""
        if agent_id is None:
            return range(1, len(self.requests) + 1)
        return self._numbers_by_agent.get(AgentId(agent_id), [])

    def find_readers(self, message_id: str, agent_id: str | None, limit: int) -> list[int]:
        """Return the numbers of the first calls of an agent that read a message, at most `limit`.

        Only its calls after the message are looked at, and only until the message is removed from
        the context.
        """
        position = self.links.positions.get(MessageId(message_id))
        if position is None or agent_id is None:
            return []
        numbers = self.numbers_for(agent_id)
        first = bisect_left(
            numbers,
            position,
            key=lambda number: self.links.positions[self.requests[number - 1].message_id],
        )
        readers: list[int] = []
        for number in numbers[first : first + limit]:
            try:
                keys = self._key_set(number)
            except HarkenError:  # The log lacks a part of the context.
                continue
            if (MessageId(message_id), -1) in keys:
                readers.append(number)
            elif readers:
                break
        return readers

    def _key_set(self, number: int) -> frozenset[Key]:
        """Return the keys of the messages of a call: those of the last calls are kept.

        A reader of many messages of an agent asks for the same calls. Raises as `context`.
        """
        keys = self._key_sets.pop(number, None)
        if keys is None:
            keys = frozenset(self.calls.keys(self.requests[number - 1]))
        self._key_sets[number] = keys
        if len(self._key_sets) > _MAX_KEY_SETS:
            self._key_sets.popitem(last=False)
        return keys

    def find(self, given: str, agent_id: str | None = None) -> int:
        """Resolve a user's reference to a model call to its number.

        `given` is a number, which may be negative to count from the end, or the id of a request,
        response or answer. With an agent, numbers count its calls. Raises NameNotFound.
        """
        numbers = self.numbers_for(agent_id)
        digits = given.removeprefix("-")
        if digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_NUMBER_DIGITS:
            position = int(digits) if given == digits else len(numbers) + 1 - int(digits)
            if 1 <= position <= len(numbers):
                return numbers[position - 1]
        id_ = MessageId(given)
        number = self._number_by_request.get(self.calls.request_by_result.get(id_, id_), 0)
        if not number:
            known_calls = f"1 to {len(numbers)}" if numbers else "none: no model was called"
            raise NameNotFound("model call", given, [known_calls])
        return number

    def step(self, number: int) -> RequestStep:
        """Return the facts of a call."""
        request = self.requests[number - 1]
        response = self.calls.responses.get(request.message_id)
        answered = response or ev.LlmResponse(request=request.message_id)
        return RequestStep(
            number=number,
            of_agent=bisect_left(self._numbers_by_agent[request.agent_id], number) + 1,
            request=request.message_id,
            agent_id=request.agent_id,
            name=self.links.names.latest_name(request.agent_id),
            time=request.time,
            model=request.model,
            messages=request.count,
            evidence=request.known_by,
            missing=request.missing or [],
            ended=response is not None,
            stop_reason=answered.stop_reason,
            latency_s=answered.latency_s,
            cost_usd=answered.cost_usd,
            usage=answered.usage,
        )

    def keys(self, number: int) -> Sequence[Key]:
        """Return the keys of the messages of a call: equal ones are the same message.

        Raises as `context`.
        """
        return self.calls.keys(self.requests[number - 1])

    def context(self, number: int, start: int = 0, stop: int | None = None) -> list[ContextMessage]:
        """Return the exact context of a call, or a range of it.

        Raises HarkenError if the log lacks part of it.
        """
        request = self.requests[number - 1]
        keys = self.calls.keys(request)[start:stop]
        messages = [self.calls.message(request, key) for key in keys]
        return build_context_rows(keys, messages, known=self._known_keys(number), start=start)

    def find_new(self, number: int) -> list[int]:
        """Return the positions of the messages that are new since the previous call of the agent.

        Raises as `context`.
        """
        known_keys, keys = self._known_keys(number), self.keys(number)
        previous = self.calls.previous_request(self.requests[number - 1])
        old_keys = [] if previous is None else self.calls.keys(previous)
        # A context usually begins with that of the previous call, in which nothing is new.
        start = len(old_keys) if keys[: len(old_keys)] == old_keys else 0
        return [at for at in range(start, len(keys)) if keys[at] not in known_keys]

    def _known_keys(self, number: int) -> Collection[Key]:
        """Return the keys of the previous call of the agent."""
        previous = self.calls.previous_request(self.requests[number - 1])
        return (
            () if previous is None else self._key_set(self._number_by_request[previous.message_id])
        )

    def tools(self, number: int) -> list[dict[str, Any]]:
        """Return the full tool schemas of a call."""
        return self.calls.schemas(self.requests[number - 1]) or []

    def verified(self, number: int) -> bool:
        """Whether a call was recorded, and its messages are intact. Raises as `context`."""
        return self.requests[number - 1].known_by == "recorded" and self.is_intact(number)

    def is_intact(self, number: int) -> bool:
        """Whether the messages of a call have the hash that was logged with it.

        A prefix that is taken from an earlier call is assumed to have that call's hash: if all
        calls are intact, so is each context. Raises as `context`.
        """
        request = self.requests[number - 1]
        segments, hash_ = request.context, ""
        earlier = self.calls.requests.get(_or_empty(segments[0].request)) if segments else None
        if earlier is not None and (segments[0].start, segments[0].stop) == (0, earlier.count):
            segments, hash_ = segments[1:], earlier.context_hash
        for message in self.calls.messages(request, segments):
            hash_ = extend_context_hash(hash_, message)
        return (
            hash_ == request.context_hash
            and sum(map(segment_length, request.context)) == request.count
        )

    def changes(self, number: int) -> Changes:
        """Return the differences from the agent's previous call. Raises as `context`."""
        request = self.requests[number - 1]
        previous = self.calls.previous_request(request)
        edits = list(self._iter_edits(request))
        if previous is None:
            messages = diff_messages([], self.calls.messages(request))
            return Changes(messages=messages, edits=edits)
        kept, old, new = self._split_common(previous, request)
        schemas = [self.calls.schemas(compared) or [] for compared in (previous, request)]
        return Changes(
            previous=previous.message_id,
            kept=kept,
            messages=diff_messages(old, new, kept=kept),
            edits=edits,
            model=previous.model if previous.model != request.model else None,
            tools=_diff_members(*map(_by_name, schemas)) if previous.tools != request.tools else [],
            parameters=_diff_members(previous.parameters or {}, request.parameters or {}),
        )

    def outcome(self, number: int) -> StepResult:
        """Return the outcome of a call."""
        request = self.requests[number - 1]
        response = self.calls.responses.get(request.message_id)
        answer = self.links.get(response.entry) if response is not None else None
        after = self._events_after.get(request.message_id, [])
        if not isinstance(answer, ev.TranscriptEntry):
            answer = None
        rewritten = (
            () if answer is None else self._interventions_by_message.get(answer.message_id, ())
        )
        return StepResult(
            answer_id=None if answer is None else answer.message_id,
            answer=None if answer is None else without_entry_fields(answer),
            error=None if response is None else response.error,
            partial=None if response is None else response.partial,
            ran=[] if answer is None else list(_iter_executed(answer, after)),
            rewritten=list(rewritten),
            memory=[
                ev.event_dict(event) for event in after if isinstance(event, ev.MemoryOperation)
            ],
        )

    def events(self, number: int) -> list[ev.Event]:
        """Return the request and its agent's events until the next request."""
        request = self.requests[number - 1]
        return [request, *self._events_after.get(request.message_id, [])]

    def text(self, number: int) -> str:
        """Return the searchable text of a step: its new messages, the response and tool results."""
        try:
            rows = [row.text for row in self.changes(number).messages if row.kind != "same"]
        except HarkenError:
            rows = []
        result = self.outcome(number)
        answer_texts = [] if result.answer is None else [format_message(result.answer)]
        return "\n".join(
            [*rows, *answer_texts, *(executed.result or "" for executed in result.ran)]
        )

    def _iter_edits(self, request: ev.LlmRequest) -> Iterator[Edit]:
        """Yield the edits of the context since the previous request."""
        previous = self.calls.previous.get(request.message_id)
        early = self._early_edits.get(request.agent_id, [])
        for event in early if previous is None else self._events_after.get(previous, ()):
            if isinstance(event, ev.ContextLoaded):
                yield Edit(message_id=event.message_id, kind="loaded", ctx=event.ctx)
            elif isinstance(event, ev.TranscriptEdited):
                kind = "compacted" if event.summary else event.reason or "edited"
                yield Edit(message_id=event.message_id, kind=kind, summary=event.summary)

    def _split_common(
        self, before: ev.LlmRequest, request: ev.LlmRequest
    ) -> tuple[int, list[ChatMessage], list[ChatMessage]]:
        """Return the length of the common prefix of two requests, and the messages after it."""
        head = request.context[0] if request.context else None
        if head is None or head.request != before.message_id or head.start:
            return 0, self.calls.messages(before), self.calls.messages(request)
        kept = head.stop or 0
        removed = ev.Segment(request=before.message_id, start=kept, stop=before.count)
        old = self.calls.messages(request, [removed]) if kept < before.count else []
        return kept, old, self.calls.messages(request, request.context[1:])

    @cached_property
    def _interventions_by_message(self) -> Mapping[MessageId, Sequence[Intervention]]:
        """The interventions on a message, by message id."""
        rows_by_message: dict[MessageId, list[Intervention]] = {}
        for row in interventions(self.links):
            if row.kind == "message":
                rows_by_message.setdefault(row.message_id, []).append(row)
        return rows_by_message


def _iter_executed(answer: ev.TranscriptEntry, after: Iterable[ev.Event]) -> Iterator[ExecutedCall]:
    """Yield the calls of a response with their results."""
    results: dict[str | None, ev.TranscriptEntry] = {}
    became: dict[ev.Reference, str] = {}
    for event in after:
        if isinstance(event, ev.TranscriptEntry) and event.role == "tool":
            results.setdefault(event.tool_call_id, event)
        elif isinstance(event, ev.ActionRewritten):
            became[event.call] = f"{event.tool} {event.arguments}"
    for call in answer.tool_calls or ():
        reference = format_call_reference(answer, call.id)
        result = results.get(call.id)
        yield ExecutedCall(
            call=reference,
            tool=call.function.name,
            arguments=call.function.arguments,
            became=became.get(reference),
            result_id=None if result is None else result.message_id,
            result=None if result is None else format_message(result),
            is_error=result is not None and result.is_error,
        )


def _or_empty(id_: MessageId | None) -> MessageId:
    return id_ or MessageId("")


def _by_name(schemas: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return schemas by tool name, in the format of any provider."""
    functions = [schema.get("function") for schema in schemas]
    function_schemas = [
        function if isinstance(function, Mapping) else schema_
        for function, schema_ in zip(functions, schemas, strict=True)
    ]
    return {
        str(function.get("name", "?")): schema_
        for function, schema_ in zip(function_schemas, schemas, strict=True)
    }


def _diff_members(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[ChangedSetting]:
    """Return the differences between two sets of named values."""
    changes: list[ChangedSetting] = []
    for name in {**before, **after}:
        if name not in after or name not in before:
            changes.append(ChangedSetting(name=name, kind="added" if name in after else "dropped"))
            continue
        old_json, new_json = (
            canonical.to_canonical_bytes(side[name]).decode() for side in (before, after)
        )
        if old_json != new_json:
            changes.append(
                ChangedSetting(name=name, kind="changed", spans=spans(old_json, new_json))
            )
    return changes
