"""Everything but a remote model works without network, account or server.

All commands run in a process that cannot look up or reach a host: Python reports such a call to an
audit hook before it is made, and the hook ends the process. Where the system allows it, the process
and the programs that it starts are also in a network namespace without any interface.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from harken.cli.command_group import CommandGroup
from harken.cli.main import cli as root
from tests import toy_clients
from tests.cli.git_kit import Repository, Session
from tests.cli.review_kit import FIRST, find_ticket, write_reviewer, write_script

ROOT = Path(__file__).parents[2]
PROGRAM = """
import fcntl, json, os, socket, struct, sys

if sys.argv[2] == "isolated":  # The loopback interface of a new namespace is down.
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh", b"lo", 1))

def refuse(event, arguments):
    if event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.connect", "socket.sendto"):
        address = arguments[1] if event in ("socket.connect", "socket.sendto") else arguments[0]
        host = address[0] if isinstance(address, tuple) else address
        if isinstance(address, tuple) or event.startswith("socket.get"):
            if host not in ("127.0.0.1", "::1", "localhost"):
                os.write(2, f"network: {event} {host!r}\\n".encode())
                os._exit(99)

sys.addaudithook(refuse)
from harken.cli.main import main
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["harken", *arguments]
    print("$ harken", *arguments, flush=True)
    try:
        code = main()
    except SystemExit as ended:
        code = ended.code
    if code:
        sys.stdout.flush()
        sys.exit(f"{' '.join(arguments)} ended with {code}")
"""
COMMANDS = """
demo
chat --model scripted:script.yaml --name cafe -p Hi
agent run --model scripted:script.yaml --name bar -p Hi --for 5s
init
models
completion bash
hooks
hooks show single-minded
trust --list
import a.jsonl
watch --once a.jsonl
run --runtime claude -- client
proxy --port 0 --idle-timeout 1s
otlp --port 0 --idle-timeout 1s
serve --port 0 --idle-timeout 1s
sessions
sessions check cafe
sessions compress bar
sessions decompress bar
sessions rename bar tea
sessions repair tea --out repaired.jsonl
search Jill
stats
ctx log
ctx resolve cafe
ctx show cafe
ctx cat cafe
ctx checkpoint messages.json --session notes --branch notes
ctx branch
ctx fork cafe --label forked
ctx diff cafe forked
ctx label cafe seen
ctx compact cafe Spoken.
ctx snapshot cafe
ctx materialize cafe
ctx summarize cafe Greeted.
context current
view cafe tree
view cafe timeline
view cafe conversation
view cafe transcript agent_001
view cafe dialog agent_001 user
view cafe perspective agent_001
view cafe context main
view cafe flow msg_003
view cafe hooks
view cafe refs msg_003
view cafe raw
interactions list
interactions show cafe/agent_001
interactions export cafe threads
interactions import threads
replay cafe
replay cafe --check
fork cafe --name branched
compare cafe branched
rerun cafe --at -1 --name again --model scripted:script.yaml
export cafe --format events-v1 -o cafe.cbor
export-tables tables
resume cafe --client claude --print --folder .
verify cafe --client claude
mcp
mcp add toy -- {python} {root}/tests/mcp_toy.py
mcp test toy
mcp remove toy
ticket create Tea
ticket list
ticket ready
ticket claim tkt-
ticket update tkt- --priority 1
ticket note tkt- Green.
ticket defer tkt-
ticket reopen tkt-
ticket close tkt-
ticket show tkt-
ticket export
ticket import issues.json
user add ann --write project:cafe
user list
user rights ann --read *
token create ann
token list
retention add old --older-than 90d
retention list
retention apply
retention remove old
user remove ann
user audit
store info
store retain cafe --pin
store gc
store fsck
store bundle create -o b.harken cafe
remote
remote add keeper https://harken.example.com
remote list
remote remove keeper
store bundle open b.harken
git install
git status
git trace HEAD
git run-hook post-commit
git uninstall
why parse.py:1
blame parse.py
who
review change.diff --reviewers rita --model scripted:review.yaml
agents watch --once
mcp-server --http --port 0 --idle-timeout 1s
"""
REMOTE = {
    "clone": "its purpose is a remote service",
    "pull": "its purpose is a remote service",
    "push": "its purpose is a remote service",
    "mcp login": "its purpose is a remote server",
    "mcp logout": "it ends a login",
}
"""Commands that need a network, with the reason."""
GROUPS = {
    "agent",
    "agents",
    "ctx",
    "context",
    "git",
    "interactions",
    "retention",
    "store",
    "store bundle",
    "ticket",
    "token",
    "user",
}
"""Commands that only have subcommands."""
ELSEWHERE = {
    "token revoke": "test_team.py: the id of a token is random",
    "store purge": "it reads the text from stdin: see below",
    "cat": "it needs the name of an artifact: see below",
    "discuss": "it needs the name of a finding: see below",
    "agents retry": "it needs an agent that has failed: see below",
    "ui": "it runs until a signal: see tests/cli/test_ui.py",
    "view": "it needs a subcommand: see `view cafe tree`",
}


def command_paths(group: click.Group, *above: str) -> set[str]:
    """Return the names of all commands."""
    assert isinstance(group, CommandGroup)
    paths = set()
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        paths.add(" ".join((*above, name)))
        if isinstance(command, click.Group):
            paths |= command_paths(command, *above, name)
    return paths


@functools.cache
def isolation() -> list[str]:
    """Return the prefix of a command that isolates it, if this system can."""
    program = shutil.which("unshare")
    if program is None:
        return []
    prefix = [program, "-n"] if os.geteuid() == 0 else [program, "-rn"]
    return prefix if subprocess.run([*prefix, "true"], check=False).returncode == 0 else []


def run_offline(
    folder: Path, *commands: list[str], token: str = "", text: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run commands of Harken without network, and without accounts in the environment."""
    account = ("KEY", "TOKEN", "SECRET", "PROXY")
    environment = {
        name: value
        for name, value in os.environ.items()
        if not any(word in name.upper() for word in account)
    }
    path = f"{folder / 'programs'}{os.pathsep}{environment['PATH']}"
    environment |= {"HARKEN_HOME": str(folder / "home"), "HOME": str(folder), "NO_COLOR": "1"}
    environment |= {"HARKEN_STORE_TOKEN": token} if token else {}
    how = "isolated" if isolation() else "as it is"
    return subprocess.run(
        [*isolation(), sys.executable, "-c", PROGRAM, json.dumps(commands), how],
        cwd=folder,
        env={**environment, "PATH": path},
        input=text,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def write_files(folder: Path) -> None:
    """Write the files that the commands read."""
    (folder / "script.yaml").write_text("rules:\n  - pattern: Hi\n    answer: Hello Jill.\n")
    (folder / "messages.json").write_text('[{"role": "user", "content": "A note."}]')
    issue = {
        "number": 1,
        "title": "Tea",
        "body": "Green.",
        "state": "OPEN",
        "labels": [],
        "assignees": [],
        "comments": [],
        "author": {"login": "jill"},
        "createdAt": "2026-01-31T12:00:00Z",
        "url": "https://github.com/jill/cafe/issues/1",
    }
    (folder / "issues.json").write_text(json.dumps([issue]))
    write_script(folder)
    write_reviewer(folder / "home")
    repository = Repository.create(folder)
    session = Session(repository).ask("Is the cafe open?")
    session.write("parse.py", "def parse(text):\n", "It is.")
    (folder / "a.jsonl").write_bytes(session.transcript.data)
    repository.write("parse.py", "def parse(text):\n")
    repository.git("add", "parse.py")
    repository.git("commit", "-q", "-m", "Parse")
    toy_clients.install(folder / "programs", "claude")
    program = folder / "programs" / "client"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)


