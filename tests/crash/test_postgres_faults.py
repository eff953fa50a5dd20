"""Faults of connections, servers and buckets: a store in PostgreSQL loses nothing acknowledged.

docs/design/022-server-stores.md has the table of faults and outcomes.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from harken.core.commits import CommitId, hash_raw
from harken.errors import BranchConflict, ObjectNotFound, StoreError, StoreLocked, StoreUnavailable
from harken.store.base import BranchMove, Tombstone, WriteBatch
from harken.store.fsck import fsck
from harken.store.postgresql.store import PostgresStore
from harken.store.sqlite.pack import Body, decode_objects
from harken.testing.store import batch_of, commit_in
from harken.testing.store_purge import later
from tests.fault_proxy_kit import PostgresProxy, proxy_postgres
from tests.postgres_kit import PostgresServer, run_postgres

PURGED = Tombstone(when="2026-01-31T12:00:00.000000Z", by="ann", why="it leaked")
SOME = range(0, 400, 7)
MAX_MESSAGES = 400


@pytest.fixture
def proxy(postgres: PostgresServer) -> Iterator[PostgresProxy]:
    with (
        tempfile.TemporaryDirectory(prefix="harken-px-", dir="/tmp") as folder,
        proxy_postgres(Path(folder), postgres.socket) as proxy,
    ):
        yield proxy


class Stores:
    """A store through a proxy, and the same store directly."""

    def __init__(self, postgres: PostgresServer, proxy: PostgresProxy, packs: Path) -> None:
        url = postgres.address(packs=f"file://{packs}")
        schema = url.partition("schema=")[2].partition("&")[0]
        self.direct = PostgresStore(url, max_inline_bytes=500)
        url = postgres.address(schema, packs=f"file://{packs}", folder=proxy.folder)
        self.proxied = PostgresStore(url, max_inline_bytes=500)

    def close(self) -> None:
        self.direct.close()
        self.proxied.close()


@pytest.fixture
def stores(postgres: PostgresServer, proxy: PostgresProxy, tmp_path: Path) -> Iterator[Stores]:
    stores = Stores(postgres, proxy, tmp_path / "packs")
    yield stores
    stores.close()


def move_by_batch(store: PostgresStore, number: int, head: CommitId | None) -> CommitId:
    """Write a commit and move the branch to it; every second one is uploaded."""
    text = f"{number} " + ("".join(map(str, range(400))) if number % 2 else "")
    batch = batch_of(text, parent=head, second=number, principal="p")
    moves = {"main": BranchMove(commit_in(batch), head)}
    store.write(
        WriteBatch(objects=batch.objects, deltas=batch.deltas, commits=batch.commits, moves=moves)
    )
    return commit_in(batch)


def at_each_message(proxy: PostgresProxy, numbers: range, work: Callable[[int], None]) -> int:
    """Cut the connection at messages of `work`, until it needs no more. Return the cuts."""
    cuts = 0
    for number in numbers:
        proxy.cut_after(number)
        work(number)
        if not proxy.reached.is_set():
            break
        cuts += 1
    proxy.pass_all()
    return cuts


def cut_every_write(stores: Stores, proxy: PostgresProxy, numbers: range) -> None:
    heads: list[CommitId | None] = [None]

    def write(number: int) -> None:
        heads.append(move_by_batch(stores.proxied, number, heads[-1]))
        assert stores.direct.find_branch("main") == heads[-1]

    cuts = [at_each_message(proxy, numbers[parity::2], write) for parity in (0, 1)]
    assert min(cuts) >= 3
    assert [c.id for c in stores.direct.chain(heads[-1] or CommitId(""))] == heads[:0:-1]
    assert stores.direct.newest_commits(1000) == heads[:0:-1]
    assert fsck(stores.direct) == []


def test_a_write_survives_a_lost_connection_at_any_step(
    stores: Stores, proxy: PostgresProxy
) -> None:
    cut_every_write(stores, proxy, SOME)


@pytest.mark.full
def test_a_write_survives_a_lost_connection_at_every_step(
    stores: Stores, proxy: PostgresProxy
) -> None:
    cut_every_write(stores, proxy, range(MAX_MESSAGES))


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.full)])
def test_a_move_is_done_once_if_its_connection_is_lost(
    stores: Stores, proxy: PostgresProxy, step: int
) -> None:
    """Between two attempts another writer may move the branch on: the first attempt still counts."""
    names = []
    for number in range(2):
        batch = batch_of(f"commit {number}", second=number)
        stores.direct.write(batch)
        names.append(commit_in(batch))
    stores.direct.move_branch("b", names[0], expected=None)
    turn = [0]

    def move(number: int) -> None:
        here, there = names[turn[0] % 2], names[(turn[0] + 1) % 2]
        stores.proxied.move_branch("b", there, expected=here)
        assert stores.direct.find_branch("b") == there
        with pytest.raises(BranchConflict):
            stores.proxied.move_branch("b", there, expected=here)
        turn[0] += 1

    assert at_each_message(proxy, range(0, MAX_MESSAGES, step), move) >= 5


@pytest.mark.parametrize("step", [37, pytest.param(3, marks=pytest.mark.full)])
def test_an_interrupted_collection_leaves_a_whole_store(
    stores: Stores, proxy: PostgresProxy, step: int
) -> None:
    kept = move_by_batch(stores.direct, 1, None)
    cuts = 0
    for number in range(0, 2000, step):
        loose = [f"loose {number} {i}".encode() * 50 for i in range(3)]
        stores.direct.write(WriteBatch(raw={hash_raw(data): data for data in loose}))
        proxy.cut_after(number)
        try:
            stores.proxied.collect([], now=later(2), grace_s=0)
        except StoreError:
            cuts += 1
        assert fsck(stores.direct) == []
        assert [c.id for c in stores.direct.chain(kept)] == [kept]
        if not proxy.reached.is_set():
            break
    assert cuts >= 3
    proxy.pass_all()
    stores.direct.collect([], now=later(2), grace_s=0)
    assert stores.direct.stats().objects["raw"] == 0


@pytest.mark.parametrize("step", [23, pytest.param(3, marks=pytest.mark.full)])
def test_an_interrupted_purge_is_completed_by_the_next(
    stores: Stores, proxy: PostgresProxy, step: int
) -> None:
    cuts = 0
    for number in range(0, 2000, step):
        body = f"secret {number} ".encode() * 100
        name = hash_raw(body)
        stores.direct.write(WriteBatch(raw={name: body}))
        proxy.cut_after(number)
        try:
            stores.proxied.purge({name: b"[purged]"}, PURGED)
        except StoreError:
            cuts += 1
        assert fsck(stores.direct) == []
        assert stores.direct.raw(name) in (body, b"[purged]")
        if not proxy.reached.is_set():
            break
        proxy.pass_all()
        if stores.direct.raw(name) == body:
            stores.direct.purge({name: b"[purged]"}, PURGED)
        assert stores.direct.raw(name) == b"[purged]"
    assert cuts >= 3


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.full)])
def test_a_writer_that_was_paused_comes_back_after_a_collection(
    stores: Stores, proxy: PostgresProxy, step: int, tmp_path: Path
) -> None:
    """At each step of a large write, a collection two hours later removes its leftovers."""
    collections = refusals = 0
    packs = tmp_path / "packs"
    collector = PostgresStore(stores_url(stores), patience_s=0.2, max_inline_bytes=500)
    for number in range(0, MAX_MESSAGES, step):
        batch = batch_of(Random(number).randbytes(2000).hex(), second=number)
        proxy.hold_after(number)
        with ThreadPoolExecutor(1) as pool:
            written = pool.submit(stores.proxied.write, batch)
            while not (proxy.reached.wait(0.01) or written.done()):
                pass
            try:
                collector.collect([], now=later(2), grace_s=0)
                collections += 1
            except StoreLocked:
                refusals += 1  # The writer has a transaction: it is waited for.
            proxy.release()
            written.result(30)
        assert stores.direct.objects(batch.objects) == batch.objects
        assert stores.direct.newest_commits(1) == [commit_in(batch)]
        assert fsck(stores.direct) == []
        if not proxy.reached.is_set():
            break
    proxy.pass_all()
    collector.collect([], now=later(4), grace_s=0)
    collector.close()
    assert collections >= 3
    assert refusals >= 1
    keys = {path.name for path in packs.rglob("*") if path.is_file()}
    assert keys == _named_keys(stores)


def stores_url(stores: Stores) -> str:
    return stores.direct.address


def _named_keys(stores: Stores) -> set[str]:
    rows = stores.direct._database.fetch("SELECT location FROM pack WHERE location IS NOT NULL")
    return {location.partition("/")[2] for (location,) in rows}


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.full)])
def test_a_commit_of_objects_that_are_being_collected_is_whole_or_refused(
    stores: Stores, proxy: PostgresProxy, step: int
) -> None:
    """At each step of a commit of loose objects, a collection tries to remove these."""
    collector = PostgresStore(stores.direct.address, patience_s=0.2)
    written_count = refused_count = 0
    for number in range(0, MAX_MESSAGES, step):
        loose = batch_of(f"loose {number}", second=number)
        stores.direct.write(WriteBatch(objects=loose.objects, deltas=loose.deltas))
        proxy.hold_after(number)
        with ThreadPoolExecutor(1) as pool:
            written = pool.submit(stores.proxied.write, WriteBatch(commits=loose.commits))
            while not (proxy.reached.wait(0.01) or written.done()):
                pass
            with suppress(StoreLocked):
                collector.collect([], now=later(2), grace_s=0)
            proxy.release()
            try:
                written.result(30)
                written_count += 1
            except ObjectNotFound:
                refused_count += 1
        assert fsck(stores.direct) == []
        if not proxy.reached.is_set():
            break
    collector.close()
    assert written_count >= 2
    assert refused_count >= 1


def test_a_purge_finds_the_second_copy_of_a_race(stores: Stores, proxy: PostgresProxy) -> None:
    """Two writers of the same bytes may both store them: one row, and a copy that no row names."""
    copies = 0
    second = PostgresStore(stores.direct.address, patience_s=0.2)
    for number in range(40, MAX_MESSAGES, 7):
        body = f"secret {number}".encode() * 40
        name, other = hash_raw(body), hash_raw(body + b"!")
        batch = WriteBatch(raw={name: body, other: body + b"!"})
        proxy.hold_after(number)
        with ThreadPoolExecutor(1) as pool:
            written = pool.submit(stores.proxied.write, batch)
            while not (proxy.reached.wait(0.01) or written.done()):
                pass
            if not written.done():
                with suppress(StoreLocked):  # The row may be inserted, and not yet committed.
                    second.write(WriteBatch(raw={name: body}))
            proxy.release()
            written.result(30)
        copies += sum(name in objects for objects in _read_packs(stores)) == 2
        stores.direct.purge({name: b"[purged]"}, PURGED)
        assert not any(name in objects for objects in _read_packs(stores))
        assert stores.direct.raw(other) == body + b"!"
        if not proxy.reached.is_set():
            break
    second.close()
    assert copies >= 1


def _read_packs(stores: Stores) -> list[dict[str, Body]]:
    """Return the objects in the bytes of all packs, whatever the rows say."""
    reader = stores.direct._reader
    rows = stores.direct._database.fetch("SELECT id FROM pack")
    packs = reader.find_packs(number for (number,) in rows)
    return [decode_objects(data or b"") for data in reader.read_data(packs.values()).values()]


def test_a_killed_server_loses_nothing_acknowledged(tmp_path: Path) -> None:
    with run_postgres() as server:
        url = server.address(packs=f"file://{tmp_path}/p")
        acknowledged: list[list[CommitId]] = [[] for _ in range(4)]
        stop = threading.Event()

        def write(number: int) -> None:
            store = PostgresStore(url, max_inline_bytes=500)
            head: CommitId | None = None
            index = 0
            while not stop.is_set():
                batch = batch_of(f"{number} {index} " + "x" * 900, parent=head, second=index)
                moves = {f"b{number}": BranchMove(commit_in(batch), head)}
                store.write(
                    WriteBatch(
                        objects=batch.objects,
                        deltas=batch.deltas,
                        commits=batch.commits,
                        moves=moves,
                    )
                )
                head = commit_in(batch)
                acknowledged[number].append(head)
                index += 1
            store.close()

        def wait_for_writes(writers: list[Future[None]]) -> None:
            count = sum(map(len, acknowledged))
            while sum(map(len, acknowledged)) < count + 20:
                for writer in writers:
                    if writer.done():
                        writer.result()
                time.sleep(0.01)

        with ThreadPoolExecutor(4) as pool:
            writers = [pool.submit(write, number) for number in range(4)]
            try:
                for _ in range(2):
                    wait_for_writes(writers)
                    server.kill()
                    server.start()
                wait_for_writes(writers)
            finally:
                stop.set()
            for writer in writers:
                writer.result(60)
        store = PostgresStore(url)
        for number, names in enumerate(acknowledged):
            assert store.find_branch(f"b{number}") == names[-1]
            assert [c.id for c in store.chain(names[-1])] == names[::-1]
        assert fsck(store) == []
        store.close()


def test_a_server_that_stays_away_is_an_error_of_one_line() -> None:
    with run_postgres() as server:
        url = server.address()
        store = PostgresStore(url, patience_s=0.3)
        batch = batch_of("Hi")
        store.write(batch)
        server.kill()
        for call in (store.branches, lambda: store.write(batch_of("Ho"))):
            with pytest.raises(StoreUnavailable, match="does not answer") as refused:
                call()
            assert "\n" not in str(refused.value)
        with pytest.raises(StoreUnavailable):
            PostgresStore(url, patience_s=0.1)
        server.start()
        assert [*store.commits([commit_in(batch)])] == [commit_in(batch)]
        store.close()


def test_two_hundred_writers_at_once(postgres: PostgresServer, tmp_path: Path) -> None:
    """All write the same parts, and move one branch by comparison."""
    url = postgres.address(packs=f"file://{tmp_path}/p")
    stores = [PostgresStore(url) for _ in range(4)]
    batch = batch_of("root")
    stores[0].write(batch)
    stores[0].move_branch("main", commit_in(batch), expected=None)

    def write(number: int) -> CommitId:
        store = stores[number % len(stores)]
        batch = batch_of("the same for all", f"of {number}", parent=None, second=number)
        store.write(batch)
        while True:
            head = store.find_branch("main")
            child = batch_of(f"joins {number}", parent=head, second=number)
            moves = {"main": BranchMove(commit_in(child), head)}
            try:
                store.write(
                    WriteBatch(
                        objects=child.objects,
                        deltas=child.deltas,
                        commits=child.commits,
                        moves=moves if number % 10 == 0 else {},
                    )
                )
            except BranchConflict:
                continue
            return commit_in(batch)

    with ThreadPoolExecutor(200) as pool:
        names = list(pool.map(write, range(200)))
    head = stores[1].find_branch("main")
    assert head is not None
    assert len(stores[1].chain(head)) == 21
    assert len(stores[1].commits(names)) == 200
    assert fsck(stores[2]) == []
    for store in stores:
        store.close()


def test_a_commit_takes_two_round_trips(stores: Stores, proxy: PostgresProxy) -> None:
    head = None
    for number in (0, 2, 4):
        head = move_by_batch(stores.proxied, number, head)
    proxy.pass_all()
    move_by_batch(stores.proxied, 6, head)
    assert proxy.client_turns == 2


def test_a_missing_object_is_refused_after_a_collection(stores: Stores) -> None:
    loose = batch_of("loose")
    stores.proxied.write(WriteBatch(objects=loose.objects, deltas=loose.deltas))
    stores.direct.collect([], now=later(2), grace_s=0)
    with pytest.raises(ObjectNotFound):
        stores.proxied.write(WriteBatch(commits=loose.commits))
