"""The tool `read`: numbered lines, images, and why something is neither."""

import asyncio
import os
import socket
import stat
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harken.core.messages import ImagePart, TextPart
from harken.world.files.line_window import DEFAULT_LINES, MAX_WINDOW_CHARS
from harken.world.files.regular_file import MAX_FILE_BYTES, hash_of
from tests.unit.formats.pictures import png
from tests.unit.world.files.filing import DENIED, Desk, fill


@contextmanager
def memory_below(size_bytes: int) -> Iterator[None]:
    """Check that no more memory than this is taken at any time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < size_bytes
    finally:
        tracemalloc.stop()


@pytest.mark.req("S4-40")
def test_lines_are_numbered_from_one(tmp_path: Path) -> None:
    fill(tmp_path, {"a.txt": "one\n\ttwo\n\nfour\n"})
    text = "     1\tone\n     2\t\ttwo\n     3\t\n     4\tfour"
    assert Desk(tmp_path).run("read", path="a.txt") == text


@pytest.mark.req("S4-41")
def test_a_result_says_which_content_it_shows(tmp_path: Path) -> None:
    fill(tmp_path, {"sub/a.txt": "one\n"})
    desk = Desk(tmp_path)
    assert desk.meta("read", path="sub/a.txt") == {"files": {"sub/a.txt": hash_of(b"one\n")}}
    assert desk.meta("read", path=f"{tmp_path}/sub/../sub/a.txt")["files"].keys() == {"sub/a.txt"}


def test_a_file_outside_that_is_allowed_has_an_absolute_name(tmp_path: Path) -> None:
    fill(tmp_path, {"in/x": "", "out/a.txt": "one\n"})
    desk = Desk(tmp_path / "in", allowed=[tmp_path / "out"])
    meta = desk.meta("read", path="../out/a.txt")
    assert meta["files"].keys() == {f"{tmp_path}/out/a.txt"}


def test_a_window_says_what_is_left_out_and_how_to_go_on(tmp_path: Path) -> None:
    fill(tmp_path, {"a.txt": "".join(f"line {n}\n" for n in range(1, 11))})
    desk = Desk(tmp_path)
    text = desk.run("read", path="a.txt", offset=4, limit=2)
    assert text == ("     4\tline 4\n     5\tline 5\n[lines 4 to 5 of 10; continue with offset=6]")
    assert desk.run("read", path="a.txt", offset=10) == "    10\tline 10"
    meta = desk.meta("read", path="a.txt", offset=4, limit=2)
    assert (meta["seen"], meta["lines"]) == ({"a.txt": [[4, 5]]}, {"a.txt": 10})


def test_by_default_there_is_an_end_to_it(tmp_path: Path) -> None:
    fill(tmp_path, {"short.txt": "x\n" * 5000, "long.txt": ("y" * 1000 + "\n") * 5000})
    desk = Desk(tmp_path)
    text = desk.run("read", path="short.txt")
    assert text.endswith(
        f"[lines 1 to {DEFAULT_LINES} of 5000; continue with offset={DEFAULT_LINES + 1}]"
    )
    assert len(desk.run("read", path="long.txt", limit=5000)) < MAX_WINDOW_CHARS + 1000


@pytest.mark.parametrize(("offset", "limit"), [(0, None), (-3, None), (1, 0), (None, -1)])
def test_offset_and_limit_count_from_one(tmp_path: Path, offset: int, limit: int) -> None:
    fill(tmp_path, {"a.txt": "x\n"})
    assert "1 or more" in Desk(tmp_path).failure("read", path="a.txt", offset=offset, limit=limit)


def test_an_offset_beyond_the_end_says_how_long_the_file_is(tmp_path: Path) -> None:
    fill(tmp_path, {"a.txt": "x\n" * 20})
    text = Desk(tmp_path).failure("read", path="a.txt", offset=10**12)
    assert "a.txt has 20 lines" in text


def test_a_long_line_is_cut_and_said_so(tmp_path: Path) -> None:
    fill(tmp_path, {"a.txt": "é" * 3000 + "\nshort\n" + "🙂" * 2000 + "\n"})
    desk = Desk(tmp_path)
    first, second, third, note = desk.run("read", path="a.txt").split("\n")
    assert first == "     1\t" + "é" * 2000 + " ..."
    assert second == "     2\tshort"
    assert third == "     3\t" + "🙂" * 2000
    assert note == "[1 line is longer than 2000 characters, truncated here]"
    assert desk.meta("read", path="a.txt")["seen"] == {"a.txt": []}


def test_only_line_feeds_end_lines(tmp_path: Path) -> None:
    fill(tmp_path, {"a.txt": "a\x0cb\u2028c\x85d\re\nf\n"})
    assert Desk(tmp_path).run("read", path="a.txt").endswith("d\re\n     2\tf")


def test_what_cannot_be_seen_is_said(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "crlf": b"\xef\xbb\xbfa\r\nb\r\n",
        "open": b"a",
        "latin": b"caf\xe9\n",
        "empty": b"",
    }
    fill(tmp_path, files)
    desk = Desk(tmp_path)
    shown = {name: desk.run("read", path=name) for name in files}
    assert shown["crlf"] == "     1\ta\n     2\tb\n[lines end with \\r\\n; `edit` keeps that]"
    assert shown["open"] == "     1\ta\n[no newline at the end]"
    assert shown["latin"].startswith("     1\tcaf\ufffd\n[not UTF-8")
    assert shown["empty"] == "[the file is empty]"
    assert desk.run("read", path="empty", offset=5) == "[the file is empty]"
    assert desk.meta("read", path="empty", offset=5) == {"files": {"empty": hash_of(b"")}}


def test_binary_files_say_what_they_are(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "a.pdf": b"%PDF-1.7 ...",
        "a.zip": b"PK\x03\x04\0\0",
        "a.bin": b"ab\0cd",
        "a.txt": "text".encode("utf-16"),
    }
    fill(tmp_path, files)
    said = [Desk(tmp_path).failure("read", path=name) for name in files]
    assert said[0] == "a.pdf is a PDF, 12 bytes: it is not text"
    assert "a zip archive" in said[1]
    assert "a binary file, 5 bytes" in said[2]
    assert "iconv" in said[3]


def test_a_folder_and_nothing_at_all_say_so(tmp_path: Path) -> None:
    fill(tmp_path, {"src/main.py": "x"})
    desk = Desk(tmp_path)
    assert desk.failure("read", path="src") == "src is a folder; use `ls` to list it"
    assert desk.failure("read", path="src/mian.py").endswith("similar: src/main.py")
    assert "src" in desk.failure("read", path="scr/main.py")
    assert desk.failure("read", path="src/main.py/x") == "src/main.py/x: not a directory"
    assert "too long" in desk.failure("read", path="n" * 300)


def test_special_files_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "sock"))
        desk = Desk(tmp_path, allowed=["/dev"])
        assert "a FIFO" in desk.failure("read", path="pipe")
        assert "a socket" in desk.failure("read", path="sock")
        assert "a device" in desk.failure("read", path="/dev/zero")
    (tmp_path / "link").symlink_to("pipe")
    assert "a FIFO" in desk.failure("read", path="link")


@DENIED
def test_what_may_not_be_read_says_so(tmp_path: Path) -> None:
    fill(tmp_path, {"a.txt": "x"})
    (tmp_path / "a.txt").chmod(0)
    assert Desk(tmp_path).failure("read", path="a.txt") == "a.txt: permission denied"


def test_a_name_of_any_bytes_can_be_read(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    fill(tmp_path, {name: "x\n"})
    desk = Desk(tmp_path)
    assert desk.run("read", path=r"caf\xe9.txt") == "     1\tx"
    assert desk.meta("read", path=r"caf\xe9.txt")["files"].keys() == {name}


def test_an_image_is_shown_as_one(tmp_path: Path) -> None:
    fill(tmp_path, {"a.png": png(30, 20)})
    content = Desk(tmp_path).content("read", path="a.png")
    assert isinstance(content, list)
    text, image = content
    assert isinstance(text, TextPart)
    assert isinstance(image, ImagePart)
    assert text.text.startswith("a.png: image/png, 30 x 20 pixels")
    assert text.meta == {"files": {"a.png": hash_of(png(30, 20))}}
    assert image.media_type == "image/png"


def test_an_image_that_a_provider_would_refuse_is_refused_here(tmp_path: Path) -> None:
    fill(
        tmp_path,
        {"cut.png": png(30, 20)[:-20], "wide.png": png(9000, 1), "odd.jpg": b"\xff\xd8\xff"},
    )
    fill(tmp_path, {"big.png": png(10, 10, padding=6_000_000)})
    desk = Desk(tmp_path)
    assert "damaged or incomplete" in desk.failure("read", path="cut.png")
    assert "damaged or incomplete" in desk.failure("read", path="odd.jpg")
    assert "too large" in desk.failure("read", path="wide.png")
    assert "create a smaller copy" in desk.failure("read", path="big.png")


def test_a_huge_file_is_read_no_further_than_needed(tmp_path: Path) -> None:
    """A gigabyte (a hole but for its ends) costs a few megabytes, and is not known."""
    with (tmp_path / "huge.log").open("wb") as file:
        file.write(b"".join(b"line %d\n" % n for n in range(1, 5001)))
        file.truncate(1 << 30)
    with memory_below(60_000_000):
        content = Desk(tmp_path).content("read", path="huge.log", offset=4000, limit=2)
    assert isinstance(content, list)
    [part] = content
    assert isinstance(part, TextPart)
    assert part.meta is None
    assert part.text.startswith("  4000\tline 4000\n  4001\tline 4001\n[lines 4000 to 4001 of more")
    assert "`edit` and `write` cannot change it" in part.text


def test_a_line_of_any_length_costs_no_memory(tmp_path: Path) -> None:
    with (tmp_path / "one.txt").open("wb") as file:
        file.write(b"x" * 10_000)
        file.truncate(200_000_000)
        file.seek(0, os.SEEK_END)
        file.write(b"\nlast\n")
    with memory_below(60_000_000):
        assert "     2\tlast\n" in Desk(tmp_path).run("read", path="one.txt")


def test_a_file_just_small_enough_is_known_and_one_byte_more_is_not(tmp_path: Path) -> None:
    fill(
        tmp_path,
        {"fits": b"x\n" * (MAX_FILE_BYTES // 2), "larger": b"x\n" * (MAX_FILE_BYTES // 2) + b"x"},
    )
    desk = Desk(tmp_path)
    assert desk.meta("read", path="fits")["lines"] == {"fits": MAX_FILE_BYTES // 2}
    assert desk.meta("read", path="larger") is None


def test_a_read_that_nobody_waits_for_ends(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.write(b"x" * 9000)
        file.truncate(1 << 40)
    tool = Desk(tmp_path).tools["read"]

    async def cancelled() -> None:
        reading = asyncio.create_task(tool.run({"path": "huge", "offset": 2}))
        await asyncio.sleep(0.05)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    asyncio.run(cancelled())


def test_reading_changes_nothing(tmp_path: Path) -> None:
    fill(tmp_path, {"a.txt": "x\n"})
    (tmp_path / "a.txt").chmod(0o640)
    before = (tmp_path / "a.txt").stat()
    Desk(tmp_path).run("read", path="a.txt")
    after = (tmp_path / "a.txt").stat()
    assert (after.st_mtime_ns, stat.S_IMODE(after.st_mode)) == (before.st_mtime_ns, 0o640)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
