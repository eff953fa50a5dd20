"""Malicious bundles are refused on one line and leave no file."""

from __future__ import annotations

import json
import sqlite3
import stat
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from blake3 import blake3

from harken.context.bundle.create import BundleRequest, create_bundle
from harken.context.bundle.manifest import (
    MAX_EXPANSION,
    MAX_MANIFEST_BYTES,
    MAX_MEMBERS,
    read_manifest,
)
from harken.context.bundle.open import open_bundle
from harken.errors import BundleError
from harken.session.session import Session
from harken.store.copying.commits import copy_commits
from harken.store.memory import MemoryStore
from tests.session_kit import create_agent, log_user_message, session_options
from tests.unit.context.kit import NOON, commit, texts

LOG = "sessions/first.jsonl"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The target folder of bundles, which must stay empty."""
    folder = tmp_path / "folder"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle as Harken creates it."""
    folder = tmp_path_factory.mktemp("honest")
    store = MemoryStore()
    tip = commit(store, commit(store, None, "a", "b"), "c")
    session = Session(folder / "first.jsonl", options=session_options())
    log_user_message(session, create_agent(session), "hello")
    session.close()
    bundle_request = BundleRequest(store=store, tips=[tip], logs=[session.path], created_at=NOON)
    create_bundle(folder / "honest.zip", bundle_request)
    return folder / "honest.zip"


class Forger:
    """Unpacks a bundle, changes it and packs it again."""

    def __init__(self, honest: Path, folder: Path) -> None:
        self.folder = folder
        with zipfile.ZipFile(honest) as bundle:
            self.files = {name: bundle.read(name) for name in bundle.namelist()}
        self.manifest: dict[str, Any] = json.loads(self.files.pop("manifest.json"))

    def update_manifest(self) -> None:
        """Update the manifest to match the members."""
        for member in [self.manifest["store"], *self.manifest["sessions"]]:
            data = self.files[member["name"]]
            member.update(size_bytes=len(data), blake3=blake3(data).hexdigest())

    def write_bundle(self, name: str = "forged.zip") -> Path:
        path = self.folder / name
        with zipfile.ZipFile(path, "w") as bundle:
            bundle.writestr("manifest.json", json.dumps(self.manifest))
            for file, data in self.files.items():
                bundle.writestr(file, data)
        return path

    def database(self, change: Callable[[sqlite3.Connection], object]) -> None:
        """Change the store file and update the manifest."""
        path = self.folder / "changing.db"
        path.write_bytes(self.files["store.db"])
        with closing(sqlite3.connect(path)) as connection:
            change(connection)
            connection.commit()
            connection.execute("PRAGMA journal_mode=DELETE")
        self.files["store.db"] = path.read_bytes()
        self.update_manifest()


@pytest.fixture
def forger(honest: Path, tmp_path: Path) -> Forger:
    return Forger(honest, tmp_path)


def refused(path: Path, folder: Path, because: str) -> None:
    with pytest.raises(BundleError, match=because) as raised, open_bundle(path, folder):
        pass
    text = str(raised.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    assert ".bundle-" not in text, "it names a file that is not there any more"
    assert list(folder.iterdir()) == []


def test_unchanged_forgery_is_accepted(forger: Forger, folder: Path) -> None:
    with open_bundle(forger.write_bundle(), folder) as bundle:
        assert bundle.manifest.commits == 2
        assert [log.path.name for log in bundle.logs] == ["first.jsonl"]
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "name",
    [
        "../evil.jsonl", "sessions/../../evil.jsonl", "/etc/evil.jsonl", "sessions/a/b.jsonl",
        "sessions\\evil.jsonl", "sessions/..\\evil.jsonl", "C:evil.jsonl", "sessions/C:evil.jsonl",
        "sessions/.hidden.jsonl", "sessions/-rf.jsonl", "sessions/a\nb.jsonl", "sessions/a\x1b.jsonl",
        "sessions/" + "x" * 300 + ".jsonl", "sessions/config.toml", "config.toml", "store.db-wal",
        "sessions/", "Store.db", "STORE.DB", "manifest.JSON", "sessions/.jsonl", "agents/evil.md",
    ],
)  # fmt: skip
def test_invalid_names_are_refused(forger: Forger, folder: Path, name: str) -> None:
    forger.files[name] = b"{}"
    forger.manifest["sessions"].append({"name": name, "size_bytes": 2, "blake3": "0" * 64})
    refused(forger.write_bundle(), folder, "part of no bundle|two files")


