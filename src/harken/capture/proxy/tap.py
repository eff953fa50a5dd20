"""`ProxyTap`: copy model calls to the spool while the proxy passes them on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import count

import msgspec

from harken.capture.proxy.frames import AnswerHead, CallEnd, CallHead
from harken.capture.proxy.spool import CallWriter, ProxySpool
from harken.capture.proxy.upstreams import Target
from harken.core.clock import Clock, format_rfc3339
from harken.core.secrets.redaction import redact

_RECORDED_PREFIXES = (
    "x-claude-code-",
    "x-codex-",
    "x-openai-subagent",
    "x-opencode-",
    "x-session-",
)
_RECORDED_NAMES = frozenset({
    "user-agent", "originator", "session-id", "session_id", "thread-id", "thread_id",
    "conversation-id", "conversation_id", "x-client-request-id", "x-app", "content-encoding",
    "x-goog-api-client", "x-parent-session-id",
})  # fmt: skip
_SECRET_WORDS = ("token", "key", "secret", "auth", "cookie")
_MAX_HEADER_CHARS = 1 << 14


class ProxyTap(msgspec.Struct):
    """Start the recording of model calls. Other requests are not recorded."""

    spool: ProxySpool
    protocol_of: Callable[[str], str]
    """A path without its query -> the protocol of the call. Empty if it is not a model call."""
    run: str
    """The prefix of call ids, unique among all proxies."""
    clock: Clock
    _numbers: count[int] = msgspec.field(default_factory=lambda: count(1))

    def begin(self, method: str, target: Target, headers: Mapping[str, str]) -> TappedCall:
        """Start to record a request, if it is a model call."""
        tapped = TappedCall(self.clock)
        path = target.path
        protocol = self.protocol_of(path.partition("?")[0]) if method == "POST" else ""
        if protocol:
            head = CallHead(
                id=f"{self.run}-{next(self._numbers)}",
                protocol=protocol,
                path=path,
                time=format_rfc3339(self.clock()),
                headers=select_recorded_headers(headers),
            )
            tapped.writer = self.spool.begin(head)
        return tapped


class TappedCall(msgspec.Struct):
    """The recording of one request. It records nothing if the request is not a model call."""

    _clock: Clock
    writer: CallWriter | None = None
    broken: str = ""
    """Why the call is incomplete."""
    _started_s: float = msgspec.field(default_factory=time.monotonic)
    _first_byte_s: float | None = None

    def body(self, data: bytes) -> None:
        """Record bytes of the request."""
        if self.writer is not None:
            self.writer.body(data)

    def end_request(self) -> None:
        """Record that the request is complete."""
        if self.writer is not None:
            self.writer.end_request()

    def begin_response(self, status: int, headers: Mapping[str, str]) -> None:
        """Record the start of the response."""
        if self.writer is not None:
            head = AnswerHead(
                status=status,
                content_type=headers.get("Content-Type", ""),
                content_encoding=headers.get("Content-Encoding", ""),
            )
            self.writer.answer(head)

    def data(self, data: bytes) -> None:
        """Record bytes of the response."""
        if self.writer is not None:
            if self._first_byte_s is None:
                self._first_byte_s = time.monotonic() - self._started_s
            self.writer.data(data)

    def end(self) -> None:
        """Record the end of the call."""
        if self.writer is not None:
            end = CallEnd(
                time=format_rfc3339(self._clock()),
                latency_s=round(time.monotonic() - self._started_s, 6),
                first_byte_s=self._first_byte_s and round(self._first_byte_s, 6),
                broken=self.broken,
            )
            self.writer.end(end)


def select_recorded_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that identify the client, and the encoding of the body.

    All others may be credentials, and are dropped.

    >>> select_recorded_headers(
    ...     {"User-Agent": "x/1", "X-Api-Key": "s", "X-Codex-Token": "s", "X-App": "cli"}
    ... )
    {'user-agent': 'x/1', 'x-app': 'cli'}
    """
    return {
        name: redact(value).text
        for name, value in ((name.lower(), value) for name, value in headers.items())
        if (name in _RECORDED_NAMES or name.startswith(_RECORDED_PREFIXES))
        and not any(word in name for word in _SECRET_WORDS)
        and len(value) <= _MAX_HEADER_CHARS
    }
