"""The loop of a smart agent: ask, act, answer; and what goes wrong in acting."""

import asyncio
from pathlib import Path

import pytest

from harken import tool
from harken.core.messages import ContentPart, Message, TextPart, ToolCall, ToolCallSlot
from harken.errors import ModelError
from tests.agent_kit import (
    call,
    call_message,
    check_log,
    open_stage,
    raw_call,
    request_texts,
    run,
    script_model,
)
from tests.unit.agents.tool_kit import TOOLS, acting


@pytest.mark.req("S4-02")
def test_the_model_is_asked_until_it_does_not_act(tmp_path: Path) -> None:
    model = script_model(
        main=[call_message(call("add", a=1)), call_message(call("add", a=2, b=3)), "2 and 5."]
    )
    one = open_stage(tmp_path, model, tools=TOOLS)
    assert one.ask("Add.") == "2 and 5."
    assert [request_texts(request)[1:] for request in model.requests] == [
        ["Add."],
        ["Add.", "", "2"],
        ["Add.", "", "2", "", "5"],
    ]


@pytest.mark.req("S4-02")
def test_action_and_result_enter_the_transcript_in_order(tmp_path: Path) -> None:
    one = acting(tmp_path, call("add", a=1))
    roles = [message["role"] for message in one.root.transcript]
    assert roles == ["system", "user", "assistant", "tool", "assistant"]


@pytest.mark.req("S4-07")
def test_the_model_sees_actions_and_tools_as_one_list(tmp_path: Path) -> None:
    model = script_model(main=["Hi."])
    open_stage(tmp_path, model, tools=TOOLS).ask("hello")
    [request] = model.requests
    names = [schema["name"] for schema in request.tools]
    assert names == ["task", "discuss", "terminate", "add", "fail", "dawdle"]
    assert all(schema["description"] and schema["parameters"] for schema in request.tools)


@pytest.mark.req("S4-07")
def test_a_tool_cannot_take_the_name_of_an_action(tmp_path: Path) -> None:
    @tool(name="discuss")
    def mine(topic: str) -> str:
        """Discuss."""
        return topic

    with pytest.raises(ValueError, match="discuss"):
        open_stage(tmp_path, script_model(main=["Hi."]), tools=[mine])


def test_a_tool_schema_is_logged_in_full_once(tmp_path: Path) -> None:
    model = script_model(main=[call_message(call("add", a=1)), "2.", "Bye."])
    one = open_stage(tmp_path, model, tools=TOOLS)
    one.ask("Add.")
    one.resume().ask("Bye.")
    [defined] = one.select_lines(event_type="tools_defined")
    requests = one.select_lines(event_type="llm_request")
    assert len(requests) == 3
    assert {request["tools"] for request in requests} == {defined["message_id"]}


def test_asking_twice_for_a_response_gives_the_answer_that_is_there(tmp_path: Path) -> None:
    model = script_model(main=["Hi."])
    one = open_stage(tmp_path, model)
    first = run(one.root.response("hello"))
    again = run(one.root.response())
    assert (again, again.message_id) == (first, first.message_id)
    assert len(model.requests) == 1


def test_a_text_beside_calls_is_kept_and_the_loop_goes_on(tmp_path: Path) -> None:
    one = open_stage(
        tmp_path,
        script_model(main=[call_message(call("add", a=1), text="Let me add."), "2."]),
        tools=TOOLS,
    )
    assert one.ask("Add.") == "2."
    [acted] = [row for row in one.select_lines(role="assistant") if "tool_calls" in row]
    assert acted["content"] == "Let me add."


