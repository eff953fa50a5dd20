"""Excerpts for a model: bounded, and without credentials."""

from __future__ import annotations

from harken.context.summaries.summarize import MAX_EXCERPT_CHARS, build_excerpt
from harken.core.messages import (
    FunctionCall,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    UnknownPart,
)

KEY = "sk-ant-" + "api03-" + "k" * 40


def test_excerpt_has_texts_and_calls_without_thinking() -> None:
    messages = [
        Message("user", "look", name="ann"),
        Message(
            "assistant",
            [
                ThinkingPart("hm"),
                TextPart("I look."),
                ImagePart(data="AAAA"),
                UnknownPart("odd", "{}"),
            ],
            tool_calls=[ToolCall("c1", FunctionCall("read", '{"path": "x"}'))],
        ),
        Message("tool", "it is empty", tool_call_id="c1", name="read"),
    ]
    assert build_excerpt(messages).text.splitlines() == [
        "[user ann]", "look",
        "[assistant]", "I look.", "(an image)", "(odd)", '-> read({"path": "x"})',
        "[tool read]", "it is empty",
    ]  # fmt: skip


def test_excerpt_size_is_bounded() -> None:
    calls = [ToolCall(f"c{n}", FunctionCall("w" * 9999, "a" * 9999)) for n in range(9)]
    long = Message("assistant", "begin" + "x" * 20_000 + "end", tool_calls=calls, name="n" * 9999)
    for messages in ([long], [long] * 3, [long] * 1000, [Message("user", "short")] * 9999):
        assert len(build_excerpt(messages).text) < MAX_EXCERPT_CHARS + 200
    text = build_excerpt([long]).text
    assert text.startswith(f"[assistant {'n' * 70}]\nbegin")
    assert "characters are left out]" in text


def test_excerpt_of_many_messages_keeps_the_first_and_last() -> None:
    messages = [Message("user", f"message {n} " + "x" * 100) for n in range(1000)]
    text = build_excerpt(messages, 2000).text
    assert "message 0 " in text
    assert "message 999 " in text
    assert "message 500 " not in text
    assert "messages are left out here]" in text
    assert len(text) < 2100


def test_credentials_are_redacted_even_at_truncation() -> None:
    for before in range(1900, 2100):
        excerpt = build_excerpt([Message("user", "x" * before + KEY + "y" * 9000)])
        assert "kkk" not in excerpt.text
        assert excerpt.redacted == 1
    call = ToolCall("c", FunctionCall("bash", '{"command": "curl -H x-api-key:' + KEY + '"}'))
    excerpt = build_excerpt([Message("assistant", None, tool_calls=[call])])
    assert "kkk" not in excerpt.text
    assert excerpt.redacted == 1
