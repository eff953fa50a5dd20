"""Send the spans of a session to an OTLP endpoint in batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from harken.core import events as ev
from harken.core import structs
from harken.core.secrets.redaction import Credentials
from harken.errors import SendError
from harken.interactions.otel.attributes import ContextDetail, SpanAttributes
from harken.interactions.otel.endpoint import OtlpEndpoint
from harken.interactions.otel.readable_span import to_readable_spans
from harken.interactions.otel.span import Sender, Span, SpanIds
from harken.interactions.otel.tracer import SessionTracer
from harken.session.fold import Resolver

BATCH_SPANS = 256
BATCH_BYTES = 4 * 1024 * 1024
"""Maximum size of the attributes in a batch before compression. A larger span is sent alone."""


class OtlpExportSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The result of sending a session."""

    spans: int = 0
    batches: int = 0
    rejected: int = 0
    """Number of spans that the endpoint rejected although it accepted their batch."""
    message: str = ""
    """The endpoint's explanation for rejected spans."""
    retries: int = 0
    credentials: dict[str, int] = msgspec.field(default_factory=dict)
    """Kind -> number of distinct credentials that were redacted."""


class OtlpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options for sending a session."""

    sender: Sender
    much: ContextDetail = "full"
    resolver: Resolver | None = None
    """Returns the messages of the commits that agents started from."""
    is_live: bool = False
    """Whether the session continues. Unfinished turns are then sent next time."""
    as_is: bool = False
    """Whether to send credentials of well-known formats unredacted."""


def send(
    events: Iterable[ev.Event], session: str, endpoint: OtlpEndpoint, options: OtlpOptions
) -> OtlpExportSummary:
    """Send the spans of a session. Sending it again produces the same span ids.

    Raises SendError if a batch fails; earlier batches have been sent then. Raises ValueError if the
    events are not those of a session.
    """
    credentials = Credentials()
    spans = iter_spans(events, session, options, credentials)
    summary, requests = OtlpExportSummary(), endpoint.requests
    for batch in _batches(spans):
        try:
            result = endpoint.send(to_readable_spans(batch, options.sender))
        except SendError as error:
            raise SendError(error.endpoint, error.reason, sent=summary.spans) from None
        summary = structs.replace(
            summary,
            spans=summary.spans + len(batch),
            batches=summary.batches + 1,
            rejected=summary.rejected + result.rejected,
            message=result.message or summary.message,
        )
    retries = endpoint.requests - requests - summary.batches
    return structs.replace(summary, retries=retries, credentials=credentials.kinds)


def iter_spans(
    events: Iterable[ev.Event], session: str, how: OtlpOptions, redacted: Credentials
) -> Iterator[Span]:
    """Yield the spans of a session, and add credentials to `redacted`."""
    events = iter(events)
    first = next(events, None)
    if first is None:
        return
    redact = (lambda text: text) if how.as_is else redacted.replace
    tracer = SessionTracer(
        SpanIds(session, first.time), SpanAttributes(redact, how.much), how.resolver
    )
    yield from tracer.spans(_chain(first, events), is_live=how.is_live)


def _chain(first: ev.Event, remaining: Iterable[ev.Event]) -> Iterator[ev.Event]:
    yield first
    yield from remaining


def _batches(spans: Iterable[Span]) -> Iterator[list[Span]]:
    batch: list[Span] = []
    size = 0
    for span in spans:
        span_bytes = sum(len(value) for value in span.attributes.values() if isinstance(value, str))
        if batch and (len(batch) >= BATCH_SPANS or size + span_bytes > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(span)
        size += span_bytes
    if batch:
        yield batch
