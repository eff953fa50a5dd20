from __future__ import annotations

import pytest

from harken.core.messages import Message, TextPart, ThinkingPart
from harken.experiments.provider_rules import (
    FAMILIES,
    RULES,
    ContextRefused,
    Family,
    check_edit,
    find_family,
    find_violations,
)
from tests.agent_kit import call, call_message

SYSTEM, ASKED, SAID = Message("system", "Be."), Message("user", "Add."), Message("assistant", "4")
CALL, RESULT = call_message(call("add")), Message("tool", "4", tool_call_id="c1", name="add")
MORE = Message("user", "And more?")
WHOLE = [SYSTEM, ASKED, CALL, RESULT, SAID, MORE]


def rules(messages: list[Message], family: Family | None = None) -> list[str]:
    return [violation.rule.name for violation in find_violations(messages, family)]


@pytest.mark.parametrize("family", [*FAMILIES, None])
def test_valid_requests_break_no_rule(family: Family | None) -> None:
    assert rules(WHOLE, family) == []


@pytest.mark.parametrize("family", [*FAMILIES, None])
@pytest.mark.parametrize(
    ("messages", "broken"),
    [
        ([SYSTEM], "nothing-to-answer"),
        ([SYSTEM, ASKED, RESULT, SAID, MORE], "result-without-call"),
        ([SYSTEM, ASKED, CALL, SAID, MORE], "call-without-result"),
        ([SYSTEM, ASKED, CALL], "call-without-result"),
        ([SYSTEM, ASKED, CALL, RESULT, RESULT], "second-result"),
        ([SYSTEM, ASKED, CALL, MORE, RESULT], "result-elsewhere"),
        ([SYSTEM, ASKED, SAID], "ends-with-an-answer"),
    ],
)
def test_all_providers_require_results_and_an_input(
    messages: list[Message], broken: str, family: Family | None
) -> None:
    assert broken in rules(messages, family)


def test_each_family_has_its_own_rules() -> None:
    starts_with_answer = [SYSTEM, SAID, MORE]
    assert rules(starts_with_answer, "anthropic") == ["user-first"]
    assert rules(starts_with_answer, "gemini") == ["user-first"]
    assert rules(starts_with_answer, "chat") == rules(starts_with_answer, "responses") == []
    empty = [ASKED, Message("assistant", None), Message("user", "")]
    assert rules(empty, "anthropic") == ["empty-message", "empty-message"]
    assert rules(empty, "chat") == ["empty-answer"]
    assert rules([Message("user", " \n")], "anthropic") == ["blank-text"]
    assert rules([Message("user", " \n")], "chat") == []
    thought = [ASKED, Message("assistant", [ThinkingPart("hm", {"signature": "s"})]), MORE]
    assert rules(thought, "responses") == ["thinking-alone"]


def test_edit_is_refused_only_for_new_violations() -> None:
    bad_messages = [SYSTEM, SAID, MORE]
    check_edit(bad_messages, [SYSTEM, SAID, Message("user", "Other.")], "anthropic")
    with pytest.raises(ContextRefused, match="empty-message"):
        check_edit(bad_messages, [SYSTEM, SAID, Message("user", None)], "anthropic")


def test_signed_thinking_stays_or_is_removed() -> None:
    meta = {"signature": "s"}
    before = [ASKED, Message("assistant", [ThinkingPart("hm", meta), TextPart("4")]), MORE]
    foreign_messages = [
        ASKED,
        Message("assistant", [ThinkingPart("ah", meta), TextPart("4")]),
        MORE,
    ]
    with pytest.raises(ContextRefused, match="signed-thinking"):
        check_edit(before, foreign_messages)
    check_edit(before, [ASKED, SAID, MORE])


def test_refusal_is_one_line_with_rule_and_position() -> None:
    with pytest.raises(ContextRefused) as caught:
        check_edit(WHOLE, [SYSTEM, ASKED, RESULT, SAID, MORE])
    assert str(caught.value) == (
        "the edited context is not valid: a result answers a call: drop the result where its call "
        "is dropped (rule result-without-call; message #2, tool add (c1))"
    )


def test_each_rule_has_a_sentence_and_its_providers() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.sentence
        assert set(rule.families) <= set(FAMILIES)


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("claude-sonnet-4-5", "anthropic"),
        ("anthropic/x", "anthropic"),
        ("gemini-2.5-pro", "gemini"),
        ("gpt-5-codex", "responses"),
        ("openai/gpt-6", "chat"),
        ("ollama/llama", "chat"),
        ("replay:a/b", None),
        ("play", None),
    ],
)
def test_model_name_selects_the_rules(model: str, family: Family | None) -> None:
    assert find_family(model) == family
