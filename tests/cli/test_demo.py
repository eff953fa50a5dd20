"""`harken demo`: what a new user sees first."""

from __future__ import annotations

import os
import resource
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from harken.session.verify import verify
from tests.cli.kit import Cli, start

OFFLINE = """
import sys
def refuse(event, _):
    if event in ("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto"):
        raise OSError(f"{event}: there is no network")
sys.addaudithook(refuse)
from harken.cli.main import run_cli as run
sys.exit(run(["demo"]))
"""


def test_the_demo_takes_less_than_five_seconds(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = start(tmp_path, "demo")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert took_s < 5  # of a processor: a busy machine makes it no slower
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert b"\x1b" not in ran.stdout  # no colours in a pipe


def test_the_demo_needs_no_network(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OFFLINE]
    environment = {**os.environ, "HARKEN_HOME": str(tmp_path)}
    ran = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_the_demo_shows_the_dialog_the_inner_view_and_who_heard_what(cli: Cli) -> None:
    out = cli.ok("demo").out
    assert "  Jack: Hi, I'm Jack. *extends hand*\n  Jill: *smiles* Hello Jack, I'm Jill." in out
    assert "  Inner: Be friendly but not over-eager." in out
    heard = out.partition("The agents that received each message")[2]
    assert "Jack: Hi, I'm Jack. *extends hand*\n          heard by Jill, main" in heard
    assert "heard by Jill\n" in heard  # her inner voice is heard by nobody else


def test_every_command_that_the_demo_names_works(cli: Cli) -> None:
    further = cli.ok("demo").out.partition("Look further\n")[2].partition("\nIn the browser")[0]
    assert len(further.splitlines()) == 6
    for line in further.splitlines():
        cli.ok(*shlex.split(line, comments=True)[1:])


def test_they_work_with_another_home_too(cli: Cli, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    further = (
        cli.ok("demo", "--home", elsewhere)
        .out.partition("Look further\n")[2]
        .partition("\nIn the browser")[0]
    )
    for line in further.splitlines():
        cli.ok(*shlex.split(line, comments=True)[1:])
    assert cli.sessions() == []


def test_a_demo_that_is_not_on_the_path_says_how_it_was_called(tmp_path: Path) -> None:
    further = (
        start(tmp_path, "demo", PATH="/nowhere")
        .stdout.decode()
        .partition("Look further")[2]
        .partition("\nIn the browser")[0]
    )
    lines = [line.strip() for line in further.split("\n") if line]
    assert all(line.startswith(str(Path(sys.executable).parent)) for line in lines)


def test_each_demo_is_a_session_of_its_own_that_is_whole(demo: Cli) -> None:
    demo.ok("demo")
    assert [path.stem for path in demo.sessions()] == ["demo-2", "demo"]
    assert [verify(path) for path in demo.sessions()] == [[], []]


@pytest.mark.req("S1-07")
def test_agents_of_any_depth_log_to_the_one_session(demo: Cli) -> None:
    rows = demo.ok("view", "demo", "tree", "--json").json
    assert [(row["name"], row["depth"]) for row in rows] == [
        ("main", 0),
        ("Jack", 1),
        ("Jill", 1),
        ("Inner", 2),
    ]


def test_the_demo_goes_on_after_its_end(demo: Cli) -> None:
    assert demo.ok("chat", "--resume", "demo", "-p", "go on").out == (
        "They talked about Jill's story.\n"
    )
