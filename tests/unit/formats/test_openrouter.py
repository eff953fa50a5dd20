"""`reasoning_details` of OpenRouter, received in streams and sent back."""

from __future__ import annotations

from typing import Any

import pytest

from harken.core.messages import Message, TextPart, ThinkingPart
from tests.unit.formats.providers.test_openai_chat import ASKED, LOOK, encode_messages, result
from tests.unit.formats.test_streams import (
    accumulate,
    accumulate_parts,
    calls,
    choice,
    function,
    openai_chunks,
)


def details(*of: dict[str, Any], **options: Any) -> dict[str, Any]:
    return choice({"reasoning_details": [*of], **options})


def test_reasoning_details_are_kept_complete_and_in_order() -> None:
    """Chunks of one text are merged. Each encrypted detail stays separate."""
    text = {"type": "reasoning.text", "format": "x", "index": 0}
    signed = {"type": "reasoning.encrypted", "data": "c2ln", "id": "x", "index": 1}
    second = {**signed, "data": "b3Ro", "id": "y"}
    events = [
        details({**text, "text": "H", "id": "t"}, reasoning="H"),
        details({**text, "text": "m.", "signature": None}, reasoning="m."),
        details({**text, "signature": "s"}),
        calls(function("a", "{}", id="x", index=0)),
        details(signed, second),
        choice(reason="tool_calls"),
        "[DONE]",
    ]
    item = {**text, "text": "Hm.", "id": "t", "signature": "s"}
    details_ = {"reasoning_details": {"gemini-3": [item, signed, second]}}
    message = accumulate(openai_chunks(events, "gemini-3")).message()
    assert message.content == [ThinkingPart("Hm.", details_)]
    assert accumulate(openai_chunks(events)).message().content == [ThinkingPart("Hm.")]


def test_reasoning_details_are_stored_at_the_last_part() -> None:
    signed = {"type": "reasoning.encrypted", "data": "c2ln"}
    meta = {"reasoning_details": {"m": [signed]}}
    answer = [details(signed), choice({"content": "Hi."}, "stop")]
    assert accumulate_parts(openai_chunks(answer, "m")) == [TextPart("Hi.", meta)]
    blank = [choice({"content": "\n"}), details(signed), choice(reason="stop")]
    assert accumulate_parts(openai_chunks(blank, "m")) == [TextPart("\n"), ThinkingPart("", meta)]
    acted = [calls(function("a", "{}", id="x")), details(signed), "[DONE]"]
    message = accumulate(openai_chunks(acted, "m")).message()
    assert message.content == [ThinkingPart("", meta)]
    assert [call.id for call in message.tool_calls or ()] == ["x"]


def test_chunks_with_other_ids_are_not_merged() -> None:
    text = {"type": "reasoning.summary", "summary": "x", "index": 0}
    events = [details({**text, "id": "1"}, {**text, "id": "2"}, {**text, "index": 1}), "[DONE]"]
    [part] = accumulate_parts(openai_chunks(events, "m"))
    assert isinstance(part, ThinkingPart)
    assert part.meta
    assert [d["summary"] for d in part.meta["reasoning_details"]["m"]] == ["x", "x", "x"]


def test_reasoning_details_are_sent_only_to_their_model() -> None:
    """Gemini rejects a call without its thinking. Other models reject foreign thinking."""
    details_ = [{"type": "reasoning.encrypted", "data": "c2ln", "id": "c1"}]
    meta = {"reasoning_details": {"gemini-3": details_}}
    for part in (ThinkingPart("Hm.", meta), TextPart("I look.", meta)):
        context = [ASKED, Message("assistant", [part], [LOOK]), result("Jill")]
        for model, expected in (("gemini-3", details_), ("gpt-9", None), (None, None)):
            encoded = encode_messages(*context, model=model)[1]
            assert encoded.get("reasoning_details") == expected
            assert encoded["content"] in (None, "I look.")
            assert "reasoning_content" not in encoded


@pytest.mark.parametrize("unusual", [7, [], "x", {"m": 7}, {"m": [7]}, {"m": []}])
def test_foreign_meta_is_ignored(unusual: Any) -> None:
    part = TextPart("Hi.", {"reasoning_details": unusual})
    user, encoded, _ = encode_messages(
        Message("user", [part]), Message("assistant", [part]), model="m"
    )
    assert user == {"role": "user", "content": "Hi."}
    assert encoded == {"role": "assistant", "content": "Hi."}
