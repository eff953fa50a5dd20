"""The bytes of an imported file hang on its commits: exported, bundled, and listed again."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from harken.capture.files.importer import Importer
from harken.capture.files.sources import iter_files
from harken.core.commits import ArtifactRef, CommitId, HeadName, encode_sequence, hash_raw
from harken.index.catalogue import Catalogue
from harken.store.base import WriteBatch
from harken.store.fsck import fsck
from harken.store.imported_files import (
    FileRecord,
    encode_record,
    find_native_file,
    name_head,
    read_imported_files,
)
from harken.store.memory import MemoryStore
from harken.store.sqlite.graph import remove_objects
from harken.store.sqlite.store import SqliteStore
from harken.store.tiered.store import TieredStore
from tests.cli.kit import Cli
from tests.regression.test_native_bytes import FILE_NAMES, FORMATS, sample, transcript


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a session file of each runtime."""
    folder = tmp_path / "files"
    for format_ in FORMATS:
        (folder / format_).mkdir(parents=True)
        (folder / format_ / FILE_NAMES.get(format_, "a.jsonl")).write_bytes(sample(format_))
    return folder


def rows(cli: Cli, *options: str) -> list[dict[str, Any]]:
    sessions: list[dict[str, Any]] = cli.ok("sessions", "--json", *options).json
    return sessions


def delete_catalogue(home: Path) -> None:
    for path in home.glob("index.db*"):
        path.unlink()


@pytest.mark.req("D-04")
def test_the_list_of_imports_is_restored_from_the_store_alone(cli: Cli, folder: Path) -> None:
    cli.ok("import", folder)
    before = rows(cli)
    assert len(before) == len(FORMATS)
    delete_catalogue(cli.home)
    for path in folder.rglob("*.json*"):
        path.unlink()
    assert rows(cli) == before
    assert len(cli.ok("stats", "--json").json["sessions"]) == len(FORMATS)


@pytest.mark.req("D-04")
def test_a_list_that_was_created_and_not_restored_is_restored_later(cli: Cli, folder: Path) -> None:
    """A process may be killed after it created the catalogue, and before it filled it."""
    cli.ok("import", folder)
    before = rows(cli)
    delete_catalogue(cli.home)
    Catalogue(cli.home / "index.db").close()
    assert rows(cli) == before
    with closing(Catalogue(cli.home / "index.db")) as catalogue:
        assert catalogue.is_restored


def test_a_list_is_restored_in_a_home_that_cannot_be_written(cli: Cli, folder: Path) -> None:
    cli.ok("import", folder)
    before = rows(cli)
    delete_catalogue(cli.home)
    cli.home.chmod(0o500)
    try:
        assert rows(cli) == before
    finally:
        cli.home.chmod(0o700)


def test_records_that_damage_removed_from_the_list_are_restored(cli: Cli, folder: Path) -> None:
    cli.ok("import", folder)
    before = rows(cli)
    index = cli.home / "index.db"
    index.write_bytes(index.read_bytes()[:4096] + b"\0" * 8192)
    cli("sessions")
    assert rows(cli) == before


