"""`harken export-tables`: what was imported is in the files, with its words where they are wanted."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from tests.cli.kit import Cli, one_line

SCRIPT = """\
rules:
  - agent: critic
    answer: "COMMENT: {word}!"
  - agent: Ann
    answer: {word}.
  - pattern: make Ann
    calls: [{{task: {{name: Ann, instructions: You are Ann., prompt: "What do you want?"}}}}]
  - answer: {word} it is.
"""


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
    told = cli.ok("export-tables", str(tmp_path / "facts"), "--text").out
    assert len(told.splitlines()) == 11
    rows = pq.read_table(tmp_path / "facts" / "messages.parquet").to_pylist()
    assert [row["text"] for row in rows] == ["Who?", "Nobody \u304a\u8336."]
    assert [row["kind"] for row in rows] == ["prompt", "response"]
    [request] = pq.read_table(tmp_path / "facts" / "requests.parquet").to_pylist()
    assert (request["response"], request["output_tokens"]) == ("msg_0123456789abcdef", 3)


@pytest.mark.req("S4-52")
def test_many_logs_are_one_table_with_what_every_agent_and_hook_said(
    cli: Cli, tmp_path: Path
) -> None:
    (cli.home / "hooks").mkdir(parents=True)
    (cli.home / "hooks" / "critic.md").write_text("---\npoints: [response]\n---\nWatch it.\n")
    (cli.home / "config.toml").write_text('[hooks]\nuse = ["critic"]\n')
    script = tmp_path / "script.yaml"
    for word in ("Tea", "Milk"):
        script.write_text(SCRIPT.format(word=word))
        cli.ok("chat", "--model", f"scripted:{script}", "-p", "make Ann")
    cli.ok("export-tables", str(tmp_path / "facts"), "--text")
    assert said(tmp_path / "facts") == {
        (word, text, name, above)
        for word in ("Tea", "Milk")
        for text, name, above in (
            (f"{word}.", "Ann", ""),
            (f"COMMENT: {word}!", "critic", "Ann"),
            (f"{word} it is.", "", None),
            (f"COMMENT: {word}!", "critic", ""),
        )
    }


def said(folder: Path) -> set[tuple[str, ...]]:
    """Return what was said in all sessions, in which, by whom, and who is above."""
    of = {table: f"'{folder / table}.parquet'" for table in ("agents", "messages")}
    rows = duckdb.execute(
        "SELECT first(m.text) OVER (PARTITION BY m.session_id ORDER BY m.id DESC), "
        f"m.text, a.name, above.name FROM {of['messages']} m JOIN {of['agents']} a "
        f"ON a.id = m.agent_id LEFT JOIN {of['agents']} above ON above.id = a.parent_id "
        "WHERE m.kind = 'response' AND m.text NOT LIKE 'task%'"
    ).fetchall()
    return {(last.removeprefix("COMMENT: ").rstrip("!"), *row) for last, *row in rows}


def test_an_unknown_runtime_is_told_in_a_line(cli: Cli, tmp_path: Path) -> None:
    cli.ok("import", str(_history(tmp_path)))
    ran = cli("export-tables", str(tmp_path / "facts"), "--runtime", "emacs")
    assert ran.code == 2
    assert "claude" in one_line(ran.err)


def test_an_empty_home_has_empty_tables(cli: Cli, tmp_path: Path) -> None:
    cli.ok("export-tables", str(tmp_path / "facts"), "--text")
    assert pq.read_table(tmp_path / "facts" / "sessions.parquet").num_rows == 0
