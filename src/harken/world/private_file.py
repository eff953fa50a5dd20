"""A file with settings: what a person wrote, for a program to go by.

Small files of ours: replaced in one step, and, where secrets are in them, nobody else's.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from harken.errors import ConfigError

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def replace_file(file: Path, data: bytes, mode: int = 0o600) -> None:
    """Put this in a file, as a whole: a crash leaves the old one or the new one. Raises OSError.

    Nobody else can read it at any moment, but where the mode says so.
    """
    new = file.with_name(f".{file.name[:100]}.{token_hex(8)}")
    try:
        with os.fdopen(os.open(new, _NEW, mode), "wb") as opened:
            os.fchmod(opened.fileno(), mode)  # whatever this program takes from new files
            opened.write(data)
            opened.flush()
            os.fsync(opened.fileno())
        new.replace(file)
    finally:
        with suppress(OSError):
            new.unlink()


def read_own_file(file: Path, most: int, *, what: str, then: str) -> bytes:
    """Return what is in a file that only its owner can read, up to so many bytes.

    what: the secrets in it, and then: what comes when it is removed, for the error. Raises
    FileNotFoundError, and ConfigError where it cannot be read or may be somebody else's.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read ({error.strerror or error})") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise ConfigError(f"{file}: is not a file of yours: remove it, and {then}")
        if found.st_mode & 0o077:
            raise ConfigError(f"{file}: others can read {what}: remove it, and {then}")
        with os.fdopen(descriptor, "rb", closefd=False) as opened:
            return opened.read(most)
    finally:
        os.close(descriptor)


MAX_BYTES = 1 << 20


def read_settings_file(file: Path) -> bytes | None:
    """Return what is in a file; None where it is not there.

    Raises ConfigError, on one line, where it is no file, is longer than a person writes, or cannot
    be read.
    """
    try:
        if not file.is_file():  # a pipe would never end
            if file.exists():
                raise ConfigError(f"{file}: is no file")
            return None
        with file.open("rb") as opened:
            data = opened.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read ({error.strerror or error})") from None
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{file}: is longer than {MAX_BYTES >> 20} MB")
    return data
