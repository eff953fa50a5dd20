"""The loop of a smart agent: ask, act, answer; and what goes wrong on the way."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from harken import FunctionModel, Runtime, ScriptedModel, tool
from harken.core.messages import CallPlace, FunctionCall, Message, TextPart, ToolCall
from harken.errors import ModelError, ScriptError
from harken.llm.base import CallDelta, Chunk, Finish, Request, TextDelta, ThinkingDelta
from tests.agent_kit import (
    Stage,
    call,
    calls,
    check_context,
    check_log,
    everything,
    play,
    raw_call,
    run,
    stage,
    told,
)


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool
def fail(why: str) -> str:
    """Fail."""
    raise RuntimeError(why)


@tool(timeout_s=0.02)
async def dawdle() -> str:
    """Take too long."""
    await asyncio.sleep(30)
    return "never"


TOOLS = (add, fail, dawdle)


def acting(folder: Path, *made: ToolCall) -> Stage:
    """Return a stage whose root made these calls in one message, then answered."""
    one = stage(folder, play(main=[calls(*made), "Done."]), tools=TOOLS)
    assert one.ask("Act.") == "Done."
    check_log(one.log)
    return one


# The loop


@pytest.mark.req("S4-02")
def test_the_model_is_asked_until_it_does_not_act(tmp_path: Path) -> None:
    model = play(main=[calls(call("add", a=1)), calls(call("add", a=2, b=3)), "2 and 5."])
    one = stage(tmp_path, model, tools=TOOLS)
    assert one.ask("Add.") == "2 and 5."
    assert [told(request)[1:] for request in model.asked] == [
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
    model = play(main=["Hi."])
    stage(tmp_path, model, tools=TOOLS).ask("hello")
    [request] = model.asked
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
        stage(tmp_path, play(main=["Hi."]), tools=[mine])


def test_a_tool_schema_is_logged_in_full_once(tmp_path: Path) -> None:
    model = play(main=[calls(call("add", a=1)), "2.", "Bye."])
    one = stage(tmp_path, model, tools=TOOLS)
    one.ask("Add.")
    one.again().ask("Bye.")
    [defined] = one.rows(event_type="tools_defined")
    requests = one.rows(event_type="llm_request")
    assert len(requests) == 3
    assert {request["tools"] for request in requests} == {defined["message_id"]}


def test_asking_twice_for_a_response_gives_the_answer_that_is_there(tmp_path: Path) -> None:
    model = play(main=["Hi."])
    one = stage(tmp_path, model)
    first = run(one.root.response("hello"))
    again = run(one.root.response())
    assert (again, again.message_id) == (first, first.message_id)
    assert len(model.asked) == 1


def test_a_text_beside_calls_is_kept_and_the_loop_goes_on(tmp_path: Path) -> None:
    one = stage(
        tmp_path, play(main=[calls(call("add", a=1), text="Let me add."), "2."]), tools=TOOLS
    )
    assert one.ask("Add.") == "2."
    [acted] = [row for row in one.rows(role="assistant") if "tool_calls" in row]
    assert acted["content"] == "Let me add."


# Failing actions


@pytest.mark.req("S4-03")
@pytest.mark.parametrize(
    ("made", "said"),
    [
        (call("fail", why="no luck"), "Error: fail: RuntimeError: no luck"),
        (call("dawdle"), "Error: dawdle did not finish"),
        (call("fly"), "'fly'; it may use: task, discuss, terminate, add, fail, dawdle"),
        (call("add", a="1"), "Expected `int`, got `str`"),
        (call("add", b=1), "missing required field `a`"),
        (call("add", a=1, c=2), "no argument 'c'; it takes: a, b"),
        (call("add", a=True), "Expected `int`, got `bool`"),
        (call("add", a=None), "Expected `int`, got `null`"),
        (raw_call("add", '{"a": 1'), "the arguments of add are no JSON"),
        (raw_call("add", "[1]"), "are no JSON object but [1]"),
        (raw_call("add", "null"), "are no JSON object but null"),
        (raw_call("add", '"a"'), "are no JSON object"),
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

    one = stage(tmp_path, play(main=[calls(call("query")), "Sorry."]), tools=[query])
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

    one = stage(tmp_path, play(main=[calls(call("fetch")), "Sorry."]), tools=[fetch])
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

    one = stage(tmp_path, play(main=[calls(call("where")), "There."]), tools=[where])
    assert one.ask("Where?") == "There."
    assert one.result()["content"] == "/here"
    assert "is_error" not in one.result()


@pytest.mark.req("S4-03")
def test_errors_in_a_subagent_come_back_as_text(tmp_path: Path) -> None:
    model = play(
        main=[calls(call("task", name="Ann", prompt="Add.")), "Ann failed."],
        Ann=[calls(call("fail", why="no luck")), "It did not work: no luck."],
    )
    one = stage(tmp_path, model, tools=TOOLS)
    assert one.ask("Go.") == "Ann failed."
    assert one.result()["content"] == "It did not work: no luck."


# Call ids


@pytest.mark.req("S4-03", "S0-09")
@pytest.mark.parametrize("ids", [("", ""), ("c1", "c1"), ("c1", ""), ("a.b", "a b")])
def test_empty_or_doubled_call_ids_do_no_harm(tmp_path: Path, ids: tuple[str, str]) -> None:
    model = play(main=[calls(call("add", ids[0], a=1), call("add", ids[1], a=2)), "2 and 3."])
    one = stage(tmp_path, model, tools=TOOLS)
    assert one.ask("Add.") == "2 and 3."
    assert [row["content"] for row in one.rows(role="tool")] == ["2", "3"]
    check_log(one.log)


@pytest.mark.req("S0-09")
def test_a_model_may_use_the_same_call_id_in_every_message(tmp_path: Path) -> None:
    model = play(main=[calls(call("add", a=1)), calls(call("add", a=2)), "2 and 3."])
    one = stage(tmp_path, model, tools=TOOLS)
    assert one.ask("Add.") == "2 and 3."
    assert [row["content"] for row in one.rows(role="tool")] == ["2", "3"]
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
    content = [TextPart("Now."), *map(CallPlace, places)]
    answer = Message("assistant", content, [call("add", id_, a=1) for id_ in ids])
    one = stage(tmp_path, play(main=[answer, "Done."]), tools=TOOLS)
    assert one.ask("Add.") == "Done."
    assert [row["content"] for row in one.rows(role="tool")] == ["2"] * len(ids)
    check_log(one.log)
    assert one.again().ask() == "Done."


def test_an_answer_that_cannot_be_logged_is_a_failed_call(tmp_path: Path) -> None:
    odd = TextPart("Hi.", {"score": float("nan")})
    one = stage(tmp_path, play(main=[Message("assistant", [odd])]))
    with pytest.raises(ModelError, match="plain JSON"):
        one.ask("hello")
    [response] = one.rows(event_type="llm_response")
    assert response["stop_reason"] == "error"
    assert one.again(play(main=["Hi."])).ask() == "Hi."


# Failing models


@pytest.mark.req("S4-04")
def test_a_failing_model_reaches_the_user_and_is_logged(tmp_path: Path) -> None:
    one = stage(tmp_path, play(main=[ModelError("no network")]))
    with pytest.raises(ModelError, match="no network"):
        one.ask("hello")
    [response] = one.rows(event_type="llm_response")
    assert response["stop_reason"] == "error"
    assert response["error"] == "no network"
    assert "entry" not in response


@pytest.mark.req("S4-04")
@pytest.mark.parametrize("error", [ConnectionError("reset"), KeyError("choices"), TimeoutError()])
def test_any_other_failure_in_a_model_is_a_model_error(tmp_path: Path, error: Exception) -> None:
    one = stage(tmp_path, play(main=[error]))
    with pytest.raises(ModelError, match=f"play: {type(error).__name__}") as raised:
        one.ask("hello")
    assert raised.value.__cause__ is error


@pytest.mark.req("S4-04")
@pytest.mark.parametrize("resumed", [False, True], ids=["live", "resumed"])
def test_a_retry_after_a_failed_model_call_repeats_nothing(tmp_path: Path, resumed: bool) -> None:
    done: list[int] = []

    @tool
    def effect(n: int) -> str:
        """Have an effect."""
        done.append(n)
        return f"did {n}"

    lines = [calls(call("effect", n=1)), calls(call("effect", n=2))]
    one = stage(tmp_path, play(main=[*lines, ModelError("no network")]), tools=[effect])
    with pytest.raises(ModelError):
        one.ask("Go.")
    better = play(main=[*lines, "Did 1 and 2."])
    if resumed:
        live = everything(one.session)
        one = one.again(better)
        assert everything(one.session) == live
    else:
        one.runtime.model.parts = better.parts  # type: ignore[union-attr]
    assert one.ask() == "Did 1 and 2."
    assert done == [1, 2]
    assert [row["content"] for row in one.rows(role="tool")] == ["did 1", "did 2"]
    check_log(one.log)


@pytest.mark.req("S4-04")
def test_a_subagents_failing_model_reaches_the_user_too(tmp_path: Path) -> None:
    model = play(
        main=[calls(call("task", name="Ann", prompt="Hi?")), "Ann was cut off."],
        Ann=[ModelError("overloaded"), "Hi."],
    )
    one = stage(tmp_path, model)
    with pytest.raises(ModelError, match="overloaded"):
        one.ask("Go.")
    check_log(one.log, finished=False)
    assert one.rows(role="tool") == []
    later = one.again()
    assert later.ask() == "Ann was cut off."
    assert later.result()["content"].startswith("Error: interrupted")
    check_log(later.log)


@pytest.mark.req("S4-04")
def test_a_stream_without_an_end_is_a_failure_that_keeps_what_arrived(tmp_path: Path) -> None:
    one = stage(tmp_path, play(main=[[TextDelta("I was about "), TextDelta("to")]]))
    with pytest.raises(ModelError, match="cut off"):
        one.ask("hello")
    [response] = one.rows(event_type="llm_response")
    assert response["partial"] == "I was about to"
    assert one.rows(role="assistant") == []


def test_a_stream_cut_off_in_a_call_runs_nothing(tmp_path: Path) -> None:
    cut = [CallDelta(0, '{"a": 1}', "c1", "add")]
    one = stage(tmp_path, play(main=[cut]), tools=TOOLS)
    with pytest.raises(ModelError):
        one.ask("Add.")
    assert one.rows(role="tool") == []
    assert one.again(play(main=["Nothing added."])).ask() == "Nothing added."


def test_a_script_without_a_rule_names_the_agent_and_the_text(tmp_path: Path) -> None:
    one = stage(tmp_path, ScriptedModel([{"agent": "Jack", "answer": "Hi."}]))
    with pytest.raises(ScriptError, match="answer 1 of main to 'hello'"):
        one.ask("hello")


def test_an_empty_answer_is_an_answer(tmp_path: Path) -> None:
    one = stage(tmp_path, play(main=[Message("assistant"), "Yes?"]))
    assert one.ask("hello") == ""
    assert one.ask("Anybody there?") == "Yes?"
    check_log(one.log)


def test_thinking_is_kept_and_not_said(tmp_path: Path) -> None:
    chunks: list[Chunk] = [ThinkingDelta("hm"), TextDelta("Hi."), Finish(stop_reason="end_turn")]
    one = stage(tmp_path, play(main=[chunks]))
    assert one.ask("hello") == "Hi."
    [row] = one.rows(role="assistant")
    assert [part["type"] for part in row["content"]] == ["thinking", "text"]


# Streaming


def test_pieces_of_an_answer_are_told_as_they_arrive_with_whose_they_are(tmp_path: Path) -> None:
    pieces: list[tuple[str, str]] = []
    model = play(
        main=[calls(call("task", name="Ann", prompt="Hi?")), "Ann said hi."], Ann=["Hi you."]
    )
    runtime = Runtime(
        model=model,
        on_chunk=lambda agent, chunk: (
            pieces.append((agent, getattr(chunk, "text", "")))
            if isinstance(chunk, TextDelta)
            else None
        ),
    )
    stage(tmp_path, model, runtime=runtime).ask("Go.")
    assert [agent for agent, _ in pieces] == ["agent_002"] * 2 + ["agent_001"] * 3
    assert "".join(text for _, text in pieces) == "Hi you.Ann said hi."


# Cancellation


class Hanging:
    """A model that says these chunks and then never ends."""

    name = "play"

    def __init__(self, *chunks: Chunk) -> None:
        self.chunks = chunks
        self.closed = False

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        try:
            for chunk in self.chunks:
                yield chunk
            await asyncio.Event().wait()
        finally:
            self.closed = True


async def cancelled(one: Stage, text: str, *, after: asyncio.Event | None = None) -> None:
    """Ask, and cancel when nothing moves any more (or after an event)."""
    task = asyncio.create_task(one.root.response(text))
    if after is not None:
        await after.wait()
    for _ in range(50):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_cancelled_answer_keeps_what_arrived_and_the_session_goes_on(tmp_path: Path) -> None:
    hanging = Hanging(TextDelta("One, two, "), TextDelta("three"))
    one = stage(tmp_path, hanging)
    run(cancelled(one, "Count."))
    assert hanging.closed
    [said] = one.rows(role="assistant")
    [response] = one.rows(event_type="llm_response")
    assert said["content"] == "One, two, three"
    assert (response["stop_reason"], response["entry"]) == ("cancelled", said["message_id"])
    later = one.again(play(main=["-", "Four."]))
    assert later.ask("Go on.") == "Four."
    check_log(later.log)


@pytest.mark.parametrize("resumed", [False, True], ids=["live", "resumed"])
def test_an_answer_that_was_cut_off_is_not_given_as_the_answer(
    tmp_path: Path, resumed: bool
) -> None:
    one = stage(tmp_path, Hanging(TextDelta("One, two")))
    run(cancelled(one, "Count to three."))
    better = play(main=["-", "One, two, three."])
    if resumed:
        one = one.again(better)
    else:
        one.session.live.clear()
        one = Stage(
            one.root.attached(one.session, one.root.state, Runtime(model=better)),
            one.session,
            one.runtime,
        )
    assert one.ask() == "One, two, three."
    assert "One, two" in told(better.asked[0])


@pytest.mark.parametrize(
    "chunks",
    [
        [],
        [ThinkingDelta("Let me see")],
        [ThinkingDelta("Let me see", {"signature": "s"}), TextDelta("  ")],
        [CallDelta(0, '{"a": ', "c1", "add")],
    ],
    ids=["nothing", "thinking", "blanks", "half a call"],
)
def test_a_cancelled_answer_without_text_leaves_no_entry(
    tmp_path: Path, chunks: Sequence[Chunk]
) -> None:
    one = stage(tmp_path, Hanging(*chunks))
    run(cancelled(one, "Count."))
    assert one.rows(role="assistant") == []
    [response] = one.rows(event_type="llm_response")
    assert response["stop_reason"] == "cancelled"
    assert one.again(play(main=["Three."])).ask() == "Three."
    check_log(one.log)


def test_a_cancelled_answer_keeps_its_text_and_drops_what_is_half(tmp_path: Path) -> None:
    chunks = [ThinkingDelta("hm"), TextDelta("I add."), CallDelta(0, '{"a', "c1", "add")]
    one = stage(tmp_path, Hanging(*chunks), tools=TOOLS)
    run(cancelled(one, "Add."))
    [said] = one.rows(role="assistant")
    assert said["content"] == "I add."
    assert "tool_calls" not in said


@pytest.mark.req("S0-32")
def test_a_cancelled_action_is_closed_before_the_next_request(tmp_path: Path) -> None:
    started = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        await asyncio.Event().wait()
        return "never"

    model = play(main=[calls(call("add", a=1), call("wait", "c2")), "It was stopped."])
    one = stage(tmp_path, model, tools=[add, wait])
    run(cancelled(one, "Wait.", after=started))
    assert one.ask("What happened?") == "It was stopped."
    assert one.result("c1")["content"] == "2"
    assert "may or may not have acted" in one.result("c2")["content"]
    assert "process" not in one.result("c2")["content"]
    check_log(one.log)


def test_a_whole_tree_can_be_cancelled_and_go_on(tmp_path: Path) -> None:
    started = asyncio.Event()

    async def hang(request: Request) -> str:
        started.set()
        await asyncio.Event().wait()
        return "never"

    model = play(
        main=[
            calls(
                call("task", name="Ann", prompt="Think."),
                call("task", "c2", name="Bob", prompt="Think."),
            ),
            "Both were cut off.",
        ],
        Ann=["A."],
        Bob=[hang],
    )
    one = stage(tmp_path, model)
    run(cancelled(one, "Go.", after=started))
    later = one.again()
    assert later.ask() == "Both were cut off."
    assert later.result("c1")["content"] == "A."
    assert later.result("c2")["content"].startswith("Error: interrupted")
    check_log(later.log)


def test_a_timeout_around_a_response_is_a_cancellation(tmp_path: Path) -> None:
    one = stage(tmp_path, Hanging(TextDelta("One")))

    async def limited() -> None:
        async with asyncio.timeout(0.01):
            await one.root.response("Count.")

    with pytest.raises(TimeoutError):
        run(limited())
    assert one.again(play(main=["-", "Two."])).ask("Go on.") == "Two."


def test_every_context_of_a_long_mixed_run_is_one_that_providers_take(tmp_path: Path) -> None:
    model = play(
        main=[
            calls(call("add", a=1), call("fail", "c2", why="x"), call("nope", "c3")),
            calls(call("task", name="Ann", prompt="Hi?"), call("add", "c2", a="x")),
            "Done.",
        ],
        Ann=[calls(call("dawdle")), "Hi."],
    )
    one = stage(tmp_path, model, tools=TOOLS)
    assert one.ask("Go.") == "Done."
    for request in model.asked:
        check_context(request.messages)


def test_models_may_be_async_functions(tmp_path: Path) -> None:
    async def answer(request: Request) -> Message:
        await asyncio.sleep(0)
        return Message("assistant", f"I am {request.agent}.")

    assert stage(tmp_path, FunctionModel(answer)).ask("Who?") == "I am main."


def test_a_call_without_arguments_takes_the_defaults(tmp_path: Path) -> None:
    @tool
    def ping(times: int = 2) -> str:
        """Ping."""
        return "ping" * times

    one = stage(
        tmp_path,
        play(main=[Message("assistant", None, [ToolCall("c1", FunctionCall("ping", ""))]), "Ok."]),
        tools=[ping],
    )
    assert one.ask("Ping.") == "Ok."
    assert one.result()["content"] == "pingping"
