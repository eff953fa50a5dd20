"""Rows of the derived databases: `fsck` names damage in each table, and a rebuild restores it.

Source: docs/formats/facts.md; a program that writes to such a file without its page checksums
leaves pages that count as damaged. The tables come from the files, so that a new one is tested.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pytest

from harken.index.database import find_damage
from harken.interactions.logger import InteractionLogger
from harken.store.sqlite.store import SqliteStore
from tests.cli.git_kit import Repository
from tests.cli.kit import Cli
from tests.two_sources_kit import Exchange, TwoSources
from tests.unit.capture.session_samples import lines
from tests.unit.formats.runtimes.research.samples import SAMPLES
from tests.unit.formats.transcript_kit import (
    Transcript,
    text_block,
    tool_result_block,
    tool_use_block,
)
from tests.unit.store.damaged_tables import Damage, iter_damage, list_tables

FACTS, CATALOGUE, THREADS, EDITS = "facts.db", "index.db", "interactions.db", "edits.db"
TABLES = {
    FACTS: {
        *("sessions", "agents", "commits", "messages", "tool_calls", "verdicts", "requests"),
        *("edges", "state", "roots", "said", "logs", "log_agents", "places", "links", "linked"),
        *("native_agents", "recorded", "unpaired", "repeats", "pairs", "text_keys", "outcomes"),
        *("main_names", "scores", "labels", "interlocutors"),
        *("words_data", "words_idx", "words_config"),
    },
    CATALOGUE: {"source", "reading", "lineage", "spawned", "lost", "restored"},
    THREADS: {"logs", "units", "threads"},
    EDITS: {"commits", "sessions", "paths", "edits", "anchors", "calls", "views"},
}
EMPTY = {(CATALOGUE, "lost"), (FACTS, "unpaired"), (FACTS, "repeats")}
"""Tables that have rows only after a repair, and between two steps of an update."""
QUERIES: dict[str, list[tuple[str, ...]]] = {
    FACTS: [
        ("stats", "--json", "--utc"),
        ("search", "--json", "--all", "door OR tea OR look"),
        ("sessions", "--json"),
    ],
    CATALOGUE: [("sessions", "--json")],
    THREADS: [("interactions", "list", "--json")],
    EDITS: [("why", "menu.py:2", "--json")],
}


def write_sessions(path: Path) -> None:
    """Write a session with a subagent and a compaction, and one of another runtime."""
    transcript = Transcript()
    transcript.user("Who is at the door?")
    transcript.answer(tool_use_block("c1", "Task", prompt="You look."))
    transcript.user([tool_result_block("c1", "done")], toolUseResult={"agentId": "ann"})
    transcript.boundary(transcript.answer(text_block("Nobody.")))
    transcript.summary()
    transcript.user("And tea?")
    transcript.answer(tool_use_block("toolu_0000000000000001", "Read", file_path="/cafe/menu.py"))
    transcript.result("toolu_0000000000000001", "")
    transcript.answer(
        tool_use_block("toolu_0000000000000002", "Write", file_path="/cafe/menu.py", content=MENU)
    )
    transcript.result("toolu_0000000000000002", "done")
    transcript.answer(text_block("There is tea."))
    path.parent.mkdir(parents=True)
    path.write_bytes(transcript.data)
    sidechain = Transcript(shared={"isSidechain": True, "agentId": "ann"})
    sidechain.user("You look.")
    sidechain.answer(tool_use_block("c2"))
    sidechain.result("c2", "a door")
    sidechain.answer(text_block("I saw a door."))
    path.with_name("agent-ann.jsonl").write_bytes(sidechain.data)
    rollout = path.with_name("rollout-2026-01-31T12-00-00-5e55.jsonl")
    rollout.write_bytes(b"".join(line + b"\n" for line in lines("codex-v1")))
    path.with_name("chat.json").write_bytes(SAMPLES["who-and-when-v1"][1])


MENU = "def drinks(order):\n    return order.teas + order.coffees\n"


def write_two_sources(folder: Path, home: Path) -> None:
    """Write a conversation as a file, and record it in a home, once without its log."""
    exchanges = (Exchange("I look.", "Is the cafe open?", has_call=True), Exchange("It is open."))
    with closing(SqliteStore(home / "store.db")) as store:
        sources = TwoSources(exchanges, home / "sessions", store)
        sources.record(len(exchanges))
        sources.close()
        without_log = TwoSources((Exchange("Two.", "How many teas?"),), folder / "logs", store)
        without_log.record()
        without_log.close()
    for name, data in sources.files(len(exchanges)).items():
        (folder / name).write_bytes(data)


@dataclass
class DamagedHome:
    """A home whose databases can be damaged and restored."""

    cli: Cli
    files: dict[str, bytes]
    answers: dict[tuple[str, ...], str]

    def restore(self) -> None:
        for name, data in self.files.items():
            for suffix in ("", "-wal", "-shm", "-journal"):
                (self.cli.home / (name + suffix)).unlink(missing_ok=True)
            (self.cli.home / name).write_bytes(data)


@pytest.fixture
def damaged(cli: Cli, tmp_path: Path) -> DamagedHome:
    """Return a home with rows in every table."""
    write_sessions(tmp_path / "sources" / "a.jsonl")
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT)
    cli.ok("import", tmp_path / "sources")
    write_two_sources(tmp_path / "sources", cli.home)
    cli.ok("import", tmp_path / "sources")
    (cli.home / "config.toml").write_text('[hooks]\nuse = ["single-minded"]\n')
    chat = ("chat", "--model", f"scripted:{script}", "-p", "Tea?", "--name")
    cli.ok(*chat, "cafe")
    cli.ok(*chat, "elsewhere", "--home", tmp_path / "other")
    cli.ok("import", tmp_path / "other" / "sessions" / "elsewhere.jsonl")
    cli.ok("fork", "cafe", "--name", "branched")
    with InteractionLogger(folder=cli.home) as log:
        log.list_threads()
    Repository.create(Path.cwd()).commit(menu_py=MENU)
    answers = {query: cli.ok(*query).out for queries in QUERIES.values() for query in queries}
    return DamagedHome(cli, {name: (cli.home / name).read_bytes() for name in TABLES}, answers)


SCRIPT = """
rules:
  - pattern: "^Tea"
    calls:
      - task: {name: Ann, instructions: You are Ann., prompt: "Tea or coffee?"}
      - task: {name: Bob, instructions: You are Bob., prompt: "And you?"}
      - introduce: {speakers: [Ann], listeners: [Bob]}
  - agent: Ann
    answer: Tea.
  - pattern: .
    answer: There is tea.
