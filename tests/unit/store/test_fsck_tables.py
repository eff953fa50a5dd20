"""fsck names each kind of damage in each table: the crash tests rely on it as their oracle.

The tables come from the schema of a store that has rows in all of them, so that a new table
without a case fails. Rows are removed, exchanged, shortened and duplicated, and so are objects of
each kind inside packs whose checksums are right.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harken.core import canonical
from harken.store.base import ObjectKind, StoredObject
from harken.store.fsck import StoreFinding, fsck
from harken.store.sqlite.pack import decode_objects, encode_pack
from harken.store.sqlite.store import SqliteStore
from tests.unit.store.damaged_tables import Damage, fill_every_table, iter_damage, list_tables

TABLES = (
    "again",
    "artifact",
    "branch",
    "derived",
    "evicted",
    "history",
    "keeping",
    "label",
    "mark",
    "object",
    "pack",
    "principal",
    "state",
    "tombstone",
    "total",
    "used",
)
"""The tables of a store. Each needs a case in `list_expected`."""
HARMLESS: Mapping[tuple[str, str], str] = {
    ("derived", "remove"): "a derived artifact can be computed again",
    ("pack", "shorten id"): "a row holds all numbers up to the next row's",
    ("state", "shorten generation"): "processes only compare it with the one they saw",
    ("used", "remove"): "it only orders evictions",
    ("used", "duplicate"): "it only orders evictions",
    ("used", "shorten pack"): "it only orders evictions",
    ("used", "shorten time_us"): "it only orders evictions",
}
"""Damage that changes no read and loses nothing, with the reason."""


@pytest.fixture(scope="module")
def full_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a store with rows in every table."""
    path = tmp_path_factory.mktemp("full") / "s.db"
    fill_every_table(path)
    return path


def read_findings(path: Path) -> list[StoreFinding]:
    with closing(SqliteStore(path)) as store:
        return fsck(store)


def apply_damage(full_store: Path, path: Path, damage: Damage) -> bool:
    """Damage a copy of a store. Return False if the database refuses."""
    shutil.copy(full_store, path)
    with closing(sqlite3.connect(path)) as connection:
        try:
            assert connection.execute(damage.statement, damage.values).rowcount > 0
        except sqlite3.IntegrityError:
            return False
        connection.commit()
    return True


def test_full_store_is_intact_and_has_every_table(full_store: Path) -> None:
    assert read_findings(full_store) == []
    assert (*list_tables(full_store),) == TABLES


@dataclass(frozen=True)
class RowNames:
    """The texts by which a finding about a row of the intact store is recognized."""

    commits: dict[int, str]
    """Id in the history -> name."""
    children: list[tuple[int, str]]
    """Id of a parent in the history, and the name of a commit below it."""
    principals: list[tuple[int, str]]
    """Id of a principal, and the name of a commit of it."""

    @classmethod
    def read(cls, path: Path) -> RowNames:
        with closing(sqlite3.connect(path)) as connection:
            rows = connection.execute("SELECT id, name, parent, principal FROM history").fetchall()
        commits = {id_: f"ctx-{digest.hex()}" for id_, digest, _, _ in rows}
        children = [(parent, commits[id_]) for id_, _, parent, _ in rows]
        return cls(commits, children, [(principal, commits[id_]) for id_, *_, principal in rows])

    def list_expected(self, damage: Damage, row: dict[str, Any]) -> list[tuple[str, ...]]:
        """Return groups of texts: at least one of each group is in the place of a finding."""
        table, way = damage.table, damage.kind
        is_renamed = way in ("remove", "shorten name", "shorten key", "exchange key")
        match table:
            case "again" | "keeping" | "mark" | "evicted":  # Only the sum of the rows tells.
                return [(f"table {table}",)]
            case "branch" | "tombstone":
                name = row["name"] if table == "tombstone" else f"branch {row['name'].decode()}"
                return [(f"table {table}",)] + ([] if is_renamed else [(name,)])
            case "artifact" | "object":
                return [(row["key"].hex(),)]
            case "derived":
                return [("derived " if is_renamed else f"derived {row['key'].decode()}",)]
            case "history" if way == "shorten id":  # It is only the number that others refer to.
                return [(name,) for id_, name in self.children if id_ == row["id"]]
            case "history":
                return [(f"ctx-{row['name'].hex()}", f"row {row['id']} of history")]
            case "label":
                return [(self.commits[row["history"]],)]
            case "pack" if way.startswith("shorten"):
                return [(f"pack {row['id']}",)]
            case "pack":
                digits = [name[-64:] for name in decode_objects(row["data"])]
                ids = {name[-64:]: f"row {id_} of history" for id_, name in self.commits.items()}
                return [(name, f" {name[:12]}", ids.get(name, name)) for name in digits]
            case "principal":
                return [(name,) for id_, name in self.principals if id_ == row["id"]]
            case "state":
                return [("table state", "file")]
            case _:
                return [(f"table {row['name']}", f"table '{row['name']}'")]


