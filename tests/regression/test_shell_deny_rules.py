"""Commands under a deny rule for the shell.

A hand-written reader let 69 of 174 disguises of `git push` run under `deny bash(git push*)`: input
from here-strings, options such as `tar --checkpoint-action`, variables such as `GIT_SSH_COMMAND`.
Now a Bash grammar reads the command, and what is not understood completely is asked.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harken import Tool, tool
from harken.world.permissions.bash.analysis import Analysis
from harken.world.permissions.bash.plain_commands import plain_parts
from harken.world.permissions.mode import Mode
from harken.world.permissions.permissions import PermissionRequest, Permissions
from harken.world.permissions.rules import PermissionRules
from harken.world.permissions.subjects import CommandSubject

TABLES = Path(__file__).with_name("shell_commands")
DENY = "bash(git push*)"


@tool
def bash(command: str) -> str:
    """Run a command."""
    return command


BASH: Tool = bash.with_subject(by="command", kind="command")


def read_table(name: str) -> Iterator[tuple[str, str]]:
    """Yield the class and the command of each line of a table."""
    heading = ""
    for line in (TABLES / name).read_text().splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        elif line and not line.startswith("#"):
            yield heading, line.replace("␤", "\n").replace("␉", "\t")


DISGUISES: dict[str, list[str]] = {}
for table in ("disguises.txt", "more_disguises.txt"):
    for heading, command in read_table(table):
        DISGUISES.setdefault(heading, []).append(command)
ORDINARY = [command for _, command in read_table("ordinary.txt")]


def decide(permissions: Permissions, command: str, folder: Path | None = None) -> str:
    return permissions.decide(PermissionRequest(BASH, {"command": command}, ["main"], folder)).kind


@pytest.mark.parametrize("heading", DISGUISES)
def test_no_disguise_of_a_denied_command_runs_without_a_question(heading: str) -> None:
    permissions = Permissions("all", PermissionRules.parse(deny=[DENY], allow=["bash"]))
    assert [one for one in DISGUISES[heading] if decide(permissions, one) == "free"] == []


def test_the_tables_are_large_enough() -> None:
    assert sum(map(len, DISGUISES.values())) > 174 + 100
    assert len(DISGUISES) >= 20
    assert len(ORDINARY) >= 200


@pytest.mark.parametrize("mode", ["ask", "edits"])
def test_a_command_in_doubt_is_asked_in_each_mode_although_a_rule_allows_the_tool(
    mode: Mode,
) -> None:
    permissions = Permissions(mode, PermissionRules.parse(deny=[DENY], allow=["bash"]))
    assert decide(permissions, "python3 - <<< 'import os; os.system(\"git push\")'") == "ask"
    assert decide(permissions, "ls") == "free"


def test_at_most_one_ordinary_command_in_twenty_is_asked_that_was_not_before() -> None:
    permissions = Permissions("all", PermissionRules.parse(deny=[DENY]))
    before = [one.removeprefix("? ") for one in ORDINARY if one.startswith("? ")]
    commands = [one.removeprefix("? ") for one in ORDINARY]
    asked = [one for one in commands if decide(permissions, one) != "free"]
    assert len(set(asked) - set(before)) <= len(commands) * 0.05
    assert not [one for one in asked if decide(permissions, one) == "denied"]


def test_without_a_rule_for_commands_nothing_more_is_asked() -> None:
    permissions = Permissions("all", PermissionRules.parse(deny=["write(secret/**)"]))
    commands = [*ORDINARY, *(one for some in DISGUISES.values() for one in some)]
    assert {decide(permissions, command) for command in commands} == {"free"}


def test_no_disguise_is_allowed_by_a_rule_for_another_command() -> None:
    patterns = ["git status*", "git log*", "echo *", "python3 -", "cat *"]
    for command in (one for some in DISGUISES.values() for one in some):
        doubtful = CommandSubject(command).is_within(patterns) and plain_parts(command) is None
        assert not doubtful, command


def test_a_link_to_a_denied_program_is_that_program(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").touch(mode=0o755)
    (tmp_path / "g").symlink_to("bin/git")
    (tmp_path / "again").symlink_to("g")
    permissions = Permissions("all", PermissionRules.parse(deny=[DENY]))
    for command in ("./g push", f"{tmp_path}/again push", "env ./g push", "sh -c './g push'"):
        assert decide(permissions, command, tmp_path) == "denied", command
    assert decide(permissions, "./g status", tmp_path) == "free"


def test_other_rules_are_as_strict() -> None:
    permissions = Permissions(
        "all", PermissionRules.parse(deny=["bash(rm -rf *)", "bash(docker*)"])
    )
    for command in (
        "x=rm; $x -rf a",
        "find . -exec rm -rf {} +",
        "echo docker ps | sh",
        "python3 -c 'import shutil; shutil.rmtree(\"a\")'",
        "unknown-runner docker ps",
    ):
        assert decide(permissions, command) != "free", command
    assert decide(permissions, "rm a") == "free"


RUN_FOR_REAL = (
    "variables",
    "groups and control",
    "input of shells",
)
PROGRAMS = ("bash", "sh", "cat", "tee", "base64", "rev", "tr", "printf", "env", "timeout", "xargs")
SKIPPED = ("curl", "sudo", "busybox", "mkfifo")


@pytest.mark.skipif(shutil.which("bash") is None, reason="Bash itself is the judge")
def test_the_disguises_truly_run_what_is_denied(tmp_path: Path) -> None:
    programs, record = tmp_path / "bin", tmp_path / "record"
    programs.mkdir()
    for name in PROGRAMS:
        if path := shutil.which(name):
            (programs / name).symlink_to(path)
    (programs / "git").write_text(
        f'#!{shutil.which("bash")}\n[ "$1" = push ] && echo >> {record}\n'
    )
    (programs / "git").chmod(0o755)
    for command in (one for heading in RUN_FOR_REAL for one in DISGUISES[heading]):
        if any(word in command for word in SKIPPED):
            continue
        record.unlink(missing_ok=True)
        folder = tmp_path / "work"
        folder.mkdir(exist_ok=True)
        subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env={"PATH": str(programs), "HOME": str(tmp_path)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=30,
        )
        deadline = time.monotonic() + 10
        while not record.exists() and time.monotonic() < deadline:
            time.sleep(0.02)  # a process substitution may end after the shell
        assert record.exists(), command


PIECES = [
    "git",
    "push",
    "$(",
    ")",
    "`",
    "'",
    '"',
    "\\",
    "|",
    "&",
    ";",
    "<",
    "<<",
    "<<<",
    ">",
    ">(",
    "<(",
    "{",
    "}",
    "(",
    "((",
    "[[",
    "]]",
    "case",
    "in",
    "esac",
    "for",
    "do",
    "done",
    "if",
    "fi",
    "function",
    "x=",
    "$x",
    "${x:",
    "$'",
    "#",
    "!",
    "\n",
    "\t",
    "\x00",
    "é",
    "�",
    "E",
    "-",
    "-c",
    "sh",
    "xargs",
    "find",
    "-exec",
    "sed",
    "awk",
    "python3",
]


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map(" ".join)))
def test_any_text_is_analyzed(text: str) -> None:
    plain_parts(text)
    analysis = Analysis(text)
    assert isinstance(analysis.may_mention("git push"), bool)


@pytest.mark.full
@pytest.mark.parametrize(
    "command",
    [
        "<<" * 60_000,
        "<<a\n" * 30_000,
        "$(" * 60_000,
        "(" * 130_000,
        "${x:-" * 25_000,
        "if " * 40_000,
        "case x in " * 12_000,
        "a[" * 60_000,
        "{a," * 40_000,
        '"$(' * 40_000,
        "x=(" * 40_000,
        "find . -exec " * 10_000,
        "echo '" + "a" * 130_000 + "'",
        "python3 -c '" + "(" * 100_000 + "'",
        "sed '" + "s/a/b/;" * 18_000 + "'",
        "awk '" + '"' * 100_000 + "'",
        "sh -c '" * 15_000,
    ],
    ids=lambda command: command[:8],
)
def test_a_hostile_command_is_analyzed_in_time(command: str) -> None:
    begun = time.process_time()
    subject = CommandSubject(command)
    subject.is_within(["git *"])
    subject.match_pattern("git push")
    assert time.process_time() - begun < 20
