"""One recorded session while it is open: its agents, and what is asked and answered.

One idea: a call is placed first, which changes nothing, and then logged. Whoever holds several runs
may so ask each of them whether a call is its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from harken.core import events as ev
from harken.core.clock import parse_rfc3339
from harken.core.ids import AgentId, MessageId, reference_message_id
from harken.core.stream import Finish
from harken.formats.wire.base import ParsedRequest, ParsedResponse, Protocol
from harken.llm.prices import Prices
from harken.recording.agent_recorder import AgentRecorder
from harken.recording.commits import SessionCommits
from harken.recording.exchange import LATE, CapturedRequest, CapturedResponse, ClientHints
from harken.recording.item import Item, wired
from harken.recording.matcher import AgentMatch, SummaryCandidate, match, summed
from harken.recording.parentage import ASIDE, MAIN, OpenToolCall, OpenToolCalls, cause, free_name
from harken.session.session import Session

_MOST_ANSWERS = 16
_AGENTIC = frozenset({"claude-code", "codex", "gemini-cli", "opencode", "pi"})
"""Clients that ask for titles and such without tools, and for their work with tools."""
_PROVIDERS = {
    "anthropic-messages": "anthropic",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "gemini": "gemini",
}


@dataclass(slots=True)
class CallClock:
    """The time of what is being logged: that of the call, not of its recording."""

    now_us: int = 0

    def __call__(self) -> int:
        """Return it, as a clock."""
        return self.now_us

    def set(self, time: str, otherwise_us: int) -> None:
        """Take a time of RFC 3339; one that is none counts for nothing."""
        try:
            self.now_us = parse_rfc3339(time)
        except (ValueError, OverflowError):
            self.now_us = otherwise_us


@dataclass(frozen=True, slots=True)
class ParsedCall:
    """A call, taken apart."""

    call: CapturedRequest
    protocol: Protocol
    asked: ParsedRequest
    items: Sequence[Item]


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A logged request that has no answer yet."""

    voice: AgentRecorder
    request_id: MessageId
    protocol: Protocol


