"""Sending a session to an endpoint: its spans in batches, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from harken.core import events as ev
from harken.core.secrets.redaction import Credentials
from harken.errors import SendError
from harken.interactions.otel.attributes import Much, SpanAttributes
from harken.interactions.otel.endpoint import OtlpEndpoint
from harken.interactions.otel.otlp import Sender, load, request_of
from harken.interactions.otel.span import Span, SpanIds
from harken.interactions.otel.tracer import SessionTracer
from harken.session.fold import Resolver

BATCH_SPANS = 256
BATCH_BYTES = 4 * 1024 * 1024
"""Of what spans say, before it is compressed; a larger span goes alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtlpExportSummary:
    """What came of a session."""

    spans: int = 0
    batches: int = 0
    rejected: int = 0
    """How many spans the endpoint did not want, though it took their batch."""
    message: str = ""
    """Why, in its words."""
    retries: int = 0
    credentials: dict[str, int] = field(default_factory=dict)
    """Kind -> how many different ones were redacted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtlpOptions:
    """How a session is told."""

    sender: Sender
    much: Much = "full"
    resolver: Resolver | None = None
    """Gives the messages of commits that agents started from."""
    is_live: bool = False
    """Whether it goes on: what has not ended is left for the next time."""
    as_is: bool = False
    """Whether credentials of well-known shapes stay in it."""


def send(
    events: Iterable[ev.Event], session: str, endpoint: OtlpEndpoint, how: OtlpOptions
) -> OtlpExportSummary:
    """Send the spans of a session. Sent again, they have the same ids.

    Raises SendError; what was sent before is there then. ConfigError where the extra is missing;
    ValueError where the events are those of no session.
    """
    load()
    found = Credentials()
    spans = spans_of(events, session, how, found)
    sent, retries = OtlpExportSummary(), endpoint.retries
    for batch in _batches(spans):
        try:
            taken = endpoint.send(request_of(batch, how.sender, endpoint.content_type))
        except SendError as error:
            raise SendError(error.endpoint, error.reason, sent=sent.spans) from None
        sent = replace(
            sent,
            spans=sent.spans + len(batch),
            batches=sent.batches + 1,
            rejected=sent.rejected + taken.rejected,
            message=taken.message or sent.message,
        )
    return replace(sent, retries=endpoint.retries - retries, credentials=found.kinds)


def spans_of(
    events: Iterable[ev.Event], session: str, how: OtlpOptions, found: Credentials
) -> Iterator[Span]:
    """Yield the spans of a session; what is redacted is noted in `found`."""
    events = iter(events)
    first = next(events, None)
    if first is None:
        return
    redact = (lambda text: text) if how.as_is else found.replace
    story = SessionTracer(
        SpanIds(session, first.time), SpanAttributes(redact, how.much), how.resolver
    )
    yield from story.spans(_chain(first, events), is_live=how.is_live)


def _chain(first: ev.Event, rest: Iterable[ev.Event]) -> Iterator[ev.Event]:
    yield first
    yield from rest


def _batches(spans: Iterable[Span]) -> Iterator[list[Span]]:
    batch: list[Span] = []
    size = 0
    for span in spans:
        own = sum(len(value) for value in span.attributes.values() if isinstance(value, str))
        if batch and (len(batch) >= BATCH_SPANS or size + own > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(span)
        size += own
    if batch:
        yield batch