def test_repeated_name_is_refused(forger: Forger, folder: Path) -> None:
    path = forger.write_bundle()
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(path, "a") as bundle:
        bundle.writestr(LOG, b"other")
    refused(path, folder, "two files of the name")
    forger.files["sessions/FIRST.jsonl"] = b"x"
    refused(forger.write_bundle(), folder, "two files of the name")


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFDIR, stat.S_IFIFO, stat.S_IFCHR])
def test_links_and_special_files_are_refused(forger: Forger, folder: Path, kind: int) -> None:
    data = forger.files.pop(LOG)
    path = forger.write_bundle()
    info = zipfile.ZipInfo(LOG)
    info.external_attr = (kind | 0o777) << 16
    with zipfile.ZipFile(path, "a") as bundle:
        bundle.writestr(info, data)
    refused(path, folder, "has a link")


def test_zip_bomb_is_refused_before_decompression(forger: Forger, folder: Path) -> None:
    path = forger.write_bundle()
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr("sessions/bomb.jsonl", b"\0" * 40_000_000)
    assert path.stat().st_size * MAX_EXPANSION < 40_000_000
    refused(path, folder, "its files have")


class LongArchive(zipfile.ZipFile):
    """A zip file whose directory lists a member many times."""

    repeats = 0

    def infolist(self) -> list[zipfile.ZipInfo]:
        first, *others = super().infolist()
        return [first] * self.repeats + others


@pytest.mark.parametrize(("excess", "problem"), [(0, "two files of the name"), (1, "more than")])
def test_number_of_members_is_limited(honest: Path, excess: int, problem: str) -> None:
    with LongArchive(honest) as bundle:
        bundle.repeats = MAX_MEMBERS - 2 + excess
        with pytest.raises(BundleError, match=problem):
            read_manifest(honest, bundle)


@pytest.mark.parametrize(("excess", "problem"), [(0, "its files have"), (1, "a manifest")])
def test_size_of_the_manifest_is_limited(honest: Path, excess: int, problem: str) -> None:
    with zipfile.ZipFile(honest) as bundle:
        bundle.getinfo("manifest.json").file_size = MAX_MANIFEST_BYTES + excess
        with pytest.raises(BundleError, match=problem):
            read_manifest(honest, bundle)


@pytest.mark.parametrize("padding", [0, 200_000])
def test_size_of_the_members_is_limited(tmp_path: Path, padding: int) -> None:
    """A small bundle may have 16 MB of content, a larger one 200 times its size."""
    path = tmp_path / "bundle.zip"
    with zipfile.ZipFile(path, "w") as bundle:
        bundle.writestr("manifest.json", b"no manifest")
        bundle.writestr(LOG, bytes(padding))
    limit = 200 * path.stat().st_size if padding else 16 * 1024 * 1024
    with zipfile.ZipFile(path) as bundle:
        for excess, problem in ((0, "invalid manifest"), (1, "its files have")):
            bundle.getinfo(LOG).file_size = limit - len("no manifest") + excess
            with pytest.raises(BundleError, match=problem):
                read_manifest(path, bundle)


def test_concatenated_archives_are_refused(forger: Forger, folder: Path) -> None:
    forger.files[LOG] = Random(1).randbytes(2_000_000)
    path = forger.write_bundle()
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as bundle:
        name = LOG.encode()
        central = data.rindex(b"PK\x01\x02", 0, data.rindex(name))
        entries = len(bundle.infolist())
    entry = bytes(data[central : data.rindex(b"PK\x05\x06")])
    twins = b"".join(entry.replace(name, b"sessions/fir%02d.jsonl" % n) for n in range(10, 20))
    end = data.rindex(b"PK\x05\x06")
    tail = bytearray(data[end:])
    tail[8:12] = (entries + 10).to_bytes(2, "little") * 2
    size = int.from_bytes(tail[12:16], "little") + len(twins)
    tail[12:16] = size.to_bytes(4, "little")
    path.write_bytes(bytes(data[:end]) + twins + bytes(tail))
    refused(path, folder, "files overlap|Overlapped|not a complete bundle")


