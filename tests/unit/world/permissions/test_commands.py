"""Shell commands: the parts that an allow rule can match, and commands that it never allows."""

from __future__ import annotations

import shutil
import subprocess
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harken.world.permissions.bash.plain_commands import plain_parts
from harken.world.permissions.subjects import CommandSubject


def is_allowed(command: str, *patterns: str) -> bool:
    return CommandSubject(command).is_within(patterns)


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("git status", ["git status"]),
        ("  git   status\t-s  ", ["git status -s"]),
        ("a; b && c || d | e |& f & g\nh", ["a", "b", "c", "d", "e", "f", "g", "h"]),
        ("echo 'a;  b' \"c && d\" e\\;f", ["echo 'a;  b' \"c && d\" e\\;f"]),
        ("# what it does\ngit status # and why; rm -rf /\nls", ["git status", "ls"]),
        ("git status \\\n  -s", ["git status -s"]),
        ("gi\\\nt status", ["git status"]),
        ("pytest 2>&1 >/dev/null </dev/null &>/dev/null", ["pytest"]),
        ("ls *.py [ab]? ~/x", ["ls *.py [ab]? ~/x"]),
        ("git show stash@{0} {}", ["git show stash@{0} {}"]),
        ("grep 'a$' \"b$\" c$", ["grep 'a$' \"b$\" c$"]),
        ("[ -f x ] && echo !", ["[ -f x ]", "echo !"]),
        ("echo a#b 'it''s' \"q\\\"\\x\"", ["echo a#b 'it''s' \"q\\\"\\x\""]),
        ("git status;", ["git status"]),
        ("grep x=y", ["grep x=y"]),
    ],
)
def test_plain_command_line_is_split_into_commands(command: str, parts: list[str]) -> None:
    assert plain_parts(command) == parts


UNPLAIN = [
    "git status $(rm x)",
    'git status "$(rm x)"',
    "git status `rm x`",
    'git status "`rm x`"',
    "git status <(rm x)",
    "git status >(rm x)",
    "git status $((1 + $(rm x)))",
    "git status ${x:-$(rm x)}",
    "git status $[1]",
    "git status $x",
    'git status "$x"',
    "git status $'\\n' rm",
    'git status $"x"',
    "git status $\\\n{x}",
    'git status "$\\\n{x}"',
    "git status > file",
    "git status >> file",
    "git status >| file",
    "git status 2> file",
    "git status &> file",
    "git status >& file",
    "git status <> file",
    "git status < file",
    "git status > /dev/null/../x",
    "git status <<E\nx\nE",
    "git status <<< x",
    "git status {a,b}",
    "git status {1..3}",
    "git status {a",
    "(git status)",
    "{ git status; }",
    "! git status",
    "if git status; then rm; fi",
    "while git status; do rm; done",
    "for x in a; do rm; done",
    "case x in a) rm;; esac",
    "[[ a ]]",
    "((1))",
    "function git { rm; }",
    "git() { rm; }; git status",
    "coproc git status",
    "time git status",
    "X=1 git status",
    "PATH+=:. git status",
    "X[1]=1 git status",
    "git status 'x",
    'git status "x',
    "git status `x",
    "git status $(x",
    "git status \\",
    "git status ;; x",
    "/bin/gi? status",
    "g{i,}t status",
    "~/git status",
    "'' git status",
    "git status\r",
    "git\u00a0status",
    "git status \x00",
    "git status \ud800",
    "",
    " \n ",
    "# nothing",
    "> /dev/null",
    "git " + 200_000 * "x",
    "git status " + 100 * "$(",
    "git status " + 100 * "${x:-",
]


@pytest.mark.parametrize("command", UNPLAIN)
def test_complex_command_line_is_never_allowed_by_a_pattern(command: str) -> None:
    assert plain_parts(command) is None
    assert not is_allowed(command, "git status*", "git *", "*", command)
    assert CommandSubject(command).suggest_patterns() == []


@pytest.mark.parametrize(
    "command",
    [
        "git status; rm -rf /",
        "git status && rm x",
        "git status || rm x",
        "git status | sh",
        "git status & rm x",
        "git status\nrm x",
        "git status\\\n;rm x",
        "git status # comment\nrm x",
        "git status '#' ; rm x",
        "git status ''#' ; rm x",
        "rm x; git status",
        "git status 2>&1; rm x",
        '"git" status',
        "/tmp/git status",
        "git  'status'",
        "command git status",
        "env git status",
        "gitx status",
    ],
)
def test_each_part_must_be_allowed(command: str) -> None:
    assert not is_allowed(command, "git status", "git status *")


def test_pattern_matches_any_arguments_after_its_prefix() -> None:
    assert is_allowed("git status", "git status*")
    assert is_allowed("git status -s", "git status*")
    assert is_allowed("git statusx", "git status*")
    assert is_allowed("git push", "git push *")
    assert is_allowed("git push   origin", "git  push *")
    assert not is_allowed("git pushx", "git push *")
    assert not is_allowed("git push origin", "git push")
    assert is_allowed("cd src && pytest -x | tail", "cd *", "pytest*", "tail")
    assert is_allowed("a && b", "a && b")
    assert not is_allowed("a && b && c", "a && b*")
    assert is_allowed("ls *.py", "ls \\*.py")


@pytest.mark.parametrize(
    ("command", "offers"),
    [
        ("git push origin main", ["git push origin main", "git push *"]),
        ("git push", ["git push", "git push *"]),
        ("ls", ["ls"]),
        ("git -C x push", ["git -C x push"]),
        ("pytest -x", ["pytest -x", "pytest *"]),
        ("./run.sh a", ["./run.sh a", "./run.sh *"]),
        ("ls *.py", ["ls \\*.py", "ls *"]),
        ("sudo ls x", ["sudo ls x"]),
        ("python3.11 x.py", ["python3.11 x.py"]),
        ("rm x", ["rm x"]),
        ("cd a && pytest b", ["cd a && pytest b", "cd a", "cd *", "pytest b", "pytest *"]),
        ("git commit -m 'a\nb'", ["git commit *"]),
        ("echo " + 400 * "x", ["echo *"]),
    ],
)
def test_suggested_rules_are_ordered_from_narrow_to_wide(command: str, offers: list[str]) -> None:
    assert CommandSubject(command).suggest_patterns() == offers


WORDS = "ok bad bad a 1 E if then fi do done eval exec ! time coproc 2>&1"
SIGNS = "; & | || && ' \" \\ $ ( ) ` { } < # = , ~ [ ] $( $' ${ << <<< <( >( * ? -"
PIECES = [*WORDS.split(), *(f"{word} " for word in WORDS.split()), *SIGNS.split()]
PIECES += [" ", " ", "\t", "\n", "\\\n", "\nE\n"]
BASH = shutil.which("bash")


@pytest.mark.skipif(BASH is None, reason="the shell itself is the judge")
@settings(max_examples=200)
@given(st.lists(st.sampled_from(PIECES), max_size=10).map("".join))
def test_allowed_line_runs_only_allowed_commands(remaining: str) -> None:
    """Bash itself is the oracle. It finds no programs and writes nothing."""
    command = f"ok {remaining}"
    if is_allowed(command, "ok", "ok *"):
        prelude = "ok() { :; }; bad() { echo BAD >&9; }\n"
        with TemporaryDirectory() as folder:
            ran = subprocess.run(
                [str(BASH), "-c", f"exec 9>&1\n{prelude}{command}"],
                env={"PATH": "/nonexistent", "HOME": folder},
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=20,
            )
        assert b"BAD" not in ran.stdout
