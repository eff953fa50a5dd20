"""Model calls: those that fail, those that stream, those that are cancelled."""

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from harken import AgentRuntime, FunctionModel, ScriptedModel, tool
from harken.agents.open_calls import has_open_calls
from harken.agents.runtime import Observers
from harken.core.events import Usage
from harken.core.messages import FunctionCall, Message, ToolCall
from harken.core.stream import Chunk, Finish, TextDelta, ThinkingDelta, ToolCallDelta
from harken.errors import ConfigError, ModelError, ScriptError
from harken.llm.base import ModelRequest
from tests.agent_kit import (
    Stage,
    call,
    call_message,
    check_context,
    check_log,
    fails_once,
    full_state,
    open_stage,
    request_texts,
    run,
    script_model,
)
from tests.unit.agents.tool_kit import TOOLS, add


@pytest.mark.req("S4-04")
def test_a_failing_model_reaches_the_user_and_is_logged(tmp_path: Path) -> None:
    one = open_stage(tmp_path, script_model(main=[ModelError("no network")]))
    with pytest.raises(ModelError, match="no network"):
        one.ask("hello")
    [response] = one.select_lines(event_type="llm_response")
    assert response["stop_reason"] == "error"
    assert response["error"] == "no network"
    assert "entry" not in response


@pytest.mark.req("S4-04")
@pytest.mark.parametrize("error", [ConnectionError("reset"), KeyError("choices"), TimeoutError()])
def test_any_other_failure_in_a_model_is_a_model_error(tmp_path: Path, error: Exception) -> None:
    one = open_stage(tmp_path, script_model(main=[error]))
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

    lines = [call_message(call("effect", n=1)), call_message(call("effect", n=2))]
    one = open_stage(
        tmp_path, script_model(main=[*lines, ModelError("no network")]), tools=[effect]
    )
    with pytest.raises(ModelError):
        one.ask("Go.")
    better = script_model(main=[*lines, "Did 1 and 2."])
    if resumed:
        live = full_state(one.session)
        one = one.resume(better)
        assert full_state(one.session) == live
    else:
        one.runtime.model.answers = better.answers  # type: ignore[union-attr]
    assert one.ask() == "Did 1 and 2."
    assert done == [1, 2]
    assert [row["content"] for row in one.select_lines(role="tool")] == ["did 1", "did 2"]
    check_log(one.log)


@pytest.mark.req("S4-04")
def test_a_subagents_failing_model_reaches_the_user_too(tmp_path: Path) -> None:
    model = script_model(
        main=[call_message(call("task", name="Ann", prompt="Hi?")), "Ann said hi."],
        Ann=[fails_once("Hi.")],
    )
    one = open_stage(tmp_path, model)
    with pytest.raises(ModelError, match="overloaded"):
        one.ask("Go.")
    check_log(one.log, finished=False)
    assert one.select_lines(role="tool") == []
    later = one.resume()
    assert later.ask() == "Ann said hi."
    assert later.result()["content"] == "Hi."
    check_log(later.log)


@pytest.mark.req("S4-04")
def test_a_stream_without_an_end_is_a_failure_that_keeps_what_arrived(tmp_path: Path) -> None:
    one = open_stage(tmp_path, script_model(main=[[TextDelta("I was about "), TextDelta("to")]]))
    with pytest.raises(ModelError, match="cut off"):
        one.ask("hello")
    [response] = one.select_lines(event_type="llm_response")
    assert response["partial"] == "I was about to"
    assert one.select_lines(role="assistant") == []


def test_a_failed_answer_keeps_its_thinking_and_its_text(tmp_path: Path) -> None:
    one = open_stage(tmp_path, script_model(main=[[ThinkingDelta("hm"), TextDelta("I was")]]))
    with pytest.raises(ModelError, match="cut off"):
        one.ask("hello")
    [response] = one.select_lines(event_type="llm_response")
    assert response["partial"] == "[thinking]\nhm\n[answer]\nI was"


def test_a_stream_cut_off_in_a_call_runs_nothing(tmp_path: Path) -> None:
    cut = [ToolCallDelta(0, '{"a": 1}', "c1", "add")]
    one = open_stage(tmp_path, script_model(main=[cut]), tools=TOOLS)
    with pytest.raises(ModelError):
        one.ask("Add.")
    assert one.select_lines(role="tool") == []
    assert one.resume(script_model(main=["Nothing added."])).ask() == "Nothing added."


