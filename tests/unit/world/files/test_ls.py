"""The tool `ls`."""

import os
from pathlib import Path

import pytest

from harken.world.files.tools import MAX_LISTED_ENTRIES
from tests.unit.world.files.file_kit import FileTools, write_files


@pytest.mark.req("S4-40")
def test_ls_lists_entries_in_order_with_kind_and_size(tmp_path: Path) -> None:
    write_files(
        tmp_path, {"b.txt": "x" * 3400, "a/c.txt": "", ".hidden": "", os.fsdecode(b"caf\xe9"): "x"}
    )
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("nowhere")
    assert FileTools(tmp_path).run("ls").split("\n") == [
        ".hidden  0 bytes", "a/", "b.txt  3.4 kB", r"caf\xe9  1 byte", "link -> nowhere",
        "pipe  a FIFO",
    ]  # fmt: skip


def test_ls_lists_a_folder_by_its_path(tmp_path: Path) -> None:
    write_files(tmp_path, {"a/c.txt": "x"})
    (tmp_path / "empty").mkdir()
    desk = FileTools(tmp_path)
    assert desk.run("ls", path="a") == "c.txt  1 byte"
    assert desk.run("ls", path="empty") == "[the folder is empty]"


def test_ls_of_a_non_folder_is_an_error(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.txt": "x"})
    desk = FileTools(tmp_path)
    assert desk.failure("ls", path="a.txt") == "a.txt: not a directory"
    assert desk.failure("ls", path="b.txt").endswith("similar: a.txt")
    assert "outside" in desk.failure("ls", path="/")


def test_ls_truncates_a_large_folder(tmp_path: Path) -> None:
    for n in range(MAX_LISTED_ENTRIES + 5):
        (tmp_path / f"{n:05}").touch()
    lines = FileTools(tmp_path).run("ls").split("\n")
    assert len(lines) == MAX_LISTED_ENTRIES + 1
    assert lines[-1].startswith(f"[the first {MAX_LISTED_ENTRIES} of {MAX_LISTED_ENTRIES + 5}")
