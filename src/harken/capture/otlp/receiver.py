"""`Receiver`: turn spans into calls, and pass them to a sink in the order of their start.

A call waits until all ancestors of its span have arrived, because only then its agent is known. It
waits for a limited time, since its program may never send them.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from time import monotonic
from typing import Protocol

import msgspec

from harken.capture.otlp.agent_tree import AgentTree
from harken.capture.otlp.span import ReceivedSpan, SpanEvent, SpanId
from harken.capture.otlp.span_calls import Exchange, format_call_id, is_call, parse_exchange
from harken.capture.otlp.span_messages import read_span_messages
from harken.core.clock import parse_rfc3339
from harken.errors import LogWriteError
from harken.recording.exchange import CapturedRequest, CapturedResponse

MAX_WAIT_S = 10.0
MAX_WAITING_CALLS = 10_000
"""The maximum number of waiting calls. Above it, the oldest are passed on as they are."""
MAX_SEEN_CALLS = 200_000
"""The number of calls that are remembered to detect repeated spans. The sink may remember more."""
_MAX_EVENTS_PER_SPAN = 1_000
_MAX_ORPHAN_SPANS, _ORPHAN_LIFETIME_FACTOR = 20_000, 6
"""The maximum number of spans with early log records.

The second constant is their lifetime, as a multiple of the maximum wait of a call.
"""


class CallSink(Protocol):
    """A consumer of calls, such as a `Recorder`."""

    @property
    def failure(self) -> Exception | None:
        """Why the last request or response was not recorded. It is None after a success."""
        ...

    def is_holding(self, call_id: str, /) -> bool:
        """Whether a call is only in memory, because the answer that it continues is not logged."""
        ...

    def begin(self, call: CapturedRequest) -> object:
        """Process a request."""
        ...

    def end(self, reply: CapturedResponse) -> object:
        """Process a response."""
        ...


class ReceiverStats(msgspec.Struct):
    """Counters of a receiver."""

    spans: int = 0
    calls: int = 0
    """Calls that were passed to the sink."""
    without_messages: int = 0
    """Model calls without messages, because their program does not capture content."""
    repeated: int = 0
    """Calls that were sent before."""


class Receiver(msgspec.Struct):
    """Collect spans, and pass their calls to a sink. Not thread-safe."""

    sink: CallSink
    max_wait_s: float = MAX_WAIT_S
    clock: Callable[[], float] = monotonic
    stats: ReceiverStats = msgspec.field(default_factory=ReceiverStats)
    _agent_tree: AgentTree = msgspec.field(default_factory=AgentTree)
    _waiting: dict[SpanId, tuple[float, ReceivedSpan]] = msgspec.field(default_factory=dict)
    _logged: OrderedDict[SpanId, tuple[float, list[SpanEvent]]] = msgspec.field(
        default_factory=OrderedDict
    )
    _seen_ids: OrderedDict[SpanId, None] = msgspec.field(default_factory=OrderedDict)
    _refused_calls: set[str] = msgspec.field(default_factory=set)
    """Calls that the sink could not write. The next process passes them on again."""

    def add(
        self, spans: Iterable[ReceivedSpan], logged: Iterable[tuple[SpanId, SpanEvent]] = ()
    ) -> None:
        """Add spans and log records, and pass on the calls that are due."""
        for id_, event in logged:
            _, events = self._logged.setdefault(id_, (self.clock(), []))
            if len(events) < _MAX_EVENTS_PER_SPAN:
                events.append(event)
        for span in spans:
            self.stats.spans += 1
            self._agent_tree.add(span)
            if not is_call(span):
                continue
            if span.id in self._seen_ids:
                self.stats.repeated += 1
                continue
            self._seen_ids[span.id] = None
            self._waiting[span.id] = self.clock(), span
        while len(self._seen_ids) > MAX_SEEN_CALLS:
            self._seen_ids.popitem(last=False)
        self.emit_due()

    def is_waiting(self, id: SpanId) -> bool:
        """Whether a call, or a log record of a span, is in no log of the sink yet."""
        call_id = format_call_id(id)
        return (
            id in self._waiting
            or id in self._logged
            or call_id in self._refused_calls
            or self.sink.is_holding(call_id)
        )

    def emit_due(self, *, all_of_them: bool = False) -> None:
        """Pass the calls that are due to the sink. With `all_of_them`, all waiting calls."""
        now, due = self.clock(), []
        too_many = len(self._waiting) - MAX_WAITING_CALLS
        for index, (since_s, span) in enumerate(self._waiting.values()):
            is_late = all_of_them or index < too_many or now - since_s >= self.max_wait_s
            if is_late or (self._agent_tree.locate(span).is_settled and self._is_complete(span)):
                due.append(span)
        exchanges = [
            exchange
            for span in sorted(due, key=_time_key)
            if (exchange := self._create_exchange(span))
        ]
        self._emit_in_order(exchanges)
        self.stats.calls += len(exchanges)
        while self._logged:
            since_s = next(iter(self._logged.values()))[0]
            if (
                len(self._logged) <= _MAX_ORPHAN_SPANS
                and now - since_s < _ORPHAN_LIFETIME_FACTOR * self.max_wait_s
            ):
                break
            self._logged.popitem(last=False)

    def _emit_in_order(self, exchanges: Sequence[Exchange]) -> None:
        """Pass overlapping calls to the sink: each begin and end in the order of time."""
        open_calls: list[tuple[int, int, CapturedResponse]] = []
        for index, exchange in enumerate(exchanges):
            begun_us = parse_rfc3339(exchange.call.time)
            while open_calls and open_calls[0][0] <= begun_us:
                self._end(heapq.heappop(open_calls)[2])
            self.sink.begin(exchange.call)
            self._note_failure(exchange.call.id)
            reply = exchange.reply
            heapq.heappush(open_calls, (parse_rfc3339(reply.time), index, reply))
        while open_calls:
            self._end(heapq.heappop(open_calls)[2])

    def _end(self, reply: CapturedResponse) -> None:
        self.sink.end(reply)
        self._note_failure(reply.id)

    def _note_failure(self, call_id: str) -> None:
        if isinstance(self.sink.failure, LogWriteError | OSError):
            self._refused_calls.add(call_id)

    def _is_complete(self, span: ReceivedSpan) -> bool:
        """Whether the messages of a span have arrived, also in separate log records."""
        messages = read_span_messages(span.attributes, [*span.events, *self._orphan_events(span)])
        return bool(messages.input_messages) and (bool(messages.answers) or span.failed is not None)

    def _create_exchange(self, span: ReceivedSpan) -> Exchange | None:
        del self._waiting[span.id]
        logged = self._orphan_events(span)
        self._logged.pop(span.id, None)
        hints = self._agent_tree.locate(span).hints
        if not hints.session:
            messages = read_span_messages(span.attributes, [*span.events, *logged])
            run = self._agent_tree.assign_run(span.id[0], messages.input_messages, messages.answers)
            hints = replace(hints, session=run)
        exchange = parse_exchange(span, logged, hints)
        if exchange is None:
            self.stats.without_messages += 1
            self._seen_ids.pop(span.id, None)  # The span may be sent again, with messages.
        return exchange

    def _orphan_events(self, span: ReceivedSpan) -> list[SpanEvent]:
        """Return the separately sent log records of a span, in order."""
        _, events = self._logged.get(span.id, (0, []))
        return sorted(events, key=lambda event: event.time_ns)


def _time_key(span: ReceivedSpan) -> tuple[int, int]:
    return span.start_ns, span.end_ns
