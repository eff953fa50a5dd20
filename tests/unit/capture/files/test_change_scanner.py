"""Detection of files that other programs change."""

from __future__ import annotations

import os
from pathlib import Path

from harken.capture.files import change_scanner
from harken.capture.files.change_scanner import ChangeScanner, WatchedPath


def write(path: Path, text: str = "x\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(text)
    return path


def test_scan_all_returns_every_file_then_only_changed_files(tmp_path: Path) -> None:
    one, other = write(tmp_path / "a" / "1.jsonl"), write(tmp_path / "b" / "c" / "2.jsonl")
    write(tmp_path / "a" / "notes.txt")
    seen = ChangeScanner([WatchedPath(tmp_path, "*.jsonl")])
    assert sorted(seen.scan_all()) == [one, other]
    assert seen.scan_all() == []
    write(one)
    assert seen.scan_all() == [one]


def test_scan_recent_returns_grown_files_and_their_new_siblings(tmp_path: Path) -> None:
    one = write(tmp_path / "a" / "1.jsonl")
    seen = ChangeScanner([WatchedPath(tmp_path, "*.jsonl")])
    seen.scan_all()
    assert seen.scan_recent() == []
    write(one)
    assert seen.scan_recent() == [one]
    two = write(tmp_path / "a" / "2.jsonl")
    assert seen.scan_recent() == [two]
    write(two)
    assert seen.scan_recent() == [two]
    three = write(tmp_path / "b" / "sub" / "3.jsonl")
    assert seen.scan_recent() == [three]


def test_scan_recent_covers_all_matching_files_of_a_folder(tmp_path: Path) -> None:
    write(tmp_path / "a" / "1.jsonl")
    seen = ChangeScanner([WatchedPath(tmp_path, "*.jsonl"), WatchedPath(tmp_path, "session-*")])
    seen.scan_all()
    new = [write(tmp_path / "a" / name) for name in ("2.jsonl", "session-3.json")]
    assert sorted(seen.scan_recent()) == new


def test_scan_ignores_pipes(tmp_path: Path) -> None:
    """Opening a pipe would block until another process writes to it."""
    os.mkfifo(tmp_path / "1.jsonl")
    seen = ChangeScanner([WatchedPath(tmp_path, "*.jsonl")])
    assert seen.scan_all() == []
    assert seen.scan_recent() == []


def test_scan_all_returns_changes_of_old_files(tmp_path: Path) -> None:
    files = [
        write(tmp_path / f"{at}" / "x.jsonl") for at in range(change_scanner.MAX_RECENT_PATHS + 20)
    ]
    for at, file in enumerate(files):
        os.utime(file, (at + 1, at + 1))
        os.utime(file.parent, (at + 1, at + 1))
    seen = ChangeScanner([WatchedPath(tmp_path, "*.jsonl")])
    seen.scan_all()
    with files[0].open("a") as file_:
        file_.write("more\n")
    assert seen.scan_recent() == []
    assert seen.scan_all() == [files[0]]
    write(files[0])
    assert seen.scan_recent() == [files[0]]


def test_scan_watches_a_single_file_before_it_exists(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    seen = ChangeScanner(
        [WatchedPath(path), WatchedPath(tmp_path / "nowhere" / "folder", "*.jsonl")]
    )
    assert seen.scan_all() == []
    write(path)
    assert seen.scan_recent() == [path]
    write(tmp_path / "other.jsonl")
    assert seen.scan_all() == []


def test_scan_treats_a_changed_wal_as_a_changed_database(tmp_path: Path) -> None:
    path = write(tmp_path / "opencode.db")
    seen = ChangeScanner([WatchedPath(tmp_path, "opencode*.db")])
    assert seen.scan_all() == [path]
    write(tmp_path / "opencode.db-wal")
    assert seen.scan_recent() == [path]


def test_scan_skips_folder_links_and_missing_files(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    one = write(folder / "1.jsonl")
    (folder / "round").symlink_to(folder)
    (folder / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    seen = ChangeScanner([WatchedPath(folder, "*.jsonl")])
    assert seen.scan_all() == [one]
    one.unlink()
    assert seen.scan_recent() == []
    assert seen.scan_all() == []
