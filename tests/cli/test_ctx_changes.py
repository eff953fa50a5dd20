"""`harken ctx checkpoint`, `compact`, `snapshot`, `materialize`, `branch` and `resolve`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.kit import Cli, start


@pytest.fixture(autouse=True)
def principal(cli: Cli) -> None:
    cli.environ["HARKEN_PRINCIPAL"] = "alice"


def commit(cli: Cli, folder: Path, text: str, *options: str) -> str:
    """Commit a question and an answer. Return the full name of the commit."""
    file = folder / "messages.json"
    messages = [{"role": "user", "content": text}, {"role": "assistant", "content": f"{text}!"}]
    file.write_text(json.dumps(messages))
    name: str = cli.ok("ctx", "checkpoint", file, "--json", *options).json["id"]
    return name


def test_a_checkpoint_moves_its_branch_and_the_next_one_continues_it(
    cli: Cli, tmp_path: Path
) -> None:
    first = commit(cli, tmp_path, "Tea?", "--branch", "main", "--ticket", "tkt-1")
    second = commit(cli, tmp_path, "Milk?", "--branch", "main")
    shown = cli.ok("ctx", "show", "main", "--json").json
    assert (shown["id"], shown["parent"]) == (second, first)
    assert (shown["principal"], cli.ok("ctx", "show", first, "--json").json["ticket_id"]) == (
        "alice",
        "tkt-1",
    )
    texts = [row["content"] for row in cli.ok("ctx", "cat", "main", "--json").json]
    assert texts == ["Tea?", "Tea?!", "Milk?", "Milk?!"]


def test_a_checkpoint_on_an_old_head_leaves_the_branch_and_names_its_commit(
    cli: Cli, tmp_path: Path
) -> None:
    first = commit(cli, tmp_path, "Tea?", "--branch", "main")
    commit(cli, tmp_path, "Milk?", "--branch", "main")
    before = cli.ok("ctx", "branch", "--json").json
    refusal = cli.refused(
        "ctx", "checkpoint", tmp_path / "messages.json", "--branch", "main", "--parent", first
    )
    assert "branch 'main' is at ctx-" in refusal
    assert "another writer moved it" in refusal
    assert cli.ok("ctx", "branch", "--json").json == before
    [commit_id] = re.findall(r"the commit was written as (ctx-[0-9a-f]{64})", refusal)
    cli.ok("ctx", "branch", "mine", commit_id)
    assert cli.ok("ctx", "log", "mine", "--json").json[1]["id"] == first


def test_a_branch_is_moved_only_from_its_current_head(cli: Cli, tmp_path: Path) -> None:
    first = commit(cli, tmp_path, "Tea?", "--branch", "main")
    second = commit(cli, tmp_path, "Milk?", "--branch", "main")
    cli.ok("ctx", "branch", "review/alice", first)
    assert cli.ok("ctx", "branch", "--json").json == {"main": second, "review/alice": first}
    assert f"exists already, at {first}" in cli.refused("ctx", "branch", "review/alice", second)
    assert "another writer" in cli.refused(
        "ctx", "branch", "review/alice", second, "--from", second
    )
    assert "not the name of a branch" in cli.refused("ctx", "branch", "a b", second)
    cli.ok("ctx", "branch", "review/alice", "main", "--from", first)
    assert cli.ok("ctx", "branch", "--json").json["review/alice"] == second
    cli.ok("ctx", "branch", "review/alice", "--delete")
    assert "existing branches: main" in cli.refused("ctx", "branch", "review/alice")
    assert "the summary is blank" in cli.refused("ctx", "compact", "main", " ")
    assert cli.ok("ctx", "branch", "--json").json == {"main": second}


def test_a_commit_is_named_alike_in_every_form(cli: Cli, tmp_path: Path) -> None:
    first = commit(cli, tmp_path, "Tea?", "--branch", "main", "--label", "tea")
    names = [first, first[:16], "main", "tea", "alice@now", "alice@2100-01-01"]
    names.append("alice@2100-01-01T00:00:00+01:00")
    for command in (["resolve"], ["show"], ["materialize"], ["log"]):
        results = {cli.ok("ctx", *command, name, "--json").out for name in names}
        assert len(results) == 1, command
    assert cli.ok("ctx", "resolve", "main").out == f"{first}\n"
    for name in ("alice@1999-01-01", "bob@now", "alice@soon"):
        assert "not found" in cli.refused("ctx", "resolve", name)


def test_compact_replaces_the_messages_and_the_root_still_has_them(
    cli: Cli, tmp_path: Path
) -> None:
    commit(cli, tmp_path, "Tea?", "--branch", "main", "--ticket", "tkt-1")
    name = cli.ok("ctx", "compact", "main", "They want tea.", "--branch", "main", "--json").json
    shown = cli.ok("ctx", "show", "main", "--json").json
    assert (shown["id"], shown["type"], shown["ticket_id"]) == (name["id"], "compaction", "tkt-1")
    assert [row["content"] for row in cli.ok("ctx", "cat", "main", "--json").json] == [
        "They want tea."
    ]
    root = cli.ok("ctx", "cat", "main", "--stop", "root", "--json").json
    assert [row["content"] for row in root] == ["Tea?", "Tea?!"]


def test_snapshot_and_materialize_store_the_complete_conversation(cli: Cli, tmp_path: Path) -> None:
    commit(cli, tmp_path, "Tea?", "--branch", "main")
    commit(cli, tmp_path, "Milk?", "--branch", "main")
    cli.ok("ctx", "snapshot", "main", "--branch", "main")
    assert cli.ok("ctx", "show", "main", "--json").json["type"] == "snapshot"
    row = cli.ok("ctx", "materialize", "main", "--json").json
    assert row["message_count"] == 4
    rendered = cli.ok("ctx", "materialize", "main", "--format", "claude-code-v1", "--json").json
    assert rendered["format"] == "claude-code-v1"
    assert "Milk?" in cli.ok("cat", rendered["ref"]).out


def test_messages_that_are_no_messages_are_refused(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    file.write_text('{"role": "user"}')
    assert "not a JSON array of messages" in cli.refused("ctx", "checkpoint", file)


def test_messages_are_read_from_stdin(tmp_path: Path) -> None:
    text = '[{"role": "user", "content": "Tea?"}]'
    result = start(tmp_path, "ctx", "checkpoint", "--as", "bob", "--json", stdin=text)
    assert json.loads(result.stdout)["id"].startswith("ctx-"), result.stderr


@pytest.mark.parametrize("label", ["", "  "], ids=["empty", "blank"])
def test_a_blank_label_is_refused(cli: Cli, script: str, label: str) -> None:
    cli.ok("chat", "--model", script, "-p", "make Ann")
    ctx = cli.ok("ctx", "log", "--all", "--json").json[0]["id"]
    result = cli("ctx", "label", ctx, label)
    assert (result.code, result.out) == (2, "")
    assert "a label is blank" in result.err


def test_a_branch_is_renamed_if_it_is_where_it_is_expected(cli: Cli, tmp_path: Path) -> None:
    first = commit(cli, tmp_path, "Tea?", "--branch", "main")
    second = commit(cli, tmp_path, "Milk?", "--branch", "main")
    assert "not at " in cli.refused("ctx", "branch", "main", "--rename", "best", "--from", first)
    assert cli.ok("ctx", "branch", "--json").json == {"main": second}
    renamed = cli.ok("ctx", "branch", "main", "--rename", "best", "--json").json
    assert renamed == cli.ok("ctx", "branch", "--json").json == {"best": second}


def test_a_branch_is_not_renamed_to_an_existing_one(cli: Cli, tmp_path: Path) -> None:
    first = commit(cli, tmp_path, "Tea?", "--branch", "main")
    cli.ok("ctx", "branch", "other", first)
    assert "exists already" in cli.refused("ctx", "branch", "main", "--rename", "other")
    assert cli.ok("ctx", "branch", "--json").json == {"main": first, "other": first}


def test_options_of_a_branch_exclude_each_other(cli: Cli, tmp_path: Path) -> None:
    commit(cli, tmp_path, "Tea?", "--branch", "main")
    assert "only one of" in cli.refused("ctx", "branch", "main", "--rename", "best", "--delete")
    assert "need the name" in cli.refused("ctx", "branch", "--rename", "best")


def test_a_label_is_moved_from_another_commit(cli: Cli, tmp_path: Path) -> None:
    first, second = commit(cli, tmp_path, "Tea?"), commit(cli, tmp_path, "Milk?")
    cli.ok("ctx", "label", first, "good", "old")
    cli.ok("ctx", "label", second, "new")
    cli.ok("ctx", "label", second, "good", "--from", first)
    labels = [cli.ok("ctx", "show", name, "--json").json["labels"] for name in (first, second)]
    assert labels == [["old"], ["new", "good"]]
    assert "label 'good'" in cli.refused("ctx", "label", second, "good", "--from", first)


def test_a_diff_tells_which_messages_are_kept_and_which_are_not(cli: Cli, tmp_path: Path) -> None:
    first = commit(cli, tmp_path, "Tea?")
    second = commit(cli, tmp_path, "Milk?", "--parent", first)
    compacted = cli.ok("ctx", "compact", second, "Tea with milk.", "--json").json["id"]
    diff = cli.ok("ctx", "diff", first, second, "--json").json
    assert (diff["kept"], [row["kind"] for row in diff["messages"]]) == (
        2,
        ["same", "same", "added", "added"],
    )
    diff = cli.ok("ctx", "diff", second, compacted, "--json").json
    assert [row["kind"] for row in diff["messages"]] == [*["dropped"] * 4, "added"]