def find_unnamed(
    names: RowNames, damage: Damage, findings: list[StoreFinding]
) -> list[tuple[str, ...]]:
    """Return the expected texts that no finding has in its place."""
    return [
        texts
        for row in damage.rows
        for texts in names.list_expected(damage, row)
        if not any(text in finding.place for text in texts for finding in findings)
    ]


def check_table(full_store: Path, path: Path, table: str, max_rows: int) -> None:
    names, kinds = RowNames.read(full_store), set()
    for damage in iter_damage(full_store, table, max_rows=max_rows):
        if apply_damage(full_store, path, damage):
            kinds.add(damage.kind)
            findings = read_findings(path)
            if (table, damage.kind) in HARMLESS:
                assert read_all(path) == read_all(full_store), damage
            else:
                assert find_unnamed(names, damage, findings) == [], (damage, findings)
    assert "remove" in kinds
    assert kinds - {"remove"} or table in ("derived", "used")


@pytest.mark.req("D-02")
@pytest.mark.parametrize("table", TABLES)
def test_damaged_row_is_named(full_store: Path, tmp_path: Path, table: str) -> None:
    check_table(full_store, tmp_path / "s.db", table, 3)


@pytest.mark.full
@pytest.mark.req("D-02")
@pytest.mark.parametrize("table", TABLES)
def test_every_damaged_row_is_named(full_store: Path, tmp_path: Path, table: str) -> None:
    check_table(full_store, tmp_path / "s.db", table, 1000)


def read_all(path: Path) -> object:
    """Read everything except derived artifacts through the methods of the store."""
    with closing(SqliteStore(path)) as store:
        names = store.newest_commits(100)
        objects = {obj.name: obj.body for obj in store.iter_objects()}
        policies, labels = store.retention(), store.commits_by_label()
        return names, store.commits(names), objects, policies, labels, store.tombstones()


def iter_packs(path: Path) -> Iterator[tuple[int, list[StoredObject]]]:
    """Yield the number and the objects of each pack."""
    with closing(sqlite3.connect(path)) as connection:
        for number, data in connection.execute("SELECT id, data FROM pack ORDER BY id").fetchall():
            objects = decode_objects(data).items()
            yield number, [StoredObject(kind, name, body) for name, (kind, body) in objects]


def replace_pack(path: Path, number: int, objects: list[StoredObject]) -> None:
    data = encode_pack(objects).data
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE pack SET data = ? WHERE id = ?", [data, number])
        connection.commit()


@pytest.mark.req("D-02")
@pytest.mark.parametrize("kind", ObjectKind, ids=lambda kind: kind.name.lower())
def test_removed_object_is_named(full_store: Path, tmp_path: Path, kind: ObjectKind) -> None:
    removals = 0
    for number, objects in iter_packs(full_store):
        for index, obj in enumerate(objects):
            if obj.kind is kind and removals < 5:
                path = Path(shutil.copy(full_store, tmp_path / "s.db"))
                replace_pack(path, number, objects[:index] + objects[index + 1 :])
                places = " ".join(f"{f.place} {f.problem}" for f in read_findings(path))
                assert obj.name in places or obj.name[-64:-52] in places, obj.name
                removals += 1
    assert removals