@dataclass(slots=True)
class RecordedSession:
    """A recorded session that is open."""

    session: Session
    moment: CallClock
    client: str = ""
    client_session: str = ""
    """What the client calls it; empty: it is known by what was said."""
    commits: SessionCommits | None = None
    prices: Prices = field(default_factory=Prices)
    voices: dict[AgentId, AgentRecorder] = field(default_factory=dict)
    calls: dict[str, MessageId] = field(default_factory=dict)
    """The calls that are in the log -> their requests."""
    waiting: dict[str, PendingCall] = field(default_factory=dict)
    """Those without an answer."""
    responses: dict[str, AgentRecorder] = field(default_factory=dict)
    """The provider's names of the last answers -> whose they are."""
    made: OpenToolCalls = field(default_factory=OpenToolCalls)
    answers: deque[SummaryCandidate] = field(default_factory=lambda: deque(maxlen=_MOST_ANSWERS))

    def placed(self, request: ParsedCall) -> AgentMatch | None:
        """Return whose call it is; None: of an agent that is not born yet."""
        hint = request.call.hints.agent
        own = [voice for voice in self.voices.values() if self.hint_of(voice) == hint]
        found = match(request.items, own, list(self.answers))
        if found is not None and found.how != "fork":
            return found
        earlier = request.asked.parameters.get("previous_response_id")
        if isinstance(earlier, str) and earlier in self.responses:
            return AgentMatch(self.responses[earlier], "rewritten", 0)
        if hint and own and own[0].open is None and (found is None or not found.common):
            return AgentMatch(own[0], "rewritten", 0)
        others = [one for one in self.voices.values() if self.hint_of(one) != hint]
        left = match(request.items, others) if hint else None
        # Another agent may go on from what one heard, but does not go on for it.
        return found or (None if left is None else AgentMatch(left.voice, "fork", left.common))

    def hint_of(self, voice: AgentRecorder) -> str:
        """Return what the client calls an agent; the first one may be called as the session."""
        named = self.session.agents[voice.agent_id].spec.get("recorded_agent")
        return named if isinstance(named, str) else ""

    def begin(self, request: ParsedCall, found: AgentMatch | None) -> MessageId:
        """Log a call of the agent that it was found to be of, or of a new one."""
        voice, reason, summary = self._asker(request, found)
        asked, call = request.asked, request.call
        state = self.session.agents[voice.agent_id]
        if state.language_model != asked.model:
            self.session.append(
                ev.AgentConfigured(agent_id=voice.agent_id, language_model=asked.model)
            )
        wire: dict[str, Any] = {"protocol": request.protocol.name, "path": call.path}
        wire["call"] = call.id
        if asked.shape is not None:
            wire["shape"] = asked.shape
        if asked.marks:
            wire["marks"] = [[list(path), value] for path, value in asked.marks]
        id_ = voice.ask(
            request.items,
            model=asked.model,
            parameters=asked.parameters,
            tools=asked.tools,
            wire=wire,
            reason=reason,
            summary=summary,
        )
        self.calls[call.id] = id_
        self.waiting[call.id] = PendingCall(voice, id_, request.protocol)
        return id_

    def end(self, reply: CapturedResponse) -> AgentRecorder | None:
        """Log how a call ended; return whose it was. None: it is not waiting here."""
        waiting = self.waiting.pop(reply.id, None)
        if waiting is None or waiting.voice.open != waiting.request_id:
            return None
        voice, answered = waiting.voice, heard_in(reply, waiting.protocol)
        is_late = answered.finish is not None and reply.broken in LATE
        voice.answer(
            waiting.request_id,
            wired(waiting.protocol, answered.pieces),
            finish=self._priced(answered.finish, waiting.protocol),
            latency_s=reply.latency_s,
            error=answered.error or ("" if is_late else reply.broken),
            partial=answered.partial,
        )
        self._learn(voice, answered)
        return voice

    def learn(self, voice: AgentRecorder, entries: Iterable[ev.TranscriptEntry]) -> None:
        """Take what agents may be born from, and contexts summed up with."""
        said = list(entries)
        for entry in said:
            self.made.learn(voice.agent_id, entry)
        answer = summed(voice, said)
        if answer is not None:
            self.answers.append(answer)

    def time_of(self, request: ParsedCall) -> int:
        """Return when a call was made, in microseconds; the run's own time where it says none."""
        moment = CallClock()
        moment.set(request.call.time, self.moment.now_us)
        return moment.now_us

    def close(self) -> None:
        """Let go of the log."""
        self.session.close()

    def _learn(self, voice: AgentRecorder, answered: ParsedResponse) -> None:
        if not answered.pieces:
            return
        if answered.id:
            self.responses[answered.id] = voice
        context = self.session.context(voice.agent_id)[-len(answered.pieces) :]
        self.learn(voice, (one for one in context if isinstance(one, ev.TranscriptEntry)))

    def _asker(
        self, request: ParsedCall, found: AgentMatch | None
    ) -> tuple[AgentRecorder, str, int | None]:
        """Return who asks, why its context changed where it did, and the item that sums up."""
        if found is not None and found.how != "fork":
            is_summed = found.how == "compaction"
            return found.voice, "compaction" if is_summed else "rewritten", found.summary
        root = self.session.state.root
        vacant = None if root is None else self.voices.get(root)
        if root is None or vacant is None:
            vacant = self._root(request)
        if found is None and not vacant.asked and not self._is_aside(request):
            self._name(vacant, request.call.hints)
            return vacant, "rewritten", None
        made = self.made.take(request.items) if self._is_first(request) else None
        if found is not None and made is None:
            name = f"{self.session.agents[found.voice.agent_id].name} (fork)"
            name = request.call.hints.name or (ASIDE if found.kept else name)
            agent, _ = self._born(request, name, None, found.voice.agent_id)
            voice = self.voices[agent] = AgentRecorder.beside(found.voice, agent)
            return voice, "rewound", None
        return self._below(request, made), "rewritten", None

    def _root(self, request: ParsedCall) -> AgentRecorder:
        """Bear the first agent, whom the others stand below."""
        hints = request.call.hints
        own = "" if self._is_aside(request) else hints.agent
        agent = self.session.allocate_agent_id()
        spec = _spec(hints, own)
        if hints.session:
            spec["recorded_session"] = hints.session
        self.session.log_agent_created(agent, None, MAIN, request.asked.model, spec=spec)
        self.voices[agent] = AgentRecorder(self.session, agent)
        return self.voices[agent]

    def _name(self, voice: AgentRecorder, hints: ClientHints) -> None:
        """Note what the client calls an agent that was born before it asked."""
        if hints.agent != self.hint_of(voice):
            spec = {"recorded_agent": hints.agent}
            self.session.append(ev.AgentConfigured(agent_id=voice.agent_id, spec=spec))

    def _below(self, request: ParsedCall, made: OpenToolCall | None) -> AgentRecorder:
        """Bear an agent below the one that made it, as far as that is known."""
        hints = request.call.hints
        parent = self._named(hints.parent) or self.session.state.root or AgentId("")
        wished = hints.name or (made.name if made is not None else "") or ASIDE
        agent, told_by = self._born(request, wished, made, parent)
        voice = self.voices[agent] = AgentRecorder(self.session, agent)
        voice.told_by = reference_message_id(told_by)
        return voice

    def _born(
        self, request: ParsedCall, name: str, made: OpenToolCall | None, parent: AgentId
    ) -> tuple[AgentId, ev.Reference]:
        """Bear an agent; return it and what it was born from."""
        hints, agent = request.call.hints, self.session.allocate_agent_id()
        born_from = cause(self.session, made, parent)
        name, model = free_name(self.session, name), request.asked.model
        spec = _spec(hints, hints.agent)
        self.session.log_agent_created(agent, born_from, name, model, spec=spec)
        return agent, born_from

    def _named(self, hint: str) -> AgentId | None:
        """Return the agent that the client calls so; the first one where it calls none so."""
        if not hint:
            return None
        own = (voice.agent_id for voice in self.voices.values() if self.hint_of(voice) == hint)
        return next(own, None)

    def _is_aside(self, request: ParsedCall) -> bool:
        """Whether a call is hardly one of the main conversation."""
        hints = request.call.hints
        if hints.parent or (hints.client == "claude-code" and hints.agent):
            return True
        is_told = hints.client in _AGENTIC and bool(hints.session) and not hints.agent
        return is_told and not request.asked.tools

    def _is_first(self, request: ParsedCall) -> bool:
        """Whether nothing was answered yet in the conversation."""
        return all(item.messages[0].role != "assistant" for item in request.items)

    def _priced(self, finish: Finish | None, protocol: Protocol) -> Finish | None:
        """Return how an answer ended with what it cost, where that is known."""
        if finish is None or finish.usage is None or finish.cost_usd is not None:
            return finish
        day = datetime.fromtimestamp(self.moment.now_us // 1_000_000, UTC).date()
        model = f"{_PROVIDERS.get(protocol.name, '')}/{finish.model or ''}"
        price = self.prices.price(model, day)
        return finish if price is None else replace(finish, cost_usd=price.cost(finish.usage))


def heard_in(reply: CapturedResponse, protocol: Protocol) -> ParsedResponse:
    """Return what a reply says."""
    listener = protocol.listener(reply.status)
    listener.feed(reply.body)
    return listener.end()


def _spec(hints: ClientHints, agent: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"recorded": hints.client}
    if agent:
        spec["recorded_agent"] = agent
    return spec
