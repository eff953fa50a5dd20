"""Read and atomically replace small private files, such as settings and tokens.

A replacement is one rename. Files with secrets are readable by their owner only.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from harken.errors import ConfigError

_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def replace_file(file: Path, data: bytes, mode: int = 0o600) -> None:
    """Replace the content of a file atomically: after a crash it has the old or the new content.

    Raises OSError.

    Other users cannot read it at any time, unless `mode` permits it.
    """
    temporary = file.with_name(f".{file.name[:100]}.{token_hex(8)}")
    try:
        with os.fdopen(os.open(temporary, _CREATE_FLAGS, mode), "wb") as output:
            os.fchmod(output.fileno(), mode)  # the umask does not apply
            output.write(data)
            output.flush()
            os.fsync(output.fileno())
        temporary.replace(file)
    finally:
        with suppress(OSError):
            temporary.unlink()


def read_own_file(file: Path, most: int, *, what: str, then: str) -> bytes:
    """Return the content of a file that only its owner can read, up to `most` bytes.

    `what` names the secrets in it and `then` the step after removing it, for the error text. Raises
    FileNotFoundError, and ConfigError if the file cannot be read or other users have access.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ConfigError(f"{file}: read failed: {error.strerror or error}") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise ConfigError(f"{file}: owned by another user: remove it, and {then}")
        if status.st_mode & 0o077:
            raise ConfigError(f"{file}: other users can read {what}: remove it, and {then}")
        with os.fdopen(descriptor, "rb", closefd=False) as source:
            return source.read(most)
    finally:
        os.close(descriptor)


MAX_BYTES = 1 << 20


def read_settings_file(file: Path) -> bytes | None:
    """Return the content of a settings file. Return None if it does not exist.

    Raises ConfigError, on one line, if it is not a regular file, is too long, or cannot be read.
    """
    try:
        if not file.is_file():  # reading a pipe would block
            if file.exists():
                raise ConfigError(f"{file}: not a regular file")
            return None
        with file.open("rb") as source:
            data = source.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{file}: read failed: {error.strerror or error}") from None
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{file}: longer than {MAX_BYTES >> 20} MB")
    return data
