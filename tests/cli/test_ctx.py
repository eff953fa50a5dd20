"""Commits of chats, and chats from commits."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.context.materialize import materialize
from harken.core.commits import CommitId
from harken.core.events import LlmRequest
from harken.core.messages import Message, extend_context_hash
from harken.session.log.reader import iter_events
from harken.store.sqlite.store import SqliteStore
from tests.cli.kit import Cli

NOON = "2026-01-31T12:00:00Z"
NOBODY = "ctx-" + 64 * "0"
"""No commit: whatever a test makes, its name does not begin so."""


@pytest.fixture
def talked(cli: Cli, script: str) -> Cli:
    """A home in which a chat was held."""
    cli.ok("chat", "--model", script, "-p", "make Ann")
    return cli


def last(cli: Cli) -> str:
    return str(cli.ok("ctx", "log", "-n", "1", "--json").json[0]["id"])


def test_a_chat_commits_by_itself_and_the_log_lists_its_commits(talked: Cli) -> None:
    rows = talked.ok("ctx", "log", "--json").json
    assert [row["summary"] for row in rows[:1]] == ["Ann wants tea."]
    assert {"Tea."} <= {row["summary"] for row in rows}
    lines = talked.ok("ctx", "log", rows[0]["id"][:16]).out.splitlines()
    assert lines[0].startswith(rows[0]["id"][:16])
    assert "Ann wants tea." in lines[0]


def test_a_commit_is_shown_by_any_unique_beginning_of_its_name(talked: Cli) -> None:
    name = last(talked)
    assert talked.ok("ctx", "show", name[:12], "--json").json["id"] == name
    assert "ctx-00" in talked.refused("ctx", "show", "ctx-00000000ffff")


@pytest.mark.req("S2-22", "S2-23")
def test_a_chat_begins_with_what_a_commit_understood_on_another_machine_too(
    talked: Cli, script: str, tmp_path: Path
) -> None:
    name = last(talked)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(talked.home / "store.db", elsewhere)
    home = ["--home", str(elsewhere)]
    talked.ok("chat", "--model", script, "--from-commit", name[:16], "-p", "hello", *home)
    [log] = (elsewhere / "sessions").glob("*.jsonl")
    store = SqliteStore(elsewhere / "store.db")
    known = materialize(store, CommitId(name)).messages
    store.close()
    [request] = [event for event in iter_events(log) if isinstance(event, LlmRequest)]
    context_hash = ""
    for message in [*known, Message("user", "hello")]:
        context_hash = extend_context_hash(context_hash, message)
    assert (request.count, request.context_hash) == (len(known) + 1, context_hash)
    first = talked.ok("ctx", "log", "-n", "1", "--json", *home).json[0]
    assert first["parent"] == name
    told = talked.ok("ctx", "cat", first["id"], "--json", *home).json
    assert [row.get("content") for row in told][: len(known)] == [m.content for m in known]


def test_labels_and_summaries_may_change_and_nothing_else(talked: Cli) -> None:
    name = last(talked)
    talked.ok("ctx", "label", name, "good")
    talked.ok("ctx", "summarize", name, "Ann and her tea")
    row = talked.ok("ctx", "show", name, "--json").json
    assert (row["id"], row["labels"], row["summary"]) == (name, ["good"], "Ann and her tea")


def test_an_empty_summary_is_refused(talked: Cli) -> None:
    assert "TEXT is empty" in talked.refused("ctx", "summarize", last(talked), " ")


def test_nothing_in_a_conversation_reaches_the_terminal_as_a_command(cli: Cli) -> None:
    hostile = "\x1b]0;owned\x07\ud800"
    cli.home.mkdir(exist_ok=True)
    store = SqliteStore(cli.home / "store.db")
    origin = CommitOrigin(principal=hostile, template=hostile)
    messages = [Message("user", hostile, name=hostile)]
    draft = CommitDraft(messages=messages, created_at=NOON, origin=origin, labels=(hostile,))
    ctx = checkpoint(store, draft)
    other = checkpoint(store, replace(draft, parent=ctx, summary=hostile))
    store.close()
    for command in (["log"], ["show", ctx], ["cat", ctx], ["diff", ctx, other]):
        for form in ([], ["--json"]):
            assert "\x1b" not in cli.ok("ctx", *command, *form).out


@pytest.mark.req("S2-08")
def test_two_chats_from_one_commit_are_compared(talked: Cli, script: str) -> None:
    name = last(talked)
    tips = []
    for _ in range(2):
        talked.ok("chat", "--model", script, "--from-commit", name, "-p", "hello")
        tips.append(last(talked))
    found = talked.ok("ctx", "diff", *tips, "--json").json
    assert found["ancestor"] == name
    assert "hello" in talked.ok("ctx", "diff", name, tips[0]).out


def test_a_fork_is_a_branch_with_a_name_that_a_chat_goes_on_from(talked: Cli, script: str) -> None:
    name = last(talked)
    ran = talked.ok(
        "ctx", "fork", name[:16], "--label", "try", "--principal", "bob", "--thread", "t"
    )
    forked = ran.out.strip()
    assert f"chat --from-commit {forked}" in ran.err
    row = talked.ok("ctx", "show", forked, "--json").json
    assert (row["parent"], row["labels"], row["principal"]) == (name, ["try"], "bob")
    assert row["thread_id"] == "t"
    told = [talked.ok("ctx", "cat", one, "--json").json for one in (forked, name)]
    assert told[0] == told[1]
    talked.ok("chat", "--model", script, "--from-commit", forked, "-p", "hello")
    assert talked.ok("ctx", "show", last(talked), "--json").json["parent"] == row["id"]
    mine = talked.ok("ctx", "fork", name, "--json").json
    assert mine["principal"] == Path.home().name
    assert NOBODY in talked.refused("ctx", "fork", NOBODY)


def test_what_cannot_be_done_is_said(cli: Cli, talked: Cli, script: str) -> None:
    assert NOBODY in talked.refused("ctx", "cat", NOBODY)
    refused = talked.refused("chat", "--continue", "--from-commit", NOBODY, "-p", "x")
    assert "--from-commit is for a new session" in refused
    before = talked.sessions()
    assert "not found" in talked.refused(
        "chat", "--model", script, "--from-commit", NOBODY, "-p", "x"
    )
    assert talked.sessions() == before  # nothing was begun


def test_a_rule_that_is_none_begins_no_session(cli: Cli, script: str) -> None:
    cli.home.mkdir(exist_ok=True)
    (cli.home / "config.toml").write_text("[permissions]\nallow = ['bash(']\n")
    cli.refused("chat", "--model", script, "-p", "hello")
    assert cli.sessions() == []


def test_without_a_store_the_log_says_how_to_get_one(cli: Cli) -> None:
    assert "a chat or an import creates it" in cli.refused("ctx", "log")


TALKATIVE = """\
rules:
  - agent: compaction
    answer: "Goals: tea."
  - pattern: hello
    answer: Hi there.
    usage: {input_tokens: 950, output_tokens: 10}
  - answer: And now?
    usage: {input_tokens: 100, output_tokens: 10}
