"""Agents with sockets, which run git in a repository with hooks."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harken.context.socket_client import VARIABLE
from harken.context.socket_server import ContextSocketServer, Key
from harken.core.ids import AgentId
from tests.cli.git_kit import Repository
from tests.cli.kit import Cli

ANN: Key = (Path("s.jsonl"), AgentId("agent_001"))
BOB: Key = (Path("s.jsonl"), AgentId("agent_002"))
CTX = {ANN: "ctx-" + "a1" * 32, BOB: "ctx-" + "b2" * 32}


@pytest.fixture
def sockets() -> Iterator[ContextSocketServer]:
    """The sockets of two agents with a context each."""
    server = ContextSocketServer()
    for agent, context_id in CTX.items():
        server.settle(agent, context_id)
    yield server
    server.close()


@pytest.fixture
def repository(cli: Cli) -> Repository:
    """A repository with a commit, in the working folder."""
    repository = Repository.create(Path.cwd())
    repository.git("config", "user.name", "Jill")
    repository.git("config", "user.email", "jill@example.com")
    repository.commit("Begin", a_py="x = 1\n")
    return repository


def git(folder: Path, *arguments: str, socket: Path | str = "", **environment: str) -> str:
    """Run git as a program of the agent with a socket, or as a person; return the output."""
    environ = {name: text for name, text in os.environ.items() if name != VARIABLE}
    environ |= {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", **environment}
    if socket:
        environ[VARIABLE] = str(socket)
    ran = subprocess.run(
        ["git", *arguments], cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran
    return ran.stdout


def commit(folder: Path, message: str, socket: Path | str = "", *options: str) -> str:
    """Change a file and commit it; return the message."""
    with (folder / "a.py").open("a") as file:
        file.write("y = 2\n")
    git(folder, "commit", "-qam", message, *options, socket=socket)
    return git(folder, "log", "-1", "--format=%B").strip()


def script(path: Path, text: str) -> None:
    """Write a hook of the user."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
