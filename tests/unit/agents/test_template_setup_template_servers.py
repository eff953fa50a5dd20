"""MCP servers that a template gives its agents, and resources as instructions."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp.client._memory import InMemoryTransport

from harken import AgentRuntime
from harken.agents.agent import load_agent
from harken.agents.runtime import AgentLibrary
from harken.agents.templates.template import Templates
from harken.core.messages import FunctionCall, text_of
from harken.world.local_world import LocalWorld
from harken.world.mcp.host import McpHost
from harken.world.mcp.server_config import McpServerConfig
from harken.world.mcp.servers import McpServers, granted_to
from harken.world.permissions.permissions import Permissions
from harken.world.permissions.rules import PermissionRules
from harken.world.tool import ToolContext
from tests import mcp_sdk_server
from tests.agent_kit import (
    ScriptModel,
    Stage,
    call,
    call_message,
    open_stage,
    request_texts,
    run,
    script_model,
    select_lines,
)
from tests.mcp_kit import TOY, toy_server
from tests.unit.world.permissions.user_kit import YES, ScriptedUser

NAMED = replace(toy_server("docs"), reserved=True)
LIB = McpServerConfig(name="lib", command="in this process")
TEMPLATE = """\
---
tools: []
mcp: {mcp}
---
You read.
"""


def world_of(folder: Path, *servers: McpServerConfig, **more: Any) -> LocalWorld:
    """Return a world with servers: `lib` is one of this process, others are programs."""
    around = McpHost(
        folder=folder, outputs=folder / "outputs", environ={"PATH": os.environ["PATH"]}
    )
    in_process = any(server is LIB for server in servers)

    def connect(_: McpServerConfig) -> InMemoryTransport:
        return InMemoryTransport(mcp_sdk_server.make_server())

    mcp = McpServers(servers, host=around, connect=connect if in_process else None)
    return LocalWorld(folder=folder, mcp=mcp, **more)


def begun(
    folder: Path, model: ScriptModel, *servers: McpServerConfig, mcp: str = "[docs]", **more: Any
) -> Stage:
    """Begin a session whose agents have a template `reader`."""
    (folder / "reader.md").write_text(TEMPLATE.format(mcp=mcp))
    runtime = AgentRuntime(
        model=model,
        world=world_of(folder, *servers, **more),
        library=AgentLibrary(templates=Templates([folder])),
    )
    return open_stage(folder, model, runtime=runtime)


def asked(here: Stage, text: str) -> str:
    """Let the root answer; the servers end before the loop does."""

    async def scene() -> str:
        try:
            return await here.root.response(text)
        finally:
            await here.root.runtime.world.close()

    return run(scene())


def task(name: str, instructions: str, prompt: str | None = "Go!", id_: str = "c1") -> Any:
    return call("task", id_, name=name, instructions=instructions, prompt=prompt)


def offered(model: ScriptModel, agent: str) -> Sequence[str]:
    """Return the tools that an agent's model was shown first."""
    return [schema["name"] for schema in model.requests_of(agent)[0].tools or ()]


@pytest.mark.req("S4-05")
def test_an_agent_whose_template_names_a_server_has_its_tools_and_others_have_not(
    tmp_path: Path,
) -> None:
    model = script_model(
        main=[
            call_message(task("Ann", "template:reader")),
            call_message(call("mcp__docs__echo")),
            "Done.",
        ],
        Ann=[call_message(call("mcp__docs__echo", text="page 7")), "It says page 7."],
    )
    here = begun(tmp_path, model, NAMED, toy_server("all"))
    assert asked(here, "Read!") == "Done."
    assert "mcp__docs__echo" in offered(model, "Ann")
    assert "mcp__all__echo" not in offered(model, "Ann")
    assert "mcp__all__echo" in offered(model, "main")
    assert not [name for name in offered(model, "main") if name.startswith("mcp__docs__")]
    assert here.result("c1", "Ann")["content"] == "page 7"
    refused = select_lines(
        here.log, role="tool", name="mcp__docs__echo", agent_id=here.id_of("main")
    )
    [row] = refused
    assert row["content"].startswith("Error: main may not use a tool 'mcp__docs__echo'")


