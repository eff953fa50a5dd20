"""The arguments of a call are the text that the model wrote, from its stream to its next request.

Source: spec [S0], "Tool calls": `function.arguments` is a JSON string.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harken import Rewrite, SessionViewer, tool
from harken.core.events import LlmRequest
from harken.core.messages import Message
from tests.agent_kit import call_message, check_log, open_stage, raw_call
from tests.provider.server import Provider
from tests.provider.wire import OPENAI
from tests.unit.agents.hook_kit import watch

OBJECTS = [
    '{"text": "tea"}',
    '{"text":"tea"}',
    ' {\n\t"text" : "t\\u00e9a",  "text":"té\\/a"\n}\n',
    '{"z": 1.0, "text": "tea", "a": 1e400, "n": 12345678901234567890}',
    '{"text": "\\ud83c\\udf75 🍵", "nested": {"b": [ 1,2 ], "a": null}}',
]
"""Texts with spaces, escapes, repeated names and large numbers."""
OTHERS = ["{text: tea", '"tea"', "[1 , 2]", ""]
"""Texts that are no object. Providers refuse them, so a request has an object in their place."""
ARGUMENTS = [*OBJECTS, *OTHERS]


@tool
def offer(text: str) -> str:
    """Offer a drink."""
    return f"offered {text}"


def read_calls(messages: list[Any]) -> list[Any]:
    return [call for message in messages for call in message.get("tool_calls") or ()]


@pytest.mark.req("S0-07")
def test_arguments_are_kept_exactly_in_log_requests_and_views(tmp_path: Path) -> None:
    """Each is streamed in pieces, logged, sent back, resumed, sent back again, and shown."""
    answers: list[str | Message] = [
        call_message(raw_call("offer", arguments, f"call_{number}"))
        for number, arguments in enumerate(ARGUMENTS)
    ]
    expected = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": "offer", "arguments": arguments},
        }
        for number, arguments in enumerate(ARGUMENTS)
    ]
    with Provider([OPENAI.answer(said) for said in [*answers, "Done.", "Again."]]) as provider:
        stage = open_stage(tmp_path, OPENAI.model(provider), tools=[offer])
        assert stage.ask("Offer tea.") == "Done."
        assert stage.resume().ask("And now?") == "Again."
    for number, body in enumerate(provider.bodies[:-1]):
        objects = expected[: min(number, len(OBJECTS))]
        assert read_calls(body["messages"])[: len(OBJECTS)] == objects
    assert read_calls(provider.bodies[-1]["messages"])[: len(OBJECTS)] == expected[: len(OBJECTS)]
    assert read_calls(stage.select_lines(role="assistant")) == expected
    viewer = SessionViewer(stage.log)
    assert read_calls(viewer.get_transcript("main")) == expected
    messages = [row.message for row in viewer.context(provider_request(viewer)).messages]
    calls = [call for message in messages for call in message.tool_calls or ()]
    assert [call.function.arguments for call in calls] == ARGUMENTS
    perspective = viewer.extract_agent_perspective("main")
    assert all(f"[Action]: offer {arguments}" in perspective for arguments in ARGUMENTS)
    check_log(stage.log)


def provider_request(viewer: SessionViewer) -> str:
    """Return the id of the last model call."""
    requests = [event for event in viewer.events if isinstance(event, LlmRequest)]
    return requests[-1].message_id


@pytest.mark.req("S0-07")
def test_rewritten_call_keeps_the_arguments_of_the_model(tmp_path: Path) -> None:
    """The hook's arguments are in an event of their own, as exact as those of the model."""
    written, rewritten = '{ "text":"t\\u00e9a" }', '{"text" :  "milk"}'
    with Provider(
        [OPENAI.answer(call_message(raw_call("offer", written))), OPENAI.answer("Done.")]
    ) as provider:
        stage = open_stage(tmp_path, OPENAI.model(provider), tools=[offer])
        watch(stage, action=lambda _: Rewrite(rewritten))
        assert stage.ask("Offer tea.") == "Done."
    [call] = read_calls(provider.bodies[-1]["messages"])
    assert call["function"]["arguments"] == written
    [event] = stage.select_lines(event_type="action_rewritten")
    assert event["arguments"] == rewritten
    assert stage.result()["content"] == "offered milk"
