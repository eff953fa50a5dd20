"""The chat in plain lines: what goes to standard error, where a screen would show it."""

from __future__ import annotations

from pathlib import Path

from tests.agent_kit import select_lines
from tests.cli.kit import Cli, start


def with_hook(home: Path, points: str) -> None:
    """Let a hook that is a text watch new chats."""
    (home / "hooks").mkdir(parents=True)
    (home / "hooks" / "critic.md").write_text(f"---\npoints: [{points}]\n---\nWatch for tea.")
    (home / "config.toml").write_text('[hooks]\nuse = ["critic"]\n')


def scripted(folder: Path, *rules: str) -> str:
    path = folder / "rules.yaml"
    path.write_text("rules:\n" + "".join(f"  - {rule}\n" for rule in rules))
    return f"scripted:{path}"


def test_why_hooks_stopped_an_answer_is_told(cli: Cli, tmp_path: Path) -> None:
    with_hook(cli.home, "response")
    model = scripted(tmp_path, "{agent: critic, answer: Well.}", "{answer: Tea.}")
    ran = cli.stopped("chat", "--model", model, "-p", "hello")
    assert ran.err.endswith("\n[stopped] hooks blocked the answer 3 times\n")
    why = "hook critic failed: its answer 'Well.' is none of OK, COMMENT:, DENY:, REWRITE:\n"
    assert ran.err.count(why) == 3


def test_a_turn_that_hooks_denied_three_times_has_no_answer(cli: Cli, tmp_path: Path) -> None:
    with_hook(cli.home, "response")
    model = scripted(tmp_path, '{agent: critic, answer: "DENY: no tea"}', "{answer: Tea.}")
    ran = cli("chat", "--model", model, "-p", "hello")
    assert (ran.code, ran.out) == (1, "")
    denial = "hook critic denies: no tea"
    stop = "[stopped] hooks blocked the answer 3 times"
    assert ran.err.splitlines()[2:] == [denial, denial, denial, stop]
    [event] = select_lines(cli.sessions()[0], event_type="turn_stopped")
    assert event["reason"] == "denials"


def test_the_object_of_a_turn_without_an_answer_has_the_reason(cli: Cli, tmp_path: Path) -> None:
    with_hook(cli.home, "response")
    model = scripted(tmp_path, '{agent: critic, answer: "DENY: no tea"}', "{answer: Tea.}")
    ran = cli("chat", "--model", model, "-p", "hello", "--json")
    assert (ran.code, ran.out.count("\n")) == (1, 1)
    stop = "[stopped] hooks blocked the answer 3 times"
    assert (ran.json["stop_reason"], ran.json["text"]) == ("denials", stop)
    assert ran.err.endswith(f"\n{stop}\n")
    [event] = select_lines(cli.sessions()[0], event_type="turn_stopped")
    assert ran.json["message_id"] == event["piece"]


def test_what_a_hook_denies_is_told_and_what_it_comments_is_not(cli: Cli, tmp_path: Path) -> None:
    with_hook(cli.home, "response")
    model = scripted(
        tmp_path,
        '{agent: critic, pattern: Tea, answer: "DENY: no\\ntea"}',
        '{agent: critic, answer: "COMMENT: hm"}',
        "{turn: 1, answer: Tea.}",
        "{answer: Coffee.}",
    )
    ran = cli.ok("chat", "--model", model, "-p", "hello")
    assert ran.out == "Coffee.\n"
    assert ran.err.splitlines()[2:] == ["hook critic denies: no tea"]


def test_what_was_refused_is_counted_where_lines_are_piped_in_too(tmp_path: Path) -> None:
    calls = "{pattern: hello, calls: [{bash: {command: ls}}, {bash: {command: date}}]}"
    model = scripted(tmp_path, calls, "{answer: Done.}")
    ran = start(tmp_path, "chat", "--model", model, stdin="hello\n")
    assert ran.stdout == b"Done.\n"
    told = b"2 actions were refused: no user to ask for approval; see --permission\n"
    assert ran.stderr.endswith(told)


def test_a_chat_in_which_nothing_was_said_is_not_kept(tmp_path: Path) -> None:
    model = scripted(tmp_path, "{answer: Done.}")
    ran = start(tmp_path, "chat", "--model", model, stdin="\n")
    assert (ran.returncode, ran.stdout) == (0, b"")
    assert [*(tmp_path / "sessions").iterdir()] == []


def test_a_chat_that_cannot_begin_leaves_no_session(cli: Cli, tmp_path: Path) -> None:
    with_hook(cli.home, "frob")
    model = scripted(tmp_path, "{answer: Done.}")
    assert "points are input" in cli.refused("chat", "--model", model, "-p", "hello")
    assert cli.sessions() == []
