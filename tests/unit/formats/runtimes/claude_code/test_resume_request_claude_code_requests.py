"""What newer versions record of their requests is compared with what is read."""

from __future__ import annotations

from typing import Any

from harken.formats.runtimes.claude_code.resume_request import hash_message
from tests.unit.formats.transcripts import Transcript, lines, read, text


def asked() -> Transcript:
    made = Transcript()
    made.user("Tea?")
    made.answer(text("Tea."))
    return made


REMINDED: dict[str, Any] = {
    "role": "user",
    "content": [text("<system-reminder>x</system-reminder>"), text("Tea?")],
}
ANSWER: dict[str, Any] = {"role": "assistant", "content": [text("Tea.")]}


def request(*messages: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "api-request",
        "id": "r1",
        "keep": 0,
        "tail": [hash_message(m) for m in messages],
    }


def test_what_was_read_or_is_recorded_in_full_is_no_difference() -> None:
    blob = {"type": "api-request-blob", "hash": hash_message(REMINDED), "message": REMINDED}
    found = read(asked().data + lines([blob, request(REMINDED, ANSWER)]))
    assert found.reading.notes == []
    assert found.reading.uninterpreted == {"api-request-blob": 1, "api-request": 1}


def test_what_was_sent_otherwise_is_told() -> None:
    found = read(asked().data + lines([request(REMINDED, ANSWER)]))
    assert found.reading.notes == [
        "1 of 2 messages were sent otherwise, the first in the request r1"
    ]


def test_marks_of_caches_count_not() -> None:
    marked = {**ANSWER, "content": [{**text("Tea."), "cache_control": {"type": "ephemeral"}}]}
    assert hash_message(marked) == hash_message(ANSWER)
