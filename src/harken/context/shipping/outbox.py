"""The outbox: a record of the shipped part of each session, in one folder per service.

The unshipped data is the log itself, behind the recorded offset, and a record is used only if the
service reports the same state. So if a record is lost, old or damaged, the log is read again from
its beginning, and no line is lost.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import msgspec
from blake3 import blake3

from harken.core import canonical
from harken.errors import ConfigError, LogLocked
from harken.session.log.disk import Disk, RealDisk
from harken.session.log.file import LogFile

_MAX_NAME_CHARS = 120
_STAGING = ".staging-"


class ShipState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one session on the service."""

    read_bytes: int = 0
    """The size of the shipped part of the local log."""
    written_ns: int = 0
    """The modification time of the log before it was read, in nanoseconds since 1970."""
    lines: int = 0
    there_bytes: int = 0
    """The size of the log on the service, which differs if text was redacted."""
    last_sum: str = ""
    """The checksum of the last line on the service."""
    is_redacted: bool = True
    """Whether credentials were redacted."""
    commits: tuple[str, ...] = ()
    """The commits in the log that the service has."""
    lacking: tuple[str, ...] = ()
    """The commits in the log that the local store lacked."""


class Outbox:
    """The records of one service, used by one process at a time: see `outbox_at`."""

    def __init__(self, folder: Path, disk: Disk | None = None) -> None:
        self._folder = folder
        self._disk = disk or RealDisk()

    def read_state(self, name: str) -> ShipState:
        """Return the record of a session, which is empty if there is none or it is damaged."""
        try:
            return msgspec.convert(canonical.from_json(self._path(name).read_bytes()), ShipState)
        except (OSError, ValueError, RecursionError):
            return ShipState()

    def write_state(self, name: str, note: ShipState) -> None:
        """Write the record of a session durably. Raises OSError."""
        path = self._path(name)
        temporary = path.with_name(f".{path.name[:_MAX_NAME_CHARS]}.new")
        with os.fdopen(
            os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb"
        ) as file:
            file.write(canonical.to_json_line(note) + b"\n")
            file.flush()
            self._disk.sync(file.fileno())
        temporary.replace(path)
        self._disk.sync_folder(self._folder)

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """Yield a temporary folder that only its owner may read, which is removed in the end."""
        folder = Path(tempfile.mkdtemp(prefix=_STAGING, dir=self._folder))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _path(self, name: str) -> Path:
        return self._folder / f"{shorten_name(name)}.json"


@contextmanager
def open_outbox(folder: Path, address: str) -> Iterator[Outbox]:
    """Open the outbox of the service at `address`, below `folder`, which is created.

    Raises ConfigError if another process ships to the same service, or the folder cannot be
    created.
    """
    service_folder = _service_folder(folder, address)
    try:
        for path in (folder, service_folder):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{service_folder}: cannot be created ({error.strerror})") from None
    try:
        lock = LogFile(service_folder / "lock", create=True)
    except LogLocked as error:
        raise ConfigError(f"process {error.pid or '?'} is already shipping to {address}") from None
    try:
        for stale in service_folder.glob(f"{_STAGING}*"):  # The folder was left behind by a crash.
            shutil.rmtree(stale, ignore_errors=True)
        yield Outbox(service_folder)
    finally:
        lock.close()


def read_ship_state(folder: Path, address: str, name: str) -> ShipState:
    """Return the record of a session in the outbox of a service, also while another process ships.

    It is empty if there is none or it is damaged.
    """
    return Outbox(_service_folder(folder, address)).read_state(name)


def _service_folder(folder: Path, address: str) -> Path:
    return folder / shorten_name(quote(address.partition("://")[2] or address, safe="").strip("."))


def shorten_name(name: str) -> str:
    """Return a unique name that is short enough for a file.

    >>> shorten_name("session_1"), len(shorten_name("x" * 1000))
    ('session_1', 137)
    """
    if len(name) <= _MAX_NAME_CHARS:
        return name
    return f"{name[:_MAX_NAME_CHARS]}-{blake3(name.encode()).hexdigest(8)}"
