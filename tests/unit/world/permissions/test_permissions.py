"""Permissions: what is free, what is asked and what is denied, and what an answer means."""

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
from tests.unit.world.permissions.people import NO, YES, Person

DONE: list[str] = []


@pytest.fixture(autouse=True)
def nothing_done() -> None:
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


def decided(
    made: Tool,
    about: str,
    mode: Mode = "ask",
    *,
    agents: Sequence[str] = ("main",),
    folder: Path | None = Path("/project"),
    allow: Sequence[str] = (),
    ask: Sequence[str] = (),
    deny: Sequence[str] = (),
) -> str:
    """Return what becomes of a call."""
    arguments = {next(iter(made.arguments.__struct_fields__)): about}
    wish = PermissionRequest(made, arguments, agents, folder)
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
def test_a_mode_says_what_holds_in_general(
    mode: Mode, reading: str, editing: str, editing_elsewhere: str, running: str, sending: str
) -> None:
    assert decided(READ, "/etc/passwd", mode) == reading
    assert decided(EDIT, "src/a", mode) == editing
    assert decided(EDIT, "src/../../a", mode) == editing_elsewhere
    assert decided(EDIT, "/etc/passwd", mode) == editing_elsewhere
    assert decided(BASH, "ls", mode) == running
    assert decided(send, "hi", mode) == sending


def test_without_a_folder_no_edit_is_below_it() -> None:
    assert decided(EDIT, "src/a", "edits", folder=None) == "ask"
    assert decided(edit.with_subject(edits_files=True), "src/a", "edits") == "free"


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
def test_a_sensitive_path_is_asked_in_all_modes_unless_a_rule_names_it(path: str) -> None:
    broad = ["edit(.*/**)", "edit(lib/**)", "edit(/elsewhere/**)", "edit(.*)", "edit(**)", "edit"]
    naming = [f"edit({path})", f"edit({Path(path).parent}/**)"]
    modes: tuple[Mode, ...] = ("ask", "edits", "all")
    for mode in modes:
        assert decided(EDIT, path, mode) == "ask"
        assert decided(EDIT, path, mode, allow=broad) == "ask"
        assert decided(EDIT, path, mode, allow=naming[:1]) == "free"
        is_in_folder = Path(path).parent.name not in ("", "tmp")
        assert decided(EDIT, path, mode, allow=naming[1:]) == ("free" if is_in_folder else "ask")


@pytest.mark.parametrize("mode", ["edits", "all"])
def test_what_is_in_the_home_of_harken_is_asked_in_all_modes(tmp_path: Path, mode: Mode) -> None:
    """Whatever it is called, and also where the agents live around it."""
    (tmp_path / "home").mkdir()
    (tmp_path / "link").symlink_to("home")
    permissions = Permissions(mode, sensitive_paths=[tmp_path / "home"])
    decided = {
        path: permissions.decide(PermissionRequest(EDIT, {"path": path}, ["main"], tmp_path)).kind
        for path in ("home/hooks/guard.md", "link/config.toml", "Home/x", "homely/x", "x")
    }
    assert list(decided.values()) == ["ask", "ask", "ask", "free", "free"]


def test_deny_beats_ask_beats_allow_beats_the_mode() -> None:
    forced = ["bash(git push -f*)"]
    under = partial(decided, BASH, allow=["bash(git *)"], ask=["bash(git push*)"], deny=forced)
    assert under("git status") == "free"
    assert under("git push") == "ask"
    assert under("git push", "all") == "ask"
    assert under("git push -f") == "denied"
    assert under("git push -f", "all") == "denied"
    assert decided(BASH, "git push -f", "all", allow=["bash"], deny=forced) == "denied"
    assert under("ls") == "ask"


def test_planning_beats_rules_that_allow_and_not_those_that_deny() -> None:
    assert decided(BASH, "ls", "plan", allow=["bash", "*"]) == "denied"
    assert decided(READ, "a", "plan", deny=["read"]) == "denied"
    assert decided(READ, "a", "plan") == "free"


