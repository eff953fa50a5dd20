"""An OTLP/HTTP endpoint: the exporter of OpenTelemetry, with its failures as errors.

The library encodes, compresses and sends a batch, and sends it again while the endpoint is busy or
cannot be reached; if connections are refused, only for a few seconds. It
reads the variables `OTEL_EXPORTER_OTLP_*` for certificates and the timeout. Its `export` returns
only whether it succeeded, and counts a redirection as success. So an HTTP adapter keeps the last
response, which decides. The adapter also removes headers that the caller did not pass: the library
adds those of the environment for any URL. The library's log messages contain URLs and headers,
which may be credentials; those of this thread are dropped, and errors contain neither.

Source: OTLP specification 1.x, "OTLP/HTTP Response" and "OTLP/HTTP Throttling".
"""

from __future__ import annotations

import http.client
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace import ReadableSpan
from requests import PreparedRequest, RequestException, Response, Session
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError

from harken.core.loopback import is_loopback
from harken.core.secrets.redaction import redact
from harken.errors import ConfigError, SendError

PATH = "/v1/traces"
_TIMEOUT_S = 60.0
_REFUSED_S = 2.0
"""A batch is not sent again if connections are refused after this time: nothing listens there."""
_MAX_ERROR_CHARS = 300
_STANDARD_HEADERS = frozenset(
    {
        "accept",
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "user-agent",
    }
)
"""Headers that the libraries set."""
_LOGGERS = (
    "opentelemetry.exporter.otlp.proto.common._internal",
    "opentelemetry.exporter.otlp.proto.http._common",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.util.re",
    "urllib3.connectionpool",
)


class ExportResult(msgspec.Struct, frozen=True):
    """The response to an OTLP request."""

    rejected: int = 0
    message: str = ""


@dataclass(slots=True, kw_only=True)
class OtlpEndpoint:
    """Sends spans over HTTP. Raises ConfigError for an invalid URL or header."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float | None = _TIMEOUT_S
    """Maximum time for one batch with its retries.

    None means `OTEL_EXPORTER_OTLP_TIMEOUT`, or 10 seconds without it."""
    on_retry: Callable[[str], None] | None = None
    """Gets the reason when a batch is sent again; the same reason only once for a batch."""
    _parts: SplitResult = field(init=False, repr=False)
    _adapter: _OtlpAdapter = field(init=False, repr=False)
    _exporter: OTLPSpanExporter = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._parts = _parse_url(self.url, has_headers=bool(self.headers))
        for name, value in self.headers.items():
            text = f"{name}{value}"
            if not name or not text.isprintable() or not text.isascii() or set(name) & set(" :"):
                raise ConfigError("invalid header: write NAME=VALUE, in printable ASCII")
        self._adapter = _OtlpAdapter(
            _STANDARD_HEADERS.union(map(str.lower, self.headers)), self.on_retry
        )
        with _without_library_logs():
            self._exporter = OTLPSpanExporter(
                self._parts.geturl(),
                headers=self.headers,
                timeout=self.timeout_s,
                compression=Compression.Gzip,
                session=open_http_session(self._parts.hostname or "", self._adapter),
                max_request_size=0,  # The endpoint decides how much it accepts.
            )

    @property
    def name(self) -> str:
        """The URL for error messages, without its query and with secrets redacted."""
        return redact(self._parts._replace(query="").geturl()).text

    @property
    def requests(self) -> int:
        """Number of HTTP requests so far, retries included."""
        return self._adapter.requests

    def send(self, spans: Sequence[ReadableSpan]) -> ExportResult:
        """Send a batch, with retries. Return the response of the endpoint. Raises SendError."""
        with _without_library_logs():
            self._exporter.export(spans)
        outcome = self._adapter.pop_outcome()
        if isinstance(outcome, Response) and 200 <= outcome.status_code < 300:
            return decode_response(outcome.content)
        raise SendError(self.name, _format_failure(outcome))

    def close(self) -> None:
        """Close the connections."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]


