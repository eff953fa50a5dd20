"""Packed logs: read, resumed, purged as before; whole at every moment."""

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
from harken.core.replace import Secret
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
    """Pack a log as `gzip` does."""
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
def test_a_packed_log_is_read_under_its_own_name(log: Path, way: Callable[[Path], Path]) -> None:
    before, read, viewed = (
        log.read_bytes(),
        list(iter_events(log)),
        len(SessionViewer(log).events.events),
    )
    packed = way(log)
    assert not log.exists()
    assert packed.stat().st_size < len(before) / 4
    reading = LogReadReport()
    assert list(iter_events(log, reading)) == list(iter_events(packed)) == read
    assert (reading.sealed, reading.torn, reading.end) == (True, b"", len(before))
    assert len(SessionViewer(log).events.events) == viewed
    assert (verify(log), find_mentioned_names(log)) == ([], set())
    assert stat_log(log).size_bytes == len(before)
    with open_log(log) as file:
        assert file.read() == before
        for at in (5, 3000, 7, 0):
            file.seek(at)
            assert (file.tell(), file.read(20)) == (at, before[at : at + 20])
        assert file.seek(-10, os.SEEK_END) == len(before) - 10
        file.seek(-5, os.SEEK_CUR)
        assert file.read() == before[-15:]


@pytest.mark.req("S3-31")
@pytest.mark.parametrize("way", [by_us, by_hand])
def test_a_session_goes_on_with_a_packed_log(log: Path, way: Callable[[Path], Path]) -> None:
    known = read_message_ids(log)
    way(log)
    with Session.load(log, options=session_options()) as session:
        log_user_message(session, ROOT, "go on")
    assert read_message_ids(log) == [*known, read_message_ids(log)[-1]]
    assert not is_packed(log)
    assert verify(log) == []


def test_a_pack_is_for_its_owner_only_and_as_old_as_its_log(log: Path) -> None:
    done = compress_log(log)
    found = done.path.stat()
    assert stat.S_IMODE(found.st_mode) == 0o600
    assert found.st_mtime == 1_700_000_000
    assert (done.before_bytes, done.after_bytes) == (stat_log(log).size_bytes, found.st_size)
    assert stat_log(log).disk_bytes == found.st_size
    assert names_in(log.parent) == ["s.jsonl.zst"]
    again = decompress_log(log)
    assert log.stat().st_mtime == 1_700_000_000
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert (again.before_bytes, again.after_bytes) == (done.after_bytes, done.before_bytes)
    assert names_in(log.parent) == ["s.jsonl"]


def test_packing_twice_changes_nothing(log: Path) -> None:
    packed = compress_log(log).path
    before = packed.read_bytes()
    assert compress_log(log).path == packed
    assert packed.read_bytes() == before


def test_what_is_damaged_or_torn_is_packed_as_it_is(log: Path) -> None:
    broken = log.read_bytes()[:-30].replace(b"hello", b"hallo")
    log.write_bytes(broken)
    compress_log(log)
    with open_log(log) as file:
        assert file.read() == broken


def test_a_log_that_is_being_written_is_not_packed(log: Path) -> None:
    before = log.read_bytes()
    with Session.load(log, options=session_options()), pytest.raises(LogLocked):
        compress_log(log)
    assert log.read_bytes() == before


