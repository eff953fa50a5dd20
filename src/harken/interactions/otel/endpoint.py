"""An OTLP endpoint: where requests go, again where it asks for that.

One idea: a request is taken, refused for good, or to be sent again; the last for as long as one's
patience lasts. Nothing of headers is ever said: credentials stand there.

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
from harken.interactions.otel.otlp import JSON, PROTOBUF, ExportResult, taken_in

PATH = "/v1/traces"
_AGAIN = frozenset({429, 502, 503, 504})
_TIMEOUT_S = 30.0
_FIRST_S, _MOST_S = 0.5, 30.0
_MOST_ANSWER_BYTES = 1 << 20
_SHOWN = 300


@dataclass(slots=True, kw_only=True)
class OtlpEndpoint:
    """Takes requests by HTTP; raises ConfigError for an address that is none."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    content_type: str = PROTOBUF
    patience_s: float = 60.0
    """How long a request is sent again."""
    clock: Callable[[], float] = time.monotonic
    """Seconds."""
    sleep: Callable[[float], None] = time.sleep
    retries: int = 0
    """How often something was sent again, so far."""
    _parts: SplitResult = field(init=False)
    _connection: http.client.HTTPConnection | None = None

    def __post_init__(self) -> None:
        self._parts = _checked(self.url, has_headers=bool(self.headers))
        for name, value in self.headers.items():
            text = f"{name}{value}"
            if not name or not text.isprintable() or not text.isascii() or set(name) & set(" :"):
                raise ConfigError("a header is NAME=VALUE, in plain ASCII; one of yours is not")

    @property
    def name(self) -> str:
        """What an error calls it: without what may be secret."""
        host = self._parts.hostname or ""
        port = f":{self._parts.port}" if self._parts.port else ""
        return redact(f"{self._parts.scheme}://{host}{port}{self._path}").text

    def send(self, body: bytes) -> ExportResult:
        """Send a request; return what was said of it. Raises SendError."""
        begun, wait_s = self.clock(), _FIRST_S
        packed = gzip.compress(body, 6, mtime=0)
        while True:
            status, said, after_s = self._ask(packed)
            if status == 200:
                return taken_in(said, self.content_type)
            if status not in (0, *_AGAIN):
                raise SendError(self.name, _refusal(status, said))
            pause_s = after_s if after_s is not None else random.uniform(wait_s / 2, wait_s)  # noqa: S311
            if self.clock() + pause_s - begun > self.patience_s:
                raise SendError(self.name, _refusal(status, said))
            self.sleep(pause_s)
            self.retries += 1
            wait_s = min(wait_s * 2, _MOST_S)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def _path(self) -> str:
        path = self._parts.path.rstrip("/")
        return path if path.endswith(PATH) else path + PATH

    def _ask(self, packed: bytes) -> tuple[int, bytes, float | None]:
        """Return the status of the answer, its beginning, and when to ask again.

        Status 0: there was none.
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
                self._connection = self._connected()
            self._connection.request("POST", self._path + query, packed, headers)
            answer = self._connection.getresponse()
            said = answer.read(_MOST_ANSWER_BYTES)
            if not answer.isclosed():  # there is more than anybody reads
                self.close()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            return 0, (str(error) or type(error).__name__).encode(), None
        return answer.status, said, _seconds(answer.getheader("Retry-After"))

    def _connected(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_S, context=context)
        return http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)


def _checked(url: str, *, has_headers: bool) -> SplitResult:
    wanted = ConfigError(f"{_line(url.encode())}: say http://HOST:PORT or https://HOST")
    try:
        parts = urlsplit(url)
        _ = parts.port  # which raises where it is no number
    except ValueError:
        raise wanted from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise wanted
    if parts.username is not None or parts.password is not None:
        raise ConfigError("the address of an endpoint has no password in it: say --header")
    if parts.scheme == "http" and has_headers and not is_loopback(parts.hostname):
        raise ConfigError(
            f"{parts.hostname}: headers would cross the network in the clear: say https://"
        )
    return parts


def _refusal(status: int, said: bytes) -> str:
    if status == 0:
        return f"cannot be reached: {_line(said)}"
    return f"answers {status} {http.client.responses.get(status, '')}: {_line(said)}".rstrip(": ")


def _line(said: bytes) -> str:
    text = said[: 4 * _SHOWN].decode("utf-8", "replace")
    return redact(" ".join("".join(c if c.isprintable() else " " for c in text).split())).text[
        :_SHOWN
    ]


def _seconds(value: str | None) -> float | None:
    """Return how long to wait, as `Retry-After` says: seconds, or a date."""
    if value is None:
        return None
    try:
        return min(max(float(int(value)), 0.0), 3600.0)
    except ValueError:
        pass
    try:
        at = email.utils.parsedate_to_datetime(value).timestamp()
    except (TypeError, ValueError):
        return None
    return min(max(at - time.time(), 0.0), 3600.0)


__all__ = ["JSON", "PATH", "PROTOBUF", "OtlpEndpoint"]