def test_reading_is_free_unless_a_rule_says_otherwise() -> None:
    assert decided(READ, ".env", deny=["read(**/.env)"]) == "denied"
    assert decided(READ, ".env", ask=["read(**/.env)"]) == "ask"
    assert decided(READ, "a", deny=["read(**/.env)"], ask=["read(**/.env)"]) == "free"


@pytest.mark.parametrize("rule", ["edit(src/**)", "write(src/**)", "edit", "write"])
def test_a_rule_that_denies_or_asks_one_way_to_change_a_file_holds_for_all(rule: str) -> None:
    @tool
    def move(path: str) -> str:
        """Move."""
        return path

    writing = write.with_subject(by="path", edits_files=True)
    moving = move.with_subject(by="path", edits_files=True)
    for one in (EDIT, writing, moving):
        assert decided(one, "src/a", "all", deny=[rule]) == "denied"
        assert decided(one, "src/a", "all", ask=[rule]) == "ask"
        other = "free" if "(" in rule else "denied"
        assert decided(one, "b", "all", deny=[rule]) == other
    assert decided(READ, "src/a", "all", deny=[rule]) == "free"
    assert decided(move, "src/a", "all", deny=[rule]) == "free"


def test_a_rule_that_allows_is_for_the_tool_that_it_names_alone() -> None:
    writing = write.with_subject(by="path", edits_files=True)
    assert decided(writing, "src/a", allow=["edit(src/**)"]) == "ask"
    assert decided(writing, "src/a", allow=["write(src/**)"]) == "free"


def test_what_shows_files_is_held_as_reading_them_is() -> None:
    cat = tool(name="cat", reads_only=True)(read.function).with_subject(by="path", shows_files=True)
    assert decided(cat, "secret/a", deny=["read(secret/**)"]) == "denied"
    assert decided(cat, "secret/a", ask=["read(secret/**)"]) == "ask"
    assert decided(cat, "a", deny=["read(secret/**)"]) == "free"


def test_a_rule_may_be_for_one_agent() -> None:
    pytest_of = partial(decided, BASH, "pytest -x", allow=["reviewer:bash(pytest*)"])
    assert pytest_of(agents=("reviewer", "main")) == "free"
    assert pytest_of(agents=("main",)) == "ask"
    assert pytest_of(agents=("below", "reviewer")) == "ask"


def test_what_an_agent_may_not_nobody_below_it_may() -> None:
    assert decided(BASH, "ls", "all", agents=("below", "reviewer"), deny=["reviewer:bash"]) == (
        "denied"
    )
    assert decided(BASH, "ls", "all", agents=("below", "reviewer"), ask=["reviewer:bash"]) == "ask"
    assert decided(BASH, "ls", "all", agents=("main",), deny=["reviewer:bash"]) == "free"


def test_a_command_whose_programs_cannot_be_told_is_asked_where_a_rule_denies_some() -> None:
    assert decided(BASH, "$x", "all") == "free"
    assert decided(BASH, "$x", "all", deny=["bash(rm*)"]) == "ask"
    assert decided(BASH, "$x", "all", ask=["bash(rm*)"]) == "ask"
    assert decided(BASH, "$x", "all", deny=["edit(a)"]) == "free"
    assert decided(BASH, "$x", "plan", deny=["bash(rm*)"]) == "denied"


def test_a_tool_that_does_not_say_what_it_is_about_is_held_by_any_pattern_and_freed_by_none() -> (
    None
):
    assert decided(send, "hi", allow=["send(hi)"]) == "ask"
    assert decided(send, "hi", "all", deny=["send(bye)"]) == "denied"
    assert decided(send, "hi", allow=["send"]) == "free"


