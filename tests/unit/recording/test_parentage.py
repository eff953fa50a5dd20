"""The tool call that started the agent of a conversation."""

from __future__ import annotations

import json

import pytest

from harken.core.events import TranscriptEntry
from harken.core.ids import AgentId
from harken.core.messages import FunctionCall, Message, ToolCall
from harken.recording.parentage import OpenToolCalls
from harken.recording.writer.item import Item

ROOT = AgentId("agent_001")
PROMPT = "Count all of the cups in the cafe."


def open_calls() -> OpenToolCalls:
    """Return one open call with the prompt of an agent."""
    arguments = json.dumps({"description": "Count", "prompt": PROMPT})
    call = ToolCall("c1", FunctionCall("Task", arguments))
    calls = OpenToolCalls()
    calls.add(ROOT, TranscriptEntry(agent_id=ROOT, role="assistant", content="", tool_calls=[call]))
    return calls


@pytest.mark.parametrize(
    ("excess", "is_prompt"),
    [(0, True), (len(PROMPT), True), (len(PROMPT) + 1, False)],
)
def test_text_that_is_at_least_half_a_prompt_is_that_prompt(excess: int, is_prompt: bool) -> None:
    """A client adds reminders to a prompt; a longer text quotes it."""
    calls = open_calls()
    item = Item("k", [Message("user", PROMPT + "x" * excess)])
    assert (calls.pop_started_by([item]) is not None) is is_prompt
    assert len(calls.calls) == (0 if is_prompt else 1)
