"""A store with a damaged row reads what it held, or raises an error: never other content."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any

import pytest

from harken.core.commits import ArtifactRef, Hash
from harken.errors import HarkenError, StoreError
from harken.store.base import ObjectKind
from harken.store.sqlite.store import SqliteStore
from tests.unit.store.damaged_tables import fill_every_table, iter_damage
from tests.unit.store.test_fsck_tables import TABLES, apply_damage

LATER = "2100-01-01T00:00:00Z"


class Names:
    """The names of a store's objects by kind."""

    def __init__(self, store: SqliteStore) -> None:
        self.by_kind: dict[ObjectKind, list[str]] = {kind: [] for kind in ObjectKind}
        for obj in store.iter_objects():
            self.by_kind[obj.kind].append(obj.name)
        self.commits = store.newest_commits(100)

    def of(self, *kinds: ObjectKind) -> list[Any]:
        return [name for kind in kinds for name in self.by_kind[kind]]


def list_reads(names: Names) -> dict[str, Callable[[SqliteStore], Any]]:
    """Return reads of everything, by a label. A mapping may lack what is damaged."""
    artifacts = names.of(ObjectKind.RAW, ObjectKind.FILE)
    reads: dict[str, Callable[[SqliteStore], Any]] = {
        "objects": lambda store: store.objects(
            map(Hash, names.of(ObjectKind.PART, ObjectKind.MESSAGE))
        ),
        "deltas": lambda store: store.deltas(map(ArtifactRef, names.of(ObjectKind.DELTA))),
        "messages": lambda store: store.messages(map(ArtifactRef, names.of(ObjectKind.DELTA))),
        "sequences": lambda store: store.sequences(map(ArtifactRef, names.of(ObjectKind.SEQUENCE))),
        "commits": lambda store: store.commits(names.commits),
        "tombstones": lambda store: store.tombstones(),
        "branches": lambda store: store.branches(),
        "heads": lambda store: store.heads(),
        "derived": lambda store: store.find_derived(["first", "second", "third", "fourth"]),
    }
    for name in artifacts[::3]:
        reads[f"raw {name}"] = methodcaller("raw", ArtifactRef(name))
    for name in names.commits[::5]:
        reads[f"chain {name}"] = methodcaller("chain", name)
    return reads


LISTS: tuple[Callable[[SqliteStore, Names], object], ...] = (
    lambda store, names: [store.children(name) for name in names.commits],
    lambda store, _: store.commits_by_label(),
    lambda store, _: store.newest_commits(100),
    lambda store, _: store.latest_commit("p1", LATER),
    lambda store, _: store.names_with_prefix("", 1000),
    lambda store, _: store.retention(),
    lambda store, _: store.stats(),
    lambda store, _: [*store.iter_objects()],
    lambda store, _: store.collect([], now=LATER, dry_run=True),
)
"""Reads that follow from rows alone: only a check tells that a row was lost or changed."""


@pytest.fixture(scope="module")
def full_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("full") / "s.db"
    fill_every_table(path)
    return path


def read(act: Callable[[], Any]) -> Any:
    """Return a result, or None for an error of the store."""
    with suppress(HarkenError):
        return act()


@pytest.mark.req("D-02")
@pytest.mark.parametrize("table", TABLES)
def test_damaged_row_is_never_read_as_other_content(
    full_store: Path, tmp_path: Path, table: str
) -> None:
    with closing(SqliteStore(full_store)) as store:
        names = Names(store)
        reads = list_reads(names)
        intact = {label: act(store) for label, act in reads.items()}
    path = tmp_path / "s.db"
    for damage in iter_damage(full_store, table):
        if not apply_damage(full_store, path, damage):
            continue
        store = read(lambda: SqliteStore(path))
        if store is None:
            continue
        with closing(store):
            for list_ in LISTS:
                read(partial(list_, store, names))
            for label, act in reads.items():
                result = read(partial(act, store))
                if isinstance(result, dict):
                    for key, value in result.items():
                        assert intact[label].get(key) == value, (damage.kind, label, key)
                elif result is not None:
                    assert result == intact[label], (damage.kind, label)


@pytest.mark.req("D-02")
@pytest.mark.parametrize(
    ("table", "column", "act"),
    [
        ("branch", "head", lambda store: store.branches()),
        ("branch", "head", lambda store: store.move_branch("review/3", None, expected=None)),
        ("branch", "head", lambda store: store.collect([], now=LATER)),
        ("tombstone", "record", lambda store: store.tombstones()),
    ],
)
def test_damaged_row_is_an_error_that_names_it(
    full_store: Path, tmp_path: Path, table: str, column: str, act: Callable[[SqliteStore], object]
) -> None:
    path = tmp_path / "s.db"
    for damage in iter_damage(full_store, table):
        if damage.kind == f"shorten {column}" and damage.rows[0]["name"] != b"review/5":
            assert apply_damage(full_store, path, damage)
            name = damage.rows[0]["name"]
            text = name if isinstance(name, str) else name.decode()
            with (
                closing(SqliteStore(path)) as store,
                pytest.raises(
                    StoreError, match=f"{text}'? is (damaged|corrupted): checksum mismatch"
                ),
            ):
                act(store)