class _OtlpAdapter(HTTPAdapter):
    """Sends allowed headers only. Keeps the last response, or the error if there was none."""

    def __init__(
        self, header_names: frozenset[str], on_retry: Callable[[str], None] | None
    ) -> None:
        super().__init__()
        self.requests = 0
        self._header_names = header_names
        self._on_retry = on_retry
        self._outcome: Response | Exception | None = None
        self._started_s = 0.0
        self._reported = ""

    def send(self, request: PreparedRequest, *args: Any, **kwargs: Any) -> Response:
        self.requests += 1
        if self._outcome is None:
            self._started_s, self._reported = time.monotonic(), ""
        else:
            self._report_retry(_format_failure(self._outcome))
        for name in [name for name in request.headers if name.lower() not in self._header_names]:
            del request.headers[name]
        try:
            response = super().send(request, *args, **kwargs)
        except Exception as error:
            self._outcome = error
            elapsed_s = time.monotonic() - self._started_s
            if elapsed_s >= _REFUSED_S and isinstance(_find_cause(error), ConnectionRefusedError):
                # The library retries a `ConnectionError`, and no other exception.
                raise RequestException("the connection is refused") from error
            raise
        self._outcome = response
        return response

    def _report_retry(self, reason: str) -> None:
        if self._on_retry is not None and reason != self._reported:
            self._reported = reason
            self._on_retry(reason)

    def pop_outcome(self) -> Response | Exception | None:
        """Return the last response or error, and forget it. Return None if nothing was sent."""
        outcome, self._outcome = self._outcome, None
        return outcome


def open_http_session(host: str, adapter: HTTPAdapter) -> Session:
    """Open a session of HTTP that sends no credentials of its own accord.

    Proxies and certificates of the environment apply to other machines than this one.
    """
    session = Session()
    session.mount("http://", adapter)
    session.mount("https://", adapter)
    session.trust_env = not is_loopback(host)
    session.auth = _keep_request  # Without it, a password in ~/.netrc replaces the header.
    return session


def decode_response(body: bytes) -> ExportResult:
    """Decode a response. An empty or unreadable one means that all spans were accepted."""
    try:
        partial = ExportTraceServiceResponse.FromString(body).partial_success
    except Exception:  # noqa: BLE001 - protobuf raises various types; the request was accepted
        return ExportResult()
    message = " ".join(partial.error_message.split())[:_MAX_ERROR_CHARS]
    return ExportResult(max(partial.rejected_spans, 0), message)


def _keep_request(request: PreparedRequest) -> PreparedRequest:
    return request


@contextmanager
def _without_library_logs() -> Iterator[None]:
    """Drop the log messages of the libraries in this thread. Other threads keep theirs."""
    thread = get_ident()

    def is_of_other_thread(record: logging.LogRecord) -> bool:
        return get_ident() != thread

    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addFilter(is_of_other_thread)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_of_other_thread)


def _parse_url(url: str, *, has_headers: bool) -> SplitResult:
    """Parse a URL, and add the path of spans if it is missing."""
    invalid_url = ConfigError(f"{_format_line(url)}: write http://HOST:PORT or https://HOST")
    try:
        parts = urlsplit(url)
        _ = parts.port  # Raises ValueError if the port is not a number.
    except ValueError:
        raise invalid_url from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise invalid_url
    if parts.username is not None or parts.password is not None:
        raise ConfigError("do not put a password in the URL of an endpoint; pass --header")
    if parts.scheme == "http" and has_headers and not is_loopback(parts.hostname):
        raise ConfigError(
            f"{parts.hostname}: headers would cross the network unencrypted; use https://"
        )
    path = parts.path.rstrip("/")
    return parts._replace(path=path if path.endswith(PATH) else path + PATH, fragment="")


def _format_failure(outcome: Response | Exception | None) -> str:
    if outcome is None:
        return "the spans or headers cannot be encoded"
    if isinstance(outcome, Response):
        reason = http.client.responses.get(outcome.status_code, "")
        body = outcome.content[: 4 * _MAX_ERROR_CHARS].decode("utf-8", "replace")
        return f"answers {outcome.status_code} {reason}: {_format_line(body)}".rstrip(": ")
    # The outer errors contain the URL with its query; the error of the socket says the cause.
    error = _find_cause(outcome)
    return f"cannot be reached: {_format_line(str(error) or type(error).__name__)}"


def _find_cause(error: BaseException) -> BaseException:
    """Return the first cause that is not an error of the HTTP libraries, or else the last one."""
    while isinstance(error, RequestException | HTTPError):
        cause = error.__cause__ or error.__context__
        if cause is None:
            break
        error = cause
    return error


def _format_line(text: str) -> str:
    printable = "".join(character if character.isprintable() else " " for character in text)
    return redact(" ".join(printable.split())).text[:_MAX_ERROR_CHARS]
