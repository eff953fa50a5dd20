from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harken import AgentRuntime, Deny, LocalWorld, SessionViewer, Tool, tool
from harken.core.messages import FunctionCall
from harken.experiments.replay.recorded_calls import RecordedCalls, call_key
from harken.experiments.replay.recorded_world import RecordedWorld, recorded_tools
from harken.world.ask_user import ask_user
from harken.world.permissions.permissions import Permissions
from harken.world.tool import ToolContext
from tests.agent_kit import (
    ScriptedAnswer,
    ScriptModel,
    Stage,
    call,
    call_message,
    check_log,
    open_stage,
    raw_call,
    script_model,
)
from tests.unit.agents.hooking import watch
from tests.unit.world.permissions.people import NO, YES, Person


def recorded(log: Path) -> RecordedCalls:
    return RecordedCalls.of(SessionViewer(log).events)


def counter() -> tuple[Tool, list[str]]:
    ran: list[str] = []

    @tool
    def count(what: str) -> str:
        """Count."""
        ran.append(what)
        return f"{what} {len(ran)}"

    return count, ran


def again(
    folder: Path, one: Stage, model: ScriptModel, *more: Tool, live: LocalWorld | None = None
) -> Stage:
    """Begin another session, in a world that answers as that of `one` did."""
    one.session.close()
    world = RecordedWorld(recorded(one.log), tools=more, live=live)
    folder.mkdir()
    return open_stage(folder, model, runtime=AgentRuntime(model=model, world=world))


def results(one: Stage) -> list[tuple[Any, Any]]:
    return [(row["content"], row.get("is_error")) for row in one.select_lines(role="tool")]


def test_tools_answer_in_turn_what_they_answered_and_do_not_run(tmp_path: Path) -> None:
    count, ran = counter()
    lines: list[ScriptedAnswer] = [
        call_message(call("count", what="a")),
        call_message(call("count", what="a")),
        "Done.",
    ]
    one = open_stage(tmp_path, script_model(main=lines), tools=[count])
    one.ask("Go")
    two = again(tmp_path / "again", one, script_model(main=lines), *recorded_tools([count.schema]))
    assert two.ask("Go") == "Done."
    assert results(two) == results(one) == [("a 1", None), ("a 2", None)]
    assert ran == ["a", "a"]
    check_log(two.log)


def test_arguments_are_the_same_as_json(tmp_path: Path) -> None:
    count, _ = counter()
    one = open_stage(
        tmp_path, script_model(main=[call_message(call("count", what="a")), "."]), tools=[count]
    )
    one.ask("Go")
    spaced = raw_call("count", '{ "what" : "\\u0061" }')
    two = again(tmp_path / "again", one, script_model(main=[call_message(spaced), "."]), count)
    two.ask("Go")
    assert results(two) == [("a 1", None)]


def test_what_was_not_recorded_is_refused(tmp_path: Path) -> None:
    count, ran = counter()
    one = open_stage(
        tmp_path, script_model(main=[call_message(call("count", what="a")), "."]), tools=[count]
    )
    one.ask("Go")
    lines: list[ScriptedAnswer] = [
        call_message(call("count", what="b")),
        call_message(call("count", what="a")),
        ".",
    ]
    two = again(tmp_path / "again", one, script_model(main=lines), count)
    two.ask("Go")
    (refused, is_error), second = results(two)
    assert refused.startswith("Error: count was not run: nothing was recorded")
    assert is_error
    assert second == ("a 1", None)
    assert ran == ["a"]
    world = two.runtime.world
    assert isinstance(world, RecordedWorld)
    assert [(agent, made.arguments) for agent, made in world.unrecorded_calls] == [
        ("main", '{"what":"b"}')
    ]
    assert world.calls.list_unused() == []


def test_what_was_not_recorded_is_live_where_it_may_be(tmp_path: Path) -> None:
    count, ran = counter()
    one = open_stage(
        tmp_path, script_model(main=[call_message(call("count", what="a")), "."]), tools=[count]
    )
    one.ask("Go")
    lines: list[ScriptedAnswer] = [
        call_message(call("count", what="a")),
        call_message(call("count", what="b")),
        ".",
    ]
    two = again(tmp_path / "again", one, script_model(main=lines), live=LocalWorld([count]))
    two.ask("Go")
    assert results(two) == [("a 1", None), ("b 2", None)]
    assert ran == ["a", "b"]


