"""`harken tables`: what was imported is in the files, with its words where they are wanted."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq

from tests.cli.kit import Cli, one_line


def _history(folder: Path) -> Path:
    said = {"sessionId": "s1", "cwd": "/code/door", "timestamp": "2026-01-31T12:00:00.000Z"}
    answer = {
        "id": "msg_0123456789abcdef",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": "Nobody \u304a\u8336."}],
        "usage": {"input_tokens": 5, "output_tokens": 3},
    }
    records: list[dict[str, object]] = [
        {
            "type": "user",
            "uuid": "1",
            "parentUuid": None,
            "message": {"role": "user", "content": "Who?"},
        },
        {"type": "assistant", "uuid": "2", "parentUuid": "1", "message": answer},
    ]
    file = folder / "s1.jsonl"
    file.write_text("".join(json.dumps({**said, **record}) + "\n" for record in records))
    return file


def test_what_was_imported_is_in_the_tables(cli: Cli, tmp_path: Path) -> None:
    cli.ok("import", str(_history(tmp_path)))
    told = cli.ok("tables", str(tmp_path / "facts"), "--text").out
    assert len(told.splitlines()) == 7
    rows = pq.read_table(tmp_path / "facts" / "messages.parquet").to_pylist()
    assert [row["text"] for row in rows] == ["Who?", "Nobody \u304a\u8336."]
    assert [row["kind"] for row in rows] == ["prompt", "response"]
    [request] = pq.read_table(tmp_path / "facts" / "requests.parquet").to_pylist()
    assert (request["response"], request["output_tokens"]) == ("msg_0123456789abcdef", 3)


def test_an_unknown_runtime_is_told_in_a_line(cli: Cli, tmp_path: Path) -> None:
    cli.ok("import", str(_history(tmp_path)))
    ran = cli("tables", str(tmp_path / "facts"), "--runtime", "emacs")
    assert ran.code == 2
    assert "claude" in one_line(ran.err)


def test_an_empty_home_has_empty_tables(cli: Cli, tmp_path: Path) -> None:
    cli.ok("tables", str(tmp_path / "facts"), "--text")
    assert pq.read_table(tmp_path / "facts" / "sessions.parquet").num_rows == 0