"""


@pytest.mark.req("S2-25", "S2-15")
def test_a_chat_compacts_by_itself_and_the_original_stays_in_the_history(
    cli: Cli, tmp_path: Path
) -> None:
    script = tmp_path / "talkative.yaml"
    script.write_text(TALKATIVE)
    model = f"scripted:{script}"
    cli.home.mkdir(mode=0o700)
    (cli.home / "config.toml").write_text(f'[models."{model}"]\ncontext_window = 1000\n')
    cli.ok("chat", "--model", model, "--system-prompt", "Be brief.", "-p", "hello")
    ran = cli.ok("chat", "--continue", "-p", "and?")
    assert (ran.out, "main: the context was compacted" in ran.err) == ("And now?\n", True)
    rows = cli.ok("ctx", "log", "--json").json
    assert [(row.get("type", "delta"), row["summary"]) for row in rows[:2]] == [
        ("delta", "And now?"),
        ("compaction", "Goals: tea."),
    ]
    short = [row["content"] for row in cli.ok("ctx", "cat", last(cli), "--json").json]
    assert (short[0], short[2:], len(short)) == ("Be brief.", ["and?", "And now?"], 4)
    full = cli.ok("ctx", "cat", last(cli), "--stop", "root", "--json").json
    assert [row["content"] for row in full] == [
        "Be brief.",
        "hello",
        "Hi there.",
        "and?",
        "And now?",
    ]
    assert "compaction" in cli.ok("view", "latest", "tree").out