def test_undeclared_or_missing_members_are_refused(forger: Forger, folder: Path) -> None:
    forger.files["sessions/more.jsonl"] = b"{}"
    refused(
        forger.write_bundle(),
        folder,
        "its content does not match its manifest: sessions/more.jsonl",
    )
    del forger.files["sessions/more.jsonl"], forger.files[LOG]
    refused(forger.write_bundle(), folder, f"its content does not match its manifest: {LOG}")


@pytest.mark.parametrize(
    "change",
    [
        {"store": {"name": "../store.db", "size_bytes": 1, "blake3": "0" * 64}},
        {"store": {"name": LOG, "size_bytes": 1, "blake3": "0" * 64}},
        {"sessions": [{"name": "store.db", "size_bytes": 1, "blake3": "0" * 64}]},
        {"sessions": "x"}, {"commits": -1}, {"commits": "2"}, {"created_at": None},
        {"tips": ["ctx-12"]}, {"tips": ["art-" + "0" * 64]}, {"tips": 7},
        {"version": "1"}, {"version": None}, {"format": "zip"}, {"store": {}},
    ],
)  # fmt: skip
def test_malformed_manifest_is_refused(
    forger: Forger, folder: Path, change: dict[str, Any]
) -> None:
    forger.manifest |= change
    refused(forger.write_bundle(), folder, "manifest|not a bundle of Harken")


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"format":1}'])
def test_unreadable_manifest_is_refused(forger: Forger, folder: Path, text: bytes) -> None:
    path = folder.parent / "odd.zip"
    with zipfile.ZipFile(path, "w") as bundle:
        bundle.writestr("manifest.json", text)
    refused(path, folder, "not a bundle of Harken")


def test_newer_version_is_refused_by_name(forger: Forger, folder: Path) -> None:
    forger.manifest |= {"version": 3, "store": "elsewhere"}
    refused(forger.write_bundle(), folder, "has format version 3, this Harken reads version 2: up")


def test_earlier_version_is_refused_by_name(forger: Forger, folder: Path) -> None:
    forger.manifest["version"] = 1
    refused(forger.write_bundle(), folder, "has format version 1, .* version 2: write it again")


def test_earlier_store_is_refused_by_name(forger: Forger, folder: Path) -> None:
    forger.database(lambda connection: connection.execute("PRAGMA user_version=3"))
    refused(forger.write_bundle(), folder, "a store of format version 3.*write the bundle again")


def test_newer_store_is_refused_by_name(forger: Forger, folder: Path) -> None:
    forger.database(lambda connection: connection.execute("PRAGMA user_version=99"))
    refused(forger.write_bundle(), folder, "a store of format version 99.*upgrade Harken")


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON pack BEGIN DELETE FROM history; END",
        "CREATE VIEW v AS SELECT * FROM pack",
        "CREATE TABLE other (x)",
        "DROP TABLE label",
        "ALTER TABLE pack ADD COLUMN x TEXT",
        "CREATE INDEX i ON pack (length(data))",
    ],
)
def test_store_with_extra_tables_is_refused(forger: Forger, folder: Path, statement: str) -> None:
    forger.database(lambda connection: connection.execute(statement))
    refused(forger.write_bundle(), folder, "other tables")


def test_store_of_another_program_is_refused(forger: Forger, folder: Path) -> None:
    forger.database(lambda connection: connection.execute("PRAGMA application_id=7"))
    refused(forger.write_bundle(), folder, "has a store that cannot be used: is a database of")


def test_invalid_store_is_refused(forger: Forger, folder: Path) -> None:
    for data in (b"", b"no database", b"SQLite format 3\0" + b"\0" * 5000):
        forger.files["store.db"] = data
        forger.update_manifest()
        refused(forger.write_bundle(), folder, "has a store|has a damaged store")


