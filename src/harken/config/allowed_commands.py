"""The hook commands that the user of this home has allowed to run.

A log names the commands of its hooks, and a process that resumes the log runs them. A log may come
from another user, in a bundle, so a command that was not allowed here before is not run.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, MutableSet
from pathlib import Path

from harken.config.home import Home
from harken.errors import ConfigError

FILE = "let-run.txt"


class AllowedCommands(MutableSet[str]):
    """The set of digests of allowed commands, one per line in a file of the home; it only grows."""

    def __init__(self, home: Home) -> None:
        """Use the file of this home. Nothing is read yet."""
        self._home = home

    @property
    def _file(self) -> Path:
        return self._home.folder / FILE

    def _read_digests(self) -> set[str]:
        try:
            return set(self._file.read_text("ascii", errors="replace").splitlines())
        except FileNotFoundError:
            return set()
        except OSError as error:
            raise ConfigError(f"{self._file}: read failed: {error.strerror}") from None

    def __contains__(self, digest: object) -> bool:
        return digest in self._read_digests()

    def __iter__(self) -> Iterator[str]:
        return iter(self._read_digests())

    def __len__(self) -> int:
        return len(self._read_digests())

    def add(self, value: str) -> None:
        """Allow the commands with this digest. Raises ConfigError if the file cannot be written."""
        if value in self:
            return
        self._home.create_folders()
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(self._file, flags, 0o600), "wb") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                file.write(f"{value}\n".encode())
        except OSError as error:
            raise ConfigError(f"{self._file}: write failed: {error.strerror}") from None

    def discard(self, value: str) -> None:
        """Raise NotImplementedError: to stop a command, the user removes its hook."""
        raise NotImplementedError(value)
