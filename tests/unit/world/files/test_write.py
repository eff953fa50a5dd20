"""The tools `write` and `edit` on a file system: all or nothing, and nothing else is touched."""

import asyncio
import os
import stat
import threading
import time
from pathlib import Path

import pytest

from harken.world.files.regular_file import MAX_FILE_BYTES, create, hash_of, replace
from harken.world.files.root import Root
from harken.world.files.tools import run_to_completion
from harken.world.result import ToolError
from tests.unit.world.files.filing import DENIED, Desk, fill


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.req("S4-40")
def test_a_new_file_is_made_with_the_folders_above_it(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    assert desk.run("write", path="a/b/c.txt", content="héllo\n") == "Created a/b/c.txt: 1 line"
    assert (tmp_path / "a/b/c.txt").read_bytes() == "héllo\n".encode()
    assert names(tmp_path / "a/b") == ["c.txt"]


@pytest.mark.req("S4-41")
def test_what_was_written_is_known(tmp_path: Path) -> None:
    meta = Desk(tmp_path).meta("write", path="a.txt", content="x")
    assert meta == {"files": {"a.txt": hash_of(b"x")}}


def test_a_new_file_has_the_mode_that_any_new_file_has(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    Desk(tmp_path).run("write", path="a.txt", content="x")
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "a.txt")}
    assert len(modes) == 1


@pytest.mark.req("S4-43")
def test_a_file_that_nobody_has_read_is_not_overwritten(tmp_path: Path) -> None:
    fill(tmp_path, {"a.txt": "precious"})
    desk = Desk(tmp_path)
    assert "you have not read it" in desk.failure("write", path="a.txt", content="x")
    assert "you have not read it" in desk.failure(
        "edit", path="a.txt", old_string="precious", new_string="x"
    )
    assert (tmp_path / "a.txt").read_text() == "precious"
    assert names(tmp_path) == ["a.txt"]


def test_a_file_may_be_deep_down(tmp_path: Path) -> None:
    made = Desk(tmp_path).run("write", path="a/" * 255 + "x", content="x")
    assert made.endswith(": 1 line")
    assert (tmp_path / ("a/" * 255 + "x")).read_text() == "x"


def test_what_cannot_be_a_file_says_so(tmp_path: Path) -> None:
    fill(tmp_path, {"src/a.txt": "x"})
    os.mkfifo(tmp_path / "pipe")
    desk = Desk(tmp_path)
    assert "is a folder" in desk.failure("write", path="src", content="x")
    assert "is a folder" in desk.failure("write", path="new/", content="x")
    assert "is not a folder" in desk.failure("write", path="src/a.txt/b", content="x")
    assert "a FIFO" in desk.failure("write", path="pipe", content="x")
    assert "a FIFO" in desk.failure("edit", path="pipe", old_string="x", new_string="y")
    assert "nope does not exist" in desk.failure(
        "edit", path="nope", old_string="x", new_string="y"
    )
    assert "lone surrogate" in desk.failure("write", path="b", content="\udc00")
    assert "too large" in desk.failure("write", path="b", content="x" * (MAX_FILE_BYTES + 1))
    assert "too long" in desk.failure("write", path="n" * 300, content="x")
    assert "too deep" in desk.failure("write", path="a/" * 2000 + "x", content="x")
    assert names(tmp_path) == ["pipe", "src"]


def test_a_file_too_large_to_be_known_is_not_changed(tmp_path: Path) -> None:
    fill(tmp_path, {"a.txt": b"x" * (MAX_FILE_BYTES + 1)})
    desk = Desk(tmp_path)
    assert "too large" in desk.failure("write", path="a.txt", content="x")
    assert "too large" in desk.failure("edit", path="a.txt", old_string="x", new_string="y")


def test_a_change_that_nobody_waits_for_is_waited_for() -> None:
    """What goes on after it was cancelled would meet the next change."""
    begun, done = threading.Event(), threading.Event()

    def change() -> None:
        begun.set()
        time.sleep(0.1)
        done.set()
        raise ValueError("also where it fails")

    async def cancelled() -> None:
        changing = asyncio.create_task(run_to_completion(change))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        changing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await changing
        assert done.is_set()

    asyncio.run(cancelled())


