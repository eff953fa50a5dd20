"""DuckDB over exported tables that are larger than its memory limit: time and peak memory."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.measure import Row
from benchmarks.memory import peak_of_mb

LIMIT_MB = 300
MONTHS, GROUPS, GROUP_ROWS = 12, 13, 8_000
SESSION_MESSAGES = 60
TEXTS, TEXT_WORDS = 500, 300
QUERIES = {
    "count messages, and the length of their texts": (
        "SELECT count(*), sum(length(text)) FROM read_parquet('{folder}/messages/*/*.parquet')"
    ),
    "join requests and messages by session": (
        "SELECT count(*) FROM (SELECT r.session_id, count(DISTINCT m.id), max(r.output_tokens) "
        "FROM read_parquet('{folder}/requests/*/*.parquet') r JOIN "
        "read_parquet('{folder}/messages/*/*.parquet') m USING (session_id) GROUP BY ALL)"
    ),
    "the longest text of each session": (
        "SELECT sum(length(longest)) FROM (SELECT session_id, arg_max(text, length(text)) longest "
        "FROM read_parquet('{folder}/messages/*/*.parquet') GROUP BY ALL)"
    ),
}


def child(folder: str, query: str) -> None:
    """Run a query in this process."""
    import duckdb

    database = duckdb.connect()
    database.sql(f"SET memory_limit = '{LIMIT_MB}MB'")
    database.sql(f"SET temp_directory = '{folder}/spill'")
    database.sql("SET threads = 2")
    database.sql("SET enable_progress_bar = false")
    assert database.sql(QUERIES[query].format(folder=folder)).fetchall()


def rows() -> Iterator[Row]:
    """Write tables in the form of `harken export-tables --partition month --text`, and query."""
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder))
        files = list(Path(folder).rglob("*.parquet"))
        size_mb = sum(path.stat().st_size for path in files) / 1e6
        messages = MONTHS * GROUPS * GROUP_ROWS
        note = f"{messages:,} messages, {size_mb:,.0f} MB of Parquet, limit {LIMIT_MB} MB"
        for query in QUERIES:
            start = time.perf_counter()
            peak_mb = peak_of_mb("benchmarks.tables", folder, query)
            seconds = time.perf_counter() - start
            yield Row(f"DuckDB, {query}: peak MB of the process", f"{peak_mb:.0f}", "", note)
            yield Row(f"DuckDB, {query}: s", f"{seconds:.1f}")


def _write(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    chance = random.Random(7)
    words = [f"{chance.getrandbits(40):x}" for _ in range(20_000)]
    texts = [" ".join(chance.choices(words, k=TEXT_WORDS)) for _ in range(TEXTS)]
    for month in range(MONTHS):
        start = datetime(2026, month + 1, 1, tzinfo=UTC)
        for table, make in (("messages", _messages), ("requests", _requests)):
            path = folder / table / f"month={start:%Y-%m}" / "data.parquet"
            path.parent.mkdir(parents=True)
            writer: Any = None
            for group in range(GROUPS):
                first = (month * GROUPS + group) * GROUP_ROWS
                batch = pa.table(make(pa, first, start, texts, chance))
                writer = writer or pq.ParquetWriter(path, batch.schema, compression="zstd")
                writer.write_table(batch)
            writer.close()


def _messages(
    pa: Any, first: int, start: datetime, texts: list[str], chance: random.Random
) -> dict[str, Any]:
    ids = range(first, first + GROUP_ROWS)
    return {
        "id": pa.array(ids),
        "session_id": pa.array([id_ // SESSION_MESSAGES for id_ in ids]),
        "role": pa.array(["assistant" if id_ % 2 else "user" for id_ in ids]),
        "time": pa.array([start + timedelta(seconds=id_ - first) for id_ in ids]),
        "text": pa.array([f"{id_} {chance.choice(texts)}" for id_ in ids]),
    }


def _requests(
    pa: Any, first: int, start: datetime, _texts: list[str], chance: random.Random
) -> dict[str, Any]:
    ids = range(first, first + GROUP_ROWS, 2)
    return {
        "id": pa.array(ids),
        "session_id": pa.array([id_ // SESSION_MESSAGES for id_ in ids]),
        "time": pa.array([start + timedelta(seconds=id_ - first) for id_ in ids]),
        "output_tokens": pa.array([chance.randrange(2000) for _ in ids]),
    }