def test_another_agents_call_is_another_call(tmp_path: Path) -> None:
    count, _ = counter()
    one = open_stage(
        tmp_path, script_model(main=[call_message(call("count", what="a")), "."]), tools=[count]
    )
    one.ask("Go")
    taken = recorded(one.log)
    made = FunctionCall("count", '{"what": "a"}')
    assert taken.get_next("Jack", made) is None
    assert taken.get_next("main", made) is not None
    assert taken.get_next("main", made) is None


def test_failed_calls_fail_again(tmp_path: Path) -> None:
    @tool
    def fall() -> str:
        """Fall."""
        raise OSError("slippery")

    lines: list[ScriptedAnswer] = [call_message(call("fall")), "Ouch."]
    one = open_stage(tmp_path, script_model(main=lines), tools=[fall])
    one.ask("Go")
    two = again(tmp_path / "again", one, script_model(main=lines), fall)
    two.ask("Go")
    assert results(two) == results(one) == [("Error: fall: OSError: slippery", True)]


def test_the_user_answers_and_allows_as_then(tmp_path: Path) -> None:
    count, _ = counter()
    lines: list[ScriptedAnswer] = [
        call_message(call("ask_user", "c1", question="Tea?"), call("count", "c2", what="a")),
        call_message(call("count", "c3", what="b")),
        "Done.",
    ]
    person = Person(["Green.", YES, NO])
    world = LocalWorld([ask_user, count], user=person, permissions=Permissions("ask"))
    one = open_stage(
        tmp_path,
        script_model(main=lines),
        runtime=AgentRuntime(world=world, model=script_model(main=lines)),
    )
    one.ask("Go")
    two = again(tmp_path / "again", one, script_model(main=lines), ask_user, count)
    two.ask("Go")
    assert [row["content"] for row in two.select_lines(agent_id="user")] == [
        row["content"] for row in one.select_lines(agent_id="user")
    ]
    assert (
        two.result("c1")["substance"]
        == two.select_lines(agent_id="user", content="Green.")[0]["message_id"]
    )
    assert results(two) == results(one)
    check_log(two.log)


def test_texts_that_a_tool_made_are_logged_and_heard_again(tmp_path: Path) -> None:
    @tool
    async def tell(text: str, caller: ToolContext) -> str:
        """Tell Jack."""
        agent = caller.agent
        piece = agent.session.log_piece_of_text(agent.agent_id, text, caller.call)
        entry = {"role": "user", "content": text}
        agent.session.log_transcript_entry(agent.subagents["Jack"].agent_id, entry, piece)
        return "told"

    lines: list[ScriptedAnswer] = [
        call_message(call("task", name="Jack")),
        call_message(call("tell", "c2", text="Hi")),
        "Done.",
    ]
    one = open_stage(tmp_path, script_model(main=lines), tools=[tell])
    one.ask("Go")
    two = again(tmp_path / "again", one, script_model(main=lines), tell)
    two.ask("Go")
    assert two.user_messages("Jack") == one.user_messages("Jack") == ["Hi"]
    [piece] = two.select_lines(event_type="piece_of_text")
    assert piece["cause"] == two.select_lines(role="assistant")[1]["message_id"]
    check_log(two.log)


def test_a_blocked_call_has_no_answer_of_the_world(tmp_path: Path) -> None:
    count, _ = counter()
    one = open_stage(
        tmp_path, script_model(main=[call_message(call("count", what="a")), "."]), tools=[count]
    )
    watch(one, action=lambda _: Deny("no"))
    one.ask("Go")
    assert recorded(one.log).by_key == {}


def test_recorded_tools_are_what_a_model_was_shown() -> None:
    count, _ = counter()
    odd = {"type": "function", "function": {"name": "odd name!", "parameters": {}}}
    tools = recorded_tools([{"name": "task"}, count.schema, odd, count.schema], like=[ask_user])
    assert [one.name for one in tools] == ["count", "odd name!"]
    assert [one.schema for one in tools] == [count.schema, odd]
    [asking] = recorded_tools([ask_user.schema], like=[ask_user])
    assert asking.reads_only


@pytest.mark.parametrize("arguments", ["", "{", '["a"]', "\ud800"])
def test_arguments_that_are_no_json_are_the_same_as_text(arguments: str) -> None:
    key = call_key("main", FunctionCall("look", arguments))
    assert key == call_key("main", FunctionCall("look", arguments))
    assert key != call_key("main", FunctionCall("look", "null"))
