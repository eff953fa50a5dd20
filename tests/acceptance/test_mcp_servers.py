"""MCP servers that others wrote, and the protocol's own suite for clients.

    npm install --prefix FOLDER @modelcontextprotocol/server-everything \\
        @modelcontextprotocol/server-filesystem @modelcontextprotocol/conformance@0.1.13
    HARKEN_MCP_SERVERS=FOLDER/node_modules/.bin pytest tests/acceptance/test_mcp_servers.py
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harken.core.messages import ImagePart
from harken.world.mcp.server_config import McpServerConfig
from tests.mcp_kit import open_mcp_stage, run, wait_until
from tests.unit.world.permissions.user_kit import ScriptedUser

CLIENT = Path(__file__).parents[1] / "mcp_conformance_client.py"
SCENARIOS = (
    *("initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"),
    *("auth/metadata-default", "auth/metadata-var1", "auth/basic-cimd", "auth/resource-mismatch"),
    *("auth/scope-from-www-authenticate", "auth/scope-from-scopes-supported"),
    *("auth/scope-omitted-when-undefined", "auth/scope-step-up", "auth/scope-retry-limit"),
    *("auth/token-endpoint-auth-basic", "auth/token-endpoint-auth-post"),
    *("auth/token-endpoint-auth-none", "auth/pre-registration"),
    "auth/2025-03-26-oauth-metadata-backcompat",
    "auth/2025-03-26-oauth-endpoint-fallback",
    *("auth/client-credentials-basic", "auth/client-credentials-jwt"),
)
"""All of the suite's for clients but two. In `metadata-var2` and `var3` an issuer names itself
otherwise than the server does, which RFC 8414 §3.3 tells clients to refuse."""


def program(name: str) -> str:
    """Return where a program of npm is; skip the test where it is not installed."""
    path = os.pathsep.join([os.environ.get("HARKEN_MCP_SERVERS", ""), os.environ["PATH"]])
    program_path = shutil.which(name, path=path)
    if program_path is None:
        pytest.skip(f"{name} is not here: set HARKEN_MCP_SERVERS (see this file's beginning)")
    return program_path


@pytest.mark.req("S4-40")
def test_server_everything_can_be_used(tmp_path: Path) -> None:
    server = McpServerConfig(
        name="every", command=program("mcp-server-everything"), args=("stdio",)
    )

    async def scene() -> None:
        person = ScriptedUser(["decline"])
        async with open_mcp_stage(tmp_path, replace(server, timeout_s=10), user=person) as stage:
            assert stage.notices == []
            assert await stage.text("mcp__every__echo", message="hi") == "Echo: hi"
            assert "is 3" in await stage.text("mcp__every__get-sum", a=1, b=2)
            image = (await stage.call_tool("mcp__every__get-tiny-image")).content
            assert isinstance(image, list)
            assert isinstance(image[-1], ImagePart)
            weather = await stage.text("mcp__every__get-structured-content", location="New York")
            assert json.loads(weather)["temperature"] > -100
            slow = "mcp__every__trigger-long-running-operation"
            assert "completed" in await stage.text(slow, duration=1, steps=4)
            await wait_until(lambda: len(stage.progress) == 4)
            task = asyncio.create_task(stage.call_tool(slow, duration=60, steps=2))
            await asyncio.sleep(0.2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert str(tmp_path / "here") in await stage.text("mcp__every__get-roots-list")
            assert "declined" in await stage.text("mcp__every__trigger-elicitation-request")
            assert person.questions[0].question.startswith("the MCP server every wants to know: ")
            assert "sampling" not in " ".join(stage.world.tools)
            assert "demo://resource/static" in await stage.text("mcp_resources")
            text = await stage.text("mcp_read", resource="every/demo://resource/dynamic/text/1")
            assert "plaintext resource" in text
            prompts = {prompt.name: prompt for prompt in await stage.mcp.prompts()}
            assert [argument.required for argument in prompts["args-prompt"].arguments] == [
                True,
                False,
            ]
            prompt_result = await stage.mcp.get_prompt("every", "args-prompt", {"city": "Rome"})
            assert "Rome" in prompt_result

    run(scene())


def test_server_filesystem_can_be_used(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    server = McpServerConfig(
        name="fs", command=program("mcp-server-filesystem"), args=(str(tmp_path / "here"),)
    )

    async def scene() -> None:
        async with open_mcp_stage(tmp_path, server) as stage:
            note = str(tmp_path / "here" / "note.txt")
            await stage.text("mcp__fs__write_file", path=note, content="tea")
            assert await stage.text("mcp__fs__read_text_file", path=note) == "tea"
            assert "note.txt" in await stage.text(
                "mcp__fs__list_directory", path=str(Path(note).parent)
            )
            outside = await stage.failure("mcp__fs__read_text_file", path=str(files / "x"))
            assert "outside allowed directories" in outside

    run(scene())


@pytest.mark.full
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_conformance_suite_for_clients_passes(tmp_path: Path, scenario: str) -> None:
    suite = program("conformance")
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'src'}"}
    command = f"{sys.executable} {CLIENT}"
    process = subprocess.run(
        [suite, "client", "--command", command, "--scenario", scenario],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert "OVERALL: PASSED" in process.stdout + process.stderr
