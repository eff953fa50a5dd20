"""`harken fork`: a session goes on from any message, with another text if wanted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harken.session.session import Session
from tests.cli.kit import Cli, start
from tests.session_kit import read_lines

JACK, INNER = "Hi, I'm Jack. *extends hand*", "Be friendly but not over-eager."
"""Answers in the demo."""
GO_ON = 'Jack and Jill are still in the cafe. Say "go on" and they will go on talking.\n'


def read_rows(cli: Cli, session: str) -> list[dict[str, Any]]:
    return read_lines(cli.home / "sessions" / f"{session}.jsonl")


def find_ids(cli: Cli, text: str) -> tuple[str, str]:
    """Return the id of the answer in the demo that begins with this text, and the id before it."""
    rows = read_rows(cli, "demo")
    (index,) = [
        index
        for index, row in enumerate(rows)
        if row.get("role") == "assistant" and (row.get("content") or "").startswith(text)
    ]
    return rows[index]["message_id"], rows[index - 1]["message_id"]


def test_a_session_is_forked_at_its_end(demo: Cli) -> None:
    ran = demo.ok("fork", "demo")
    assert ran.out == f"demo-fork  fork of demo up to {read_rows(demo, 'demo')[-1]['message_id']}\n"
    assert "chat --resume demo-fork`. Files and servers are not restored." in ran.err
    assert len(read_rows(demo, "demo-fork")) == len(read_rows(demo, "demo"))
    assert demo.ok("fork", "demo-fork").out.startswith("demo-fork2  fork of demo up to ")
    assert demo.ok("replay", "demo-fork", "--check").out.startswith("demo-fork: the same")


def test_a_message_has_another_text_in_the_fork_and_all_agents_are_there(demo: Cli) -> None:
    jack, before = find_ids(demo, JACK)
    ran = demo.ok("fork", "demo", "--at", jack, "--edit", "Hi, I'm Jack. Go away.")
    assert ran.out == f"demo-fork  fork of demo up to {before}: edited {jack}\n"
    (edited, response) = read_rows(demo, "demo-fork")[-2:]
    assert (edited["message_id"], edited["content"]) == (jack, "Hi, I'm Jack. Go away.")
    assert response["stop_reason"] == "edited"
    shown = demo.ok("view", "demo-fork").out
    assert f"fork of demo up to {before}: edited {jack}\n" in shown
    assert "Jack: Hi, I'm Jack. Go away.\n  (edited in this fork)\n" in shown
    rows = demo.ok("view", "demo-fork", "tree", "--json").json
    assert [row["name"] for row in rows] == ["main", "Jack", "Jill"]
    assert rows[0]["origin"]["session"] == "demo"
    demo.ok("chat", "--resume", "demo-fork", "-p", "say nothing")
    assert demo.ok("replay", "demo-fork", "--check").out.startswith("demo-fork: the same")


def test_the_whole_scene_goes_on_from_the_new_answer_of_a_subagent(demo: Cli) -> None:
    inner, _ = find_ids(demo, INNER)
    edit = ["--at", inner, "--edit", "Say nothing. He will go away."]
    demo.ok("fork", "demo", *edit, "--name", "quiet")
    ran = start(demo.home, "chat", "--resume", "quiet", stdin="\n")
    assert (ran.returncode, ran.stdout.decode()) == (0, GO_ON)
    shown = demo.ok("view", "quiet").out
    assert "Inner: Say nothing. He will go away.\n" in shown
    assert "Jill: *nods and goes back to her notebook*\n" in shown
    assert "Inner" in [row["name"] for row in demo.ok("view", "quiet", "tree", "--json").json]
    compared = demo.ok("compare", "demo", "quiet").out
    assert "Inner: they diverge after 0 messages\n" in compared
    assert "Only in" not in compared
    assert demo.ok("replay", "quiet", "--check").out.startswith("quiet: the same")


def test_a_rerun_of_a_subagent_goes_on_with_the_agents_that_wait(demo: Cli) -> None:
    demo.ok("rerun", "demo/Jack", "--at", "1", "--edit", "#0=You are Jack, a pirate.")
    assert start(demo.home, "chat", "--resume", "demo-rerun", stdin="\n").returncode == 0
    assert "Jill: *smiles*" in demo.ok("view", "demo-rerun").out
    assert demo.ok("replay", "demo-rerun", "--check").out.startswith("demo-rerun: the same")


def test_a_fork_names_its_changes(demo: Cli) -> None:
    jack, before = find_ids(demo, JACK)
    options = ["--before", "--model", "scripted:demo", "--name", "again", "--json"]
    made = demo.ok("fork", "demo", "--at", jack.removeprefix("msg_"), *options).json
    assert made["session"] == "again"
    assert made["log"] == str(demo.home / "sessions" / "again.jsonl")
    assert made["origin"]["upto"] == before
    assert made["origin"]["changes"] == ["model scripted:demo"]
    configured = [
        row["agent_id"]
        for row in read_rows(demo, "again")
        if row["event_type"] == "agent_configured"
    ]
    assert configured == ["agent_001", "agent_002", "agent_003"]
    assert demo.ok("replay", "again", "--check").out.startswith("again: the same")
    first, _ = demo.ok("sessions").out.splitlines()
    assert first.endswith(f"fork of demo up to {before}: model scripted:demo")


def test_a_hook_is_removed_in_a_fork(cli: Cli, script: str) -> None:
    cli.ok("chat", "--model", script, "-p", "hello")
    (log,) = cli.sessions()
    (hook,) = [row for row in read_lines(log) if row.get("name") == "changed-files"]
    cli.ok("fork", log.stem, "--without-hook", "changed-files")
    moved = read_rows(cli, f"{log.stem}-fork")[-1]
    assert (moved["event_type"], moved["agent_id"]) == ("agent_moved", hook["agent_id"])
    refused = cli.refused("fork", log.stem, "--without-hook", "nobody")
    assert refused.startswith("hook 'nobody' not found")
    assert len(cli.sessions()) == 2


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--before"], "--before needs a message: add --at"),
        (["--edit", "x"], "--edit needs a message: add --at"),
        (["--at", "30", "--edit", " "], "--edit needs a text; --before forks without the message"),
        (["--at", "30", "--edit", "x", "--before"], "cannot be combined"),
        (["--at", "999"], "message 'msg_999' not found; existing messages: msg_000 to msg_0"),
        (["--at", "1", "--edit", "x"], "msg_001 is an event of type agent_created, not a message"),
        (["--at", "0", "--before"], "msg_000 is the first event of the session"),
        (["--name", "demo"], "demo"),
    ],
)
def test_an_impossible_fork_is_refused_and_nothing_is_left(
    demo: Cli, arguments: list[str], text: str
) -> None:
    assert text in demo.refused("fork", "demo", *arguments)
    assert [log.stem for log in demo.sessions()] == ["demo"]


def test_what_is_no_log_is_not_forked(demo: Cli, tmp_path: Path) -> None:
    ctx = demo.ok("chat", "--resume", "demo", "-p", "say nothing")
    assert ctx.code == 0
    (commit, *_) = [row["ctx"] for row in read_rows(demo, "demo") if "ctx" in row]
    assert "a commit has no log to fork" in demo.refused("fork", commit)
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes((demo.home / "sessions" / "demo.jsonl").read_bytes())
    assert demo.ok("fork", copy).out.startswith("copy-fork  fork of copy up to ")
    copy.write_text(json.dumps({"event_type": "session_started"}) + "\n")
    assert demo("fork", copy).code == 2


@pytest.mark.parametrize("is_compressed", [False, True])
def test_a_fork_of_a_session_that_was_renamed_is_counted_once(
    demo: Cli, *, is_compressed: bool
) -> None:
    alone = demo.ok("stats", "--json").json
    demo.ok("fork", "demo", "--name", "b")
    demo.ok("sessions", "rename", "demo", "a")
    if is_compressed:
        demo.ok("sessions", "compress", "a")
    both = demo.ok("stats", "--json").json
    assert both["amplification"] == alone["amplification"]


def test_a_fork_is_counted_in_full_beside_another_session_with_the_name_of_its_origin(
    demo: Cli, tmp_path: Path
) -> None:
    alone = demo.ok("stats", "--json").json
    demo.ok("fork", "demo", "--name", "b")
    demo.ok("sessions", "rename", "demo", "a")
    (demo.home / "sessions" / "a.jsonl").rename(tmp_path / "a.jsonl")
    with Session(demo.home / "sessions" / "demo.jsonl"):
        pass
    assert (
        demo.ok("stats", "--json").json["amplification"]["responses"]
        == alone["amplification"]["responses"]
    )
