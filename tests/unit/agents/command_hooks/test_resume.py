"""Commands after a crash: what they are told is what they would have been told without one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harken.agents.open_calls import has_open_calls
from harken.core.verdict import HookQuestion, Rewrite
from harken.session.log.checksum import has_more
from tests.agent_kit import (
    LogLine,
    ScriptModel,
    Stage,
    call,
    call_message,
    check_log,
    run,
    script_model,
)
from tests.unit.agents.command_hooks.command_kit import commanded, keeper, on, told
from tests.unit.agents.hook_kit import watch

SAFE = {
    "hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "updatedInput": {"command": "echo safe"},
    }
}
DANGER = call_message(call("bash", command="echo danger"))


def wherever_it_is_cut(
    one: Stage, tmp_path: Path, model: ScriptModel
) -> Iterator[tuple[list[LogLine], Stage]]:
    """Yield what each beginning of a log has, and the stage that went on with it to its end."""
    one.session.close()
    lines = one.log.read_bytes().splitlines(keepends=True)
    first = next(at for at, line in enumerate(lines) if b'"content":"Go."' in line)
    for end in range(first + 1, len(lines) + 1):
        one.log.write_bytes(b"".join(lines[:end]))
        (tmp_path / "told.jsonl").write_text("")
        complete = lines[:end]
        while has_more(complete[-1]):
            complete.pop()
        before = [json.loads(line) for line in complete]
        again = one.resume(model=model)
        if has_open_calls(again.root):
            again.ask()
        yield before, again
        again.session.close()
        check_log(one.log)


def test_what_ran_is_told_after_a_crash_too(tmp_path: Path) -> None:
    rewrites = f"cat >/dev/null; echo '{json.dumps(SAFE)}'"
    section = {**on("PreToolUse", rewrites, "Bash"), **on("PostToolUse", keeper(tmp_path))}
    parts: dict[str, Any] = {"main": [DANGER, "Done."]}
    one = commanded(tmp_path, section, **parts)
    one.ask("Go.")
    count = 0
    for _, again in wherever_it_is_cut(one, tmp_path, script_model(**parts)):
        for said in told(tmp_path):
            assert said["tool_input"] == {"command": "echo safe"}
            assert again.result()["content"] == "exit code 0\nsafe\n"
            count += 1
    assert count


def test_what_ran_is_told_whoever_rewrote_it(tmp_path: Path) -> None:
    def safe(_: HookQuestion) -> Rewrite:
        return Rewrite('{"command": "echo safe"}')

    one = commanded(tmp_path, on("PostToolUse", keeper(tmp_path)), main=[DANGER, "Done."])
    watch(one, action=safe)
    one.ask("Go.")
    [said] = told(tmp_path)
    assert said["tool_input"] == {"command": "echo safe"}


def test_a_subagent_starts_once_and_a_session_once_in_each_program(tmp_path: Path) -> None:
    keep = keeper(tmp_path)
    section = {**on("SessionStart", keep), **on("SubagentStart", keep), **on("Stop", keep)}
    task = call("task", name="Ann", instructions="You are Ann.", prompt="Say hi.")
    parts: dict[str, Any] = {
        "main": [call_message(task), "Done.", "Yes."],
        "Ann": ["Hi.", "Hi again."],
    }
    one = commanded(tmp_path, section, **parts)
    one.ask("Go.")
    for before, again in wherever_it_is_cut(one, tmp_path, script_model(**parts)):
        again.ask("And now?")
        ann = again.root.subagents.get("Ann")
        if ann is not None:
            run(ann.response("And you?"))
        started = [one.get("source") for one in told(tmp_path) if "Start" in one["hook_event_name"]]
        watched = {row["watched"] for row in before if row.get("point") == "input"}
        has_heard = again.root.agent_id in watched
        assert started.count("resume" if has_heard else "startup") == 1
        has_begun = ann is not None and ann.agent_id in watched
        assert started.count(None) == (ann is not None and not has_begun)


def test_a_turn_that_a_hook_ended_does_not_end_the_next_one(tmp_path: Path) -> None:
    ends = """cat >/dev/null; [ -e ended ] || echo '{"continue": false, "stopReason": "enough"}'"""
    section = on("PostToolUse", f"{ends}; touch ended", "Bash")
    one = commanded(tmp_path, section, main=[call_message(call("bash", command="true")), "Hello."])
    assert one.ask("Go.") == "[stopped] hook claude-hooks: enough"
    assert one.ask("And now?") == "Hello."
    assert one.user_messages("main") == ["Go.", "And now?"]
    check_log(one.log)
