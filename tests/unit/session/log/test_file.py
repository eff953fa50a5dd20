"""The log file: a single writer, one write per line, and failing disks."""

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harken.errors import InvalidLog, LogLocked, LogNotFound, LogWriteError, SessionClosed
from harken.session.log.file import LogFile, RealDisk, is_being_written
from harken.testing import FailingDisk, Fault, RecordingDisk

HOLDER = """
import sys, time
from pathlib import Path
from harken.session.log.file import LogFile
log = LogFile(Path(sys.argv[1]), create=True)
print("held", flush=True)
time.sleep(60)
"""
TAKER = """
import sys
from pathlib import Path
from harken.errors import LogLocked
from harken.session.log.file import LogFile
try:
    LogFile(Path(sys.argv[1]), create=True)
except LogLocked as error:
    print(error.pid, error)
"""

FORKED = """
import os, sys
from pathlib import Path
from harken.errors import LogLocked
from harken.session.log.file import LogFile
log = LogFile(Path(sys.argv[1]), create=True)
if os.fork() == 0:
    try:
        log.append(b"child\\n")
    except LogLocked as error:
        print(error.pid == os.getppid(), flush=True)
    log.close()
    os._exit(0)
os.wait()
print(Path(sys.argv[1]).with_name(".s.jsonl.pid").read_text() == str(os.getpid()))
log.append(b"parent\\n")
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


@pytest.fixture
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the log."""
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


@pytest.mark.req("S0-33")
def test_second_process_is_refused_with_the_pid_of_the_first(path: Path) -> None:
    with_lock = LogFile(path, create=True)
    taker = subprocess.run(
        [sys.executable, "-c", TAKER, str(path)], capture_output=True, text=True, check=True
    )
    with_lock.close()
    pid, _, text = taker.stdout.partition(" ")
    assert int(pid) == os.getpid()
    assert f"process {os.getpid()}" in text


@pytest.mark.req("S0-33")
def test_kill_9_releases_the_lock(path: Path, holder: subprocess.Popen[str]) -> None:
    with pytest.raises(LogLocked) as refused:
        LogFile(path)
    assert refused.value.pid == holder.pid
    holder.kill()
    holder.wait()
    LogFile(path).close()


@pytest.mark.req("S0-33")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_forked_child_cannot_write_with_the_lock_of_its_parent(path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", FORKED, str(path)], capture_output=True, text=True, check=True
    )
    assert result.stdout == "True\nTrue\n"
    assert path.read_bytes() == b"parent\n"


def test_second_writer_in_the_same_process_is_refused(path: Path) -> None:
    first = LogFile(path, create=True)
    with pytest.raises(LogLocked) as refused:
        LogFile(path, create=True)
    assert refused.value.pid == os.getpid()
    first.close()
    LogFile(path).close()


def test_lock_holder_without_a_pid_file_is_another_process(path: Path) -> None:
    first = LogFile(path, create=True)
    path.with_name(".s.jsonl.pid").write_text("?")
    with pytest.raises(LogLocked, match="another process") as refused:
        LogFile(path)
    assert refused.value.pid is None
    first.close()


def test_refused_open_changes_nothing(path: Path) -> None:
    first = LogFile(path, create=True)
    first.append(b"a\n")
    files_before = {p.name: p.read_bytes() for p in path.parent.iterdir()}
    with pytest.raises(LogLocked):
        LogFile(path, create=True)
    assert {p.name: p.read_bytes() for p in path.parent.iterdir()} == files_before
    first.close()
    assert [p.name for p in path.parent.iterdir()] == ["s.jsonl"]


def test_file_is_readable_by_its_owner_only(path: Path) -> None:
    log = LogFile(path, create=True)
    log.append(b"half")
    aside = log.set_aside(0, b"half")
    log.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(aside.stat().st_mode) == 0o600


def test_missing_log_is_created_only_on_request(path: Path) -> None:
    with pytest.raises(LogNotFound):
        LogFile(path)
    assert not path.exists()


def test_folder_is_no_log(tmp_path: Path) -> None:
    with pytest.raises(InvalidLog, match="is a folder"):
        LogFile(tmp_path)


def test_log_in_a_missing_folder_is_an_error(path: Path) -> None:
    with pytest.raises(LogWriteError, match="folder does not exist.*make the folder first"):
        LogFile(path / "x" / "y.jsonl", create=True)


def test_log_below_a_file_is_refused(path: Path) -> None:
    path.touch()
    with pytest.raises(LogWriteError, match="Not a directory"):
        LogFile(path / "y.jsonl", create=True)


@pytest.mark.req("S0-33")
def test_append_is_one_write_at_the_end(path: Path) -> None:
    disk = RecordingDisk()
    log = LogFile(path, disk=disk, create=True)
    log.append(b"a\n")
    log.append(b"b" * 100_000 + b"\n")
    log.close()
    assert disk.writes == [b"a\n", b"b" * 100_000 + b"\n"]
    assert path.read_bytes() == b"".join(disk.writes)


