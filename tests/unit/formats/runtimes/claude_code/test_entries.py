"""Entries of Claude Code records: metadata beside a message, and arguments of any kind."""

from __future__ import annotations

import json

import pytest

from harken.formats.runtimes.base import NewSessionInfo
from harken.formats.runtimes.claude_code.writer import write_session
from tests.unit.formats.transcript_kit import Transcript, read_transcript, text_block

SESSION = NewSessionInfo(
    id="5e551011-0000-4000-8000-0000000000ff", folder="/home/jill", time="2026-01-31T12:00:00Z"
)


def test_model_usage_and_cost_beside_a_message_are_read() -> None:
    """Transcripts of older clients have them there."""
    transcript = Transcript()
    transcript.user("Hi")
    transcript.answer(text_block("Hello"), costUSD=0.25)
    del transcript.records[-1]["message"]["model"], transcript.records[-1]["message"]["usage"]
    transcript.records[-1] |= {"model": "claude-x", "inputTokens": 3, "outputTokens": True}
    answer = read_transcript(transcript).entries()[1]
    assert answer.source
    assert (answer.source["model"], answer.source["cost_usd"]) == ("claude-x", 0.25)
    assert answer.source["usage"] == {"input_tokens": 3}, "true is no count"
    written = write_session([answer], SESSION)
    assert json.loads(written.splitlines()[-1])["costUSD"] == 0.25


@pytest.mark.parametrize(
    ("arguments", "text"), [("free text", "free text"), ([1], "[1]"), (None, "{}"), (0, "{}")]
)
def test_arguments_that_are_no_object_stay_as_they_are(arguments: object, text: str) -> None:
    transcript = Transcript()
    transcript.user("Hi")
    transcript.answer({"type": "tool_use", "id": "c1", "name": "look", "input": arguments})
    message = read_transcript(transcript).entries()[1].message
    assert [call.function.arguments for call in message.tool_calls or ()] == [text]
