"""Compressed logs: read, resumed and purged like plain ones, and complete at every moment."""

from __future__ import annotations

import gzip
import multiprocessing
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from harken.context.purge import PurgeRequest, find_text, purge_text
from harken.core.ids import AgentId
from harken.core.secrets.removal import Secret
from harken.errors import HarkenError, InvalidLog, LogLocked, LogNotFound, LogWriteError
from harken.session.log.compress import compress_log, decompress_log
from harken.session.log.compressed import (
    find_packs,
    is_packed,
    log_path,
    open_packed,
    restore_plain_log,
    stat_log,
)
from harken.session.log.file import LogFile
from harken.session.log.reader import LogReadReport, find_mentioned_names, iter_events, open_log
from harken.session.session import Session
from harken.session.verify import verify
from harken.store.memory import MemoryStore
from harken.testing import FailingDisk, RecordingDisk, faults
from harken.views.viewer import SessionViewer
from tests.session_kit import (
    create_agent,
    log_turn,
    log_user_message,
    read_message_ids,
    session_options,
)

ROOT = AgentId("agent_001")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of twenty turns."""
    path = tmp_path / "s.jsonl"
    with Session(path, options=session_options()) as session:
        create_agent(session)
        for number in range(1, 21):
            log_turn(session, ROOT, number)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    return path


def by_hand(path: Path) -> Path:
    """Compress a log as `gzip` does."""
    target = path.with_name(f"{path.name}.gz")
    target.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    return target


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def by_us(path: Path) -> Path:
    return compress_log(path).path


@pytest.mark.req("S3-31")
@pytest.mark.parametrize("way", [by_us, by_hand])
def test_compressed_log_is_read_under_its_own_name(log: Path, way: Callable[[Path], Path]) -> None:
    before, events_read, viewed = (
        log.read_bytes(),
        list(iter_events(log)),
        len(SessionViewer(log).events.events),
    )
    compressed = way(log)
    assert not log.exists()
    assert compressed.stat().st_size < len(before) / 4
    reading = LogReadReport()
    assert list(iter_events(log, reading)) == list(iter_events(compressed)) == events_read
    assert (reading.sealed, reading.torn, reading.end) == (True, b"", len(before))
    assert len(SessionViewer(log).events.events) == viewed
    assert (verify(log), find_mentioned_names(log)) == ([], set())
    assert stat_log(log).size_bytes == len(before)
    with open_log(log) as file:
        assert file.read() == before
        for index in (5, 3000, 7, 0):
            file.seek(index)
            assert (file.tell(), file.read(20)) == (index, before[index : index + 20])
        assert file.seek(-10, os.SEEK_END) == len(before) - 10
        file.seek(-5, os.SEEK_CUR)
        assert file.read() == before[-15:]


@pytest.mark.req("S3-31")
@pytest.mark.parametrize("way", [by_us, by_hand])
def test_session_resumes_a_compressed_log(log: Path, way: Callable[[Path], Path]) -> None:
    known_ids = read_message_ids(log)
    way(log)
    with Session.load(log, options=session_options()) as session:
        log_user_message(session, ROOT, "go on")
    assert read_message_ids(log) == [*known_ids, read_message_ids(log)[-1]]
    assert not is_packed(log)
    assert verify(log) == []


def test_compressed_file_is_private_and_keeps_the_mtime(log: Path) -> None:
    result = compress_log(log)
    status = result.path.stat()
    assert stat.S_IMODE(status.st_mode) == 0o600
    assert status.st_mtime == 1_700_000_000
    assert (result.before_bytes, result.after_bytes) == (stat_log(log).size_bytes, status.st_size)
    assert stat_log(log).disk_bytes == status.st_size
    assert names_in(log.parent) == ["s.jsonl.zst"]
    restored = decompress_log(log)
    assert log.stat().st_mtime == 1_700_000_000
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert (restored.before_bytes, restored.after_bytes) == (
        result.after_bytes,
        result.before_bytes,
    )
    assert names_in(log.parent) == ["s.jsonl"]


def test_compressing_twice_changes_nothing(log: Path) -> None:
    compressed = compress_log(log).path
    before = compressed.read_bytes()
    assert compress_log(log).path == compressed
    assert compressed.read_bytes() == before


def test_damaged_or_torn_log_is_compressed_unchanged(log: Path) -> None:
    broken = log.read_bytes()[:-30].replace(b"hello", b"hallo")
    log.write_bytes(broken)
    compress_log(log)
    with open_log(log) as file:
        assert file.read() == broken


def test_locked_log_is_not_compressed(log: Path) -> None:
    before = log.read_bytes()
    with Session.load(log, options=session_options()), pytest.raises(LogLocked):
        compress_log(log)
    assert log.read_bytes() == before


def test_missing_or_empty_log_is_not_compressed(tmp_path: Path) -> None:
    for act in (compress_log, decompress_log):
        with pytest.raises(LogNotFound):
            act(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(InvalidLog, match="is empty"):
        compress_log(tmp_path / "empty.jsonl")
    assert names_in(tmp_path) == ["empty.jsonl"]


@pytest.mark.req("S3-31")
def test_fault_during_compression_or_decompression_loses_nothing(tmp_path: Path, log: Path) -> None:
    before = log.read_bytes()
    for act in (compress_log, decompress_log):
        disk = RecordingDisk()
        act(log, disk=disk)
        act_back = decompress_log if act is compress_log else compress_log
        act_back(log)
        for index, fault in faults(disk.operations):
            failing = FailingDisk(fail_at=index, fault=fault)
            with pytest.raises(LogWriteError):
                act(log, disk=failing)
            with open_log(log) as file:
                assert file.read() == before
            act_back(log)
            assert not [name for name in names_in(tmp_path) if name.startswith(".")]
        if act is compress_log:
            compress_log(log)


def test_plain_log_wins_if_a_crash_left_both(log: Path) -> None:
    compressed = compress_log(log).path
    old = compressed.read_bytes()
    with Session.load(log, options=session_options()) as session:
        log_user_message(session, ROOT, "more")
    compressed.write_bytes(old)
    now = log.read_bytes()
    assert len(list(iter_events(log))) == now.count(b"\n")
    LogFile(log).close()
    assert (log.read_bytes(), is_packed(log)) == (now, False)


def test_foreign_compressed_file_beside_a_log_is_renamed(log: Path) -> None:
    before = log.read_bytes()
    zstd_path = log.with_name("s.jsonl.zst")
    zstd_path.write_bytes(zstandard.compress(b'{"other":1}\n'))
    log.with_name("s-2.jsonl").write_bytes(b"taken")
    LogFile(log).close()
    assert log.read_bytes() == before
    assert not zstd_path.exists()
    with open_log(log.with_name("s-3.jsonl")) as file:
        assert file.read() == b'{"other":1}\n'
    zstd_path.write_bytes(b"no pack at all")
    LogFile(log).close()
    assert log.with_name("s-4.jsonl.zst").read_bytes() == b"no pack at all"


def test_empty_log_beside_a_compressed_one_is_replaced(log: Path) -> None:
    """A writer opened a new file under the name just when the log was compressed."""
    before = log.read_bytes()
    compress_log(log)
    log.touch()
    with Session.load(log, options=session_options()) as session:
        assert session.path.read_bytes() == before


def test_log_compressed_just_before_opening_is_decompressed(log: Path) -> None:
    """The log was plain when it was looked up and gone when it was opened."""
    before = log.read_bytes()
    full_data = compress_log(log).path.read_bytes()

    class Meanwhile(RecordingDisk):
        has_packed = False

        def sync_folder(self, folder: Path) -> None:
            if not self.has_packed:  # the last step of decompression, raced by a compressor
                self.has_packed = True
                log.with_name("s.jsonl.zst").write_bytes(full_data)
                log.unlink()

    file = LogFile(log, disk=Meanwhile())
    file.close()
    assert (log.read_bytes(), is_packed(log)) == (before, False)


def test_dangling_link_beside_a_compressed_log_is_no_log(log: Path, tmp_path: Path) -> None:
    compress_log(log)
    log.symlink_to(tmp_path / "nowhere")
    with pytest.raises(LogNotFound):
        LogFile(log)


def _write_and_pack(path: Path, started_at: float, failures: multiprocessing.Queue[str]) -> None:
    for number in range(20):
        try:
            if number % 2:
                compress_log(path)
            else:
                with Session.load(path, options=session_options()) as session:
                    log_user_message(session, ROOT, f"{os.getpid()}-{number}")
        except LogLocked:
            continue
        except HarkenError as error:  # pragma: no cover - this must not happen
            failures.put(repr(error))


@pytest.mark.req("S3-31")
def test_concurrent_writers_and_compressors_lose_nothing(log: Path) -> None:
    known_ids = read_message_ids(log)
    several = multiprocessing.get_context("spawn")
    failures = several.Queue()
    crowd = [several.Process(target=_write_and_pack, args=(log, 0.0, failures)) for _ in range(3)]
    for process in crowd:
        process.start()
    for process in crowd:
        process.join()
    assert failures.empty(), failures.get()
    assert verify(log) == []
    assert read_message_ids(log)[: len(known_ids)] == known_ids
    assert len(read_message_ids(log)) > len(known_ids)


def _pack_forever(path: Path) -> None:
    while True:
        compress_log(path)
        decompress_log(path)


@pytest.mark.req("S3-31")
@pytest.mark.parametrize("times", [6, pytest.param(60, marks=pytest.mark.full)])
def test_kill_during_compression_leaves_a_complete_log(log: Path, times: int) -> None:
    before = log.read_bytes()
    several = multiprocessing.get_context("spawn")
    for number in range(times):
        process = several.Process(target=_pack_forever, args=(log,))
        process.start()
        process.join(0.6 + 0.013 * (number % 7))
        process.kill()
        process.join()
        with open_log(log) as file:
            assert file.read() == before


@pytest.mark.req("S3-31")
@pytest.mark.parametrize("way", [by_us, by_hand])
def test_damaged_compressed_file_is_an_error_on_one_line(
    log: Path, way: Callable[[Path], Path]
) -> None:
    full_data = log.read_bytes()
    compressed = way(log)
    data = compressed.read_bytes()
    for harm in (
        data[:-12],
        data[: len(data) // 2],
        data[:1],
        b"",
        b"no pack",
        data[:40] + bytes([data[40] ^ 1]) + data[41:],
        data[:-3] + b"\0\0\0",
    ):
        compressed.write_bytes(harm)
        for read_log in (
            lambda: list(iter_events(log)),
            lambda: verify(log),
            lambda: Session.load(log),
        ):
            with pytest.raises((InvalidLog, LogWriteError), match=r"damaged|is empty") as error:
                read_log()
            assert str(error.value).count("\n") == 0
        assert stat_log(log).size_bytes >= 0
        assert compressed.read_bytes() == harm
        assert not log.exists()
    compressed.write_bytes(data)
    with open_log(log) as file:
        assert file.read() == full_data


def test_decompression_bomb_is_refused(tmp_path: Path) -> None:
    bomb = tmp_path / "s.jsonl.zst"
    packer = zstandard.ZstdCompressor(level=19).compressobj()
    with bomb.open("wb") as file:
        for _ in range(300):
            file.write(packer.compress(bytes(1 << 20)))
        file.write(packer.flush())
    decompressed = open_packed(bomb)
    assert decompressed is not None
    with pytest.raises(InvalidLog, match="made to fill the disk"), decompressed:
        while decompressed.read(1 << 20):
            pass


def test_unreadable_compressed_file_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "f.jsonl.zst"
    folder.mkdir()
    assert find_packs(tmp_path / "f.jsonl") == []
    with pytest.raises(InvalidLog, match="is a folder"):
        open_log(folder)
    with pytest.raises(LogNotFound):
        open_log(tmp_path / "none.jsonl.zst")
    with pytest.raises(FileNotFoundError):
        stat_log(tmp_path / "none.jsonl")


def test_frame_without_content_size_is_read(log: Path) -> None:
    full_data = log.read_bytes()
    packer = zstandard.ZstdCompressor().compressobj()
    log.with_name("s.jsonl.zst").write_bytes(packer.compress(full_data) + packer.flush())
    log.unlink()
    with open_log(log) as file:
        assert file.read() == full_data
    assert stat_log(log).size_bytes == stat_log(log).disk_bytes


def test_compressed_names_map_to_their_logs() -> None:
    names = {
        "a.jsonl.zst": "a.jsonl",
        "a.jsonl.gz": "a.jsonl",
        "a.jsonl": "a.jsonl",
        "a.zst": "a.zst",
    }
    assert {name: log_path(Path(name)).name for name in names} == names


@pytest.mark.req("S3-31")
def test_text_is_purged_from_a_compressed_log(log: Path) -> None:
    with Session.load(log, options=session_options()) as session:
        log_user_message(session, ROOT, "the word is rosebud")
    compress_log(log)
    secret = Secret("rosebud")
    store = MemoryStore()
    assert len(find_text(store, [log], secret)) == 1
    purge_text(store, [log], PurgeRequest(secret=secret, by="me", why=""))
    assert find_text(store, [log], secret) == []
    assert not is_packed(log)
    assert b"rosebud" not in log.read_bytes()


def test_concurrent_decompressions_are_safe(log: Path) -> None:
    """The later process sees the plain log and replaces nothing."""
    before = log.read_bytes()
    compress_log(log)
    disk = RecordingDisk()

    class Late(RecordingDisk):
        def sync(self, fd: int) -> None:
            restore_plain_log(log, disk)
            log.write_bytes(before + b"more")

    restore_plain_log(log, Late())
    assert log.read_bytes() == before + b"more"