@pytest.mark.parametrize("fault", ["EIO", "ENOSPC", "none", "one", "half", "but one", "late"])
def test_append_after_a_failed_write_is_refused(path: Path, fault: Fault) -> None:
    disk = FailingDisk(fail_at=1, fault=fault)
    log = LogFile(path, disk=disk, create=True)
    log.append(b"one\n")
    with pytest.raises(LogWriteError):
        log.append(b"two\n")
    data_before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(LogWriteError):
            log.append(b"three\n")
        with pytest.raises(LogWriteError):
            log.sync()
    log.close()
    assert path.read_bytes() == data_before
    assert b"one\ntwo\n".startswith(data_before)
    assert disk.operations == ["write", "write"]


def test_short_write_reports_the_written_bytes(path: Path) -> None:
    log = LogFile(path, disk=FailingDisk(fail_at=0, fault="one"), create=True)
    with pytest.raises(LogWriteError, match="only 1 of 4 bytes"):
        log.append(b"one\n")
    log.close()


def test_append_after_a_failed_sync_is_refused(path: Path) -> None:
    """A second sync may succeed although the bytes were lost: Linux reports the error once."""
    log = LogFile(path, disk=FailingDisk(fail_at=1, fault="EIO"), create=True)
    log.append(b"one\n")
    with pytest.raises(LogWriteError, match="sync failed: Input/output error"):
        log.sync()
    with pytest.raises(LogWriteError):
        log.sync()
    with pytest.raises(LogWriteError):
        log.append(b"two\n")
    log.close()


def test_failed_sync_of_the_folder_is_an_error(path: Path) -> None:
    log = LogFile(path, disk=FailingDisk(fail_at=0, fault="EIO"), create=True)
    with pytest.raises(LogWriteError):
        log.sync_name()
    with pytest.raises(LogWriteError):
        log.append(b"one\n")
    log.close()


def test_refusal_keeps_the_first_reason(path: Path) -> None:
    log = LogFile(path, create=True)
    log.refuse("first")
    log.refuse("second")
    with pytest.raises(LogWriteError, match="first"):
        log.append(b"one\n")
    log.close()


def test_close_is_idempotent_and_a_closed_log_refuses_appends(path: Path) -> None:
    log = LogFile(path, create=True)
    log.close()
    log.close()
    with pytest.raises(SessionClosed):
        log.append(b"one\n")


def test_torn_tail_is_moved_to_its_own_file(path: Path) -> None:
    path.write_bytes(b"whole\nto")
    log = LogFile(path)
    aside = log.set_aside(6, b"to")
    log.append(b"next\n")
    log.close()
    assert aside.name == "s.jsonl.torn-6"
    assert aside.read_bytes() == b"to"
    assert path.read_bytes() == b"whole\nnext\n"


def test_torn_tail_never_replaces_an_earlier_one(path: Path) -> None:
    for tail in (b"a", b"b", b"c"):
        path.write_bytes(b"whole\n" + tail)
        log = LogFile(path)
        log.set_aside(6, tail)
        log.close()
    torn_files = {p.name: p.read_bytes() for p in path.parent.glob("*.torn-*")}
    assert torn_files == {
        "s.jsonl.torn-6": b"a",
        "s.jsonl.torn-6.1": b"b",
        "s.jsonl.torn-6.2": b"c",
    }


@pytest.mark.req("S0-35")
@pytest.mark.parametrize("fail_at", range(4))
@pytest.mark.parametrize("fault", ["EIO", "ENOSPC", "none", "one", "late"])
def test_torn_tail_is_truncated_only_after_its_copy_is_synced(
    path: Path, fail_at: int, fault: Fault
) -> None:
    """Operations: write the copy, sync it, sync the folder, then cut, then sync the log."""
    path.write_bytes(b"whole\nto")
    log = LogFile(path, disk=FailingDisk(fail_at=fail_at, fault=fault))
    with pytest.raises(LogWriteError):
        log.set_aside(6, b"to")
    with pytest.raises(LogWriteError):
        log.append(b"next\n")
    log.close()
    copies = [p.read_bytes() for p in path.parent.glob("*.torn-*")]
    assert path.read_bytes() == (b"whole\nto" if fail_at < 3 else b"whole\n")
    assert fail_at < 3 or copies == [b"to"]


def test_os_disk_writes_and_syncs_files_and_folders(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "x", os.O_WRONLY | os.O_CREAT, 0o600)
    assert RealDisk().write(fd, b"abc") == 3
    RealDisk().sync(fd)
    RealDisk().sync_folder(tmp_path)
    os.close(fd)
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        RealDisk().sync(fd)


def test_log_is_locked_while_its_writer_is_open(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    assert not is_being_written(path)
    file = LogFile(path, create=True)
    assert is_being_written(path)
    file.close()
    assert not is_being_written(path)


def test_stale_pid_file_is_ignored_and_kept(tmp_path: Path) -> None:
    path, pid_file = tmp_path / "a.jsonl", tmp_path / ".a.jsonl.pid"
    pid_file.write_text(str(os.getpid()))
    assert not is_being_written(path)  # not a log
    path.write_bytes(b"{}\n")
    assert not is_being_written(path)
    assert pid_file.exists()
    LogFile(path).close()
