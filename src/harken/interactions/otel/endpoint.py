"""An OTLP/HTTP endpoint, with retries.

A request is accepted, rejected permanently, or retried until a timeout. Errors never contain
headers, because these contain credentials.

Source: OTLP specification 1.x, "OTLP/HTTP Response" and "OTLP/HTTP Throttling".
"""

from __future__ import annotations

import email.utils
import gzip
import http.client
import random
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from harken.core.loopback import is_loopback
from harken.core.secrets.redaction import redact
from harken.errors import ConfigError, SendError
from harken.interactions.otel.otlp import JSON, PROTOBUF, ExportResult, decode_response

PATH = "/v1/traces"
_RETRY_STATUSES = frozenset({429, 502, 503, 504})
_TIMEOUT_S = 30.0
_MIN_BACKOFF_S, _MAX_BACKOFF_S = 0.5, 30.0
_MAX_RESPONSE_BYTES = 1 << 20
_MAX_ERROR_CHARS = 300


@dataclass(slots=True, kw_only=True)
class OtlpEndpoint:
    """Sends OTLP requests over HTTP. Raises ConfigError for an invalid URL."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    content_type: str = PROTOBUF
    retry_timeout_s: float = 60.0
    """Maximum time for retries of one request, in seconds."""
    clock: Callable[[], float] = time.monotonic
    """Returns a monotonic time in seconds."""
    sleep: Callable[[float], None] = time.sleep
    retries: int = 0
    """Number of retries so far."""
    _parts: SplitResult = field(init=False)
    _connection: http.client.HTTPConnection | None = None

    def __post_init__(self) -> None:
        self._parts = _parse_url(self.url, has_headers=bool(self.headers))
        for name, value in self.headers.items():
            text = f"{name}{value}"
            if not name or not text.isprintable() or not text.isascii() or set(name) & set(" :"):
                raise ConfigError("a header is NAME=VALUE, in plain ASCII; one of yours is not")

    @property
    def name(self) -> str:
        """The URL for error messages, with secrets redacted."""
        host = self._parts.hostname or ""
        port = f":{self._parts.port}" if self._parts.port else ""
        return redact(f"{self._parts.scheme}://{host}{port}{self._path}").text

    def send(self, body: bytes) -> ExportResult:
        """Send a request, with retries. Return the response of the endpoint. Raises SendError."""
        start_s, wait_s = self.clock(), _MIN_BACKOFF_S
        compressed = gzip.compress(body, 6, mtime=0)
        while True:
            status, response_body, retry_s = self._post(compressed)
            if status == 200:
                return decode_response(response_body, self.content_type)
            if status not in (0, *_RETRY_STATUSES):
                raise SendError(self.name, _format_refusal(status, response_body))
            pause_s = retry_s if retry_s is not None else random.uniform(wait_s / 2, wait_s)  # noqa: S311
            if self.clock() + pause_s - start_s > self.retry_timeout_s:
                raise SendError(self.name, _format_refusal(status, response_body))
            self.sleep(pause_s)
            self.retries += 1
            wait_s = min(wait_s * 2, _MAX_BACKOFF_S)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def _path(self) -> str:
        path = self._parts.path.rstrip("/")
        return path if path.endswith(PATH) else path + PATH

    def _post(self, compressed: bytes) -> tuple[int, bytes, float | None]:
        """Send a request once.

        Return its status, the start of the response body, and the retry delay.

        The status is 0 if there was no response.
        """
        query = f"?{self._parts.query}" if self._parts.query else ""
        headers = {
            "User-Agent": "harken",
            "Accept": self.content_type,
            **self.headers,
            "Content-Type": self.content_type,
            "Content-Encoding": "gzip",
        }
        try:
            if self._connection is None:
                self._connection = self._connect()
            self._connection.request("POST", self._path + query, compressed, headers)
            response = self._connection.getresponse()
            response_body = response.read(_MAX_RESPONSE_BYTES)
            if not response.isclosed():  # The response is longer than the limit.
                self.close()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            return 0, (str(error) or type(error).__name__).encode(), None
        return response.status, response_body, _parse_retry_after(response.getheader("Retry-After"))

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_S, context=context)
        return http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)


def _parse_url(url: str, *, has_headers: bool) -> SplitResult:
    invalid_url = ConfigError(f"{_format_line(url.encode())}: say http://HOST:PORT or https://HOST")
    try:
        parts = urlsplit(url)
        _ = parts.port  # Raises ValueError if the port is not a number.
    except ValueError:
        raise invalid_url from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise invalid_url
    if parts.username is not None or parts.password is not None:
        raise ConfigError("the address of an endpoint has no password in it: say --header")
    if parts.scheme == "http" and has_headers and not is_loopback(parts.hostname):
        raise ConfigError(
            f"{parts.hostname}: headers would cross the network in the clear: say https://"
        )
    return parts


def _format_refusal(status: int, body: bytes) -> str:
    if status == 0:
        return f"cannot be reached: {_format_line(body)}"
    reason = http.client.responses.get(status, "")
    return f"answers {status} {reason}: {_format_line(body)}".rstrip(": ")


def _format_line(raw: bytes) -> str:
    text = raw[: 4 * _MAX_ERROR_CHARS].decode("utf-8", "replace")
    return redact(
        " ".join(
            "".join(character if character.isprintable() else " " for character in text).split()
        )
    ).text[:_MAX_ERROR_CHARS]


def _parse_retry_after(value: str | None) -> float | None:
    """Parse `Retry-After`: seconds, or a date. Return the delay in seconds."""
    if value is None:
        return None
    try:
        return min(max(float(int(value)), 0.0), 3600.0)
    except ValueError:
        pass
    try:
        retry_time = email.utils.parsedate_to_datetime(value).timestamp()
    except (TypeError, ValueError):
        return None
    return min(max(retry_time - time.time(), 0.0), 3600.0)


__all__ = ["JSON", "PATH", "PROTOBUF", "OtlpEndpoint"]
