"""The commands that a deny rule can detect, and those that it cannot decide."""

from __future__ import annotations

import time

import pytest

from harken.world.permissions.subjects import CommandSubject

DISGUISES = [
    "git push",
    "git   push origin",
    "git\tpush",
    "GIT push",
    '"git" push',
    "'git' 'push'",
    'g""it pu\\sh',
    "gi\\\nt push",
    "\\git push",
    "/usr/bin/git push",
    "./git push",
    "git -C there push",
    "git --no-pager -c a=b -C there push -f",
    "X=1 git push",
    ">log git push",
    "git push > log",
    "echo; git push",
    "echo && git push",
    "echo | git push",
    "echo & git push",
    "echo\ngit push",
    "(git push)",
    "{ git push; }",
    "! git push",
    "if true; then git push; fi",
    "while git push; do true; done",
    "case x in x) git push;; esac",
    "f() { git push; }; f",
    "function f { git push; }; f",
    "for x in a; do git push; done",
    "for x do git push; done",
    "for ((x = 0; x < 1; x++)) { git push; }",
    "time git push",
    "time -p -- git push",
    "coproc git push",
    "coproc X { git push; }",
    "echo $(case x in x) git push;; esac)",
    "echo $(git push)",
    'echo "$(git push)"',
    "echo `git push`",
    r'''echo "`echo " \" ; git push ; \" "`"''',
    "echo ${x:-$(git push)}",
    "echo $((1 + $(git push)))",
    "diff <(git push) x",
    "x=$(git push)",
    "[[ $(git push) ]]",
    "echo $((1<<2))\ngit push",
    "((1<<2))\ngit push",
    "command git push",
    "builtin command -p git push",
    "env git push",
    "env -i A=b C=d git push",
    "env -u X /usr/bin/git push",
    "sudo -u me git push",
    "nohup nice -n 5 git push",
    "timeout 5 git push",
    "timeout -k 1 5s git push",
    "exec git push",
    "xargs git push",
    "sh -c 'git push'",
    'bash -lc "cd x && git push"',
    "sh -c '(git push)'",
    "mapfile -C 'git push;:' x",
    """bash -c "'git' push" """,
    "eval git push",
    "eval 'git' \"push\"",
    "trap 'git push' EXIT",
    "find . -exec git push ;",
    "echo 'unclosed\ngit push",
    "a[1<<2]=3\ngit push",
    12 * "echo $(" + "git push" + 12 * ")",
]


@pytest.mark.parametrize("command", DISGUISES)
def test_deny_rule_detects_common_disguises(command: str) -> None:
    assert CommandSubject(command).match_pattern("git push") == "yes"
    assert CommandSubject(command).match_pattern("Git Push*") == "yes"


@pytest.mark.parametrize(
    "command",
    [
        "$g push",
        "git$IFS push",
        "$(echo git) push",
        "`echo git` push",
        "$'git' push",
        "/usr/bin/gi? push",
        "{git,push}",
        'eval "$x"',
        'sh -c "$x"',
        "echo git push | sh",
        "sh < script",
        "bash <<E\ngit push\nE",
        "cat <<E\ngit push\nE",
        "sudo $x",
        "chroot there git push",
        "sudo " + 40 * "x " + "git push",
        "x" * 200_000,
        40 * "echo $(",
        "python -m pytest $args",
        "git $what",
        "x=push; git $x",
        'f() { git "$@"; }; f push',
        "git pu$(echo sh)",
        "git PU*",
        "git {push,origin}",
        "git $'push'",
        "/usr/bin/git --no-pager $what",
        "env A=1 git $what",
        "echo push | xargs git",
        "echo git push | xargs env",
        "env -S'git push'",
        "env --split-string='git push'",
        "su -c'git push'",
        "sh -c '$0 push' git",
        "trap '$x push' EXIT",
        "[[ 'a[$(git push)]' -eq 1 ]]",
        "PS4='$(git push)'; set -x; ls",
    ],
)
def test_undecidable_command_is_asked(command: str) -> None:
    assert CommandSubject(command).match_pattern("git push") == "unknown"


@pytest.mark.parametrize(
    "command",
    [
        "git pull",
        "git log --grep push",
        "echo git push",
        "git commit -m 'git push'",
        "grep -rn 'git push' docs",
        "[ -f x ] && ls",
        r"find . -regex '.*\.py$' -print0 | xargs -0 rm -f",
        "git commit -m 'say $(date) first'",
        "time -p make",
        "for x in *.py; do echo $x; done",
        "ls ~ $HOME",
        "cat <<E\nnothing\nE",
        "",
    ],
)
def test_mention_of_a_command_does_not_match(command: str) -> None:
    assert CommandSubject(command).match_pattern("git push") == "no"


def test_rule_may_search_for_a_word_anywhere() -> None:
    assert CommandSubject("cat 'my  SECRET'").match_pattern("*secret*") == "yes"


@pytest.mark.parametrize(
    "command",
    [
        "sudo " * 20_000,
        "eval '" * 5_000,
        "echo " + "{" * 100_000,
        "1." * 60_000,
        "a;" * 30_000,
        "\\a" * 60_000,
        "x " * 30_000,
        "sudo " + "-x " * 30 + "y" * 100_000,
    ],
)
def test_any_command_is_parsed_in_linear_time(command: str) -> None:
    start_s = time.process_time()
    subject = CommandSubject(command)
    subject.is_within(["git *"])
    subject.match_pattern("git push")
    assert time.process_time() - start_s < 10


@pytest.mark.parametrize(
    "command",
    [
        'git commit -m "$text"',
        "git pull $x",
        "git add *.py",
        "echo $x",
        "ls | xargs rm",
        "git p.$x",
    ],
)
def test_words_after_an_unknown_word_are_judged_by_those_before_it(command: str) -> None:
    assert CommandSubject(command).match_pattern("git push") == "no"
    assert CommandSubject(command).match_pattern("git push *") == "no"
