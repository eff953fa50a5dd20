"""A log gets another name in its folder: plain or compressed, and never that of another log."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.errors import LogLocked, LogNotFound, LogWriteError
from harken.session.log.compress import compress_log
from harken.session.rename import rename_log
from harken.session.session import Session
from tests.session_kit import create_agent, new_session, session_options


@pytest.fixture
def log(tmp_path: Path) -> Path:
    with new_session(tmp_path) as session:
        create_agent(session)
    return session.path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".pid"))


def test_plain_log_is_renamed_unchanged(log: Path, tmp_path: Path) -> None:
    data = log.read_bytes()
    target = rename_log(log, "new.name")
    assert target == tmp_path / "new.name.jsonl"
    assert target.read_bytes() == data
    assert names(tmp_path) == ["new.name.jsonl"]
    Session.load(target, options=session_options()).close()


def test_compressed_log_is_renamed(log: Path, tmp_path: Path) -> None:
    compress_log(log)
    (tmp_path / "s.jsonl.gz").write_bytes(b"older")
    assert rename_log(log, "new") == tmp_path / "new.jsonl"
    assert names(tmp_path) == ["new.jsonl.gz", "new.jsonl.zst"]


@pytest.mark.parametrize("end", ["", ".zst", ".gz"])
def test_existing_log_is_not_replaced(log: Path, tmp_path: Path, end: str) -> None:
    (tmp_path / f"new.jsonl{end}").write_bytes(b"taken")
    with pytest.raises(LogWriteError, match=r"renaming: new\.jsonl exists"):
        rename_log(log, "new")
    assert names(tmp_path) == sorted(["s.jsonl", f"new.jsonl{end}"])
    assert (tmp_path / f"new.jsonl{end}").read_bytes() == b"taken"


def test_dangling_link_is_not_replaced(log: Path, tmp_path: Path) -> None:
    (tmp_path / "new.jsonl").symlink_to(tmp_path / "nowhere")
    with pytest.raises(LogWriteError, match="exists"):
        rename_log(log, "new")


def test_missing_log_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LogNotFound):
        rename_log(tmp_path / "none.jsonl", "new")


def test_log_that_is_written_is_not_renamed(log: Path, tmp_path: Path) -> None:
    with Session.load(log, options=session_options()), pytest.raises(LogLocked):
        rename_log(log, "new")
    rename_log(log, "new")
    assert names(tmp_path) == ["new.jsonl"]


def test_name_that_the_folder_cannot_have_is_an_error(log: Path, tmp_path: Path) -> None:
    with pytest.raises(LogWriteError, match="renaming: "):
        rename_log(log, "x" * 300)
    assert names(tmp_path) == ["s.jsonl"]
