"""Which calls the `if` of a hook means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harken.agents.command_hooks.condition import Condition
from tests.agent_kit import call, call_message
from tests.unit.agents.command_hooks.command_kit import commanded, on, said

FOLDER = Path("/w")


@pytest.mark.parametrize(
    ("rule", "name", "call", "holds"),
    [
        ("Bash", "Bash", {"command": "x"}, True),
        ("Bash(*)", "Bash", {"command": "x"}, True),
        ("Bash(git *)", "Write", {"file_path": "/w/git"}, False),
        ("Bash(git *)", "Bash", {"command": "git"}, True),
        ("Bash(git:*)", "Bash", {"command": "git push"}, True),
        ("Bash(git *)", "Bash", {"command": "gitk"}, False),
        ("Bash(git push*)", "Bash", {"command": "cd a && git push"}, True),
        ("Bash(rm *)", "Bash", {"command": "x=$(rm -rf y)"}, True),
        ("Bash(rm *)", "Bash", {"command": "$PROGRAM y"}, True),
        ("Edit(*.ts)", "Edit", {"file_path": "/w/a/b.ts"}, True),
        ("Edit(*.ts)", "Write", {"file_path": "/w/a/b.ts"}, False),
        ("Edit(*.ts)", "Edit", {"file_path": "/w/a/b.tsx"}, False),
        ("Edit(src/**)", "Edit", {"file_path": "/w/src/a/b.ts"}, True),
        ("Edit(/src)", "Edit", {"file_path": "/w/src/a/b.ts"}, True),
        ("Edit(src/**)", "Edit", {"file_path": "/w/lib/src/a.ts"}, False),
        ("Read(./.env)", "Read", {"file_path": "/w/.env"}, True),
        ("Read(//etc/**)", "Read", {"file_path": "/etc/passwd"}, True),
        ("Read(~/.ssh/**)", "Read", {"file_path": "/people/ann/.ssh/id"}, True),
        ("WebFetch(domain:a.org)", "WebFetch", {"url": "https://b.a.org/x"}, True),
        ("WebFetch(domain:a.org)", "WebFetch", {"url": "https://ba.org/x"}, False),
        ("WebFetch(domain:a.org)", "WebFetch", {"url": "https://[a/x"}, True),
        ("mcp__github", "mcp__github__search", {}, True),
        ("mcp__github__get_*", "mcp__github__search", {}, False),
        ("Agent(Explore)", "Agent", {"subagent_type": "Explore", "prompt": "x"}, True),
        ("Agent(Explore)", "Agent", {"subagent_type": "Plan", "prompt": "x"}, False),
    ],
)
def test_a_condition_is_a_rule(rule: str, name: str, call: dict[str, Any], holds: bool) -> None:
    assert Condition.parse(rule).matches([name], call, FOLDER) is holds


@pytest.mark.parametrize("text", ["Bash(git", "git *", "(x)", "Bash)", ""])
def test_what_is_no_rule_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="is not a rule such as"):
        Condition.parse(text)


def test_a_command_is_run_for_the_calls_that_its_condition_means(tmp_path: Path) -> None:
    section = on("PreToolUse", "echo no >&2; exit 2", "Bash", **{"if": "Bash(echo b*)"})
    acts = [call_message(call("bash", f"c{at}", command=f"echo {at}")) for at in "ab"]
    one = commanded(tmp_path, section, main=[*acts, "Done."])
    one.ask("Go.")
    assert one.result("ca")["content"] == "exit code 0\na\n"
    assert one.result("cb")["content"].endswith(": no")
    assert said(one) == ["DENY: no"]