def test_a_dangling_symlink_makes_no_file_outside(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/link").symlink_to(tmp_path / "out.txt")
    assert "outside" in Desk(tmp_path / "in").failure("write", path="link", content="x")
    assert names(tmp_path) == ["in"]


def test_a_symlink_within_stays_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target.txt")
    Desk(tmp_path).run("write", path="link", content="x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target.txt").read_text() == "x"


def test_a_replaced_file_keeps_its_mode_and_owner(tmp_path: Path) -> None:
    fill(tmp_path, {"run.sh": "old"})
    path = tmp_path / "run.sh"
    path.chmod(0o751)
    if os.geteuid() == 0:
        os.chown(path, 1234, 1235)
    before = path.stat()
    replace(Root(tmp_path), path, b"new", hash_of(b"old"))
    after = path.stat()
    assert path.read_text() == "new"
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode, before.st_uid, before.st_gid,
    )  # fmt: skip
    assert after.st_mtime_ns >= before.st_mtime_ns
    assert names(tmp_path) == ["run.sh"]


def test_another_hard_link_keeps_the_old_content(tmp_path: Path) -> None:
    fill(tmp_path, {"outside": "old"})
    (tmp_path / "in").mkdir()
    os.link(tmp_path / "outside", tmp_path / "in/a")
    replace(Root(tmp_path / "in"), tmp_path / "in/a", b"new", hash_of(b"old"))
    assert (tmp_path / "outside").read_text() == "old"


def test_a_file_that_is_no_longer_what_was_expected_is_left_alone(tmp_path: Path) -> None:
    fill(tmp_path, {"a.txt": "theirs"})
    with pytest.raises(ToolError, match="was changed by another process"):
        replace(Root(tmp_path), tmp_path / "a.txt", b"mine", hash_of(b"what I read"))
    assert (tmp_path / "a.txt").read_text() == "theirs"
    assert names(tmp_path) == ["a.txt"]


def test_a_file_that_appeared_meanwhile_is_left_alone(tmp_path: Path) -> None:
    fill(tmp_path, {"a.txt": "theirs"})
    with pytest.raises(ToolError, match="was created by another process"):
        create(Root(tmp_path), tmp_path / "a.txt", b"mine")
    assert (tmp_path / "a.txt").read_text() == "theirs"
    assert names(tmp_path) == ["a.txt"]


def test_of_many_that_make_one_file_one_does(tmp_path: Path) -> None:
    made: list[int] = []

    def make(number: int) -> None:
        try:
            create(Root(tmp_path), tmp_path / "a.txt", b"%d" % number)
        except ToolError:
            return
        made.append(number)

    threads = [threading.Thread(target=make, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [int((tmp_path / "a.txt").read_text())]


def test_nobody_ever_sees_half_a_content(tmp_path: Path) -> None:
    contents = [letter * 1_000_000 for letter in (b"a", b"b")]
    fill(tmp_path, {"a.txt": contents[0]})
    path, done, seen = tmp_path / "a.txt", threading.Event(), set()

    def look() -> None:
        while not done.is_set():
            seen.add(path.read_bytes())

    looking = threading.Thread(target=look)
    looking.start()
    for n in range(10):
        old, new = contents[n % 2], contents[(n + 1) % 2]
        replace(Root(tmp_path), path, new, hash_of(old))
    done.set()
    looking.join()
    assert seen <= set(contents)


@DENIED
def test_what_may_not_be_written_says_so(tmp_path: Path) -> None:
    fill(tmp_path, {"a.txt": "old", "sub/b.txt": "old"})
    (tmp_path / "a.txt").chmod(0o444)
    (tmp_path / "sub").chmod(0o555)
    root = Root(tmp_path)
    with pytest.raises(ToolError, match="read-only"):
        replace(root, tmp_path / "a.txt", b"new", hash_of(b"old"))
    with pytest.raises(ToolError, match="permission denied"):
        replace(root, tmp_path / "sub/b.txt", b"new", hash_of(b"old"))
    with pytest.raises(ToolError, match="permission denied"):
        create(root, tmp_path / "sub/c.txt", b"new")
    (tmp_path / "sub").chmod(0o755)


def test_a_full_disk_leaves_the_old_content(tmp_path: Path) -> None:
    """A limit on the size of files fails a write as a full disk does, in the middle."""
    import resource
    import signal

    fill(tmp_path, {"a.txt": "old"})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(ToolError, match="file too large"):
            replace(Root(tmp_path), tmp_path / "a.txt", b"x" * 200_000, hash_of(b"old"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert (tmp_path / "a.txt").read_text() == "old"
    assert names(tmp_path) == ["a.txt"]
