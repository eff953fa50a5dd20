"""The tool `ls`."""

import os
from pathlib import Path

import pytest

from harken.world.files.tools import MAX_LISTED_ENTRIES
from tests.unit.world.files.filing import Desk, fill


@pytest.mark.req("S4-40")
def test_entries_have_their_kind_and_size_in_order(tmp_path: Path) -> None:
    fill(
        tmp_path, {"b.txt": "x" * 3400, "a/c.txt": "", ".hidden": "", os.fsdecode(b"caf\xe9"): "x"}
    )
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("nowhere")
    assert Desk(tmp_path).run("ls").split("\n") == [
        ".hidden  0 bytes", "a/", "b.txt  3.4 kB", r"caf\xe9  1 byte", "link -> nowhere",
        "pipe  a FIFO",
    ]  # fmt: skip


def test_a_folder_is_listed_by_its_path(tmp_path: Path) -> None:
    fill(tmp_path, {"a/c.txt": "x"})
    (tmp_path / "empty").mkdir()
    desk = Desk(tmp_path)
    assert desk.run("ls", path="a") == "c.txt  1 byte"
    assert desk.run("ls", path="empty") == "[the folder is empty]"


def test_what_is_no_folder_says_so(tmp_path: Path) -> None:
    fill(tmp_path, {"a.txt": "x"})
    desk = Desk(tmp_path)
    assert desk.failure("ls", path="a.txt") == "a.txt: not a directory"
    assert desk.failure("ls", path="b.txt").endswith("similar: a.txt")
    assert "outside" in desk.failure("ls", path="/")


def test_a_large_folder_is_cut(tmp_path: Path) -> None:
    for n in range(MAX_LISTED_ENTRIES + 5):
        (tmp_path / f"{n:05}").touch()
    lines = Desk(tmp_path).run("ls").split("\n")
    assert len(lines) == MAX_LISTED_ENTRIES + 1
    assert lines[-1].startswith(f"[the first {MAX_LISTED_ENTRIES} of {MAX_LISTED_ENTRIES + 5}")
