"""Fakes for tests of sessions: disks that record their operations or fail, and a fixed clock.

The disks write to the real file, so that it can be read and resumed afterwards, and never sync it,
so that a test does not wait for the hardware.

With the clock, equal runs write equal logs, byte for byte.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from harken.core.clock import Clock
from harken.session.log.file import RealDisk

_2026_US = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z


def ticking(start_us: int = _2026_US, *, step_us: int = 1_000_000) -> Clock:
    """Return a clock that advances by a step at each call.

    >>> clock = ticking(100, step_us=5)
    >>> clock(), clock(), clock()
    (100, 105, 110)
    """
    return count(start_us, step_us).__next__


Fault: TypeAlias = Literal["EIO", "ENOSPC", "late", "none", "one", "half", "but one"]
"""The failure of an operation: it raises this error; `late`: it succeeds and then raises EIO; or
a write accepts no byte, one byte, half of the bytes, or all but one.
"""
_RAISING: tuple[Fault, ...] = ("EIO", "ENOSPC", "late")


@dataclass(kw_only=True)
class RecordingDisk(RealDisk):
    """A disk that records its operations."""

    operations: list[str] = field(default_factory=list)
    """The operations so far, by name. A test may append other events to check the order."""
    writes: list[bytes] = field(default_factory=list)
    """The data of each write."""
    synced: list[int] = field(default_factory=list)
    """For each sync, the number of writes before it."""
    folders: list[Path] = field(default_factory=list)

    def write(self, fd: int, data: bytes) -> int:
        self._step("write")
        self.writes.append(data)
        return super().write(fd, data)

    def sync(self, fd: int) -> None:
        self._step("sync")
        self.synced.append(len(self.writes))

    def sync_folder(self, folder: Path) -> None:
        self._step("sync_folder")
        self.folders.append(folder)

    @property
    def safe(self) -> bool:
        """Whether everything written would survive a power cut."""
        return not self.writes or self.synced[-1:] == [len(self.writes)]

    def _step(self, operation: str) -> None:
        self.operations.append(operation)


@dataclass(kw_only=True)
class FailingDisk(RecordingDisk):
    """A disk that fails at one operation. `fail_at`: its index in `operations`, from 0."""

    fail_at: int
    fault: Fault = "EIO"

    def write(self, fd: int, data: bytes) -> int:
        if len(self.operations) != self.fail_at:
            return super().write(fd, data)
        size = len(data)
        short = {"late": size, "one": 1, "half": size // 2, "but one": size - 1}
        written = super().write(fd, data[: short.get(self.fault, 0)])
        if self.fault in _RAISING:
            raise self._error()
        return written

    def _step(self, operation: str) -> None:
        super()._step(operation)
        if operation != "write" and len(self.operations) == self.fail_at + 1:
            raise self._error()

    def _error(self) -> OSError:
        number = errno.ENOSPC if self.fault == "ENOSPC" else errno.EIO
        return OSError(number, os.strerror(number))


def faults(operations: Sequence[str]) -> Iterator[tuple[int, Fault]]:
    """Yield the index of every operation with every fault that the operation can have."""
    for index, operation in enumerate(operations):
        for fault in get_args(Fault) if operation == "write" else _RAISING:
            yield index, fault
