"""A session log whose start was cut off.

A kill between the creation of a log and its first line left an empty `session_*.jsonl`, and from
then on `harken chat --continue` ended with exit code 2. Such a log holds nothing, so every command
passes it by, and `sessions` and `fsck` name it in one line.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.cli.kit import Cli

FIRST = (
    '{"event_type":"session_started","message_id":"msg_000","time":"2026-01-01T00:00:00.000000Z"'
)
CUT_OFF = {"no byte": b"", "half a line": FIRST.encode(), "zeros": bytes(300)}


@pytest.fixture(params=CUT_OFF)
def cut_off(cli: Cli, script: str, request: pytest.FixtureRequest) -> Cli:
    """A home with one session, and a later log whose start was cut off."""
    cli.ok("chat", "--model", script, "-p", "hello")
    [log] = cli.sessions()
    later = log.with_name("session_later.jsonl")
    later.write_bytes(CUT_OFF[request.param])
    later_ns = log.stat().st_mtime_ns + 10**9
    os.utime(later, ns=(later_ns, later_ns))
    return cli


def test_a_chat_continues_the_latest_session_that_has_begun(cut_off: Cli) -> None:
    assert cut_off.ok("chat", "--continue", "-p", "hello").out == "Hi there.\n"
    assert len(cut_off.sessions()) == 2


def test_a_view_of_the_latest_session_passes_a_log_without_an_event(cut_off: Cli) -> None:
    assert "main" in cut_off.ok("view", "latest", "tree").out


def test_sessions_and_fsck_name_a_log_without_an_event_in_one_line(cut_off: Cli) -> None:
    for command in (["sessions"], ["store", "fsck"]):
        ran = cut_off.ok(*command)
        assert ran.err.count("session_later.jsonl") == 1
        assert "session_later" not in ran.out
        assert "the start of the session was interrupted" in ran.err
    states = {row["session"]: row["state"] for row in cut_off.ok("sessions", "--json").json}
    assert states.pop("session_later") == "empty"
    assert "empty" not in states.values()


def test_with_no_other_log_there_is_no_session_to_continue(cli: Cli) -> None:
    sessions = cli.home / "sessions"
    sessions.mkdir(parents=True)
    (sessions / "session_later.jsonl").touch()
    assert "no sessions" in cli.refused("chat", "--continue", "-p", "hello")


def test_a_damaged_first_line_is_not_taken_for_a_cut_off_start(cli: Cli, script: str) -> None:
    cli.ok("chat", "--model", script, "-p", "hello")
    [log] = cli.sessions()
    whole = log.read_bytes()
    later = log.with_name("session_later.jsonl")
    shutil.copy(log, later)
    later.write_bytes(b"?" + whole[1:])
    assert "session_later.jsonl" in cli.refused("chat", "--continue", "-p", "hello")
    assert cli("store", "fsck").code == 1


def test_a_log_that_ends_after_its_first_line_is_continued(cli: Cli, script: str) -> None:
    cli.ok("chat", "--model", script, "-p", "hello")
    [log] = cli.sessions()
    log.write_bytes(log.read_bytes().splitlines(keepends=True)[0])
    assert cli.ok("chat", "--continue", "--model", script, "-p", "hello").out == "Hi there.\n"
    assert Path(log).read_bytes().count(b"Hi there.") >= 1