def test_resource_tools_know_the_servers_that_an_agent_was_given(tmp_path: Path) -> None:
    model = script_model(main=[call_message(task("Ann", "template:reader")), "Done."], Ann=["Hm."])
    here = begun(tmp_path, model, NAMED)
    assert asked(here, "Read!") == "Done."
    ann = load_agent(here.session, here.id_of("Ann"), here.runtime)
    assert list(granted_to(ToolContext(ann, ann.state.birth))) == ["docs"]
    assert not granted_to(ToolContext(here.root, here.root.state.birth))


@pytest.mark.req("S4-05")
def test_a_template_may_describe_its_server_itself_also_after_a_resume(tmp_path: Path) -> None:
    import sys

    own = f"{{own: {{command: {sys.executable}, args: ['-I', '{TOY}']}}}}"
    echo = call("mcp__own__echo", text="hi")
    model = script_model(
        main=[
            call_message(task("Ann", "template:reader")),
            "1",
            call_message(_discuss("Ann")),
            "2",
        ],
        Ann=[call_message(echo), "It said hi.", call_message(echo), "It said hi again."],
    )
    here = begun(tmp_path, model, mcp=own)
    assert asked(here, "Read!") == "1"
    assert "mcp__own__echo" not in offered(model, "main")
    [birth] = select_lines(here.log, event_type="agent_created", name="Ann")
    assert birth["spec"]["limits"]["mcp"] == ["own"]
    here.session.close()
    runtime = replace(here.runtime, world=world_of(tmp_path))
    again = open_stage(tmp_path, model, runtime=runtime)
    assert asked(again, "Once more!") == "2"
    results = select_lines(again.log, role="tool", name="mcp__own__echo")
    assert [row["content"] for row in results] == ["hi", "hi"]


def _discuss(name: str) -> Any:
    return call("discuss", "c9", prompt="Again!", speakers=[name])


@pytest.mark.parametrize(
    ("mcp", "servers", "why"),
    [
        ("[nope]", [], "MCP server 'nope' not found; no servers exist"),
        ("[nope]", [NAMED], "existing servers: docs"),
        ("{docs: {command: other}}", [NAMED], "MCP server docs exists"),
        ("{docs: {}}", [], "mcp.docs: must have either `command`"),
        ("5", [], "mcp must be a list of names of servers"),
        ("{docs: {command: x, port: 5}}", [], "mcp.docs: Object contains unknown field `port`"),
    ],
)
def test_a_server_that_a_template_cannot_have_is_a_result(
    tmp_path: Path, mcp: str, servers: list[McpServerConfig], why: str
) -> None:
    model = script_model(main=[call_message(task("Ann", "template:reader")), "Done."])
    here = begun(tmp_path, model, *servers, mcp=mcp)
    assert asked(here, "Read!") == "Done."
    assert why in here.result()["content"]
    assert not select_lines(here.log, event_type="agent_created", name="Ann")


def test_a_subagent_without_a_list_of_its_own_has_the_servers_of_its_maker(
    tmp_path: Path,
) -> None:
    model = script_model(
        main=[call_message(task("Ann", "template:reader")), "Done."],
        Ann=[call_message(task("Bob", "You help."), task("Cy", "You help.", id_="c2")), "Fine."],
        Bob=["Hm."],
        Cy=["Hm."],
    )
    here = begun(tmp_path, model, NAMED, mcp="[docs]\ntools: [task]")
    (tmp_path / "reader.md").write_text("---\nmcp: [docs]\n---\nYou read.\n")
    assert asked(here, "Read!") == "Done."
    assert "mcp__docs__echo" in offered(model, "Bob")


