"""`ResultJournal`: results of work that costs money, kept until they are stored.

A worker notes each result at once, before its batch ends. If the worker dies, or the main process,
the repetition of the item reads the result and does not pay again. The name of a file is the hash
of the item, and the file begins with the hash of its content: a partial file is ignored.

Source: docs/design/025-batch-work.md.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from tempfile import NamedTemporaryFile

import msgspec
from blake3 import blake3

_HASH_BYTES = 32
_PARTIAL = "partial-"
_PARTIAL_S = 60.0
"""A file is written in a moment. One that is partial for so long is left over."""


class ResultJournal(msgspec.Struct, frozen=True):
    """A folder of results by key. Several processes may use it at once."""

    folder: Path

    def create(self) -> None:
        """Create the folder, with those above. Raises OSError."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def get(self, key: str) -> bytes | None:
        """Return a result. Return None if it is missing or damaged."""
        try:
            data = self._path(key).read_bytes()
        except OSError:
            return None
        content = data[_HASH_BYTES:]
        return content if blake3(content).digest() == data[:_HASH_BYTES] else None

    def put(self, key: str, content: bytes) -> None:
        """Write a result. Do nothing if the folder cannot be written.

        A worker on another machine may not have the folder above; its results are not noted.
        """
        with suppress(OSError):
            self.folder.mkdir(mode=0o700, exist_ok=True)
            with NamedTemporaryFile(dir=self.folder, prefix=_PARTIAL, delete=False) as file:
                # It survives the end of processes. A power failure may cost it, so no fsync.
                file.write(blake3(content).digest() + content)
            Path(file.name).replace(self._path(key))

    def discard(self, key: str) -> None:
        """Remove a result, which is stored elsewhere now."""
        with suppress(OSError):
            self._path(key).unlink()

    def clear(self) -> None:
        """Remove all results and the folder."""
        rmtree(self.folder, ignore_errors=True)

    def close(self) -> None:
        """Remove the folder if it has no result, with partial files that killed workers left."""
        oldest = time.time() - _PARTIAL_S  # A younger one may be that of another process.
        with suppress(OSError):
            for partial in self.folder.glob(f"{_PARTIAL}*"):
                if partial.stat().st_mtime < oldest:
                    partial.unlink(missing_ok=True)
            self.folder.rmdir()

    def _path(self, key: str) -> Path:
        return self.folder / blake3(key.encode()).hexdigest()