def test_what_is_not_there_or_empty_is_not_packed(tmp_path: Path) -> None:
    for act in (compress_log, decompress_log):
        with pytest.raises(LogNotFound):
            act(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(InvalidLog, match="is empty"):
        compress_log(tmp_path / "empty.jsonl")
    assert names_in(tmp_path) == ["empty.jsonl"]


@pytest.mark.req("S3-31")
def test_a_fault_while_packing_or_unpacking_loses_nothing(tmp_path: Path, log: Path) -> None:
    before = log.read_bytes()
    for act in (compress_log, decompress_log):
        disk = RecordingDisk()
        act(log, disk=disk)
        act_back = decompress_log if act is compress_log else compress_log
        act_back(log)
        for at, fault in faults(disk.operations):
            failing = FailingDisk(fail_at=at, fault=fault)
            with pytest.raises(LogWriteError):
                act(log, disk=failing)
            with open_log(log) as file:
                assert file.read() == before
            act_back(log)
            assert not [name for name in names_in(tmp_path) if name.startswith(".")]
        if act is compress_log:
            compress_log(log)


def test_where_a_crash_left_both_the_plain_log_counts(log: Path) -> None:
    packed = compress_log(log).path
    old = packed.read_bytes()
    with Session.load(log, options=session_options()) as session:
        log_user_message(session, ROOT, "more")
    packed.write_bytes(old)
    now = log.read_bytes()
    assert len(list(iter_events(log))) == now.count(b"\n")
    LogFile(log).close()
    assert (log.read_bytes(), is_packed(log)) == (now, False)


def test_a_pack_of_something_else_beside_a_log_gets_a_name_of_its_own(log: Path) -> None:
    before = log.read_bytes()
    beside = log.with_name("s.jsonl.zst")
    beside.write_bytes(zstandard.compress(b'{"other":1}\n'))
    log.with_name("s-2.jsonl").write_bytes(b"taken")
    LogFile(log).close()
    assert log.read_bytes() == before
    assert not beside.exists()
    with open_log(log.with_name("s-3.jsonl")) as file:
        assert file.read() == b'{"other":1}\n'
    beside.write_bytes(b"no pack at all")
    LogFile(log).close()
    assert log.with_name("s-4.jsonl.zst").read_bytes() == b"no pack at all"


def test_an_empty_log_that_hides_a_pack_makes_way_for_it(log: Path) -> None:
    """A writer opened a new file under the name, just when the log was packed."""
    before = log.read_bytes()
    compress_log(log)
    log.touch()
    with Session.load(log, options=session_options()) as session:
        assert session.path.read_bytes() == before


def test_a_log_that_was_packed_just_before_it_is_opened_is_unpacked(log: Path) -> None:
    """It was plain when one looked, and gone when one opened it."""
    before = log.read_bytes()
    whole = compress_log(log).path.read_bytes()

    class Meanwhile(RecordingDisk):
        has_packed = False

        def sync_folder(self, folder: Path) -> None:
            if not self.has_packed:  # the last step of unpacking: a packer is as fast
                self.has_packed = True
                log.with_name("s.jsonl.zst").write_bytes(whole)
                log.unlink()

    file = LogFile(log, disk=Meanwhile())
    file.close()
    assert (log.read_bytes(), is_packed(log)) == (before, False)


def test_a_link_to_nowhere_beside_a_pack_is_no_log(log: Path, tmp_path: Path) -> None:
    compress_log(log)
    log.symlink_to(tmp_path / "nowhere")
    with pytest.raises(LogNotFound):
        LogFile(log)


def _write_and_pack(path: Path, begun: float, failures: multiprocessing.Queue[str]) -> None:
    for number in range(20):
        try:
            if number % 2:
                compress_log(path)
            else:
                with Session.load(path, options=session_options()) as session:
                    log_user_message(session, ROOT, f"{os.getpid()}-{number}")
        except LogLocked:
            continue
        except HarkenError as error:  # pragma: no cover - this is what must not be
            failures.put(repr(error))


@pytest.mark.req("S3-31")
def test_writers_and_packers_at_once_lose_nothing(log: Path) -> None:
    known = read_message_ids(log)
    several = multiprocessing.get_context("spawn")
    failures = several.Queue()
    crowd = [several.Process(target=_write_and_pack, args=(log, 0.0, failures)) for _ in range(3)]
    for one in crowd:
        one.start()
    for one in crowd:
        one.join()
    assert failures.empty(), failures.get()
    assert verify(log) == []
    assert read_message_ids(log)[: len(known)] == known
    assert len(read_message_ids(log)) > len(known)


def _pack_forever(path: Path) -> None:
    while True:
        compress_log(path)
        decompress_log(path)


@pytest.mark.req("S3-31")
@pytest.mark.parametrize("times", [6, pytest.param(60, marks=pytest.mark.full)])
def test_a_kill_while_packing_leaves_a_whole_log(log: Path, times: int) -> None:
    before = log.read_bytes()
    several = multiprocessing.get_context("spawn")
    for number in range(times):
        one = several.Process(target=_pack_forever, args=(log,))
        one.start()
        one.join(0.6 + 0.013 * (number % 7))
        one.kill()
        one.join()
        with open_log(log) as file:
            assert file.read() == before


@pytest.mark.req("S3-31")
@pytest.mark.parametrize("way", [by_us, by_hand])
def test_a_damaged_pack_is_one_clear_line(log: Path, way: Callable[[Path], Path]) -> None:
    whole = log.read_bytes()
    packed = way(log)
    data = packed.read_bytes()
    for harm in (
        data[:-12],
        data[: len(data) // 2],
        data[:1],
        b"",
        b"no pack",
        data[:40] + bytes([data[40] ^ 1]) + data[41:],
        data[:-3] + b"\0\0\0",
    ):
        packed.write_bytes(harm)
        for read in (
            lambda: list(iter_events(log)),
            lambda: verify(log),
            lambda: Session.load(log),
        ):
            with pytest.raises((InvalidLog, LogWriteError), match=r"damaged|is empty") as error:
                read()
            assert str(error.value).count("\n") == 0
        assert stat_log(log).size_bytes >= 0
        assert packed.read_bytes() == harm
        assert not log.exists()
    packed.write_bytes(data)
    with open_log(log) as file:
        assert file.read() == whole


def test_what_unpacks_without_end_is_refused(tmp_path: Path) -> None:
    bomb = tmp_path / "s.jsonl.zst"
    packer = zstandard.ZstdCompressor(level=19).compressobj()
    with bomb.open("wb") as file:
        for _ in range(300):
            file.write(packer.compress(bytes(1 << 20)))
        file.write(packer.flush())
    opened = open_packed(bomb)
    assert opened is not None
    with pytest.raises(InvalidLog, match="made to fill the disk"), opened:
        while opened.read(1 << 20):
            pass


def test_a_pack_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "f.jsonl.zst"
    folder.mkdir()
    assert find_packs(tmp_path / "f.jsonl") == []
    with pytest.raises(InvalidLog, match="is a folder"):
        open_log(folder)
    with pytest.raises(LogNotFound):
        open_log(tmp_path / "none.jsonl.zst")
    with pytest.raises(FileNotFoundError):
        stat_log(tmp_path / "none.jsonl")


def test_a_frame_that_does_not_say_its_size_is_read(log: Path) -> None:
    whole = log.read_bytes()
    packer = zstandard.ZstdCompressor().compressobj()
    log.with_name("s.jsonl.zst").write_bytes(packer.compress(whole) + packer.flush())
    log.unlink()
    with open_log(log) as file:
        assert file.read() == whole
    assert stat_log(log).size_bytes == stat_log(log).disk_bytes


def test_names_of_packs_lead_to_their_logs() -> None:
    names = {
        "a.jsonl.zst": "a.jsonl",
        "a.jsonl.gz": "a.jsonl",
        "a.jsonl": "a.jsonl",
        "a.zst": "a.zst",
    }
    assert {name: log_path(Path(name)).name for name in names} == names


@pytest.mark.req("S3-31")
def test_a_text_is_purged_from_a_packed_log(log: Path) -> None:
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


def test_two_may_unpack_at_once(log: Path) -> None:
    """Whoever is later finds the plain log, and replaces nothing."""
    before = log.read_bytes()
    compress_log(log)
    disk = RecordingDisk()

    class Late(RecordingDisk):
        def sync(self, fd: int) -> None:
            restore_plain_log(log, disk)
            log.write_bytes(before + b"more")

    restore_plain_log(log, Late())
    assert log.read_bytes() == before + b"more"
