"""`HttpTap`: record one HTTP exchange while the client reads it.

Bytes are only collected while they pass; they are parsed later in the background thread. So the
client receives each byte without delay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from time import perf_counter
from uuid import uuid4

from harken.core.clock import format_rfc3339, system_clock
from harken.errors import FormatError
from harken.formats.wire.base import Protocol
from harken.interactions.sdk.background import BackgroundRecorder
from harken.recording.body import MAX_BODY_BYTES, decompress_body, sanitize_path
from harken.recording.client_hints import parse_hints
from harken.recording.exchange import CapturedRequest, CapturedResponse, ClientHints

HUNG_UP = "the client hung up"
ENDED = "the program ended"
_SECRET_WORDS = ("auth", "key", "token", "cookie", "secret", "signature", "credential")


class HttpTap:
    """The recorded state of one exchange. Only the first call of `end` has an effect."""

    def __init__(
        self,
        background: BackgroundRecorder,
        protocol: Protocol,
        target: str,
        *,
        headers: Mapping[str, str],
        body: bytes,
    ) -> None:
        """Start recording.

        `target` is the path and query as sent. `headers` are those of the request, in lower case.
        """
        self._background, self._protocol = background, protocol
        self._id = uuid4().hex
        self._status = 0
        self._headers: Mapping[str, str] = {}
        self._chunks: list[bytes] = []
        self._size_bytes = 0
        self._start_s = perf_counter()
        self._first_s: float | None = None
        self._is_begun = False
        """Whether the sink has received the start."""
        safe_headers = {name: value for name, value in headers.items() if not _is_secret(name)}
        time = format_rfc3339(system_clock())
        self._is_open = background.submit(
            lambda: self._begin(target, safe_headers, body, time), len(body)
        )
        if self._is_open:
            background.add_open(self._id, lambda: self.end(ENDED))

    def on_head(self, status: int, headers: Mapping[str, str]) -> None:
        """Record status and headers of the response; header names are in lower case."""
        self._status, self._headers = status, headers

    def on_chunk(self, chunk: bytes) -> None:
        """Record the next bytes of the response."""
        if self._first_s is None and chunk:
            self._first_s = perf_counter() - self._start_s
        self._size_bytes += len(chunk)
        if self._size_bytes <= MAX_BODY_BYTES:
            self._chunks.append(chunk)

    def end(self, broken: str = "", *, is_plain: bool = False) -> None:
        """Record the end of the response, or the error in `broken` that ended it early.

        If `is_plain`, the recorded bytes are already decompressed.
        """
        if not self._is_open:
            return
        self._is_open = False
        self._background.remove_open(self._id)
        time, latency_s = format_rfc3339(system_clock()), perf_counter() - self._start_s
        reply = CapturedResponse(
            id=self._id,
            status=self._status,
            content_type=self._headers.get("content-type", "")[:200],
            time=time,
            latency_s=latency_s,
            first_byte_s=self._first_s,
            broken=broken,
        )
        encoding = "" if is_plain else self._headers.get("content-encoding", "")
        self._background.submit(lambda: self._end(reply, encoding), self._size_bytes, is_due=True)

    def _begin(self, target: str, headers: Mapping[str, str], body: bytes, time: str) -> None:
        path = sanitize_path(target)
        body = decompress_body(body, headers.get("content-encoding", ""))
        hints = _merge_hints(self._background.hints, parse_hints(headers, path, body))
        protocol = self._protocol.name
        call = CapturedRequest(
            id=self._id, protocol=protocol, path=path, body=body, time=time, hints=hints
        )
        self._background.sink.begin(call)
        self._is_begun = True

    def _end(self, reply: CapturedResponse, encoding: str) -> None:
        if not self._is_begun:
            return
        try:
            if self._size_bytes > MAX_BODY_BYTES:
                raise FormatError("body", f"it has more than {MAX_BODY_BYTES} bytes")
            reply = replace(reply, body=decompress_body(b"".join(self._chunks), encoding))
        except FormatError as error:
            reply = replace(reply, broken=f"the answer could not be kept: {error}")
        if reply.broken == HUNG_UP and self._has_final_event(reply):
            reply = replace(reply, broken="")
        self._background.sink.end(reply)

    def _has_final_event(self, reply: CapturedResponse) -> bool:
        """Whether the response is complete: a client may disconnect after the last event."""
        listener = self._protocol.listener(reply.status)
        listener.feed(reply.body)
        return listener.end().finish is not None


def _is_secret(name: str) -> bool:
    return any(word in name for word in _SECRET_WORDS)


def _merge_hints(user_hints: ClientHints, program_hints: ClientHints) -> ClientHints:
    """Return the hints of the program; hints of the user take precedence."""
    hint_values = {
        hint_field.name: getattr(user_hints, hint_field.name) for hint_field in fields(ClientHints)
    }
    return replace(program_hints, **{name: value for name, value in hint_values.items() if value})