def test_a_script_without_a_rule_names_the_agent_and_the_text(tmp_path: Path) -> None:
    one = open_stage(tmp_path, ScriptedModel([{"agent": "Jack", "answer": "Hi."}]))
    with pytest.raises(ScriptError, match="answer 1 of main to 'hello'"):
        one.ask("hello")


@pytest.mark.parametrize("answer", [Message("assistant"), " \n", [ThinkingDelta("hm")]])
def test_a_blank_answer_is_a_failed_call(tmp_path: Path, answer: Any) -> None:
    end = [Finish(stop_reason="end_turn")] if isinstance(answer, list) else []
    one = open_stage(tmp_path, script_model(main=[[*answer, *end] if end else answer]))
    with pytest.raises(ModelError, match="play returned an empty answer"):
        one.ask("hello")
    assert one.select_lines(role="assistant") == []
    assert one.select_lines(event_type="llm_response")[0]["stop_reason"] == "error"


def test_an_impossible_usage_is_not_known(tmp_path: Path) -> None:
    usage = Usage(input_tokens=-1, output_tokens=2)
    finish = Finish(stop_reason="end_turn", usage=usage, cost_usd=math.nan)
    one = open_stage(tmp_path, script_model(main=[[TextDelta("Hi."), finish]]))
    assert one.ask("hello") == "Hi."
    [response] = one.select_lines(event_type="llm_response")
    assert response["usage"] == {"output_tokens": 2}
    assert "cost_usd" not in response


def test_who_has_heard_nothing_is_not_asked(tmp_path: Path) -> None:
    one = open_stage(tmp_path, script_model(main=["Hi."]), system_prompt=None)
    with pytest.raises(ConfigError, match="main has no messages yet"):
        one.ask()
    assert one.ask("hello") == "Hi."


def test_thinking_is_kept_and_not_said(tmp_path: Path) -> None:
    chunks: list[Chunk] = [ThinkingDelta("hm"), TextDelta("Hi."), Finish(stop_reason="end_turn")]
    one = open_stage(tmp_path, script_model(main=[chunks]))
    assert one.ask("hello") == "Hi."
    [row] = one.select_lines(role="assistant")
    assert [part["type"] for part in row["content"]] == ["thinking", "text"]


def test_pieces_of_an_answer_are_told_as_they_arrive_with_whose_they_are(tmp_path: Path) -> None:
    pieces: list[tuple[str, str]] = []
    model = script_model(
        main=[call_message(call("task", name="Ann", prompt="Hi?")), "Ann said hi."], Ann=["Hi you."]
    )
    runtime = AgentRuntime(
        model=model,
        observers=Observers(
            on_chunk=lambda agent, chunk: (
                pieces.append((agent, getattr(chunk, "text", "")))
                if isinstance(chunk, TextDelta)
                else None
            )
        ),
    )
    open_stage(tmp_path, model, runtime=runtime).ask("Go.")
    assert [agent for agent, _ in pieces] == ["agent_002"] * 2 + ["agent_001"] * 3
    assert "".join(text for _, text in pieces) == "Hi you.Ann said hi."


class Hanging:
    """A model that says these chunks and then never ends."""

    name = "play"

    def __init__(self, *chunks: Chunk) -> None:
        self.chunks = chunks
        self.closed = False
        self.reached = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        try:
            for chunk in self.chunks:
                yield chunk
            self.reached.set()
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
    one = open_stage(tmp_path, hanging)
    run(cancelled(one, "Count."))
    assert hanging.closed
    [said] = one.select_lines(role="assistant")
    [response] = one.select_lines(event_type="llm_response")
    assert said["content"] == "One, two, three"
    assert (response["stop_reason"], response["entry"]) == ("cancelled", said["message_id"])
    later = one.resume(script_model(main=["-", "Four."]))
    assert later.ask("Go on.") == "Four."
    check_log(later.log)


@pytest.mark.parametrize("resumed", [False, True], ids=["live", "resumed"])
def test_an_answer_that_was_cut_off_is_not_given_as_the_answer(
    tmp_path: Path, resumed: bool
) -> None:
    one = open_stage(tmp_path, Hanging(TextDelta("One, two")))
    run(cancelled(one, "Count to three."))
    better = script_model(main=["-", "One, two, three."])
    if resumed:
        one = one.resume(better)
    else:
        one.session.live.clear()
        one = Stage(
            one.root._from_state(one.session, one.root.state, AgentRuntime(model=better)),
            one.session,
            one.runtime,
        )
    assert one.ask() == "One, two, three."
    assert "One, two" in request_texts(better.requests[0])


