"""Streamed answers of providers, split into chunks of any size."""

from __future__ import annotations

import json
from typing import Any

from harken.formats.wire.base import ParsedResponse, Protocol

DONE = "[DONE]"
STEPS = [0, 1, 3, 100]


def encode_stream(*events: Any) -> bytes:
    """Return events as a stream. `[DONE]` is sent unquoted."""
    texts = [event if event == DONE else json.dumps(event) for event in events]
    return "".join(f"data: {text}\n\n" for text in texts).encode()


def decode_stream(
    protocol: Protocol, data: bytes, *, status: int = 200, step: int = 0
) -> ParsedResponse:
    """Return the answer decoded from chunks of `step` bytes. 0 is one chunk."""
    listener = protocol.listener(status)
    width = step or len(data) or 1
    for start in range(0, len(data), width):
        listener.feed(data[start : start + width])
    return listener.end()


def reports_every_cut(protocol: Protocol, data: bytes) -> bool:
    """Whether each truncation of an answer is decoded as complete or as the received part only."""
    full = decode_stream(protocol, data)
    for stop in range(len(data)):
        truncated = decode_stream(protocol, data[:stop])
        if truncated.finish is None:
            if truncated.pieces:
                return False
        elif [piece.raw for piece in truncated.pieces] != [piece.raw for piece in full.pieces]:
            return False
    return True
