"""Session logs of Harken from elsewhere: imported with `import`, or read in place by `stats`."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.session.session import Session
from tests.cli.kit import Cli, one_line
from tests.session_kit import create_agent, log_user_message


@pytest.fixture
def log(cli: Cli, tmp_path: Path) -> Path:
    """The log of a demo in another home, under another name."""
    other = tmp_path / "other"
    cli.ok("demo", "--home", other)
    return (other / "sessions" / "demo.jsonl").rename(tmp_path / "cafe.jsonl")


def test_an_imported_log_is_a_session_of_this_home(cli: Cli, log: Path) -> None:
    ran = cli.ok("import", log)
    assert ran.out.startswith("cafe  60 events, ")
    assert ran.err.strip().endswith("view cafe")
    assert cli.sessions()[0].read_bytes() == log.read_bytes()
    assert [row["session"] for row in cli.ok("sessions", "--json").json] == ["cafe"]
    assert "Jill" in cli.ok("view", "cafe", "tree").out
    assert "Hello Jack" in cli.ok("search", "hello jack").out
    assert "1 prompt" in cli.ok("stats", "cafe").out


def test_the_same_log_is_imported_once(cli: Cli, log: Path) -> None:
    cli.ok("import", log)
    cli.ok("sessions", "rename", "cafe", "tea")
    assert cli.ok("import", log).out == "tea  nothing new\n"
    assert [path.name for path in cli.sessions()] == ["tea.jsonl"]


def test_new_events_of_a_log_are_imported(cli: Cli, log: Path) -> None:
    cli.ok("import", log)
    with Session.load(log) as session:
        log_user_message(session, "agent_001", "And now?")
    row = cli.ok("import", log, "--json").json
    assert row == {
        "source": str(log),
        "format": "harken",
        "runtime": "harken",
        "session": "cafe",
        "path": str(cli.sessions()[0]),
        "lines": 61,
        "change": "continued",
        "new_bytes": row["new_bytes"],
    }
    assert "And now?" in cli.ok("view", "cafe").out
    assert "And now?" in cli.ok("search", "now").out


def test_logs_in_a_folder_are_imported_with_the_other_files(cli: Cli, log: Path) -> None:
    (log.parent / "notes.jsonl").write_text("{}\n")
    ran = cli.ok("import", log.parent, "--no-index")
    assert "cafe  60 events" in ran.out
    assert "of unknown kind" in ran.out


def test_a_damaged_log_is_one_line_and_the_others_are_imported(cli: Cli, log: Path) -> None:
    damaged = log.with_name("damaged.jsonl")
    damaged.write_bytes(log.read_bytes().replace(b"Jill", b"JILL"))
    ran = cli("import", damaged, log, "--json")
    assert (ran.code, ran.json["session"]) == (2, "cafe")
    assert "damaged.jsonl: corrupted at line" in one_line(ran.err)


def test_of_a_log_that_was_cut_the_complete_lines_are_imported(cli: Cli, log: Path) -> None:
    log.write_bytes(log.read_bytes()[:3000])
    assert "its last line is incomplete and was not copied" in cli.ok("import", log).out
    assert cli.ok("sessions", "check", "cafe").out.endswith("intact\n")


def test_a_log_of_an_older_dialect_is_refused_with_the_way_to_import_it(
    cli: Cli, tmp_path: Path
) -> None:
    old = tmp_path / "old.jsonl"
    old.write_text('{"event_type":"agent_created","message_id":"msg_001","agent_id":"a"}\n')
    assert "import the log that `harken sessions repair` writes" in cli.refused("import", old)


def test_a_log_is_counted_where_it_is(cli: Cli, log: Path) -> None:
    stats = cli.ok("stats", log, "--json").json
    cli.ok("import", log)
    assert stats == cli.ok("stats", "cafe", "--json").json
    assert stats["session"]["prompts"] == 1


def test_the_logs_of_a_home_are_not_counted_with_a_file(cli: Cli, demo: Cli, log: Path) -> None:
    assert "1 prompt " in demo.ok("stats", log).out
    assert [path.name for path in cli.sessions()] == ["demo.jsonl"]


def test_several_logs_are_counted_together(cli: Cli, tmp_path: Path, log: Path) -> None:
    other = tmp_path / "tea.jsonl"
    with Session(other) as session:
        create_agent(session)
        log_user_message(session, "agent_001", "Tea?")
    assert cli.ok("stats", log, other).out.startswith("2 sessions\n  2 prompts ")
    assert cli.ok("stats", log, log).out.startswith("1 session\n  1 prompt ")
    cli.ok("import", log)
    assert cli.ok("stats", "cafe", other).out.startswith("2 sessions\n")


def test_a_damaged_log_is_not_counted(cli: Cli, log: Path) -> None:
    log.write_bytes(log.read_bytes().replace(b"Jill", b"JILL"))
    assert "cafe.jsonl: corrupted at line" in cli.refused("stats", log)
