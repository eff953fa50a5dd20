"""A resume goes on where a crash cut a session off, and closes the calls that may have acted."""

from pathlib import Path
from typing import Any

import pytest

from harken import Deny, FunctionModel, Hook, HookQuestion, Ok, Tool, register_agent_class, tool
from harken.agents.open_calls import has_open_calls
from harken.core.messages import Message, ToolCall
from harken.errors import ModelError
from harken.llm.base import ModelRequest
from harken.session.log.checksum import has_more
from tests.agent_kit import (
    ScriptModel,
    Stage,
    call,
    call_message,
    check_log,
    fails_once,
    full_state,
    open_stage,
    request_texts,
    script_model,
)
from tests.session_kit import read_lines
from tests.unit.agents.crash_kit import cut_after, resume
from tests.unit.agents.hook_kit import watch


@tool
def pay() -> str:
    """Pay."""
    raise AssertionError("it must not run again")


@tool(name="pay")
def harmless_pay() -> str:
    """Pay."""
    return "paid"


def dangling(folder: Path, *made: ToolCall, started: bool = True, **more: Any) -> Path:
    """Return a log that ends with calls in progress.

    started: the first call of `pay` had begun to act.
    """

    model = script_model(main=[call_message(*made), "-"])
    one = open_stage(folder, model, tools=[harmless_pay], **more)
    one.ask("Pay.")
    kinds = [row["event_type"] for row in one.select_lines()]
    one.session.close()
    return cut_after(one.log, kinds.index("action_started" if started else "llm_response") + 1)


@pytest.mark.req("S0-32")
def test_a_call_that_may_have_acted_gets_a_result_that_says_so_and_is_not_run(
    tmp_path: Path,
) -> None:
    model = script_model(main=["-", "I will check."])
    later = resume(dangling(tmp_path, call("pay")), model, pay)
    result = later.result()
    assert result["content"].startswith("Error: interrupted")
    assert "may or may not have acted" in result["content"]
    assert (result["is_error"], result["name"], result["closed"]) == (True, "pay", "interrupted")
    assert later.ask() == "I will check."
    assert request_texts(model.requests[0])[-1] == result["content"]
    check_log(later.log)


@pytest.mark.req("S0-32")
@pytest.mark.parametrize("text", [None, "Never mind."])
def test_a_call_that_had_not_begun_to_act_goes_on_unless_the_turn_is_given_up(
    tmp_path: Path, text: str | None
) -> None:
    paid: list[int] = []

    @tool(name="pay")
    def pay_once() -> str:
        """Pay."""
        paid.append(1)
        return "paid"

    later = resume(
        dangling(tmp_path, call("pay"), started=False), script_model(main=["-", "Ok."]), pay_once
    )
    assert list(later.root.state.open_calls) == ["c1"]
    assert later.ask(text) == "Ok."
    if text is None:
        assert (later.result()["content"], paid) == ("paid", [1])
    else:
        assert (later.result()["closed"], paid) == ("not_run", [])
    check_log(later.log)


@pytest.mark.req("S0-32")
def test_of_several_calls_each_gets_exactly_one_result(tmp_path: Path) -> None:
    log = dangling(tmp_path, call("pay", "c1"), call("pay", "c2"), call("nope", "c3"))
    later = resume(log, script_model(main=["-", "I will check."]), harmless_pay)
    assert later.ask() == "I will check."
    results = [(row["tool_call_id"], row.get("closed")) for row in later.select_lines(role="tool")]
    assert results == [("c1", "interrupted"), ("c2", None), ("c3", "refused")]
    check_log(later.log)


@pytest.mark.req("S0-32")
def test_resuming_twice_closes_a_call_once(tmp_path: Path) -> None:
    later = resume(dangling(tmp_path, call("pay")), script_model(main=["-", "Ok."]), pay)
    again = later.resume()
    assert len(again.select_lines(role="tool")) == 1
    assert again.ask() == "Ok."


@pytest.mark.req("S0-32")
@pytest.mark.parametrize("made", [call("", "c1"), call("pay", "")], ids=["no name", "no id"])
def test_odd_calls_do_not_hinder_a_resume(tmp_path: Path, made: ToolCall) -> None:
    log = dangling(tmp_path, made, started=False)
    later = resume(log, script_model(main=["-", "Ok."]), harmless_pay)
    assert later.ask() == "Ok."
    check_log(later.log)


