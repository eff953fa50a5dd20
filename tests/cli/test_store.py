"""How much is in a store, and of what."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from harken.core.commits import CommitId, CommitNotes
from harken.store.base import RetentionPolicy, Tombstone
from harken.store.sqlite.store import SqliteStore
from harken.testing.store import batch_of
from tests.cli.kit import Cli

PROMPT = "you are an agent " * 200


@pytest.fixture
def grown(cli: Cli) -> Cli:
    """A home with commits of twelve agents that have one system prompt."""
    cli.home.mkdir()
    store = SqliteStore(cli.home / "store.db")
    for at in range(12):
        principal = "evil\x1b[31m\nname" if at == 11 else f"agent {at}"
        store.write(batch_of(PROMPT, f"hello {at}", second=at, principal=principal))
    [first] = store.names_with_prefix("ctx-", 1)
    store.set_retention({first: RetentionPolicy("pin")})
    last = batch_of("the key", second=99, principal="agent 0", notes=CommitNotes(labels=("x",)))
    store.write(last)
    part = next(name for name, body in last.objects.items() if b"the key" in body)
    store.purge(
        {part: b'{"text":"[purged]","type":"text"}'},
        Tombstone(when="2026-01-01T00:00:00.000000Z", by="ann", why="x"),
    )
    store.close()
    return cli


def test_things_are_counted_and_sized(grown: Cli) -> None:
    found = grown.ok("store", "info", "--json").json
    assert found["store"] == str(grown.home / "store.db")
    assert found["format_version"] == 4
    assert {kind: n for kind, n in found["objects"].items() if n} == {
        "part": 14, "message": 14, "delta": 13, "commit": 13
    }  # fmt: skip
    assert found["oldest"] == "2026-01-01T00:00:00.000000Z"
    assert found["newest"] == "2026-01-01T00:01:39.000000Z"
    assert found["principals"]["agent 0"] == 2
    assert len(found["principals"]) == 12
    assert [one["kind"] for one in found["largest"][:2]] == ["part", "delta"]
    assert found["largest"][0]["size_bytes"] > len(PROMPT)
    assert (found["kept"], found["purged"]) == (1, 1)
    assert found["stored_bytes"] == (grown.home / "store.db").stat().st_size
    assert found["logical_bytes"] > 11 * len(PROMPT)
    assert found["shared"] == round(found["logical_bytes"] / found["raw_bytes"], 2)
    assert found["shared"] > 3


def test_a_person_is_told_the_same_in_few_lines(grown: Cli) -> None:
    lines = grown.ok("store", "info").out.splitlines()
    assert lines[0] == f"{grown.home / 'store.db'}: format version 4"
    assert lines[1].split(maxsplit=1)[1] == "14 parts, 14 messages, 13 deltas, 13 commits"
    assert any(line.startswith("principals   agent 0: 2 commits") for line in lines)
    assert any(line.endswith("evil\\x1b[31m name: 1 commit") for line in lines)
    assert any("and 2 more" in line for line in lines)
    assert len(lines) < 30


def test_an_empty_store_has_nothing_in_it(cli: Cli) -> None:
    assert "store not found" in cli.refused("store", "info")
    cli.home.mkdir()
    SqliteStore(cli.home / "store.db").close()
    assert "none" in cli.ok("store", "info").out
    found = cli.ok("store", "info", "--json").json
    assert (found["oldest"], found["shared"], found["largest"]) == (None, None, [])


def test_names_that_are_told_are_found(grown: Cli) -> None:
    for one in grown.ok("store", "info", "--json").json["largest"]:
        name = CommitId(one["name"])
        if name.startswith("ctx-"):
            grown.ok("ctx", "show", name[:16])


def test_a_store_of_an_earlier_format_is_refused_in_one_line(grown: Cli) -> None:
    path = grown.home / "store.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version=3")
    line = grown.refused("store", "info")
    assert "format version 3 is not supported" in line
    assert line.count("\n") <= 1
