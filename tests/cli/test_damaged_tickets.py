"""One damaged ticket is named, and the others are listed."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from harken.core.commits import HeadName, encode_sequence, hash_raw
from harken.store.base import WriteBatch
from harken.store.sqlite.graph import remove_objects
from harken.store.sqlite.store import SqliteStore
from tests.cli.kit import Cli


def create_ticket(cli: Cli, title: str) -> HeadName:
    return HeadName(str(cli.ok("ticket", "create", title, "--json").json["id"]))


def flip_row(cli: Cli, id_: HeadName) -> None:
    """Change the head in its row."""
    with closing(sqlite3.connect(cli.home / "store.db")) as database, database:
        change = "CAST(substr(head, 1, 39) || x'00' AS BLOB)"
        query = f"UPDATE branch SET head = {change} WHERE name = ?"
        assert database.execute(query, [id_.encode()]).rowcount == 1


def flip_name(cli: Cli, id_: HeadName) -> None:
    """Change the name in its row to one that is no id."""
    with closing(sqlite3.connect(cli.home / "store.db")) as database, database:
        query = "UPDATE branch SET name = ? WHERE name = ?"
        assert database.execute(query, [b"tkt-x", id_.encode()]).rowcount == 1


def lose_version(cli: Cli, id_: HeadName) -> None:
    """Remove the last version."""
    with closing(SqliteStore(cli.home / "store.db")) as store, store.removing() as connection:
        remove_objects("store", connection, [store.heads()[id_]], {})


def replace_record(cli: Cli, id_: HeadName) -> None:
    """Move the head to a sequence that is no version."""
    with closing(SqliteStore(cli.home / "store.db")) as store:
        record = hash_raw(b"{}")
        head, _ = encode_sequence([record])
        store.write(WriteBatch(raw={record: b"{}"}, sequences={head: [record]}))
        store.move_head(id_, head, expected=store.heads()[id_])


DAMAGES: list[Callable[[Cli, HeadName], None]] = [
    flip_row,
    flip_name,
    lose_version,
    replace_record,
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_other_tickets_are_listed_and_the_damaged_one_is_named(
    cli: Cli, damage: Callable[[Cli, HeadName], None]
) -> None:
    intact = [create_ticket(cli, title) for title in ("kettle", "cups")]
    damaged = create_ticket(cli, "tea")
    damage(cli, damaged)
    name = "tkt-x" if damage is flip_name else damaged[:12]
    for command in (["list"], ["ready"], ["list", "--all"]):
        result = cli("ticket", *command, "--json")
        assert (result.code, {row["id"] for row in result.json}) == (1, {*intact}), result
        assert f"harken: ticket {name}" in result.err
        assert len(result.err.splitlines()) == 1
        assert "kettle" in cli("ticket", *command).out
    result = cli("ticket", "export")
    assert (result.code, len(json.loads(result.out))) == (1, 2)
    assert f"ticket {name}" in result.err
    assert cli.ok("ticket", "show", intact[0], "--json").json["title"] == "kettle"
    cli.ok("ticket", "claim", intact[0])
    refused = cli("ticket", "show", damaged)
    assert refused.code == 2
    assert "a bug in Harken" not in refused.err
    findings = cli("store", "fsck", "--json")
    assert findings.code == 1
    assert any(name in finding["place"] for finding in findings.json)


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_import_of_issues_is_refused_while_a_ticket_is_damaged(
    cli: Cli, tmp_path: Path, damage: Callable[[Cli, HeadName], None]
) -> None:
    """The damaged ticket may be that of an issue, which must not be created twice."""
    damage(cli, create_ticket(cli, "tea"))
    (tmp_path / "issues.json").write_text("[]")
    result = cli("ticket", "import", tmp_path / "issues.json")
    assert result.code == 2
    assert "cannot be read; nothing was imported" in result.err


def test_a_damaged_branch_is_named(cli: Cli) -> None:
    create_ticket(cli, "tea")
    with closing(sqlite3.connect(cli.home / "store.db")) as database, database:
        database.execute("INSERT INTO branch (name, head) VALUES (?, ?)", [b"main", b"x" * 40])
    result = cli("ctx", "branch")
    assert result.code == 2
    assert "main is corrupted: checksum mismatch" in result.err
