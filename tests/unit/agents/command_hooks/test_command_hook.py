"""Hook scripts of others, as they are: real scripts, run by real shells."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from socket import AF_UNIX, socket

import pytest

from harken.agents import unload_agent
from harken.agents.open_calls import has_open_calls
from harken.core.messages import Message
from harken.world.user import ApprovalDecision, ApprovalRequest, UserQuestion
from tests.agent_kit import ScriptedAnswer, call, call_message, check_log, script_model
from tests.agent_kit import request_texts as texts_in
from tests.unit.agents.command_hooks.command_kit import command, commanded, keeper, on, said, told

VALIDATOR = """\
import json, re, sys
told = json.load(sys.stdin)
if told["tool_name"] != "Bash":
    sys.exit(0)
if re.match(r"grep\\b", told["tool_input"]["command"]):
    print("Use rg instead of grep", file=sys.stderr)
    sys.exit(2)
"""
PROTECT = """\
file=$(python3 -S -c 'import json,sys; print(json.load(sys.stdin)["tool_input"]["file_path"])')
case "$file" in
  "$CLAUDE_PROJECT_DIR"/.env) echo "$file is protected" >&2; exit 2 ;;
esac
"""
UNTIL_TESTS_PASS = """\
import json, os, sys
told = json.load(sys.stdin)
if told["stop_hook_active"] or os.path.exists("passed"):
    sys.exit(0)
