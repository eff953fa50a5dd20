"""The output of a command as bytes: to a file, or to standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from harken.errors import ConfigError
from harken.terminal.text import print_text
from harken.views.message_text import format_count


def write_pieces(
    pieces: Iterable[bytes], file: str | None, *, is_text: Callable[[bytes], bool]
) -> None:
    """Write bytes to a file that its owner alone may read, or else to standard output.

    A terminal is shown text only, made harmless. Raises ConfigError for other bytes, and where the
    file cannot be written.
    """
    if file is not None and file != "-":
        _write(Path(file).resolve(), pieces)
    elif not sys.stdout.isatty():
        sys.stdout.flush()
        sys.stdout.buffer.writelines(pieces)
        sys.stdout.buffer.flush()
    elif is_text(data := b"".join(pieces)):
        print_text(data.decode("utf-8", "backslashreplace").rstrip("\n"))
    else:
        size = format_count(len(data), "byte")
        raise ConfigError(
            f"{size} of binary data cannot be shown in a terminal; name a file with -o FILE"
        )


def _write(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file atomically. Anything that is not a regular file is written directly."""
    if path.exists() and not path.is_file():
        with path.open("wb") as out:  # a device or pipe must not be replaced
            out.writelines(pieces)
        return
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.writelines(pieces)
        part.replace(path)
    except OSError as error:
        raise ConfigError(f"{path}: write failed: {error.strerror or error}") from None
    finally:
        part.unlink(missing_ok=True)