@pytest.mark.req("S0-32")
def test_a_model_call_that_was_cut_off_is_noted_and_made_again(tmp_path: Path) -> None:
    one = open_stage(tmp_path, script_model(main=["Hi."]))
    at: list[int] = []
    one.session.add_listener(lambda _: at.append(len(read_lines(one.log))))
    one.ask("hello")
    kinds = [row["event_type"] for row in one.select_lines()]
    one.session.close()
    cut = cut_after(one.log, kinds.index("llm_request") + 1)
    later = resume(cut, script_model(main=["Hi."]))
    [response] = later.select_lines(event_type="llm_response")
    assert response["stop_reason"] == "interrupted"
    assert later.ask() == "Hi."
    assert [row["content"] for row in later.select_lines(role="assistant")] == ["Hi."]


def counting() -> tuple[Tool, Tool, list[str]]:
    """Return a tool that may be run again, one that reads only, and what they did."""
    done: list[str] = []

    @tool(idempotent=True)
    async def save(text: str) -> str:
        """Save; twice is as good as once."""
        done.append(text)
        return f"saved {text}"

    @tool(reads_only=True)
    async def read() -> str:
        """Read."""
        done.append("read")
        return "read it"

    return save, read, done


@pytest.mark.req("S0-32")
@pytest.mark.parametrize("text", [None, "Go on."], ids=["at once", "with a new input"])
def test_tools_that_may_be_run_again_simply_are(tmp_path: Path, text: str | None) -> None:
    save, read, done = counting()
    log = dangling(tmp_path, call("pay", "c2"), call("save", "c1", text="a"), call("read", "c3"))
    model = script_model(main=["-", "All there."])
    later = resume(log, model, save, read, pay)
    assert done == []
    assert later.ask(text) == "All there."
    assert done == ["a", "read"]
    assert later.result("c1")["content"] == "saved a"
    assert later.result("c3")["content"] == "read it"
    assert later.result("c2")["content"].startswith("Error: interrupted")
    assert request_texts(model.requests[0])[-1] == (text or "read it")
    check_log(later.log)


@pytest.mark.req("S0-32")
def test_a_call_of_a_tool_that_is_gone_is_refused(tmp_path: Path) -> None:
    log = dangling(tmp_path, call("save", text="a"), started=False)
    later = resume(log, script_model(main=["-", "Ok."]), pay)
    assert later.ask() == "Ok."
    assert later.result()["closed"] == "refused"


@pytest.mark.req("S0-32")
def test_a_subagents_tool_that_may_be_run_again_is_when_it_is_talked_with(tmp_path: Path) -> None:
    save, read, done = counting()
    parts: dict[str, Any] = {
        "main": [
            call_message(call("task", "t", name="Ann", prompt="Save.")),
            call_message(call("discuss", "d", prompt="Did you?")),
            "Done.",
        ],
        "Ann": [call_message(call("save", text="a")), "I did."],
    }
    one = open_stage(tmp_path, ScriptModel(parts), tools=[save, read])
    one.ask("Go.")
    kinds = [row.get("tool_calls", [{}])[0].get("id") for row in one.select_lines()]
    one.session.close()
    done.clear()
    later = resume(cut_after(one.log, kinds.index("c1") + 2), ScriptModel(parts), save, read)
    assert later.ask() == "Done."
    assert done == ["a"]
    assert later.result("c1", "Ann")["content"] == "saved a"
    assert later.result("t")["content"] == "I did."
    check_log(later.log)


def scene(folder: Path, *steps: ToolCall, **parts: Any) -> Stage:
    every: dict[str, Any] = {
        name: [f"{name} {n}" for n in range(5)] for name in ("Jack", "Jill", "Joe")
    }
    made = call_message(*(call("task", f"t{name}", name=name) for name in every))
    return open_stage(
        folder, script_model(main=[made, call_message(*steps), "It goes on."], **{**every, **parts})
    )


def discussing(folder: Path, speakers: list[str] | None, jack: Any, jill: Any) -> Stage:
    named = {"speakers": speakers} if speakers else {}
    model = script_model(
        main=[
            call_message(call("task", "t1", name="Jack"), call("task", "t2", name="Jill")),
            call_message(call("discuss", "d0", prompt="Warm up.", speakers=["Jack", "Jill"])),
            call_message(call("discuss", prompt="Talk.", **named)),
            "It goes on.",
        ],
        Jack=["Warm.", *jack],
        Jill=["Warm.", *jill],
    )
    return open_stage(folder, model)