@pytest.mark.req("D-04")
@pytest.mark.parametrize("format_", FORMATS)
def test_export_in_the_native_format_gives_the_bytes(
    cli: Cli, folder: Path, format_: str, tmp_path: Path
) -> None:
    cli.ok("import", folder / format_)
    [row] = rows(cli)
    result = cli.ok("export", str(row["session"]), "--format", format_, "-o", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == sample(format_)
    assert "as they were imported" in result.err


def test_export_of_an_earlier_commit_is_written_anew(
    cli: Cli, folder: Path, tmp_path: Path
) -> None:
    cli.ok("import", folder / "claude-code-v1")
    [row] = rows(cli)
    tip = row["tips"][0]["ctx"]
    first = cli.ok("ctx", "log", str(tip), "--json").json[-1]["id"]
    assert first != tip
    result = cli.ok("export", first, "--format", "claude-code-v1", "-o", tmp_path / "out")
    assert "as they were imported" not in result.err
    assert (tmp_path / "out").read_bytes() != sample("claude-code-v1")


@pytest.mark.req("D-04")
def test_a_bundle_takes_the_bytes_along(cli: Cli, folder: Path, tmp_path: Path) -> None:
    cli.ok("import", folder)
    before = {str(row["session"]) for row in rows(cli)}
    bundle, other = tmp_path / "all.zip", ("--home", str(tmp_path / "other"))
    cli.ok("store", "bundle", "create", "-o", bundle, "--no-redact")
    cli.ok("store", "bundle", "open", bundle, *other)
    assert {str(row["session"]) for row in rows(cli, *other)} == before
    assert "intact" in cli.ok("store", "gc", *other).out + cli.ok("store", "fsck", *other).out
    for row in rows(cli, *other):
        name, out = str(row["session"]), tmp_path / "out"
        format_ = Path(str(row["sources"][0])).parent.name
        cli.ok("export", name, "--format", format_, "-o", out, *other)
        assert out.read_bytes() == sample(format_)


def test_a_bundle_of_one_session_has_only_its_file(cli: Cli, folder: Path, tmp_path: Path) -> None:
    cli.ok("import", folder)
    name = next(str(row["session"]) for row in rows(cli) if row["runtime"] == "claude")
    bundle, other = tmp_path / "one.zip", tmp_path / "other"
    cli.ok("store", "bundle", "create", name, "-o", bundle)
    cli.ok("store", "bundle", "open", bundle, "--home", other)
    with closing(SqliteStore(other / "store.db")) as store:
        [file] = read_imported_files(store).values()
        assert store.raw(file.raw) == sample("claude-code-v1")


def test_a_bundle_does_not_replace_the_bytes_of_a_file(cli: Cli, tmp_path: Path) -> None:
    """A sender may forge the record of a file that this machine imported."""
    path, bundle, sender = tmp_path / "a.jsonl", tmp_path / "b.zip", tmp_path / "sender"
    file_format = "claude-code-v1"
    forged = transcript().replace(b"Nobody.", b"Somebody!")
    path.write_bytes(forged)
    cli.ok("import", path, "--home", sender)
    cli.ok("store", "bundle", "create", "-o", bundle, "--home", sender)
    path.write_bytes(transcript())
    cli.ok("import", path)
    before = rows(cli)
    result = cli.ok("store", "bundle", "open", bundle)
    assert result.err.count(f"{path} has other bytes here, which were not changed") == 1
    delete_catalogue(cli.home)
    assert rows(cli) == before
    [row] = before
    out = tmp_path / "out"
    cli.ok("export", str(row["session"]), "--format", file_format, "-o", out)
    assert out.read_bytes() == transcript()
    again = cli.ok("store", "bundle", "open", bundle, "--json")
    assert again.json["files"] == {"created": [], "continued": [], "conflicting": []}
    third = cli.ok("store", "bundle", "open", bundle, "--json", "--home", tmp_path / "third")
    [file] = third.json["files"]["created"]
    assert (file["path"], file["raw"]) == (str(path), hash_raw(forged))
    for command in (["cat", file["raw"]], ["export", file["tips"][0], "--format", file_format]):
        cli.ok(*command, "-o", out)
        assert out.read_bytes() == forged


def test_a_bundle_redacts_credentials_in_the_bytes(cli: Cli, tmp_path: Path) -> None:
    key = "sk-ant-" + "api03-" + "k1" * 20
    path = tmp_path / "a.jsonl"
    path.write_bytes(transcript().replace(b"Nobody.", key.encode()))
    cli.ok("import", path)
    [row] = rows(cli)
    bundle, other = tmp_path / "b.zip", ("--home", str(tmp_path / "other"))
    cli.ok("store", "bundle", "create", "-o", bundle)
    cli.ok("store", "bundle", "open", bundle, *other)
    cli.ok(
        "export", str(row["session"]), "--format", "claude-code-v1", "-o", tmp_path / "o", *other
    )
    assert key.encode() not in (tmp_path / "o").read_bytes()
    assert len((tmp_path / "o").read_bytes().splitlines()) == len(path.read_bytes().splitlines())


def test_a_file_that_grew_has_its_new_bytes(tmp_path: Path) -> None:
    store, catalogue, path = MemoryStore(), Catalogue(None), tmp_path / "a.jsonl"
    lines = transcript().splitlines(keepends=True)
    tips: list[CommitId] = []
    for count in (2, len(lines)):
        path.write_bytes(b"".join(lines[:count]))
        [result] = Importer(store, catalogue).run(list(iter_files(path)))
        tips.append(CommitId(result.report.tips[0].ctx))
    [file] = read_imported_files(store).values()
    assert store.raw(file.raw) == b"".join(lines)
    assert find_native_file(store, tips[1], "claude-code-v1") == file
    assert find_native_file(store, tips[0], "claude-code-v1") is None
    assert find_native_file(store, tips[1], "codex-v1") is None


def test_push_takes_the_bytes_along_and_follows_the_file(tmp_path: Path) -> None:
    path, lines = tmp_path / "a.jsonl", transcript().splitlines(keepends=True)
    with (
        closing(SqliteStore(tmp_path / "s.db")) as local,
        closing(SqliteStore(tmp_path / "b.db")) as backing,
    ):
        store, catalogue = TieredStore(local, backing), Catalogue(None)
        for count in (2, len(lines)):
            path.write_bytes(b"".join(lines[:count]))
            list(Importer(store, catalogue).run(list(iter_files(path))))
            store.push()
            [file] = read_imported_files(backing).values()
            assert backing.raw(file.raw) == b"".join(lines[:count])
        backing.collect([], now="2100-01-01T00:00:00Z", grace_s=0)
        assert backing.raw(file.raw) == b"".join(lines)
        assert not fsck(backing)


def head_of(home: Path) -> tuple[HeadName, ArtifactRef, ArtifactRef]:
    """Return the only head of a home's store, its record and its bytes."""
    with closing(SqliteStore(home / "store.db")) as store:
        [(name, head)] = store.heads().items()
        record, raw = store.sequences([head])[head]
    return name, record, raw


def test_fsck_names_a_head_without_a_record(cli: Cli, folder: Path) -> None:
    cli.ok("import", folder / "claude-code-v1")
    name, _, raw = head_of(cli.home)
    with closing(SqliteStore(cli.home / "store.db")) as store:
        head, _ = encode_sequence([raw, raw])
        store.write(WriteBatch(sequences={head: [raw, raw]}))
        store.set_heads({name: head})
    result = cli("store", "fsck")
    assert result.code == 1
    assert f"source {name}: its record cannot be read" in result.out


@pytest.mark.parametrize("member", [1, 2], ids=["record", "bytes"])
def test_fsck_names_a_lost_record_or_lost_bytes(cli: Cli, folder: Path, member: int) -> None:
    cli.ok("import", folder / "claude-code-v1")
    lost = head_of(cli.home)[member]
    with closing(SqliteStore(cli.home / "store.db")) as store, store.removing() as connection:
        remove_objects("store", connection, [lost], {})
    result = cli("store", "fsck")
    assert result.code == 1
    assert f"{lost}: is missing" in result.out


TIP = {"agent": "main", "ctx": "ctx-" + "1" * 64}
REPORT = {"source": "a", "format": "claude-code-v1", "runtime": "claude", "session": "s"}
HOSTILE: dict[str, dict[str, Any]] = {
    "control characters": {**REPORT, "title": "\x1b[31mT", "folder": "/\x1b[2J", "tips": [TIP]},
    "no time": {**REPORT, "ended": "soon", "tips": [TIP]},
    "no commit": {**REPORT, "tips": [{"agent": "main", "ctx": "../x"}]},
    "no tips": {**REPORT, "tips": []},
    "other types": {**REPORT, "source": 5, "tips": "x"},
    "long names": {**REPORT, "runtime": "r" * 10_000, "session": "s" * 10_000, "tips": [TIP]},
    "lone surrogates": {**REPORT, "session": "\ud800", "title": "\ud800", "tips": [TIP]},
}


@pytest.mark.parametrize("report", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("path", ["/a.jsonl", "/\x1b[31m", "/\ud800"], ids=["path", "esc", "lone"])
def test_a_forged_record_breaks_no_command(cli: Cli, report: dict[str, Any], path: str) -> None:
    """A record may come from a bundle of anyone."""
    cli.home.mkdir(parents=True, exist_ok=True)
    raw = hash_raw(b"x")
    record = FileRecord(machine="m", path=path, size=1, mtime_ns=1, tail="00", report=report)
    name, (body, head) = name_head(record.machine, record.path), encode_record(record, raw)
    members = [ArtifactRef(body.name), raw]
    with closing(SqliteStore(cli.home / "store.db")) as store:
        raws = {raw: b"x", members[0]: body.body}
        store.write(WriteBatch(raw=raws, sequences={ArtifactRef(head.name): members}))
        store.set_heads({name: ArtifactRef(head.name)})
    for command in (["sessions"], ["sessions", "--json"], ["stats"], ["search", "x"], ["view"]):
        result = cli(*command)
        assert result.code in (0, 1, 2), result
        assert "\x1b" not in result.out + result.err
    assert cli("store", "fsck").code in (0, 1)
