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
from tests.unit.agents.hook_kit import watch
from tests.unit.world.permissions.user_kit import NO, YES, ScriptedUser


def recorded(log: Path) -> RecordedCalls:
    return RecordedCalls.of(SessionViewer(log).events)


def counter() -> tuple[Tool, list[str]]:
    ran: list[str] = []

    @tool
    def count(word: str) -> str:
        """Count."""
        ran.append(word)
        return f"{word} {len(ran)}"

    return count, ran


def begin_again(
    folder: Path, scene: Stage, model: ScriptModel, *tools: Tool, live: LocalWorld | None = None
) -> Stage:
    """Start another session in a world that answers like that of the first session."""
    scene.session.close()
    world = RecordedWorld(recorded(scene.log), tools=tools, live=live)
    folder.mkdir()
    return open_stage(folder, model, runtime=AgentRuntime(model=model, world=world))


def results(scene: Stage) -> list[tuple[Any, Any]]:
    return [(row["content"], row.get("is_error")) for row in scene.select_lines(role="tool")]


def test_tools_return_recorded_results_in_order_without_running(tmp_path: Path) -> None:
    count, ran = counter()
    lines: list[ScriptedAnswer] = [
        call_message(call("count", word="a")),
        call_message(call("count", word="a")),
        "Done.",
    ]
    scene = open_stage(tmp_path, script_model(main=lines), tools=[count])
    scene.ask("Go")
    two = begin_again(
        tmp_path / "again", scene, script_model(main=lines), *recorded_tools([count.schema])
    )
    assert two.ask("Go") == "Done."
    assert results(two) == results(scene) == [("a 1", None), ("a 2", None)]
    assert ran == ["a", "a"]
    check_log(two.log)


def test_arguments_match_as_json(tmp_path: Path) -> None:
    count, _ = counter()
    scene = open_stage(
        tmp_path, script_model(main=[call_message(call("count", word="a")), "."]), tools=[count]
    )
    scene.ask("Go")
    spaced = raw_call("count", '{ "word" : "\\u0061" }')
    two = begin_again(
        tmp_path / "again", scene, script_model(main=[call_message(spaced), "."]), count
    )
    two.ask("Go")
    assert results(two) == [("a 1", None)]


def test_unrecorded_call_is_refused(tmp_path: Path) -> None:
    count, ran = counter()
    scene = open_stage(
        tmp_path, script_model(main=[call_message(call("count", word="a")), "."]), tools=[count]
    )
    scene.ask("Go")
    lines: list[ScriptedAnswer] = [
        call_message(call("count", word="b")),
        call_message(call("count", word="a")),
        ".",
    ]
    two = begin_again(tmp_path / "again", scene, script_model(main=lines), count)
    two.ask("Go")
    (refused, is_error), second = results(two)
    assert refused.startswith("Error: count was not run: nothing was recorded")
    assert is_error
    assert second == ("a 1", None)
    assert ran == ["a"]
    world = two.runtime.world
    assert isinstance(world, RecordedWorld)
    assert [
        (agent, function_call.arguments) for agent, function_call in world.unrecorded_calls
    ] == [("main", '{"word":"b"}')]


def test_unrecorded_call_is_live_if_allowed(tmp_path: Path) -> None:
    count, ran = counter()
    scene = open_stage(
        tmp_path, script_model(main=[call_message(call("count", word="a")), "."]), tools=[count]
    )
    scene.ask("Go")
    lines: list[ScriptedAnswer] = [
        call_message(call("count", word="a")),
        call_message(call("count", word="b")),
        ".",
    ]
    two = begin_again(tmp_path / "again", scene, script_model(main=lines), live=LocalWorld([count]))
    two.ask("Go")
    assert results(two) == [("a 1", None), ("b 2", None)]
    assert ran == ["a", "b"]


