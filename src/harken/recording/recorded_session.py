"""`RecordedSession`: an open recorded session: its agents, its open calls, and their responses.

Matching a call to an agent and logging it are separate steps. Matching has no side effects, so a
caller with several sessions may ask each of them whether a call belongs to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from harken.core import events as ev
from harken.core import structs
from harken.core.clock import parse_rfc3339
from harken.core.event_types.spec import AgentSpec, ForeignAgent
from harken.core.ids import AgentId, MessageId, reference_message_id
from harken.core.stream import Finish
from harken.formats.tool_calls import replace_surrogates
from harken.formats.wire.base import ParsedRequest, ParsedResponse, Protocol
from harken.llm.prices import Prices
from harken.recording.exchange import (
    HARMLESS_INTERRUPTIONS,
    CapturedRequest,
    CapturedResponse,
    ClientHints,
)
from harken.recording.matcher import (
    AgentMatch,
    SummaryCandidate,
    extract_summary_candidate,
    match_request,
)
from harken.recording.parentage import (
    ASIDE_NAME,
    MAIN_NAME,
    OpenToolCall,
    OpenToolCalls,
    find_cause,
    free_name,
)
from harken.recording.writer.agent_recorder import AgentRecorder
from harken.recording.writer.commits import RunTotals, SessionCommits
from harken.recording.writer.item import Item, wire_items
from harken.recording.writer.request import RequestSettings
from harken.session.session import Session

_MAX_ANSWERS = 16
_MAX_ID_CHARS = 200
_AGENTIC_CLIENTS = frozenset({"claude-code", "codex", "gemini-cli", "opencode", "pi"})
"""Clients that ask for titles and summaries without tools, and work with tools."""
_PROVIDERS = {
    "anthropic-messages": "anthropic",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "gemini": "gemini",
}


class CallClock(msgspec.Struct):
    """A settable clock: events get the time of the call, not of its recording."""

    now_us: int = 0

    def __call__(self) -> int:
        """Return the current time, in microseconds."""
        return self.now_us

    def set(self, time: str, otherwise_us: int) -> None:
        """Set an RFC 3339 time. An invalid time is replaced by `otherwise_us`."""
        try:
            self.now_us = parse_rfc3339(time)
        except (ValueError, OverflowError):
            self.now_us = otherwise_us


class ParsedCall(msgspec.Struct, frozen=True):
    """A parsed call."""

    call: CapturedRequest
    protocol: Protocol
    request: ParsedRequest
    items: Sequence[Item]


class PendingCall(msgspec.Struct, frozen=True):
    """A logged request that has no response yet."""

    recorder: AgentRecorder
    request_id: MessageId
    protocol: Protocol


class RecordedSession(msgspec.Struct):
    """An open recorded session."""

    session: Session
    clock: CallClock
    client: str = ""
    client_session: str = ""
    """The client's name for the session. If empty, the session is recognized by its content."""
    commits: SessionCommits | None = None
    totals: RunTotals = msgspec.field(default_factory=RunTotals)
    prices: Prices = msgspec.field(default_factory=Prices)
    recorders: dict[AgentId, AgentRecorder] = msgspec.field(default_factory=dict)
    requests_by_call: dict[str, MessageId] = msgspec.field(default_factory=dict)
    """Logged calls -> their requests."""
    pending_calls: dict[str, PendingCall] = msgspec.field(default_factory=dict)
    """Calls without a response."""
    agents_by_response: dict[str, AgentRecorder] = msgspec.field(default_factory=dict)
    """Provider ids of the last responses -> the agents that received them."""
    open_tool_calls: OpenToolCalls = msgspec.field(default_factory=OpenToolCalls)
    summary_candidates: deque[SummaryCandidate] = msgspec.field(
        default_factory=lambda: deque(maxlen=_MAX_ANSWERS)
    )

    def match_call(self, request: ParsedCall) -> AgentMatch | None:
        """Match a call to an agent. Return None if the agent does not exist yet."""
        hint = request.call.hints.agent
        own_recorders = [
            recorder for recorder in self.recorders.values() if self.hint_of(recorder) == hint
        ]
        own_match = match_request(request.items, own_recorders, list(self.summary_candidates))
        if own_match is not None and own_match.kind != "fork":
            return own_match
        earlier = request.request.parameters.get("previous_response_id")
        if isinstance(earlier, str) and earlier in self.agents_by_response:
            return AgentMatch(self.agents_by_response[earlier], "rewritten", 0)
        if (
            hint
            and own_recorders
            and own_recorders[0].open_request is None
            and (own_match is None or not own_match.common)
        ):
            return AgentMatch(own_recorders[0], "rewritten", 0)
        other_recorders = [
            recorder for recorder in self.recorders.values() if self.hint_of(recorder) != hint
        ]
        other_match = match_request(request.items, other_recorders) if hint else None
        # Another agent may fork from this context, but it does not continue it.
        return own_match or (
            None
            if other_match is None
            else AgentMatch(other_match.recorder, "fork", other_match.common)
        )

    def hint_of(self, recorder: AgentRecorder) -> str:
        """Return the client's name for an agent. It is empty for an unnamed agent."""
        foreign = self.session.agents[recorder.agent_id].spec.foreign
        return (None if foreign is None else foreign.agent) or ""

    def log_call(self, request: ParsedCall, agent_match: AgentMatch | None) -> MessageId:
        """Log a call of the matched agent, or of a new agent if there is no match."""
        recorder, reason, summary = self._select_recorder(request, agent_match)
        parsed, call = request.request, request.call
        state = self.session.agents[recorder.agent_id]
        if state.language_model != parsed.model:
            self.session.append(
                ev.AgentConfigured(agent_id=recorder.agent_id, language_model=parsed.model)
            )
        wire: dict[str, Any] = {"protocol": request.protocol.name, "path": call.path}
        wire["call"] = call.id
        if parsed.shape is not None:
            wire["shape"] = parsed.shape
        if parsed.marks:
            wire["marks"] = [[list(path), value] for path, value in parsed.marks]
        settings = RequestSettings(
            model=parsed.model,
            parameters=parsed.parameters or {},
            tools=parsed.tools,
            wire=wire,
            evidence=call.evidence,
            missing=call.missing,
        )
        id_ = recorder.log_request(request.items, settings, reason=reason, summary=summary)
        self.requests_by_call[call.id] = id_
        self.pending_calls[call.id] = PendingCall(recorder, id_, request.protocol)
        return id_

    def log_end(self, reply: CapturedResponse) -> AgentRecorder | None:
        """Log the response to a call. Return its agent, or None if the call is not open here."""
        pending = self.pending_calls.pop(reply.id, None)
        if pending is None or pending.recorder.open_request != pending.request_id:
            return None
        recorder, parsed = pending.recorder, parse_response(reply, pending.protocol)
        is_late = parsed.finish is not None and reply.broken in HARMLESS_INTERRUPTIONS
        error = parsed.error or ("" if is_late else reply.broken)
        finish = parsed.finish or Finish(stop_reason="error" if error else "interrupted")
        recorder.log_response(
            pending.request_id,
            wire_items(pending.protocol, parsed.pieces),
            finish=self._complete_finish(finish, parsed.id, pending.protocol),
            latency_s=reply.latency_s,
            error=error,
            partial=parsed.partial,
        )
        self._learn_response(recorder, parsed)
        return recorder

    def note_answers(self, recorder: AgentRecorder, entries: Iterable[ev.TranscriptEntry]) -> None:
        """Note the tool calls that may start agents, and the answers that may become summaries."""
        answers = list(entries)
        for entry in answers:
            self.open_tool_calls.add(recorder.agent_id, entry)
        candidate = extract_summary_candidate(recorder, answers)
        if candidate is not None:
            self.summary_candidates.append(candidate)

    def time_of(self, request: ParsedCall) -> int:
        """Return the time of a call in microseconds.

        Return the time of the session if the call has none.
        """
        clock = CallClock()
        clock.set(request.call.time, self.clock.now_us)
        return clock.now_us

    def close(self) -> None:
        """Close the log."""
        self.session.close()

    def _learn_response(self, recorder: AgentRecorder, parsed: ParsedResponse) -> None:
        if not parsed.pieces:
            return
        if parsed.id:
            self.agents_by_response[parsed.id] = recorder
        context = self.session.context(recorder.agent_id)[-len(parsed.pieces) :]
        self.note_answers(
            recorder, (entry for entry in context if isinstance(entry, ev.TranscriptEntry))
        )

    def _select_recorder(
        self, request: ParsedCall, agent_match: AgentMatch | None
    ) -> tuple[AgentRecorder, str, int | None]:
        """Return the recorder of a call, the reason for a context change, and the summary index."""
        if agent_match is not None and agent_match.kind != "fork":
            is_summed = agent_match.kind == "compaction"
            return (
                agent_match.recorder,
                "compaction" if is_summed else "rewritten",
                agent_match.summary,
            )
        root = self.session.state.root
        root_recorder = None if root is None else self.recorders.get(root)
        if root is None or root_recorder is None:
            root_recorder = self._create_root(request)
        if (
            agent_match is None
            and not root_recorder.requested_count
            and not self._is_aside(request)
        ):
            self._set_agent_hint(root_recorder, request.call.hints)
            return root_recorder, "rewritten", None
        call = (
            self.open_tool_calls.pop_started_by(request.items) if self._is_first(request) else None
        )
        if agent_match is not None and call is None:
            name = f"{self.session.agents[agent_match.recorder.agent_id].name} (fork)"
            name = request.call.hints.name or (ASIDE_NAME if agent_match.kept_items else name)
            agent, _ = self._create_agent(request, name, None, agent_match.recorder.agent_id)
            recorder = self.recorders[agent] = AgentRecorder.forked_from(
                agent_match.recorder, agent
            )
            return recorder, "rewound", None
        return self._create_subagent(request, call), "rewritten", None

    def _create_root(self, request: ParsedCall) -> AgentRecorder:
        """Create the first agent, the root of all others."""
        hints = request.call.hints
        agent_hint = "" if self._is_aside(request) else hints.agent
        agent = self.session.allocate_agent_id()
        foreign = ForeignAgent(hints.client, agent_hint or None, hints.session or None)
        spec = AgentSpec(foreign=foreign)
        self.session.log_agent_created(agent, None, MAIN_NAME, request.request.model, spec=spec)
        self.recorders[agent] = AgentRecorder(self.session, agent)
        return self.recorders[agent]

    def _set_agent_hint(self, recorder: AgentRecorder, hints: ClientHints) -> None:
        """Log the client's name of an agent that was created without one."""
        if hints.agent != self.hint_of(recorder):
            existing = self.session.agents[recorder.agent_id].spec.foreign or ForeignAgent()
            foreign = structs.replace(existing, agent=hints.agent)
            self.session.append(ev.AgentConfigured(agent_id=recorder.agent_id, foreign=foreign))

    def _create_subagent(self, request: ParsedCall, call: OpenToolCall | None) -> AgentRecorder:
        """Create an agent below the agent that started it, or below the root."""
        hints = request.call.hints
        parent = self._find_agent(hints.parent) or self.session.state.root or AgentId("")
        name = hints.name or (call.name if call is not None else "") or ASIDE_NAME
        agent, cause_reference = self._create_agent(request, name, call, parent)
        recorder = self.recorders[agent] = AgentRecorder(self.session, agent)
        recorder.user_message_cause = reference_message_id(cause_reference)
        return recorder

    def _create_agent(
        self, request: ParsedCall, name: str, call: OpenToolCall | None, parent: AgentId
    ) -> tuple[AgentId, ev.Reference]:
        """Create an agent. Return its id and its cause."""
        hints, agent = request.call.hints, self.session.allocate_agent_id()
        cause_reference = find_cause(self.session, call, parent)
        name, model = free_name(self.session, name), request.request.model
        spec = AgentSpec(foreign=ForeignAgent(hints.client, hints.agent or None))
        self.session.log_agent_created(agent, cause_reference, name, model, spec=spec)
        return agent, cause_reference

    def _find_agent(self, hint: str) -> AgentId | None:
        """Return the agent with this client name, or None."""
        if not hint:
            return None
        agent_ids = (
            recorder.agent_id
            for recorder in self.recorders.values()
            if self.hint_of(recorder) == hint
        )
        return next(agent_ids, None)

    def _is_aside(self, request: ParsedCall) -> bool:
        """Whether a call probably does not belong to the main conversation."""
        hints = request.call.hints
        if hints.parent or (hints.client == "claude-code" and hints.agent):
            return True
        is_agentic = hints.client in _AGENTIC_CLIENTS and bool(hints.session) and not hints.agent
        return is_agentic and not request.request.tools

    def _is_first(self, request: ParsedCall) -> bool:
        """Whether the request contains no answer."""
        return all(item.messages[0].role != "assistant" for item in request.items)

    def _complete_finish(self, finish: Finish, response_id: str, protocol: Protocol) -> Finish:
        """Add the id to the end of a response, and the cost if the price of the model is known."""
        id_ = replace_surrogates(response_id[:_MAX_ID_CHARS])
        finish = structs.replace(finish, response_id=id_ or None)
        if finish.usage is None or finish.cost_usd is not None:
            return finish
        day = datetime.fromtimestamp(self.clock.now_us // 1_000_000, UTC).date()
        model = f"{_PROVIDERS.get(protocol.name, '')}/{finish.model or ''}"
        price = self.prices.price(model, day)
        return (
            finish if price is None else structs.replace(finish, cost_usd=price.cost(finish.usage))
        )


def parse_response(reply: CapturedResponse, protocol: Protocol) -> ParsedResponse:
    """Parse a response."""
    listener = protocol.listener(reply.status)
    listener.feed(reply.body)
    return listener.end()
