"""Sessions of other runtimes: `harken sessions` lists them, `harken view` looks at them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.kit import Cli, start
from tests.unit.formats.transcript_kit import Transcript, text_block, tool_use_block

NAME = "claude:5e551011-0000-4000-8000-000000000001"
VIEWS = [
    *("tree", "dialog main ann", "perspective ann", "transcript main", "flow 5", "refs 11"),
    *("context 10", "timeline", "hooks", "raw"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    main = Transcript()
    main.add("ai-title", aiTitle="Tea \x1b[31m")
    main.user("Ask Ann.")
    main.answer(tool_use_block("c1", "Task", prompt="You are Ann. Which tea?"))
    main.result("c1", "Green.")
    main.records[-1]["toolUseResult"] = {"agentId": "ann"}
    main.answer(text_block("Ann says green."))
    ann = Transcript(shared={"isSidechain": True, "agentId": "ann"})
    ann.user("You are Ann. Which tea?")
    ann.answer(text_block("Green."), id="a1")
    made = tmp_path / "projects"
    made.mkdir()
    (made / "a.jsonl").write_bytes(main.data)
    (made / "agent-ann.jsonl").write_bytes(ann.data)
    return made


@pytest.fixture
def tea(cli: Cli, folder: Path) -> Cli:
    """`harken`, after that session was imported."""
    cli.ok("import", folder)
    return cli


def test_the_session_is_listed_with_its_runtime_title_time_size_and_tip(tea: Cli) -> None:
    (line,) = tea.ok("sessions").out.splitlines()
    assert line.startswith("claude:5e551011  2026-01-31 ")
    assert " KB  " in line
    assert "  cafe  ctx-" in line
    assert line.endswith("  Tea \\x1b[31m")
    (row,) = tea.ok("sessions", "--json").json
    assert (row["session"], row["runtime"], row["state"]) == (NAME, "claude", "imported")
    assert row["title"] == "Tea \x1b[31m"
    assert (row["project"], row["written"]) == ("/home/jill/cafe", "2026-01-31T12:00:05+00:00")
    assert [tip["agent"] for tip in row["tips"]] == ["main", "ann"]
    assert len(row["sources"]) == 2


def test_to_list_sessions_their_commits_are_not_looked_at(tea: Cli) -> None:
    expected = tea.ok("sessions").out
    (tea.home / "store.db").unlink()
    assert tea.ok("sessions").out == expected


def test_logs_and_imported_sessions_are_listed_together_newest_first(tea: Cli) -> None:
    tea.ok("demo")
    assert [row["runtime"] for row in tea.ok("sessions", "--json").json] == ["harken", "claude"]
    os.utime(tea.sessions()[0], (0, 0))
    assert [row["runtime"] for row in tea.ok("sessions", "--json").json] == ["claude", "harken"]
    for given, expected in {"harken": ["demo"], "claude": [NAME]}.items():
        found = tea.ok("sessions", "--runtime", given, "--json").json
        assert [row["session"] for row in found] == expected
    assert "existing runtimes: harken, claude" in tea.refused("sessions", "--runtime", "pi")


def test_sessions_are_chosen_by_where_the_runtime_worked(tea: Cli) -> None:
    for given in ("/home/jill/cafe", "/home/jill", "cafe", "/home/jill/../jill/cafe/"):
        assert len(tea.ok("sessions", "--project", given, "--json").json) == 1
    for given in ("/home/jill/caf", "ca", ".", ""):
        ran = tea.ok("sessions", "--project", given)
        assert (ran.out, ran.err) == ("", "No session matches.\n")


def test_so_many_are_shown_as_somebody_wants_to_see(cli: Cli, tmp_path: Path) -> None:
    for number in range(23):
        made = Transcript(f"5e551011-0000-4000-8000-{number:012d}")
        made.user("Hello")
        made.answer(text_block("Hi"), id=f"r{number}")
        (tmp_path / f"{number}.jsonl").write_bytes(made.data)
    cli.ok("import", tmp_path)
    ran = cli.ok("sessions")
    assert len(ran.out.splitlines()) == 20
    assert "... and 3 more: `harken sessions --all` lists all" in ran.err
    for arguments, count in ((["--limit", "2"], 2), (["--limit", "0"], 23), (["--all"], 23)):
        assert len(cli.ok("sessions", *arguments).out.splitlines()) == count
    assert len(cli.ok("sessions", "--json").json) == 23
    names = {line.split()[0] for line in cli.ok("sessions", "--limit", "0").out.splitlines()}
    assert len(names) == 23
    for name in names:
        cli.ok("view", name, "tree")


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_shows_it_and_no_log_is_written(tea: Cli, view: str) -> None:
    plain = tea.ok("view", "claude:5e55", *view.split())
    data = tea.ok("view", NAME, *view.split(), "--json")
    assert plain.err.startswith("Imported from claude: Tea \\x1b[31m (/")
    assert ", up to ctx-" in plain.err
    json.loads(data.out)
    assert plain.out or view == "hooks"
    assert tea.sessions() == []


def test_what_a_view_shows_is_what_was_said(tea: Cli) -> None:
    tree = tea.ok("view", NAME, "tree").out.splitlines()
    assert [line.split()[0] for line in tree] == ["main", "ann"]
    assert tree[1].startswith("  ann  (agent_002, claude-opus-4-5-20251101, 2 entries, 1 model")
    assert tea.ok("view", NAME, "dialog", "main", "ann").out.splitlines() == [
        *("user: Ask Ann.", "main: You are Ann. Which tea?", "ann: Green."),
        "main: Ann says green.",
    ]
    assert "[Received]: Green." in tea.ok("view", NAME, "perspective", "main").out


def test_the_context_of_a_request_is_what_the_commit_materializes_to(tea: Cli) -> None:
    (row,) = tea.ok("sessions", "--json").json
    ctx = row["tips"][0]["ctx"]
    raw = tea.ok("view", NAME, "raw", "--json").json
    last = [event for event in raw if event["event_type"] == "llm_response"][-1]["request"]
    view = tea.ok("view", NAME, "context", last, "--json").json
    assert "is_damaged" not in view
    expected = tea.ok("ctx", "cat", ctx, "--json").json[:-1]
    shown = [message["message"] for message in view["messages"]]
    assert [{**one, "name": None} for one in shown] == [{**one, "name": None} for one in expected]


def test_a_session_is_named_by_its_file_and_the_newest_is_the_latest(
    tea: Cli, folder: Path
) -> None:
    expected = tea.ok("view", NAME, "tree").out
    for name in ("latest", "5e551011", str(folder / "a.jsonl"), str(folder / "agent-ann.jsonl")):
        assert tea.ok("view", name, "tree").out == expected
    tea.ok("demo")
    assert "Jill" in tea.ok("view", "latest", "tree").out


def test_a_commit_is_looked_at_as_the_conversation_up_to_it(tea: Cli) -> None:
    (row,) = tea.ok("sessions", "--json").json
    for tip, entries in zip(row["tips"], (4, 2), strict=True):
        ran = tea.ok("view", tip["ctx"][:16], "tree", "--json")
        (agent,) = ran.json
        assert (agent["name"], agent["entries"]) == (tip["agent"], entries)
        assert ran.err.startswith(f"History of principal {NAME}")
    assert "not found" in tea.refused("view", "ctx-0000", "tree")


def test_a_commit_of_harken_is_looked_at_too(demo: Cli, script: str) -> None:
    demo.ok("chat", "--model", script, "-p", "hello")
    (newest,) = demo.ok("ctx", "log", "-n", "1", "--json").json
    assert "[Said]: Hi there." in demo.ok("view", newest["id"], "perspective", "agent_001").out


def test_a_name_that_is_nobodys_is_told_with_those_that_there_are(tea: Cli) -> None:
    tea.ok("demo")
    text = tea.refused("view", "nobody", "tree")
    assert (
        "session or commit 'nobody' not found; existing sessions or commits: demo, claude:5e551011"
    ) in text


@pytest.mark.parametrize(
    ("zone", "time"),
    [
        ("Asia/Tokyo", "9999-12-31T23:59:59Z"),
        ("America/New_York", "0001-01-01T00:00:00Z"),
        ("America/New_York", "9999-12-31T23:59:59Z"),
    ],
)
def test_a_file_may_claim_any_time(cli: Cli, tmp_path: Path, zone: str, time: str) -> None:
    made = Transcript()
    made.user("Which tea?")
    made.answer(text_block("Green tea."))
    for record in made.records:
        record["timestamp"] = time
    path = tmp_path / "a.jsonl"
    path.write_bytes(made.data)
    for command in (["watch", "--once", str(path)], ["sessions"], ["search", "tea"]):
        ran = start(cli.home, *command, TZ=zone)
        assert (ran.returncode, b"tea" in ran.stdout) == (0, True), ran


def test_an_imported_session_is_rerun_offline_and_does_not_part(tea: Cli) -> None:
    ran = tea.ok("rerun", NAME, "--at", "1", "--model", f"replay:{NAME}")
    (stem,) = [path.stem for path in tea.sessions()]
    assert stem == "claude_5e551011-0000-4000-8000-000000000001-rerun"
    assert ran.out.startswith(f"{stem}  Ann says green.")
    found = tea.ok("compare", NAME, stem, "--json").json
    assert found["partings"] == []
    (tool,) = [
        row for row in tea.ok("view", stem, "raw", "--json").json if row.get("role") == "tool"
    ]
    assert tool["content"] == "Green."


def test_another_model_goes_on_with_an_imported_session(tea: Cli, tmp_path: Path) -> None:
    script = tmp_path / "other.yaml"
    script.write_text("rules:\n  - answer: Black.\n")
    chosen = ("--model", f"scripted:{script}", "--at", "-1", "--edit", "-1=Black.")
    ran = tea.ok("rerun", f"{NAME}/main", *chosen)
    assert "-rerun  Black." in ran.out
    (stem,) = [path.stem for path in tea.sessions()]
    (tools,) = [
        row["tools"]
        for row in tea.ok("view", stem, "raw", "--json").json
        if row["event_type"] == "tools_defined"
    ]
    assert [tool["name"] for tool in tools] == ["Task"]
    assert "rerun of claude:" in tea.ok("view", stem, "tree").out


def test_what_an_imported_sessions_program_alone_has_is_not_rerun(tea: Cli) -> None:
    ran = tea("rerun", NAME, "--at", "1", "--live")
    assert ran.code == 2
    assert "--live: the tools of another runtime cannot be run" in ran.err
    ran = tea("rerun", NAME, "--at", "1", "--without-hook", "x")
    assert ran.code == 2
    assert "hooks of another program" in ran.err
    assert tea.sessions() == []