@pytest.mark.req("D-02")
@pytest.mark.parametrize("kind", ObjectKind, ids=lambda kind: kind.name.lower())
@pytest.mark.parametrize("way", ["shorten", "exchange"])
def test_changed_object_is_named(
    full_store: Path, tmp_path: Path, kind: ObjectKind, way: str
) -> None:
    """The checksum of the pack is right, so only the hash of the object can tell."""
    by_number = dict(iter_packs(full_store))
    bodies = [o.body for objects in by_number.values() for o in objects if o.kind is kind]
    changes = 0
    for number, objects in by_number.items():
        for index, obj in enumerate(objects):
            other = next((body for body in bodies if body != obj.body), b"")
            body = obj.body[:-1] if way == "shorten" else other
            if obj.kind is kind and changes < 5:
                path = Path(shutil.copy(full_store, tmp_path / "s.db"))
                changed = StoredObject(kind, obj.name, body)
                replace_pack(path, number, [*objects[:index], changed, *objects[index + 1 :]])
                places = " ".join(f"{f.place} {f.problem}" for f in read_findings(path))
                assert obj.name[-64:] in places or f"pack {number}" in places, obj.name
                changes += 1
    assert changes


@pytest.mark.req("D-02")
def test_object_in_a_second_pack_is_named(full_store: Path, tmp_path: Path) -> None:
    packs = list(iter_packs(full_store))
    for kind in ObjectKind:
        number, obj = next((n, o) for n, objects in packs for o in objects if o.kind is kind)
        target, objects = next((n, o) for n, o in reversed(packs) if o and n != number)
        path = Path(shutil.copy(full_store, tmp_path / "s.db"))
        replace_pack(path, target, [*objects, obj])
        findings = read_findings(path)
        assert any(obj.name in f.place for f in findings), (kind, findings)


def forget_object(path: Path, name: str) -> None:
    """Remove the index entries and the row of an object, so that only its users know it."""
    digest = bytes.fromhex(name[-64:])
    with closing(sqlite3.connect(path)) as connection:
        for table in ("object", "artifact"):
            connection.execute(f"DELETE FROM {table} WHERE key = ?", [digest[:6]])
        row = connection.execute("SELECT id FROM history WHERE name = ?", [digest]).fetchone()
        connection.execute("DELETE FROM label WHERE history = ?", row or [0])
        connection.execute("DELETE FROM history WHERE id = ?", row or [0])
        connection.commit()


@pytest.mark.req("D-02")
@pytest.mark.parametrize(
    "kind", [k for k in ObjectKind if k not in (ObjectKind.SEQUENCE, ObjectKind.FILE)]
)
def test_object_missing_from_all_tables_is_named(
    full_store: Path, tmp_path: Path, kind: ObjectKind
) -> None:
    """Nothing needs a sequence or a file: those alone can vanish like a collected object."""
    packs = list(iter_packs(full_store))
    with closing(SqliteStore(full_store)) as store:
        needed = {need for obj in store.iter_objects() for need in obj.needs}
    removals = 0
    for number, objects in packs:
        for index, obj in enumerate(objects):
            if obj.kind is kind and obj.name in needed and removals < 5:
                path = Path(shutil.copy(full_store, tmp_path / "s.db"))
                replace_pack(path, number, objects[:index] + objects[index + 1 :])
                forget_object(path, obj.name)
                findings = read_findings(path)
                assert any(f.place == obj.name and "is missing" in f.problem for f in findings), (
                    findings
                )
                removals += 1
    assert removals


@pytest.mark.req("D-02")
@pytest.mark.parametrize("way", ["remove", "exchange", "duplicate"])
def test_changed_list_of_the_pieces_of_a_file_is_named(
    full_store: Path, tmp_path: Path, way: str
) -> None:
    """The name of a file is that of its bytes, which only reading all of them proves."""
    path = Path(shutil.copy(full_store, tmp_path / "s.db"))
    [(number, objects, file)] = [
        (n, objects, o) for n, objects in iter_packs(path) for o in objects
        if o.kind is ObjectKind.FILE
    ]  # fmt: skip
    body = canonical.from_json(file.body)
    pieces = body["pieces"]
    first, second = pieces[:2]
    changed = {"remove": [first], "exchange": [second, first], "duplicate": [first, first, second]}
    data = canonical.to_canonical_bytes({**body, "pieces": [*changed[way], *pieces[2:]]})
    replaced = StoredObject(file.kind, file.name, data)
    replace_pack(path, number, [replaced if obj is file else obj for obj in objects])
    [finding] = read_findings(path)
    assert finding.place == file.name
