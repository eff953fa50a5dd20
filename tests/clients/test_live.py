"""Real clients, recorded as they run: what they were sent, and what their users saw.

Source: the clients and the fake provider of the lab; see `tests.clients.kit`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from harken.core.commits import CommitId
from tests.clients.kit import needs
from tests.clients.live_kit import ASK, Place, Ran, in_entries, in_request

VOLATILE = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(msg|toolu|call)_fake\w+"
    r"|\b\d+ms\b"
)
"""Ids, and how long it took: others in each run."""
PRESENT = frozenset({"messaging_socket_path", "capabilities"})
"""What the client says of its process, and of what it can do when it writes a stream of events."""
JSON, STREAM = ("--output-format", "json"), ("--output-format", "stream-json")


@pytest.fixture
def claude(tmp_path: Path) -> Place:
    return Place("claude", tmp_path)


@pytest.fixture
def codex(tmp_path: Path) -> Place:
    return Place("codex", tmp_path)


def understood(place: Place, ran: Ran) -> None:
    """Check that the last commit except its answer equals the last request."""
    entries = place.entries(place.main()[-1].id)
    assert entries[-1].message.role == "assistant"
    parts_committed = in_entries(entries, place.client)
    last_request = max(ran.requests, key=lambda body: len(in_request(body)))
    assert parts_committed[: len(in_request(last_request))] == in_request(last_request)
    assert len(parts_committed) == len(in_request(last_request)) + 1


def session_of(place: Place) -> str:
    """Return the client's own id of the session of the last commit."""
    return place.main()[-1].commit.session_id.partition(":")[2]


@needs("claude")
@pytest.mark.req("S2-31", "S2-37", "S2-39")
def test_claude_run_is_recorded_as_sent_and_tools_know_their_commit(
    claude: Place,
) -> None:
    ran = claude.run(prompt=f"{ASK} please")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"Done, the tool has answered. You said: {ASK} please\n"
    first, last, end = claude.main()
    assert (last.commit.parent, end.commit.parent) == (first.id, last.id)
    assert end.notes.summary.startswith("success, 2 turns, $")
    assert (claude.home / "work" / "told").read_text().strip() == first.id
    assert claude.entries(first.id)[-1].message.tool_calls
    understood(claude, ran)


@needs("claude")
@pytest.mark.req("S2-37")
def test_claude_run_without_session_file_is_recorded_from_its_output(claude: Place) -> None:
    ran = claude.run("--no-session-persistence", prompt=f"{ASK} please")
    assert ran.code == 0
    first, answer, end = claude.main()
    assert (answer.commit.parent, end.commit.parent) == (first.id, answer.id)
    assert (claude.home / "work" / "told").read_text().strip() == first.id
    assert end.notes.summary.startswith("success, 2 turns, $")
    understood(claude, ran)


@needs("claude")
def test_claude_failed_tool_subagent_and_compaction_are_recorded(claude: Place) -> None:
    understood(claude, claude.run(prompt="RUNFAIL please"))
    failed = [entry.message.is_error for entry in claude.entries(claude.main()[-1].id)]
    assert True in failed
    session = session_of(claude)
    ran = claude.run("--resume", session, prompt="/compact")
    assert (ran.code, ran.out) == (0, "\n")
    assert "compaction" in {stored.commit.type for stored in claude.main()}
    before = claude.main()
    understood(claude, claude.run("--resume", session, prompt="RUNTOOL please"))
    assert claude.main()[: len(before) - 1] == before[:-1]  # the last one, a command, continues
    ran = claude.run("--resume", session, prompt="SUBAGENT please")
    assert ran.code == 0
    subagents = [stored for stored in claude.commits() if "/" in stored.commit.principal]
    assert {stored.commit.type for stored in subagents} == {"snapshot", "delta"}
    assert subagents[0].commit.parent in [stored.id for stored in claude.main()]
    assert session_of(claude) == session


@needs("claude")
@pytest.mark.parametrize(
    ("options", "prompt"),
    [
        ((), "RUNTOOL please"),
        (("--max-turns", "1"), "RUNTOOL please"),
        (("--resume", "11111111-1111-4111-8111-111111111111"), "hi"),
        (JSON, "RUNTOOL please"),
        pytest.param((), "SUBAGENT please", marks=pytest.mark.full),
        pytest.param((*JSON, "--verbose"), "RUNFAIL please", marks=pytest.mark.full),
        pytest.param((*STREAM, "--verbose"), "hi", marks=pytest.mark.full),
        pytest.param(STREAM, "hi", marks=pytest.mark.full),
        pytest.param(("--no-such-option",), "hi", marks=pytest.mark.full),
    ],
)
def test_claude_output_is_the_same_without_harken(
    options: tuple[str, ...], prompt: str, claude: Place
) -> None:
    alone = claude.run(*options, prompt=prompt, recorded=False)
    recorded = claude.run(*options, prompt=prompt)
    assert (recorded.code, recorded.err) == (alone.code, alone.err)
    assert shape(recorded.out) == shape(alone.out)


@needs("codex")
@pytest.mark.req("S2-39")
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_codex_run_is_recorded_as_sent_and_tools_know_their_commit(
    options: tuple[str, ...], codex: Place
) -> None:
    ran = codex.run(*options, prompt=f"{ASK} please")
    assert ran.code == 0
    understood(codex, ran)
    printed_commit = CommitId((codex.home / "work" / "told").read_text().strip())
    with codex.store() as store:
        (stored,) = store.commits([printed_commit]).values()
    assert codex.entries(stored.id)[-1].message.tool_calls


@needs("codex")
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_codex_output_is_the_same_without_harken(options: tuple[str, ...], codex: Place) -> None:
    alone = codex.run(*options, prompt="RUNTOOL please", recorded=False)
    recorded = codex.run(*options, prompt="RUNTOOL please")
    assert recorded.code == alone.code
    assert shape(recorded.out) == shape(alone.out)
    assert shape(recorded.err) == shape(alone.err)


@needs("codex")
def test_codex_failed_tool_subagent_and_compaction_are_recorded(codex: Place) -> None:
    understood(codex, codex.run("--json", prompt="RUNFAIL please"))
    session = session_of(codex)
    limit = ("-c", "model_auto_compact_token_limit=1000")
    ran = codex.run("--json", *limit, "resume", session, prompt="RUNTOOL please")
    assert ran.code == 0
    assert "compaction" in {stored.commit.type for stored in codex.main()}
    understood(codex, codex.run("--json", "resume", session, prompt="hi again"))
    ran = codex.run("--json", prompt="SUBAGENT please")
    assert ran.code == 0
    spawned = [stored for stored in codex.commits() if stored.commit.checkpoint == "spawn"]
    assert len(spawned) == 1
    assert spawned[0].commit.parent in [stored.id for stored in codex.commits()]


def shape(out: str) -> object:
    """Return an output without the ids and durations, which differ in each run."""
    lines = [_plain(line) for line in out.splitlines()]
    return [*lines, out.endswith("\n")]


def _plain(line: str) -> object:
    try:
        value: Any = json.loads(line)
    except ValueError:
        return VOLATILE.sub("ID", line)
    return _kinds(value)


def _kinds(value: Any) -> Any:
    """Replace the numbers and ids of a JSON value by their kinds."""
    if isinstance(value, dict):
        return [(name, _kinds(item)) for name, item in value.items() if name not in PRESENT]
    if isinstance(value, list):
        return [_kinds(item) for item in value]
    if isinstance(value, str):
        return VOLATILE.sub("ID", re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", value))
    return type(value).__name__ if isinstance(value, int | float) else value