def split_commands() -> list[list[str]]:
    lines = COMMANDS.format(python=sys.executable, root=ROOT).strip().splitlines()
    return [line.split() for line in lines]


def command_of(line: list[str], names: set[str]) -> str:
    """Return the name of the command in a command line: the longest one."""
    words = [line[0], *line[2:]] if line[0] == "view" else line
    prefixes = [" ".join(words[:length]) for length in range(1, len(words) + 1)]
    return [prefix for prefix in prefixes if prefix in names][-1]


def test_every_command_is_tried_or_has_a_reason() -> None:
    names = command_paths(root)
    tried = {command_of(line, names) for line in split_commands()}
    assert names - tried == {*REMOTE, *GROUPS, *ELSEWHERE}


@pytest.mark.req("D-08")
def test_every_command_but_a_remote_model_works_without_network(tmp_path: Path) -> None:
    write_files(tmp_path)
    result = run_offline(tmp_path, *split_commands())
    assert result.returncode == 0, (result.stdout[-600:], result.stderr[-900:])
    materialized = run_offline(tmp_path, ["ctx", "materialize", "cafe"]).stdout
    [artifact] = re.findall("art-[0-9a-f]+", materialized)
    finding = find_ticket(tmp_path / "home", FIRST)
    discuss = ["discuss", finding, "what do you mean?", "--model", "scripted:review.yaml"]
    unanswered = ["discuss", finding, "a question without a rule", *discuss[3:]]
    assert run_offline(tmp_path, unanswered).returncode == 1
    (tmp_path / "any.yaml").write_text("rules: [{answer: Now I can.}]")
    retry = ["agents", "retry", finding, "--model", "scripted:any.yaml"]
    purge = ["store", "purge", "--yes"]
    commands = ((["cat", artifact], ""), (discuss, ""), (retry, ""), (purge, "Hello Jill."))
    for command, text in commands:
        result = run_offline(tmp_path, command, text=text)
        assert result.returncode == 0, (result.stdout[-600:], result.stderr[-900:])


def test_a_command_that_reaches_for_the_network_is_noticed(tmp_path: Path) -> None:
    """Otherwise the tests above would prove nothing."""
    push = ["push", "--all", "https://harken.example.com"]
    result = run_offline(tmp_path, ["demo"], push, token="t" * 40)
    assert result.returncode == 99, result.stderr
    assert "network: socket.getaddrinfo" in result.stderr
