"""On real transcripts, what the facts count is what a few lines of code count in the files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harken.capture.files.importer import Importer
from harken.capture.files.sources import iter_files
from harken.index.catalogue import Catalogue
from harken.index.session_index import SessionIndex
from harken.store.sqlite.store import SqliteStore
from tests.acceptance.shared_data import DATA, needed

COUNTS = (
    "input_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "output_tokens",
)


def facts_of(folder: Path, format: str) -> SessionIndex:
    store, catalogue = SqliteStore(folder / "store.db"), Catalogue(folder / "index.db")
    list(Importer(store, catalogue).run(list(iter_files(DATA / "transcripts" / format))))
    facts = SessionIndex(folder / "facts.db")
    facts.update(store, catalogue)
    return facts


def answers(format: str) -> Iterator[dict[str, Any]]:
    """Yield the messages of all answers in the files that can be read."""
    for path in sorted((DATA / "transcripts" / format).rglob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            message = record.get("message") if isinstance(record, dict) else None
            if isinstance(message, dict) and record.get("type") == "assistant":
                yield message


@needed
def test_usage_is_the_sum_over_distinct_responses(tmp_path: Path) -> None:
    by_id: dict[str, list[int]] = {}
    for message in answers("claude-code"):
        usage, id_ = message.get("usage"), message.get("id")
        if isinstance(usage, dict) and isinstance(id_, str):
            counts = [usage.get(name) or 0 for name in COUNTS]
            by_id[id_] = max(by_id.get(id_, counts), counts, key=lambda counts_: counts_[-1])
    facts = facts_of(tmp_path, "claude-code")
    rows: list[tuple[Any, ...]] = facts.database.execute(
        "SELECT sum(input_tokens), sum(cache_read_tokens), sum(cache_write_tokens), "
        "sum(output_tokens) FROM requests"
    ).fetchall()
    assert list(rows[0]) == [sum(column) for column in zip(*by_id.values(), strict=True)]


@needed
def test_rollout_tokens_equal_its_last_totals(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, "codex")
    for path in sorted((DATA / "transcripts" / "codex").rglob("*.jsonl")):
        records = [json.loads(line) for line in path.read_bytes().splitlines() if line.strip()]
        session = next(
            record["payload"]["id"] for record in records if record["type"] == "session_meta"
        )
        infos = [(record.get("payload") or {}).get("info") for record in records]
        totals = [record["total_token_usage"] for record in infos if isinstance(record, dict)]
        last = totals[-1] if totals else {}
        row = facts.database.execute(
            "SELECT ifnull(sum(input_tokens + ifnull(cache_read_tokens, 0)), 0), "
            "ifnull(sum(output_tokens), 0) FROM requests JOIN sessions s ON s.id = session_id "
            "WHERE s.native = ?",
            (session,),
        ).fetchone()
        assert row == (last.get("input_tokens", 0), last.get("output_tokens", 0)), path
