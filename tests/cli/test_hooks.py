"""`harken hooks`, and hooks that are configured for new chats."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.cli.commands.hooks import command
from tests.cli.kit import Cli
from tests.cli.test_chat import rows

CAREFUL = "---\ndescription: Denies sending.\npoints: [action]\ntools: [todo]\n---\nDeny it.\n"


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / "hooks" / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_all_hooks_are_listed_with_what_they_do_and_where_they_come_from(cli: Cli) -> None:
    mine = written(cli.home, "careful", CAREFUL)
    written(cli.home, "odd", "---\npoints: [thought]\n---\nx")
    (cli.home / "config.toml").write_text('[hooks]\nuse = ["todo-reminder"]\n')
    out = cli.ok("hooks").out
    assert f"careful  (smart, {mine})\n  Denies sending.\n" in out
    assert "on-your-toes  (smart, built in)\n  Before the agent disagrees" in out
    assert "todo-reminder  (code, built in, in new chats)\n" in out
    assert ", unusable)\n" in out
    assert "points are input, action, result and response, not 'thought'" in out
    by_name = {row["name"]: row for row in cli.ok("hooks", "--json").json}
    assert by_name["careful"]["path"] == str(mine)
    assert by_name["todo-reminder"]["used"] is True


def test_one_hook_is_shown_with_what_it_is_told(cli: Cli) -> None:
    written(cli.home, "careful", CAREFUL)
    written(cli.home, "nag", "---\nuse: todo-reminder\noptions: {requests: 3}\n---\n")
    out = cli.ok("hooks", "show", "careful").out
    assert "points: action\ntools: todo\nkeeps: notes\n" in out
    assert out.endswith("\n\nDeny it.\n")
    written(cli.home, "red", "---\ncolour: red\n---\nWatch.\n")
    assert "is not a member of [hooks]: colour\n" in cli.ok("hooks", "show", "red").out
    nag = cli.ok("hooks", "show", "nag").out
    assert "options: requests = 3, without_list = false, tool = todo" in nag
    assert cli.ok("hooks", "show", "careful", "--json").json["instructions"] == "Deny it."
    ran = cli("hooks", "show", "nothing")
    assert ran.code == 2
    assert "hook 'nothing' not found; existing hooks: " in ran.err
    assert command.name == "hooks"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("use: todo-reminder\noptions: {wings: 2}", "option 'wings' not found"),
        ("use: command-hook\noptions: {commands: []}", "command-hook runs programs"),
    ],
)
def test_options_that_cannot_be_are_told_before_a_hook_is_used(
    cli: Cli, text: str, why: str
) -> None:
    written(cli.home, "odd", f"---\n{text}\n---\n")
    assert "odd.md, unusable)" in cli.ok("hooks").out
    shown = cli("hooks", "show", "odd")
    assert (shown.code, why in shown.err) == (2, True)


def test_configured_hooks_watch_the_first_agent_of_a_new_chat(cli: Cli, tmp_path: Path) -> None:
    rules = "rules:\n  - agent: on-your-toes\n    answer: OK\n  - answer: Hi there.\n"
    (tmp_path / "own.yaml").write_text(rules)
    script = f"scripted:{tmp_path / 'own.yaml'}"
    cli.home.mkdir(exist_ok=True)
    config = cli.home / "config.toml"
    config.write_text('[hooks]\nuse = ["changed-files", "single-minded", "on-your-toes"]\n')
    cli.ok("chat", "--model", script, "-p", "hello")
    [log] = cli.sessions()
    births = [row for row in rows(log) if row["event_type"] == "agent_created"][1:]
    assert [row["name"] for row in births] == ["changed-files", "single-minded", "on-your-toes"]
    assert births[2]["spec"]["template"]["name"] == "on-your-toes"
    config.write_text('[hooks]\nuse = ["todo-reminder"]\n')
    cli("chat", "--resume", log, "-p", "hello")
    births = [row for row in rows(log) if row["event_type"] == "agent_created"]
    assert len(births) == 4


def test_a_hook_that_is_not_there_is_an_error_before_anything_is_said(
    cli: Cli, script: str
) -> None:
    cli.home.mkdir(exist_ok=True)
    (cli.home / "config.toml").write_text('[hooks]\nuse = ["nothing"]\n')
    ran = cli("chat", "--model", script, "-p", "hello")
    assert ran.code == 2
    assert "hooks.use in config.toml: hook 'nothing' not found; existing hooks: " in ran.err


@pytest.mark.req("S4-28")
def test_hooks_of_a_project_count_when_it_is_trusted(cli: Cli, script: str) -> None:
    folder = Path.cwd() / ".harken"
    written(folder, "careful", CAREFUL)
    (folder / "config.toml").write_text('[hooks]\nuse = ["careful"]\n')
    names = [row["name"] for row in cli.ok("hooks", "--json").json]
    assert "careful" not in names
    assert "setting: hooks = careful" in cli.ok("trust").out
    by_name = {row["name"]: row for row in cli.ok("hooks", "--json").json}
    assert by_name["careful"]["used"] is True
    written(cli.home, "careful", "Mine.")
    assert cli.ok("hooks", "show", "careful").out.endswith("Deny it.\n")
    cli.ok("chat", "--model", script, "-p", "hello")
    [log] = cli.sessions()
    births = [row for row in rows(log) if row["event_type"] == "agent_created"]
    assert births[-1]["spec"]["limits"]["tools"] == ["todo"]


def test_a_link_out_of_a_projects_hooks_is_refused(cli: Cli, tmp_path: Path) -> None:
    folder = Path.cwd() / ".harken"
    folder.mkdir()
    cli.ok("trust")
    other = tmp_path / "other"
    other.mkdir()
    (folder / "hooks").symlink_to(other)
    assert "links outside its folder are not allowed" in cli("hooks").err
