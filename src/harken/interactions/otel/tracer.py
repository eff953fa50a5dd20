"""A session as spans: what its agents were asked to do, the models they called, the tools.

One idea: a turn of an agent is a span (`invoke_agent`), from what it hears to its answer. Its model
calls and its tools are below it, and the turn of an agent that it asks is below the tool that did.
The turn of an agent that nobody asked begins a trace; so a trace is done when its turn is, and a
session that goes on is new traces, not longer ones. One pass; a span is told when it has ended.

Source: `harken.formats.providers.otel_attributes`; docs/formats/session-log.md says what the events
mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from harken.core import events as ev
from harken.core.clock import parse_rfc3339
from harken.core.ids import USER, AgentId, MessageId, reference_message_id
from harken.core.messages import ToolCall
from harken.formats.providers import otel_attributes
from harken.interactions.otel.attributes import Attributes, SpanAttributes
from harken.interactions.otel.span import Span, SpanContext, SpanIds
from harken.session.fold import Resolver, context_now, fold, reference_to
from harken.session.state import AgentState, SessionState

_OPEN = "it has not ended in the log"
_OWN = "harken"
"""The provider of agents."""


@dataclass(slots=True, kw_only=True)
class _Begun:
    """A span that has not ended."""

    place: SpanContext
    parent: SpanContext | None
    name: str
    start_ns: int
    end_ns: int = 0
    attributes: Attributes
    is_client: bool = False
    failed: str | None = None


@dataclass(slots=True)
class _Turn:
    """A turn of an agent, while it lasts."""

    span: _Begun
    is_answered: bool = False
    call: _Begun | None = None
    """Its model call that has no response yet."""
    request: MessageId | None = None
    tools: dict[str, _Begun] = field(default_factory=dict)
    """Its calls without a result, by id."""


@dataclass(slots=True)
class SessionTracer:
    """The spans of one session, told event by event."""

    naming: SpanIds
    saying: SpanAttributes
    resolver: Resolver | None = None
    _state: SessionState = field(default_factory=SessionState)
    _turns: dict[AgentId, _Turn] = field(default_factory=dict)
    _waiting: dict[AgentId, list[tuple[ev.TranscriptEntry, int]]] = field(default_factory=dict)
    """What an agent heard since its last turn, and when."""
    _asked_by: dict[ev.Reference, SpanContext] = field(default_factory=dict)
    """A call, as causes name it -> its span."""
    _heard: dict[MessageId, ev.TranscriptEntry | ev.PieceOfText] = field(default_factory=dict)
    _tools: dict[MessageId, Attributes] = field(default_factory=dict)
    _seen: dict[AgentId, int] = field(default_factory=dict)
    """How many messages the last model call of an agent saw."""
    _now_ns: int = 1

    def spans(self, events: Iterable[ev.Event], *, is_live: bool = False) -> Iterator[Span]:
        """Yield the spans of a session, each when it has ended.

        is_live: the session goes on, so what has not ended is left out: it will be told later.
        Raises ValueError where the events are those of no session.
        """
        for event in events:
            fold(self._state, event, self.resolver)
            self._now_ns = max(_ns(event.time), 0) or self._now_ns
            yield from self._take(event)
        for agent in list(self._turns):
            yield from self._end_turn(agent, is_live=is_live)

    def _take(self, event: ev.Event) -> Iterator[Span]:
        if isinstance(event, ev.ToolsDefined):
            self._tools[event.message_id] = self.saying.tools(event.tools)
        elif isinstance(event, ev.PieceOfText):
            self._heard[event.message_id] = event
        agent = self._state.agents.get(event.agent_id or AgentId(""))
        if agent is None or event.agent_id == USER:
            return
        match event:
            case ev.TranscriptEntry():
                self._heard[event.message_id] = event
                yield from self._entry(agent, event)
            case ev.LlmRequest():
                yield from self._request(agent, event)
            case ev.LlmResponse():
                yield from self._response(agent, event)
            case ev.AgentMoved(place="gone"):
                yield from self._end_turn(agent.id)
            case _:
                pass

    def _entry(self, agent: AgentState, entry: ev.TranscriptEntry) -> Iterator[Span]:
        turn = self._turns.get(agent.id)
        if entry.role == "user":
            if turn is not None and turn.is_answered and not self._is_of_hook(agent, entry):
                yield from self._end_turn(agent.id)
                turn = None
            if turn is None:
                self._waiting.setdefault(agent.id, []).append((entry, self._now_ns))
        elif entry.role == "assistant":
            turn = turn or self._begin_turn(agent, entry.message_id)
            turn.is_answered = not entry.tool_calls
            turn.span.end_ns = self._now_ns
            if self.saying.much != "none" and turn.is_answered:
                turn.span.attributes[otel_attributes.OUTPUT_MESSAGES] = self.saying.messages(
                    [entry]
                )
            for call in entry.tool_calls or ():
                self._begin_tool(turn, entry, call)
        elif entry.role == "tool" and turn is not None:
            tool = turn.tools.pop(entry.tool_call_id or "", None)
            if tool is not None:
                yield self._end_tool(tool, entry)

    def _begin_turn(self, agent: AgentState, id_: MessageId) -> _Turn:
        """Begin a turn with what an agent heard since the last one, or else with this event."""
        heard = self._waiting.pop(agent.id, [])
        entries = [entry for entry, _ in heard]
        id_ = entries[0].message_id if entries else id_
        parent = self._asker(agent, entries)
        trace = self.naming.trace(id_) if parent is None else parent.trace
        said: Attributes = {
            otel_attributes.OPERATION: otel_attributes.INVOKE_AGENT,
            otel_attributes.PROVIDER: _OWN,
            **self._of(agent),
        }
        if entries and self.saying.much != "none":
            said[otel_attributes.INPUT_MESSAGES] = self.saying.messages(entries)
        span = _Begun(
            place=SpanContext(trace, self.naming.span("turn", id_)),
            parent=parent,
            name=f"{otel_attributes.INVOKE_AGENT} {self.saying.line(agent.name or agent.id)}",
            start_ns=heard[0][1] if heard else self._now_ns,
            attributes=said,
        )
        turn = self._turns[agent.id] = _Turn(span)
        return turn

    def _asker(self, agent: AgentState, heard: Iterable[ev.TranscriptEntry]) -> SpanContext | None:
        """Return the span in which an agent is asked: a tool, or the turn around it."""
        causes = [cause for entry in heard for cause in self._causes(entry)]
        for reference in causes:
            if reference in self._asked_by:
                return self._asked_by[reference]
        others = [
            self._heard[base] for base in map(reference_message_id, causes) if base in self._heard
        ]
        for id_ in (*(other.agent_id for other in others), agent.parent):
            turn = None if id_ in (None, agent.id) else self._turns.get(id_)
            if turn is not None:
                return turn.span.place
        return None

    def _causes(self, heard: ev.TranscriptEntry) -> Iterator[ev.Reference]:
        """Yield what led to what an agent hears, itself or by the text that it was given."""
        event: ev.TranscriptEntry | ev.PieceOfText | None = heard
        for _ in range(4):
            if event is None:
                return
            cause = event.cause
            yield from [cause] if isinstance(cause, str) else cause or ()
            substance = event.substance if isinstance(event, ev.TranscriptEntry) else None
            if substance is not None:
                yield substance
            event = None if substance is None else self._heard.get(substance)

    def _is_of_hook(self, agent: AgentState, entry: ev.TranscriptEntry) -> bool:
        """Whether a hook of the agent said it: then the turn goes on."""
        events = (self._heard.get(reference_message_id(one)) for one in self._causes(entry))
        return any(event is not None and event.agent_id in agent.hooks for event in events)

    def _request(self, agent: AgentState, request: ev.LlmRequest) -> Iterator[Span]:
        turn = self._turns.get(agent.id) or self._begin_turn(agent, request.message_id)
        if turn.call is not None:  # the one before was cut off
            yield from self._cut_off(turn)
        turn.is_answered = False
        messages = context_now(agent)[: request.count]
        said = self.saying.asked(request, messages, self._seen.get(agent.id, 0))
        self._seen[agent.id] = request.count
        if request.tools is not None:
            said |= self._tools.get(request.tools, {})
        turn.request = request.message_id
        turn.call = _Begun(
            place=self._inside(turn, "call", request.message_id),
            parent=turn.span.place,
            name=f"{otel_attributes.CHAT} {said[otel_attributes.REQUEST_MODEL]}",
            start_ns=self._now_ns,
            attributes=said | self._of(agent),
            is_client=True,
        )

    def _response(self, agent: AgentState, response: ev.LlmResponse) -> Iterator[Span]:
        turn = self._turns.get(agent.id)
        if turn is None or turn.call is None or turn.request != response.request:
            return
        call, turn.call = turn.call, None
        entry = self._heard.get(response.entry or MessageId(""))
        answer = entry if isinstance(entry, ev.TranscriptEntry) else None
        call.attributes |= self.saying.answered(response, answer)
        if response.error is not None or response.stop_reason in ("error", "cancelled"):
            call.attributes[otel_attributes.ERROR_TYPE] = response.stop_reason or "error"
            call.failed = self.saying.line(response.error or response.stop_reason or "")
        if response.latency_s is not None:
            call.start_ns = max(1, self._now_ns - int(response.latency_s * 1e9))
        turn.span.end_ns = self._now_ns
        yield self._ended(call)

    def _begin_tool(self, turn: _Turn, entry: ev.TranscriptEntry, call: ToolCall) -> None:
        reference = reference_to(entry, call.id)
        place = self._inside(turn, "tool", f"{entry.message_id}.{call.id}")
        name = self.saying.line(call.function.name)
        said: Attributes = {
            otel_attributes.OPERATION: otel_attributes.EXECUTE_TOOL,
            otel_attributes.TOOL_NAME: name,
            otel_attributes.TOOL_TYPE: "function",
            otel_attributes.TOOL_CALL_ID: self.saying.text(call.id),
        }
        if self.saying.much != "none":
            said[otel_attributes.TOOL_CALL_ARGUMENTS] = self.saying.text(call.function.arguments)
        turn.tools[call.id] = _Begun(
            place=place,
            parent=turn.span.place,
            name=f"{otel_attributes.EXECUTE_TOOL} {name}",
            start_ns=self._now_ns,
            attributes=said | self._conversation(),
        )
        self._asked_by[reference] = place

    def _end_tool(self, tool: _Begun, entry: ev.TranscriptEntry) -> Span:
        if self.saying.much != "none":
            tool.attributes[otel_attributes.TOOL_CALL_RESULT] = self.saying.result(entry)
        if entry.is_error:
            tool.attributes[otel_attributes.ERROR_TYPE] = "tool_error"
            tool.failed = ""
        return self._ended(tool)

    def _cut_off(self, turn: _Turn) -> Iterator[Span]:
        """End what a turn has begun and not ended."""
        begun = [*([turn.call] if turn.call is not None else []), *turn.tools.values()]
        turn.call, turn.tools = None, {}
        for one in begun:
            one.attributes[otel_attributes.ERROR_TYPE] = "unfinished"
            one.failed = _OPEN
            yield self._ended(one)

    def _end_turn(self, agent: AgentId, *, is_live: bool = False) -> Iterator[Span]:
        turn = self._turns.pop(agent, None)
        if turn is None or (is_live and not turn.is_answered):
            return
        yield from self._cut_off(turn)
        if not turn.is_answered:
            turn.span.attributes[otel_attributes.ERROR_TYPE] = "unfinished"
            turn.span.failed = _OPEN
        yield self._ended(turn.span, turn.span.end_ns or self._now_ns)

    def _inside(self, turn: _Turn, kind: str, id_: str) -> SpanContext:
        return SpanContext(turn.span.place.trace, self.naming.span(kind, id_))

    def _ended(self, begun: _Begun, end_ns: int | None = None) -> Span:
        end_ns = self._now_ns if end_ns is None else end_ns
        return Span(
            place=begun.place,
            parent=None if begun.parent is None else begun.parent.span,
            name=begun.name,
            is_client=begun.is_client,
            start_ns=begun.start_ns,
            end_ns=max(begun.start_ns, end_ns),
            attributes=begun.attributes,
            failed=begun.failed,
        )

    def _conversation(self) -> Attributes:
        return {otel_attributes.CONVERSATION: self.saying.text(self.naming.session)}

    def _of(self, agent: AgentState) -> Attributes:
        said: Attributes = {otel_attributes.AGENT_ID: agent.id}
        if agent.name:
            said[otel_attributes.AGENT_NAME] = self.saying.line(agent.name)
        return said | self._conversation()


def _ns(time: str) -> int:
    try:
        return parse_rfc3339(time) * 1000
    except (ValueError, OverflowError):  # an older dialect
        return 0
