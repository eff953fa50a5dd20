"""What a person sees of a change before it happens."""

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harken.world.files.diff import diff


def test_a_small_change_of_a_large_file_is_small() -> None:
    lines = [f"line {n}" for n in range(1, 100_001)]
    before = "\n".join(lines) + "\n"
    lines[49_999] = "other"
    text = diff("a.txt", before.encode(), ("\n".join(lines) + "\n").encode())
    assert text.split("\n") == [
        "--- a.txt", "+++ a.txt", "@@ -49997,7 +49997,7 @@",
        " line 49997", " line 49998", " line 49999", "-line 50000", "+other",
        " line 50001", " line 50002", " line 50003",
    ]  # fmt: skip


def test_a_new_file_is_shown_as_one() -> None:
    text = diff("a.txt", None, b"one\ntwo")
    assert text == "--- /dev/null\n+++ a.txt\n@@ -0,0 +1,2 @@\n+one\n+two\\ no newline at the end"


def test_line_ends_that_change_show() -> None:
    assert "-a\\r\n+a" in diff("a.txt", b"a\r\n", b"a\n")


def test_what_is_long_is_cut() -> None:
    text = diff("a.txt", None, b"x\n" * 1000)
    assert text.endswith("... and 801 more lines")
    assert len(diff("a.txt", b"", b"y" * 100_000)) < 1000


def test_what_differs_everywhere_is_not_compared() -> None:
    before, after = (f"{letter}\n".encode() * 5000 for letter in "ab")
    assert diff("a.txt", before, after).endswith("@@ lines 1 to 5000 are replaced by 5000 @@")


def test_what_is_no_text_is_counted() -> None:
    assert diff("a.bin", b"\0" * 2000, b"text") == "a.bin: 2.0 kB -> 4 bytes, not text"
    assert diff("a.bin", None, b"\0") == "a.bin: no file -> 1 byte, not text"


LINES = st.lists(st.sampled_from("abc"), max_size=30)


@pytest.mark.skipif(shutil.which("patch") is None, reason="needs patch")
@settings(max_examples=60)
@given(before=LINES, after=LINES)
def test_a_diff_applied_gives_the_new_content(
    tmp_path_factory: pytest.TempPathFactory, before: list[str], after: list[str]
) -> None:
    old, new = ("".join(f"{line}\n" for line in lines) for lines in (before, after))
    if old == new:
        return
    file = tmp_path_factory.mktemp("patch") / "a.txt"
    file.write_text(old)
    text = diff("a.txt", old.encode(), new.encode()) + "\n"
    assert "\0" not in text
    subprocess.run(["patch", "-s", str(file)], input=text, text=True, check=True)
    assert (file.read_text() if file.exists() else "") == new
