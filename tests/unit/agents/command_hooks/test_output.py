"""What comes of what a command says: each case as Claude Code 2.1.329 has it.

`tests/clients/test_command_answers.py` asks the client itself.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.agent_kit import call, call_message
from tests.unit.agents.command_hooks.command_kit import commanded, on, said

BASH = call_message(call("bash", command="echo tool-output-42"))


def own(event: str, **members: Any) -> str:
    return json.dumps({"hookSpecificOutput": {"hookEventName": event, **members}})


def says(text: str, then: str = "") -> str:
    return f"printf %s {shlex.quote(text)}; {then}"


DENY = own("PreToolUse", permissionDecision="deny", permissionDecisionReason="json says no")
ALLOW = own("PreToolUse", permissionDecision="allow")
OLD_NO_NEW_YES = json.dumps({**json.loads(ALLOW), "decision": "block", "reason": "old no"})
NAMELESS = json.dumps({"hookSpecificOutput": {"permissionDecision": "deny"}})
BEFORE = {
    "exit code 1 leaves JSON what it says": (says(DENY, "echo e >&2; exit 1"), "json says no"),
    "the reason of JSON comes first": (says(DENY, "echo e >&2; exit 2"), "json says no"),
    "exit code 2 is stronger than a yes": (says(ALLOW, "echo e >&2; exit 2"), "e"),
    "exit code 2 needs no JSON": (says('{"decision": ', "echo e >&2; exit 2"), "e"),
    "exit code 2 needs no good JSON": (says("{x}", "echo e >&2; exit 2"), "e"),
    "a plain decision": (says('{"decision": "block", "reason": "old no"}', "exit 3"), "old no"),
    "an older no and a newer yes": (says(OLD_NO_NEW_YES), "old no"),
    "a mark of the encoding": (f"printf '\\357\\273\\277'; {says(DENY)}", "json says no"),
    "an answer of a megabyte and more": (f"printf '%1500000s' ''; {says(DENY)}", "json says no"),
    "an answer says to what": (says(NAMELESS), None),
    "an answer to something else": (says(own("PostToolUse", additionalContext="z")), None),
    "a word of another place": (says('{"decision": "deny"}'), None),
    "other arguments": (
        says(own("PreToolUse", updatedInput={"command": "echo tool-output-42"})),
        None,
    ),
}


@pytest.mark.parametrize("case", BEFORE)
def test_before_a_call(tmp_path: Path, case: str) -> None:
    line, reason = BEFORE[case]
    one = commanded(tmp_path, on("PreToolUse", line, "Bash"), main=[BASH, "Done."])
    assert one.ask("Go.") == "Done."
    expected = "exit code 0\ntool-output-42\n"
    if reason is not None:
        expected = f"Error: Action blocked by hook 'claude-hooks': {reason}"
    assert one.result()["content"] == expected


TEXTS = {
    "text": ("echo KETTLE-42", "KETTLE-42"),
    "what only begins as JSON": (says("{KETTLE-42"), "{KETTLE-42"),
    "a list": (says('["KETTLE-42"]'), '["KETTLE-42"]'),
    "what looks like JSON and is none": (says("{KETTLE-42}"), None),
    "JSON that decides nothing known": (
        says('{"decision": "perhaps", "reason": "KETTLE-42"}'),
        None,
    ),
    "text of what failed": ("echo KETTLE-42; exit 1", None),
    "JSON of what failed": (
        says(own("UserPromptSubmit", additionalContext="KETTLE-42"), "exit 1"),
        "KETTLE-42",
    ),
}
"""What is printed beside a prompt, and what of it is heard."""


@pytest.mark.parametrize("case", TEXTS)
def test_beside_a_prompt(tmp_path: Path, case: str) -> None:
    line, heard = TEXTS[case]
    one = commanded(tmp_path, on("UserPromptSubmit", line), main=["Yes."])
    assert one.ask("Go.") == "Yes."
    more = [] if heard is None else [f"[hook claude-hooks]: {heard}"]
    assert one.user_messages("main") == ["Go.", *more]
    assert (said(one)[0].startswith("[command] ")) is (heard is None)


def test_what_is_added_at_the_end_sends_the_agent_on(tmp_path: Path) -> None:
    line = says(own("Stop", additionalContext="Mind the tests."))
    line = f"grep -q '\"stop_hook_active\":true' && exit 0; {line}"
    one = commanded(tmp_path, on("Stop", line), main=["Done.", "I do."])
    assert one.ask("Go.") == "I do."
    assert one.user_messages("main")[1].endswith(": Mind the tests.")


def test_an_action_that_is_put_off_ends_the_turn(tmp_path: Path) -> None:
    line = says(own("PreToolUse", permissionDecision="defer"))
    one = commanded(tmp_path, on("PreToolUse", line), main=[BASH, "Never."])
    assert one.ask("Go.") == "[stopped] hook claude-hooks: a hook put the action off"
    assert "was not run" in one.result()["content"]


def test_what_counts_for_nothing_is_said_once(tmp_path: Path) -> None:
    notices: list[str] = []
    line = says(own("PostToolUse", updatedToolOutput="x", additionalContext="Fine."))
    acts = [call_message(call("bash", f"c{at}", command="echo hi")) for at in range(2)]
    section = on("PostToolUse", line)
    one = commanded(tmp_path, section, notices=notices, main=[*acts, "Done."])
    one.ask("Go.")
    assert one.result("c1")["content"] == "exit code 0\nhi\n"
    nothing = "updatedToolOutput of a command's answer is not supported and is ignored"
    assert notices == [f"hook claude-hooks: {nothing}"]
    assert said(one) == [f"[command] {nothing}", "COMMENT: Fine.", "COMMENT: Fine."]
