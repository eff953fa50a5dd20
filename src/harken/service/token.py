"""The token: a file that only its owner can read, made once."""

from __future__ import annotations

import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from harken.errors import ConfigError

_TOKEN = re.compile(r"[A-Za-z0-9_-]{32,256}")
_MOST_BYTES = 1024
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL


def made_token(path: Path) -> str:
    """Return the token in this file, which is made where there is none. Raises ConfigError."""
    try:
        return read_token(path)
    except FileNotFoundError:
        pass
    # Made whole under another name first: whoever reads it never finds half of one.
    whole = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(whole, _NEW, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # another service was faster: that one counts
            os.link(whole, path)
        return read_token(path)
    except OSError as error:
        raise ConfigError(f"{path}: no token can be made ({error.strerror or error})") from None
    finally:
        with suppress(OSError):
            whole.unlink()


def read_token(path: Path) -> str:
    """Return the token in this file.

    Raises FileNotFoundError, and ConfigError for a file that others can read or that holds none.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error})") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise ConfigError(f"{path}: is not a file of yours: remove it, and a new one is made")
        if found.st_mode & 0o077:
            raise ConfigError(
                f"{path}: others can read this token: remove it, and a new one is made"
            )
        text = os.read(descriptor, _MOST_BYTES).decode("ascii", "replace").strip()
    finally:
        os.close(descriptor)
    if not _TOKEN.fullmatch(text):
        raise ConfigError(f"{path}: holds no token: remove it, and a new one is made")
    return text
