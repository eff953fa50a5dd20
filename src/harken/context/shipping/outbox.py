"""The outbox: what a service elsewhere has of each session, in a folder for each service.

One idea: what is still to be shipped is the log itself, behind what is noted here; and a note is
only believed where the service says the same. So a note that is lost, old or damaged costs a look
at the log from its beginning, and no line.
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

_LONGEST = 120
_STAGING = ".staging-"


class ShipState(msgspec.Struct, frozen=True, kw_only=True):
    """What the service has of one session."""

    read_bytes: int = 0
    """How much of the log that is."""
    written_ns: int = 0
    """When the log was last written before it was looked at, nanoseconds since 1970."""
    lines: int = 0
    there_bytes: int = 0
    """How long the log is there: other than here, where something was redacted."""
    last_sum: str = ""
    """Of the last line there."""
    is_redacted: bool = True
    """Whether credentials were looked for."""
    commits: tuple[str, ...] = ()
    """Those that the log names and the service has."""
    lacking: tuple[str, ...] = ()
    """Those that the log names and that were not here."""


class Outbox:
    """The notes on one service, which one process at a time works with: `outbox_at` opens it."""

    def __init__(self, folder: Path, disk: Disk | None = None) -> None:
        self._folder = folder
        self._disk = disk or RealDisk()

    def note(self, name: str) -> ShipState:
        """Return what is noted of a session; an empty note where there is none that can be read."""
        try:
            return msgspec.convert(canonical.from_json(self._path(name).read_bytes()), ShipState)
        except (OSError, ValueError, RecursionError):
            return ShipState()

    def keep(self, name: str, note: ShipState) -> None:
        """Note what the service has: on return it is on the disk. Raises OSError."""
        path = self._path(name)
        new = path.with_name(f".{path.name[:_LONGEST]}.new")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(canonical.to_json_line(note) + b"\n")
            file.flush()
            self._disk.sync(file.fileno())
        new.replace(path)
        self._disk.sync_folder(self._folder)

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """Give a folder for copies, for its owner only, that is gone in the end."""
        folder = Path(tempfile.mkdtemp(prefix=_STAGING, dir=self._folder))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _path(self, name: str) -> Path:
        return self._folder / f"{short(name)}.json"


@contextmanager
def outbox_at(folder: Path, address: str) -> Iterator[Outbox]:
    """Open the outbox for the service at `address`, below `folder`, which is made.

    Raises ConfigError where another process ships to there, or the folder cannot be made.
    """
    own = folder / short(quote(address.partition("://")[2] or address, safe="").strip("."))
    try:
        for one in (folder, own):
            one.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{own}: cannot be made ({error.strerror})") from None
    try:
        lock = LogFile(own / "lock", create=True)
    except LogLocked as error:
        raise ConfigError(
            f"process {error.pid or '?'} ships to {address} already: one at a time does"
        ) from None
    try:
        for left in own.glob(f"{_STAGING}*"):  # a crash left it
            shutil.rmtree(left, ignore_errors=True)
        yield Outbox(own)
    finally:
        lock.close()


def short(name: str) -> str:
    """Return a name that a file may have, another one for each.

    >>> short("session_1"), len(short("x" * 1000))
    ('session_1', 137)
    """
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}-{blake3(name.encode()).hexdigest(8)}"
