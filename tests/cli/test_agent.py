"""`harken agent run`: what it prints, how long it stays, how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harken.session.session import Session
from tests.cli.kit import HARKEN, Cli
from tests.forks import processes
from tests.session_kit import read_lines

SCRIPT = """\
rules:
  - pattern: '^soon'
    calls: [{wake_me: {name: tea, when: in 1 s, note: Take it out.}}]
  - pattern: '^watch'
    calls: [{wake_me: {name: data, files: [data.json]}}]
  - pattern: '^build'
    calls: [{run_in_background: {name: build, command: "sleep 0.5; echo built"}}]
  - pattern: 'event tea'
    answer: Tea is ready.
  - pattern: 'event data'
    answer: The data changed.
  - pattern: 'event build'
    answer: It is built.
  - pattern: '^fail'
    error: the server is overloaded
  - pattern: '(?s).*'
    answer: Done.
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A scripted model, in a folder of its own."""
    here = tmp_path / "here"
    here.mkdir(exist_ok=True)
    monkeypatch.chdir(here)
    script = tmp_path / "tea.yaml"
    script.write_text(SCRIPT)
    return f"scripted:{script}"


def run_agent(cli: Cli, model: str, *words: str) -> tuple[str, str]:
    """Run an agent that may do everything; return what it printed."""
    ran = cli.ok("agent", "run", "--model", model, "--permission", "all", *words)
    return ran.out, ran.err


def test_without_anything_that_wakes_it_it_ends_with_its_answer(cli: Cli, model: str) -> None:
    out, err = run_agent(cli, model, "-p", "hello")
    assert out == "Done.\n"
    assert err.startswith("Session ")
    [log] = cli.sessions()
    assert read_lines(log)[-1]["event_type"] == "session_ended"


def test_it_stays_while_something_is_armed_and_prints_what_it_says(cli: Cli, model: str) -> None:
    out, err = run_agent(cli, model, "-p", "soon")
    assert out == "Done.\nTea is ready.\n"
    assert "armed still" not in err


def test_a_command_in_the_background_keeps_it_and_json_is_an_object_an_answer(
    cli: Cli, model: str
) -> None:
    ran = cli.ok("agent", "run", "--model", model, "--permission", "all", "--json", "-p", "build")
    answers = [json.loads(line) for line in ran.out.splitlines()]
    assert [answer["text"] for answer in answers] == ["Done.", "It is built."]


def test_a_bound_ends_it_and_a_resume_arms_again(cli: Cli, model: str, tmp_path: Path) -> None:
    (tmp_path / "here" / "data.json").write_text("{}")
    out, err = run_agent(cli, model, "--for", "1s", "-p", "watch")
    assert out == "Done.\n"
    assert ("some triggers are still armed; resume with: harken agent run --resume session_") in err
    (tmp_path / "here" / "data.json").write_text('{"tea": 1}')
    ran = cli.ok("agent", "run", "--resume", "latest", "--permission", "all", "--for", "3s")
    assert ran.out == "The data changed.\n"
    assert "Armed again: data (files: data.json)\n" in ran.err


def test_a_template_gives_prompt_model_and_tools(cli: Cli, model: str) -> None:
    folder = cli.home / "agents"
    folder.mkdir(parents=True)
    front = f"---\nmodel: {model}\ntools: [read, wake_me]\n---\n"
    (folder / "watcher.md").write_text(front + "You watch.")
    assert cli.ok("agent", "run", "--template", "watcher", "-p", "hello").out == "Done.\n"
    [log] = cli.sessions()
    with Session(log) as session:
        agent = session.agents[session.state.root]  # type: ignore[index]
        assert agent.spec.limits.tools == ["read", "wake_me"]
        assert agent.spec.template is not None
        assert agent.spec.template.name == "watcher"
        assert session.context(agent.id)[0].content == "You watch."
    (folder / "odd.md").write_text("---\ntools: [fly]\n---\nYou fly.")
    why = cli.refused("agent", "run", "--model", model, "--template", "odd", "-p", "hello")
    assert "odd.md: tool 'fly' not found; available tools: " in why
    assert cli.sessions() == [log]


def test_a_template_gives_guards_and_limits_too(cli: Cli, model: str) -> None:
    folder = cli.home / "agents"
    folder.mkdir(parents=True)
    front = "---\nhooks: [single-minded]\npermission: plan\nskills: []\n---\n"
    (folder / "careful.md").write_text(front + "You are careful.")
    ran = cli.ok("agent", "run", "--model", model, "--template", "careful", "-p", "hello")
    assert "main: single-minded" in ran.err
    [log] = cli.sessions()
    with Session(log) as session:
        agent = session.agents[session.state.root]  # type: ignore[index]
        assert [session.agents[one].name for one in agent.hooks][-1] == "single-minded"
        assert (agent.spec.limits.permission, agent.spec.limits.skills) == ("plan", [])
    run_agent(cli, model, "--template", "careful", "-p", "soon")
    heard = cli.ok("view", "latest", "perspective", "main").out
    assert "[Received, refused]: Error: wake_me was not run" in heard


@pytest.mark.parametrize(
    ("front", "why"),
    [
        ("hooks: [nobody]", "template:odd cannot be used: hook 'nobody' not found"),
        (
            "mcp: [docs]",
            ("template:odd: MCP server 'docs' not found; no servers exist"),
        ),
        ("tools: [mcp__docs__*]", "MCP server 'docs' not found; no servers exist"),
    ],
)
def test_nobody_begins_without_what_the_template_names(
    cli: Cli, model: str, front: str, why: str
) -> None:
    folder = cli.home / "agents"
    folder.mkdir(parents=True)
    (folder / "odd.md").write_text(f"---\n{front}\n---\nYou are odd.")
    said = cli.refused("agent", "run", "--model", model, "--template", "odd", "-p", "hello")
    assert why in said
    assert cli.sessions() == []


def test_what_cannot_be_run_is_said_on_a_line(cli: Cli, model: str) -> None:
    assert "needs a prompt" in cli("agent", "run", "--model", model).err
    ran = cli("agent", "run", "--model", model, "-p", "fail")
    assert (ran.code, ran.out) == (1, "")
    assert "overloaded" in ran.err


@contextmanager
def started(cli: Cli, model: str) -> Iterator[subprocess.Popen[str]]:
    """Start one that watches a file, as a program of its own."""
    command = [str(HARKEN), "agent", "run", "--home", str(cli.home), "--model", model]
    with processes.start(
        [*command, "--permission", "all", "-p", "watch"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "Done.\n"
        yield process


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_cleanly(cli: Cli, model: str, number: signal.Signals, code: int) -> None:
    with started(cli, model) as process:
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in err
    assert "some triggers are still armed; resume with: " in err
    [log] = cli.sessions()
    assert read_lines(log)[-1]["event_type"] == "session_ended"
    with Session(log) as session:
        assert session.torn is None
