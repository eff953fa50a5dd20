"""A hook that raises: the chat says where its traceback is, and what it guards stays closed."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from harken import Comment, Hook, HookQuestion, Ok, register_agent_class
from harken.chat.hook_errors import FILE_NAME, LOGGER, HookErrorLog
from harken.core.verdict import Verdict
from tests.agent_kit import check_log, open_stage, script_model, select_lines
from tests.cli.kit import Cli
from tests.cli.test_plain_chat import scripted
from tests.unit.agents.hook_kit import watch

WRITE = '{pattern: write, calls: [{write: {path: a.txt, content: "x"}}]}'


@register_agent_class("test-broken-guard")
class BrokenGuard(Hook):
    """Fails on actions and answers."""

    def judge(self, question: HookQuestion) -> Verdict:
        if question.point == "input":
            return Ok()
        raise ZeroDivisionError("no tea left")


@register_agent_class("test-broken-filter")
class BrokenFilter(Hook):
    """Fails in `should_ask`, and is asked nevertheless."""

    def should_ask(self, question: HookQuestion) -> bool:
        raise LookupError("no cup")

    def judge(self, question: HookQuestion) -> Verdict:
        return Comment("asked") if question.point == "input" else Ok()


def install(home: Path, kind: str) -> None:
    """Let a hook of this class watch new chats."""
    (home / "hooks").mkdir(parents=True)
    (home / "hooks/guard.md").write_text(f"---\nuse: {kind}\n---\n")
    (home / "config.toml").write_text('[hooks]\nuse = ["guard"]\n')


@pytest.mark.req("S4-26")
def test_the_chat_says_where_the_traceback_is_and_the_action_is_denied(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    install(cli.home, "test-broken-guard")
    model = scripted(tmp_path, WRITE, "{answer: Done.}")
    ran = cli.stopped("chat", "--model", model, "--permission", "all", "-p", "write it")
    assert not (tmp_path / "a.txt").exists()
    assert ran.err.endswith("\n[stopped] hooks blocked the answer 3 times\n")
    file = cli.home / FILE_NAME
    assert ran.err.count(f"the traceback of hook guard is in {file}\n") == 1
    assert "hook guard failed: ZeroDivisionError: no tea left" in ran.err
    assert "Traceback" not in ran.err
    text = file.read_text("utf-8")
    assert text.count("Traceback (most recent call last)") == 5
    assert 'raise ZeroDivisionError("no tea left")' in text
    assert f"{cli.sessions()[0]}: hook guard (BrokenGuard) failed at action of main" in text
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    check_log(cli.sessions()[0])


def test_a_hook_that_fails_in_should_ask_is_asked_and_reported(cli: Cli, tmp_path: Path) -> None:
    install(cli.home, "test-broken-filter")
    model = scripted(tmp_path, "{answer: Done.}")
    ran = cli.ok("chat", "--model", model, "-p", "hello")
    assert ran.out == "Done.\n"
    assert "the traceback of hook guard is in " in ran.err
    assert "LookupError: no cup" in (cli.home / FILE_NAME).read_text("utf-8")
    assert select_lines(cli.sessions()[0], content="[hook guard]: asked")


def test_a_chat_without_failures_writes_no_file(cli: Cli, tmp_path: Path) -> None:
    cli.ok("chat", "--model", scripted(tmp_path, "{answer: Done.}"), "-p", "hello")
    assert not (cli.home / FILE_NAME).exists()
    assert not [handler for handler in LOGGER.handlers if isinstance(handler, HookErrorLog)]


def test_a_file_that_cannot_be_written_is_reported_and_the_hook_still_denies(
    cli: Cli, tmp_path: Path
) -> None:
    install(cli.home, "test-broken-guard")
    (cli.home / FILE_NAME).mkdir()
    ran = cli.stopped("chat", "--model", scripted(tmp_path, "{answer: Done.}"), "-p", "hello")
    assert ran.err.endswith("\n[stopped] hooks blocked the answer 3 times\n")
    why = f"the traceback of hook guard cannot be written to {cli.home / FILE_NAME}: Is a directory"
    assert why in ran.err
    assert "Logging error" not in ran.err


def test_the_errors_of_another_session_are_not_written(tmp_path: Path) -> None:
    def fail(_: HookQuestion) -> Verdict:
        raise ZeroDivisionError

    notices: list[str] = []
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    one, other = (open_stage(folder, script_model(main=["Tea."] * 9)) for folder in folders)
    errors = HookErrorLog(tmp_path, one.session, notices.append)
    errors.start()
    for stage in (one, other):
        watch(stage, input=fail)
    other.ask("Hello.")
    assert notices == []
    one.ask("Hello.")
    one.ask("And now?")
    errors.close()
    one.ask("At last?")
    assert notices == [f"the traceback of hook guard is in {tmp_path / FILE_NAME}"]
    assert (tmp_path / FILE_NAME).read_text("utf-8").count("Traceback") == 2