"""


def apply_damage(path: Path, damage: Damage) -> bool:
    """Damage a database as a program without checksums does. Return False if it refuses."""
    with closing(sqlite3.connect(path)) as connection:
        try:
            connection.execute(damage.statement, damage.values)
        except (sqlite3.IntegrityError, sqlite3.OperationalError):
            return False
        connection.commit()
    return True


def first_of_each_kind(path: Path, table: str) -> Iterator[Damage]:
    """Yield one removal, exchange, shortening and duplicate of a table."""
    kinds: set[str] = set()
    for damage in iter_damage(path, table):
        kind = damage.kind.split()[0]
        if kind not in kinds:
            kinds.add(kind)
            yield damage


def test_every_table_is_tested_and_has_rows(damaged: DamagedHome) -> None:
    for file, tables in TABLES.items():
        path = damaged.cli.home / file
        listed = list_tables(path)
        assert {name for name in listed if name not in ("words", "vocabulary")} == tables, file
        with closing(sqlite3.connect(path)) as connection:
            empty = {
                (file, table)
                for table in tables
                if connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
            }
        assert empty <= EMPTY
    for name in TABLES:
        assert [*find_damage(damaged.cli.home / name)] == []


@pytest.mark.req("D-02")
@pytest.mark.parametrize("file", TABLES)
def test_row_changed_by_another_program_is_named(
    damaged: DamagedHome, tmp_path: Path, file: str
) -> None:
    for table in TABLES[file] - {table for name, table in EMPTY if name == file}:
        for damage in first_of_each_kind(damaged.cli.home / file, table):
            path = Path(shutil.copy(damaged.cli.home / file, tmp_path / file))
            if apply_damage(path, damage):
                assert [*find_damage(path)], damage
                path.unlink()


@pytest.mark.req("D-02")
@pytest.mark.parametrize("file", TABLES)
def test_fsck_names_the_file_and_commands_answer_as_before(damaged: DamagedHome, file: str) -> None:
    path = damaged.cli.home / file
    for table in sorted(TABLES[file] - {table for name, table in EMPTY if name == file}):
        damage = next(islice(iter_damage(path, table), 1))
        assert apply_damage(path, damage), damage
        result = damaged.cli("store", "fsck")
        assert result.code == 1
        assert str(path) in result.out, table
        if file == CATALOGUE:  # Its readable records are kept, and an import restores the rest.
            damaged.cli.ok("import", damaged.cli.home.parent / "sources")
        for query in QUERIES[file]:
            answer = damaged.cli(*query)
            assert (answer.code, answer.out) == (0, damaged.answers[query]), (table, answer.err)
        damaged.restore()


@pytest.mark.req("D-02", "S3-21")
@pytest.mark.parametrize("file", TABLES)
def test_removed_database_is_rebuilt(damaged: DamagedHome, file: str) -> None:
    (damaged.cli.home / file).unlink()
    if file == CATALOGUE:
        damaged.cli.ok("import", damaged.cli.home.parent / "sources")
    for query in QUERIES[file]:
        assert damaged.cli.ok(*query).out == damaged.answers[query], query
