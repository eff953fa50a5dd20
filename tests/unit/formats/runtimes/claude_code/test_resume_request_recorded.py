"""Comparison of recorded requests of newer Claude Code versions with the imported conversation."""

from __future__ import annotations

from typing import Any

from harken.formats.runtimes.claude_code.resume_request import hash_message
from tests.unit.formats.transcript_kit import Transcript, encode_lines, read_transcript, text_block


def request_record() -> Transcript:
    transcript = Transcript()
    transcript.user("Tea?")
    transcript.answer(text_block("Tea."))
    return transcript


REMINDED: dict[str, Any] = {
    "role": "user",
    "content": [text_block("<system-reminder>x</system-reminder>"), text_block("Tea?")],
}
ANSWER: dict[str, Any] = {"role": "assistant", "content": [text_block("Tea.")]}


def build_request(*messages: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "api-request",
        "id": "r1",
        "keep": 0,
        "tail": [hash_message(m) for m in messages],
    }


def test_imported_or_fully_recorded_request_has_no_difference() -> None:
    blob = {"type": "api-request-blob", "hash": hash_message(REMINDED), "message": REMINDED}
    parsed = read_transcript(
        request_record().data + encode_lines([blob, build_request(REMINDED, ANSWER)])
    )
    assert parsed.reading.notes == []
    assert parsed.reading.uninterpreted == {"api-request-blob": 1, "api-request": 1}


def test_different_request_is_reported() -> None:
    parsed = read_transcript(
        request_record().data + encode_lines([build_request(REMINDED, ANSWER)])
    )
    assert parsed.reading.notes == [
        "1 of 2 messages were sent otherwise, the first in the request r1"
    ]


def test_cache_marks_are_ignored() -> None:
    with_marks = {
        **ANSWER,
        "content": [{**text_block("Tea."), "cache_control": {"type": "ephemeral"}}],
    }
    assert hash_message(with_marks) == hash_message(ANSWER)