def test_call_of_another_agent_does_not_match(tmp_path: Path) -> None:
    count, _ = counter()
    scene = open_stage(
        tmp_path, script_model(main=[call_message(call("count", word="a")), "."]), tools=[count]
    )
    scene.ask("Go")
    record = recorded(scene.log)
    function_call = FunctionCall("count", '{"word": "a"}')
    assert record.get_next("Jack", function_call) is None
    assert record.get_next("main", function_call) is not None
    assert record.get_next("main", function_call) is None


def test_failed_calls_fail_again(tmp_path: Path) -> None:
    @tool
    def fall() -> str:
        """Fall."""
        raise OSError("slippery")

    lines: list[ScriptedAnswer] = [call_message(call("fall")), "Ouch."]
    scene = open_stage(tmp_path, script_model(main=lines), tools=[fall])
    scene.ask("Go")
    two = begin_again(tmp_path / "again", scene, script_model(main=lines), fall)
    two.ask("Go")
    assert results(two) == results(scene) == [("Error: fall: OSError: slippery", True)]


def test_user_answers_and_permissions_are_recorded_ones(tmp_path: Path) -> None:
    count, _ = counter()
    lines: list[ScriptedAnswer] = [
        call_message(call("ask_user", "c1", question="Tea?"), call("count", "c2", word="a")),
        call_message(call("count", "c3", word="b")),
        "Done.",
    ]
    person = ScriptedUser(["Green.", YES, NO])
    world = LocalWorld([ask_user, count], user=person, permissions=Permissions("ask"))
    scene = open_stage(
        tmp_path,
        script_model(main=lines),
        runtime=AgentRuntime(world=world, model=script_model(main=lines)),
    )
    scene.ask("Go")
    two = begin_again(tmp_path / "again", scene, script_model(main=lines), ask_user, count)
    two.ask("Go")
    assert [row["content"] for row in two.select_lines(agent_id="user")] == [
        row["content"] for row in scene.select_lines(agent_id="user")
    ]
    assert (
        two.result("c1")["substance"]
        == two.select_lines(agent_id="user", content="Green.")[0]["message_id"]
    )
    assert results(two) == results(scene)
    check_log(two.log)


def test_texts_created_by_a_tool_are_logged_and_delivered_again(tmp_path: Path) -> None:
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
    scene = open_stage(tmp_path, script_model(main=lines), tools=[tell])
    scene.ask("Go")
    two = begin_again(tmp_path / "again", scene, script_model(main=lines), tell)
    two.ask("Go")
    assert two.user_messages("Jack") == scene.user_messages("Jack") == ["Hi"]
    [piece] = two.select_lines(event_type="piece_of_text")
    assert piece["cause"] == two.select_lines(role="assistant")[1]["message_id"]
    check_log(two.log)


def test_blocked_call_has_no_recorded_result(tmp_path: Path) -> None:
    count, _ = counter()
    scene = open_stage(
        tmp_path, script_model(main=[call_message(call("count", word="a")), "."]), tools=[count]
    )
    watch(scene, action=lambda _: Deny("no"))
    scene.ask("Go")
    assert recorded(scene.log).by_key == {}


def test_recorded_tools_are_those_of_the_requests() -> None:
    count, _ = counter()
    odd_schema = {"type": "function", "function": {"name": "odd name!", "parameters": {}}}
    tools = recorded_tools(
        [{"name": "task"}, count.schema, odd_schema, count.schema], like=[ask_user]
    )
    assert [tool.name for tool in tools] == ["count", "odd name!"]
    assert [tool.schema for tool in tools] == [count.schema, odd_schema]
    [asking] = recorded_tools([ask_user.schema], like=[ask_user])
    assert asking.reads_only


@pytest.mark.parametrize("arguments", ["", "{", '["a"]', "\ud800"])
def test_arguments_that_are_no_json_match_as_text(arguments: str) -> None:
    key = call_key("main", FunctionCall("look", arguments))
    assert key == call_key("main", FunctionCall("look", arguments))
    assert key != call_key("main", FunctionCall("look", "null"))
