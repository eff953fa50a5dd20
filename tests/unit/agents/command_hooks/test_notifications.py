"""What commands are told beside questions: leave is asked, somebody waits, a context is summed up."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harken import AgentRuntime, LocalWorld, Permissions, load_session
from harken.agents.command_hooks.config import read_hooks
from harken.agents.command_hooks.hook import NAME, CommandHook, Commands
from harken.agents.hooks.notifications import UserInputPending, call_user
from harken.agents.open_calls import has_open_calls
from harken.agents.runtime import ActionPolicy, ContextLimits, Observers
from harken.agents.smart_agent import SmartAgent
from harken.errors import ModelError
from harken.llm.context_windows import ContextWindows
from harken.world.local import local_tools
from harken.world.permissions.rules import PermissionRules
from harken.world.user import ApprovalDecision, ApprovalRequest, UserQuestion
from tests.agent_kit import Stage, call, call_message, check_log, fast_options, open_stage, run
from tests.unit.agents.command_hooks.command_kit import keeper, on, said, told
from tests.unit.agents.compaction_kit import SUMMARY, WORDS, Talk, talk
from tests.unit.agents.crash_kit import cut_after

ALWAYS = {"session_id", "transcript_path", "cwd", "hook_event_name"}
MOMENTS = ("PermissionRequest", "Notification", "PreCompact", "PostCompact")


@dataclass
class Somebody:
    """A user who allows everything and says yes."""

    wanted: list[ApprovalRequest] = field(default_factory=list)

    async def ask(self, asked: UserQuestion) -> str:
        return "yes"

    async def approve(self, wanted: ApprovalRequest) -> ApprovalDecision:
        self.wanted.append(wanted)
        return ApprovalDecision(allowed=True)


def watched(
    tmp_path: Path,
    section: dict[str, Any],
    model: Talk,
    *,
    window: int | None = None,
    notices: list[str] | None = None,
    may_allow: bool = False,
    user: Somebody | None = None,
    let_run: set[str] | None = None,
) -> Stage:
    """Return a stage in whose world the user is asked, watched by commands."""
    work = tmp_path / "work"
    work.mkdir()
    tools = local_tools(work, outputs=tmp_path)
    world = LocalWorld(tools, folder=work, user=user, permissions=Permissions(mode="ask"))
    windows = ContextWindows({"*": window} if window else {})
    told = [] if notices is None else notices
    runtime = AgentRuntime(
        model=model,
        world=world,
        limits=ContextLimits(windows=windows),
        observers=Observers(on_notice=told.append),
        policy=ActionPolicy(allowed_commands=let_run),
    )
    one = open_stage(tmp_path, model, runtime=runtime)
    options = Commands(read_hooks(section, "settings.json").entries, may_allow)
    CommandHook(one.session, runtime=runtime, options=options).install(one.root, NAME)
    return one


def kept(tmp_path: Path, *events: str) -> dict[str, Any]:
    keep = keeper(tmp_path)
    return {name: part for event in events for name, part in on(event, keep).items()}


def compact(one: Stage, instructions: str = "") -> Any:
    assert isinstance(one.root, SmartAgent)
    return run(one.root.compact(instructions))


BASH = call_message(call("bash", command="echo hi"))


def test_before_the_user_is_asked_commands_hear_what_for(tmp_path: Path) -> None:
    section = kept(tmp_path, *MOMENTS)
    one = watched(tmp_path, section, talk(main=[BASH, "Done."]), user=Somebody())
    assert one.ask("Go.") == "Done."
    wanted, waiting = told(tmp_path)
    assert wanted.keys() == ALWAYS | {"permission_mode", "tool_name", "tool_input"}
    assert wanted["hook_event_name"] == "PermissionRequest"
    assert (wanted["tool_name"], wanted["tool_input"]) == ("Bash", {"command": "echo hi"})
    assert waiting.keys() == ALWAYS | {"message", "notification_type"}
    assert waiting["notification_type"] == "permission_prompt"
    assert waiting["message"] == "Claude needs your permission to use Bash"
    assert one.result()["content"] == "exit code 0\nhi\n"


def decided(**decision: Any) -> str:
    own = {"hookEventName": "PermissionRequest", "decision": decision}
    return f"echo '{json.dumps({'hookSpecificOutput': own})}'"


def test_a_command_says_no_in_the_place_of_the_user(tmp_path: Path) -> None:
    line, user = decided(behavior="deny", message="not here"), Somebody()
    section = on("PermissionRequest", line, "Bash")
    one = watched(tmp_path, section, talk(main=[BASH, "Done."]), user=user)
    one.ask("Go.")
    assert user.wanted == []
    result = one.result()
    assert result["content"].endswith("the user denied it: hook claude-hooks: not here")
    [no] = one.select_lines(role="assistant", content="DENY: not here")
    assert result["cause"] == no["message_id"]
    check_log(one.log)


def test_a_no_may_end_the_turn(tmp_path: Path) -> None:
    line = decided(behavior="deny", message="enough", interrupt=True)
    one = watched(tmp_path, on("PermissionRequest", line), talk(main=[BASH, "Never.", "New."]))
    assert one.ask("Go.") == "[stopped] hook claude-hooks: enough"
    assert one.result()["is_error"]
    check_log(one.log)


def test_a_no_ends_the_turn_after_a_crash_too(tmp_path: Path) -> None:
    line = decided(behavior="deny", message="enough", interrupt=True)
    one = watched(tmp_path, on("PermissionRequest", line), talk(main=[BASH, "Never.", "New."]))
    one.ask("Go.")
    one.session.close()
    refused = [row.get("role") for row in one.select_lines()].index("tool") + 1
    root, session = load_session(
        cut_after(one.log, refused), runtime=one.runtime, options=fast_options()
    )
    later = Stage(root, session, one.runtime)
    assert has_open_calls(later.root)
    assert later.ask() == "[stopped] hook claude-hooks: enough"
    assert later.agent(NAME).state.saved_state is None
    check_log(later.log)


@pytest.mark.parametrize("line", [decided(behavior="allow"), "echo no >&2; exit 2", "exit 1"])
def test_whatever_else_a_command_says_the_user_is_asked(tmp_path: Path, line: str) -> None:
    notices: list[str] = []
    user, model, section = Somebody(), talk(main=[BASH, "Done."]), on("PermissionRequest", line)
    one = watched(tmp_path, section, model, user=user, notices=notices)
    one.ask("Go.")
    assert len(user.wanted) == 1
    assert any("hooks.claude_may_allow is not set" in one for one in notices) is ("allow" in line)


PRE = {"hookEventName": "PreToolUse", "permissionDecision": "allow"}
ALLOW = f"echo '{json.dumps({'hookSpecificOutput': PRE})}'"
ALLOWING = [("PermissionRequest", decided(behavior="allow")), ("PreToolUse", ALLOW)]


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize(("event", "line"), ALLOWING)
def test_where_the_user_wants_it_a_command_allows(
    tmp_path: Path, event: str, line: str, *, is_there: bool
) -> None:
    user = Somebody() if is_there else None
    section, model = on(event, line, "Bash"), talk(main=[BASH, "Done."])
    one = watched(tmp_path, section, model, user=user, may_allow=True)
    one.ask("Go.")
    assert one.result()["content"] == "exit code 0\nhi\n"
    assert user is None or user.wanted == []
    assert one.select_lines(role="assistant", content="ALLOW", agent_id=one.id_of(NAME))
    check_log(one.log)


def test_what_was_not_let_run_here_neither_runs_nor_allows(tmp_path: Path) -> None:
    user, line = Somebody(), f"touch {tmp_path}/ran; {decided(behavior='allow')}"
    section, model = on("PermissionRequest", line), talk(main=[BASH, "Done."])
    one = watched(tmp_path, section, model, user=user, may_allow=True, let_run=set())
    one.ask("Go.")
    assert len(user.wanted) == 1
    assert not (tmp_path / "ran").exists()


def test_what_is_forbidden_no_command_allows(tmp_path: Path) -> None:
    section, model = on(*ALLOWING[0]), talk(main=[BASH, "Done."])
    one = watched(tmp_path, section, model, may_allow=True)
    one.runtime.world.permissions = Permissions(rules=PermissionRules.parse(deny=["bash"]))
    one.ask("Go.")
    assert "denied by the rule bash" in one.result()["content"]


WRITE = call_message(call("write", path=".git/config", content="x"))


@pytest.mark.parametrize(("acts", "ask"), [(BASH, ["bash(echo *)"]), (WRITE, [])])
def test_where_the_user_wants_to_be_asked_no_tool_script_answers(
    tmp_path: Path, acts: Any, ask: list[str]
) -> None:
    """As the client does it: an ask rule holds whatever a hook allows."""
    user, model = Somebody(), talk(main=[acts, "Done."])
    one = watched(tmp_path, on("PreToolUse", ALLOW), model, user=user, may_allow=True)
    one.runtime.world.permissions = Permissions(rules=PermissionRules.parse(ask=ask))
    one.ask("Go.")
    assert [wanted.is_required for wanted in user.wanted] == [True]


def before(decision: str, **more: Any) -> str:
    own = {"hookEventName": "PreToolUse", "permissionDecision": decision, **more}
    return f"echo '{json.dumps({'hookSpecificOutput': own})}'"


@pytest.mark.parametrize(
    "second", [before("ask"), before("allow", updatedInput={"command": "echo no"})]
)
def test_a_command_allows_what_it_saw_and_not_what_another_hook_makes_of_it(
    tmp_path: Path, second: str
) -> None:
    user = Somebody()
    section, model = on("PreToolUse", before("allow")), talk(main=[BASH, "Done."])
    one = watched(tmp_path, section, model, user=user, may_allow=True)
    options = Commands(read_hooks(on("PreToolUse", second), "settings.json").entries)
    CommandHook(one.session, runtime=one.runtime, options=options).install(one.root, "second")
    one.ask("Go.")
    assert len(user.wanted) == 1


def test_a_command_allows_what_it_made_of_it_itself(tmp_path: Path) -> None:
    user = Somebody()
    section = on("PreToolUse", before("allow", updatedInput={"command": "echo yes"}))
    one = watched(tmp_path, section, talk(main=[BASH, "Done."]), user=user, may_allow=True)
    one.ask("Go.")
    assert one.result()["content"] == "exit code 0\nyes\n"
    assert user.wanted == []


def test_where_nobody_is_there_a_command_still_hears_of_it(tmp_path: Path) -> None:
    section = kept(tmp_path, "PermissionRequest", "PostToolUse", "PostToolUseFailure")
    one = watched(tmp_path, section, talk(main=[BASH, "Done."]))
    one.ask("Go.")
    assert [row["hook_event_name"] for row in told(tmp_path)] == ["PermissionRequest"]
    assert "no user is available" in one.result()["content"]


def test_a_question_waits_for_a_slow_notifier_only_a_moment(tmp_path: Path) -> None:
    ask = call_message(call("ask_user", question="Tea?"))
    section = on("Notification", f"{keeper(tmp_path)}; sleep 60", "permission_prompt")
    one = watched(tmp_path, section, talk(main=[ask, "Coming."]), user=Somebody())
    began = time.monotonic()
    assert one.ask("Hi.") == "Coming."
    assert time.monotonic() - began < 50
    [waiting] = told(tmp_path)
    assert waiting["message"] == "Claude needs your permission to use AskUserQuestion"


def test_who_waits_for_the_user_says_so(tmp_path: Path) -> None:
    section = on("Notification", f"{keeper(tmp_path)}; echo no >&2; exit 2", "idle_prompt")
    notices: list[str] = []
    one = watched(tmp_path, section, talk(main=[]), notices=notices)

    async def wait() -> None:
        await call_user(one.root, UserInputPending(kind="idle_prompt"))
        while not notices and asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.sleep(0.01)

    run(wait())
    [waiting] = told(tmp_path)
    assert waiting["message"] == "Claude is waiting for your input"
    assert notices == []


def test_a_context_is_summed_up_by_hand(tmp_path: Path) -> None:
    section = kept(tmp_path, *MOMENTS)
    section |= on("SessionStart", "echo The rules: none.", "compact")
    model = talk(main=["one", "two", "three"])
    one = watched(tmp_path, section, model)
    one.ask(WORDS)
    one.ask(WORDS)
    assert compact(one, "the colours") is not None
    before, after = told(tmp_path)
    assert before.keys() == ALWAYS | {"trigger", "custom_instructions"}
    assert (before["trigger"], before["custom_instructions"]) == ("manual", "the colours")
    assert after.keys() == ALWAYS | {"trigger", "compact_summary"}
    assert after["compact_summary"] == SUMMARY
    one.ask("On.")
    assert one.user_messages("main")[-1] == "[hook claude-hooks]: The rules: none."
    check_log(one.log)


def test_without_instructions_there_are_none(tmp_path: Path) -> None:
    one = watched(tmp_path, kept(tmp_path, "PreCompact"), talk(main=["one", "two"]))
    one.ask(WORDS)
    compact(one)
    assert told(tmp_path)[0]["custom_instructions"] is None


def test_what_a_command_prints_before_shall_be_kept_too(tmp_path: Path) -> None:
    model = talk(main=["one", "two"])
    one = watched(tmp_path, on("PreCompact", "echo Keep the numbers."), model)
    one.ask(WORDS)
    compact(one, "the colours")
    [asked] = model.requests_of("compaction")
    assert "the colours\n\nKeep the numbers." in str(asked.messages[-1].content)


def test_a_command_does_not_let_a_context_go(tmp_path: Path) -> None:
    model = talk(main=["one", "two"])
    one = watched(tmp_path, on("PreCompact", "echo not now >&2; exit 2", "manual"), model)
    one.ask(WORDS)
    with pytest.raises(ModelError, match="hook claude-hooks refuses the compaction: not now"):
        compact(one)
    assert model.requests_of("compaction") == []
    assert said(one) == ["DENY: not now"]
    check_log(one.log)


@pytest.mark.parametrize("no", [True, False])
def test_a_context_that_is_full_is_another_trigger(tmp_path: Path, *, no: bool) -> None:
    line = f"{keeper(tmp_path)}; {'echo not now >&2; exit 2' if no else ''}"
    notices: list[str] = []
    model = talk(main=["more"] * 9)
    section = {**on("PreCompact", line, "auto"), **on("PostCompact", "exit 2", "manual")}
    one = watched(tmp_path, section, model, window=700, notices=notices)
    for _ in range(4):
        one.ask(WORDS)
    assert told(tmp_path)[0]["trigger"] == "auto"
    assert bool(model.requests_of("compaction")) is not no
    assert any("hook claude-hooks refuses the compaction: not now" in n for n in notices) is no
