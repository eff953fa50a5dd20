"""`Receiver`: spans become calls, told to an ear in the order in which they were made.

One idea: a call waits until all above it has come, for only then it is known whose it is; but not
longer than some seconds, since its program may never send it, or be ended.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Protocol

from harken.capture.otlp.agent_tree import AgentTree
from harken.capture.otlp.span import ReceivedSpan, SpanEvent, SpanId
from harken.capture.otlp.span_calls import Exchange, exchange_of, is_call
from harken.capture.otlp.span_messages import read_span_messages
from harken.core.clock import parse_rfc3339
from harken.recording.exchange import CapturedRequest, CapturedResponse

PATIENCE_S = 10.0
MOST_WAITING = 10_000
"""Calls; when more wait, the oldest are told as they are."""
MOST_KNOWN = 200_000
"""So many calls are known again when they are sent twice; the ear may know more."""
_MOST_LOGGED = 1_000
_MOST_APART, _APART = 20_000, 6
"""What is logged apart from its span is kept for so many, and so many times as long as a call."""


class CallSink(Protocol):
    """Whoever is told of calls: a `Recorder`."""

    def begin(self, call: CapturedRequest) -> object:
        """Take a call."""
        ...

    def end(self, reply: CapturedResponse) -> object:
        """Take how it ended."""
        ...


@dataclass(slots=True)
class ReceiverStats:
    """What has come so far."""

    spans: int = 0
    calls: int = 0
    """Told to the ear."""
    silent: int = 0
    """Of models, without what was said: their program does not capture it."""
    again: int = 0
    """Sent before."""


@dataclass(slots=True)
class Receiver:
    """Takes spans, and tells an ear of the calls in them. For one thread at a time."""

    ear: CallSink
    patience_s: float = PATIENCE_S
    clock: Callable[[], float] = monotonic
    counted: ReceiverStats = field(default_factory=ReceiverStats)
    _family: AgentTree = field(default_factory=AgentTree)
    _waiting: dict[SpanId, tuple[float, ReceivedSpan]] = field(default_factory=dict)
    _logged: OrderedDict[SpanId, tuple[float, list[SpanEvent]]] = field(default_factory=OrderedDict)
    _known: OrderedDict[SpanId, None] = field(default_factory=OrderedDict)

    def take(
        self, spans: Iterable[ReceivedSpan], logged: Iterable[tuple[SpanId, SpanEvent]] = ()
    ) -> None:
        """Take what was sent, and tell what waits no longer."""
        for id_, event in logged:
            _, of_span = self._logged.setdefault(id_, (self.clock(), []))
            if len(of_span) < _MOST_LOGGED:
                of_span.append(event)
        for span in spans:
            self.counted.spans += 1
            self._family.add(span)
            if not is_call(span):
                continue
            if span.id in self._known:
                self.counted.again += 1
                continue
            self._known[span.id] = None
            self._waiting[span.id] = self.clock(), span
        while len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)
        self.tell()

    def is_waiting(self, id: SpanId) -> bool:
        """Whether a call waits to be told, or what was logged of a span for the span."""
        return id in self._waiting or id in self._logged

    def tell(self, *, all_of_them: bool = False) -> None:
        """Tell the ear of what waits no longer; all_of_them: of all that waits."""
        now, due = self.clock(), []
        too_many = len(self._waiting) - MOST_WAITING
        for at, (since_s, span) in enumerate(self._waiting.values()):
            is_late = all_of_them or at < too_many or now - since_s >= self.patience_s
            if is_late or (self._family.standing(span).is_settled and self._is_whole(span)):
                due.append(span)
        exchanges = [one for span in sorted(due, key=_order) if (one := self._exchange(span))]
        _told(self.ear, exchanges)
        self.counted.calls += len(exchanges)
        while self._logged:
            since_s = next(iter(self._logged.values()))[0]
            if len(self._logged) <= _MOST_APART and now - since_s < _APART * self.patience_s:
                break
            self._logged.popitem(last=False)

    def _is_whole(self, span: ReceivedSpan) -> bool:
        """Whether a span says what it is about; what is missing may come apart from it."""
        said = read_span_messages(span.attributes, [*span.events, *self._apart(span)])
        return bool(said.asked) and (bool(said.answers) or span.failed is not None)

    def _exchange(self, span: ReceivedSpan) -> Exchange | None:
        del self._waiting[span.id]
        logged = self._apart(span)
        self._logged.pop(span.id, None)
        hints = self._family.standing(span).hints
        if not hints.session:
            said = read_span_messages(span.attributes, [*span.events, *logged])
            run = self._family.run_of(span.id[0], said.asked, said.answers)
            hints = replace(hints, session=run)
        exchange = exchange_of(span, logged, hints)
        if exchange is None:
            self.counted.silent += 1
            self._known.pop(span.id, None)  # it may come again, with what was said
        return exchange

    def _apart(self, span: ReceivedSpan) -> list[SpanEvent]:
        """Return what was logged of a span apart from it, in order."""
        _, events = self._logged.get(span.id, (0, []))
        return sorted(events, key=lambda event: event.time_ns)


def _order(span: ReceivedSpan) -> tuple[int, int]:
    return span.start_ns, span.end_ns


def _told(ear: CallSink, exchanges: Sequence[Exchange]) -> None:
    """Tell of calls that may overlap: each beginning and end in its place."""
    open_: list[tuple[int, int, CapturedResponse]] = []
    for at, one in enumerate(exchanges):
        begun_us = parse_rfc3339(one.call.time)
        while open_ and open_[0][0] <= begun_us:
            ear.end(heapq.heappop(open_)[2])
        ear.begin(one.call)
        heapq.heappush(open_, (parse_rfc3339(one.reply.time), at, one.reply))
    while open_:
        ear.end(heapq.heappop(open_)[2])
