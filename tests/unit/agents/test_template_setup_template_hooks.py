"""Hooks and permissions that a template says, on the agents that are made from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harken import (
    AgentRuntime,
    Deny,
    Hook,
    HookQuestion,
    LocalWorld,
    Ok,
    Permissions,
    register_agent_class,
    tool,
)
from harken.agents import Verdict
from harken.agents.runtime import AgentLibrary, Observers
from harken.agents.templates.claude_code import ClaudeAgents
from harken.agents.templates.template import Templates
from harken.core.messages import Message
from harken.errors import ConfigError
from harken.world.permissions.mode import Mode
from tests.agent_kit import Stage, call, call_message, check_log, open_stage, script_model


@register_agent_class("test-no-sending")
class NoSending(Hook):
    """A hook that lets nothing be sent."""

    def judge(self, question: HookQuestion) -> Verdict:
        sends = question.call is not None and question.call.function.name == "send"
        return Deny("nothing is sent") if sends else Ok()


@tool
def send(text: str) -> str:
    """Send a text."""
    return f"sent {text}"


BLOCKED = "Error: Action blocked by hook 'test-no-sending': nothing is sent"
SEND = call_message(call("send", "s1", text="hi"))


def task(name: str, instructions: str, id_: str) -> Message:
    return call_message(call("task", id_, name=name, instructions=instructions, prompt="Go!"))


def made(tmp_path: Path, text: str, mode: Mode | None = None, hooks: Any = None) -> Stage:
    """Let main make Ann of a template, Ann make Bob of none, and each send something."""
    folder = tmp_path / "agents"
    folder.mkdir()
    (folder / "careful.md").write_text(text)
    permissions = None if mode is None else Permissions(mode=mode)
    claude = [ClaudeAgents([tmp_path / ".claude"], runs_commands=True)]
    runtime = AgentRuntime(
        model=script_model(
            main=[task("Ann", "template:careful", "c1"), SEND, "Done."],
            Ann=[SEND, task("Bob", "Be Bob.", "c2"), "Ann's."],
            Bob=[SEND, "Bob's."],
        ),
        world=LocalWorld([send], folder=tmp_path, permissions=permissions),
        library=AgentLibrary(templates=Templates([folder], claude), hooks=hooks),
    )
    one = open_stage(tmp_path, runtime.model, runtime=runtime)  # type: ignore[arg-type]
    one.ask("Go.")
    check_log(one.log)
    return one


def sent(one: Stage, *agents: str) -> list[str]:
    return [one.result("s1", agent)["content"] for agent in agents]


@pytest.mark.req("S4-29")
def test_a_hook_of_a_template_watches_its_agents_and_theirs(tmp_path: Path) -> None:
    one = made(tmp_path, "---\nhooks: [test-no-sending]\n---\nBe careful.")
    assert sent(one, "main", "Ann", "Bob") == ["sent hi", BLOCKED, BLOCKED]
    names = [hook.name for hook in one.agent("Ann").hooks]
    assert names == ["test-no-sending"]
    assert one.resume().agent("Ann").hooks[0].name == "test-no-sending"


def test_hooks_come_after_copies_of_the_parents_and_none_twice(tmp_path: Path) -> None:
    folder = tmp_path / "agents"
    folder.mkdir()
    (folder / "careful.md").write_text("---\nhooks: [test-no-sending, other]\n---\nBe careful.")
    model = script_model(main=[task("Ann", "template:careful", "c1"), "Done."], Ann=["Yes."])
    runtime = AgentRuntime(
        model=model,
        library=AgentLibrary(kinds={"other": NoSending}, templates=Templates([folder])),
        world=LocalWorld([send]),
    )
    one = open_stage(tmp_path, model, runtime=runtime)
    NoSending(one.session, runtime=runtime).install(one.root)
    one.ask("Go.")
    assert [hook.name for hook in one.agent("Ann").hooks] == ["test-no-sending", "other"]


@pytest.mark.parametrize("name", ["nothing", "smart"])
def test_a_hook_that_is_none_makes_nobody(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "agents"
    folder.mkdir()
    (folder / "careful.md").write_text(f"---\nhooks: [{name}]\n---\nBe careful.")
    model = script_model(main=[task("Ann", "template:careful", "c1"), "Done."])
    runtime = AgentRuntime(model=model, library=AgentLibrary(templates=Templates([folder])))
    one = open_stage(tmp_path, model, runtime=runtime)
    one.ask("Go.")
    assert one.result()["content"].startswith("Error: template:careful cannot be used: ")
    assert not one.root.subagents
    check_log(one.log)


def test_a_runtime_finds_hooks_by_name(tmp_path: Path) -> None:
    class Finder:
        def create(self, name: str, watched: Any) -> Any:
            if name != "quiet":
                raise ConfigError(f"{name} is no hook")
            return NoSending(watched.session, runtime=watched.runtime)

        def names(self) -> list[str]:
            return ["quiet"]

        def listing(self) -> str:
            return "- quiet"

    one = made(tmp_path, "---\nhooks: quiet\n---\nBe careful.", hooks=Finder())
    assert "blocked by hook 'quiet'" in sent(one, "Ann")[0]


@pytest.mark.req("S4-05")
def test_a_permission_of_a_template_holds_for_all_below_and_never_widens(tmp_path: Path) -> None:
    one = made(tmp_path, "---\npermission: plan\n---\nBe careful.", "all")
    main, ann, bob = sent(one, "main", "Ann", "Bob")
    assert main == "sent hi"
    assert (
        ann == bob == ("Error: send was not run: plan mode allows no changes: describe your plan")
    )


def test_a_wider_permission_of_a_template_gives_nothing(tmp_path: Path) -> None:
    one = made(tmp_path, "---\npermission: all\n---\nBe careful.", "plan")
    assert "plan mode allows no changes" in sent(one, "Ann")[0]


CLAUDE = """\
---
tools: send
hooks:
  Stop:
    - hooks:
        - type: command
          command: cat > {0}/stopped
