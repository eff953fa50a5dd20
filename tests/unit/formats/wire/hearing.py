"""Answers as a provider sends them, cut as a network cuts them."""

from __future__ import annotations

import json
from typing import Any

from harken.formats.wire.base import ParsedResponse, Protocol

DONE = "[DONE]"
STEPS = [0, 1, 3, 100]


def streamed(*events: Any) -> bytes:
    """Return events as a stream; `[DONE]` is sent as it is."""
    texts = [event if event == DONE else json.dumps(event) for event in events]
    return "".join(f"data: {text}\n\n" for text in texts).encode()


def heard(protocol: Protocol, data: bytes, *, status: int = 200, step: int = 0) -> ParsedResponse:
    """Return what is heard of an answer that arrives in so many bytes at once; 0: whole."""
    listener = protocol.listener(status)
    width = step or len(data) or 1
    for start in range(0, len(data), width):
        listener.feed(data[start : start + width])
    return listener.end()


def is_honest(protocol: Protocol, data: bytes) -> bool:
    """Whether an answer that is cut anywhere is whole, or says what had come, and no more."""
    full = heard(protocol, data)
    for stop in range(len(data)):
        cut = heard(protocol, data[:stop])
        if cut.finish is None:
            if cut.pieces:
                return False
        elif [piece.raw for piece in cut.pieces] != [piece.raw for piece in full.pieces]:
            return False
    return True
