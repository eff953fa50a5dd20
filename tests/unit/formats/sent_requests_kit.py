"""A transcript of Claude Code with the requests that the client records."""

from __future__ import annotations

from typing import Any

from harken.formats.runtimes.claude_code.resume_request import hash_message
from tests.unit.formats.transcript_kit import Transcript, encode_lines, text_block

TOOL = {"name": "Look", "description": "Look.", "input_schema": {"type": "object"}}
SHAPE: dict[str, Any] = {"system": [text_block("You are Claude.")], "tools": [TOOL]}
TEA = {"role": "user", "content": "Tea?"}
GREEN = {"role": "assistant", "content": [text_block("Green.")]}
MORE = {"role": "user", "content": "More?"}
REMINDER = {"role": "user", "content": "<system-reminder>The date.</system-reminder>"}


def build_transcript(*injected: dict[str, Any]) -> bytes:
    """Return two turns with their requests; the first one has the injected messages as well."""
    first = [hash_message(message) for message in [*injected, TEA]]
    later = [hash_message(message) for message in (GREEN, MORE)]
    records = [
        {"type": "api-request-shape", "shapeHash": "s", "shape": SHAPE},
        {"type": "api-request", "id": "r1", "shapeHash": "s", "keep": 0, "tail": first}
        | {"params": {"model": "m", "max_tokens": 9, "betas": ["b"]}},
        {"type": "api-request", "id": "r2", "shapeHash": "s", "base": "r1", "keep": len(first)}
        | {"tail": later, "params": {"model": "m", "max_tokens": 8}},
    ]
    transcript = Transcript()
    transcript.user("Tea?")
    transcript.answer(text_block("Green."), id="m1")
    transcript.records[-1]["requestRef"] = "r1"
    transcript.user("More?")
    transcript.answer(text_block("Yes."), id="m2")
    transcript.records[-1]["requestRef"] = "r2"
    return encode_lines(records) + transcript.data
