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
    first, second = write(tmp_path / "a" / "1.jsonl"), write(tmp_path / "b" / "c" / "2.jsonl")
    write(tmp_path / "a" / "notes.txt")
    scanner = ChangeScanner([WatchedPath(tmp_path, "*.jsonl")])
    assert sorted(scanner.scan_all()) == [first, second]
    assert scanner.scan_all() == []
    write(first)
    assert scanner.scan_all() == [first]


def test_scan_recent_returns_grown_files_and_their_new_siblings(tmp_path: Path) -> None:
    first = write(tmp_path / "a" / "1.jsonl")
    scanner = ChangeScanner([WatchedPath(tmp_path, "*.jsonl")])
    scanner.scan_all()
    assert scanner.scan_recent() == []
    write(first)
    assert scanner.scan_recent() == [first]
    two = write(tmp_path / "a" / "2.jsonl")
    assert scanner.scan_recent() == [two]
    write(two)
    assert scanner.scan_recent() == [two]
    three = write(tmp_path / "b" / "sub" / "3.jsonl")
    assert scanner.scan_recent() == [three]


def test_scan_recent_covers_all_matching_files_of_a_folder(tmp_path: Path) -> None:
    write(tmp_path / "a" / "1.jsonl")
    scanner = ChangeScanner([WatchedPath(tmp_path, "*.jsonl"), WatchedPath(tmp_path, "session-*")])
    scanner.scan_all()
    new = [write(tmp_path / "a" / name) for name in ("2.jsonl", "session-3.json")]
    assert sorted(scanner.scan_recent()) == new


def test_scan_ignores_pipes(tmp_path: Path) -> None:
    """Opening a pipe would block until another process writes to it."""
    os.mkfifo(tmp_path / "1.jsonl")
    scanner = ChangeScanner([WatchedPath(tmp_path, "*.jsonl")])
    assert scanner.scan_all() == []
    assert scanner.scan_recent() == []


def test_scan_all_returns_changes_of_old_files(tmp_path: Path) -> None:
    files = [
        write(tmp_path / f"{index}" / "x.jsonl")
        for index in range(change_scanner.MAX_RECENT_PATHS + 20)
    ]
    for index, file in enumerate(files):
        os.utime(file, (index + 1, index + 1))
        os.utime(file.parent, (index + 1, index + 1))
    scanner = ChangeScanner([WatchedPath(tmp_path, "*.jsonl")])
    scanner.scan_all()
    with files[0].open("a") as file_:
        file_.write("more\n")
    assert scanner.scan_recent() == []
    assert scanner.scan_all() == [files[0]]
    write(files[0])
    assert scanner.scan_recent() == [files[0]]


def test_scan_watches_a_single_file_before_it_exists(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    scanner = ChangeScanner(
        [WatchedPath(path), WatchedPath(tmp_path / "nowhere" / "folder", "*.jsonl")]
    )
    assert scanner.scan_all() == []
    write(path)
    assert scanner.scan_recent() == [path]
    write(tmp_path / "other.jsonl")
    assert scanner.scan_all() == []


def test_scan_treats_a_changed_wal_as_a_changed_database(tmp_path: Path) -> None:
    path = write(tmp_path / "opencode.db")
    scanner = ChangeScanner([WatchedPath(tmp_path, "opencode*.db")])
    assert scanner.scan_all() == [path]
    write(tmp_path / "opencode.db-wal")
    assert scanner.scan_recent() == [path]


def test_scan_skips_folder_links_and_missing_files(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    first = write(folder / "1.jsonl")
    (folder / "round").symlink_to(folder)
    (folder / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    scanner = ChangeScanner([WatchedPath(folder, "*.jsonl")])
    assert scanner.scan_all() == [first]
    first.unlink()
    assert scanner.scan_recent() == []
    assert scanner.scan_all() == []