---
Be careful.
"""


def test_commands_of_an_agent_of_claude_code_watch_it_alone(tmp_path: Path) -> None:
    folder = tmp_path / ".claude"
    folder.mkdir()
    (folder / "reviewer.md").write_text(CLAUDE.format(tmp_path))
    model = script_model(main=[task("Ann", "template:reviewer", "c1"), "Done."], Ann=["Yes."])
    notices: list[str] = []
    runtime = AgentRuntime(
        model=model,
        world=LocalWorld([send], folder=tmp_path),
        library=AgentLibrary(templates=Templates([], [ClaudeAgents([folder], runs_commands=True)])),
        observers=Observers(on_notice=notices.append),
    )
    one = open_stage(tmp_path, model, runtime=runtime)
    one.ask("Go.")
    assert '"hook_event_name":"SubagentStop"' in (tmp_path / "stopped").read_text()
    assert notices == [f"{folder}/reviewer.md: tool 'send' not found"]
    [hook] = one.agent("Ann").hooks
    assert hook.name == "reviewer-hooks"
    check_log(one.log)


def test_what_a_template_denies_is_denied(tmp_path: Path) -> None:
    folder = tmp_path / ".claude"
    folder.mkdir()
    (folder / "reviewer.md").write_text("---\ndisallowedTools: Task, mcp__x__y\n---\nHi.")
    model = script_model(main=[task("Ann", "template:reviewer", "c1"), "Done."], Ann=["Yes."])
    templates = Templates([], [ClaudeAgents([folder])])
    runtime = AgentRuntime(
        model=model, world=LocalWorld([send]), library=AgentLibrary(templates=templates)
    )
    one = open_stage(tmp_path, model, runtime=runtime)
    one.ask("Go.")
    [asked] = model.requests_of("Ann")
    assert [tool["name"] for tool in asked.tools] == ["discuss", "terminate", "send"]