def test_of_several_paths_all_must_be_allowed_and_none_denied() -> None:
    @tool
    def move(paths: list[str]) -> str:
        """Move."""
        return ""

    made = move.with_subject(by="paths", edits_files=True)

    def decision(paths: list[str], mode: Mode = "ask", **rules: list[str]) -> str:
        wish = PermissionRequest(made, {"paths": paths}, ["main"], Path("/project"))
        return Permissions(mode, PermissionRules.parse(**rules)).decide(wish).kind

    assert decision(["a", "src/b"], allow=["move(src/**)"]) == "ask"
    assert decision(["src/a", "src/b"], allow=["move(src/**)"]) == "free"
    assert decision(["a", "src/b"], "all", deny=["move(src/**)"]) == "denied"
    assert decision(["a", "/b"], "edits") == "ask"
    assert decision([], allow=["move(**)"]) == "ask"


@dataclass
class Asking:
    """A root agent whose calls are checked, with somebody who may be asked."""

    one: Stage
    person: Person | None
    permissions: Permissions

    def do(self, tool_name: str, **arguments: Any) -> ToolResult:
        return run(self.doing(tool_name, **arguments))

    def doing(self, tool_name: str, **arguments: Any) -> Coroutine[Any, Any, ToolResult]:
        caller = ToolContext(self.one.root, "msg_001", self.person)
        action: FunctionCall = call(tool_name, **arguments).function
        return self.one.runtime.world.call_tool(action, caller)


Make = Callable[..., Asking]


@pytest.fixture
def asking(tmp_path: Path) -> Make:
    def make(person: Person | None, mode: Mode = "ask", **rules: list[str]) -> Asking:
        permissions = Permissions(mode, PermissionRules.parse(**rules))
        world = LocalWorld(TOOLS, folder=tmp_path, permissions=permissions)
        model = script_model(main=[])
        one = open_stage(tmp_path, model, runtime=AgentRuntime(model=model, world=world))
        return Asking(one, person, permissions)

    return make


