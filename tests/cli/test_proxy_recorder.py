"""What the proxy shows of an answer, on one line."""

from __future__ import annotations

from harken.cli.commands.proxy.recorder import format_last_answer
from harken.core.messages import FunctionCall, Message, TextPart, ThinkingPart, ToolCall

HI = Message("user", "Hi")
CALLING = Message("assistant", None, [ToolCall("call_1", FunctionCall("look", "{}"))])


def test_an_answer_is_shown_by_its_words_also_in_parts() -> None:
    assert (
        format_last_answer([HI, Message("assistant", [TextPart("Hello\n there.")])])
        == "Hello there."
    )
    assert format_last_answer([HI, Message("assistant", "Let me see."), CALLING]) == "Let me see."


def test_an_answer_without_words_is_shown_by_what_it_calls() -> None:
    thought = Message("assistant", [ThinkingPart("Hm.")])
    assert format_last_answer([HI, thought, CALLING, CALLING]) == "look, look"
    assert format_last_answer([HI, thought]) == "(nothing)"


def test_a_call_without_an_answer_shows_nobodys_words() -> None:
    assert format_last_answer([HI]) == "(no answer)"
    assert format_last_answer([]) == "(no answer)"