@pytest.mark.req("S4-03")
@pytest.mark.parametrize(
    ("made", "said"),
    [
        (call("fail", why="no luck"), "Error: fail: RuntimeError: no luck"),
        (call("dawdle"), "Error: dawdle timed out"),
        (call("fly"), "'fly'; it may use: task, discuss, terminate, add, fail, dawdle"),
        (call("add", a="1"), "Expected `int`, got `str`"),
        (call("add", b=1), "missing required field `a`"),
        (call("add", a=1, c=2), "no argument 'c'; valid arguments: a, b"),
        (call("add", a=True), "Expected `int`, got `bool`"),
        (call("add", a=None), "Expected `int`, got `null`"),
        (raw_call("add", '{"a": 1'), "the arguments of add are not JSON"),
        (raw_call("add", "[1]"), "must be a JSON object, not [1]"),
        (raw_call("add", "null"), "must be a JSON object, not null"),
        (raw_call("add", '"a"'), "must be a JSON object"),
        (raw_call("add", ""), "missing required field `a`"),
        (raw_call("add", "[" * 100_000), "Error"),
        (raw_call("add", '{"a": ' * 100_000), "Error"),
        (raw_call("add", '{"a": "\ud83d"}'), "Error"),
        (raw_call("", "{}"), "may not use a tool ''"),
        (call("task"), "missing required field `name`"),
        (call("task", name=5), "Expected `str`, got `int`"),
        (call("task", name="  "), "needs a name"),
        (call("discuss", speakers="Jack"), "Expected `array | null`, got `str`"),
        (call("discuss", speakers=5), "got `int`"),
        (call("discuss", speakers=[["Jack"]]), "Expected `str`, got `array`"),
        (call("discuss", speakers=["Jack"], listeners={"Jill": 1}), "got `object`"),
        (call("terminate", name=["Jack"]), "Expected `str`, got `array`"),
        (raw_call("discuss", "[" * 100_000), "Error"),
    ],
    ids=lambda value: (
        f"{value.function.name} {value.function.arguments[:24]}"
        if isinstance(value, ToolCall)
        else ""
    ),
)
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another"])
def test_what_goes_wrong_in_an_action_is_its_result(
    tmp_path: Path, made: ToolCall, said: str, beside: bool
) -> None:
    one = acting(tmp_path, made, *([call("add", "c2", a=1)] if beside else []))
    result = one.result("c1")
    assert result["content"].startswith("Error: ")
    assert said in result["content"]
    assert result["is_error"] is True
    assert "substance" not in result
    if beside:
        assert one.result("c2")["content"] == "2"
    assert one.root.subagents == {}


@pytest.mark.req("S4-03")
def test_a_tool_that_times_out_on_its_own_is_not_said_to_have_been_stopped(tmp_path: Path) -> None:
    @tool
    async def query() -> str:
        """Ask the database."""
        raise TimeoutError("the database did not answer")

    one = open_stage(
        tmp_path, script_model(main=[call_message(call("query")), "Sorry."]), tools=[query]
    )
    assert one.ask("Ask.") == "Sorry."
    assert one.result()["content"] == "Error: query: TimeoutError: the database did not answer"


@pytest.mark.req("S4-03")
def test_a_tool_that_ran_out_of_time_may_have_acted(tmp_path: Path) -> None:
    one = acting(tmp_path, call("dawdle"))
    assert "0.02" in one.result()["content"]
    assert "may or may not have acted" in one.result()["content"]


@pytest.mark.req("S4-03")
def test_a_tool_whose_own_task_was_cancelled_has_failed(tmp_path: Path) -> None:
    @tool
    async def fetch() -> str:
        """Wait for something that is given up."""
        waiting = asyncio.ensure_future(asyncio.sleep(30))
        waiting.cancel()
        await waiting
        return "never"

    one = open_stage(
        tmp_path, script_model(main=[call_message(call("fetch")), "Sorry."]), tools=[fetch]
    )
    assert one.ask("Fetch.") == "Sorry."
    assert one.result()["content"].startswith("Error: fetch")


@pytest.mark.req("S4-03")
def test_a_result_that_is_no_json_is_text_since_the_tool_has_acted(tmp_path: Path) -> None:
    done: list[str] = []

    @tool
    def where() -> Path:
        """Say where."""
        done.append("acted")
        return Path("/here")

    one = open_stage(
        tmp_path, script_model(main=[call_message(call("where")), "There."]), tools=[where]
    )
    assert one.ask("Where?") == "There."
    assert one.result()["content"] == "/here"
    assert "is_error" not in one.result()


