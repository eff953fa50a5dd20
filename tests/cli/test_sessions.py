"""`harken sessions`, and the home folder."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from harken.cli.commands.sessions.listing import TAIL_BYTES
from harken.config.home import Home
from harken.core import events as ev
from harken.core.ids import AgentId
from harken.recording.exchange import ClientHints
from harken.session.session import Session
from tests.cli.kit import Cli
from tests.recording_kit import RecordedClient, request_body
from tests.recording_kit import open_recorder as recording


def test_without_sessions_it_says_how_to_make_one(cli: Cli) -> None:
    ran = cli.ok("sessions")
    assert ran.out == ""
    assert "`harken demo` creates one" in ran.err
    assert cli.ok("sessions", "--json").json == []
    assert not cli.home.exists()  # looking makes nothing


def test_sessions_are_listed_the_last_written_first(demo: Cli, script: str) -> None:
    demo.ok("chat", "--model", script, "-p", "hello\n there")
    os.utime(demo.home / "sessions" / "demo.jsonl", (0, 0))
    rows = demo.ok("sessions", "--json").json
    assert [row["began"] for row in rows] == ["hello\n there", "Let Jack and Jill meet in a cafe."]
    first, second = demo.ok("sessions").out.splitlines()
    assert first.startswith("session_")
    assert first.endswith(" KB  here  ended  hello there")
    assert second.startswith("demo  ")
    assert second.endswith("Let Jack and Jill meet in a cafe.")


def test_a_session_in_which_nothing_was_said_says_so(cli: Cli) -> None:
    Session(Home().create_log()).close()
    assert cli.ok("sessions").out.endswith(" B  cut off?  (no messages)\n")


def test_a_rerun_says_of_what_it_is_one(demo: Cli) -> None:
    demo.ok("rerun", "demo", "--at", "-1", "--edit", "#1=Hi.")
    first, _ = demo.ok("sessions").out.splitlines()
    assert "ended  fork of demo up to msg_" in first
    assert first.endswith(": edited #1")
    [row, other] = demo.ok("sessions", "--json").json
    assert (row["origin"]["session"], row["origin"]["changes"]) == ("demo", ["edited #1"])
    assert other["origin"] is None


def state(cli: Cli) -> object:
    [row] = cli.ok("sessions", "--json").json
    assert row["state"] in cli.ok("sessions").out
    return row["state"]


def test_a_session_is_ended_being_written_or_perhaps_cut_off(demo: Cli) -> None:
    [log] = demo.sessions()
    pid_file = log.with_name(f".{log.name}.pid")
    assert state(demo) == "ended"
    with Session.load(log) as session:
        assert state(demo) == "being written"
        session.append(ev.AgentStateSaved(agent_id=AgentId("agent_001"), state={}))
    assert state(demo) == "cut off?"
    pid_file.write_text(str(os.getpid()))  # as a crash leaves it, its number given again
    before = log.read_bytes()
    assert state(demo) == "cut off?"
    assert (log.read_bytes(), pid_file.exists()) == (before, True)  # looking changes nothing


def test_a_session_whose_last_line_is_torn_or_long_may_be_cut_off(demo: Cli) -> None:
    [log] = demo.sessions()
    log.write_bytes(log.read_bytes()[:-1])
    assert state(demo) == "cut off?"
    with Session.load(log) as session:
        session.end("x" * TAIL_BYTES)
    assert state(demo) == "cut off?"
    with Session.load(log) as session:
        session.end("x" * (TAIL_BYTES - 1000))
    assert state(demo) == "ended"


def test_a_recorded_session_is_recorded_and_called_after_what_a_person_asked(cli: Cli) -> None:
    recorder = recording(cli.home / "sessions")
    client = RecordedClient(recorder, ClientHints(client="claude-code", session="one"))
    client.ask(request_body("Name this: Hi", system="You name conversations."), "Greetings")
    asked = request_body(
        "<system-reminder>It is noon.</system-reminder>\n\nHi", tools=[{"name": "look"}]
    )
    client.ask(asked, "Hello.")
    assert state(cli) == "being written"
    recorder.close()
    assert state(cli) == "recorded"
    assert cli.ok("sessions").out.endswith("  recorded  Hi\n")
    with recording(cli.home / "sessions") as again:
        RecordedClient(again, client.hints).begin(asked)
    assert state(cli) == "cut off?"


def test_only_the_beginning_and_the_end_of_a_log_are_read(demo: Cli) -> None:
    [log] = demo.sessions()
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:40], b"damage\n" * TAIL_BYTES, lines[-1]]))
    assert state(demo) == "ended"


def test_a_session_that_cannot_be_read_is_listed_and_the_others_are_too(demo: Cli) -> None:
    (demo.home / "sessions" / "broken.jsonl").write_text("no log at all\n")
    (demo.home / "sessions" / "folder.jsonl").mkdir()
    (demo.home / "sessions" / "gone.jsonl").symlink_to("nowhere")
    out = demo.ok("sessions").out
    assert "`harken sessions check broken`)" in out
    assert "Let Jack and Jill" in out
    assert len(out.splitlines()) == 2
    broken = demo.ok("sessions", "--json").json[0]
    assert "not a session log" in broken["error"]
    assert broken["state"] is None


def test_home_may_stand_before_and_after_a_command(demo: Cli, tmp_path: Path) -> None:
    tree = demo.ok("view", "demo", "tree").out
    home, other = str(demo.home), str(tmp_path / "other")
    for arguments in (
        ["--home", home, "view", "demo", "tree"],
        ["view", "--home", home, "demo", "tree"],
        ["view", "demo", "tree", "--home", home],
        ["--home", other, "view", "demo", "tree", "--home", home],  # the last one counts
    ):
        assert demo.ok(*arguments).out == tree
    for arguments in (["--home", home, "sessions"], ["sessions", "--home", home]):
        assert demo.ok(*arguments).out.startswith("demo ")
    for arguments in (["--home", other, "sessions"], ["sessions", "--home", other]):
        assert demo.ok(*arguments).out == ""


def test_home_is_the_environment_variable_else_a_folder_in_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HARKEN_HOME", str(tmp_path / "x"))
    assert Home().folder == tmp_path / "x"
    monkeypatch.delenv("HARKEN_HOME")
    assert Home().folder == tmp_path / ".harken"
    assert Home("~/y").folder == tmp_path / "y"


def test_only_the_owner_can_read_what_is_kept(cli: Cli, script: str) -> None:
    before = os.umask(0)
    try:
        cli.ok("demo")
        cli.ok("chat", "--model", script, "-p", "hello")
        repaired = cli.home / "sessions" / "again.jsonl"
        cli.ok("sessions", "repair", "demo", "--out", repaired)
    finally:
        os.umask(before)
    assert [cli.home.stat().st_mode & 0o777, (cli.home / "sessions").stat().st_mode & 0o777] == [
        0o700,
        0o700,
    ]
    files = [path for path in cli.home.rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"again.jsonl", "demo.jsonl", "store.db"}
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


def test_two_sessions_of_one_second_have_names_of_their_own(tmp_path: Path) -> None:
    home = Home(str(tmp_path / "home"))
    paths = [home.create_log() for _ in range(20)]
    assert len(set(paths)) == 20
    assert all(path.read_bytes() == b"" for path in paths)


def test_json_is_json_whatever_a_log_says(cli: Cli, script: str) -> None:
    cli.ok("chat", "--model", script, "-p", "hello \x1b[31m \udcff \u202e")
    [row] = json.loads(cli.ok("sessions", "--json").out)
    assert row["began"] == "hello \x1b[31m \udcff \u202e"
