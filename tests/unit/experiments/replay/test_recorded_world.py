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
from tests.agent_kit import Line, Play, Stage, call, calls, check_log, play, raw_call, stage
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
    folder: Path, one: Stage, model: Play, *more: Tool, live: LocalWorld | None = None
) -> Stage:
    """Start another session in a world that answers like that of the first session."""
    one.session.close()
    world = RecordedWorld(recorded(one.log), tools=more, live=live)
    folder.mkdir()
    return stage(folder, model, runtime=AgentRuntime(model=model, world=world))


def results(one: Stage) -> list[tuple[Any, Any]]:
    return [(row["content"], row.get("is_error")) for row in one.rows(role="tool")]


def test_tools_return_recorded_results_in_order_without_running(tmp_path: Path) -> None:
    count, ran = counter()
    lines: list[Line] = [calls(call("count", what="a")), calls(call("count", what="a")), "Done."]
    one = stage(tmp_path, play(main=lines), tools=[count])
    one.ask("Go")
    two = again(tmp_path / "again", one, play(main=lines), *recorded_tools([count.schema]))
    assert two.ask("Go") == "Done."
    assert results(two) == results(one) == [("a 1", None), ("a 2", None)]
    assert ran == ["a", "a"]
    check_log(two.log)


def test_arguments_match_as_json(tmp_path: Path) -> None:
    count, _ = counter()
    one = stage(tmp_path, play(main=[calls(call("count", what="a")), "."]), tools=[count])
    one.ask("Go")
    spaced = raw_call("count", '{ "what" : "\\u0061" }')
    two = again(tmp_path / "again", one, play(main=[calls(spaced), "."]), count)
    two.ask("Go")
    assert results(two) == [("a 1", None)]


def test_unrecorded_call_is_refused(tmp_path: Path) -> None:
    count, ran = counter()
    one = stage(tmp_path, play(main=[calls(call("count", what="a")), "."]), tools=[count])
    one.ask("Go")
    lines: list[Line] = [calls(call("count", what="b")), calls(call("count", what="a")), "."]
    two = again(tmp_path / "again", one, play(main=lines), count)
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


def test_unrecorded_call_is_live_if_allowed(tmp_path: Path) -> None:
    count, ran = counter()
    one = stage(tmp_path, play(main=[calls(call("count", what="a")), "."]), tools=[count])
    one.ask("Go")
    lines: list[Line] = [calls(call("count", what="a")), calls(call("count", what="b")), "."]
    two = again(tmp_path / "again", one, play(main=lines), live=LocalWorld([count]))
    two.ask("Go")
    assert results(two) == [("a 1", None), ("b 2", None)]
    assert ran == ["a", "b"]


def test_call_of_another_agent_does_not_match(tmp_path: Path) -> None:
    count, _ = counter()
    one = stage(tmp_path, play(main=[calls(call("count", what="a")), "."]), tools=[count])
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

    lines: list[Line] = [calls(call("fall")), "Ouch."]
    one = stage(tmp_path, play(main=lines), tools=[fall])
    one.ask("Go")
    two = again(tmp_path / "again", one, play(main=lines), fall)
    two.ask("Go")
    assert results(two) == results(one) == [("Error: fall: OSError: slippery", True)]


def test_user_answers_and_permissions_are_recorded_ones(tmp_path: Path) -> None:
    count, _ = counter()
    lines: list[Line] = [
        calls(call("ask_user", "c1", question="Tea?"), call("count", "c2", what="a")),
        calls(call("count", "c3", what="b")),
        "Done.",
    ]
    person = Person(["Green.", YES, NO])
    world = LocalWorld([ask_user, count], user=person, permissions=Permissions("ask"))
    one = stage(
        tmp_path, play(main=lines), runtime=AgentRuntime(world=world, model=play(main=lines))
    )
    one.ask("Go")
    two = again(tmp_path / "again", one, play(main=lines), ask_user, count)
    two.ask("Go")
    assert [row["content"] for row in two.rows(agent_id="user")] == [
        row["content"] for row in one.rows(agent_id="user")
    ]
    assert (
        two.result("c1")["substance"]
        == two.rows(agent_id="user", content="Green.")[0]["message_id"]
    )
    assert results(two) == results(one)
    check_log(two.log)


def test_texts_created_by_a_tool_are_logged_and_delivered_again(tmp_path: Path) -> None:
    @tool
    async def tell(text: str, caller: ToolContext) -> str:
        """Tell Jack."""
        agent = caller.agent
        piece = agent.session.log_piece_of_text(agent.agent_id, text, caller.call)
        entry = {"role": "user", "content": text}
        agent.session.log_transcript_entry(agent.subagent("Jack").agent_id, entry, piece)
        return "told"

    lines: list[Line] = [
        calls(call("task", name="Jack")),
        calls(call("tell", "c2", text="Hi")),
        "Done.",
    ]
    one = stage(tmp_path, play(main=lines), tools=[tell])
    one.ask("Go")
    two = again(tmp_path / "again", one, play(main=lines), tell)
    two.ask("Go")
    assert two.heard("Jack") == one.heard("Jack") == ["Hi"]
    [piece] = two.rows(event_type="piece_of_text")
    assert piece["cause"] == two.rows(role="assistant")[1]["message_id"]
    check_log(two.log)


def test_blocked_call_has_no_recorded_result(tmp_path: Path) -> None:
    count, _ = counter()
    one = stage(tmp_path, play(main=[calls(call("count", what="a")), "."]), tools=[count])
    watch(one, action=lambda _: Deny("no"))
    one.ask("Go")
    assert recorded(one.log).by_key == {}


def test_recorded_tools_are_those_of_the_requests() -> None:
    count, _ = counter()
    odd = {"type": "function", "function": {"name": "odd name!", "parameters": {}}}
    tools = recorded_tools([{"name": "task"}, count.schema, odd, count.schema], like=[ask_user])
    assert [one.name for one in tools] == ["count", "odd name!"]
    assert [one.schema for one in tools] == [count.schema, odd]
    [asking] = recorded_tools([ask_user.schema], like=[ask_user])
    assert asking.reads_only


@pytest.mark.parametrize("arguments", ["", "{", '["a"]', "\ud800"])
def test_arguments_that_are_no_json_match_as_text(arguments: str) -> None:
    key = call_key("main", FunctionCall("look", arguments))
    assert key == call_key("main", FunctionCall("look", arguments))
    assert key != call_key("main", FunctionCall("look", "null"))