@pytest.mark.parametrize(
    "chunks",
    [
        [],
        [ThinkingDelta("Let me see")],
        [ThinkingDelta("Let me see", {"signature": "s"}), TextDelta("  ")],
        [ToolCallDelta(0, '{"a": ', "c1", "add")],
    ],
    ids=["nothing", "thinking", "blanks", "half a call"],
)
def test_a_cancelled_answer_without_text_leaves_no_entry(
    tmp_path: Path, chunks: Sequence[Chunk]
) -> None:
    one = open_stage(tmp_path, Hanging(*chunks))
    run(cancelled(one, "Count."))
    assert one.select_lines(role="assistant") == []
    [response] = one.select_lines(event_type="llm_response")
    assert response["stop_reason"] == "cancelled"
    thought = any(isinstance(chunk, ThinkingDelta) for chunk in chunks)
    assert response.get("partial") == ("[thinking]\nLet me see" if thought else None)
    assert one.resume(script_model(main=["Three."])).ask() == "Three."
    check_log(one.log)


def test_a_cancelled_answer_keeps_its_text_and_drops_what_is_half(tmp_path: Path) -> None:
    hanging = Hanging(
        ThinkingDelta("hm"), TextDelta("I add."), ToolCallDelta(0, '{"a', "c1", "add")
    )
    one = open_stage(tmp_path, hanging, tools=TOOLS)
    run(cancelled(one, "Add."))
    [said] = one.select_lines(role="assistant")
    assert said["content"] == "I add."
    assert "tool_calls" not in said
    [response] = one.select_lines(event_type="llm_response")
    assert response["partial"] == "[thinking]\nhm"  # the text is in the entry


@pytest.mark.req("S0-32")
def test_a_cancelled_action_is_closed_before_the_next_request(tmp_path: Path) -> None:
    started = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        await asyncio.Event().wait()
        return "never"

    model = script_model(
        main=[call_message(call("add", a=1), call("wait", "c2")), "It was stopped."]
    )
    one = open_stage(tmp_path, model, tools=[add, wait])
    run(cancelled(one, "Wait.", after=started))
    assert one.ask("What happened?") == "It was stopped."
    assert one.result("c1")["content"] == "2"
    assert "may or may not have acted" in one.result("c2")["content"]
    assert "process" not in one.result("c2")["content"]
    check_log(one.log)


@pytest.mark.req("S0-32", "S4-19")
def test_what_had_finished_beside_a_cancelled_call_keeps_its_result(tmp_path: Path) -> None:
    started = asyncio.Event()

    async def hang(request: ModelRequest) -> str:
        started.set()
        await asyncio.Event().wait()
        return "never"

    @tool
    async def work() -> str:
        """Work."""
        return "worked"

    made = call_message(call("task", name="Ann", prompt="Think."), call("work", "c2"))
    one = open_stage(
        tmp_path, script_model(main=[made, "Ann was cut off."], Ann=[hang]), tools=[work]
    )
    run(cancelled(one, "Go.", after=started))
    assert one.result("c2")["content"] == "worked"
    assert one.ask("Well?") == "Ann was cut off."
    assert one.result("c1")["content"].startswith("Error: interrupted")
    check_log(one.log)


def test_a_whole_tree_can_be_cancelled_and_go_on(tmp_path: Path) -> None:
    started = asyncio.Event()

    async def hang(request: ModelRequest) -> str:
        started.set()
        await asyncio.Event().wait()
        return "never"

    model = script_model(
        main=[
            call_message(
                call("task", name="Ann", prompt="Think."),
                call("task", "c2", name="Bob", prompt="Think."),
            ),
            "Both were cut off.",
        ],
        Ann=["A."],
        Bob=[hang],
    )
    one = open_stage(tmp_path, model)
    run(cancelled(one, "Go.", after=started))
    later = one.resume()
    assert later.ask("Never mind.") == "Both were cut off."
    assert later.result("c1")["content"] == "A."
    assert later.result("c2")["content"].startswith("Error: interrupted")
    check_log(later.log)


