"""`AgentTree`: which agent, of which run, made a call: from the spans around it.

One idea: a span tells its parent, and the parent comes later: what a program does ends from the
inside out. So each span is remembered for a while, and whoever asks learns also whether all above a
span has come.

An agent of a run is one invocation below another agent; the first is known by what it reads, since
each of its turns is an invocation. A run is what the program calls a conversation. Where it calls
it nothing, it is a trace, or the trace in which the conversation began that a call goes on with.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harken.capture.otlp.span import ReceivedSpan, SpanId
from harken.core.messages import ChatMessage, extend_context_hash
from harken.formats.providers import otel_attributes
from harken.recording.exchange import ClientHints

MOST_SPANS = 100_000
MOST_CONTEXTS = 50_000
_DEEPEST = 200
_CHARACTERS = 120


@dataclass(frozen=True, slots=True)
class _Known:
    """What of a span is remembered."""

    parent: SpanId | None
    is_agent: bool
    agent: str
    """What a person would call it."""
    conversation: str


@dataclass(frozen=True, slots=True)
class SpanAgent:
    """Where a span stands among the agents of its run."""

    hints: ClientHints
    is_settled: bool
    """Whether all that is above it has come."""


class AgentTree:
    """The spans of late, and the conversations that calls were part of."""

    def __init__(self, most_spans: int = MOST_SPANS, most_contexts: int = MOST_CONTEXTS) -> None:
        self._spans: OrderedDict[SpanId, _Known] = OrderedDict()
        self._most_spans, self._most_contexts = most_spans, most_contexts
        self._runs: OrderedDict[str, str] = OrderedDict()
        """The hash of a context -> the run in which it was read."""

    def add(self, span: ReceivedSpan) -> None:
        """Remember a span."""
        name = _text(otel_attributes.get_attribute(span.attributes, otel_attributes.AGENT_NAME))
        is_agent = otel_attributes.operation_of(span.attributes) == otel_attributes.INVOKE_AGENT
        self._spans[span.id] = _Known(
            span.parent,
            is_agent,
            name or (_name_in(span.name) if is_agent else ""),
            _text(otel_attributes.get_attribute(span.attributes, otel_attributes.CONVERSATION)),
        )
        while len(self._spans) > self._most_spans:
            self._spans.popitem(last=False)

    def standing(self, span: ReceivedSpan) -> SpanAgent:
        """Return where a span stands, as far as is known by now."""
        own = self._spans.get(span.id)
        line = [(span.id, own), *self._above(span.parent)] if own else [*self._above(span.parent)]
        known = [(id_, one) for id_, one in line if one is not None]
        agents = [(id_, one) for id_, one in known if one.is_agent]
        is_settled = all(one is not None for _, one in line)
        agent = parent = ""
        if is_settled and len(agents) > 1:  # else it may be the first, and what it reads tells
            agent = agents[0][0][1]
            parent = agents[1][0][1] if len(agents) > 2 else ""
        names = (one.agent for _, one in known if one.agent)
        runs = (one.conversation for _, one in known if one.conversation)
        hints = ClientHints(
            client=span.program[:_CHARACTERS],
            session=next(runs, ""),
            agent=agent,
            parent=parent,
            name=next(names, ""),
        )
        return SpanAgent(hints, is_settled)

    def run_of(
        self, trace: str, asked: Sequence[ChatMessage], answers: Sequence[ChatMessage]
    ) -> str:
        """Return the run of a call that names none, and remember what it read and said.

        trace: that of its span.
        """
        hashes = [*_hashes(asked)]
        has_begun = any(message.role == "assistant" for message in asked)
        known = (self._runs.get(one) for one in reversed(hashes)) if has_begun else iter(())
        run = next((one for one in known if one is not None), trace)
        if hashes:
            kept = [hashes[-1]]
            kept += [extend_context_hash(hashes[-1], answers[0])] if answers else []
            for one in kept:
                self._runs[one] = run
                self._runs.move_to_end(one)
        while len(self._runs) > self._most_contexts:
            self._runs.popitem(last=False)
        return run

    def _above(self, parent: SpanId | None) -> Iterator[tuple[SpanId, _Known | None]]:
        """Yield what is above a span, nearest first; None at the end: that has not come."""
        for _ in range(_DEEPEST):
            if parent is None:
                return
            one = self._spans.get(parent)
            yield parent, one
            if one is None:
                return
            parent = one.parent


def _hashes(messages: Sequence[ChatMessage]) -> Iterator[str]:
    context = ""
    for message in messages:
        context = extend_context_hash(context, message)
        yield context


def _name_in(title: str) -> str:
    """Return the name in `invoke_agent NAME`, else the title of the span."""
    return _text(title.removeprefix(otel_attributes.INVOKE_AGENT).strip())


def _text(value: Any) -> str:
    return " ".join(value.split())[:_CHARACTERS] if isinstance(value, str) else ""
