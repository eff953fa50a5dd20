"""`LocalWorld.do_action` returns one result for each action."""

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
from tests.unit.world.permissions.user_kit import NO, YES, ScriptedUser
from tests.unit.world.web.site_kit import Site, loopback_downloads, serve_site


@dataclass
class CountingSession:
    """A session that counts the requests to sync to disk."""

    settled: int = 0
    agents: dict[str, object] = field(default_factory=dict)

    def sync(self) -> None:
        self.settled += 1


def caller(person: ScriptedUser | None = None) -> ToolContext:
    agent = SimpleNamespace(name="main", agent_id="agent_001", session=CountingSession())
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


def do_action(action: FunctionCall, world: LocalWorld = WORLD) -> ToolResult:
    return run(world.call_tool(action, caller()))


@pytest.mark.req("S4-40")
def test_action_returns_a_result() -> None:
    assert do_action(call("add", a=1).function) == ToolResult("2")


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (call("subtract").function, "tool 'subtract'"),
        (raw_call("add", "{").function, "the arguments of add are not JSON"),
        (raw_call("add", "[1]").function, "the arguments of add must be a JSON object, not [1]"),
        (call("add", a="x").function, "add: Expected `int`, got `str` - at `$.a`"),
        (call("add", a=1, c=2).function, "add has no argument 'c'; valid arguments: a, b"),
        (call("fail", how="plainly").function, "fail: RuntimeError: it broke"),
        (call("fail", how="in words").function, "not today"),
        (call("dawdle").function, "dawdle timed out after 0.01 s"),
    ],
)
@pytest.mark.req("S4-03", "S4-40")
def test_failure_of_a_tool_is_a_result(action: FunctionCall, text: str) -> None:
    result = do_action(action)
    assert result.is_error
    assert str(result.content).startswith(f"Error: {text}")


def test_failure_with_a_cause_names_it() -> None:
    assert do_action(call("fail", how="in words").function).cause == "msg_000"


@pytest.mark.parametrize(("how", "error"), [("the model", ModelError), ("the log", LogError)])
@pytest.mark.req("S4-03")
def test_failure_of_model_or_log_is_raised(how: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        do_action(call("fail", how=how).function)


def test_result_represents_the_message_that_a_tool_returns() -> None:
    assert do_action(call("quote").function) == ToolResult("Hi", substance=MessageId("msg_000"))


@pytest.mark.parametrize(("answer", "sync_count"), [(YES, 1), (NO, 0)])
def test_log_is_synced_before_a_tool_runs(answer: object, sync_count: int) -> None:
    world, someone = LocalWorld([add], permissions=Permissions()), caller(ScriptedUser([answer]))  # type: ignore[list-item]
    result = run(world.call_tool(call("add", a=1).function, someone))
    assert result.is_error == (sync_count == 0)
    assert someone.agent.session.settled == sync_count


def test_tool_names_are_unique() -> None:
    with pytest.raises(ValueError, match="two tools are named add"):
        LocalWorld([add, add])


@pytest.mark.req("S4-40")
def test_files_shell_web_user_and_servers_have_one_interface(tmp_path: Path) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    tools = [*local_tools(folder, outputs=tmp_path / "outputs"), fetch_tool(loopback_downloads())]

    async def scene(site: Site) -> None:
        page = site.put("/tea", "Steep it.", kind="text/plain")
        async with open_mcp_stage(tmp_path, toy_server(), tools=tools) as harness:
            agent_stage = open_stage(
                tmp_path,
                script_model(),
                runtime=AgentRuntime(model=script_model(), world=harness.world),
            )
            someone = ToolContext(agent_stage.root, MessageId("msg_001"), ScriptedUser(["Green."]))

            async def result(tool: str, **arguments: object) -> ToolResult:
                return await harness.world.call_tool(call(tool, **arguments).function, someone)

            for tool, arguments, answer in (
                ("write", {"path": "a.txt", "content": "tea\n"}, "a.txt"),
                ("bash", {"command": "cat a.txt"}, "tea"),
                ("fetch", {"url": page}, "Steep it."),
                ("ask_user", {"question": "Which?"}, "Green."),
                ("mcp__toy__echo", {"text": "hello"}, "hello"),
            ):
                outcome = await result(tool, **arguments)
                assert answer in str(outcome.content)
                assert not outcome.is_error
            deleted = await result("mcp__toy__die")
            assert (deleted.is_error, str(deleted.content)[:7]) == (True, "Error: ")

    with serve_site() as site:
        mcp_kit.run(scene(site))


@pytest.mark.req("S4-40")
def test_cancelled_action_ends_its_processes(tmp_path: Path) -> None:
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
