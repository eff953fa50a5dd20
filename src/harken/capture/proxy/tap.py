"""Notes: what the proxy writes down of a request while it passes it on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count

from harken.capture.proxy.frames import AnswerHead, CallEnd, CallHead
from harken.capture.proxy.spool import CallWriter, ProxySpool
from harken.capture.proxy.upstreams import Target
from harken.core.clock import Clock, format_rfc3339
from harken.core.secrets.redaction import redact

_TELLING = ("x-claude-code-", "x-codex-", "x-openai-subagent", "x-opencode-", "x-session-")
_TELLING_NAMES = frozenset({
    "user-agent", "originator", "session-id", "session_id", "thread-id", "thread_id",
    "conversation-id", "conversation_id", "x-client-request-id", "x-app", "content-encoding",
    "x-goog-api-client", "x-parent-session-id",
})  # fmt: skip
_SECRET = ("token", "key", "secret", "auth", "cookie")
_MOST_CHARACTERS = 1 << 14


@dataclass(slots=True)
class ProxyTap:
    """Begins to note calls of models, and nothing else."""

    spool: ProxySpool
    protocol_of: Callable[[str], str]
    """A path without its query -> the protocol of the call; empty: it is none of a model."""
    run: str
    """Stands in the names of calls: no other proxy has the same."""
    clock: Clock
    _numbers: count[int] = field(default_factory=lambda: count(1))

    def begin(self, method: str, target: Target, headers: Mapping[str, str]) -> TappedCall:
        """Note a request, if it is one that is recorded."""
        noted = TappedCall(self.clock)
        path = target.path
        protocol = self.protocol_of(path.partition("?")[0]) if method == "POST" else ""
        if protocol:
            head = CallHead(
                id=f"{self.run}-{next(self._numbers)}",
                protocol=protocol,
                path=path,
                time=format_rfc3339(self.clock()),
                headers=telling(headers),
            )
            noted.track = self.spool.begin(head)
        return noted


@dataclass(slots=True)
class TappedCall:
    """What is noted of one request; of most, nothing."""

    _clock: Clock
    track: CallWriter | None = None
    broken: str = ""
    """Why it is not whole."""
    _begun_s: float = field(default_factory=time.monotonic)
    _first_byte_s: float | None = None

    def body(self, data: bytes) -> None:
        """Note bytes of the request."""
        if self.track is not None:
            self.track.body(data)

    def asked(self) -> None:
        """Note that the request is whole."""
        if self.track is not None:
            self.track.asked()

    def answered(self, status: int, headers: Mapping[str, str]) -> None:
        """Note how the answer began."""
        if self.track is not None:
            head = AnswerHead(
                status=status,
                content_type=headers.get("Content-Type", ""),
                content_encoding=headers.get("Content-Encoding", ""),
            )
            self.track.answer(head)

    def data(self, data: bytes) -> None:
        """Note bytes of the answer."""
        if self.track is not None:
            if self._first_byte_s is None:
                self._first_byte_s = time.monotonic() - self._begun_s
            self.track.data(data)

    def end(self) -> None:
        """Note that no more comes."""
        if self.track is not None:
            end = CallEnd(
                time=format_rfc3339(self._clock()),
                latency_s=round(time.monotonic() - self._begun_s, 6),
                first_byte_s=self._first_byte_s and round(self._first_byte_s, 6),
                broken=self.broken,
            )
            self.track.end(end)


def telling(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that say whose call it is, and how its body is encoded.

    All others may be credentials, and are not looked at.

    >>> telling({"User-Agent": "x/1", "X-Api-Key": "s", "X-Codex-Token": "s", "X-App": "cli"})
    {'user-agent': 'x/1', 'x-app': 'cli'}
    """
    return {
        name: redact(value).text
        for name, value in ((name.lower(), value) for name, value in headers.items())
        if (name in _TELLING_NAMES or name.startswith(_TELLING))
        and not any(word in name for word in _SECRET)
        and len(value) <= _MOST_CHARACTERS
    }