@pytest.mark.req("S0-32", "S4-04")
@pytest.mark.parametrize("speakers", [["Jack", "Jill"], None], ids=["named", "default"])
@pytest.mark.parametrize("resumed", [False, True], ids=["live", "resumed"])
@pytest.mark.parametrize("failing", ["Jack", "Jill"])
def test_a_discussion_goes_on_with_the_speaker_whose_model_failed(
    tmp_path: Path, speakers: list[str] | None, resumed: bool, failing: str
) -> None:
    jack = fails_once("J.") if failing == "Jack" else "J."
    jill = fails_once("K.") if failing == "Jill" else "K."
    one = discussing(tmp_path, speakers, [jack], [jill])
    with pytest.raises(ModelError):
        one.ask("Go.")
    if resumed:
        one = one.resume()
    assert one.ask() == "It goes on."
    assert one.result()["content"] == "[Jack]: J.\n\n[Jill]: K."
    assert one.user_messages("Jack")[-2:] == ["Talk.", "[Jill]: K."]
    assert one.user_messages("Jill")[-2:] == ["Talk.", "[Jack]: J."]
    check_log(one.log)


@pytest.mark.req("S0-32")
@pytest.mark.parametrize("resumed", [False, True], ids=["live", "resumed"])
@pytest.mark.parametrize(
    ("jack", "jill", "progress"),
    [
        ([ModelError("x")], [], "Had spoken: nobody. Had not: Jack, Jill."),
        (["J."], [ModelError("x")], "Had spoken: Jack. Had not: Jill."),
    ],
    ids=["no speaker", "one speaker"],
)
def test_another_input_gives_a_discussion_up(
    tmp_path: Path, resumed: bool, jack: Any, jill: Any, progress: str
) -> None:
    one = discussing(tmp_path, ["Jack", "Jill"], jack, jill)
    with pytest.raises(ModelError):
        one.ask("Go.")
    if resumed:
        one = one.resume()
    assert one.ask("Never mind.") == "It goes on."
    result = one.result()
    assert result["content"].startswith("Error: interrupted")
    assert result["content"].endswith(progress)
    assert result["closed"] == "interrupted"
    check_log(one.log)


@pytest.mark.req("S0-32")
def test_two_discussions_that_were_given_up_are_told_apart(tmp_path: Path) -> None:
    one = scene(
        tmp_path,
        call("discuss", "c1", prompt="A", speakers=["Jack"]),
        call("discuss", "c2", prompt="B", speakers=["Jill", "Joe"]),
        Jack=[ModelError("x")],
        Joe=[ModelError("x")],
    )
    with pytest.raises(ModelError):
        one.ask("Go.")
    later = one.resume()
    later.ask("Never mind.")
    assert later.result("c1")["content"].endswith("Had spoken: nobody. Had not: Jack.")
    assert later.result("c2")["content"].endswith("Had spoken: Jill. Had not: Joe.")


def test_a_task_that_was_cut_off_goes_on(tmp_path: Path) -> None:
    parts: dict[str, Any] = {
        "main": [
            call_message(call("task", name="Ann", instructions="You are Ann.", prompt="Hi?")),
            "It goes on.",
        ],
        "Ann": ["Hi."],
    }
    one = open_stage(tmp_path, ScriptModel(parts))
    one.ask("Go.")
    rows = one.select_lines()
    one.session.close()
    first = next(at for at, row in enumerate(rows) if "tool_calls" in row)
    last = next(at for at, row in enumerate(rows) if row.get("role") == "tool")
    for count in range(first + 2, last + 1):  # the call and its response are one group
        later = resume(cut_after(one.log, count), ScriptModel(parts))
        assert later.ask() == "It goes on."
        assert later.result()["content"] == "Hi."
        there = [agent.transcript[0]["content"] for agent in later.root.subagents.values()]
        assert there == ["You are Ann."]
        check_log(later.log)


@pytest.mark.req("S0-32", "S4-04", "S4-18")
def test_a_discussion_cut_anywhere_gives_the_uncut_results(tmp_path: Path) -> None:
    """Three tasks in one message and a discussion of three, cut after each group of events."""

    def answer(request: ModelRequest) -> Message:
        if request.agent != "main":
            return Message("assistant", f"I am {request.agent}, {len(request.messages)} read")
        steps = [
            call_message(
                *(
                    call("task", f"t{name}", name=name, instructions=f"You are {name}")
                    for name in "ABC"
                )
            ),
            call_message(call("discuss", "d", prompt="Talk.", speakers=["A", "B", "C"])),
            Message("assistant", "End."),
        ]
        return steps[sum(message.role == "assistant" for message in request.messages)]

    def results(stage: Stage) -> list[tuple[str, str]]:
        return [(row["name"], row["content"]) for row in stage.select_lines(role="tool")]

    one = open_stage(tmp_path, FunctionModel(answer, "m"))
    first = len(one.select_lines()) + 1
    assert one.ask("Go.") == "End."
    one.session.close()
    lines = one.log.read_bytes().splitlines(keepends=True)
    cuts = [count for count in range(first, len(lines) + 1) if not has_more(lines[count - 1])]
    assert len(cuts) > 20
    for count in cuts:
        later = resume(cut_after(one.log, count), FunctionModel(answer, "m"))
        if has_open_calls(later.root):
            assert later.ask() == "End."
        assert results(later) == results(one), count
        check_log(later.log)


