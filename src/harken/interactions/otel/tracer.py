"""Convert a session log to spans: turns of agents, model calls and tool calls.

A turn of an agent is a span (`invoke_agent`), from its input to its answer. Its model calls and
tool calls are child spans, and the turn of an agent that a tool calls is a child of that tool's
span. A turn without such a caller starts a trace. So a trace ends with its turn, and a session that
continues adds new traces. Events are processed in one pass; a span is yielded when it ends.

Source: `harken.formats.providers.otel_attributes`; docs/formats/session-log.md says what the events
mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from harken.core import events as ev
from harken.core.clock import parse_rfc3339
from harken.core.ids import USER, AgentId, MessageId, reference_message_id
from harken.core.messages import ToolCall
from harken.formats.providers import otel_attributes
from harken.interactions.otel.attributes import Attributes, SpanAttributes
from harken.interactions.otel.span import Span, SpanContext, SpanIds
from harken.session.fold import Resolver, current_messages, fold, format_call_reference
from harken.session.state import AgentState, SessionState

_UNFINISHED = "it has not ended in the log"
_LOCAL_PROVIDER = "harken"
"""Provider name of agents."""


class _OpenSpan(msgspec.Struct, kw_only=True):
    """A span that has not ended."""

    place: SpanContext
    parent: SpanContext | None
    name: str
    start_ns: int
    end_ns: int = 0
    attributes: Attributes
    is_client: bool = False
    failed: str | None = None


class _Turn(msgspec.Struct):
    """The current turn of an agent."""

    span: _OpenSpan
    is_answered: bool = False
    call: _OpenSpan | None = None
    """Span of the model call that has no response yet."""
    request: MessageId | None = None
    tools: dict[str, _OpenSpan] = msgspec.field(default_factory=dict)
    """Spans of tool calls without a result, by call id."""


class SessionTracer(msgspec.Struct):
    """Builds the spans of one session from its events."""

    naming: SpanIds
    saying: SpanAttributes
    resolver: Resolver | None = None
    _state: SessionState = msgspec.field(default_factory=SessionState)
    _turns: dict[AgentId, _Turn] = msgspec.field(default_factory=dict)
    _pending_input: dict[AgentId, list[tuple[ev.TranscriptEntry, int]]] = msgspec.field(
        default_factory=dict
    )
    """Input messages of an agent since its last turn, with their times."""
    _call_spans: dict[ev.Reference, SpanContext] = msgspec.field(default_factory=dict)
    """Reference to a tool call -> its span."""
    _events_by_id: dict[MessageId, ev.TranscriptEntry | ev.PieceOfText] = msgspec.field(
        default_factory=dict
    )
    _tool_attributes: dict[MessageId, Attributes] = msgspec.field(default_factory=dict)
    _seen_counts: dict[AgentId, int] = msgspec.field(default_factory=dict)
    """Number of messages in the context of an agent's last model call."""
    _now_ns: int = 1

    def spans(self, events: Iterable[ev.Event], *, is_live: bool = False) -> Iterator[Span]:
        """Yield the spans of a session, each when it ends.

        If `is_live`, the session continues and unfinished spans are left out. Raises ValueError if
        the events are not those of a session.
        """
        for event in events:
            fold(self._state, event, self.resolver)
            self._now_ns = max(_parse_ns(event.time), 0) or self._now_ns
            yield from self._add_event(event)
        for agent in list(self._turns):
            yield from self._end_turn(agent, is_live=is_live)

    def _add_event(self, event: ev.Event) -> Iterator[Span]:
        if isinstance(event, ev.ToolsDefined):
            self._tool_attributes[event.message_id] = self.saying.tools(event.tools)
        elif isinstance(event, ev.PieceOfText):
            self._events_by_id[event.message_id] = event
        agent = self._state.agents.get(event.agent_id or AgentId(""))
        if agent is None or event.agent_id == USER:
            return
        match event:
            case ev.TranscriptEntry():
                self._events_by_id[event.message_id] = event
                yield from self._add_entry(agent, event)
            case ev.LlmRequest():
                yield from self._add_request(agent, event)
            case ev.LlmResponse():
                yield from self._add_response(agent, event)
            case ev.AgentMoved(place="gone"):
                yield from self._end_turn(agent.id)
            case _:
                pass

    def _add_entry(self, agent: AgentState, entry: ev.TranscriptEntry) -> Iterator[Span]:
        turn = self._turns.get(agent.id)
        if entry.role == "user":
            if turn is not None and turn.is_answered and not self._is_from_hook(agent, entry):
                yield from self._end_turn(agent.id)
                turn = None
            if turn is None:
                self._pending_input.setdefault(agent.id, []).append((entry, self._now_ns))
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
        """Start a turn with the input since the last turn, or with this event if there is none."""
        pending = self._pending_input.pop(agent.id, [])
        entries = [entry for entry, _ in pending]
        id_ = entries[0].message_id if entries else id_
        parent = self._find_caller(agent, entries)
        trace = self.naming.trace(id_) if parent is None else parent.trace
        attributes: Attributes = {
            otel_attributes.OPERATION: otel_attributes.INVOKE_AGENT,
            otel_attributes.PROVIDER: _LOCAL_PROVIDER,
            **self._agent_attributes(agent),
        }
        if entries and self.saying.much != "none":
            attributes[otel_attributes.INPUT_MESSAGES] = self.saying.messages(entries)
        span = _OpenSpan(
            place=SpanContext(trace, self.naming.span("turn", id_)),
            parent=parent,
            name=f"{otel_attributes.INVOKE_AGENT} {self.saying.line(agent.name or agent.id)}",
            start_ns=pending[0][1] if pending else self._now_ns,
            attributes=attributes,
        )
        turn = self._turns[agent.id] = _Turn(span)
        return turn

    def _find_caller(
        self, agent: AgentState, entries: Iterable[ev.TranscriptEntry]
    ) -> SpanContext | None:
        """Return the span that called an agent: a tool call, or the turn around it."""
        causes = [cause for entry in entries for cause in self._iter_causes(entry)]
        for reference in causes:
            if reference in self._call_spans:
                return self._call_spans[reference]
        causing_events = [
            self._events_by_id[base_id]
            for base_id in map(reference_message_id, causes)
            if base_id in self._events_by_id
        ]
        for id_ in (*(event.agent_id for event in causing_events), agent.parent):
            turn = None if id_ in (None, agent.id) else self._turns.get(id_)
            if turn is not None:
                return turn.span.place
        return None

    def _iter_causes(self, entry: ev.TranscriptEntry) -> Iterator[ev.Reference]:
        """Yield the causes of an input message, direct ones and those of its substance."""
        event: ev.TranscriptEntry | ev.PieceOfText | None = entry
        for _ in range(4):
            if event is None:
                return
            cause = event.cause
            yield from [cause] if isinstance(cause, str) else cause or ()
            substance = event.substance if isinstance(event, ev.TranscriptEntry) else None
            if substance is not None:
                yield substance
            event = None if substance is None else self._events_by_id.get(substance)

    def _is_from_hook(self, agent: AgentState, entry: ev.TranscriptEntry) -> bool:
        """Whether a hook of the agent wrote the entry, so that the turn continues."""
        events = (
            self._events_by_id.get(reference_message_id(cause))
            for cause in self._iter_causes(entry)
        )
        return any(event is not None and event.agent_id in agent.hooks for event in events)

    def _add_request(self, agent: AgentState, request: ev.LlmRequest) -> Iterator[Span]:
        turn = self._turns.get(agent.id) or self._begin_turn(agent, request.message_id)
        if turn.call is not None:  # The previous call was interrupted.
            yield from self._end_open_spans(turn)
        turn.is_answered = False
        messages = current_messages(agent)[: request.count]
        attributes = self.saying.asked(request, messages, self._seen_counts.get(agent.id, 0))
        self._seen_counts[agent.id] = request.count
        if request.tools is not None:
            attributes |= self._tool_attributes.get(request.tools, {})
        turn.request = request.message_id
        turn.call = _OpenSpan(
            place=self._child_context(turn, "call", request.message_id),
            parent=turn.span.place,
            name=f"{otel_attributes.CHAT} {attributes[otel_attributes.REQUEST_MODEL]}",
            start_ns=self._now_ns,
            attributes=attributes | self._agent_attributes(agent),
            is_client=True,
        )

    def _add_response(self, agent: AgentState, response: ev.LlmResponse) -> Iterator[Span]:
        turn = self._turns.get(agent.id)
        if turn is None or turn.call is None or turn.request != response.request:
            return
        call, turn.call = turn.call, None
        entry = self._events_by_id.get(response.entry or MessageId(""))
        answer = entry if isinstance(entry, ev.TranscriptEntry) else None
        call.attributes |= self.saying.answered(response, answer)
        if response.error is not None or response.stop_reason in ("error", "cancelled"):
            call.attributes[otel_attributes.ERROR_TYPE] = response.stop_reason or "error"
            call.failed = self.saying.line(response.error or response.stop_reason or "")
        if response.latency_s is not None:
            call.start_ns = max(1, self._now_ns - int(response.latency_s * 1e9))
        turn.span.end_ns = self._now_ns
        yield self._end_span(call)

    def _begin_tool(self, turn: _Turn, entry: ev.TranscriptEntry, call: ToolCall) -> None:
        reference = format_call_reference(entry, call.id)
        place = self._child_context(turn, "tool", f"{entry.message_id}.{call.id}")
        name = self.saying.line(call.function.name)
        attributes: Attributes = {
            otel_attributes.OPERATION: otel_attributes.EXECUTE_TOOL,
            otel_attributes.TOOL_NAME: name,
            otel_attributes.TOOL_TYPE: "function",
            otel_attributes.TOOL_CALL_ID: self.saying.text(call.id),
        }
        if self.saying.much != "none":
            attributes[otel_attributes.TOOL_CALL_ARGUMENTS] = self.saying.text(
                call.function.arguments
            )
        turn.tools[call.id] = _OpenSpan(
            place=place,
            parent=turn.span.place,
            name=f"{otel_attributes.EXECUTE_TOOL} {name}",
            start_ns=self._now_ns,
            attributes=attributes | self._conversation_attributes(),
        )
        self._call_spans[reference] = place

    def _end_tool(self, tool: _OpenSpan, entry: ev.TranscriptEntry) -> Span:
        if self.saying.much != "none":
            tool.attributes[otel_attributes.TOOL_CALL_RESULT] = self.saying.result(entry)
        if entry.is_error:
            tool.attributes[otel_attributes.ERROR_TYPE] = "tool_error"
            tool.failed = ""
        return self._end_span(tool)

    def _end_open_spans(self, turn: _Turn) -> Iterator[Span]:
        """End the open spans of a turn as unfinished."""
        open_spans = [*([turn.call] if turn.call is not None else []), *turn.tools.values()]
        turn.call, turn.tools = None, {}
        for span in open_spans:
            span.attributes[otel_attributes.ERROR_TYPE] = "unfinished"
            span.failed = _UNFINISHED
            yield self._end_span(span)

    def _end_turn(self, agent: AgentId, *, is_live: bool = False) -> Iterator[Span]:
        turn = self._turns.pop(agent, None)
        if turn is None or (is_live and not turn.is_answered):
            return
        yield from self._end_open_spans(turn)
        if not turn.is_answered:
            turn.span.attributes[otel_attributes.ERROR_TYPE] = "unfinished"
            turn.span.failed = _UNFINISHED
        yield self._end_span(turn.span, turn.span.end_ns or self._now_ns)

    def _child_context(self, turn: _Turn, kind: str, id_: str) -> SpanContext:
        return SpanContext(turn.span.place.trace, self.naming.span(kind, id_))

    def _end_span(self, span: _OpenSpan, end_ns: int | None = None) -> Span:
        end_ns = self._now_ns if end_ns is None else end_ns
        return Span(
            place=span.place,
            parent=None if span.parent is None else span.parent.span,
            name=span.name,
            is_client=span.is_client,
            start_ns=span.start_ns,
            end_ns=max(span.start_ns, end_ns),
            attributes=span.attributes,
            failed=span.failed,
        )

    def _conversation_attributes(self) -> Attributes:
        return {otel_attributes.CONVERSATION: self.saying.text(self.naming.session)}

    def _agent_attributes(self, agent: AgentState) -> Attributes:
        attributes: Attributes = {otel_attributes.AGENT_ID: agent.id}
        if agent.name:
            attributes[otel_attributes.AGENT_NAME] = self.saying.line(agent.name)
        return attributes | self._conversation_attributes()


def _parse_ns(time: str) -> int:
    try:
        return parse_rfc3339(time) * 1000
    except (ValueError, OverflowError):  # Logs in an older format have other times.
        return 0
