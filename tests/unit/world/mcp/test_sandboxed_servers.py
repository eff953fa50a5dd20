"""Servers in a sandbox: what they can do there, and that without one they do not run."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from harken.errors import ConfigError
from harken.world.mcp.server_config import ServerTable, server_of
from harken.world.shell.sandbox import Sandbox
from tests.mcp_kit import is_alive, open_mcp_stage, run, toy_server, wait_until


@pytest.fixture
def walls(tmp_path: Path) -> Sandbox:
    """What a sandbox is here; without bubblewrap there is no test."""
    secret = tmp_path / "home"
    secret.mkdir()
    (secret / "key").write_text("s3cret")
    temporary = tmp_path / "tmp"  # in /tmp may lie what the tests themselves are made of
    temporary.mkdir()
    wanted = Sandbox(
        folder=tmp_path, outputs=tmp_path / "try", private=[secret], temporary=temporary
    )
    try:
        wanted.resolve(os.environ)
    except ConfigError as error:
        pytest.skip(str(error))
    return wanted


def test_a_server_in_a_sandbox_writes_in_its_folder_and_sees_nothing_private(
    tmp_path: Path, walls: Sandbox
) -> None:
    async def scene() -> None:
        async with open_mcp_stage(tmp_path, toy_server(sandbox=True), sandbox=walls) as here:
            inside, outside = tmp_path / "here", tmp_path / "outside"
            assert await here.text("mcp__toy__touch", path=str(inside / "a")) == "written"
            refused = await here.text("mcp__toy__touch", path=str(outside))
            assert refused == "no: Read-only file system"
            secret = await here.text("mcp__toy__read", path=str(tmp_path / "home" / "key"))
            assert secret.startswith("no: ")
            assert (inside / "a").exists()

    run(scene())


@pytest.mark.parametrize("network", [False, True])
def test_it_reaches_the_network_where_that_is_said(
    tmp_path: Path, walls: Sandbox, network: bool
) -> None:
    async def scene(port: int) -> None:
        server = toy_server(sandbox=True, network=network)
        async with open_mcp_stage(tmp_path, server, sandbox=walls) as here:
            said = await here.text("mcp__toy__reach", port=port)
            assert (said == "reached") is network

    with socket.create_server(("127.0.0.1", 0)) as listening:
        run(scene(listening.getsockname()[1]))


def test_it_ends_with_all_that_it_started_and_what_steers_is_put_aside(
    tmp_path: Path, walls: Sandbox
) -> None:
    async def scene() -> None:
        steering = tmp_path / "here" / ".mcp.json"
        async with open_mcp_stage(
            tmp_path, toy_server("toy", "stays", sandbox=True), sandbox=walls
        ) as here:
            await here.text("mcp__toy__child")
            assert await here.text("mcp__toy__touch", path=str(steering)) == "written"
            children = _sleepers(tmp_path / "here")
            assert children
        await wait_until(lambda: not any(map(is_alive, children)))
        assert not steering.exists()
        assert (tmp_path / "here" / ".mcp.json.made-by-a-command").exists()

    run(scene())


def test_one_that_dies_there_is_a_result_and_starts_again(tmp_path: Path, walls: Sandbox) -> None:
    async def scene() -> None:
        async with open_mcp_stage(tmp_path, toy_server(sandbox=True), sandbox=walls) as here:
            assert "exit code 3; its last output: out of tea" in await here.failure("mcp__toy__die")
            assert await here.text("mcp__toy__echo", text="on") == "on"

    run(scene())


def test_without_a_sandbox_it_does_not_run(tmp_path: Path, walls: Sandbox) -> None:
    async def scene() -> None:
        server = toy_server(sandbox=True)
        async with open_mcp_stage(tmp_path, server) as here:
            assert "it may run in a sandbox only, and there is none" in here.notices[-1]
        hidden = replace(walls, folder=Path("/"), private=[Path("/usr"), Path("/bin")])
        async with open_mcp_stage(tmp_path, server, sandbox=hidden) as here:
            assert "it may run in a sandbox only, and there is none" in here.notices[-1]
            assert here.world.tools == {}

    run(scene())


def test_a_sandbox_is_for_a_program_and_network_is_for_a_sandbox() -> None:
    server = server_of("a", ServerTable(command="x", sandbox=True, network=True), "f")
    assert (server.sandbox, server.network) == (True, True)
    with pytest.raises(ConfigError, match="sandbox are for a command"):
        server_of("a", ServerTable(url="https://a.example", sandbox=True), "f")
    with pytest.raises(ConfigError, match="network is for a sandbox"):
        server_of("a", ServerTable(command="x", network=True), "f")


def _sleepers(folder: Path) -> list[int]:
    """Return the processes that `child` of the toy started there."""
    found = []
    for one in Path("/proc").glob("[0-9]*"):
        try:
            is_one = b"sleep\x00300" in (one / "cmdline").read_bytes()
            if is_one and (one / "cwd").readlink() == folder:
                found.append(int(one.name))
        except OSError:
            continue
    return found
