"""`SpoolRedactor`: remove credentials from calls before they are written to a spool.

A body is held in memory until it is complete, then decompressed and redacted. So a call that is cut
off by a crash leaves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from harken.capture.proxy.frames import AnswerHead, CallEnd, CallHead, Content, FrameKind
from harken.core import structs
from harken.core.secrets.redaction import Credentials
from harken.recording.body import MAX_BODY_BYTES, decode_body
from harken.recording.streamed_text import redact_body

_ENCODING = "content-encoding"


class _HeldCall(msgspec.Struct):
    """The parts of a call that are not written yet."""

    head: CallHead | None = None
    answer: AnswerHead | None = None
    body: bytearray = msgspec.field(default_factory=bytearray)


class SpoolRedactor(msgspec.Struct):
    """Holds the bodies of open calls, and releases them without credentials."""

    credentials: Credentials = msgspec.field(default_factory=Credentials)
    _calls: dict[int, _HeldCall] = msgspec.field(default_factory=dict)
    _reported: str = ""

    def report_new(self) -> Iterator[str]:
        """Yield a line for the user if other kinds of credentials were removed since the last."""
        if self.credentials.notice != self._reported:
            self._reported = self.credentials.notice
            yield self._reported

    def redact(
        self, items: Iterable[tuple[int, FrameKind, Content]]
    ) -> Iterator[tuple[int, FrameKind, Content]]:
        """Yield the items that can be written now."""
        for number, kind, content in items:
            call = self._calls.setdefault(number, _HeldCall())
            match content:
                case CallHead():
                    call.head = content
                case AnswerHead():
                    call.answer = content
                case CallEnd():
                    yield from self._release(number, call)
                    yield number, kind, content
                    del self._calls[number]
                case _ if kind is FrameKind.ASKED:
                    yield from self._release(number, call)
                    yield number, kind, content
                case _:
                    call.body += content

    def _release(self, number: int, call: _HeldCall) -> Iterator[tuple[int, FrameKind, Content]]:
        """Yield the held request or response. A body that cannot be decompressed is left out."""
        head, call.head = call.head, None
        answer, call.answer = call.answer, None
        body, call.body = bytes(call.body), bytearray()
        encoding, kind = "", FrameKind.DATA
        if head is not None:
            kind, headers = FrameKind.BODY, dict(head.headers)
            encoding = headers.pop(_ENCODING, "")
            head = structs.replace(head, headers=headers)
            redacted = self.credentials.replace_in_bytes(msgspec.json.encode(head))
            yield number, FrameKind.CALL, msgspec.json.decode(redacted, type=CallHead)
        elif answer is not None:
            encoding = answer.content_encoding
            answer = structs.replace(answer, content_encoding="")
            yield number, FrameKind.ANSWER, answer
        decoded = decode_body(body, encoding, MAX_BODY_BYTES)
        if decoded.data and not decoded.problem:
            yield number, kind, redact_body(decoded.data, self.credentials)
