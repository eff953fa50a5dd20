"""Calls and results, folded to what a person wants to see; and who is busy with them."""

from __future__ import annotations

import json

import pytest

from harken.chat.render.activity import MIN_AGENTS, AgentActivity
from harken.chat.render.tool_calls import (
    MAX_DIFF_LINES,
    MAX_LINE_CHARS,
    MAX_RESULT_LINES,
    fold_result,
    format_call,
    full_result,
    list_change_lines,
    plain_lines,
)
from harken.core.events import AgentMoved, LlmRequest, LlmResponse, TranscriptEntry
from harken.core.ids import USER, AgentId, MessageId
from harken.core.messages import ContentPart, FunctionCall, ImagePart, TextPart, ToolCall
from harken.core.stream import Finish, TextDelta, ThinkingDelta, ToolCallDelta
from harken.world.tool import tool

MAIN, ANN = AgentId("agent_001"), AgentId("agent_002")


def texts(lines: list[list[tuple[str, str]]]) -> list[str]:
    return ["".join(text for _, text in line) for line in lines]


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("now", "", "now()"),
        ("now", "{}", "now()"),
        ("bash", '{"command": "ls\\n -l"}', "bash(ls -l)"),
        ("grep", '{"pattern": "tea", "limit": 3}', "grep(pattern=tea, limit=3)"),
        ("task", '{"name": "Ann"}', "task(Ann)"),
        ("task", '{"name": "Ann", "user_prompt": "Tea?"}', "task(Ann: Tea?)"),
        ("discuss", '{"speakers": ["A", "B"], "prompt": "Hi"}', "discuss(A, B: Hi)"),
        ("discuss", '{"speakers": 3}', "discuss(3)"),
        ("todo", '{"items": [{"text": "tea"}]}', "todo(1 item)"),
        ("look", '{"at": ["a", "b"], "how": 2}', "look(at=a, b, how=2)"),
        ("bash", '{"no json', 'bash({"no json)'),
        ("bash", "[1]", "bash([1])"),
        ("a\x1b", '{"x": "\\u001b"}', "a\\x1b(\\x1b)"),
    ],
)
def test_a_call_is_one_line_that_says_what_it_is_about(
    name: str, arguments: str, text: str
) -> None:
    assert format_call(name, arguments) == text


def test_a_tool_may_say_which_argument_it_is_about() -> None:
    @tool
    def edit(path: str, old: str) -> None:
        """Edit."""

    arguments = '{"path": "a.py", "old": "x"}'
    assert format_call("edit", arguments, edit.with_subject(by="path")) == "edit(a.py)"


def test_output_is_shown_as_a_terminal_would_leave_it() -> None:
    assert plain_lines("a\r\nb\x1b[1;31mc\x1b[0m\n\n") == ["a", "bc"]
    assert plain_lines("1%\r50%\r100%\ndone") == ["100%", "done"]


def test_a_result_is_its_first_lines_and_how_many_more_there_are() -> None:
    lines = [f"line {number}" for number in range(20)]
    result = fold_result("\n".join(lines))
    assert (texts(result.lines), result.hidden_count) == (
        lines[:MAX_RESULT_LINES],
        20 - MAX_RESULT_LINES,
    )
    assert texts(full_result("\n".join(lines))) == lines
    just = fold_result("\n".join(lines[: MAX_RESULT_LINES + 1]))
    assert (len(just.lines), just.hidden_count) == (
        MAX_RESULT_LINES + 1,
        0,
    )  # a note would take as much room


def test_a_long_line_is_cut_and_counted_as_one_that_is_not_whole() -> None:
    result = fold_result("short\n" + "x" * 100_000)
    assert [len(line) for line in texts(result.lines)] == [5, MAX_LINE_CHARS]
    assert result.hidden_count == 1
    changed = list_change_lines("edit", edit_arguments("a", "b" * 5000))
    assert max(map(len, texts(changed))) <= MAX_LINE_CHARS
    assert texts(changed)[-1] == "… 1 more line of the change"


def test_a_failure_is_red_and_an_empty_result_is_nothing() -> None:
    assert fold_result("Error: no", is_error=True).lines == [[("red", "Error: no")]]
    assert fold_result("").lines == []
    assert fold_result(None).lines == []


def test_a_result_of_parts_shows_their_texts_and_marks() -> None:
    content: list[ContentPart] = [TextPart("a cup"), ImagePart(media_type="image/png", data="x")]
    assert texts(fold_result(content).lines) == ["a cup", "", "[image image/png]"]


def test_a_diff_has_its_colours_and_more_room() -> None:
    diff = "@@ -1,9 +1,9 @@\n" + "-a\n+b\n c\n" * 20
    result = fold_result(diff)
    assert result.lines[1:4] == [[("red", "-a")], [("green", "+b")], [("dim", " c")]]
    assert result.hidden_count == 61 - 16


