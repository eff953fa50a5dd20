"""Logs are copied to a folder of sessions once, complete, and without changes of other logs."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from harken.errors import InvalidLog, LogCorrupted, LogLocked, LogNotFound, LogWriteError
from harken.session.log.compress import compress_log
from harken.session.log.copy import LogCopy, LogFolder, is_session_log, verify_log
from harken.session.log.file import LogFile
from harken.session.session import Session
from tests.session_kit import create_agent, log_user_message, new_session, session_options


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "sessions"
    folder.mkdir()
    return folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A log, whose last group has three lines."""
    with new_session(tmp_path) as session:
        create_agent(session)
        log_group(session, "one", "two", "three")
    return session.path


def log_group(session: Session, *texts: str) -> None:
    with session.group():
        for text in texts:
            log_user_message(session, "agent_001", text)


def continue_log(path: Path, *texts: str) -> None:
    with Session.load(path, options=session_options()) as session:
        log_group(session, *texts)


def add(source: Path, folder: Path) -> LogCopy:
    return LogFolder(folder).add(verify_log(source), can_continue=True)


def names(folder: Path) -> Sequence[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_copy_has_all_bytes_and_only_its_owner_reads_it(source: Path, folder: Path) -> None:
    copy = add(source, folder)
    assert copy == LogCopy(folder / "s.jsonl", "added", source.stat().st_size)
    assert copy.path.read_bytes() == source.read_bytes()
    assert stat.S_IMODE(copy.path.stat().st_mode) == 0o600
    assert names(folder) == ["s.jsonl"]


def test_a_verified_log_is_described(source: Path) -> None:
    log = verify_log(source)
    assert (log.stem, log.events, log.session_id) == ("s", 5, "s")
    assert (log.is_sealed, log.is_torn, log.size_bytes) == (True, False, source.stat().st_size)


def test_the_same_log_is_recognized_under_any_name(source: Path, folder: Path) -> None:
    add(source, folder)
    (folder / "s.jsonl").rename(folder / "cafe.jsonl")
    assert add(source, folder) == LogCopy(folder / "cafe.jsonl", "none")
    compress_log(folder / "cafe.jsonl")
    assert add(source, folder) == LogCopy(folder / "cafe.jsonl", "none")
    assert names(folder) == ["cafe.jsonl.zst"]


def test_a_compressed_log_is_copied(source: Path, folder: Path) -> None:
    data = source.read_bytes()
    compress_log(source)
    assert add(source.with_name("s.jsonl.zst"), folder).path.read_bytes() == data


def test_new_lines_are_added_to_the_copy(source: Path, folder: Path) -> None:
    copy = add(source, folder)
    os.utime(copy.path, (1000, 1000))
    size_bytes = source.stat().st_size
    continue_log(source, "four", "five")
    new_bytes = source.stat().st_size - size_bytes
    assert add(source, folder) == LogCopy(copy.path, "continued", new_bytes)
    assert copy.path.read_bytes() == source.read_bytes()
    assert copy.path.stat().st_mtime == 1000  # It does not become the latest session.


def test_new_lines_are_not_added_where_existing_logs_must_not_change(
    source: Path, folder: Path
) -> None:
    data = add(source, folder).path.read_bytes()
    continue_log(source, "four")
    assert LogFolder(folder).add(verify_log(source)).path == folder / "s-2.jsonl"
    assert (folder / "s.jsonl").read_bytes() == data


def test_a_copy_that_was_continued_has_the_log(source: Path, folder: Path) -> None:
    copy = add(source, folder)
    continue_log(copy.path, "here")
    data = copy.path.read_bytes()
    assert add(source, folder) == LogCopy(copy.path, "none")
    assert copy.path.read_bytes() == data


def test_logs_that_were_continued_differently_are_both_kept(source: Path, folder: Path) -> None:
    copy = add(source, folder)
    continue_log(copy.path, "here")
    continue_log(source, "elsewhere")
    assert add(source, folder) == LogCopy(folder / "s-2.jsonl", "added", source.stat().st_size)
    assert add(source, folder).change == "none"
    assert names(folder) == ["s-2.jsonl", "s.jsonl"]


def test_another_log_of_that_name_is_kept(source: Path, folder: Path) -> None:
    with Session(folder / "s.jsonl", options=session_options()) as session:
        create_agent(session, name="Other")
    data = session.path.read_bytes()
    assert add(source, folder).path == folder / "s-2.jsonl"
    assert session.path.read_bytes() == data


def test_only_complete_groups_are_copied_at_every_byte(source: Path, folder: Path) -> None:
    data = source.read_bytes()
    lines = data.splitlines(keepends=True)
    ends = [len(b"".join(lines[:count])) for count in (1, 2, 5)]
    for end in range(ends[0], len(data)):
        source.write_bytes(data[:end])
        copy = add(source, folder)
        # A line that verifies without its newline was written completely.
        expected = max(stop for stop in ends if stop - 1 <= end)
        assert copy.path.read_bytes() == data[:expected]
    assert names(folder) == ["s.jsonl"]


def test_damage_is_reported_and_nothing_is_written(source: Path, folder: Path) -> None:
    source.write_bytes(source.read_bytes().replace(b"two", b"TWO"))
    with pytest.raises(LogCorrupted, match="line 4"):
        add(source, folder)
    assert names(folder) == []


def test_a_log_that_changes_while_it_is_copied_is_refused(source: Path, folder: Path) -> None:
    log = verify_log(source)
    source.write_bytes(source.read_bytes().replace(b"two", b"TWO"))
    with pytest.raises(InvalidLog, match="was changed while it was copied"):
        LogFolder(folder).add(log)
    assert names(folder) == []


def test_a_copy_that_is_being_written_is_not_continued(source: Path, folder: Path) -> None:
    copy = add(source, folder)
    continue_log(source, "four")
    with closing(LogFile(copy.path)), pytest.raises(LogLocked):
        add(source, folder)


def test_a_damaged_log_in_the_folder_does_not_matter(source: Path, folder: Path) -> None:
    (folder / "s.jsonl").write_bytes(source.read_bytes().replace(b"two", b"TWO"))
    (folder / "x.jsonl.zst").write_bytes(b"damaged")
    assert add(source, folder).path == folder / "s-2.jsonl"


def test_several_logs_are_added(tmp_path: Path, source: Path, folder: Path) -> None:
    other = tmp_path / "latest.jsonl"
    other.write_bytes(source.read_bytes())
    continue_log(other, "other")
    logs = LogFolder(folder)
    assert logs.add(verify_log(other)).path == folder / "latest-2.jsonl"
    assert logs.add(verify_log(source)) == LogCopy(folder / "latest-2.jsonl", "none")


def test_logs_are_told_from_other_files(tmp_path: Path, source: Path) -> None:
    assert is_session_log(source)
    source.write_bytes(source.read_bytes().replace(b"session_started", b"session_STARTED"))
    assert is_session_log(source)  # A damaged one is reported as a log.
    path = tmp_path / "other.jsonl"
    for text, expected in [
        ('{"event_type":"agent_created","message_id":"msg_001"}\n', True),
        ('{"type":"user","uuid":"c3"}\n', False),
        ("[1]\n", False),
        ("not JSON\n", False),
        ("", False),
    ]:
        path.write_text(text)
        assert is_session_log(path) == expected
    with pytest.raises(LogNotFound):
        is_session_log(tmp_path / "none.jsonl")


def test_long_continuation_is_copied_in_pieces(source: Path, folder: Path) -> None:
    """A piece has 4 MB, and ends with a group."""
    copy = add(source, folder)
    with Session.load(source, options=session_options()) as session:
        for number in range(6):
            log_group(session, f"{number} " + "x" * 1_000_000, "y" * 1_000_000)
    result = add(source, folder)
    assert result.change == "continued"
    assert copy.path.read_bytes() == source.read_bytes()


@pytest.mark.parametrize("is_continued", [True, False])
def test_newline_that_the_last_line_lacks_is_added(
    source: Path, folder: Path, is_continued: bool
) -> None:
    if is_continued:
        add(source, folder)
        continue_log(source, "four")
    data = source.read_bytes()
    source.write_bytes(data[:-1])
    copy = add(source, folder)
    assert copy.path.read_bytes() == data
    assert verify_log(copy.path).size_bytes == len(data)


@pytest.mark.parametrize(
    ("name", "copied"),
    [
        ("latest.jsonl", "latest-2.jsonl"),
        ("LATEST.jsonl", "LATEST-2.jsonl"),
        ("latest-1.jsonl", "latest-1.jsonl"),
        ("x" * 100 + ".jsonl", "x" * 100 + ".jsonl"),
        ("x" * 101 + ".jsonl", "x" * 100 + ".jsonl"),
        ("a:b.jsonl", "a_b.jsonl"),
        ("-a.jsonl", "a.jsonl"),
        ("....jsonl", "session.jsonl"),
    ],
)
def test_a_copy_has_a_name_that_every_file_system_allows(
    source: Path, folder: Path, name: str, copied: str
) -> None:
    assert add(source.rename(source.with_name(name)), folder).path.name == copied


def test_names_that_exist_in_any_form_are_not_used(source: Path, folder: Path) -> None:
    (folder / "s.jsonl").symlink_to(folder / "nowhere")
    (folder / "s-2.jsonl.zst").write_bytes(b"packed")
    (folder / "s-3.jsonl.gz").write_bytes(b"packed")
    (folder / ".s-4.jsonl.partial").write_bytes(b"left by a crash")
    assert add(source, folder).path.name == "s-4.jsonl"
    assert not (folder / ".s-4.jsonl.partial").exists()


def test_a_copy_that_cannot_be_written_leaves_nothing(source: Path, folder: Path) -> None:
    log = verify_log(source)
    target = LogFolder(folder)
    folder.rmdir()
    with pytest.raises(LogWriteError, match="No such file"):
        target.add(log)


def test_a_copy_is_older_than_the_logs_of_the_folder(source: Path, folder: Path) -> None:
    """The default session to resume is the one that was written last."""
    (folder / "own.jsonl").write_bytes(b"")
    os.utime(folder / "own.jsonl", (1000, 1000))
    assert add(source, folder).path.stat().st_mtime == 999


def test_a_copy_has_the_time_of_its_last_event(source: Path, folder: Path) -> None:
    log = verify_log(source)
    copy = add(source, folder)
    assert copy.path.stat().st_mtime == pytest.approx(log.ended_us / 1e6, abs=1e-3)
    continue_log(source, "four")
    assert add(source, folder).path.stat().st_mtime == pytest.approx(log.ended_us / 1e6, abs=1e-3)


def test_the_longest_copy_is_continued(source: Path, folder: Path) -> None:
    first = add(source, folder).path
    continue_log(source, "four")
    second = folder / "other.jsonl"
    second.write_bytes(source.read_bytes())
    continue_log(source, "five")
    before, size = first.read_bytes(), second.stat().st_size
    result = LogFolder(folder).add(verify_log(source), can_continue=True)
    assert result == LogCopy(second, "continued", source.stat().st_size - size)
    assert second.read_bytes() == source.read_bytes()
    assert first.read_bytes() == before
