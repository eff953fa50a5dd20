"""Permissions: allowed, asked and denied calls, and the effect of the user's answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harken import AgentRuntime, LocalWorld, Tool, ToolContext, tool
from harken.core.messages import FunctionCall
from harken.world.permissions.mode import Mode
from harken.world.permissions.permissions import PermissionRequest, Permissions
from harken.world.permissions.rules import PermissionRule, PermissionRules
from harken.world.result import ToolError, ToolResult
from harken.world.user import ApprovalDecision, UserUnavailable
from tests.agent_kit import Stage, call, call_message, open_stage, run, script_model
from tests.unit.world.permissions.user_kit import NO, YES, ScriptedUser

DONE: list[str] = []


@pytest.fixture(autouse=True)
def do_nothing() -> None:
    DONE.clear()


@tool(reads_only=True)
def read(path: str) -> str:
    """Read."""
    return path


@tool
def edit(path: str, text: str = "") -> str:
    """Edit."""
    DONE.append(path)
    return "edited"


@tool
def write(path: str) -> str:
    """Write."""
    return path


@tool
def bash(command: str) -> str:
    """Run."""
    DONE.append(command)
    return "ran"


@tool
def send(text: str) -> str:
    """Send."""
    DONE.append(text)
    return "sent"


async def _diff(path: str, text: str = "") -> str:
    if text == "impossible":
        raise ToolError("there is no such file")
    return f"--- {path}"


READ = read.with_subject(by="path")
EDIT = edit.with_subject(by="path", edits_files=True, preview=_diff)
BASH = bash.with_subject(by="command", kind="command")
TOOLS = (READ, EDIT, BASH, send)


def decide(
    created: Tool,
    about: str,
    mode: Mode = "ask",
    *,
    agents: Sequence[str] = ("main",),
    folder: Path | None = Path("/project"),
    allow: Sequence[str] = (),
    ask: Sequence[str] = (),
    deny: Sequence[str] = (),
) -> str:
    """Return the decision on a call."""
    arguments = {next(iter(created.arguments.__struct_fields__)): about}
    wish = PermissionRequest(created, arguments, agents, folder)
    return (
        Permissions(mode, PermissionRules.parse(allow=allow, ask=ask, deny=deny)).decide(wish).kind
    )


@pytest.mark.parametrize(
    ("mode", "reading", "editing", "editing_elsewhere", "running", "sending"),
    [
        ("ask", "free", "ask", "ask", "ask", "ask"),
        ("edits", "free", "free", "ask", "ask", "ask"),
        ("all", "free", "free", "free", "free", "free"),
        ("plan", "free", "denied", "denied", "denied", "denied"),
    ],
)
def test_mode_sets_the_default_decision(
    mode: Mode, reading: str, editing: str, editing_elsewhere: str, running: str, sending: str
) -> None:
    assert decide(READ, "/etc/passwd", mode) == reading
    assert decide(EDIT, "src/a", mode) == editing
    assert decide(EDIT, "src/../../a", mode) == editing_elsewhere
    assert decide(EDIT, "/etc/passwd", mode) == editing_elsewhere
    assert decide(BASH, "ls", mode) == running
    assert decide(send, "hi", mode) == sending


def test_no_edit_is_inside_if_there_is_no_folder() -> None:
    assert decide(EDIT, "src/a", "edits", folder=None) == "ask"
    assert decide(edit.with_subject(edits_files=True), "src/a", "edits") == "free"


@pytest.mark.parametrize(
    "path",
    [
        ".git/hooks/pre-commit",
        "lib/.git/config",
        ".harken/hooks/guard.md",
        ".Harken/config.toml",
        ".claude/settings.json",
        "lib/.claude/agents/x.md",
        ".mcp.json",
        "/elsewhere/.git/config",
    ],
)
def test_sensitive_path_is_asked_in_all_modes_unless_a_rule_names_it(path: str) -> None:
    broad = ["edit(.*/**)", "edit(lib/**)", "edit(/elsewhere/**)", "edit(.*)", "edit(**)", "edit"]
    naming = [f"edit({path})", f"edit({Path(path).parent}/**)"]
    modes: tuple[Mode, ...] = ("ask", "edits", "all")
    for mode in modes:
        assert decide(EDIT, path, mode) == "ask"
        assert decide(EDIT, path, mode, allow=broad) == "ask"
        assert decide(EDIT, path, mode, allow=naming[:1]) == "free"
        is_in_folder = Path(path).parent.name not in ("", "tmp")
        assert decide(EDIT, path, mode, allow=naming[1:]) == ("free" if is_in_folder else "ask")


@pytest.mark.parametrize("mode", ["edits", "all"])
def test_harken_home_is_asked_in_all_modes(tmp_path: Path, mode: Mode) -> None:
    """With any name, and also if the agents work above it."""
    (tmp_path / "home").mkdir()
    (tmp_path / "link").symlink_to("home")
    permissions = Permissions(mode, sensitive_paths=[tmp_path / "home"])
    decisions = {
        path: permissions.decide(PermissionRequest(EDIT, {"path": path}, ["main"], tmp_path)).kind
        for path in ("home/hooks/guard.md", "link/config.toml", "Home/x", "homely/x", "x")
    }
    assert list(decisions.values()) == ["ask", "ask", "ask", "free", "free"]


def test_deny_beats_ask_beats_allow_beats_the_mode() -> None:
    forced = ["bash(git push -f*)"]
    under = partial(decide, BASH, allow=["bash(git *)"], ask=["bash(git push*)"], deny=forced)
    assert under("git status") == "free"
    assert under("git push") == "ask"
    assert under("git push", "all") == "ask"
    assert under("git push -f") == "denied"
    assert under("git push -f", "all") == "denied"
    assert decide(BASH, "git push -f", "all", allow=["bash"], deny=forced) == "denied"
    assert under("ls") == "ask"


def test_plan_mode_beats_allow_rules_and_not_deny_rules() -> None:
    assert decide(BASH, "ls", "plan", allow=["bash", "*"]) == "denied"
    assert decide(READ, "a", "plan", deny=["read"]) == "denied"
    assert decide(READ, "a", "plan") == "free"


def test_reading_is_allowed_unless_a_rule_matches() -> None:
    assert decide(READ, ".env", deny=["read(**/.env)"]) == "denied"
    assert decide(READ, ".env", ask=["read(**/.env)"]) == "ask"
    assert decide(READ, "a", deny=["read(**/.env)"], ask=["read(**/.env)"]) == "free"


@pytest.mark.parametrize("rule", ["edit(src/**)", "write(src/**)", "edit", "write"])
def test_deny_or_ask_rule_for_one_edit_tool_applies_to_all(rule: str) -> None:
    @tool
    def move(path: str) -> str:
        """Move."""
        return path

    writing = write.with_subject(by="path", edits_files=True)
    moving = move.with_subject(by="path", edits_files=True)
    for item in (EDIT, writing, moving):
        assert decide(item, "src/a", "all", deny=[rule]) == "denied"
        assert decide(item, "src/a", "all", ask=[rule]) == "ask"
        second = "free" if "(" in rule else "denied"
        assert decide(item, "b", "all", deny=[rule]) == second
    assert decide(READ, "src/a", "all", deny=[rule]) == "free"
    assert decide(move, "src/a", "all", deny=[rule]) == "free"


def test_allow_rule_applies_only_to_its_tool() -> None:
    writing = write.with_subject(by="path", edits_files=True)
    assert decide(writing, "src/a", allow=["edit(src/**)"]) == "ask"
    assert decide(writing, "src/a", allow=["write(src/**)"]) == "free"


def test_tools_that_show_files_follow_the_rules_for_reading() -> None:
    cat = tool(name="cat", reads_only=True)(read.function).with_subject(by="path", shows_files=True)
    assert decide(cat, "secret/a", deny=["read(secret/**)"]) == "denied"
    assert decide(cat, "secret/a", ask=["read(secret/**)"]) == "ask"
    assert decide(cat, "a", deny=["read(secret/**)"]) == "free"


def test_rule_may_apply_to_one_agent() -> None:
    pytest_of = partial(decide, BASH, "pytest -x", allow=["reviewer:bash(pytest*)"])
    assert pytest_of(agents=("reviewer", "main")) == "free"
    assert pytest_of(agents=("main",)) == "ask"
    assert pytest_of(agents=("below", "reviewer")) == "ask"


def test_deny_rule_of_an_agent_applies_to_its_subagents() -> None:
    assert decide(BASH, "ls", "all", agents=("below", "reviewer"), deny=["reviewer:bash"]) == (
        "denied"
    )
    assert decide(BASH, "ls", "all", agents=("below", "reviewer"), ask=["reviewer:bash"]) == "ask"
    assert decide(BASH, "ls", "all", agents=("main",), deny=["reviewer:bash"]) == "free"


def test_command_with_unknown_programs_is_asked_if_a_rule_denies_some() -> None:
    assert decide(BASH, "$x", "all") == "free"
    assert decide(BASH, "$x", "all", deny=["bash(rm*)"]) == "ask"
    assert decide(BASH, "$x", "all", ask=["bash(rm*)"]) == "ask"
    assert decide(BASH, "$x", "all", deny=["edit(a)"]) == "free"
    assert decide(BASH, "$x", "plan", deny=["bash(rm*)"]) == "denied"


def test_tool_without_subject_is_matched_by_deny_patterns_only() -> None:
    assert decide(send, "hi", allow=["send(hi)"]) == "ask"
    assert decide(send, "hi", "all", deny=["send(bye)"]) == "denied"
    assert decide(send, "hi", allow=["send"]) == "free"


def test_all_of_several_paths_must_be_allowed_and_none_denied() -> None:
    @tool
    def move(paths: list[str]) -> str:
        """Move."""
        return ""

    created = move.with_subject(by="paths", edits_files=True)

    def decision(paths: list[str], mode: Mode = "ask", **rules: list[str]) -> str:
        wish = PermissionRequest(created, {"paths": paths}, ["main"], Path("/project"))
        return Permissions(mode, PermissionRules.parse(**rules)).decide(wish).kind

    assert decision(["a", "src/b"], allow=["move(src/**)"]) == "ask"
    assert decision(["src/a", "src/b"], allow=["move(src/**)"]) == "free"
    assert decision(["a", "src/b"], "all", deny=["move(src/**)"]) == "denied"
    assert decision(["a", "/b"], "edits") == "ask"
    assert decision([], allow=["move(**)"]) == "ask"


@dataclass
class PermissionAgent:
    """A root agent whose calls are checked, with a user for approvals."""

    one: Stage
    person: ScriptedUser | None
    permissions: Permissions

    def do(self, tool_name: str, **arguments: Any) -> ToolResult:
        return run(self.doing(tool_name, **arguments))

    def doing(self, tool_name: str, **arguments: Any) -> Coroutine[Any, Any, ToolResult]:
        caller = ToolContext(self.one.root, "msg_001", self.person)
        action: FunctionCall = call(tool_name, **arguments).function
        return self.one.runtime.world.call_tool(action, caller)


Make = Callable[..., PermissionAgent]


@pytest.fixture
def permission_agent(tmp_path: Path) -> Make:
    def make(
        person: ScriptedUser | None, mode: Mode = "ask", **rules: list[str]
    ) -> PermissionAgent:
        permissions = Permissions(mode, PermissionRules.parse(**rules))
        world = LocalWorld(TOOLS, folder=tmp_path, permissions=permissions)
        model = script_model(main=[])
        agent_stage = open_stage(tmp_path, model, runtime=AgentRuntime(model=model, world=world))
        return PermissionAgent(agent_stage, person, permissions)

    return make


def test_approval_request_has_a_preview_and_suggested_rules(permission_agent: Make) -> None:
    person = ScriptedUser([YES, YES, YES])
    agent_stage = permission_agent(person)
    assert agent_stage.do("edit", path="./src/a.py").content == "edited"
    assert agent_stage.do("bash", command="git push origin").content == "ran"
    assert agent_stage.do("send", text="Hä?").content == "sent"
    assert [(w.agent, w.tool, w.subject, w.preview, w.rules) for w in person.approvals] == [
        ("main", "edit", "./src/a.py", "--- ./src/a.py", ["edit(src/a.py)", "edit(src/**)"]),
        (
            "main",
            "bash",
            "git push origin",
            '{\n  "command": "git push origin"\n}',
            ["bash(git push origin)", "bash(git push *)"],
        ),
        ("main", "send", "", '{\n  "text": "Hä?"\n}', ["send"]),
    ]


def test_allowed_call_needs_no_approval(permission_agent: Make) -> None:
    agent_stage = permission_agent(ScriptedUser(), allow=["bash(git *)"])
    assert agent_stage.do("read", path="a").content == "a"
    assert agent_stage.do("bash", command="git status").content == "ran"


@pytest.mark.req("S4-03")
def test_rejection_is_a_result_with_the_reason(permission_agent: Make) -> None:
    agent_stage = permission_agent(
        ScriptedUser(
            [ApprovalDecision(allowed=False, reason="not on Fridays", decision_id="msg_000"), NO]
        )
    )
    assert agent_stage.do("bash", command="ls") == ToolResult(
        "Error: bash was not run: the user denied it: not on Fridays",
        cause="msg_000",
        is_error=True,
        closed="refused",
    )
    assert agent_stage.do("bash", command="ls").content == (
        "Error: bash was not run: the user denied it; no reason was given"
    )
    assert DONE == []


def test_denied_call_needs_no_approval(permission_agent: Make) -> None:
    agent_stage = permission_agent(ScriptedUser(), deny=["bash(rm *)"])
    assert agent_stage.do("bash", command="rm x").content == (
        "Error: bash was not run: denied by the rule bash(rm *)"
    )


@pytest.mark.parametrize("person", [None, ScriptedUser([UserUnavailable("the door is locked")])])
def test_result_without_a_user_explains_how_to_allow_the_call(
    permission_agent: Make, person: ScriptedUser | None
) -> None:
    result = permission_agent(person).do("bash", command="git push")
    assert result.is_error
    assert "no user is available" in str(result.content)
    assert "bash(git push)" in str(result.content)
    assert "--permission" in str(result.content)
    assert ("the door is locked" in str(result.content)) == (person is not None)
    assert DONE == []


def test_call_that_must_fail_needs_no_approval(permission_agent: Make) -> None:
    result = permission_agent(ScriptedUser()).do("edit", path="a", text="impossible")
    assert result == ToolResult("Error: there is no such file", is_error=True)


def test_permanent_approval_adds_a_rule_and_is_logged(permission_agent: Make) -> None:
    person = ScriptedUser([ApprovalDecision(allowed=True, rule="bash(git push *)")])
    agent_stage = permission_agent(person)
    notices: list[str] = []
    agent_stage.permissions.on_rule = lambda rule: notices.append(str(rule))
    agent_stage.do("bash", command="git push origin")
    agent_stage.do("bash", command="git push --force")
    assert DONE == ["git push origin", "git push --force"]
    assert len(person.approvals) == 1
    assert notices == ["bash(git push *)"]
    assert list(map(str, agent_stage.permissions.rules.allow)) == notices


def test_rule_that_was_not_suggested_is_rejected(permission_agent: Make) -> None:
    agent_stage = permission_agent(ScriptedUser([ApprovalDecision(allowed=True, rule="bash")]))
    agent_stage.do("bash", command="git push origin")
    assert agent_stage.permissions.rules.allow == []


def test_only_effective_rules_are_suggested(permission_agent: Make) -> None:
    person = ScriptedUser([YES, YES, YES, YES])
    agent_stage = permission_agent(person, allow=["bash(cd *)"], ask=["bash(git push*)"])
    agent_stage.do("bash", command="git push")
    agent_stage.do("bash", command="ls $x")
    agent_stage.do("bash", command="cd a && ls b")
    agent_stage.do("bash", command="ls a && cat b")
    assert [approval.rules for approval in person.approvals] == [
        [],
        [],
        ["bash(cd a && ls b)", "bash(ls b)", "bash(ls *)"],
        ["bash(ls a && cat b)"],
    ]


def test_approvals_are_serialized_and_answered_ones_are_skipped(permission_agent: Make) -> None:
    person = ScriptedUser([ApprovalDecision(allowed=True, rule="bash(ls *)"), YES])
    agent_stage = permission_agent(person)

    async def all_at_once() -> list[ToolResult]:
        commands = ("ls a", "ls b", "pwd", "ls c")
        return await asyncio.gather(*(agent_stage.doing("bash", command=text) for text in commands))

    assert [result.content for result in run(all_at_once())] == 4 * ["ran"]
    assert [approval.subject for approval in person.approvals] == ["ls a", "pwd"]
    assert person.most_at_once == 1


def test_permissions_work_in_consecutive_event_loops(permission_agent: Make) -> None:
    agent_stage = permission_agent(ScriptedUser([YES, YES, YES, YES]))

    async def twice() -> None:
        await asyncio.gather(
            agent_stage.doing("bash", command="a"), agent_stage.doing("bash", command="b")
        )

    run(twice())
    run(twice())
    assert DONE == ["a", "b", "a", "b"]


def test_pending_approval_does_not_block_allowed_calls(permission_agent: Make) -> None:
    agent_stage = permission_agent(ScriptedUser([YES]), allow=["bash(free)"])

    async def both() -> None:
        waiting = asyncio.ensure_future(agent_stage.doing("bash", command="asked"))
        await asyncio.sleep(0)
        await agent_stage.doing("bash", command="free")
        assert DONE == ["free"]
        await waiting

    run(both())
    assert DONE == ["free", "asked"]


def test_invalid_arguments_are_reported_before_an_approval(permission_agent: Make) -> None:
    result = permission_agent(ScriptedUser()).do("bash", command=1)
    assert result.is_error
    assert "bash: Expected `str`" in str(result.content)


def test_parent_agents_are_named(tmp_path: Path) -> None:
    permissions = Permissions("all", PermissionRules.parse(deny=["Jill:bash(rm*)"]))
    world = LocalWorld(TOOLS, permissions=permissions)
    model = script_model(
        main=[call_message(call("task", name="Jill", instructions="", prompt="Go.")), "Done."],
        Jill=[call_message(call("task", name="Voice", instructions="", prompt="Go.")), "Done."],
        Voice=[call_message(call("bash", command="rm x")), "Done."],
    )
    agent_stage = open_stage(tmp_path, model, runtime=AgentRuntime(model=model, world=world))
    assert agent_stage.ask("Go.") == "Done."
    assert agent_stage.result(agent="Voice")["content"] == (
        "Error: bash was not run: denied by the rule Jill:bash(rm*)"
    )


def test_rules_are_shown_as_written() -> None:
    assert str(PermissionRule.parse('"a b":bash(x)')) == '"a b":bash(x)'
