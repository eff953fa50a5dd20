"""PostgreSQL and an S3 server for a run, both on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from tests.postgres_kit import run_postgres, run_s3


class Servers(msgspec.Struct, frozen=True):
    """The URL of a new store, and the ids of the processes that have it."""

    url: str
    processes: tuple[int, ...]


@contextmanager
def run_servers() -> Iterator[Servers]:
    """Run both servers, with durable commits. The environment names the S3 server meanwhile."""
    with run_postgres(["fsync=on"]) as postgres, run_s3() as s3:
        before = {name: os.environ.get(name) for name in s3.environment}
        os.environ.update(s3.environment)
        try:
            url = postgres.address(packs=f"s3://{s3.create_bucket()}/packs")
            yield Servers(url, (postgres.pid, s3.pid))
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
