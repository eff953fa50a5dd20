"""Tables for other programs: the rows of the index with their types."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harken.analytics.scope import ALL, Scope
from harken.analytics.tables.parquet import MAX_GROUP_ROWS, WrittenTable, write_tables
from harken.analytics.tables.table_schema import TABLES
from harken.errors import ConfigError
from tests.unit.analytics.sample_rows import BEGAN, message, story

NOON = datetime.fromtimestamp(BEGAN / 1e6, UTC)


def _write_tables(db: apsw.Connection, folder: Path, scope: Scope = ALL) -> dict[str, int]:
    return {table_file.path.stem: table_file.rows for table_file in write_tables(db, folder, scope)}


def test_every_row_is_in_the_file_of_its_table(tmp_path: Path) -> None:
    assert _write_tables(story(), tmp_path / "new" / "tables") == {
        "sessions": 2,
        "agents": 3,
        "commits": 3,
        "messages": 4,
        "tool_calls": 2,
        "verdicts": 1,
        "interlocutors": 1,
        "requests": 1,
        "scores": 1,
        "labels": 1,
        "edges": 1,
    }


def test_columns_have_the_documented_types(tmp_path: Path) -> None:
    arrow = {
        "int64": pa.int64(),
        "double": pa.float64(),
        "bool": pa.bool_(),
        "timestamp": pa.timestamp("us", tz="UTC"),
    }
    _write_tables(story(), tmp_path)
    for table in TABLES:
        schema = pq.read_schema(tmp_path / f"{table.name}.parquet")
        assert schema.names == [column.name for column in table.columns]
        assert schema.types == [arrow.get(column.kind, pa.string()) for column in table.columns]
        assert schema.metadata[b"harken.schema_version"] == b"1"
        assert all(field.metadata[b"says"] for field in schema)


def test_join_keys_have_values(tmp_path: Path) -> None:
    _write_tables(story(), tmp_path)
    calls = pq.read_table(tmp_path / "tool_calls.parquet").to_pylist()
    assert [row["duration_us"] for row in calls] == [1_000_000, None]
    assert [row["is_error"] for row in calls] == [True, None]
    messages = pq.read_table(tmp_path / "messages.parquet").to_pylist()
    assert messages[0]["time"] == NOON + timedelta(seconds=1)
    assert messages[0]["hash"] == f"{1:064x}"
    assert messages[3]["ctx"] == "ctx-" + "03" * 32
    agents = pq.read_table(tmp_path / "agents.parquet").to_pylist()
    assert [row["tip"][:6] for row in agents] == ["ctx-01", "ctx-02", "ctx-03"]
    assert agents[1]["parent_id"] == 1


@pytest.mark.parametrize(
    ("scope", "names"),
    [
        (Scope(runtime="codex"), ["codex:b"]),
        (Scope(projects=("/home/j/café", "/other")), ["claude:a"]),
        (Scope(projects=()), []),
        (Scope(since_us=BEGAN), ["claude:a"]),
        (Scope(until_us=BEGAN), ["codex:b"]),
        (Scope(since_us=BEGAN, runtime="codex"), []),
    ],
)
def test_selected_sessions_have_all_their_rows(
    tmp_path: Path, scope: Scope, names: list[str]
) -> None:
    rows = _write_tables(story(), tmp_path, scope)
    assert pq.read_table(tmp_path / "sessions.parquet")["name"].to_pylist() == names
    assert rows["edges"] == rows["requests"] == ("claude:a" in names)
    assert rows["messages"] == 3 * ("claude:a" in names) + ("codex:b" in names)


def test_texts_are_an_optional_column(tmp_path: Path) -> None:
    list(
        write_tables(story(), tmp_path, texts=lambda hashes, _: [f"{h[-1]}\ud800" for h in hashes])
    )
    messages = pq.read_table(tmp_path / "messages.parquet")
    assert messages.column_names[-1] == "text"
    assert messages["text"].to_pylist() == ["1?", "2?", "3?", "4?"]


def test_second_export_replaces_tables_and_keeps_other_files(tmp_path: Path) -> None:
    db = story()
    (tmp_path / "notes.txt").write_text("mine")
    _write_tables(db, tmp_path)
    db.execute("DELETE FROM edges")
    assert _write_tables(db, tmp_path)["edges"] == 0
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"notes.txt", *(f"{table.name}.parquet" for table in TABLES)}


def test_incomplete_table_replaces_no_file(tmp_path: Path) -> None:
    db = story()
    _write_tables(db, tmp_path)
    before = (tmp_path / "messages.parquet").read_bytes()

    def broken(hashes: object, commits: object) -> list[str]:
        raise RuntimeError(hashes)

    with pytest.raises(RuntimeError):
        list(write_tables(db, tmp_path, texts=broken))
    assert (tmp_path / "messages.parquet").read_bytes() == before
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".part")]


def test_rows_of_several_groups_stay_in_order(tmp_path: Path) -> None:
    db = story()
    for id_ in range(5, 2 * MAX_GROUP_ROWS):
        message(db, id_, role="user", kind="prompt")
    table_files: list[WrittenTable] = list(write_tables(db, tmp_path))
    file = pq.ParquetFile(tmp_path / "messages.parquet")
    assert file.num_row_groups == 2
    ids = file.read(columns=["id"])["id"].to_pylist()
    assert ids == list(range(1, 2 * MAX_GROUP_ROWS))
    assert sum(table_file.size_bytes for table_file in table_files) == sum(
        path.stat().st_size for path in tmp_path.iterdir()
    )


def test_folder_that_is_a_file_is_an_error_on_one_line(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ConfigError, match=r"file: cannot be written \("):
        list(write_tables(story(), file))


def test_schema_is_importable_without_pyarrow() -> None:
    assert "harken.analytics.tables.table_schema" in sys.modules
    source = Path(sys.modules["harken.analytics.tables.table_schema"].__file__ or "").read_text(
        "utf-8"
    )
    assert "pyarrow" not in source