def test_who_is_asked_sees_what_will_happen_and_what_could_be_allowed(asking: Make) -> None:
    person = Person([YES, YES, YES])
    one = asking(person)
    assert one.do("edit", path="./src/a.py").content == "edited"
    assert one.do("bash", command="git push origin").content == "ran"
    assert one.do("send", text="Hä?").content == "sent"
    assert [(w.agent, w.tool, w.subject, w.preview, w.rules) for w in person.wanted] == [
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


def test_what_is_free_is_not_asked(asking: Make) -> None:
    one = asking(Person(), allow=["bash(git *)"])
    assert one.do("read", path="a").content == "a"
    assert one.do("bash", command="git status").content == "ran"


@pytest.mark.req("S4-03")
def test_a_refusal_is_a_result_with_the_reason(asking: Make) -> None:
    one = asking(
        Person(
            [ApprovalDecision(allowed=False, reason="not on Fridays", decision_id="msg_000"), NO]
        )
    )
    assert one.do("bash", command="ls") == ToolResult(
        "Error: bash was not run: the user denied it: not on Fridays",
        cause="msg_000",
        is_error=True,
    )
    assert one.do("bash", command="ls").content == (
        "Error: bash was not run: the user denied it; no reason was given"
    )
    assert DONE == []


def test_what_a_rule_denies_is_not_asked(asking: Make) -> None:
    one = asking(Person(), deny=["bash(rm *)"])
    assert one.do("bash", command="rm x").content == (
        "Error: bash was not run: denied by the rule bash(rm *)"
    )


@pytest.mark.parametrize("person", [None, Person([UserUnavailable("the door is locked")])])
def test_where_nobody_is_there_the_result_says_how_it_could_be_allowed(
    asking: Make, person: Person | None
) -> None:
    result = asking(person).do("bash", command="git push")
    assert result.is_error
    assert "no user is available" in str(result.content)
    assert "bash(git push)" in str(result.content)
    assert "--permission" in str(result.content)
    assert ("the door is locked" in str(result.content)) == (person is not None)
    assert DONE == []


def test_what_cannot_be_done_anyway_is_not_asked(asking: Make) -> None:
    result = asking(Person()).do("edit", path="a", text="impossible")
    assert result == ToolResult("Error: there is no such file", is_error=True)


def test_from_now_on_means_from_now_on_and_is_told(asking: Make) -> None:
    person = Person([ApprovalDecision(allowed=True, rule="bash(git push *)")])
    one = asking(person)
    told: list[str] = []
    one.permissions.on_rule = lambda rule: told.append(str(rule))
    one.do("bash", command="git push origin")
    one.do("bash", command="git push --force")
    assert DONE == ["git push origin", "git push --force"]
    assert len(person.wanted) == 1
    assert told == ["bash(git push *)"]
    assert list(map(str, one.permissions.rules.allow)) == told


def test_a_rule_that_was_not_offered_is_not_accepted(asking: Make) -> None:
    one = asking(Person([ApprovalDecision(allowed=True, rule="bash")]))
    one.do("bash", command="git push origin")
    assert one.permissions.rules.allow == []


def test_only_rules_are_offered_that_would_help(asking: Make) -> None:
    person = Person([YES, YES, YES, YES])
    one = asking(person, allow=["bash(cd *)"], ask=["bash(git push*)"])
    one.do("bash", command="git push")
    one.do("bash", command="ls $x")
    one.do("bash", command="cd a && ls b")
    one.do("bash", command="ls a && cat b")
    assert [wanted.rules for wanted in person.wanted] == [
        [],
        [],
        ["bash(cd a && ls b)", "bash(ls b)", "bash(ls *)"],
        ["bash(ls a && cat b)"],
    ]


def test_questions_are_put_one_at_a_time_and_none_that_is_answered(asking: Make) -> None:
    person = Person([ApprovalDecision(allowed=True, rule="bash(ls *)"), YES])
    one = asking(person)

    async def all_at_once() -> list[ToolResult]:
        commands = ("ls a", "ls b", "pwd", "ls c")
        return await asyncio.gather(*(one.doing("bash", command=text) for text in commands))

    assert [result.content for result in run(all_at_once())] == 4 * ["ran"]
    assert [wanted.subject for wanted in person.wanted] == ["ls a", "pwd"]
    assert person.most_at_once == 1


def test_permissions_may_be_used_in_one_loop_after_the_other(asking: Make) -> None:
    one = asking(Person([YES, YES, YES, YES]))

    async def twice() -> None:
        await asyncio.gather(one.doing("bash", command="a"), one.doing("bash", command="b"))

    run(twice())
    run(twice())
    assert DONE == ["a", "b", "a", "b"]


def test_a_question_holds_up_nothing_that_needs_no_leave(asking: Make) -> None:
    one = asking(Person([YES]), allow=["bash(free)"])

    async def both() -> None:
        waiting = asyncio.ensure_future(one.doing("bash", command="asked"))
        await asyncio.sleep(0)
        await one.doing("bash", command="free")
        assert DONE == ["free"]
        await waiting

    run(both())
    assert DONE == ["free", "asked"]


def test_bad_arguments_are_told_before_anybody_is_asked(asking: Make) -> None:
    result = asking(Person()).do("bash", command=1)
    assert result.is_error
    assert "bash: Expected `str`" in str(result.content)


def test_the_agents_above_are_known_by_name(tmp_path: Path) -> None:
    permissions = Permissions("all", PermissionRules.parse(deny=["Jill:bash(rm*)"]))
    world = LocalWorld(TOOLS, permissions=permissions)
    model = script_model(
        main=[call_message(call("task", name="Jill", instructions="", prompt="Go.")), "Done."],
        Jill=[call_message(call("task", name="Voice", instructions="", prompt="Go.")), "Done."],
        Voice=[call_message(call("bash", command="rm x")), "Done."],
    )
    one = open_stage(tmp_path, model, runtime=AgentRuntime(model=model, world=world))
    assert one.ask("Go.") == "Done."
    assert one.result(agent="Voice")["content"] == (
        "Error: bash was not run: denied by the rule Jill:bash(rm*)"
    )


def test_rules_show_as_they_were_written() -> None:
    assert str(PermissionRule.parse('"a b":bash(x)')) == '"a b":bash(x)'
