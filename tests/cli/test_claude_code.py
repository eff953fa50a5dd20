"""What was written for Claude Code, from the command line: its agents, skills and hooks."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from harken.chat.open_chat import OpenChat
from harken.config.home import Home
from harken.config.settings import Settings, load_settings
from harken.config.trust import Trust
from harken.errors import ConfigError
from tests.cli.kit import Cli
from tests.unit.agents.command_hooks.command_kit import commanded, keeper, on, told

NO = {"type": "command", "command": "echo no >&2; exit 2"}
HOOKS = {"hooks": {"UserPromptSubmit": [{"hooks": [NO]}]}}
STOPPED = "\n[stopped] hook claude-hooks: no\n"


@pytest.fixture
def claude(tmp_path: Path) -> Path:
    """The folder where the user's Claude Code is configured."""
    folder = tmp_path / "claude"
    (folder / "agents").mkdir(parents=True)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project that nobody trusts yet, with agents, skills and hooks."""
    folder = tmp_path / "here"
    for name in (".harken/skills/style", ".claude/skills/cooking", ".claude/agents"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / ".harken/skills/style/SKILL.md").write_text("---\ndescription: Style.\n---\nShort.")
    (folder / ".claude/skills/cooking/SKILL.md").write_text("---\ndescription: Cooks.\n---\nBoil.")
    (folder / ".claude/agents/cook.md").write_text("---\ndescription: A cook.\n---\nYou cook.")
    (folder / ".claude/settings.json").write_text(json.dumps(HOOKS))
    return folder


def settings(tmp_path: Path, project: Path, claude: Path, **more: Any) -> Settings:
    home = Home(str(tmp_path / "home"))
    environ = {"CLAUDE_CONFIG_DIR": str(claude)}
    return load_settings(home, folder=project, environ=environ, **more)


def trust(tmp_path: Path, project: Path) -> None:
    Trust(Home(str(tmp_path / "home"))).trust(project)


def test_of_a_project_that_is_not_trusted_nothing_counts(
    tmp_path: Path, project: Path, claude: Path
) -> None:
    (claude / "agents/mine.md").write_text("Mine.")
    found = settings(tmp_path, project, claude, claude_hooks=True)
    assert [one.name for one in found.templates] == ["mine"]
    assert found.skills.listing() == ""
    assert found.commands.entries == ()


def test_of_a_trusted_project_agents_and_skills_count(
    tmp_path: Path, project: Path, claude: Path
) -> None:
    trust(tmp_path, project)
    (tmp_path / "home/skills/mine").mkdir(parents=True)
    (tmp_path / "home/skills/mine/SKILL.md").write_text("---\ndescription: Mine.\n---\nMine.")
    found = settings(tmp_path, project, claude)
    assert [one.name for one in found.templates] == ["cook"]
    (claude / "skills/theirs").mkdir(parents=True)
    (claude / "skills/theirs/SKILL.md").write_text("---\ndescription: Theirs.\n---\nTheirs.")
    (claude / "commands").mkdir()
    (claude / "commands/tidy.md").write_text("Tidy up.")
    listed = "- cooking: Cooks.\n- mine: Mine.\n- style: Style.\n- theirs: Theirs."
    assert found.skills.listing() == listed
    assert list(found.prompt_files.paths()) == ["tidy"]
    assert found.commands.entries == ()


def test_hooks_count_where_the_user_says_so(tmp_path: Path, project: Path, claude: Path) -> None:
    trust(tmp_path, project)
    (claude / "settings.json").write_text(json.dumps({"hooks": {"Stop": [{"hooks": [NO]}]}}))
    (tmp_path / "home/config.toml").write_text("[hooks]\nclaude_settings = true\n")
    found = settings(tmp_path, project, claude)
    assert [one.event for one in found.commands.entries] == ["Stop", "UserPromptSubmit"]


def test_a_project_cannot_switch_hooks_on(tmp_path: Path, project: Path, claude: Path) -> None:
    trust(tmp_path, project)
    (project / ".harken/config.toml").write_text("[hooks]\nclaude_settings = true\n")
    with pytest.raises(
        ConfigError, match=r"hooks\.claude_settings would run commands; only config"
    ):
        settings(tmp_path, project, claude)


def test_a_folder_for_claude_code_alone_is_a_project_too(
    tmp_path: Path, project: Path, claude: Path
) -> None:
    shutil.rmtree(project / ".harken")
    [note] = settings(tmp_path, project, claude).notes
    assert note.startswith(f"{project}/.claude is ignored until you trust it: `")
    trust(tmp_path, project)
    found = settings(tmp_path, project / ".claude/agents", claude, claude_hooks=True)
    assert [one.name for one in found.templates] == ["cook"]
    assert [one.event for one in found.commands.entries] == ["UserPromptSubmit"]
    assert found.notes == ()


def test_a_folder_in_which_nothing_would_count_is_no_matter(
    tmp_path: Path, project: Path, claude: Path
) -> None:
    for name in (".harken", ".claude/agents", ".claude/skills"):
        shutil.rmtree(project / name)
    assert settings(tmp_path, project, claude).notes == ()
    [note] = settings(tmp_path, project, claude, claude_hooks=True).notes  # its hooks would
    assert ".claude is ignored until you trust it" in note


@pytest.mark.parametrize("name", [".claude/agents", ".claude/skills", ".harken/skills"])
def test_a_link_out_of_a_project_is_refused(
    tmp_path: Path, project: Path, claude: Path, name: str
) -> None:
    trust(tmp_path, project)
    (project / name).rename(tmp_path / "elsewhere")
    (project / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="links outside its folder are not allowed"):
        settings(tmp_path, project, claude)


@pytest.mark.parametrize("kind", ["open", "foreign", "link"])
def test_what_others_can_write_into_does_not_count(
    tmp_path: Path, project: Path, claude: Path, kind: str
) -> None:
    trust(tmp_path, project)
    folder = project / ".claude"
    if kind == "open":
        folder.chmod(0o777)
    elif kind == "link":
        folder.rename(project / "elsewhere")
        folder.symlink_to(project / "elsewhere")
    else:
        if os.geteuid() != 0:
            pytest.skip("only root can give a folder away")
        os.chown(folder, 12345, 12345)
    with pytest.raises(ConfigError, match=r"\.claude cannot count: (it|everybody) "):
        settings(tmp_path, project, claude)


def test_the_users_own_folder_is_the_same_wherever_they_are(tmp_path: Path, project: Path) -> None:
    with pytest.raises(ConfigError, match="CLAUDE_CONFIG_DIR is '.claude': use an absolute path"):
        settings(tmp_path, project, Path(".claude"), claude_hooks=True)


def rows(cli: Cli, **members: Any) -> list[dict[str, Any]]:
    [log] = cli.sessions()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [row for row in lines if members.items() <= row.items()]


@pytest.mark.req("S4-28")
def test_a_chat_is_watched_by_commands_and_goes_on_so(
    cli: Cli, script: str, project: Path, claude: Path
) -> None:
    cli.ok("trust")
    ran = cli.stopped("chat", "--model", script, "--claude-hooks", "-p", "hello")
    assert ran.err.endswith(STOPPED)
    (project / ".claude/settings.json").write_text("{}")
    ran = cli.stopped("chat", "--continue", "-p", "hello")
    assert ran.err.endswith(STOPPED)
    assert len(rows(cli, event_type="agent_created", name="claude-hooks")) == 1


def test_who_goes_on_with_the_session_of_somebody_else_runs_none_of_their_commands(
    cli: Cli, script: str, project: Path, claude: Path, tmp_path: Path
) -> None:
    cli.ok("trust")
    chat = ("chat", "--model", script, "-p", "hello")
    assert cli.stopped(*chat, "--claude-hooks").err.endswith(STOPPED)
    cli.ok("store", "bundle", "create", "-o", "all.bundle")
    other = ("--home", str(tmp_path / "other"))
    cli.ok("store", "bundle", "open", "all.bundle", *other)
    ran = cli.ok(*chat, "--continue", *other)
    assert ran.out == "Hi there.\n"
    assert "hook claude-hooks: its commands are not run: they come with the log" in ran.err
    cli.ok("trust", *other)
    ran = cli.stopped(*chat, "--continue", "--claude-hooks", *other)  # the commands of this home
    assert ran.err.endswith(STOPPED)


def test_the_end_of_a_session_is_an_event(cli: Cli, script: str, claude: Path) -> None:
    hook = {"type": "command", "command": f"cat > {claude}/ended; echo oops >&2; exit 1"}
    text = json.dumps({"hooks": {"SessionEnd": [{"hooks": [hook]}]}})
    (claude / "settings.json").write_text(text)
    ran = cli.ok("chat", "--model", script, "--claude-hooks", "-p", "hello")
    told = json.loads((claude / "ended").read_text())
    assert (told["hook_event_name"], told["reason"]) == ("SessionEnd", "other")
    assert "exit code 1: oops" in ran.err


@pytest.mark.parametrize(("by_user", "reason"), [(True, "prompt_input_exit"), (False, "other")])
def test_who_ends_a_session_is_the_reason(tmp_path: Path, reason: str, *, by_user: bool) -> None:
    one = commanded(tmp_path, on("SessionEnd", keeper(tmp_path), reason), main=[])
    OpenChat(one.root, one.session, one.runtime, Settings()).end(by_user=by_user)
    assert [row["reason"] for row in told(tmp_path)] == [reason]


def test_without_the_option_no_command_is_run(
    cli: Cli, script: str, project: Path, claude: Path
) -> None:
    cli.ok("trust")
    assert cli.ok("chat", "--model", script, "-p", "hello").out == "Hi there.\n"


def test_settings_that_are_broken_are_said_before_anything_is_made(
    cli: Cli, script: str, claude: Path
) -> None:
    (claude / "settings.json").write_text('{"hooks": {"Stop": 5}}')
    said = cli.refused("chat", "--model", script, "--claude-hooks", "-p", "hello")
    assert f"{claude}/settings.json: hooks: 'Stop' is not a list" in said
    assert cli.sessions() == []


def test_what_has_no_place_here_is_said(cli: Cli, script: str, claude: Path) -> None:
    hooks = {"hooks": {"CwdChanged": [{"hooks": [NO]}]}}
    (claude / "settings.json").write_text(json.dumps(hooks))
    ran = cli.ok("chat", "--model", script, "--claude-hooks", "-p", "hello")
    assert "hooks of 'CwdChanged' are not supported" in ran.err


def test_a_chat_has_skills(cli: Cli, tmp_path: Path) -> None:
    made = tmp_path / "home/skills/style"
    made.mkdir(parents=True)
    (made / "SKILL.md").write_text("---\ndescription: How we write.\n---\nWrite short.")
    model = tmp_path / "model.yaml"
    model.write_text(
        "rules:\n- {pattern: hello, calls: [{skill: {name: style}}]}\n- {pattern: short, answer: Read.}\n"
    )
    cli.ok("chat", "--model", f"scripted:{model}", "-p", "hello")
    [result] = rows(cli, role="tool")
    assert result["content"] == "Write short."
    [tools] = rows(cli, event_type="tools_defined")
    [skill] = [one for one in tools["tools"] if one["name"] == "skill"]
    assert skill["description"].endswith("There is:\n- style: How we write.")


def test_who_trusts_a_project_sees_what_counts(cli: Cli, project: Path) -> None:
    out = cli.ok("trust").out
    assert "  .harken/skills/style/SKILL.md\n" in out
    assert "  .claude/agents/cook.md\n" in out
    assert "  .claude/skills/cooking/SKILL.md\n" in out
    assert "settings.json runs at UserPromptSubmit (only with --claude-hooks)" in out