@pytest.mark.req("S4-03")
def test_errors_in_a_subagent_come_back_as_text(tmp_path: Path) -> None:
    model = script_model(
        main=[call_message(call("task", name="Ann", prompt="Add.")), "Ann failed."],
        Ann=[call_message(call("fail", why="no luck")), "It did not work: no luck."],
    )
    one = open_stage(tmp_path, model, tools=TOOLS)
    assert one.ask("Go.") == "Ann failed."
    assert one.result()["content"] == "It did not work: no luck."


@pytest.mark.req("S4-03", "S0-09")
@pytest.mark.parametrize("ids", [("", ""), ("c1", "c1"), ("c1", ""), ("a.b", "a b")])
def test_empty_or_doubled_call_ids_do_no_harm(tmp_path: Path, ids: tuple[str, str]) -> None:
    model = script_model(
        main=[call_message(call("add", ids[0], a=1), call("add", ids[1], a=2)), "2 and 3."]
    )
    one = open_stage(tmp_path, model, tools=TOOLS)
    assert one.ask("Add.") == "2 and 3."
    assert [row["content"] for row in one.select_lines(role="tool")] == ["2", "3"]
    check_log(one.log)


@pytest.mark.req("S0-09")
def test_a_model_may_use_the_same_call_id_in_every_message(tmp_path: Path) -> None:
    model = script_model(
        main=[call_message(call("add", a=1)), call_message(call("add", a=2)), "2 and 3."]
    )
    one = open_stage(tmp_path, model, tools=TOOLS)
    assert one.ask("Add.") == "2 and 3."
    assert [row["content"] for row in one.select_lines(role="tool")] == ["2", "3"]
    check_log(one.log)


@pytest.mark.parametrize(
    ("places", "ids"),
    [
        (["c", "c"], ["c", "c"]),
        (["", ""], ["", ""]),
        (["c"], ["c", "d"]),
        (["x"], ["c"]),
        (["c", "c"], ["c"]),
        (["d", "c"], ["c", "d"]),
    ],
)
def test_calls_whose_places_do_not_fit_are_run_all_the_same(
    tmp_path: Path, places: list[str], ids: list[str]
) -> None:
    content: list[ContentPart] = [TextPart("Now."), *map(ToolCallSlot, places)]
    answer = Message("assistant", content, [call("add", id_, a=1) for id_ in ids])
    one = open_stage(tmp_path, script_model(main=[answer, "Done."]), tools=TOOLS)
    assert one.ask("Add.") == "Done."
    assert [row["content"] for row in one.select_lines(role="tool")] == ["2"] * len(ids)
    check_log(one.log)
    assert one.resume().ask() == "Done."


def test_an_answer_that_cannot_be_logged_is_a_failed_call(tmp_path: Path) -> None:
    odd = TextPart("Hi.", {"score": float("nan")})
    one = open_stage(tmp_path, script_model(main=[Message("assistant", [odd])]))
    with pytest.raises(ModelError, match="plain JSON"):
        one.ask("hello")
    [response] = one.select_lines(event_type="llm_response")
    assert response["stop_reason"] == "error"
    assert one.resume(script_model(main=["Hi."])).ask() == "Hi."


@pytest.mark.req("S4-03")
def test_a_result_that_no_log_can_hold_is_told_and_the_agent_goes_on(tmp_path: Path) -> None:
    @tool
    def odd() -> list[TextPart]:
        """Return parts that are none."""
        return [TextPart(5)]  # type: ignore[arg-type]

    one = open_stage(
        tmp_path, script_model(main=[call_message(call("odd")), "On I go."]), tools=[odd]
    )
    assert one.ask("Go.") == "On I go."
    assert "odd ran, and its result cannot be kept" in one.result()["content"]
    check_log(one.log)
