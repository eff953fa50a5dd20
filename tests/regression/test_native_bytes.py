"""The bytes of imported sessions of all runtimes come back identical, from every kind of store."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
import zstandard

from harken.capture.files.importer import Importer
from harken.capture.files.sources import iter_files
from harken.core.commits import ArtifactRef
from harken.formats.runtimes.registry import detect_runtime_format, list_runtime_formats
from harken.index.catalogue import Catalogue
from harken.store.base import RetentionPolicy, Store
from harken.store.memory import MemoryStore
from harken.store.sqlite.store import SqliteStore
from harken.store.tiered.store import TieredStore
from tests.acceptance.shared_data import DATA, needed
from tests.unit.capture.session_samples import STORIES, lines
from tests.unit.formats.runtimes.opencode.test_reader import TALK, export_bytes, write_database
from tests.unit.formats.runtimes.research.samples import SAMPLES, inspect_archive, inspect_sample
from tests.unit.formats.transcript_kit import Transcript, text_block, thinking_block, tool_use_block

GIBBERISH = b"\xff\xfe\x00 not UTF-8 \x80\n"


def transcript() -> bytes:
    made = Transcript()
    made.user("Is anybody at the door? \u2028 \ud83d\udeaa")
    made.answer(thinking_block("Hm."), text_block("I look."), tool_use_block("c1"))
    made.result("c1", "Nobody.")
    made.answer(text_block("Nobody."))
    return made.data


def sample(format: str) -> bytes:
    """Return a session file of a format."""
    if format == "claude-code-v1":
        return transcript()
    if format == "opencode-v1":
        return export_bytes(*TALK)
    if format == "atif-v1":
        step = {"step_id": 1, "source": "user", "message": "Is anybody at the door?"}
        agent = {"name": "cafe", "version": "1"}
        record = {"schema_version": "ATIF-v1.4", "session_id": "s", "agent": agent, "steps": [step]}
        return json.dumps(record).encode()
    if format in SAMPLES:
        return SAMPLES[format][1]
    return b"".join(line + b"\n" for line in lines(format))


FORMATS = [native.name for native in list_runtime_formats()]
FILE_NAMES = {
    "opencode-v1": "ses_1.json",
    "atif-v1": "trajectory.json",
    **{name: file_name for name, (file_name, _) in SAMPLES.items()},
}
LINE_FORMATS = [*STORIES]
"""Formats whose files are lines of JSON, which may be damaged one by one."""


def vary(format: str) -> dict[str, bytes]:
    """Return session files of a format, as written and as they may be found."""
    data = sample(format)
    variants = {"as written": data, "with a byte order mark": b"\xef\xbb\xbf" + data}
    if format == "chatdev-v1":
        return variants
    if format not in LINE_FORMATS:
        return variants | {"indented": json.dumps(json.loads(data), indent=3).encode()}
    return variants | {
        "without a last newline": data.removesuffix(b"\n"),
        "with a torn line": data + data[: len(data) // 9].rstrip(b"\n"),
        "with carriage returns": data.replace(b"\n", b"\r\n"),
        "with empty lines": b"\n\n" + data.replace(b"\n", b"\n\n"),
        "with a line that is not text": data + GIBBERISH + data,
        "with spaces in the JSON": data.replace(b'":', b'" : '),
        "with unknown records": data + b'{"type":"of-tomorrow","n":1e400}\n{}\n[]\n7\n',
        "of several chunks": data * 40 + Random(1).randbytes(400_000).hex().encode(),
    }


VARIANTS = [(format_, name) for format_ in FORMATS for name in vary(format_)]


def import_file(store: Store, path: Path) -> ArtifactRef:
    """Import a file. Return the artifact with its bytes."""
    [result] = Importer(store, Catalogue(None)).run(list(iter_files(path)))
    assert result.report.format, result.report.reason
    assert result.report.tips
    return ArtifactRef(result.report.raw or "")


@pytest.mark.req("D-04")
@pytest.mark.parametrize(("format", "variant"), VARIANTS, ids=map(" ".join, VARIANTS))
def test_native_bytes_come_back_identical(tmp_path: Path, format: str, variant: str) -> None:
    data = vary(format)[variant]
    source = tmp_path / "sessions" / FILE_NAMES.get(format, "a.jsonl")
    source.parent.mkdir()
    source.write_bytes(data)
    native = detect_runtime_format(str(source), data)
    assert native is not None
    assert native.name == format
    with closing(SqliteStore(tmp_path / "s.db")) as store:
        name = import_file(store, source)
        assert source.read_bytes() == data
    with closing(SqliteStore(tmp_path / "s.db")) as reopened:
        assert reopened.raw(name) == data
        tiered = TieredStore(reopened, SqliteStore(tmp_path / "backing.db"))
        tiered.set_retention({name: RetentionPolicy("replicate")})
        assert tiered.backing.raw(name) == data
        tiered.set_retention({name: None})
        tiered.evict(0)
        assert tiered.raw(name) == data
        tiered.collect([], now="2100-01-01T00:00:00Z", grace_s=0)
        assert tiered.raw(name) == data
        tiered.backing.close()


@pytest.mark.req("D-04")
def test_compressed_rollout_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "rollout-2026-01-31T12-00-00-5e55.jsonl.zst"
    data = zstandard.ZstdCompressor(level=19).compress(sample("codex-v1"))
    path.write_bytes(data)
    store = MemoryStore()
    assert store.raw(import_file(store, path)) == data


@pytest.mark.req("D-04")
def test_archive_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "doors.eval"
    data = inspect_archive({f"{number}_epoch_1": inspect_sample(number) for number in range(9)})
    path.write_bytes(data)
    store = MemoryStore()
    assert store.raw(import_file(store, path)) == data


@pytest.mark.req("D-04")
def test_database_comes_back_as_it_was_with_its_write_ahead_log(tmp_path: Path) -> None:
    """The artifact is one file: the database after a checkpoint of its log."""
    (tmp_path / "live").mkdir()
    path = write_database(tmp_path / "live" / "opencode.db", {"ses_1": {}}, {"ses_1": TALK})
    store = MemoryStore()
    assert store.raw(import_file(store, path)) == path.read_bytes()
    with closing(sqlite3.connect(path)) as live:
        live.execute("PRAGMA journal_mode = WAL")
        live.execute("PRAGMA wal_autocheckpoint = 0")
        message = ("msg_9", "ses_1", 9, json.dumps({"role": "user"}))
        live.execute("INSERT INTO message VALUES (?, ?, ?, ?)", message)
        part = ("prt_9", "msg_9", "ses_1", json.dumps({"type": "text", "text": "later"}))
        live.execute("INSERT INTO part VALUES (?, ?, ?, ?)", part)
        live.commit()
        copy = tmp_path / "copy.db"
        copy.write_bytes(store.raw(import_file(store, path)))
        with closing(sqlite3.connect(copy)) as restored:
            assert [*restored.iterdump()] == [*live.iterdump()]


@needed
@pytest.mark.req("D-04")
@pytest.mark.parametrize("runtime", ["codex", "copilot-cli", "gemini-cli", "pi", "claude-code"])
def test_bytes_of_real_sessions_come_back_identical(tmp_path: Path, runtime: str) -> None:
    """The smallest and some larger ones; all sessions are read in tests/acceptance."""
    folder = DATA / "transcripts" / runtime
    paths = sorted(
        (path for path in folder.rglob("*") if path.is_file()), key=lambda p: p.stat().st_size
    )
    chosen = paths[:: max(1, len(paths) // 8)]
    with closing(SqliteStore(tmp_path / "s.db")) as store:
        results = [
            *Importer(store, Catalogue(None)).run(
                [file for path in chosen for file in iter_files(path)]
            )
        ]
        assert len(results) >= len(chosen)
        names = {result.report.source: ArtifactRef(result.report.raw or "") for result in results}
        for path in chosen:
            assert store.raw(names[str(path)]) == path.read_bytes(), path