print(json.dumps({"decision": "block", "reason": "The tests fail: mend them."}))
"""


def script(tmp_path: Path, text: str, run: str = "python3 -S") -> str:
    file = tmp_path / "hook script"
    file.write_text(text)
    return f'{run} "{file}"'


def bash(line: str, id_: str = "c1") -> Message:
    return call_message(call("bash", id_, command=line))


def test_exit_code_2_blocks_a_command_and_says_why(tmp_path: Path) -> None:
    section = on("PreToolUse", script(tmp_path, VALIDATOR), "Bash")
    one = commanded(tmp_path, section, main=[bash("grep x y"), bash("echo free", "c2"), "Done."])
    assert one.ask("Look.") == "Done."
    blocked = "Error: Action blocked by hook 'claude-hooks': Use rg instead of grep"
    assert one.result()["content"] == blocked
    assert one.result("c2")["content"] == "exit code 0\nfree\n"
    assert said(one) == ["DENY: Use rg instead of grep", "OK"]
    check_log(one.log)


def test_a_file_is_protected_whichever_way_leads_to_it(tmp_path: Path) -> None:
    section = on("PreToolUse", script(tmp_path, PROTECT, "bash"), "Edit|MultiEdit|Write")
    work = tmp_path / "desk"
    (work / "src").mkdir(parents=True)
    (work / "link").symlink_to(".env")
    writes = [
        call_message(call("write", f"c{at}", path=path, content="KEY=1"))
        for at, path in enumerate([".env", "src/../.env", "link", f"{work}/.env", "other"])
    ]
    one = commanded(tmp_path, section, main=[*writes, "Done."])
    one.ask("Write.")
    for at in range(4):
        assert "is protected" in one.result(f"c{at}")["content"]
    assert "is_error" not in one.result("c4")
    assert not (work / ".env").exists()


def test_a_prompt_gets_a_context(tmp_path: Path) -> None:
    line = "echo 'Today is Sunday.'"
    one = commanded(tmp_path, on("UserPromptSubmit", line), main=["I see.", "Yes."])
    one.ask("What day is it?")
    assert one.user_messages("main") == ["What day is it?", "[hook claude-hooks]: Today is Sunday."]


def test_a_blocked_prompt_never_reaches_the_model(tmp_path: Path) -> None:
    text = 'import json,sys\n"secret" in json.load(sys.stdin)["prompt"] and sys.exit("2")\n'
    text = text.replace('sys.exit("2")', "(print('no secrets', file=sys.stderr), sys.exit(2))")
    one = commanded(
        tmp_path, on("UserPromptSubmit", script(tmp_path, text)), main=["Hello.", "Bye."]
    )
    assert one.ask("My secret is 42.") == "[stopped] hook claude-hooks: no secrets"
    assert one.runtime.model.requests == []  # type: ignore[union-attr]
    assert said(one) == ["DENY: no secrets"]
    assert one.ask("Hello!") == "Hello."
    [request] = one.runtime.model.requests  # type: ignore[union-attr]
    assert [message.content for message in request.messages] == ["You are main.", "Hello!"]
    one = one.resume()
    assert not has_open_calls(one.root)
    assert "My secret is 42." in one.user_messages("main")
    check_log(one.log)


def test_wherever_a_log_is_cut_a_blocked_prompt_stays_unread(tmp_path: Path) -> None:
    line = "grep -q secret && { echo no >&2; exit 2; }; exit 0"
    one = commanded(tmp_path, on("UserPromptSubmit", line), main=["Hello.", "Fine."])
    one.ask("Hi.")
    one.ask("My secret is 42.")
    one.session.close()
    lines = one.log.read_bytes().splitlines(keepends=True)
    first = next(at for at, row in enumerate(lines) if b'"content":"My secret is 42."' in row)
    for end in range(first + 1, len(lines) + 1):
        one.log.write_bytes(b"".join(lines[:end]))
        model = script_model(main=["Hello.", "Fine."])
        again = one.resume(model=model)
        if has_open_calls(again.root):
            again.ask()
        again.ask("Good?")
        assert not any("secret" in text for request in model.requests for text in texts_in(request))
        again.session.close()


def test_a_stop_is_blocked_until_tests_pass(tmp_path: Path) -> None:
    one = commanded(
        tmp_path,
        on("Stop", script(tmp_path, UNTIL_TESTS_PASS)),
        main=["Done.", "Really done.", "Again done."],
    )
    assert one.ask("Mend it.") == "Really done."
    reason = "Your response was blocked (1 of 3): The tests fail: mend them."
    assert one.user_messages("main") == ["Mend it.", f"[hook claude-hooks]: {reason}"]
    (tmp_path / "desk/passed").touch()
    assert one.ask("And now?") == "Again done."


def test_what_was_blocked_once_is_known_after_a_resume(tmp_path: Path) -> None:
    one = commanded(
        tmp_path,
        on("Stop", script(tmp_path, UNTIL_TESTS_PASS)),
        main=["Done.", RuntimeError("the power went"), "Really done."],
    )
    with pytest.raises(Exception, match="power"):
        one.ask("Mend it.")
    one = one.resume(model=type(one.runtime.default_model)({"main": ["Done.", "Really done."]}))  # type: ignore[misc, call-arg]
    assert one.ask() == "Really done."


def test_arguments_are_rewritten(tmp_path: Path) -> None:
    answer = {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "allow",
            "updatedInput": {"command": "echo safe", "timeout": 5000},
            "additionalContext": "It was made safe.",
        }
    }
    line = f"cat >/dev/null; echo '{json.dumps(answer)}'"
    one = commanded(tmp_path, on("PreToolUse", line, "Bash"), main=[bash("echo danger"), "Done."])
    one.ask("Go.")
    assert one.result()["content"] == "exit code 0\nsafe\n"
    [rewritten] = one.select_lines(event_type="action_rewritten")
    assert json.loads(rewritten["arguments"]) == {"command": "echo safe", "timeout_s": 5.0}
    assert one.user_messages("main")[-1] == "[hook claude-hooks]: It was made safe."


@dataclass
class Somebody:
    """A user who says what they are told to say."""

    allows: bool
    wanted: list[ApprovalRequest] = field(default_factory=list)

    async def ask(self, asked: UserQuestion) -> str:
        raise AssertionError(asked)

    async def approve(self, wanted: ApprovalRequest) -> ApprovalDecision:
        self.wanted.append(wanted)
        return ApprovalDecision(allowed=self.allows, reason="" if self.allows else "not today")


ASK = {
    "hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": "ask",
        "permissionDecisionReason": "It writes.",
    }
}


@pytest.mark.parametrize("allows", [True, False])
def test_the_user_is_asked(tmp_path: Path, *, allows: bool) -> None:
    user = Somebody(allows)
    section = on("PreToolUse", f"echo '{json.dumps(ASK)}'")
    one = commanded(tmp_path, section, user=user, main=[bash("echo hi"), "Done."])
    one.ask("Go.")
    expected = "exit code 0\nhi\n" if allows else "Action blocked by hook 'claude-hooks': not today"
    assert expected in one.result()["content"]
    [wanted] = user.wanted
    assert wanted.tool == "bash"
    assert wanted.preview.startswith("It writes.\n")
    [asked] = one.select_lines(role="user", agent_id="user")
    assert "[main] wants bash: It writes." in asked["content"]


def test_without_a_user_what_is_to_be_asked_is_not_done(tmp_path: Path) -> None:
    section = on("PreToolUse", f"echo '{json.dumps(ASK)}'")
    one = commanded(tmp_path, section, main=[bash("echo hi"), "Done."])
    one.ask("Go.")
    assert "the user's approval is needed (It writes.)" in one.result()["content"]


def test_a_command_ends_the_turn(tmp_path: Path) -> None:
    line = """echo '{"continue": false, "stopReason": "enough for today"}'"""
    one = commanded(
        tmp_path, on("PostToolUse", line, "Bash"), main=[bash("echo hi"), "Never.", "New day."]
    )
    assert one.ask("Go.") == "[stopped] hook claude-hooks: enough for today"
    assert one.result()["content"] == "exit code 0\nhi\n"
    assert len(one.runtime.model.requests) == 1  # type: ignore[union-attr]
    check_log(one.log)


def test_a_turn_that_ends_before_an_action_does_not_run_it(tmp_path: Path) -> None:
    line = """echo '{"continue": false, "stopReason": "enough"}'"""
    section = on("PreToolUse", line, "Bash")
    one = commanded(tmp_path, section, main=[bash("touch made"), "x", "y"])
    assert one.ask("Go.") == "[stopped] hook claude-hooks: enough"
    assert not (tmp_path / "desk/made").exists()
    assert one.result()["content"] == "Error: bash was not run: a hook ended the turn"
    check_log(one.log)


def test_what_was_blocked_has_not_failed(tmp_path: Path) -> None:
    section = {**on("PreToolUse", "exit 2"), **on("PostToolUseFailure", keeper(tmp_path))}
    acts: list[ScriptedAnswer] = [bash("echo hi"), call_message(call("fly", "c2")), "Done."]
    one = commanded(tmp_path, section, main=acts)
    one.ask("Go.")
    assert told(tmp_path) == []


def test_a_failed_command_is_another_event(tmp_path: Path) -> None:
    keep = keeper(tmp_path)
    section = {**on("PostToolUse", keep), **on("PostToolUseFailure", keep)}
    one = commanded(
        tmp_path, section, main=[bash("echo hi"), bash("echo no >&2; exit 3", "c2"), "Done."]
    )
    one.ask("Go.")
    good, bad = told(tmp_path)
    assert good["hook_event_name"] == "PostToolUse"
    assert good["tool_response"]["stdout"] == "hi"
    assert bad["hook_event_name"] == "PostToolUseFailure"
    assert bad["error"] == "Exit code 3\nno"


@pytest.mark.req("S4-29")
def test_subagents_have_the_same_commands_and_say_who_they_are(tmp_path: Path) -> None:
    keep = keeper(tmp_path)
    events = (
        "SubagentStart",
        "PreToolUse",
        "UserPromptSubmit",
        "Stop",
        "SubagentStop",
        "PostToolUse",
    )
    section = {name: part for event in events for name, part in on(event, keep).items()}
    task = call("task", name="Ann", instructions="You are Ann.", prompt="Say hi.")
    one = commanded(
        tmp_path, section, main=[call_message(task), "Done."], Ann=[bash("echo hi"), "Hi."]
    )
    assert one.ask("Go.") == "Done."
    seen = [(one["hook_event_name"], one.get("agent_id")) for one in told(tmp_path)]
    ann = one.id_of("Ann")
    assert seen == [
        ("UserPromptSubmit", None),
        ("PreToolUse", None),
        ("SubagentStart", ann),
        ("PreToolUse", ann),
        ("PostToolUse", ann),
        ("SubagentStop", ann),
        ("PostToolUse", None),
        ("Stop", None),
    ]
    agent = told(tmp_path)[1]
    assert agent["tool_name"] == "Agent"
    assert agent["tool_input"]["prompt"] == "Say hi."
    last, response = told(tmp_path)[5], told(tmp_path)[6]["tool_response"]
    assert (response["status"], response["agentId"]) == ("completed", ann)
    assert response["content"][0]["text"].endswith("Hi.")
    assert last["transcript_path"] != last["agent_transcript_path"]
    check_log(one.log)


def test_matching_commands_run_at_once_and_each_once(tmp_path: Path) -> None:
    meet = "touch {0}; for i in $(seq 100); do [ -e {1} ] && exit 0; sleep 0.05; done; exit 2"
    both = [command(meet.format("a", "b")), command(meet.format("b", "a"))]
    count = command("echo x >> count")
    section = {
        "PreToolUse": [
            {"matcher": "Bash", "hooks": [*both, count]},
            {"matcher": "B.*h", "hooks": [count]},
        ]
    }
    one = commanded(tmp_path, section, main=[bash("echo hi"), "Done."])
    one.ask("Go.")
    assert one.result()["content"] == "exit code 0\nhi\n"
    assert (tmp_path / "desk/count").read_text() == "x\n"


def test_a_no_is_stronger_than_a_yes(tmp_path: Path) -> None:
    yes = """echo '{"decision": "approve", "reason": "fine"}'"""
    section = {"PreToolUse": [{"hooks": [command(yes), command("echo bad >&2; exit 2")]}]}
    one = commanded(tmp_path, section, main=[bash("echo hi"), "Done."])
    one.ask("Go.")
    assert said(one) == ["DENY: bad"]


def test_what_matches_nothing_is_not_in_the_log(tmp_path: Path) -> None:
    one = commanded(tmp_path, on("PreToolUse", "exit 2", "Write"), main=[bash("echo hi"), "Ok."])
    one.ask("Go.")
    assert said(one) == []


@pytest.mark.req("S4-27", "S4-28")
def test_the_commands_are_in_the_birth_and_come_back_with_a_resume(tmp_path: Path) -> None:
    section = on("PreToolUse", script(tmp_path, VALIDATOR), "Bash", timeout=7)
    one = commanded(tmp_path, section, main=[bash("echo a"), "Ok.", bash("grep a", "c2"), "Ok."])
    one.ask("Go.")
    [birth] = one.select_lines(event_type="agent_created", name="claude-hooks")
    assert birth["spec"]["kind"] == "command-hook"
    assert birth["spec"]["standing"]["points"] == ["action", "result"]
    assert birth["spec"]["options"]["commands"][0]["timeout_s"] == 7
    one = one.resume()
    one.ask("And now?")
    assert "Use rg" in one.result("c2")["content"]


def test_a_session_begins_and_goes_on(tmp_path: Path) -> None:
    keep = keeper(tmp_path)
    one = commanded(tmp_path, on("SessionStart", keep), main=["One.", "Two.", "Three."])
    one.ask("Go.")
    unload_agent(one.session, one.id_of("claude-hooks"))
    one.ask("On.")
    one = one.resume()
    one.ask("And on.")
    assert [one["source"] for one in told(tmp_path)] == ["startup", "resume"]


def test_commands_set_the_environment_of_what_agents_run(tmp_path: Path) -> None:
    with socket(AF_UNIX) as bound:
        bound.bind(str(tmp_path / "bound"))
        lines = f"export TEA=green\nA_SOCKET={tmp_path}/bound\nPATH=$PATH:/nowhere\n"
        section = on("SessionStart", f"printf '{lines}' >> $CLAUDE_ENV_FILE")
        show = bash('echo "$TEA $A_SOCKET. ${PATH##*:}"')
        one = commanded(tmp_path, section, main=[show, "Done."])
        one.ask("Go.")
    assert one.result()["content"] == "exit code 0\ngreen . /nowhere\n"


def test_a_file_that_sets_nothing_is_told(tmp_path: Path) -> None:
    notices: list[str] = []
    section = on("SessionStart", "echo 'exit 3' >> $CLAUDE_ENV_FILE")
    one = commanded(tmp_path, section, notices=notices, main=["Done."])
    one.ask("Go.")
    assert notices == ["hook claude-hooks: CLAUDE_ENV_FILE: exit code 3"]


def test_the_transcript_is_that_of_claude_code(tmp_path: Path) -> None:
    one = commanded(
        tmp_path,
        on("Stop", keeper(tmp_path)),
        main=[call_message(call("read", path="a.txt")), "Done.", "Yes."],
    )
    (tmp_path / "desk/a.txt").write_text("one\n")
    one.ask("Read it.")
    path = Path(told(tmp_path)[0]["transcript_path"])
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [record["type"] for record in records] == ["user", "assistant", "user", "assistant"]
    [block] = records[1]["message"]["content"]
    assert (block["name"], block["input"]) == ("Read", {"file_path": f"{tmp_path}/desk/a.txt"})
    assert [one["parentUuid"] for one in records[1:]] == [one["uuid"] for one in records[:-1]]
    one.ask("Sure?")
    assert len(path.read_text().splitlines()) == 6
    one.session.close()
