"""The fake disks."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from harken.testing import FailingDisk, Fault, RecordingDisk, faults

WRITE_FAULTS: list[Fault] = ["EIO", "ENOSPC", "late", "none", "one", "half", "but one"]
SYNC_FAULTS = WRITE_FAULTS[:3]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "f"


@pytest.fixture
def fd(file: Path) -> Iterator[int]:
    fd = os.open(file, os.O_CREAT | os.O_RDWR)
    yield fd
    os.close(fd)


def test_recording_disk_writes_and_records_operations_in_order(file: Path, fd: int) -> None:
    disk = RecordingDisk()
    assert disk.write(fd, b"one") == 3
    disk.sync(fd)
    disk.operations.append("tool")
    disk.sync_folder(file.parent)
    disk.write(fd, b"two")
    assert disk.operations == ["write", "sync", "tool", "sync_folder", "write"]
    assert (disk.writes, disk.synced, disk.folders) == ([b"one", b"two"], [1], [file.parent])
    assert file.read_bytes() == b"onetwo"


def test_recording_disk_reports_whether_all_writes_are_synced(fd: int) -> None:
    disk, safe = RecordingDisk(), []
    safe.append(disk.safe)
    for operation in (b"one", None, b"two", b"three", None):
        disk.sync(fd) if operation is None else disk.write(fd, operation)
        safe.append(disk.safe)
    assert safe == [True, False, True, False, False, True]


def test_no_write_is_safe_after_a_failed_sync(fd: int) -> None:
    disk = FailingDisk(fail_at=1)
    disk.write(fd, b"one")
    with pytest.raises(OSError, match="Input/output"):
        disk.sync(fd)
    assert not disk.safe


@pytest.mark.parametrize("fault", WRITE_FAULTS)
def test_only_the_selected_write_fails(file: Path, fd: int, fault: Fault) -> None:
    disk, accepted = FailingDisk(fail_at=1, fault=fault), []
    for data in (b"aaaa", b"bbbb", b"cccc"):
        try:
            accepted.append(disk.write(fd, data))
        except OSError as error:
            accepted.append(-(error.errno or 0))
    number, location = {
        "EIO": (-errno.EIO, 0),
        "ENOSPC": (-errno.ENOSPC, 0),
        "late": (-errno.EIO, 4),
        "none": (0, 0),
        "one": (1, 1),
        "half": (2, 2),
        "but one": (3, 3),
    }[fault]
    assert accepted == [4, number, 4]
    assert file.read_bytes() == b"aaaa" + b"b" * location + b"cccc"
    assert disk.operations == ["write"] * 3
    assert b"".join(disk.writes) == file.read_bytes()


@pytest.mark.parametrize("fault", SYNC_FAULTS)
def test_only_the_selected_sync_fails(tmp_path: Path, fd: int, fault: Fault) -> None:
    disk = FailingDisk(fail_at=0, fault=fault)
    with pytest.raises(OSError, match="No space" if fault == "ENOSPC" else "Input/output"):
        disk.sync(fd)
    disk.sync_folder(tmp_path)
    disk = FailingDisk(fail_at=1, fault=fault)
    disk.sync(fd)
    with pytest.raises(OSError, match="No space" if fault == "ENOSPC" else "Input/output"):
        disk.sync_folder(tmp_path)
    assert disk.operations == ["sync", "sync_folder"]


def test_each_operation_can_have_each_of_its_faults() -> None:
    assert [*faults(["sync", "write"])] == [
        *((0, fault) for fault in SYNC_FAULTS),
        *((1, fault) for fault in WRITE_FAULTS),
    ]
