"""A provider on loopback that notes when it was asked and when it sent the first words."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from tests.provider.server import Answer, Provider, ReceivedRequest
from tests.provider.wire import anthropic_event

MODEL = "bench-1"
Events = Callable[[], Iterator[bytes]]


class NotingProvider(Provider):
    """Answers all that ask at a time in the same way, and notes times."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.asked_at = 0.0
        self.sent_at = 0.0
        self._events: Events = partial(self._said, ["Yes."], 0.0, 0.0)

    def connected(self, connection: socket.socket) -> None:
        """Send small pieces at once: Nagle's wait would be measured instead."""
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().connected(connection)

    def answer_with(
        self, pieces: Sequence[str], *, after_s: float = 0.0, per_s: float = 0.0
    ) -> None:
        """Say this from now on: the first piece after a while, so many a second (0: at once)."""
        self._events = partial(self._said, pieces, after_s, per_s)

    def _answer(self, asked: ReceivedRequest) -> Answer:
        self.asked_at = time.perf_counter()
        del self.asked[:-1]  # long ones, and only the last is looked at
        return Answer(self._events())  # type: ignore[arg-type]  # it is only iterated

    def _said(self, pieces: Sequence[str], after_s: float, per_s: float) -> Iterator[bytes]:
        yield anthropic_event({"type": "message_start", "message": _message()})
        block = {"type": "text", "text": ""}
        yield anthropic_event({"type": "content_block_start", "index": 0, "content_block": block})
        events = [_delta(piece) for piece in pieces]
        time.sleep(after_s)
        self.sent_at = time.perf_counter()
        for at, event in enumerate(events):
            if per_s:
                time.sleep(max(0.0, self.sent_at + at / per_s - time.perf_counter()))
            yield event
        yield anthropic_event({"type": "content_block_stop", "index": 0})
        delta = {"stop_reason": "end_turn", "stop_sequence": None}
        usage = {"output_tokens": len(pieces)}
        yield anthropic_event({"type": "message_delta", "delta": delta, "usage": usage})
        yield anthropic_event({"type": "message_stop"})


def _message() -> dict[str, Any]:
    usage = {"input_tokens": 100, "output_tokens": 1}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    return {**head, "model": MODEL, "usage": usage}


def _delta(text: str) -> bytes:
    delta = {"type": "text_delta", "text": text}
    return anthropic_event({"type": "content_block_delta", "index": 0, "delta": delta})
