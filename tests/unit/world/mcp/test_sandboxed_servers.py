"""Servers in a sandbox: their access, and that they do not run without one."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import msgspec
import pytest

from harken.errors import ConfigError
from harken.world.mcp.server_config import ServerTable, server_of
from harken.world.shell.sandbox import Sandbox
from tests.mcp_kit import is_alive, open_mcp_stage, run, toy_server, wait_until


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    """Return the sandbox of this machine. Without bubblewrap the test is skipped."""
    secret = tmp_path / "home"
    secret.mkdir()
    (secret / "key").write_text("s3cret")
    temporary = tmp_path / "tmp"  # The files of the tests may be in /tmp.
    temporary.mkdir()
    options = Sandbox(
        folder=tmp_path, outputs=tmp_path / "try", private=[secret], temporary=temporary
    )
    try:
        options.resolve(os.environ)
    except ConfigError as error:
        pytest.skip(str(error))
    return options


def test_sandboxed_server_writes_in_its_folder_and_reads_nothing_private(
    tmp_path: Path, sandbox: Sandbox
) -> None:
    async def scene() -> None:
        async with open_mcp_stage(tmp_path, toy_server(sandbox=True), sandbox=sandbox) as harness:
            inside, outside = tmp_path / "here", tmp_path / "outside"
            assert await harness.text("mcp__toy__touch", path=str(inside / "a")) == "written"
            refused = await harness.text("mcp__toy__touch", path=str(outside))
            assert refused == "no: Read-only file system"
            secret = await harness.text("mcp__toy__read", path=str(tmp_path / "home" / "key"))
            assert secret.startswith("no: ")
            assert (inside / "a").exists()

    run(scene())


@pytest.mark.parametrize("network", [False, True])
def test_sandboxed_server_uses_the_network_if_allowed(
    tmp_path: Path, sandbox: Sandbox, network: bool
) -> None:
    async def scene(port: int) -> None:
        server = toy_server(sandbox=True, network=network)
        async with open_mcp_stage(tmp_path, server, sandbox=sandbox) as harness:
            text = await harness.text("mcp__toy__reach", port=port)
            assert (text == "reached") is network

    with socket.create_server(("127.0.0.1", 0)) as listening:
        run(scene(listening.getsockname()[1]))


def test_sandboxed_server_ends_with_its_children_and_control_files_are_moved(
    tmp_path: Path, sandbox: Sandbox
) -> None:
    async def scene() -> None:
        steering = tmp_path / "here" / ".mcp.json"
        async with open_mcp_stage(
            tmp_path, toy_server("toy", "stays", sandbox=True), sandbox=sandbox
        ) as harness:
            await harness.text("mcp__toy__child")
            assert await harness.text("mcp__toy__touch", path=str(steering)) == "written"
            children = _sleepers(tmp_path / "here")
            assert children
        await wait_until(lambda: not any(map(is_alive, children)))
        assert not steering.exists()
        assert (tmp_path / "here" / ".mcp.json.made-by-a-command").exists()

    run(scene())


def test_crash_of_a_sandboxed_server_is_a_result_and_restarts_it(
    tmp_path: Path, sandbox: Sandbox
) -> None:
    async def scene() -> None:
        async with open_mcp_stage(tmp_path, toy_server(sandbox=True), sandbox=sandbox) as harness:
            assert "exit code 3; its last output: out of tea" in await harness.failure(
                "mcp__toy__die"
            )
            assert await harness.text("mcp__toy__echo", text="on") == "on"

    run(scene())


def test_server_does_not_run_without_a_sandbox(tmp_path: Path, sandbox: Sandbox) -> None:
    async def scene() -> None:
        server = toy_server(sandbox=True)
        async with open_mcp_stage(tmp_path, server) as harness:
            assert "it may run in a sandbox only, and there is none" in harness.notices[-1]
        hidden = msgspec.structs.replace(
            sandbox, folder=Path("/"), private=[Path("/usr"), Path("/bin")]
        )
        async with open_mcp_stage(tmp_path, server, sandbox=hidden) as harness:
            assert "it may run in a sandbox only, and there is none" in harness.notices[-1]
            assert harness.world.tools == {}

    run(scene())


def test_sandbox_requires_a_program_and_network_requires_a_sandbox() -> None:
    server = server_of("a", ServerTable(command="x", sandbox=True, network=True), "f")
    assert (server.sandbox, server.network) == (True, True)
    with pytest.raises(ConfigError, match="sandbox are for a command"):
        server_of("a", ServerTable(url="https://a.example", sandbox=True), "f")
    with pytest.raises(ConfigError, match="network is for a sandbox"):
        server_of("a", ServerTable(command="x", network=True), "f")


def _sleepers(folder: Path) -> list[int]:
    """Return the processes that `child` of the toy server started."""
    collected = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            is_one = b"sleep\x00300" in (path / "cmdline").read_bytes()
            if is_one and (path / "cwd").readlink() == folder:
                collected.append(int(path.name))
        except OSError:
            continue
    return collected
