"""Agents that were described for Claude Code, as templates."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.agents.templates.claude_code import ClaudeAgents
from harken.agents.templates.template import Template, Templates
from harken.errors import ConfigError

REVIEWER = """\
---
name: reviewer
description: Use this when: the user says "review". Example: <example>Context: x</example>
tools: Read, Grep, Bash, MultiEdit, mcp__github__search, mcp__docs, NotebookEdit, Bash(git *),
  Agent(cook, baker)
disallowedTools: Write
model: sonnet
color: red
maxTurns: 5
permissionMode: plan
skills:
  - house-style
---
You are a reviewer.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / ".claude/agents"
    path.mkdir(parents=True)
    return path


def read(folder: Path, text: str, *, runs_commands: bool = False) -> Template:
    (folder / "reviewer.md").write_text(text)
    more = [ClaudeAgents([folder], runs_commands=runs_commands)]
    return Templates([], more).find("reviewer")


@pytest.mark.req("S4-06")
def test_what_has_a_counterpart_counts_and_the_rest_is_noted(folder: Path) -> None:
    found = read(folder, REVIEWER)
    assert found.tools == (
        *("read", "grep", "bash", "edit", "mcp__github__search", "mcp__docs__*", "task"),
        "skill",
    )
    assert found.denied == ("write",)
    assert found.model is None
    assert found.skills == ("house-style",)
    assert found.permission == "plan"
    assert found.description.startswith('Use this when: the user says "review".')
    assert found.instructions.startswith("You are a reviewer.\n\nBefore you begin, read these")
    assert found.ignored == ("maxTurns",)
    path = folder / "reviewer.md"
    assert found.notes == (
        f"{path}: tool 'NotebookEdit' not found",
        f"{path}: the tool 'Bash(git *)' is omitted: restrictions of a tool are not supported",
        f"{path}: 'Agent(cook, baker)': the limit of agent types is ignored",
        f"{path}: the model 'sonnet' is not known: the model of the parent is used",
        f"{path}: maxTurns: not supported and ignored",
    )
    (folder / "reviewer.md").write_text("---\nmodel: inherit\n---\nNew.")
    [found] = Templates([], [ClaudeAgents([folder])])
    assert (found.instructions, found.model, found.tools, found.notes) == ("New.", None, None, ())


def test_a_template_of_ours_counts_first(folder: Path, tmp_path: Path) -> None:
    (folder / "reviewer.md").write_text("theirs")
    (folder / "sub").mkdir()
    (folder / "sub/cook.md").write_text("---\ndescription: Cooks.\n---\nYou cook.")
    own = tmp_path / "agents"
    own.mkdir()
    (own / "reviewer.md").write_text("ours")
    templates = Templates([own], [ClaudeAgents([folder])])
    assert templates.find("reviewer").instructions == "ours"
    assert templates.listing() == "- cook: Cooks.\n- reviewer"


SERVERS = """\
---
tools: "*"
mcpServers:
  - docs
  - own: {type: stdio, command: own-docs, args: [a]}
  - old: {type: sse}
  - bad name
---
You are a reviewer.
"""


def test_it_has_the_servers_that_it_names_and_describes(folder: Path) -> None:
    found = read(folder, SERVERS)
    assert found.tools is None
    assert found.mcp == ("docs", "own")
    assert [(one.name, one.program) for one in found.servers] == [("own", "own-docs a")]
    assert ["mcp.old: must have either `command`" in note for note in found.notes] == [True, False]


HOOKS = """\
---
hooks:
  PreToolUse:
    - matcher: Bash
      hooks:
        - type: command
          command: exit 2
---
You are a reviewer.
"""


def test_its_commands_are_run_only_where_the_user_wants_that(folder: Path) -> None:
    found = read(folder, HOOKS)
    assert found.commands is None
    assert "its hooks are not run" in found.notes[0]
    found = read(folder, HOOKS, runs_commands=True)
    assert found.commands is not None
    assert found.notes == ()


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("---\nname: x\n---\n", "has no instructions"),
        ("---\nhooks: [x]\n---\nHi", "hooks is a section as settings have it"),
        ("---\ntools: 5\n---\nHi", "tools is a list of names"),
        ("---\nmcpServers: 5\n---\nHi", "mcpServers is a list of names"),
        ("---\nx: !!python/object:os.system {}\n---\nHi", "tags"),
        ("---\nname: reviewer\n", "has no end"),
    ],
)
def test_what_cannot_be_used_is_an_error_on_one_line(folder: Path, text: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong) as error:
        read(folder, text)
    assert "\n" not in str(error.value)


def test_a_link_out_of_the_folder_is_none(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (folder / "reviewer.md").symlink_to(tmp_path / "secret")
    with pytest.raises(ConfigError, match="is a link out of"):
        Templates([], [ClaudeAgents([folder])]).find("reviewer")
