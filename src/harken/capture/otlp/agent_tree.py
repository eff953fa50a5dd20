"""`AgentTree`: determine the run and the agent of a model call from the spans around it.

A span names its parent, and the parent arrives later, because inner spans end first. So spans are
remembered for a while, and a lookup also tells whether all ancestors have arrived.

An agent of a run is an agent invocation below another one. The outermost agent is recognized by its
context, since each of its turns is a separate invocation. A run is a conversation id. Without an id
it is the trace, or the trace in which the conversation that a call continues has started.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from harken.capture.otlp.span import ReceivedSpan, SpanId
from harken.core.messages import ChatMessage, extend_context_hash
from harken.formats.providers import otel_attributes
from harken.recording.exchange import ClientHints

MAX_SPANS = 100_000
MAX_CONTEXTS = 50_000
_MAX_DEPTH = 200
_MAX_NAME_CHARS = 120


class _SpanInfo(msgspec.Struct, frozen=True):
    """The remembered fields of a span."""

    parent: SpanId | None
    is_agent: bool
    agent: str
    """The display name of the agent."""
    conversation: str


class SpanAgent(msgspec.Struct, frozen=True):
    """The agent and the run of a span."""

    hints: ClientHints
    is_settled: bool
    """Whether all ancestors of the span have arrived."""


class AgentTree:
    """The recent spans, and the contexts of recent calls."""

    def __init__(self, most_spans: int = MAX_SPANS, most_contexts: int = MAX_CONTEXTS) -> None:
        self._spans: OrderedDict[SpanId, _SpanInfo] = OrderedDict()
        self._most_spans, self._most_contexts = most_spans, most_contexts
        self._runs: OrderedDict[str, str] = OrderedDict()
        """The hash of a context -> the run that it belongs to."""

    def add(self, span: ReceivedSpan) -> None:
        """Remember a span."""
        name = _clean_text(
            otel_attributes.get_attribute(span.attributes, otel_attributes.AGENT_NAME)
        )
        is_agent = otel_attributes.find_operation(span.attributes) == otel_attributes.INVOKE_AGENT
        self._spans[span.id] = _SpanInfo(
            span.parent,
            is_agent,
            name or (_parse_agent_name(span.name) if is_agent else ""),
            _clean_text(
                otel_attributes.get_attribute(span.attributes, otel_attributes.CONVERSATION)
            ),
        )
        while len(self._spans) > self._most_spans:
            self._spans.popitem(last=False)

    def locate(self, span: ReceivedSpan) -> SpanAgent:
        """Return the agent and the run of a span, as far as they are known."""
        own_span = self._spans.get(span.id)
        ancestors = (
            [(span.id, own_span), *self._iter_ancestors(span.parent)]
            if own_span
            else [*self._iter_ancestors(span.parent)]
        )
        arrived = [(id_, span_info) for id_, span_info in ancestors if span_info is not None]
        agents = [(id_, span_info) for id_, span_info in arrived if span_info.is_agent]
        is_settled = all(span_info is not None for _, span_info in ancestors)
        agent = parent = ""
        if (
            is_settled and len(agents) > 1
        ):  # Otherwise it may be the outermost agent, which is recognized by its context.
            agent = agents[0][0][1]
            parent = agents[1][0][1] if len(agents) > 2 else ""
        names = (span_info.agent for _, span_info in arrived if span_info.agent)
        runs = (span_info.conversation for _, span_info in arrived if span_info.conversation)
        hints = ClientHints(
            client=span.program[:_MAX_NAME_CHARS],
            session=next(runs, ""),
            agent=agent,
            parent=parent,
            name=next(names, ""),
        )
        return SpanAgent(hints, is_settled)

    def assign_run(
        self, trace: str, messages: Sequence[ChatMessage], answers: Sequence[ChatMessage]
    ) -> str:
        """Return the run of a call without a conversation id, and remember its context.

        trace: the trace of its span.
        """
        hashes = [*_iter_context_hashes(messages)]
        has_begun = any(message.role == "assistant" for message in messages)
        runs = (
            (self._runs.get(context_hash) for context_hash in reversed(hashes))
            if has_begun
            else iter(())
        )
        run = next((context_hash for context_hash in runs if context_hash is not None), trace)
        if hashes:
            new_hashes = [hashes[-1]]
            new_hashes += [extend_context_hash(hashes[-1], answers[0])] if answers else []
            for context_hash in new_hashes:
                self._runs[context_hash] = run
                self._runs.move_to_end(context_hash)
        while len(self._runs) > self._most_contexts:
            self._runs.popitem(last=False)
        return run

    def _iter_ancestors(self, parent: SpanId | None) -> Iterator[tuple[SpanId, _SpanInfo | None]]:
        """Yield the ancestors of a span, nearest first.

        The last one is None if it has not arrived.
        """
        for _ in range(_MAX_DEPTH):
            if parent is None:
                return
            span_info = self._spans.get(parent)
            yield parent, span_info
            if span_info is None:
                return
            parent = span_info.parent


def _iter_context_hashes(messages: Sequence[ChatMessage]) -> Iterator[str]:
    context = ""
    for message in messages:
        context = extend_context_hash(context, message)
        yield context


def _parse_agent_name(title: str) -> str:
    """Return the name in `invoke_agent NAME`, else the title of the span."""
    return _clean_text(title.removeprefix(otel_attributes.INVOKE_AGENT).strip())


def _clean_text(value: Any) -> str:
    return " ".join(value.split())[:_MAX_NAME_CHARS] if isinstance(value, str) else ""
