"""`harken sessions` fits the terminal, and finds sessions by time, project, runtime and text.

Lines were as wide as they liked and wrapped at 80 columns, sizes were in KB only, a log did not say
in which folder its agent worked, and a session kept the name of the second it began in for ever.
Now columns are left out where there is no room, and `sessions rename` and `rerun --name` name one.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pexpect
import pytest

from harken.cli.commands.sessions.table import SessionRow, table_lines
from harken.core import events as ev
from harken.core.ids import AgentId
from harken.session.log.compress import compress_log
from harken.session.session import Session
from tests.cli.conftest import cli, demo, script
from tests.cli.kit import Cli

__all__ = ["cli", "demo", "script"]

ROW = SessionRow(
    name="session_20260305_143000",
    modified="today 14:30",
    size="1.2 MB",
    cost="$12.50",
    project="café",
    state="cut off?",
    title="A long title " * 10,
    is_unfinished=True,
)
WIDE = SessionRow("codex:日本語", "Jan 31 00:00", "3 B", "", "", "ended", "日本語" * 40)


@pytest.mark.parametrize("width", [1, 10, 24, 40, 60, 80, 100, 120, 200])
def test_each_line_fits_the_terminal(width: int) -> None:
    from rich.cells import cell_len

    for line in table_lines([ROW, WIDE], width):
        assert cell_len(line) <= width


def test_columns_are_left_out_where_there_is_no_room() -> None:
    wide, narrow = table_lines([ROW], 120)[0], table_lines([ROW], 60)[0]
    assert wide.startswith(
        "session_20260305_143000  today 14:30  1.2 MB  $12.50  café  cut off?  A long title"
    )
    assert narrow.startswith("session_20260305_143000  today 14:30  (cut off?) A long")
    assert table_lines([ROW], None)[0].count("A long title") == 4, "a program gets more of it"


def test_a_list_at_a_terminal_has_no_line_that_wraps(demo: Cli, script: str) -> None:
    demo.ok("chat", "--model", script, "-p", "hello " * 60)
    environ = {**os.environ, "HARKEN_HOME": str(demo.home)}
    environ.pop("COLUMNS", None)  # it would stand for the width of the terminal
    for columns in (40, 80, 132):
        child = pexpect.spawn(
            sys.executable,
            ["-m", "harken", "sessions"],
            env=environ,
            dimensions=(24, columns),
            encoding="utf-8",
            timeout=60,
        )
        lines = child.read().splitlines()
        assert len(lines) == 2
        assert max(map(len, lines)) <= columns
        assert "hello hello" in lines[0] or columns == 40


def test_sessions_are_found_by_project_time_and_text(demo: Cli, script: str) -> None:
    demo.ok("chat", "--model", script, "-p", "hello tea")
    os.utime(demo.home / "sessions/demo.jsonl", (time.time() - 9 * 86400,) * 2)

    def names(*options: str) -> list[str]:
        rows = demo.ok("sessions", "--json", *options).json
        return ["demo" if row["session"] == "demo" else "chat" for row in rows]

    assert names() == ["chat", "demo"]
    assert names("--since", "7d") == ["chat"]
    assert names("--project", ".") == names("--project", "here") == ["chat"]
    assert names("--text", "HELLO") == ["chat"]
    assert names("--text", "jill meet") == names("--text", "dem") == ["demo"]
    assert names("--text", "hello", "--since", "2d", "--runtime", "harken") == ["chat"]
    assert names("--text", "nothing like it") == []
    assert demo.ok("sessions", "--json").json[0]["project"] == str(Path.cwd())
    assert "is not a time" in demo.refused("sessions", "--since", "soon")
    assert "cannot be combined" in demo.refused("sessions", "--all", "--limit", "3")


def test_the_cost_is_that_of_all_responses_or_not_known(cli: Cli) -> None:
    (cli.home / "sessions").mkdir(parents=True)
    for name, costs in (("paid", [0.25, 1.0]), ("partly", [0.25, None])):
        with Session(cli.home / f"sessions/{name}.jsonl") as session:
            agent_id = AgentId("agent_001")
            session.log_agent_created(agent_id, None, "main", "some/model")
            for cost in costs:
                response = ev.LlmResponse(
                    agent_id=agent_id,
                    request=session.append(request_of(session, agent_id)),
                    usage=ev.Usage(10, 5),
                    cost_usd=cost,
                    stop_reason="error",
                    error="cut off",
                )
                session.append(response)
    rows = {row["session"]: row["cost_usd"] for row in cli.ok("sessions", "--json").json}
    assert rows == {"paid": 1.25, "partly": None}
    assert "$1.25" in cli.ok("sessions", "--text", "paid").out


def request_of(session: Session, agent_id: AgentId) -> ev.LlmRequest:
    """Return a model call of an agent with its context as it is now."""
    return ev.LlmRequest(
        agent_id=agent_id,
        context=session.agent(agent_id).segments(),
        count=len(session.context(agent_id)),
        context_hash="",
        model="some/model",
    )


def test_a_renamed_session_is_found_resumed_and_whole(demo: Cli, script: str) -> None:
    demo.ok("chat", "--model", script, "-p", "hello")
    old = next(log.stem for log in demo.sessions() if log.stem != "demo")
    data = (demo.home / f"sessions/{old}.jsonl").read_bytes()
    assert demo.ok("sessions", "rename", old, "tea-talk").out == f"{old} is now tea-talk\n"
    assert (demo.home / "sessions/tea-talk.jsonl").read_bytes() == data
    assert not (demo.home / f"sessions/{old}.jsonl").exists()
    demo.ok("chat", "--resume", "tea-talk", "--model", script, "-p", "hello")
    demo.ok("sessions", "check", "tea-talk")
    compress_log(demo.home / "sessions/tea-talk.jsonl")
    row = demo.ok("sessions", "rename", "tea-talk", "packed", "--json").json
    assert (row["session"], row["was"]) == ("packed", "tea-talk")
    demo.ok("view", "packed", "tree")


def test_a_name_that_is_taken_or_unusable_is_refused(demo: Cli, script: str) -> None:
    demo.ok("chat", "--model", script, "-p", "hello")
    assert "exists" in demo.refused("sessions", "rename", "session_", "demo")
    for name in ("latest", "ctx-1", "../x", "a/b", "", ".x", "a b", "x" * 81, "x.jsonl", "-x"):
        assert demo("sessions", "rename", "demo", "--", name).code == 2, name
    with Session.load(demo.home / "sessions/demo.jsonl"):
        assert demo("sessions", "rename", "demo", "other").code == 2
    assert len(demo.sessions()) == 2


def test_a_rerun_gets_the_name_that_is_wanted(demo: Cli) -> None:
    demo.ok("rerun", "demo", "--at", "-1", "--name", "once")
    demo.ok("rerun", "demo", "--at", "-1", "--name", "thrice", "--runs", "3")
    names = {log.stem for log in demo.sessions()}
    assert names == {"demo", "once", "thrice-1", "thrice-2", "thrice-3"}
    assert "exists" in demo.refused("rerun", "demo", "--at", "-1", "--name", "once")


def test_the_folder_is_a_field_of_the_birth(cli: Cli, script: str) -> None:
    cli.ok("chat", "--model", script, "-p", "hello")
    [log] = cli.sessions()
    births = [json.loads(line) for line in log.read_text().splitlines()]
    [spec] = [row["spec"] for row in births if row.get("name") == "main"]
    assert spec["folder"] == str(Path.cwd())
