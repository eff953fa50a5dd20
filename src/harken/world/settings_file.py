"""A file with settings: what a person wrote, for a program to go by."""

from __future__ import annotations

from pathlib import Path

from harken.errors import ConfigError

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
