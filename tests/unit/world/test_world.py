"""`LocalWorld.do_action`: an action goes in, one result comes out, whatever happens."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from harken import AgentRuntime, LocalWorld, ModelError, ToolContext, tool
from harken.core.ids import MessageId
from harken.core.logged_string import LoggedString
from harken.core.messages import FunctionCall
from harken.errors import LogError
from harken.world.local import local_tools
from harken.world.permissions.permissions import Permissions
from harken.world.result import ToolError, ToolResult
from harken.world.shell.shell import Shell
from harken.world.web.fetch import fetch_tool
from tests import mcp_kit
from tests.agent_kit import call, open_stage, raw_call, run, script_model
from tests.mcp_kit import open_mcp_stage, toy_server
from tests.unit.world.permissions.people import NO, YES, Person
from tests.unit.world.web.site import Site, near, served


@dataclass
class Session:
    """A session that only counts how often it was asked to be safe on disk."""

    settled: int = 0
    agents: dict[str, object] = field(default_factory=dict)

    def sync(self) -> None:
        self.settled += 1


def caller(person: Person | None = None) -> ToolContext:
    agent = SimpleNamespace(name="main", agent_id="agent_001", session=Session())
    return ToolContext(agent, "msg_001", person)


@tool
def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


@tool
async def fail(how: str) -> str:
    """Fail."""
    raise {
        "plainly": RuntimeError("it broke"),
        "in words": ToolError("not today", cause="msg_000"),
        "the model": ModelError("overloaded"),
        "the log": LogError("s.jsonl", "full"),
    }[how]


@tool(timeout_s=0.01)
async def dawdle() -> str:
    """Take too long."""
    await asyncio.sleep(30)
    return ""


@tool
async def quote() -> str:
    """Say what somebody said."""
    return LoggedString("Hi", "msg_000")


WORLD = LocalWorld([add, fail, dawdle, quote])


def did(action: FunctionCall, world: LocalWorld = WORLD) -> ToolResult:
    return run(world.call_tool(action, caller()))


@pytest.mark.req("S4-40")
def test_an_action_gives_a_result() -> None:
    assert did(call("add", a=1).function) == ToolResult("2")


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (call("subtract").function, "tool 'subtract'"),
        (raw_call("add", "{").function, "the arguments of add are not JSON"),
        (raw_call("add", "[1]").function, "the arguments of add must be a JSON object, not [1]"),
        (call("add", a="x").function, "add: Expected `int`, got `str` - at `$.a`"),
        (call("add", a=1, c=2).function, "add has no argument 'c'; its arguments: a, b"),
        (call("fail", how="plainly").function, "fail: RuntimeError: it broke"),
        (call("fail", how="in words").function, "not today"),
        (call("dawdle").function, "dawdle timed out after 0.01 s"),
    ],
)
@pytest.mark.req("S4-03", "S4-40")
def test_what_goes_wrong_is_a_result(action: FunctionCall, text: str) -> None:
    result = did(action)
    assert result.is_error
    assert str(result.content).startswith(f"Error: {text}")


def test_a_failure_that_has_a_cause_names_it() -> None:
    assert did(call("fail", how="in words").function).cause == "msg_000"


@pytest.mark.parametrize(("how", "error"), [("the model", ModelError), ("the log", LogError)])
@pytest.mark.req("S4-03")
def test_a_failing_model_or_log_goes_further_up(how: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        did(call("fail", how=how).function)


def test_a_result_represents_what_a_tool_hands_through() -> None:
    assert did(call("quote").function) == ToolResult("Hi", substance=MessageId("msg_000"))


@pytest.mark.parametrize(("answer", "settled"), [(YES, 1), (NO, 0)])
def test_all_is_on_disk_before_a_tool_acts(answer: object, settled: int) -> None:
    world, someone = LocalWorld([add], permissions=Permissions()), caller(Person([answer]))  # type: ignore[list-item]
    result = run(world.call_tool(call("add", a=1).function, someone))
    assert result.is_error == (settled == 0)
    assert someone.agent.session.settled == settled


def test_two_tools_have_two_names() -> None:
    with pytest.raises(ValueError, match="two tools are named add"):
        LocalWorld([add, add])


@pytest.mark.req("S4-40")
def test_files_shell_web_user_and_servers_are_all_asked_in_one_way(tmp_path: Path) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    tools = [*local_tools(folder, outputs=tmp_path / "outputs"), fetch_tool(near())]

    async def scene(site: Site) -> None:
        page = site.put("/tea", "Steep it.", kind="text/plain")
        async with open_mcp_stage(tmp_path, toy_server(), tools=tools) as here:
            one = open_stage(
                tmp_path,
                script_model(),
                runtime=AgentRuntime(model=script_model(), world=here.world),
            )
            someone = ToolContext(one.root, MessageId("msg_001"), Person(["Green."]))

            async def result(tool: str, **arguments: object) -> ToolResult:
                return await here.world.call_tool(call(tool, **arguments).function, someone)

            for tool, arguments, said in (
                ("write", {"path": "a.txt", "content": "tea\n"}, "a.txt"),
                ("bash", {"command": "cat a.txt"}, "tea"),
                ("fetch", {"url": page}, "Steep it."),
                ("ask_user", {"question": "Which?"}, "Green."),
                ("mcp__toy__echo", {"text": "hello"}, "hello"),
            ):
                done = await result(tool, **arguments)
                assert said in str(done.content)
                assert not done.is_error
            gone = await result("mcp__toy__die")
            assert (gone.is_error, str(gone.content)[:7]) == (True, "Error: ")

    with served() as site:
        mcp_kit.run(scene(site))


@pytest.mark.req("S4-40")
def test_a_cancelled_action_ends_what_it_started(tmp_path: Path) -> None:
    world = LocalWorld([Shell(tmp_path, tmp_path / "outputs").tool])

    async def cancel() -> None:
        begin = call("bash", command="echo $$ > pid; mv pid begun; sleep 30").function
        acting = asyncio.create_task(world.call_tool(begin, caller()))
        while not (tmp_path / "begun").exists():
            await asyncio.sleep(0.01)
        acting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await acting
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / "begun").read_text()), 0)

    run(cancel())