@pytest.mark.req("S0-32")
def test_who_was_cut_off_while_speaking_had_not_spoken(tmp_path: Path) -> None:
    model = script_model(
        main=[
            call_message(call("task", "t1", name="Ann"), call("task", "t2", name="Bob")),
            call_message(call("discuss", prompt="Talk.", speakers=["Ann", "Bob"])),
            "They were cut off.",
        ],
        Ann=["A."],
    )
    hanging = Hanging(TextDelta("I think that"))

    class Either:
        name = "play"

        def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
            return (hanging if request.agent == "Bob" else model).stream(request)

    one = open_stage(tmp_path, Either())
    run(cancelled(one, "Go.", after=hanging.reached))
    assert one.select_lines(content="I think that", agent_id=one.id_of("Bob"))
    assert one.ask("Well?") == "They were cut off."
    assert one.result()["content"].endswith("Had spoken: Ann. Had not: Bob.")
    check_log(one.log)


def test_a_timeout_around_a_response_is_a_cancellation(tmp_path: Path) -> None:
    one = open_stage(tmp_path, Hanging(TextDelta("One")))

    async def limited() -> None:
        async with asyncio.timeout(0.01):
            await one.root.response("Count.")

    with pytest.raises(TimeoutError):
        run(limited())
    assert one.resume(script_model(main=["-", "Two."])).ask("Go on.") == "Two."


def test_every_context_of_a_long_mixed_run_is_one_that_providers_take(tmp_path: Path) -> None:
    model = script_model(
        main=[
            call_message(call("add", a=1), call("fail", "c2", why="x"), call("nope", "c3")),
            call_message(call("task", name="Ann", prompt="Hi?"), call("add", "c2", a="x")),
            "Done.",
        ],
        Ann=[call_message(call("dawdle")), "Hi."],
    )
    one = open_stage(tmp_path, model, tools=TOOLS)
    assert one.ask("Go.") == "Done."
    for request in model.requests:
        check_context(request.messages)


def test_models_may_be_async_functions(tmp_path: Path) -> None:
    async def answer(request: ModelRequest) -> Message:
        await asyncio.sleep(0)
        return Message("assistant", f"I am {request.agent}.")

    assert open_stage(tmp_path, FunctionModel(answer)).ask("Who?") == "I am main."


def test_a_call_without_arguments_takes_the_defaults(tmp_path: Path) -> None:
    @tool
    def ping(times: int = 2) -> str:
        """Ping."""
        return "ping" * times

    one = open_stage(
        tmp_path,
        script_model(
            main=[Message("assistant", None, [ToolCall("c1", FunctionCall("ping", ""))]), "Ok."]
        ),
        tools=[ping],
    )
    assert one.ask("Ping.") == "Ok."
    assert one.result()["content"] == "pingping"


@pytest.mark.req("S4-04")
@pytest.mark.parametrize("arguments", ["", "{}", '{"a": 1, "b'])
@pytest.mark.parametrize("reason", ["max_tokens", "length"])
def test_half_a_call_is_not_run_and_the_model_is_told_so(
    tmp_path: Path, arguments: str, reason: str
) -> None:
    """What a tool does without arguments may be the opposite of what was meant."""
    done: list[int] = []

    @tool
    def remove(only: int = 0) -> str:
        """Remove one, or all."""
        done.append(only)
        return f"removed {only or 'all'}"

    def answer(request: ModelRequest) -> list[Chunk] | str:
        if request.messages[-1].role == "tool":
            return "Removed one."
        first = ToolCallDelta(0, '{"only": 1}', "c1", "remove")
        return [first, ToolCallDelta(1, arguments, "c2", "remove"), Finish(stop_reason=reason)]

    one = open_stage(tmp_path, FunctionModel(answer), tools=[remove])
    assert one.ask("Remove some.") == "Removed one."
    assert done == [1]
    whole, half = [row for row in one.root.transcript if row["role"] == "tool"]
    assert (whole["content"], half["tool_call_id"], half["is_error"]) == ("removed 1", "c2", True)
    assert "greatest length" in half["content"]
    check_log(one.log)


def test_a_call_id_of_a_model_never_looks_like_that_of_code(tmp_path: Path) -> None:
    @tool(reads_only=True)
    async def look() -> str:
        """Look."""
        return "seen"

    model = script_model(main=[call_message(call("look", "code_7")), "Seen."])
    one = open_stage(tmp_path, model, tools=[look])
    assert one.ask("Look.") == "Seen."
    [row] = [row for row in one.select_lines(role="assistant") if "tool_calls" in row]
    assert not row["tool_calls"][0]["id"].startswith("code_")
    assert has_open_calls(one.root) is False
    check_log(one.log)