@register_agent_class("test-watcher")
class Watcher(Hook):
    """Lets everything pass."""

    def judge(self, question: HookQuestion) -> Ok:
        return Ok()


def test_a_subagent_is_never_left_without_its_parents_guards(tmp_path: Path) -> None:
    """A crash between a birth and the copies of the hooks must not make a free agent."""
    parts: dict[str, Any] = {
        "main": [call_message(call("task", name="Ann")), "Done."],
        "Ann": ["Hi."],
    }
    one = open_stage(tmp_path, ScriptModel(parts))
    for name in ("first", "second"):
        Watcher(one.session, runtime=one.runtime).install(one.root, name)
    one.ask("Go.")
    total = len(one.select_lines())
    one.session.close()
    created = 0
    for count in range(1, total):
        later = resume(cut_after(one.log, count), ScriptModel(parts))
        for agent in later.root.subagents.values():
            created += 1
            assert [hook.name for hook in agent.hooks] == ["first", "second"]
    assert created


@pytest.mark.req("S0-32")
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_root_is_born_with_its_system_prompt(tmp_path: Path, count: int) -> None:
    one = open_stage(tmp_path, script_model(), system_prompt="You are main.")
    one.session.close()
    cut = cut_after(one.log, count)
    model = script_model(main=["Hi."])
    later = resume(cut, model, system_prompt="You are main.", name="main")
    assert later.ask("hello") == "Hi."
    assert [m["content"] for m in later.root.transcript] == ["You are main.", "hello", "Hi."]


@pytest.mark.req("S0-32", "S4-04")
def test_after_a_crash_at_any_event_the_session_ends_as_it_would_have(tmp_path: Path) -> None:
    """Cut the log of a busy run after every line; each cut resumes, and asks nothing twice."""

    def main(request: Any) -> Any:
        texts = " ".join(request_texts(request))
        for name in ("Ann", "Bob"):
            made = f"Created subagent: {name}" in texts or f"Subagent {name} was created" in texts
            if not (made or f"subagent '{name}' exists" in texts):
                return call_message(
                    call("task", f"t{name}", name=name, instructions=f"You are {name}.")
                )
        if "[Bob]: B." not in texts:
            return call_message(call("discuss", "d", prompt="Talk.", speakers=["Ann", "Bob"]))
        return "They talked."

    parts: dict[str, Any] = {
        "main": [main] * 20,
        "Ann": [call_message(call("look", "l")), *["A."] * 20],
        "Bob": ["B."] * 20,
    }

    @tool(reads_only=True)
    async def look() -> str:
        """Look."""
        return "seen"

    one = open_stage(tmp_path, ScriptModel(parts), tools=[look])
    assert one.ask("Go.") == "They talked."
    total = len(one.select_lines())
    one.session.close()
    for count in range(1, total + 1):
        later = resume(
            cut_after(one.log, count),
            ScriptModel(parts),
            look,
            system_prompt="You are main.",
            name="main",
        )
        heard = bool(later.user_messages("main"))
        assert later.ask(None if heard else "Go.") == "They talked.", count
        for agent in later.root.subagents.values():
            assert agent.transcript[0]["content"] == f"You are {agent.name}."
        check_log(later.log)
        live = full_state(later.session)
        assert full_state(later.resume().session) == live
        later.session.close()


def test_models_may_be_functions_with_a_name_that_survives(tmp_path: Path) -> None:
    one = open_stage(tmp_path, FunctionModel(lambda _: "Hi.", name="mine"))
    one.ask("hello")
    assert one.resume(FunctionModel(lambda _: "Ho.", name="mine")).ask("hello") == "Ho."
    assert len(one.select_lines(event_type="agent_configured")) == 0


def test_a_hook_that_came_later_does_not_judge_a_call_that_goes_on(tmp_path: Path) -> None:
    model = script_model(
        main=[call_message(call("task", "t", name="Ann", prompt="Hi?")), "Done."],
        Ann=[fails_once("Hi.")],
    )
    one = open_stage(tmp_path, model)
    with pytest.raises(ModelError):
        one.ask("Go.")
    watch(one, action=lambda _: Deny("no"))
    assert one.ask() == "Done."
    assert one.result("t")["content"] == "Hi."
    check_log(one.log)