@pytest.mark.req("S4-08")
def test_a_resource_of_a_server_gives_instructions(tmp_path: Path) -> None:
    model = script_model(
        main=[call_message(task("Ann", "mcp:lib/notes://welcome")), "Done."],
        Ann=["At your service."],
    )
    here = begun(tmp_path, model, LIB)
    assert asked(here, "Go!") == "Done."
    assert request_texts(model.requests_of("Ann")[0])[0] == "You are a librarian."
    assert here.result()["content"] == "At your service."


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("mcp:lib/notes://none", "instructions mcp:lib/notes://none cannot be read: "),
        ("mcp:lib/notes://picture", "is not text"),
        ("mcp:nope/x", "'nope/x' is not SERVER/URI; existing servers with resources: lib"),
    ],
)
@pytest.mark.req("S4-08")
def test_a_resource_that_cannot_be_read_is_a_result(tmp_path: Path, given: str, why: str) -> None:
    model = script_model(main=[call_message(task("Ann", given)), "Done."])
    here = begun(tmp_path, model, LIB)
    assert asked(here, "Go!") == "Done."
    assert why in here.result()["content"]


def test_what_may_not_be_read_just_so_gives_no_instructions(tmp_path: Path) -> None:
    model = script_model(main=[call_message(task("Ann", "mcp:lib/notes://welcome")), "Done."])
    rules = PermissionRules.parse(deny=["mcp_read(lib/notes://*)"])
    here = begun(tmp_path, model, LIB, permissions=Permissions(mode="all", rules=rules))
    assert asked(here, "Go!") == "Done."
    assert "needs approval to be read" in here.result()["content"]


@pytest.mark.req("S4-40")
def test_a_server_that_is_gone_is_a_result_that_the_model_reads(tmp_path: Path) -> None:
    model = script_model(main=[call_message(call("mcp__toy__die")), "It is gone."])
    here = begun(tmp_path, model, toy_server())
    assert asked(here, "Go!") == "It is gone."
    result = here.result()
    assert result["is_error"]
    assert "toy ended" in result["content"]


def test_rules_and_modes_hold_for_tools_of_servers(tmp_path: Path) -> None:
    async def scene(permissions: Permissions, person: ScriptedUser | None, tool: str) -> str:
        world = world_of(tmp_path, toy_server(), permissions=permissions)
        await world.wait_ready()
        model = script_model()
        here = open_stage(tmp_path, model, runtime=AgentRuntime(model=model, world=world))
        try:
            caller = ToolContext(here.root, here.root.state.birth, person)
            result = await world.call_tool(FunctionCall(tool, '{"text": "hi"}'), caller)
            return text_of(result.content)
        finally:
            await world.close()
            here.session.close()
            here.log.unlink()

    def did(tool: str = "mcp__toy__echo", person: ScriptedUser | None = None, **rules: Any) -> str:
        mode = rules.pop("mode", "ask")
        permissions = Permissions(mode=mode, rules=PermissionRules.parse(**rules))
        return asyncio.run(scene(permissions, person, tool))

    assert "needs the approval of the user" in did()
    assert did(allow=["mcp__toy__*"]) == "hi"
    assert "needs the approval of the user" in did("mcp__toy__env", allow=["mcp__toy__echo"])
    assert "denied by the rule" in did(mode="all", deny=["mcp__toy__*"])
    assert "plan mode allows no changes" in did(mode="plan")
    person = ScriptedUser([YES])
    assert did(person=person) == "hi"
    assert person.approvals[0].tool == "mcp__toy__echo"
    assert list(person.approvals[0].rules) == ["mcp__toy__echo"]


@pytest.mark.req("S4-41")
def test_the_world_keeps_its_connections_where_tools_and_hooks_can_read_them(
    tmp_path: Path,
) -> None:
    model = script_model(main=["Hi."])
    here = begun(tmp_path, model, LIB)
    assert asked(here, "Hello") == "Hi."
    connections = here.root.runtime.world.mcp
    assert connections is not None
    [server] = connections.describe()
    assert (server.name, server.about) == ("lib", "library 7, protocol 2026-07-28")
    assert "mcp__lib__add" in server.tools
