"""A real PostgreSQL server on a private Unix socket, and a real S3 server on loopback.

Both end with the tests. PostgreSQL refuses to run as root, so that root starts it as `postgres`.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

INSTALL = "PostgreSQL is not installed: apt-get install postgresql"
_DEBIAN_FOLDERS = "/usr/lib/postgresql/*/bin"
_USER = "postgres"
_SCHEMA_NUMBERS = count()
_START_TIMEOUT_S = 60
_MOTO = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


def find_programs() -> Path | None:
    """Return the folder of PostgreSQL's programs, the newest version first, or None."""
    on_path = shutil.which("initdb")
    folders = [Path(on_path).resolve().parent] if on_path else []
    folders += sorted(
        Path("/").glob(_DEBIAN_FOLDERS[1:]), key=lambda folder: -int(folder.parent.name)
    )
    programs = ("initdb", "postgres", "psql")
    return next((f for f in folders if all((f / name).exists() for name in programs)), None)


class PostgresServer:
    """A PostgreSQL server with its files in a folder. It can be killed and started again."""

    def __init__(self, programs: Path, folder: Path, settings: Sequence[str] = ()) -> None:
        self.programs, self.folder, self._settings = programs, folder, settings
        self._process: subprocess.Popen[bytes] | None = None
        self._log = folder / "log"
        if os.geteuid() == 0:
            shutil.chown(folder, _USER, _USER)
        self._run("initdb", "-D", str(self.data), "-A", "trust", "-U", _USER, "-N", "-E", "UTF8")

    @property
    def data(self) -> Path:
        """The folder of the server's data."""
        return self.folder / "data"

    @property
    def pid(self) -> int:
        """The id of the process that has all others as children."""
        assert self._process is not None
        return self._process.pid

    @property
    def socket(self) -> Path:
        """The Unix socket."""
        return self.folder / ".s.PGSQL.5432"

    def address(self, schema: str = "", *, packs: str = "", folder: Path | None = None) -> str:
        """Return the URL of a store: of a new schema, unless one is named.

        folder: that of another socket, such as a proxy's.
        """
        schema = schema or f"s{os.getpid()}_{next(_SCHEMA_NUMBERS)}"
        host = quote(str(folder or self.folder), safe="")
        query = f"host={host}&schema={schema}" + (f"&packs={packs}" if packs else "")
        return f"postgresql://{_USER}@/postgres?{query}"

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            self._process = self._spawn()
            while self._process.poll() is None and time.monotonic() < deadline:
                if self._answers():
                    return
                time.sleep(0.05)
            # Processes of a killed server may still hold its shared memory for a moment.
            if time.monotonic() > deadline:
                raise AssertionError(self._log.read_text("utf-8", "replace")[-2000:])
            time.sleep(0.2)

    def kill(self) -> None:
        """End all processes of the server at once, as a power failure does."""
        if self._process is not None:
            # Each child has a session of its own.
            children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
            for process in (self._process.pid, *map(int, children.read_text().split())):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            self._process.wait()

    def stop(self) -> None:
        """End the server, whatever its clients do."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.kill()

    def execute(self, sql: str, database: str = "postgres") -> str:
        """Run SQL, and return the output without headers."""
        return self._run(
            "psql", "-h", str(self.folder), "-U", _USER, "-d", database, "-qAtX", "-c", sql
        )

    def _answers(self) -> bool:
        try:
            return self.execute("SELECT 1").strip() == "1"
        except subprocess.CalledProcessError:
            return False

    def _spawn(self) -> subprocess.Popen[bytes]:
        options = ["listen_addresses=", "fsync=off", "max_connections=300", *self._settings]
        command = [str(self.programs / "postgres"), "-D", str(self.data), "-k", str(self.folder)]
        for option in options:
            command += ["-c", option]
        with self._log.open("ab") as log:
            return subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True, **_as_user()
            )

    def _run(self, program: str, *arguments: str) -> str:
        result = subprocess.run(
            [str(self.programs / program), *arguments],
            check=True,
            capture_output=True,
            cwd=self.folder,
            **_as_user(),
        )
        return str(result.stdout, "utf-8")


def _as_user() -> dict[str, Any]:
    """Return the arguments of `subprocess` that run a program as `postgres`, for root."""
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "TZ": "UTC"}
    if os.geteuid() != 0:
        return {"env": environment}
    entry = pwd.getpwnam(_USER)
    return {"env": environment, "user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


@contextmanager
def run_postgres(settings: Sequence[str] = ()) -> Iterator[PostgresServer]:
    """Run a PostgreSQL server. Skip the test if PostgreSQL is not installed."""
    programs = find_programs()
    if programs is None or (os.geteuid() == 0 and not _has_user()):
        pytest.skip(INSTALL)
    # A socket's path has a limit of 107 bytes, and `postgres` cannot enter pytest's folder.
    with tempfile.TemporaryDirectory(
        prefix="harken-pg-", dir="/tmp", ignore_cleanup_errors=True
    ) as path:
        server = PostgresServer(programs, Path(path), settings)
        try:
            server.start()
            yield server
        finally:
            server.stop()


def _has_user() -> bool:
    try:
        pwd.getpwnam(_USER)
    except KeyError:
        return False
    return True


class S3Server:
    """An S3 server in a process of its own."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", _MOTO],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self._buckets = count()

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    @property
    def endpoint(self) -> str:
        """The URL of the server."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """The standard variables with which clients find the server."""
        return environment_of(self.endpoint)

    def create_bucket(self, *, versioned: bool = False) -> str:
        """Create a bucket and return its name."""
        name = f"bucket-{next(self._buckets)}"
        self.client().create_bucket(Bucket=name)
        if versioned:
            self.client().put_bucket_versioning(
                Bucket=name, VersioningConfiguration={"Status": "Enabled"}
            )
        return name

    def list_keys(self, bucket: str) -> list[str]:
        """Return the keys of all objects in a bucket, sorted."""
        found = self.client().list_objects_v2(Bucket=bucket)
        return sorted(item["Key"] for item in found.get("Contents", []))

    def read_all(self, bucket: str) -> dict[str, bytes]:
        """Return all objects in a bucket."""
        client = self.client()
        return {
            key: client.get_object(Bucket=bucket, Key=key)["Body"].read()
            for key in self.list_keys(bucket)
        }

    def client(self) -> Any:
        """Return a client of the server that looks past Harken."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )

    def stop(self) -> None:
        """End the server."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=20)
        self._process.stdout.close()


def environment_of(endpoint: str) -> dict[str, str]:
    """Return the variables with which clients find an S3 server."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }


@contextmanager
def run_s3() -> Iterator[S3Server]:
    """Run an S3 server."""
    server = S3Server()
    try:
        yield server
    finally:
        server.stop()
