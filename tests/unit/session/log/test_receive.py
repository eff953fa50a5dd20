"""Log lines from another machine are appended once, in order, or refused."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from harken.errors import InvalidLog, LogDiverged, LogLocked, LogWriteError
from harken.session.log.checksum import seal
from harken.session.log.compress import compress_log
from harken.session.log.file import LogFile
from harken.session.log.receive import LogEnd, read_log_end, receive_lines
from harken.session.verify import verify
from tests.session_kit import write_log_lines


@pytest.fixture
def lines(tmp_path: Path) -> list[bytes]:
    return write_log_lines(tmp_path / "source")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "there.jsonl"


def size(lines: list[bytes]) -> int:
    return sum(map(len, lines))


@pytest.mark.req("S3-34")
def test_log_received_in_pieces_is_the_same_log(lines: list[bytes], log: Path) -> None:
    assert read_log_end(log) == LogEnd()
    for n, line in enumerate(lines):
        end = receive_lines(log, size(lines[:n]), line)
        assert end == read_log_end(log)
    assert log.read_bytes() == b"".join(lines)
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert verify(log) == []
    assert [path.name for path in log.parent.iterdir() if path.is_file()] == [log.name]


@pytest.mark.req("S3-34")
def test_known_lines_are_not_added_again(lines: list[bytes], log: Path) -> None:
    full_log = b"".join(lines)
    end = receive_lines(log, 0, full_log)
    for n in range(len(lines)):
        for m in range(n + 1, len(lines) + 1):
            assert receive_lines(log, size(lines[:n]), b"".join(lines[n:m])) == end
    assert log.read_bytes() == full_log


def test_only_new_ones_of_overlapping_lines_are_added(lines: list[bytes], log: Path) -> None:
    receive_lines(log, 0, b"".join(lines[:3]))
    receive_lines(log, size(lines[:1]), b"".join(lines[1:]))
    assert log.read_bytes() == b"".join(lines)


def test_different_lines_are_refused_without_a_change(
    lines: list[bytes], log: Path, tmp_path: Path
) -> None:
    other_lines = write_log_lines(tmp_path / "other", texts=7)
    receive_lines(log, 0, b"".join(lines))
    different = [lines[0], seal(lines[0][-19:-3], b'{"a":1}')[0]]
    for offset, data in [(0, b"".join(different)), (size(lines[:1]) + 1, b"".join(different[1:]))]:
        with pytest.raises(LogDiverged):
            receive_lines(log, offset, data)
    with pytest.raises(LogDiverged, match="send the lines after"):
        receive_lines(log, size(lines) + 1, other_lines[-1])
    with pytest.raises(LogDiverged):
        receive_lines(log.with_name("none.jsonl"), 10, other_lines[-1])
    assert log.read_bytes() == b"".join(lines)
    assert not log.with_name("none.jsonl").exists()


@pytest.mark.parametrize(
    "harm",
    [
        lambda lines: b"",
        lambda lines: b"\n",
        lambda lines: b"".join(lines)[:-1],
        lambda lines: b"".join(lines).replace(b"text", b"TEXT", 1),
        lambda lines: b"".join([*lines[:1], *lines[2:]]),
        lambda lines: b"".join([lines[0], *lines]),
        lambda lines: b"\x00" * 100 + b"\n",
        lambda lines: b'{"type":"x"}\n',
        lambda lines: seal(b"", b"[1,2]}")[0],
        lambda lines: seal(b"", b"[[" * 100_000 + b"}")[0],
    ],
)
def test_lines_that_are_no_sealed_chain_are_refused(
    lines: list[bytes], log: Path, harm: object
) -> None:
    assert callable(harm)
    with pytest.raises((ValueError, RecursionError)):
        receive_lines(log, 0, harm(lines))
    assert not log.exists()


def test_partial_line_of_a_crash_is_completed(lines: list[bytes], log: Path) -> None:
    full_log = b"".join(lines)
    for cut_at in (1, 5, len(lines[-1]) - 1):
        log.write_bytes(full_log[: size(lines[:-1]) + cut_at])
        end = read_log_end(log)
        assert end.size_bytes == size(lines[:-1])
        receive_lines(log, end.size_bytes, lines[-1])
        assert log.read_bytes() == full_log


def test_bytes_that_are_no_line_are_moved_aside(lines: list[bytes], log: Path) -> None:
    offset = size(lines[:-1])
    log.write_bytes(b"".join(lines[:-1]) + b"\x00" * 10)
    receive_lines(log, offset, lines[-1])
    assert log.read_bytes() == b"".join(lines)
    assert log.with_name(f"{log.name}.torn-{offset}").read_bytes() == b"\x00" * 10


def test_locked_log_is_refused(lines: list[bytes], log: Path) -> None:
    receive_lines(log, 0, lines[0])
    other_log = LogFile(log)
    with pytest.raises(LogLocked):
        receive_lines(log, len(lines[0]), lines[1])
    other_log.close()
    receive_lines(log, len(lines[0]), lines[1])


def test_compressed_log_is_extended(lines: list[bytes], log: Path) -> None:
    receive_lines(log, 0, b"".join(lines[:3]))
    compress_log(log)
    assert not log.exists()
    assert read_log_end(log).size_bytes == size(lines[:3])
    receive_lines(log, size(lines[:3]), b"".join(lines[3:]))
    assert log.read_bytes() == b"".join(lines)


def test_end_is_read_after_a_line_of_any_length(tmp_path: Path, log: Path) -> None:
    first, first_sum = seal(b"", b'{"a":"' + b"x" * 300_000 + b'"}')
    second, last = seal(first_sum, b'{"a":"' + b"y" * 700_000 + b'"}')
    receive_lines(log, 0, first)
    assert read_log_end(log) == LogEnd(len(first), first_sum)
    receive_lines(log, len(first), second)
    assert read_log_end(log) == LogEnd(len(first + second), last)


def test_log_of_an_older_dialect_is_refused(lines: list[bytes], log: Path) -> None:
    log.write_bytes(b'{"type":"x"}\n')
    with pytest.raises(InvalidLog, match="without checksums"):
        read_log_end(log)
    with pytest.raises(InvalidLog):
        receive_lines(log, 0, lines[0])
    log.unlink()
    log.mkdir()
    with pytest.raises(InvalidLog):
        read_log_end(log)


class FullDisk:
    """A disk with room for a limited number of bytes."""

    def write(self, fd: int, data: bytes) -> int:
        return os.write(fd, data[:7])

    def sync(self, fd: int) -> None:
        del fd

    def sync_folder(self, folder: Path) -> None:
        del folder


def test_lines_refused_by_a_full_disk_are_completed_later(lines: list[bytes], log: Path) -> None:
    receive_lines(log, 0, lines[0])
    with pytest.raises(LogWriteError):
        receive_lines(log, len(lines[0]), lines[1], disk=FullDisk())
    assert read_log_end(log).size_bytes == len(lines[0])
    receive_lines(log, len(lines[0]), lines[1])
    assert log.read_bytes() == lines[0] + lines[1]