def test_what_an_edit_changed_is_seen_from_its_arguments() -> None:
    assert list_change_lines("edit", edit_arguments("a\nb\nc", "a\nB\nc")) == [
        [("dim", " a")],
        [("red", "-b")],
        [("green", "+B")],
        [("dim", " c")],
    ]
    for odd in ("", "[]", '{"path": "x", "old_string": "x"}', edit_arguments(1, "x")):
        assert list_change_lines("edit", odd) == []


def test_a_change_is_its_first_lines_and_how_many_more_there_are() -> None:
    changed = texts(list_change_lines("edit", edit_arguments("a\n" * 5000, "b")))
    assert changed == ["-a"] * MAX_DIFF_LINES + ["… 4986 more lines of the change"]


def test_a_costly_edit_is_not_compared() -> None:
    old, new = "\n".join(["a"] * 199), "\n".join(["a", "b"] * 99)
    assert texts(list_change_lines("edit", edit_arguments(old, new))) == [
        "@@ 199 lines are replaced by 198 @@"
    ]


def edit_arguments(old: object, new: str) -> str:
    return json.dumps({"path": "x", "old_string": old, "new_string": new})


def request(agent: AgentId = MAIN) -> LlmRequest:
    return LlmRequest(agent_id=agent, context=[], count=0, context_hash="", model="m")


def acting(*names: str) -> TranscriptEntry:
    made = [ToolCall(name, FunctionCall(name, "")) for name in names]
    return TranscriptEntry(agent_id=MAIN, role="assistant", tool_calls=made)


def result(call: str) -> TranscriptEntry:
    return TranscriptEntry(agent_id=MAIN, role="tool", tool_call_id=call, name=call)


def shown(activity: AgentActivity, now: float = 10.0, asking: tuple[str, ...] = ()) -> list[str]:
    names = {MAIN: "main", ANN: "Ann"}
    lines = activity.lines(lambda id_: names.get(id_, id_), now, asking=asking)
    return [text[2:] for text in texts(lines)]


def test_a_busy_agent_waits_thinks_writes_and_runs_its_calls() -> None:
    activity = AgentActivity()
    activity.on_event(request(), 8.0)
    assert shown(activity) == ["main waiting for the model 2s"]
    activity.on_chunk(MAIN, ThinkingDelta("x" * 40), 9.0)
    assert shown(activity) == ["main thinking 1s · ~10 tokens"]
    activity.on_chunk(MAIN, TextDelta("x" * 40), 9.5)
    assert shown(activity) == ["main writing ~20 tokens"]
    activity.on_chunk(MAIN, ToolCallDelta(0, "{}", "c", "bash"), 9.5)
    activity.on_chunk(MAIN, Finish(stop_reason="tool_use"), 9.5)
    assert shown(activity) == ["main writing a call ~20 tokens"]
    activity.on_event(acting("ls", "cat"), 9.5)
    activity.on_event(LlmResponse(agent_id=MAIN, request=MessageId("msg_001")), 9.5)
    assert shown(activity) == ["main running 2 calls: ls(), cat()"]
    activity.on_event(result("ls"), 9.5)
    assert shown(activity) == ["main running cat()"]
    activity.on_event(result("cat"), 9.5)
    assert not activity


def test_who_asks_waits_for_the_user_and_who_is_gone_is_not_busy() -> None:
    activity = AgentActivity()
    activity.on_event(request(), 9.5)
    activity.on_event(request(ANN), 9.5)
    assert shown(activity, asking=("Ann",)) == [
        "main waiting for the model",
        "Ann  waiting for you",
    ]
    activity.on_event(AgentMoved(agent_id=ANN, place="gone"), 9.6)
    assert shown(activity) == ["main waiting for the model"]
    activity.clear()
    assert shown(activity) == []


def test_the_user_is_never_busy() -> None:
    activity = AgentActivity()
    activity.on_event(TranscriptEntry(agent_id=USER, role="assistant", content="yes"), 1.0)
    assert not activity


def test_of_many_agents_some_are_shown() -> None:
    activity = AgentActivity()
    for number in range(MIN_AGENTS + 3):
        activity.on_event(request(AgentId(f"a{number}")), 9.5)
    assert shown(activity)[-1] == "… and 3 more agents"
    assert len(activity.lines(str, 10.0, most=2)) == MIN_AGENTS + 1
    assert (
        len(activity.lines(str, 10.0, most=MIN_AGENTS + 3)) == MIN_AGENTS + 3
    )  # where there is room


def test_what_was_only_read_is_not_shown_but_what_is_short() -> None:
    lines = "one\ntwo\nthree"
    assert (
        fold_result(lines, was_read=True).lines,
        fold_result(lines, was_read=True).hidden_count,
    ) == (
        [],
        3,
    )
    assert texts(fold_result("one\ntwo", was_read=True).lines) == ["one", "two"]
    assert texts(fold_result(lines, was_read=True, is_error=True).lines) == ["one", "two", "three"]
