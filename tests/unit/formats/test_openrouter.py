"""What OpenRouter streams in `reasoning_details`, and gets back."""

from __future__ import annotations

from typing import Any

import pytest

from harken.core.messages import Message, TextPart, ThinkingPart
from tests.unit.formats.providers.test_openai_chat import ASKED, LOOK, result, written
from tests.unit.formats.test_streams import calls, choice, drafted, function, openai_chunks, parts


def details(*of: dict[str, Any], **more: Any) -> dict[str, Any]:
    return choice({"reasoning_details": [*of], **more})


def test_thinking_of_openrouter_is_kept_whole_and_in_order() -> None:
    """Pieces of one text are one; what is encrypted comes whole, each for itself."""
    text = {"type": "reasoning.text", "format": "x", "index": 0}
    signed = {"type": "reasoning.encrypted", "data": "c2ln", "id": "x", "index": 1}
    other = {**signed, "data": "b3Ro", "id": "y"}
    events = [
        details({**text, "text": "H", "id": "t"}, reasoning="H"),
        details({**text, "text": "m.", "signature": None}, reasoning="m."),
        details({**text, "signature": "s"}),
        calls(function("a", "{}", id="x", index=0)),
        details(signed, other),
        choice(reason="tool_calls"),
        "[DONE]",
    ]
    one = {**text, "text": "Hm.", "id": "t", "signature": "s"}
    kept = {"reasoning_details": {"gemini-3": [one, signed, other]}}
    message = drafted(openai_chunks(events, "gemini-3")).message()
    assert message.content == [ThinkingPart("Hm.", kept)]
    assert drafted(openai_chunks(events)).message().content == [ThinkingPart("Hm.")]


def test_what_openrouter_wants_back_stands_at_the_last_part() -> None:
    signed = {"type": "reasoning.encrypted", "data": "c2ln"}
    meta = {"reasoning_details": {"m": [signed]}}
    said = [details(signed), choice({"content": "Hi."}, "stop")]
    assert parts(openai_chunks(said, "m")) == [TextPart("Hi.", meta)]
    blank = [choice({"content": "\n"}), details(signed), choice(reason="stop")]
    assert parts(openai_chunks(blank, "m")) == [TextPart("\n"), ThinkingPart("", meta)]
    acted = [calls(function("a", "{}", id="x")), details(signed), "[DONE]"]
    message = drafted(openai_chunks(acted, "m")).message()
    assert message.content == [ThinkingPart("", meta)]
    assert [call.id for call in message.tool_calls or ()] == ["x"]


def test_pieces_with_other_ids_are_not_one() -> None:
    text = {"type": "reasoning.summary", "summary": "x", "index": 0}
    events = [details({**text, "id": "1"}, {**text, "id": "2"}, {**text, "index": 1}), "[DONE]"]
    [part] = parts(openai_chunks(events, "m"))
    assert isinstance(part, ThinkingPart)
    assert part.meta
    assert [d["summary"] for d in part.meta["reasoning_details"]["m"]] == ["x", "x", "x"]


def test_what_openrouter_wants_back_goes_back_to_its_model_alone() -> None:
    """Gemini behind it refuses a call whose thinking is missing, and others one that is not."""
    kept = [{"type": "reasoning.encrypted", "data": "c2ln", "id": "c1"}]
    meta = {"reasoning_details": {"gemini-3": kept}}
    for part in (ThinkingPart("Hm.", meta), TextPart("I look.", meta)):
        context = [ASKED, Message("assistant", [part], [LOOK]), result("Jill")]
        for model, sent in (("gemini-3", kept), ("gpt-9", None), (None, None)):
            said = written(*context, model=model)[1]
            assert said.get("reasoning_details") == sent
            assert said["content"] in (None, "I look.")
            assert "reasoning_content" not in said


@pytest.mark.parametrize("odd", [7, [], "x", {"m": 7}, {"m": [7]}, {"m": []}])
def test_a_meta_that_others_wrote_is_passed_over(odd: Any) -> None:
    part = TextPart("Hi.", {"reasoning_details": odd})
    user, said, _ = written(Message("user", [part]), Message("assistant", [part]), model="m")
    assert user == {"role": "user", "content": "Hi."}
    assert said == {"role": "assistant", "content": "Hi."}
