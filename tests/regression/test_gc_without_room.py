"""`harken store gc` on a full disk, and with a damaged store.

On a full disk it could free nothing, and told the user to make room, which gc was run for. A damaged
table ended it as "a bug in Harken". It drops the search index first now, which is made again, else
says how much it needs; damage is a StoreError.
"""

from __future__ import annotations

import random
import sqlite3
from contextlib import suppress
from pathlib import Path

import pytest

from harken.core.commits import Hash, hash_raw
from harken.errors import ObjectTooLarge, StoreError
from harken.store.base import RetentionPolicy, WriteBatch
from harken.store.batch import MAX_OBJECT_BYTES, validate_batch
from harken.store.sqlite.store import SqliteStore
from harken.testing.store import batch_of, commit_in
from tests.cli.kit import Cli
from tests.crash.kill_kit import small_file_system

LATER = "2100-01-01T00:00:00Z"


def fill_disk(folder: Path) -> None:
    """Write a file that takes all that is free."""
    with (folder / "ballast").open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                pass


def litter(cli: Cli, *, loose_bytes: int, kept: str = "kept") -> None:
    """Put raw bytes into the store that nothing needs, beside a commit of a message."""
    (cli.home / "sessions").mkdir(parents=True, exist_ok=True)
    store = SqliteStore(cli.home / "store.db")
    store.write(batch_of(kept))
    noise = random.Random(3)
    for _ in range(loose_bytes // 100_000):
        data = noise.randbytes(100_000)
        store.write(WriteBatch(raw={hash_raw(data): data}))
    store.close()


def loose_in(cli: Cli) -> int:
    store = SqliteStore(cli.home / "store.db")
    count = len(store.names_with_prefix("art-", 1000))
    store.close()
    return count


def test_on_a_full_disk_the_search_index_makes_room_for_gc(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_file_system(tmp_path / "small", "6m") as disk:
        monkeypatch.setenv("HARKEN_HOME", str(disk / "home"))
        full = Cli(disk / "home", cli._capsys)
        litter(full, loose_bytes=1_500_000)
        (full.home / "facts.db").write_bytes(bytes(1_000_000))
        before, size = loose_in(full), (full.home / "store.db").stat().st_size
        fill_disk(disk)
        full("store", "gc", "--grace", "0s", "--dry-run")
        assert (full.home / "facts.db").exists(), "a dry run removes nothing"
        ran = full.ok("store", "gc", "--grace", "0s")
        assert "15 objects and 0 commits removed" in ran.out
        assert "The disk is full: the search index (976.6 KB) was removed." in ran.err
        assert loose_in(full) == before - 15
        assert (full.home / "store.db").stat().st_size < size / 2


def test_gc_says_how_much_room_it_takes_to_make_the_file_smaller(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_file_system(tmp_path / "small", "6m") as disk:
        monkeypatch.setenv("HARKEN_HOME", str(disk / "home"))
        full = Cli(disk / "home", cli._capsys)
        litter(full, loose_bytes=1_500_000, kept=random.Random(4).randbytes(750_000).hex())
        (full.home / "facts.db").write_bytes(bytes(1_000_000))
        size = (full.home / "store.db").stat().st_size
        fill_disk(disk)
        ran = full.ok("store", "gc", "--grace", "0s")
        assert "15 objects and 0 commits removed" in ran.out
        assert "of the file are unused, and will be reused" in ran.out
        assert (full.home / "store.db").stat().st_size == size
        (disk / "ballast").unlink()
        assert "unused" not in full.ok("store", "gc", "--grace", "0s").out
        assert (full.home / "store.db").stat().st_size < 2 * size / 3


def test_without_an_index_gc_says_how_much_it_needs(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_file_system(tmp_path / "small", "3m") as disk:
        monkeypatch.setenv("HARKEN_HOME", str(disk / "home"))
        full = Cli(disk / "home", cli._capsys)
        litter(full, loose_bytes=500_000)
        fill_disk(disk)
        text = full.refused("store", "gc", "--grace", "0s")
        assert "gc needs 8.0 MB of free disk space, and 0 B are free" in text
        (disk / "ballast").unlink()
        assert "5 objects and 0 commits removed" in full.ok("store", "gc", "--grace", "0s").out


DAMAGE = [
    "UPDATE keeping SET until = 'someday'",
    "UPDATE keeping SET name = 'ctx-' || replace(substr(name, 5), '0', 'x')",
    "INSERT INTO again (name, pack) VALUES ('art-no-name', 1)",
    "INSERT INTO evicted (name, kind) VALUES ('art-no-name', 1)",
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_table_is_a_store_error(cli: Cli, damage: str) -> None:
    litter(cli, loose_bytes=100_000)
    store = SqliteStore(cli.home / "store.db")
    kept = batch_of("for a while")
    store.write(kept)
    store.set_retention(
        {commit_in(kept): RetentionPolicy("ephemeral", "2020-01-01T00:00:00.000000Z")}
    )
    store.close()
    connection = sqlite3.connect(cli.home / "store.db")
    connection.execute("PRAGMA ignore_check_constraints=ON")
    connection.execute(damage)
    connection.commit()
    connection.close()
    store = SqliteStore(cli.home / "store.db")
    with suppress(StoreError):  # and no other error: that would be a bug
        store.collect([], now=LATER, grace_s=3600)
    store.close()
    assert cli("store", "gc").code in (0, 2)


def test_a_damaged_time_of_keeping_is_told_with_what_to_do(cli: Cli) -> None:
    test_a_damaged_table_is_a_store_error(cli, DAMAGE[0])
    assert "`harken store fsck` lists all damage" in cli.refused("store", "gc")


def test_an_object_that_is_too_large_is_not_called_damaged() -> None:
    body = bytes(MAX_OBJECT_BYTES + 1)
    with pytest.raises(ObjectTooLarge, match=r"is too large: 256\.0 MB") as error:
        validate_batch(WriteBatch(objects={Hash("0" * 64): body}))
    assert error.value.size_bytes == MAX_OBJECT_BYTES + 1
    assert error.value.limit_bytes == MAX_OBJECT_BYTES
    assert "damaged" not in str(error.value)
