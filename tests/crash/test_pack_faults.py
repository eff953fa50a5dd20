"""Faults of a bucket: errors, delays, missing and damaged packs, kept versions, lists that lie.

docs/design/022-server-stores.md has the table of faults and outcomes.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harken.core.commits import CommitId, hash_raw
from harken.errors import (
    BranchConflict,
    ObjectCorrupted,
    PurgeIncomplete,
    StoreUnavailable,
)
from harken.service.access import read_token
from harken.store.base import Tombstone, WriteBatch
from harken.store.fsck import fsck
from harken.store.postgresql.store import PostgresStore
from harken.store.remote.store import RemoteStore
from harken.testing.store import batch_of, commit_in
from harken.testing.store_purge import later
from tests.fault_proxy_kit import S3Proxy, proxy_s3
from tests.postgres_kit import PostgresServer, S3Server

BODY = random.Random(0).randbytes(300_000)
NAME = hash_raw(BODY)
PURGED = Tombstone(when="2026-01-31T12:00:00.000000Z", by="ann", why="it leaked")


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[S3Proxy]:
    with proxy_s3(s3.port) as proxy:
        yield proxy


def address(postgres: PostgresServer, s3: S3Server, proxy: S3Proxy | None = None) -> str:
    endpoint = s3.endpoint if proxy is None else proxy.endpoint
    return f"{postgres.address(packs=f's3://{s3.create_bucket()}/p')}&s3_endpoint={endpoint}"


def test_a_bucket_that_fails_for_a_moment_is_asked_again(
    postgres: PostgresServer, s3: S3Server, proxy: S3Proxy
) -> None:
    store = PostgresStore(address(postgres, s3, proxy), max_inline_bytes=100)
    proxy.errors_left = 2
    store.write(WriteBatch(raw={NAME: BODY}))
    again = PostgresStore(store.address, max_inline_bytes=100)
    proxy.errors_left = 2
    assert again.raw(NAME) == BODY
    assert not any("list-type" in request for request in proxy.requests)
    assert len(proxy.requests) == 6
    store.close()
    again.close()


def test_a_bucket_that_stays_away_refuses_large_writes_only(
    postgres: PostgresServer, s3: S3Server, proxy: S3Proxy
) -> None:
    store = PostgresStore(address(postgres, s3, proxy), patience_s=0.5, max_inline_bytes=2000)
    proxy.errors_left = 10**9
    with pytest.raises(StoreUnavailable, match=r"s3://bucket-\d+/p: the storage of packs"):
        store.write(WriteBatch(raw={NAME: BODY}))
    small = batch_of("Hi")
    store.write(small)
    assert store.names_with_prefix("art-") == [*small.deltas]
    proxy.errors_left = 0
    store.write(WriteBatch(raw={NAME: BODY}))
    assert store.raw(NAME) == BODY
    store.collect([NAME], now=later(2), grace_s=0)
    assert fsck(store) == []
    store.close()


def test_a_slow_bucket_holds_up_nobody_else(
    postgres: PostgresServer, s3: S3Server, proxy: S3Proxy
) -> None:
    """An upload holds no transaction, so a collection and other writers go on."""
    store = PostgresStore(address(postgres, s3, proxy), max_inline_bytes=100_000)
    proxy.delay_s = 1.5
    with ThreadPoolExecutor(1) as pool:
        large = os.urandom(300_000)
        written = pool.submit(store.write, WriteBatch(raw={hash_raw(large): large}))
        while not proxy.requests:
            assert not written.done()
        batch = batch_of("Hi")
        store.write(batch)
        store.collect([], now=later(0), grace_s=3600)
        assert not written.done()
        written.result(30)
    assert store.raw(hash_raw(large)) == large
    proxy.delay_s = 0
    assert store.newest_commits() == [commit_in(batch)]
    store.close()


def test_a_refused_bucket_is_an_error_of_one_line(postgres: PostgresServer, s3: S3Server) -> None:
    url = f"{postgres.address(packs='s3://nowhere/p')}&s3_endpoint=http://127.0.0.1:9"
    store = PostgresStore(url, patience_s=0.3, max_inline_bytes=100)
    with pytest.raises(StoreUnavailable, match="s3://nowhere/p") as refused:
        store.write(WriteBatch(raw={NAME: BODY}))
    assert "\n" not in str(refused.value)
    assert "test" not in str(refused.value).replace("latest", "")
    store.close()


@pytest.mark.parametrize("damage", ["deleted", "damaged"])
def test_a_bad_pack_is_reported_with_its_key_and_heals_when_it_is_restored(
    postgres: PostgresServer, s3: S3Server, damage: str
) -> None:
    store = PostgresStore(address(postgres, s3), max_inline_bytes=100)
    store.write(WriteBatch(raw={NAME: BODY}))
    bucket = store.address.partition("s3://")[2].partition("/")[0]
    [(key, data)] = s3.read_all(bucket).items()
    if damage == "deleted":
        s3.client().delete_object(Bucket=bucket, Key=key)
    else:
        s3.client().put_object(Bucket=bucket, Key=key, Body=data[:500] + b"?" + data[501:])
    again = PostgresStore(store.address, max_inline_bytes=100)
    with pytest.raises(ObjectCorrupted, match=key.removeprefix("p/")):
        again.raw(NAME)
    [finding] = fsck(again)
    assert key.removeprefix("p/") in finding.place
    assert "restore it from a backup" in finding.problem
    assert NAME in finding.problem
    again.collect([NAME], now=later(2), grace_s=0)
    assert len(fsck(again)) == 1
    s3.client().put_object(Bucket=bucket, Key=key, Body=data)
    assert again.raw(NAME) == BODY
    assert fsck(again) == []
    store.close()
    again.close()


def test_a_versioned_bucket_cannot_forget_and_a_purge_says_so(
    postgres: PostgresServer, s3: S3Server
) -> None:
    bucket = s3.create_bucket(versioned=True)
    url = f"{postgres.address(packs=f's3://{bucket}/p')}&s3_endpoint={s3.endpoint}"
    store = PostgresStore(url, max_inline_bytes=100)
    store.write(WriteBatch(raw={NAME: BODY}))
    again = PostgresStore(url)
    with pytest.raises(PurgeIncomplete, match=f"bucket of s3://{bucket}/p is versioned"):
        again.purge({NAME: b"[purged]"}, PURGED)
    assert store.raw(NAME) == b"[purged]"
    assert s3.list_keys(bucket) == []
    store.close()
    again.close()


def test_a_purge_removes_the_bytes_from_the_bucket(postgres: PostgresServer, s3: S3Server) -> None:
    store = PostgresStore(address(postgres, s3), max_inline_bytes=100)
    other = os.urandom(3000)
    store.write(WriteBatch(raw={NAME: BODY, hash_raw(other): other}))
    bucket = store.address.partition("s3://")[2].partition("/")[0]
    before = s3.list_keys(bucket)
    store.purge({NAME: b"[purged]"}, PURGED)
    after = s3.read_all(bucket)
    assert not {*before} & after.keys()
    assert sum(map(len, after.values())) < 4000
    assert store.raw(hash_raw(other)) == other
    store.close()


def test_small_packs_are_merged_into_the_bucket(postgres: PostgresServer, s3: S3Server) -> None:
    store = PostgresStore(address(postgres, s3), max_inline_bytes=4000)
    raws = {hash_raw(data): data for data in (os.urandom(3000) for _ in range(20))}
    for name, data in raws.items():
        store.write(WriteBatch(raw={name: data}))
    bucket = store.address.partition("s3://")[2].partition("/")[0]
    assert s3.list_keys(bucket) == []
    store.collect([*raws], now=later(2), grace_s=0)
    assert len(s3.list_keys(bucket)) == 1
    again = PostgresStore(store.address)
    assert again.raws(raws) == raws
    assert fsck(again) == []
    store.close()
    again.close()


def test_two_services_over_one_store_move_a_branch_once(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.address()
    environment = {**os.environ, "HARKEN_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-m", "harken", "serve", "--store", url, "--port", "0", "--json"]
    services = [
        subprocess.Popen(
            [*command, "--idle-timeout", "30s"], env=environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    try:
        addresses = [
            json.loads(service.stdout.readline())["address"]
            for service in services
            if service.stdout
        ]
        token = read_token(tmp_path / "home" / "service.token")
        stores = [RemoteStore(place, token=token) for place in addresses]
        root = batch_of("root")
        stores[0].write(root)
        heads: list[CommitId] = [commit_in(root)]
        stores[1].move_branch("main", heads[0], expected=None)
        for turn in range(5):
            children = [batch_of(f"{turn} {i}", parent=heads[-1], second=turn) for i in range(8)]
            for child in children:
                stores[turn % 2].write(child)

            def move(
                index: int,
                children: list[WriteBatch] = children,
                head: CommitId = heads[-1],
            ) -> CommitId | None:
                to = commit_in(children[index])
                try:
                    stores[index % 2].move_branch("main", to, expected=head)
                except BranchConflict:
                    return None
                return to

            with ThreadPoolExecutor(8) as pool:
                winners = [to for to in pool.map(move, range(8)) if to is not None]
            assert len(winners) == 1
            heads += winners
            assert [store.find_branch("main") for store in stores] == winners * 2
        for store in stores:
            assert [c.id for c in store.chain(heads[-1])] == heads[::-1]
            store.close()
    finally:
        for service in services:
            service.terminate()
            service.wait(20)
            assert service.stdout is not None
            service.stdout.close()
