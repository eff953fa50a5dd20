"""Two requests are equal except for listed differences, each with a reason."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harken.capture.resume.allowed_differences import DIFFERENCE_RULES
from harken.capture.resume.request_diff import first_difference
from harken.capture.resume.verify import compare_requests
from tests.unit.formats.image_kit import make_png

REMINDER = "<system-reminder>\nIt is Saturday.\n</system-reminder>"
RUNTIMES = ("claude", "codex", "gemini", "pi", "opencode")


def user(*texts: str, **members: Any) -> dict[str, Any]:
    return {
        "role": "user",
        "content": [{"type": "text", "text": text} for text in texts],
        **members,
    }


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


def states(runtime: str, expected: list[Any], actual: list[Any], prompt: str = "") -> list[str]:
    return [row.state for row in compare_requests(runtime, expected, actual, prompt=prompt).rows]


def test_every_rule_has_a_reason_and_a_client() -> None:
    for rule in DIFFERENCE_RULES:
        assert len(rule.reason.split()) > 5
        assert set(rule.clients) <= set(RUNTIMES)
    assert len({rule.name for rule in DIFFERENCE_RULES}) == len(DIFFERENCE_RULES)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_equal_requests_are_equal_without_ignored_parts(runtime: str) -> None:
    result = compare_requests(runtime, [user("a"), assistant("b")], [user("a"), assistant("b")])
    assert [row.state for row in result.rows] == ["same", "same"]
    assert result.ignored == ()


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_conversation_ends_before_the_prompt(runtime: str) -> None:
    expected = [user("a"), assistant("b")]
    assert states(runtime, expected, [*expected, user("go on"), assistant("later")], "go on") == [
        "same",
        "same",
    ]
    assert states(runtime, [user("a")], [user("a", "go on")], "go on") == ["same"]
    assert states(runtime, [user("a")], [user("a"), {"role": "user", "content": "go on"}], "go on")


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_missing_message_is_one_difference(runtime: str) -> None:
    conversation = [user("a"), assistant("b"), user("c"), assistant("d")]
    assert states(runtime, conversation, [*conversation[:1], *conversation[2:]]) == [
        "same",
        "missing",
        "same",
        "same",
    ]
    assert states(runtime, conversation[:-1], conversation) == ["same", "same", "same", "added"]


def test_first_difference_is_reported() -> None:
    (row,) = compare_requests("claude", [user("at one")], [user("at two")]).rows
    assert (row.state, row.number, row.role, row.text) == ("changed", 1, "user", "at one")
    assert row.difference == 'content[0].text: "one" is not "two", from character 3 on'


@pytest.mark.parametrize(
    ("expected", "actual", "where"),
    [
        ({"a": 1}, {"a": True}, "a: 1 is not true"),
        ({"a": 1}, {"a": 1.0}, "a: 1 is not 1.0"),
        ({"a": 1}, {}, "a: 1 is expected and not sent"),
        ({}, {"b": "x"}, 'b: "x" is sent and not expected'),
        ({"a": [1, 2]}, {"a": [1]}, "a: 2 are expected, 1 were sent"),
        ({"a": "x" * 99}, {"a": ""}, f'a: "{"x" * 59}… is not "", from character 0 on'),
    ],
)
def test_difference_names_its_position(expected: Any, actual: Any, where: str) -> None:
    assert first_difference(expected, actual) == where


def test_cache_marks_and_empty_members_are_ignored() -> None:
    block = {"type": "tool_result", "tool_use_id": "t", "content": "x"}
    marked_block = {**block, "cache_control": {"type": "ephemeral"}, "is_error": False}
    expected, actual = ({"role": "user", "content": [content]} for content in (block, marked_block))
    result = compare_requests("claude", [expected], [actual])
    assert result.differences == []
    assert [rule.name for rule in result.ignored] == ["cache marks", "default members"]
    assert compare_requests("claude", [expected], [{**actual, "role": "assistant"}]).differences


def test_error_flag_of_a_result_is_compared() -> None:
    block = {"type": "tool_result", "tool_use_id": "t", "content": "x"}
    expected, actual = (
        {"role": "user", "content": [variant]} for variant in (block, {**block, "is_error": True})
    )
    assert states("claude", [expected], [actual]) == ["changed"]


def test_reminders_are_ignored_only_at_the_end() -> None:
    actual = [user(REMINDER, "a"), {"role": "system", "content": "# Environment"}, assistant("b")]
    assert states("claude", [user("a"), assistant("b")], actual) == ["same", "same"]
    assert states("claude", [user(REMINDER, "a"), assistant("b")], actual) == ["same", "same"]
    assert states("claude", [user(REMINDER, "a")], [user("a")]) == ["changed"]


def test_codex_context_messages_are_ignored_only_at_the_end() -> None:
    def item(role: str, text: str, **members: str) -> dict[str, Any]:
        return {
            "type": "message",
            "role": role,
            "content": [{"type": "input_text", "text": text}],
        } | members

    talk = [item("user", "a", id="m1"), item("assistant", "b")]
    context = [item("developer", "<skills>"), item("user", "<environment_context>")]
    assert states("codex", talk, [*talk, *context, item("user", "go")], "go") == ["same", "same"]
    assert states("codex", talk, [talk[0], *context, talk[1]]) == ["same", "added", "added", "same"]
    assert states("codex", talk, [talk[0], {**talk[1], "id": "new"}]) == ["same", "same"]
    assert states("codex", talk, [{**talk[0], "id": "other"}, talk[1]]) == ["changed", "same"]


def test_codex_instruction_sections_are_ignored() -> None:
    def instruction(text: str) -> dict[str, Any]:
        block = {"type": "input_text", "text": text}
        return {"type": "message", "role": "developer", "content": [block]}

    own_prompt = "You are a coding agent running in the Codex CLI. "
    talk = [user("a"), assistant("b")]
    assert (
        states(
            "codex", [instruction(own_prompt + "Plan."), *talk], [instruction(own_prompt), *talk]
        )
        == ["same"] * 3
    )
    assert (
        states("codex", [instruction("Be kind."), *talk], [instruction(own_prompt), *talk])[0]
        == "missing"
    )
    assert states("codex", [instruction(own_prompt), *talk], talk) == ["missing", "same", "same"]


def test_client_system_prompt_is_ignored_only_at_the_beginning() -> None:
    own_prompt = {"role": "system", "content": "You are Pi."}
    for runtime in ("pi", "opencode"):
        assert states(runtime, [user("a")], [own_prompt, user("a")]) == ["same"]
        assert states(runtime, [user("a")], [user("a"), own_prompt]) == ["same", "added"]
        assert states(runtime, [own_prompt, user("a")], [user("a")]) == ["missing", "same"]


def test_gemini_context_is_ignored_only_at_the_beginning() -> None:
    def turn(*texts: str) -> dict[str, Any]:
        return {"role": "user", "parts": [{"text": text} for text in texts]}

    setting = "<session_context>\nToday"
    assert states("gemini", [turn("a")], [turn(setting, "a")]) == ["same"]
    assert states("gemini", [turn("a")], [turn(setting), turn("a")]) == ["same"]
    assert states("gemini", [turn("a"), turn("b")], [turn("a"), turn(setting, "b")]) == [
        "same",
        "changed",
    ]


def test_former_claude_code_tools_are_ignored_but_not_their_arguments() -> None:
    def turn(*names: str, **arguments: str) -> list[dict[str, Any]]:
        tools = [{"type": "tool_reference", "tool_name": name} for name in names]
        call = {"type": "tool_use", "id": "t", "name": "SendMessage", "input": arguments}
        tool_result = {"type": "tool_result", "tool_use_id": "t", "content": tools}
        return [
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [tool_result]},
        ]

    before = turn("TeamCreate", "Read", type="message", message="Hi", content="Hi", to="Ann")
    assert states("claude", before, turn("Read", message="Hi", to="Ann")) == ["same", "same"]
    assert states("claude", before, turn(message="Hi", to="Ann")) == ["same", "same"]
    assert states("claude", before, turn("Read", to="Ann")) == ["changed", "same"]
    later = turn("Read", kind="Hi", message="Hi", to="Ann")
    assert states("claude", later, turn(message="Hi", to="Ann")) == ["same", "same"]
    assert states("claude", turn(message="Hi", to="Ann"), later) == ["changed", "changed"]
    assert states("claude", turn("Read"), turn("Read", "Other")) == ["same", "changed"]
    different = turn("Read", type="message", message="Hi", content="Ho", to="Ann")
    assert states("claude", different, turn("Read", message="Hi", to="Ann")) == ["changed", "same"]


def test_claude_code_insertions_before_a_prompt_are_ignored_only_at_the_end() -> None:
    assert states("claude", [user("a")], [user("a\n", "go")], "go") == ["same"]
    assert states("claude", [user("a"), assistant("b")], [user("a\n"), assistant("b")]) == [
        "changed",
        "same",
    ]


def test_images_that_codex_shrinks_are_equal() -> None:
    def item(image: bytes) -> dict[str, Any]:
        url = f"data:image/png;base64,{b64encode(image).decode()}"
        return {
            "type": "function_call_output",
            "output": [{"type": "input_image", "image_url": url}],
        }

    large, small, different = (
        item(make_png(*size)) for size in ((1000, 3000), (683, 2048), (9, 9))
    )
    assert states("codex", [large], [small]) == ["same"]
    assert states("codex", [small], [different]) == ["changed"]
    assert states("codex", [large, different], [small]) == ["changed", "missing"]


def test_texts_in_place_of_images_that_a_model_does_not_read_are_equal() -> None:
    def message(*blocks: dict[str, Any]) -> dict[str, Any]:
        return {"role": "user", "content": [{"type": "text", "text": "See:"}, *blocks]}

    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}}
    end = "(this model does not support image input). Inform the user."
    error = {"type": "text", "text": f"ERROR: Cannot read image {end}"}
    named = {"type": "text", "text": f'ERROR: Cannot read "a b.png" {end}'}
    other = {"type": "text", "text": "ERROR: Image file is empty or corrupted."}
    answer = assistant("I see.")
    assert states("opencode", [message(image), answer], [message(error), answer]) == ["same"] * 2
    assert states("opencode", [message(image, image)], [message(named, error)]) == ["same"]
    assert states("opencode", [message(image, image)], [message(error)]) == ["changed"]
    assert states("opencode", [message(image)], [message(other)]) == ["changed"]
    assert states("pi", [message(image)], [message(error)]) == ["changed"]


def test_outputs_that_gemini_masks_are_equal_for_the_same_call() -> None:
    def turn(id: str, output: str) -> dict[str, Any]:
        response = {"id": id, "name": "look", "response": {"output": output}}
        return {"role": "user", "parts": [{"functionResponse": response}]}

    masked = "<tool_output_masked>\n..."
    assert states("gemini", [turn("a", "long")], [turn("a", masked)]) == ["same"]
    assert states("gemini", [turn("a", "long")], [turn("b", masked)]) == ["changed"]
    assert states("gemini", [turn("a", "long")], [turn("a", "other")]) == ["changed"]


values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=6,
)
messages = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "system"])},
        optional={"content": values, "parts": values, "id": values, "type": values},
    ),
    max_size=4,
)


@settings(max_examples=40)
@given(
    expected=messages,
    actual=messages,
    runtime=st.sampled_from(RUNTIMES),
    prompt=st.text(max_size=1),
)
def test_arbitrary_requests_can_be_compared(
    expected: list[Any], actual: list[Any], runtime: str, prompt: str
) -> None:
    """Every expected message is reported as equal, changed or missing."""
    result = compare_requests(runtime, expected, actual, prompt=prompt)
    assert [row.number for row in result.rows if row.state != "added"] == [
        *range(1, len(expected) + 1)
    ]
