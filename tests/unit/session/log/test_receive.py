"""Lines of logs that come from elsewhere: added once, in order, or refused."""

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
def test_a_log_that_comes_in_pieces_is_the_same_log(lines: list[bytes], log: Path) -> None:
    assert read_log_end(log) == LogEnd()
    for n, line in enumerate(lines):
        end = receive_lines(log, size(lines[:n]), line)
        assert end == read_log_end(log)
    assert log.read_bytes() == b"".join(lines)
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert verify(log) == []
    assert [path.name for path in log.parent.iterdir() if path.is_file()] == [log.name]


@pytest.mark.req("S3-34")
def test_what_is_there_is_not_added_again(lines: list[bytes], log: Path) -> None:
    whole = b"".join(lines)
    end = receive_lines(log, 0, whole)
    for n in range(len(lines)):
        for m in range(n + 1, len(lines) + 1):
            assert receive_lines(log, size(lines[:n]), b"".join(lines[n:m])) == end
    assert log.read_bytes() == whole


def test_of_lines_that_overlap_those_that_are_new_are_added(lines: list[bytes], log: Path) -> None:
    receive_lines(log, 0, b"".join(lines[:3]))
    receive_lines(log, size(lines[:1]), b"".join(lines[1:]))
    assert log.read_bytes() == b"".join(lines)


def test_other_lines_are_refused_and_change_nothing(
    lines: list[bytes], log: Path, tmp_path: Path
) -> None:
    other = write_log_lines(tmp_path / "other", texts=7)
    receive_lines(log, 0, b"".join(lines))
    changed = [lines[0], seal(lines[0][-19:-3], b'{"a":1}')[0]]
    for at, sent in [(0, b"".join(changed)), (size(lines[:1]) + 1, b"".join(changed[1:]))]:
        with pytest.raises(LogDiverged):
            receive_lines(log, at, sent)
    with pytest.raises(LogDiverged, match="send what comes after"):
        receive_lines(log, size(lines) + 1, other[-1])
    with pytest.raises(LogDiverged):
        receive_lines(log.with_name("none.jsonl"), 10, other[-1])
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
def test_what_is_no_chain_of_sealed_lines_is_refused(
    lines: list[bytes], log: Path, harm: object
) -> None:
    assert callable(harm)
    with pytest.raises((ValueError, RecursionError)):
        receive_lines(log, 0, harm(lines))
    assert not log.exists()


def test_half_a_line_that_a_crash_left_is_finished(lines: list[bytes], log: Path) -> None:
    whole = b"".join(lines)
    for cut in (1, 5, len(lines[-1]) - 1):
        log.write_bytes(whole[: size(lines[:-1]) + cut])
        end = read_log_end(log)
        assert end.size_bytes == size(lines[:-1])
        receive_lines(log, end.size_bytes, lines[-1])
        assert log.read_bytes() == whole


def test_bytes_that_were_never_a_line_are_put_aside(lines: list[bytes], log: Path) -> None:
    at = size(lines[:-1])
    log.write_bytes(b"".join(lines[:-1]) + b"\x00" * 10)
    receive_lines(log, at, lines[-1])
    assert log.read_bytes() == b"".join(lines)
    assert log.with_name(f"{log.name}.torn-{at}").read_bytes() == b"\x00" * 10


def test_a_log_that_another_writes_is_refused(lines: list[bytes], log: Path) -> None:
    receive_lines(log, 0, lines[0])
    other = LogFile(log)
    with pytest.raises(LogLocked):
        receive_lines(log, len(lines[0]), lines[1])
    other.close()
    receive_lines(log, len(lines[0]), lines[1])


def test_a_packed_log_goes_on(lines: list[bytes], log: Path) -> None:
    receive_lines(log, 0, b"".join(lines[:3]))
    compress_log(log)
    assert not log.exists()
    assert read_log_end(log).size_bytes == size(lines[:3])
    receive_lines(log, size(lines[:3]), b"".join(lines[3:]))
    assert log.read_bytes() == b"".join(lines)


def test_the_end_is_found_behind_a_line_of_any_length(tmp_path: Path, log: Path) -> None:
    first, own = seal(b"", b'{"a":"' + b"x" * 300_000 + b'"}')
    second, last = seal(own, b'{"a":"' + b"y" * 700_000 + b'"}')
    receive_lines(log, 0, first)
    assert read_log_end(log) == LogEnd(len(first), own)
    receive_lines(log, len(first), second)
    assert read_log_end(log) == LogEnd(len(first + second), last)


def test_an_older_log_is_none_that_can_be_added_to(lines: list[bytes], log: Path) -> None:
    log.write_bytes(b'{"type":"x"}\n')
    with pytest.raises(InvalidLog, match="without sums"):
        read_log_end(log)
    with pytest.raises(InvalidLog):
        receive_lines(log, 0, lines[0])
    log.unlink()
    log.mkdir()
    with pytest.raises(InvalidLog):
        read_log_end(log)


class FullDisk:
    """A disk on which there is no room for more than some bytes."""

    def write(self, fd: int, data: bytes) -> int:
        return os.write(fd, data[:7])

    def sync(self, fd: int) -> None:
        del fd

    def sync_folder(self, folder: Path) -> None:
        del folder


def test_what_a_full_disk_left_is_finished_later(lines: list[bytes], log: Path) -> None:
    receive_lines(log, 0, lines[0])
    with pytest.raises(LogWriteError):
        receive_lines(log, len(lines[0]), lines[1], disk=FullDisk())
    assert read_log_end(log).size_bytes == len(lines[0])
    receive_lines(log, len(lines[0]), lines[1])
    assert log.read_bytes() == lines[0] + lines[1]
