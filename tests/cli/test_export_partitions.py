"""`harken export-tables --partition month`, and texts of commits that are bytes."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from harken.analytics.tables.table_schema import TABLES
from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.core.messages import Message
from harken.formats.base import ConversationEntry
from harken.formats.registry import FORMATS
from harken.store.sqlite.store import SqliteStore
from tests.cli.kit import Cli

NULL_MONTH = "__HIVE_DEFAULT_PARTITION__"


def write_session(folder: Path, number: int, *times: str) -> Path:
    """Write a session with a question at each time."""
    path = folder / f"s{number}.jsonl"
    records = [
        {
            "type": "user",
            "uuid": f"{number}-{position}",
            "parentUuid": f"{number}-{position - 1}" if position else None,
            "sessionId": f"s{number}",
            "cwd": "/code/door",
            "timestamp": time,
            "message": {"role": "user", "content": f"Question {position} of {number}?"},
        }
        for position, time in enumerate(times)
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.fixture
def tables(cli: Cli, tmp_path: Path) -> Path:
    """Return the folder of an export of two sessions: of January, and from January to February."""
    first = write_session(tmp_path, 1, "2026-01-31T23:59:59.999Z")
    second = write_session(tmp_path, 2, "2026-01-10T12:00:00.000Z", "2026-02-01T00:00:00.000Z")
    cli.ok("import", first, second)
    cli.ok("export-tables", tmp_path / "facts", "--text", "--partition", "month")
    return tmp_path / "facts"


def count(tables: Path, table: str) -> dict[str | None, int]:
    """Return the number of rows of each month, as DuckDB reads it."""
    query = f"SELECT month, count(*) FROM '{tables}/{table}/*/*.parquet' GROUP BY ALL"
    return {
        None if month is None else str(month)[:7]: n
        for month, n in duckdb.execute(query).fetchall()
    }


def test_rows_are_in_the_month_of_their_time(tables: Path) -> None:
    assert count(tables, "messages") == {"2026-01": 2, "2026-02": 1}
    assert count(tables, "sessions") == count(tables, "agents") == {"2026-01": 2}
    assert count(tables, "verdicts") == {}
    assert {path.name for path in tables.iterdir()} == {table.name for table in TABLES}


def test_all_months_are_the_rows_of_a_complete_export(
    cli: Cli, tables: Path, tmp_path: Path
) -> None:
    cli.ok("export-tables", tmp_path / "whole", "--text")
    for table in TABLES:
        whole = pq.read_table(tmp_path / "whole" / f"{table.name}.parquet").to_pylist()
        months = [
            row
            for path in sorted((tables / table.name).glob("month=*/data.parquet"))
            for row in pq.ParquetFile(path).read().to_pylist()
        ]
        assert sorted(map(repr, months)) == sorted(map(repr, whole)), table.name


def test_only_months_that_changed_are_written_again(cli: Cli, tables: Path, tmp_path: Path) -> None:
    options = (tables, "--text", "--partition", "month")
    times = {path: path.stat().st_mtime_ns for path in tables.rglob("*.parquet")}
    assert all("0 written" in line for line in cli.ok("export-tables", *options).out.splitlines())
    assert {path: path.stat().st_mtime_ns for path in tables.rglob("*.parquet")} == times
    cli.ok("import", write_session(tmp_path, 3, "2026-02-20T12:00:00.000Z"))
    cli.ok("export-tables", *options)
    changed = {
        path.relative_to(tables).as_posix()
        for path in (tables / "messages").rglob("*.parquet")
        if times.get(path) != path.stat().st_mtime_ns
    }
    assert changed == {"messages/month=2026-02/data.parquet"}
    assert count(tables, "messages") == {"2026-01": 2, "2026-02": 2}


def test_a_damaged_file_is_written_again_and_a_month_without_rows_is_removed(
    cli: Cli, tables: Path
) -> None:
    (tables / "messages" / "month=2026-01" / "data.parquet").write_bytes(b"PAR1")
    cli.ok("export-tables", tables, "--text", "--partition", "month")
    assert count(tables, "messages") == {"2026-01": 2, "2026-02": 1}
    (tables / "messages" / "month=2026-02" / "mine.txt").write_text("mine")
    cli.ok("export-tables", tables, "--text", "--partition", "month", "--until", "2026-01-05")
    assert sorted(path.name for path in (tables / "messages").iterdir()) == [
        f"month={name}" for name in ("2026-02", NULL_MONTH)
    ]
    assert count(tables, "messages") == {}


def test_commits_that_are_bytes_have_their_texts(cli: Cli, tmp_path: Path) -> None:
    cli.ok("init")
    events = FORMATS.get("events-v1")
    assert events is not None
    assert events.writes is not None
    entries = [ConversationEntry(Message("user", "Is the cafe open?"))]
    draft = CommitDraft(
        data=events.writes(entries),
        format="events-v1",
        message_count=1,
        origin=CommitOrigin(session_id="s1", principal="ann"),
        created_at="2026-01-31T12:00:00.000000Z",
    )
    with closing(SqliteStore(cli.home / "store.db")) as store:
        checkpoint(store, draft)
    cli.ok("export-tables", tmp_path / "facts", "--text")
    messages = pq.read_table(tmp_path / "facts" / "messages.parquet").to_pylist()
    assert [row["text"] for row in messages] == ["Is the cafe open?"]