def test_store_with_changed_content_is_refused(forger: Forger, folder: Path) -> None:
    def flip(connection: sqlite3.Connection) -> None:
        for number, data in connection.execute("SELECT id, data FROM pack").fetchall():
            changed_data = bytes([*data[:-9], data[-9] ^ 1, *data[-8:]])
            connection.execute("UPDATE pack SET data = ? WHERE id = ?", [changed_data, number])

    forger.database(flip)
    refused(forger.write_bundle(), folder, "has a damaged store")


def test_store_with_missing_objects_is_refused(forger: Forger, folder: Path) -> None:
    def truncate(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM history WHERE parent IS NULL")

    forger.database(truncate)
    refused(forger.write_bundle(), folder, "has a damaged store|other commits")


def test_commits_not_in_the_manifest_are_refused(forger: Forger, folder: Path) -> None:
    forger.manifest["commits"] = 3
    refused(forger.write_bundle(), folder, "other commits than its manifest")
    forger.manifest["commits"] = 2
    forger.manifest["tips"] = ["ctx-" + "0" * 64]
    refused(forger.write_bundle(), folder, "has not all commits")


def test_changed_log_is_refused_by_its_checksum_and_its_lines(forger: Forger, folder: Path) -> None:
    full_log = forger.files[LOG]
    forger.files[LOG] = full_log.replace(b"hello", b"jello")
    refused(forger.write_bundle(), folder, f"checksum mismatch of {LOG}")
    forger.update_manifest()
    refused(forger.write_bundle(), folder, "damaged log: first.jsonl: corrupted at line 3")
    forger.files[LOG] = full_log[:-9]
    forger.update_manifest()
    refused(forger.write_bundle(), folder, "first.jsonl ends in half a line")
    forger.files[LOG] = b"no log"
    forger.update_manifest()
    refused(forger.write_bundle(), folder, "damaged log: first.jsonl")
    forger.files[LOG] = full_log.replace(b'"schema_version":', b'"schema_version":99')
    forger.update_manifest()
    refused(forger.write_bundle(), folder, "damaged log: first.jsonl")


def test_file_that_is_no_zip_is_refused(folder: Path, tmp_path: Path) -> None:
    for data in (b"", b"PK\x03\x04", b"x" * 1000):
        path = tmp_path / "odd.zip"
        path.write_bytes(data)
        refused(path, folder, "not a complete bundle")
    refused(tmp_path, folder, "cannot be read")
    refused(tmp_path / "none.zip", folder, "cannot be read: No such file")


@pytest.mark.parametrize("times", [60, pytest.param(5000, marks=pytest.mark.full)])
def test_truncated_or_changed_bundle_is_refused_or_equal(
    honest: Path, folder: Path, tmp_path: Path, times: int
) -> None:
    data, random = honest.read_bytes(), Random(times)
    path = tmp_path / "harmed.zip"
    for _ in range(times):
        harmed = bytearray(data)
        if random.random() < 0.3:
            del harmed[random.randrange(len(data)) :]
        else:
            harmed[random.randrange(len(data))] ^= 1 << random.randrange(8)
        path.write_bytes(harmed)
        try:
            with open_bundle(path, folder) as bundle:
                assert bundle.manifest.commits == 2
        except BundleError:
            pass
        assert list(folder.iterdir()) == []


@pytest.mark.parametrize("times", [40, pytest.param(3000, marks=pytest.mark.full)])
def test_store_changed_with_its_checksum_is_refused_or_equal(
    forger: Forger, folder: Path, times: int
) -> None:
    data, random = forger.files["store.db"], Random(times)
    nonzero = [index for index, byte in enumerate(data) if byte]
    refusals: list[str] = []
    for _ in range(times):
        harmed = bytearray(data)
        harmed[random.choice(nonzero)] ^= 1 << random.randrange(8)
        forger.files["store.db"] = bytes(harmed)
        forger.update_manifest()
        try:
            with open_bundle(forger.write_bundle(), folder) as bundle:
                names, mine = bundle.manifest.tip_ids(), MemoryStore()
                copy_commits(bundle.store, mine, names)
                assert [texts(mine, name) for name in names] == [["a", "b", "c"]]
        except BundleError as error:
            refusals.append(str(error))
        assert list(folder.iterdir()) == []
    assert refusals
    assert not any("\n" in line for line in refusals)
